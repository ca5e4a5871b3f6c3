"""One column after the other predicted from all others: how far off that is, and whether its probabilities are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._models.calibration import Calibration, CalibrationTally, Cells
from lbarn._models.density import Density
from lbarn._models.predicted import ConditionalDistribution
from lbarn._tables.table import take_rows
from lbarn.report.tables.fit import log_marginal_cells
from lbarn.report.tables.rows import Field, Rows

__all__ = ["Guess", "Predictions", "marginal_of", "predictions"]

Floats = NDArray[np.float64]

_BUDGET = 3_000_000  # columns of rows that are evaluated
_ROWS, _FEWEST_ROWS = 300, 100  # on which a column is predicted
_UNKNOWN_ROWS = 40  # if other values are unknown, which takes Monte Carlo
_PARTICLES = 200
_TENTHS = 10


@dataclass(frozen=True)
class Guess:
    """How far off the likeliest level (share of rows) or the median of a number (on average) is: from all other columns, and
    without them."""

    column: int
    n_rows: int
    error: float
    alone: float


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of some columns. ``tenths`` counts the numbers in every tenth of their predicted distributions."""

    guesses: list[Guess]
    calibration: list[Calibration] | None  # of levels
    tenths: NDArray[np.intp] | None  # of numbers


def marginal_of(model: Density, field: Field) -> ConditionalDistribution:
    """The distribution of a column in all training rows."""
    return ConditionalDistribution(
        field.code, np.exp(log_marginal_cells(field.code))[None], model.table_format_, field.number
    )


def predictions(
    model: Density, X: Any, fields: Sequence[Field], columns: Sequence[int], rows: Rows, seed: int
) -> Predictions:
    """Of ``columns``, as many of them as there is time for."""
    costs = {j: fields[j].code.n_cells * len(fields) for j in columns}
    most = int(np.clip(_BUDGET / max(sum(costs.values()), 1), _FEWEST_ROWS, _ROWS))
    rng = np.random.default_rng([seed, 3])
    tally, any_level = CalibrationTally(), False
    tenths = np.zeros(_TENTHS, np.intp)
    guesses: list[Guess] = []
    spent = 0
    for j in columns:
        field = fields[j]
        there = np.flatnonzero(~rows.columns[j].missing)
        if not len(there):
            continue
        sure = there[~np.delete(rows.unknown[there], j, axis=1).any(axis=1)]
        unsure = len(sure) < min(_UNKNOWN_ROWS, len(there))
        there = there if unsure else sure
        n = min(len(there), _UNKNOWN_ROWS if unsure else most)
        spent += costs[j] * n
        if spent > _BUDGET and guesses:
            break
        chosen = rows.take(np.sort(rng.choice(there, n, replace=False)))
        ahead = model.conditional(take_rows(X, chosen.numbers), field.label, n_particles=_PARTICLES, random_state=seed)
        guesses.append(_guess(model, field, j, chosen, ahead))
        if field.numeric is None:
            tally.add(_level_cells(field, chosen, j, ahead))
            any_level = True
        elif field.levels is None:
            tenths += _tenths(field, chosen.cells[:, j], ahead, rng)
    return Predictions(guesses, tally.result() if any_level else None, tenths if tenths.sum() else None)


def _guess(model: Density, field: Field, j: int, rows: Rows, ahead: ConditionalDistribution) -> Guess:
    marginal = marginal_of(model, field)
    if field.levels is not None:
        cells = rows.cells[:, j]
        wrong = (float((one.mode_cells() != cells).mean()) for one in (ahead, marginal))
        return Guess(j, len(rows), *wrong)
    values = field.numbers(rows.columns[j])
    off = (float(np.mean(np.abs(field.numbers(one.filled_with("median")) - values))) for one in (ahead, marginal))
    return Guess(j, len(rows), *off)


def _level_cells(field: Field, rows: Rows, j: int, ahead: ConditionalDistribution) -> Cells:
    """Every level as a prediction of its own; of two, one is enough."""
    levels = field.level_numbers(rows.columns[j])
    seen = levels >= 0
    p = np.clip(ahead.probability[seen], 1e-12, 1 - 1e-12)
    happened = levels[seen, None] == np.arange(p.shape[1])
    if p.shape[1] == 2:
        p, happened = p[:, 1:], happened[:, 1:]
    surprise = -np.log(np.where(happened, p, 1 - p))
    return Cells(happened, np.ones_like(happened), surprise, 1.0)


def _tenths(
    field: Field, cells: NDArray[np.uint16], ahead: ConditionalDistribution, rng: np.random.Generator
) -> NDArray[np.intp]:
    """In which tenth of its predicted distribution each number is, at random inside its cell."""
    kept = np.flatnonzero(field.code.tree.present)
    upto = np.concatenate([np.zeros((len(cells), 1)), np.cumsum(ahead.probability, axis=1)], axis=1)
    upto /= upto[:, -1:]
    place = np.searchsorted(kept, cells)
    row = np.arange(len(cells))
    inside = (cells >= kept[0]) & (cells <= kept[-1])
    low = upto[row, np.minimum(place, len(kept))]
    high = upto[row, np.minimum(place + inside, len(kept))]
    share = low + (high - low) * rng.random(len(cells))
    return np.bincount(np.minimum((_TENTHS * share).astype(np.intp), _TENTHS - 1), minlength=_TENTHS)
