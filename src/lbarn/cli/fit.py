"""``lbarn fit``"""

from __future__ import annotations

import sys
import warnings
from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lbarn.cli.options import AsJson, Data, Header, Out, option_name, options_of
from lbarn.cli.terminal import check_input, check_output, say, show_json, writing
from lbarn.parameters import NetworkParameters

if TYPE_CHECKING:
    from lbarn import LBARN
    from lbarn.cli.trainingdata import TrainingTables

__all__ = ["fit"]

_NOT_TUNED = {"binarize", "n_jobs", "random_state", "validation_fraction"}  # what --tune takes, too


@options_of(NetworkParameters, skip={"warm_start", "verbose"}, defaults={"n_jobs": -1, "random_state": 0})
def fit(
    context: typer.Context,
    data: Data,
    out: Out,
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Validation rows; by default a part of DATA is held out.", show_default=False
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A weight for every row of DATA, one per line.", show_default=False),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave this column out; may be given several times.", show_default=False),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Keeps finished columns: the same command continues from there.",
            show_default=False,
        ),
    ] = None,
    tune: Annotated[
        float | None,
        typer.Option(
            metavar="MINUTES",
            help="Choose the parameters on the validation rows, within this many minutes.",
            show_default=False,
        ),
    ] = None,
    effort: Annotated[
        Literal["fast", "thorough"],
        typer.Option(help="With --tune: one parameter after the other, or then all together (needs optuna)."),
    ] = "fast",
    *,
    trim: Annotated[bool, typer.Option("--trim", help="Save the selected trees only: a smaller file.")] = False,
    header: Header = None,
    as_json: AsJson = False,
    **parameters: Any,
) -> None:
    """Learn the distribution of the rows of DATA and save it.

    \b
    lbarn fit train.csv -o model.lbarn
    lbarn fit train.parquet --valid valid.parquet --refit -o model.lbarn
    lbarn fit train.csv --drop id --drop date -o model.lbarn
    lbarn fit big.npz --checkpoint run1 -o model.lbarn
    lbarn fit dataset:dna -o dna.lbarn
    lbarn fit train.csv --tune 5 -o model.lbarn
    """
    _check_tuning(context, tune, effort)
    check_input(data, valid, weights)
    check_output(out, data, valid, weights)
    from lbarn import inspection
    from lbarn.cli.trainingdata import TrainingTables

    tables = TrainingTables.read(data, valid, weights, header=header, drop=drop or ())
    with warnings.catch_warnings(record=True) as heard, tables.errors():
        warnings.simplefilter("always", UserWarning)
        model = _fitted(tables, checkpoint, tune, effort, {**parameters, "verbose": int(sys.stderr.isatty())})
    with writing(out):
        model.save(out, trim=trim)
    for text in _told(heard, parameters["max_iter"]):
        say(f"lbarn: warning: {text}")
    found = inspection.describe(model)
    score = found["log_likelihood"]
    if as_json:
        show_json(
            {
                "model": out,
                "rows": tables.rows.shape[0],
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
    for name in ("checkpoint", *(own.name for own in fields(NetworkParameters) if own.name not in _NOT_TUNED)):
        if given(name):
            raise ValueError(f"--tune and {option_name(name)} do not go together; leave one of them out")
    if effort == "thorough" and not find_spec("optuna"):
        raise ValueError("--effort thorough needs optuna: pip install 'lbarn[tune]'; or leave it out")


def _fitted(
    tables: TrainingTables, checkpoint: str | None, minutes: float | None, effort: str, parameters: dict[str, Any]
) -> LBARN:
    from lbarn import LBARN, tune

    rows: dict[str, Any] = {"X_val": tables.rows_val, "sample_weight": tables.weights}
    if minutes is None:
        return LBARN(**parameters).fit(tables.rows, checkpoint=checkpoint, **rows)
    own = {name: parameters[name] for name in (*_NOT_TUNED, "verbose")}
    return tune(tables.rows, minutes=minutes, effort=effort, **rows, **own)


def _told(heard: list[warnings.WarningMessage], max_iter: int) -> list[str]:
    """Warnings in the terms of the command line, each once."""
    texts = dict.fromkeys(str(own.message) for own in heard if issubclass(own.category, UserWarning))
    return [
        f"the validation log-likelihood is still rising at --max-iter {max_iter}: raise it, or --learning-rate, or take "
        "--learning-rate auto"
        if "still rising" in text
        else text
        for text in texts
    ]
