"""``lbarn impute`` and ``lbarn denoise``"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lbarn.cli.options import Data, Draws, Header, Jobs, Model, Particles, Rows, Seed, Tolerance
from lbarn.cli.terminal import check_input, check_output, say, writing_rows

if TYPE_CHECKING:
    from lbarn._models.density import Density
    from lbarn._tables.files import TableFile

__all__ = ["denoise", "impute"]

_BIT = typer.Option(help="A draw, the more probable value, or the probability of a 1.")
_VALUE = typer.Option(
    help="A draw; the likeliest value; the mean or median of numbers (of others the likeliest value); or probabilities, a line for "
    "each possible value of each empty cell (of a table of 0 and 1: the probability of a 1)."
)


def impute(
    model: Model,
    data: Data,
    out: Rows = None,
    output: Annotated[Literal["sample", "mode", "mean", "median", "probability"], _VALUE] = "sample",
    n_draws: Draws = 1,
    n_particles: Particles = 4000,
    tolerance: Tolerance = 0.001,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Fill the empty cells of every row. Columns that the model does not have stay as they are.

    \b
    lbarn impute people.lbarn holes.csv -o filled.csv
    lbarn impute people.lbarn holes.csv --output median -o filled.csv
    lbarn impute model.lbarn holes.csv --output probability > probabilities.csv
    """
    how = {"output": output, "n_draws": n_draws, "n_particles": n_particles, "tolerance": tolerance}
    _condition(model, data, out, header, n_jobs, random_state, **how)


def denoise(
    model: Model,
    data: Data,
    flip: Annotated[float, typer.Option(help="The probability that a value was flipped.", show_default=False)],
    out: Rows = None,
    output: Annotated[Literal["sample", "mode", "probability"], _BIT] = "mode",
    n_draws: Draws = 1,
    n_particles: Particles = 4000,
    tolerance: Tolerance = 0.035,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Restore rows of which some values were flipped.

    \b
    lbarn denoise model.lbarn noisy.csv --flip 0.05 -o clean.csv
    """
    if not 0 <= flip < 0.5:
        raise ValueError(f"--flip: a probability of at least 0 and below 0.5 is needed, not {flip:g}")
    how = {"flip": flip, "output": output, "n_draws": n_draws, "n_particles": n_particles, "tolerance": tolerance}
    _condition(model, data, out, header, n_jobs, random_state, **how)


def _condition(
    model: str, data: str, out: str | None, header: bool | None, n_jobs: int, random_state: int | None, **how: Any
) -> None:
    if how["n_draws"] > 1 and how["output"] != "sample":
        raise ValueError(f"--n-draws goes with --output sample only; there is one {how['output']} per value")
    check_input(model, data)
    check_output(out, model, data, is_table=True)
    import numpy as np

    from lbarn.cli.data import input_rows, open_model

    opened, seed = open_model(model, n_jobs, data), np.random.RandomState(random_state)
    is_binary = opened.codebook_.is_binary and not opened.codebook_.left_out
    answer, doing = (opened.denoise, "denoising") if "flip" in how else (opened.impute, "imputing")
    is_long = how["output"] == "probability" and not is_binary
    methods: Counter[str] = Counter()
    least = np.inf
    with (
        input_rows(data, header, opened, doing, most=1000, others=True) as rows,
        writing_rows(out, list(_LONG) if is_long else _names(opened, rows.table)) as output,
    ):
        for batch in rows:
            filled, diagnostics = answer(batch, random_state=seed, return_diagnostics=True, **how)
            if is_long:
                for part in _long(opened, batch, filled, rows.start):
                    output.write(part)
            else:
                draws = [filled] if how["n_draws"] == 1 else list(filled)
                output.write(_in_turn([_with_others(opened, batch, own) for own in draws]))
            methods.update(diagnostics["method"].tolist())
            least = min(least, float(diagnostics["effective_sample_size"].min()))
    line = "rows: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(methods.items()))
    say(line if np.isinf(least) else f"{line}; effective sample size at least {least:,.0f}")


def _names(model: Density, table: TableFile) -> list[str] | None:
    """Of the columns that are written: those of the file."""
    from lbarn.cli.data import names_of

    known = names_of(model)
    if known is None or table.names is not None:
        return None if known is None or table.names is None else list(table.names)
    return [known[j] for j in _modelled(model, table.n_columns)[0]]


def _modelled(model: Density, n_columns: int) -> tuple[list[int], list[int]]:
    """The model's numbers of the columns of a table that goes by position, and where in it the modelled ones are."""
    taken = model.codebook_.taken.tolist()
    numbers = list(range(model.n_features_in_)) if n_columns == model.n_features_in_ else taken
    return numbers, [numbers.index(j) for j in taken]


def _with_others(model: Density, batch: Any, filled: Any) -> Any:
    """Filled columns in the places that they had, and the others as they came."""
    import numpy as np
    import pyarrow as pa

    from lbarn.cli.data import names_of

    if not isinstance(batch, pa.Table):
        places = _modelled(model, batch.shape[1])[1]
        if len(places) == batch.shape[1]:
            return filled
        whole = np.array(batch if isinstance(batch, np.ndarray) else batch.toarray(), np.float64)
        whole[:, places] = filled
        return whole
    known = names_of(model)
    if known is None or batch.schema.metadata:  # it has no names
        places = _modelled(model, batch.num_columns)[1]
    else:
        places = [batch.schema.get_field_index(known[j]) for j in model.codebook_.taken]
    for k, place in enumerate(places):
        if isinstance(filled, pa.Table):
            field = filled.schema.field(k).with_name(batch.schema.names[place])
            batch = batch.set_column(place, field, filled.column(k))
        else:
            batch = batch.set_column(place, batch.schema.names[place], pa.array(filled[:, k]))
    return batch


def _in_turn(draws: list[Any]) -> Any:
    """The draws of a row one after the other."""
    if len(draws) == 1:
        return draws[0]
    import numpy as np
    import pyarrow as pa

    from lbarn._tables.table import take_rows

    order = np.arange(len(draws[0]) * len(draws)).reshape(len(draws), -1).T.ravel()
    joined = pa.concat_tables(draws) if isinstance(draws[0], pa.Table) else np.concatenate(draws)
    return take_rows(joined, order)


_LONG = ("row", "column", "value", "probability")


def _long(model: Density, batch: Any, found: dict[Any, Any], start: int) -> Iterator[Any]:
    """The values that empty cells may have: a line for each of them."""
    import numpy as np
    import pyarrow as pa

    from lbarn._tables.table import read_like

    labels = list(model.table_format_.labels(model.n_features_in_))
    table = read_like(batch, model.table_format_, model.n_features_in_, optional=model.codebook_.left_out)
    for label, chances in found.items():
        empty = np.flatnonzero(table.column(labels.index(label)).missing)
        levels = [str(level) for level in model.conditional(batch[:1], label).levels]
        n = len(levels)
        columns = [
            pa.array(np.repeat(empty + start, n)),
            pa.array([str(label)] * (n * len(empty)), pa.string()),
            pa.array(levels * len(empty), pa.string()),
            pa.array(chances[empty].ravel()),
        ]
        yield pa.table(columns, names=list(_LONG))
