"""What was expected of a value, in words: for anomalies, the command that lists them, and the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lbarn._models.predicted import ConditionalDistribution
from lbarn._tables.codes import ColumnCode, ContinuousCode, GridCode
from lbarn._tables.column import Column

__all__ = ["CENTRAL", "NOTABLE", "Expectation", "in_words", "percent"]

CENTRAL = 0.9  # of the mass: a range that holds it, or levels until they have it
NOTABLE = 1.0  # nats by which a value is more surprising than values of its column are
_MOST_LEVELS = 3
_WORTH_NAMING = 0.1  # probability of a level


class Expectation:
    """What was expected of the values of a column: a range for numbers, or the likely values and their probabilities.

    ``ahead`` is the distribution of every row, or one for all; ``told`` says how people read a value.
    """

    def __init__(
        self, code: ColumnCode, ahead: ConditionalDistribution, column: Column, told: Callable[[Any], str] | None = None
    ) -> None:
        self._code, self._told = code, told
        self._row = np.zeros(len(column), np.intp) if len(ahead) == 1 else np.arange(len(column))
        likely, self._chances = ahead.likely(_MOST_LEVELS)
        self._likely = [code.shown(own) for own in likely]
        if isinstance(code, (GridCode, ContinuousCode)):
            ends = [ahead.quantile_column(share) for share in ((1 - CENTRAL) / 2, (1 + CENTRAL) / 2)]
            self._low, self._high = (code.shown(end) for end in ends)
            low, high = (code.number(end)[self._row] for end in ends)
            own = code.number(column)
            self._is_within = (low <= own) & (own <= high)

    def words(self, i: int, *, is_there: bool = True) -> str:
        """Of a row; if its cell is empty, the likely values in it."""
        code, row = self._code, int(self._row[i])
        if not is_there or not isinstance(code, (GridCode, ContinuousCode)):
            return self._listed(row)
        if self._is_within[i] and isinstance(code, GridCode) and self._chances[row, 0] >= _WORTH_NAMING:
            return self._listed(row)
        low, high = self._range(self._low[row], self._high[row])
        return low if low == high else f"{low} to {high}"

    def _listed(self, row: int) -> str:
        """Likely values, until they have most of the mass."""
        found: list[tuple[Any, float]] = []
        for values, p in zip(self._likely, self._chances[row].tolist()):
            if found and (p < _WORTH_NAMING or sum(q for _, q in found) >= CENTRAL):
                break
            found.append((values[row], p))
        return ", ".join(f"{(self._told or in_words)(value)} ({percent(p)})" for value, p in found)

    def _range(self, low: Any, high: Any) -> tuple[str, str]:
        """Both ends; without a grid, with as many digits as tell them apart."""
        told = self._told or in_words
        if self._told is not None or isinstance(self._code, GridCode) or not isinstance(low, float):
            return told(low), told(high)
        size, width = max(abs(low), abs(high)), high - low
        if not width > 0 or not 1e-5 < size < 1e15:
            return f"{low:.6g}", f"{high:.6g}"
        decimals = max(0, 2 - int(np.ceil(np.log10(width))))
        return f"{low:.{decimals}f}", f"{high:.{decimals}f}"


def in_words(value: Any) -> str:
    """A value as a sentence has it."""
    if value is None:
        return "empty"
    if isinstance(value, float):
        return f"{value:.6g}" if not value.is_integer() else f"{value:.0f}" if abs(value) < 1e15 else str(value)
    return str(value)


def percent(p: float) -> str:
    """A probability, if need be of more digits than a share has."""
    return f"{p:.1%}" if 0.0005 <= p < 0.9995 else f"{p:.3g}" if p < 0.5 else "all but certain"
