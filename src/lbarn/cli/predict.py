"""``lbarn predict``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbarn.cli.options import Data, Header, Jobs, Model, Particles, Rows, Tolerance
from lbarn.cli.terminal import check_input, check_output, writing_rows

if TYPE_CHECKING:
    from lbarn._models.density import Density
    from lbarn._models.predicted import ConditionalDistribution

__all__ = ["predict"]


def predict(
    model: Model,
    data: Data,
    column: Annotated[
        str, typer.Option(metavar="NAME", help="What to predict; a name or a number.", show_default=False)
    ],
    quantiles: Annotated[
        str, typer.Option(metavar="Q,Q,...", help="Of a column of numbers or dates: shares between 0 and 1.")
    ] = "0.05,0.5,0.95",
    levels: Annotated[bool, typer.Option("--levels", help="The probability of every level, in a column each.")] = False,
    out: Rows = None,
    n_particles: Particles = 4000,
    tolerance: Tolerance = 0.001,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Predict a column from all others of each row, whatever it holds there; DATA need not have it.

    Of categories, the likeliest level and its probability; of numbers, the mean and quantiles.

    \b
    lbarn predict people.lbarn new.csv --column income -o predicted.csv
    lbarn predict people.lbarn new.csv --column age --quantiles 0.1,0.9
    """
    shares = _shares(quantiles)
    check_input(model, data)
    check_output(out, model, data, is_table=True)
    from lbarn.cli.data import input_rows, open_model

    opened = open_model(model, n_jobs, data)
    label, number = _column(opened, column)
    with input_rows(data, header, opened, "predicting", 5_000, optional=[number]) as rows:
        found = (opened.conditional(batch, label, n_particles=n_particles, tolerance=tolerance) for batch in rows)
        first = next(found)
        with writing_rows(out, list(_columns(first, shares, levels))) as output:
            output.write(_table(first, shares, levels))
            for own in found:
                output.write(_table(own, shares, levels))


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = [-1.0]
    if not all(0 <= share <= 1 for share in shares):
        raise ValueError(f"--quantiles: {text!r} is not like 0.05,0.5,0.95: shares between 0 and 1")
    return shares


def _column(model: Density, text: str) -> tuple[str | int, int]:
    """The label of a column, and its number."""
    from difflib import get_close_matches

    from lbarn._tables.table import some

    labels = list(model.table_format_.labels(model.n_features_in_))
    by_text = {str(label): (label, j) for j, label in enumerate(labels)}
    if text not in by_text:
        near = get_close_matches(text, by_text, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"its columns are {some(list(by_text))}"
        raise ValueError(f"--column: the model has no column {text!r}; {hint}")
    label, number = by_text[text]
    if number in model.codebook_.left_out:
        why = model.codebook_.left_out[number]
        raise ValueError(f"--column: {text!r} was left out of the model ({why}): it cannot be predicted")
    return label, number


def _columns(found: ConditionalDistribution, shares: list[float], levels: bool) -> dict[str, Any]:
    """What is predicted, by the name of the column that it goes to."""
    name = str(found.name)
    if levels:
        return {f"{name}={level}": found.probability[:, k] for k, level in enumerate(found.levels)}
    if found.kind in ("binary", "categorical"):
        return {name: found.mode(), "probability": found.probability.max(axis=1)}
    has_mean = found.kind != "datetime" and found.levels.dtype.kind in "iuf"
    columns: dict[str, Any] = {"mean": found.mean()} if has_mean else {name: found.mode()}
    return columns | {f"{100 * share:g}%": found.quantile_column(share).arrow() for share in shares}


def _table(found: ConditionalDistribution, shares: list[float], levels: bool) -> Any:
    import pyarrow as pa

    columns = _columns(found, shares, levels)
    return pa.table([pa.array(values) for values in columns.values()], names=list(columns))
