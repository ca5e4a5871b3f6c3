"""The least likely rows, and what is strange about each, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._models.density import Density
from lbarn._models.predicted import ConditionalDistribution
from lbarn._models.wording import CENTRAL, NOTABLE, Expectation
from lbarn._tables.table import take_rows
from lbarn.report.tables.fit import Surprise, surprise_of
from lbarn.report.tables.predictions import marginal_of
from lbarn.report.tables.rows import Field, Rows, read_rows, told

__all__ = ["Reason", "Strange", "StrangeRow", "strange_rows"]

Floats = NDArray[np.float64]

_STRANGE, _REASONS, _CANDIDATES = 8, 3, 4
_UNLIKELY, _RARE = 0.1, 0.05  # a level given the rest of the row; any value in all rows
_PARTICLES = 200


@dataclass(frozen=True)
class Reason:
    """A value, and what would have been expected instead."""

    column: int
    value: str | None  # None for an empty cell
    expected: str  # a clause, empty if it is the combination of several values that is strange
    nats: float  # by how much it is more surprising than values of the column are


@dataclass(frozen=True)
class StrangeRow:
    row: int
    score: float
    reasons: list[Reason]


@dataclass(frozen=True, eq=False)
class Strange:
    scores: Floats  # log p of the cells of all rows: exact numbers inside their cells do not count
    rows: list[StrangeRow]


def strange_rows(
    model: Density,
    X: Any,
    fields: Sequence[Field],
    scores: Floats,
    numbers: NDArray[np.intp],
    usual: Surprise,
    seed: int,
) -> Strange:
    """The rows with the lowest scores, which are those of the rows ``numbers``; ``usual`` is what values of other rows have."""
    lowest = numbers[np.argsort(scores, kind="stable")[:_STRANGE]]
    rows = read_rows(model, X, lowest)
    surprise = surprise_of(model, fields, rows, seed)
    mean = usual.mean()[1]
    excess = np.where(surprise.known, surprise.model - mean, -np.inf)
    wanted: dict[int, list[int]] = {}
    for i, own in enumerate(excess):
        for j in np.argsort(-own, kind="stable")[:_CANDIDATES].tolist():
            if own[j] > NOTABLE:
                wanted.setdefault(j, []).append(i)
    found: list[list[Reason]] = [[] for _ in lowest]
    for j, own_rows in wanted.items():
        chosen = rows.take(np.array(own_rows))
        own_surprise, own_excess = surprise.model[own_rows, j], excess[own_rows, j]
        clauses = _clauses(model, X, fields[j], j, chosen, own_surprise, seed)
        for i, clause, text, nats in zip(own_rows, clauses, fields[j].texts(chosen.columns[j]), own_excess.tolist()):
            found[i].append(Reason(j, text, clause, nats))
    by_number = dict(zip(numbers.tolist(), scores.tolist()))
    return Strange(
        scores, [StrangeRow(row, by_number[row], _strongest(own)) for row, own in zip(lowest.tolist(), found)]
    )


def _strongest(reasons: list[Reason]) -> list[Reason]:
    """Those that say what was expected; if there are none, the values that make the combination."""
    reasons = sorted(reasons, key=lambda reason: -reason.nats)
    return ([reason for reason in reasons if reason.expected] or reasons)[:_REASONS]


def _clauses(model: Density, X: Any, field: Field, j: int, rows: Rows, surprise: Floats, seed: int) -> list[str]:
    """What was expected of a column in each row; nothing if its value is not strange by itself."""
    code, column, cells = field.code, rows.columns[j], rows.cells[:, j]
    ahead = model.conditional(take_rows(X, rows.numbers), field.label, n_particles=_PARTICLES, random_state=seed)
    marginal = marginal_of(model, field)
    chances = _chance(field, ahead, rows, j), _chance(field, marginal, rows, j)
    here, usually = (Expectation(code, own, column, lambda value: told(value, code)) for own in (ahead, marginal))
    found = []
    for i in range(len(column)):
        if column.missing[i]:
            found.append("a value was expected" if np.exp(-surprise[i]) < _UNLIKELY else "")
        elif not code.tree.drawn[cells[i]]:
            never = "no training row had this level" if field.numeric is None else ""
            found.append(never or f"training rows had {field.told_range()}")
        elif chances[0][i] < (_UNLIKELY if field.numeric is None else 1 - CENTRAL):
            found.append(f"expected {here.words(i)}")
        elif chances[1][i] < _RARE:
            found.append(f"most rows have {usually.words(i)}")
        else:
            found.append("")
    return found


def _chance(field: Field, ahead: ConditionalDistribution, rows: Rows, j: int) -> Floats:
    """The probability of a level, or of a number that is at least as far out; what it is for an empty cell does not matter."""
    p = ahead.probability
    row = np.arange(len(rows)) if len(p) == len(rows) else np.zeros(len(rows), np.intp)
    if field.numeric is None:
        return p[row, np.maximum(field.level_numbers(rows.columns[j]), 0)]
    kept = np.flatnonzero(field.code.tree.present)
    place = np.minimum(np.searchsorted(kept, rows.cells[:, j]), len(kept) - 1)
    upto = np.cumsum(p, axis=1)
    below, own = upto[row, place], p[row, place]
    return np.minimum(1.0, 2 * np.minimum(below, 1.0 - below + own))
