"""``lbarn fit``"""

from __future__ import annotations

import sys
import warnings
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import typer

from lbarn.cli.options import AsJson, Data, Header, Jobs, Out, Seed
from lbarn.cli.terminal import check_input, check_output, say, show_json, writing

__all__ = ["fit"]


def fit(
    context: typer.Context,
    data: Data,
    out: Out,
    valid: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Validation rows; else a part of DATA is held out.", show_default=False),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A weight for every row of DATA, one per line.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER", help="Keeps finished columns: the same command continues there.", show_default=False
        ),
    ] = None,
    tune: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="Choose the parameters on the validation rows, in so many minutes.",
            show_default=False,
        ),
    ] = None,
    effort: Annotated[
        Literal["fast", "thorough"],
        typer.Option(help="With --tune: one parameter after the other, or then all together (needs optuna)."),
    ] = "fast",
    max_leaf_nodes: Annotated[str, typer.Option(metavar="N|auto|auto-each", help="Leaves per tree.")] = "16",
    learning_rate: Annotated[str, typer.Option(metavar="RATE|auto", help="Shrinkage.")] = "0.02",
    max_iter: Annotated[int, typer.Option(help="Trees per column.")] = 1000,
    selection: Annotated[
        Literal["individual", "common", "linearized", "linearized-backward"],
        typer.Option(help="How the number of trees per column is chosen."),
    ] = "individual",
    order: Annotated[
        str,
        typer.Option(help="given, random, entropy-decreasing, entropy-increasing, or the columns' numbers: 2,0,1."),
    ] = "given",
    init: Annotated[
        Literal["half", "prior", "linear"],
        typer.Option(help="Start at 1/2, at the base rate, or at a logistic regression."),
    ] = "half",
    boosting: Annotated[Literal["newton", "gradient"], typer.Option(help="Objective of the splits.")] = "newton",
    splits: Annotated[Literal["fast", "exact"], typer.Option(help="On rounded sums, or on 24-bit ones.")] = "fast",
    split_bits: Annotated[int, typer.Option(help="Bits of a rounded gradient, 2 to 6.")] = 6,
    min_gain: Annotated[float, typer.Option(help="A split must gain more than this.")] = 0.0,
    l2_regularization: Annotated[float, typer.Option(help="Added to the hessian of every leaf.")] = 0.0,
    max_features: Annotated[float, typer.Option(help="Share of the columns that a tree may split on.")] = 1.0,
    refit: Annotated[bool, typer.Option("--refit", help="Renew the leaves on training and validation rows.")] = False,
    n_iter_no_change: Annotated[
        int | None, typer.Option(help="Stop a column that has not improved for so many rounds.", show_default=False)
    ] = None,
    validation_fraction: Annotated[float, typer.Option(help="Share of the rows held out.")] = 0.2,
    binarize: Annotated[
        float | None, typer.Option(help="Threshold: values above it are 1.", show_default=False)
    ] = None,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    trim: Annotated[bool, typer.Option("--trim", help="Save the selected trees only: a smaller file.")] = False,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Learn the distribution of the rows of DATA and save it.

    \b
    lbarn fit train.csv -o model.lbarn
    lbarn fit train.parquet --valid valid.parquet --refit -o model.lbarn
    lbarn fit big.npz --checkpoint run1 --random-state 0 -o model.lbarn
    lbarn fit dataset:dna -o dna.lbarn
    lbarn fit train.csv --tune 5 -o model.lbarn
    """
    _check_tuning(context, tune, effort)
    check_output(out)
    check_input(data, valid, weights)
    leaves = (
        max_leaf_nodes if max_leaf_nodes in ("auto", "auto-each") else _number("--max-leaf-nodes", max_leaf_nodes, int)
    )
    rate = "auto" if learning_rate == "auto" else _number("--learning-rate", learning_rate, float)
    own_order = [_number("--order", j, int) for j in order.split(",")] if "," in order else order
    from lbarn.cli.openedmodel import aligned, read, read_weights, with_names

    table = read(data, header, default_part="train")
    table.check(binarize)
    if valid is None and data.startswith("dataset:") and "/" not in data:
        valid = f"{data}/valid"
    n, d = table.values.shape
    table_valid = None if valid is None else aligned(read(valid, header, d), table.names, d)
    if table_valid is not None:
        table_valid.check(binarize)
    row_weights = None if weights is None else read_weights(weights, n)
    from lbarn import inspection
    from lbarn._models.lbarn import LBARN

    values, values_val = table.values, None if table_valid is None else table_valid.values
    verbose = int(sys.stderr.isatty())
    model = LBARN(
        max_leaf_nodes=leaves,
        learning_rate=rate,
        max_iter=max_iter,
        selection=selection,
        order=own_order,
        init=init,
        boosting=boosting,
        splits=splits,
        split_bits=split_bits,
        min_gain=min_gain,
        l2_regularization=l2_regularization,
        max_features=max_features,
        refit=refit,
        n_iter_no_change=n_iter_no_change,
        validation_fraction=validation_fraction,
        binarize=binarize,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
    )
    with warnings.catch_warnings(record=True) as heard:
        warnings.filterwarnings("always", "validation log-likelihood is still rising")
        try:
            if tune is None:
                model.fit(values, X_val=values_val, sample_weight=row_weights, checkpoint=checkpoint)
            else:
                from lbarn._models.tuning import tune as tuned

                model = tuned(
                    values,
                    values_val,
                    minutes=tune,
                    effort=effort,
                    random_state=random_state,
                    sample_weight=row_weights,
                    validation_fraction=validation_fraction,
                    binarize=binarize,
                    n_jobs=n_jobs,
                    verbose=verbose,
                )
        except ValueError as error:
            raise ValueError(f"{data}: {str(error).replace('X_val', '--valid')}") from error
    model = with_names(model, table.names)
    with writing(out):
        model.save(out, trim=trim)
    if heard:
        say(
            f"lbarn: warning: the validation log-likelihood is still rising at --max-iter {max_iter}: raise it, or "
            "--learning-rate, or take --learning-rate auto"
        )
    found = inspection.describe(model)
    score = found["log_likelihood"]
    if as_json:
        show_json(
            {
                "model": out,
                "rows": n,
                "columns": found["columns"],
                "trees": found["trees"]["selected"],
                "log_likelihood": score,
                "fingerprint": found["fingerprint"],
            }
        )
    else:
        say(
            f"{out}: {found['columns']:,} columns, {found['trees']['selected']:,} trees, log-likelihood "
            f"{score['valid']:.4f} nats per validation row ({score['train']:.4f} in training)"
        )


_TUNED = (
    "max_leaf_nodes",
    "learning_rate",
    "max_iter",
    "selection",
    "order",
    "init",
    "boosting",
    "splits",
    "split_bits",
    "min_gain",
    "l2_regularization",
    "max_features",
    "n_iter_no_change",
    "refit",
    "checkpoint",
)


def _check_tuning(context: typer.Context, minutes: float | None, effort: str) -> None:
    """--tune chooses the parameters: none may be given beside it."""

    def given(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    if minutes is None:
        if given("effort"):
            raise ValueError("--effort is for --tune MINUTES, which is missing")
        return
    if not 0 < minutes < float("inf"):
        raise ValueError(f"--tune: the minutes must be a number above 0, not {minutes:g}")
    for name in _TUNED:
        if given(name):
            raise ValueError(f"--tune and --{name.replace('_', '-')} do not go together; leave one of them out")
    if effort == "thorough" and not find_spec("optuna"):
        raise ValueError("--effort thorough needs optuna: pip install 'lbarn[tune]'; or leave it out")


def _number(option: str, text: str, kind: type[int] | type[float]) -> Any:
    try:
        return kind(text)
    except ValueError:
        what = "whole number" if kind is int else "number"
        raise ValueError(f"{option}: {text!r} is not a {what}") from None
