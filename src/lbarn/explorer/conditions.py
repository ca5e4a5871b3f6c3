"""What a person asks for: some levels of a column, or a range of it, and whether it may be empty."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._tables.codes import ColumnCode, ContinuousCode, GridCode
from lbarn._tables.column import Column
from lbarn.explorer.charts import Chart, NumericCode, level_texts

__all__ = ["Condition", "Conditions", "QuestionError", "read_conditions"]

Floats = NDArray[np.float64]


class QuestionError(ValueError):
    """A question that has no answer, and why."""


@dataclass(frozen=True)
class Condition(ABC):
    """What a column may be."""

    empty: bool

    def shares(self, chart: Chart) -> Floats:
        """The share of every cell's mass that meets the condition."""
        shares = np.where(chart.code.tree.present, self._shares(chart), 0.0)
        if self.empty:
            shares[0] = 1.0
        return shares

    def weights(self, chart: Chart) -> Floats:
        """(cells, bars): of the mass of a cell that meets the condition, the share in a bar."""
        weights = self._weights(chart)
        if chart.code.missing:
            weights[0, -1] = self.empty
        shares = self.shares(chart)[:, None]
        return np.divide(weights, shares, out=np.zeros_like(weights), where=shares > 0)

    def decode(self, code: ColumnCode, cells: NDArray[Any], rng: np.random.Generator) -> Column:
        """Values in these cells that meet the condition."""
        gone = (cells == 0) & bool(code.missing)
        inner = np.where(gone, int(np.argmax(code.tree.present)), cells).astype(np.intp)
        return code.plain.with_values(self._decode(code, inner, rng), gone)

    @abstractmethod
    def _shares(self, chart: Chart) -> Floats: ...

    @abstractmethod
    def _weights(self, chart: Chart) -> Floats: ...

    @abstractmethod
    def _decode(self, code: ColumnCode, cells: NDArray[np.intp], rng: np.random.Generator) -> Any: ...


@dataclass(frozen=True)
class Levels(Condition):
    levels: frozenset[str]

    def _chosen(self, chart: Chart) -> NDArray[np.bool_]:
        return np.array([level in self.levels for level in level_texts(chart.code)])

    def _shares(self, chart: Chart) -> Floats:
        return np.asarray(chart.level_weights[:, self._chosen(chart)].sum(axis=1))

    def _weights(self, chart: Chart) -> Floats:
        others = [bar.level is not None and bar.level not in self.levels for bar in chart.bars]
        weights = np.where(others, 0.0, chart.weights)
        rest = [b for b, bar in enumerate(chart.bars) if bar.rest]
        if rest:  # what is left of the levels without a bar
            named = {bar.level for bar in chart.bars}
            unnamed = [k for k, level in enumerate(level_texts(chart.code)) if level in self.levels - named]
            weights[:, rest] = chart.level_weights[:, unnamed].sum(axis=1, keepdims=True)
        return weights

    def _decode(self, code: ColumnCode, cells: NDArray[np.intp], rng: np.random.Generator) -> Any:
        return (
            code.inside_set(cells, Column.of_strings(sorted(self.levels)), rng)
            if self.levels
            else code.decode(cells, rng).values
        )


@dataclass(frozen=True)
class Range(Condition):
    low: float
    high: float

    def _shares(self, chart: Chart) -> Floats:
        assert isinstance(chart.code, (GridCode, ContinuousCode))
        if self.low > self.high:  # nothing but the empty value
            return np.zeros(chart.code.n_cells)
        return chart.code.share_between(self.low, self.high)

    def _weights(self, chart: Chart) -> Floats:
        return chart.between(self.low, self.high)

    def _decode(self, code: ColumnCode, cells: NDArray[np.intp], rng: np.random.Generator) -> Any:
        assert isinstance(code, (GridCode, ContinuousCode))
        if self.low > self.high:
            return code.decode(cells, rng).values
        return code.inside_between(cells, self.low, self.high, rng)


Conditions = Mapping[int, Condition]  # by modelled column


def read_conditions(content: Any, charts: Sequence[Chart], names: Sequence[str]) -> dict[int, Condition]:
    """Conditions from a request: a list of objects with a column's number, and levels, or the ends of a range as strings."""
    if not isinstance(content, list):
        raise QuestionError("conditions must be a list")
    found: dict[int, Condition] = {}
    for one in content:
        if not isinstance(one, dict):
            raise QuestionError("a condition must be an object with a column")
        j = one.get("column")
        if type(j) is not int or not 0 <= j < len(charts):
            raise QuestionError(f"there is no column {j!r}; they are numbered 0 to {len(charts) - 1}")
        if j in found:
            raise QuestionError(f"column {names[j]!r} has two conditions")
        empty = one.get("empty", False)
        if type(empty) is not bool:
            raise QuestionError("empty must be true or false")
        if empty and not charts[j].code.missing:
            raise QuestionError(f"column {names[j]!r} is never empty")
        own = _levels(one, charts[j], names[j], empty) if "levels" in one else _range(one, charts[j], names[j], empty)
        if not own.shares(charts[j]).any():
            raise QuestionError(f"no row of the model has such a value in column {names[j]!r}")
        found[j] = own
    return found


def _levels(one: Mapping[str, Any], chart: Chart, name: str, empty: bool) -> Levels | Range:
    levels = one["levels"]
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        raise QuestionError(f"the levels of column {name!r} must be a list of strings")
    if not levels and not empty:
        raise QuestionError(f"no level of column {name!r} is chosen")
    if chart.is_numeric:
        if levels:
            raise QuestionError(f"column {name!r} has a range, not levels: give from and to")
        return Range(empty, np.inf, -np.inf)
    known = set(level_texts(chart.code))
    for level in levels:
        if level not in known:
            raise QuestionError(f"column {name!r} has no level {level!r}")
    return Levels(empty, frozenset(levels))


def _range(one: Mapping[str, Any], chart: Chart, name: str, empty: bool) -> Range:
    if not chart.is_numeric:
        raise QuestionError(f"column {name!r} has levels, not a range: give levels")
    assert isinstance(chart.code, (GridCode, ContinuousCode))
    low = _end(one.get("from"), chart.code, name, -np.inf)
    high = _end(one.get("to"), chart.code, name, np.inf)
    if low > high:
        raise QuestionError(f"the range of column {name!r} ends before it begins")
    return Range(empty, low, high)


def _end(text: Any, code: NumericCode, name: str, open_end: float) -> float:
    if text is None or text == "":
        return open_end
    if not isinstance(text, str) or len(text) > 100:
        raise QuestionError(f"the ends of a range of column {name!r} must be short strings")
    try:
        value = float(code.number(Column.of_strings([text]))[0])
    except ValueError:
        what = "a date" if code.plain.sort == "time" else "a number"
        raise QuestionError(f"{text!r} is not {what}, which column {name!r} holds") from None
    if not np.isfinite(value):
        raise QuestionError(f"{text!r} is not a finite number")
    return value
