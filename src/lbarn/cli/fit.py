"""``lbarn fit``"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lbarn.cli.options import AsJson, Data, Header, Out, option_name, options_of, whole_number
from lbarn.cli.terminal import check_input, check_output, remark, say, show_json, tell, writing
from lbarn.parameters import LearnerParameters, NetworkParameters

if TYPE_CHECKING:
    from lbarn import LBARN, LBARNEnsemble
    from lbarn._tables.codebook import Codebook
    from lbarn._training.data import GivenRows
    from lbarn.cli.trainingdata import TrainingTables

__all__ = ["fit"]

_NOT_TUNED = LearnerParameters.data_parameters() - {"verbose"}  # what --tune takes, too
_KINDS = ("binary", "categorical", "ordered", "continuous", "datetime", "drop")
_SHOWN = 60  # columns


@options_of(NetworkParameters, skip={"warm_start", "verbose", "columns"}, defaults={"n_jobs": -1, "random_state": 0})
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
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=KIND",
            help=f"What a column is, if not as detected: {', '.join(_KINDS)}; may be given several times.",
            show_default=False,
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave this column out; may be given several times.", show_default=False),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Put this column last in the order: what it is, given all others, is then learned directly.",
            show_default=False,
        ),
    ] = None,
    ensemble: Annotated[
        int | None,
        typer.Option(
            metavar="INT",
            parser=whole_number(2, 1000),
            help="Mix so many orders of the columns, each the average of two networks (with --tune up to four): better, and takes as many "
            "times as long.",
            show_default=False,
        ),
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
    lbarn fit people.csv -o people.lbarn
    lbarn fit people.csv --column zip=categorical --drop name -o people.lbarn
    lbarn fit people.csv --target income --ensemble 8 -o people.lbarn
    lbarn fit train.parquet --valid valid.parquet -o model.lbarn
    lbarn fit big.npz --checkpoint run1 -o model.lbarn
    lbarn fit dataset:dna -o dna.lbarn
    lbarn fit train.csv --tune 5 -o model.lbarn
    lbarn fit train.csv --tune 20 --ensemble 8 -o model.lbarn
    """
    _check_options(context, tune, effort, target, ensemble)
    kinds = _kinds(column or ())
    check_input(data, valid, weights)
    check_output(out, data, valid, weights, like="model.lbarn")
    from lbarn import inspection
    from lbarn.cli.quality import judged
    from lbarn.cli.trainingdata import TrainingTables

    tables = TrainingTables.read(data, valid, weights, header=header, drop=drop or (), kinds=kinds)
    parameters = {**parameters, "columns": dict(tables.kinds) or None, "verbose": int(sys.stderr.isatty())}
    with warnings.catch_warnings(record=True) as heard, tables.errors():
        warnings.simplefilter("always", UserWarning)
        given = tables.given(_learner(parameters))
        orders = _orders(tables, given.book, target, ensemble, parameters)
        if not as_json:
            remark([*_columns_told(given, tables, drop or ()), ""])
        model = _fitted(tables, checkpoint, (tune, effort), ensemble, orders, parameters)
        quality = judged(model, given, tables)
    with writing(out):
        model.save(out, trim=trim)
    for text in _told(heard, parameters["max_iter"]):
        say(f"lbarn: warning: {text}")
    found = inspection.describe(model)
    if as_json:
        show_json(
            {
                "model": out,
                "rows": tables.rows.shape[0],
                "columns": found["columns"],
                "trees": _n_trees(found),
                "log_likelihood": _log_likelihood(found) | {"independent": quality.independent},
                "held_out": quality.model,
                "fingerprint": model.distribution.fingerprint().hex(),
                "table": [_plain(own) for own in model.columns_.to_dicts()],
            }
        )
    else:
        several = len(found.get("members", ())) > 1
        networks = f" in {len(found['members'])} networks" if several else ""
        say(f"{out}: {found['columns']:,} columns, {_n_trees(found):,} trees{networks}")
        tell(quality.lines())


def _check_options(
    context: typer.Context, minutes: float | None, effort: str, target: str | None, ensemble: int | None
) -> None:
    """Which options go together; --tune chooses the parameters: none may be given beside it."""

    def given(name: str) -> bool:
        source = context.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    if ensemble is not None and given("order"):
        raise ValueError("--ensemble has orders of its own; leave --order out")
    if target is not None and context.params["order"] not in ("given", "random"):
        raise ValueError("--target puts a column last in the given order, or in a random one; leave --order out")
    if minutes is None:
        if given("effort"):
            raise ValueError("--effort is for --tune MINUTES, which is missing")
        return
    if not 0 < minutes < float("inf"):
        raise ValueError(f"--tune: the minutes must be a number above 0, not {minutes:g}")
    names = ("checkpoint", "target", *(own.name for own in fields(NetworkParameters)))
    for name in names:
        if name not in _NOT_TUNED and given(name):
            raise ValueError(f"--tune and {option_name(name)} do not go together; leave one of them out")
    if effort == "thorough" and not find_spec("optuna"):
        raise ValueError("--effort thorough needs optuna: pip install 'lbarn[tune]'; or leave it out")


def _kinds(texts: Sequence[str]) -> dict[str, str]:
    """What --column says, by name."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, kind = text.rpartition("=")
        if not sign:
            raise ValueError(f"--column: {text!r} is not like NAME=KIND, such as age=ordered")
        if kind not in _KINDS:
            raise ValueError(f"--column: {name!r} cannot be {kind!r}; the kinds are {', '.join(_KINDS)}")
        if found.get(name, kind) != kind:
            raise ValueError(f"--column: {name!r} cannot be both {found[name]!r} and {kind!r}")
        found[name] = kind
    return found


def _learner(parameters: dict[str, Any]) -> Any:
    return LearnerParameters(**{own.name: parameters[own.name] for own in fields(LearnerParameters)})


def _orders(
    tables: TrainingTables, book: Codebook, target: str | None, ensemble: int | None, parameters: dict[str, Any]
) -> list[list[int]] | None:
    """The orders that end with the target, if there is one: one, or as many as there are networks."""
    if target is None:
        return None
    import numpy as np

    from lbarn._tables.table import some

    labels = [str(tables.table.label(int(j))) for j in book.taken]
    if target not in labels:
        left_out = [str(tables.table.label(j)) for j in book.left_out]
        why = "is left out" if target in left_out else f"is not there; the columns are {some(labels)}"
        raise ValueError(f"--target: the column {target!r} {why}")
    last = labels.index(target)
    others = np.delete(np.arange(len(labels)), last)
    rng = np.random.default_rng(parameters["random_state"])
    if ensemble is None and parameters["order"] == "given":
        return [[*others.tolist(), last]]
    return [[*rng.permutation(others).tolist(), last] for _ in range(ensemble or 1)]


def _fitted(
    tables: TrainingTables,
    checkpoint: str | None,
    tuning: tuple[float | None, str],
    ensemble: int | None,
    orders: list[list[int]] | None,
    parameters: dict[str, Any],
) -> LBARN | LBARNEnsemble:
    from lbarn import LBARN, LBARNEnsemble, tune

    rows: dict[str, Any] = {"X_val": tables.rows_val, "sample_weight": tables.weights}
    minutes, effort = tuning
    if minutes is not None:
        own = {name: parameters[name] for name in (*_NOT_TUNED, "verbose")}
        return tune(tables.rows, minutes=minutes, effort=effort, ensemble=ensemble, **rows, **own)
    if ensemble is not None:
        own = {field.name: parameters[field.name] for field in fields(LearnerParameters)}
        model = LBARNEnsemble(n_orders=ensemble, orders="auto" if orders is None else orders, **own)
        return model.fit(tables.rows, checkpoint=checkpoint, **rows)
    if orders is not None:
        parameters = {**parameters, "order": orders[0]}
    return LBARN(**parameters).fit(tables.rows, checkpoint=checkpoint, **rows)


def _columns_told(given: GivenRows, tables: TrainingTables, dropped: Sequence[str]) -> Iterator[str]:
    """What every column became, and why others are left out."""
    from lbarn._tables.columnlist import ColumnList

    book = given.book
    n_rows = tables.rows.shape[0]
    yield f"{tables.table.name}: {n_rows:,} rows"
    if book.is_binary and not book.left_out:
        yield f"{book.n_columns:,} columns of 0 and 1"
    else:
        yield from ColumnList.of(book, given.format).lines(_SHOWN, dict.fromkeys(tables.counting, "counts the rows"))
    if dropped:
        yield f"left out as asked: {', '.join(dropped)}"
    kept = [str(tables.table.label(j)) for j, why in book.left_out.items() if why != "as asked"]
    kept += map(str, tables.counting)
    if kept:
        yield f"what is left out can be kept: --column {kept[0]}={'ordered' if kept[0] in tables.counting else 'categorical'}"


def _told(heard: list[warnings.WarningMessage], max_iter: int) -> list[str]:
    """Warnings in the terms of the command line, each once; what is left out was said already."""
    texts = dict.fromkeys(str(own.message) for own in heard if issubclass(own.category, UserWarning))
    return [
        f"the validation log-likelihood is still rising at --max-iter {max_iter}: raise it, or --learning-rate, or take "
        "--learning-rate auto"
        if "still rising" in text
        else text
        for text in texts
        if "is left out" not in text
    ]


def _n_trees(found: dict[str, Any]) -> int:
    return sum(own["trees"]["selected"] for own in found.get("members", [found]))


def _log_likelihood(found: dict[str, Any]) -> dict[str, float]:
    return dict(found.get("log_likelihood", {}))


def _plain(column: dict[str, Any]) -> dict[str, Any]:
    """A column for JSON, which has no NaN."""
    return {name: None if value != value else value for name, value in column.items()}
