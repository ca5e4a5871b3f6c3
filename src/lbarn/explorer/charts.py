"""How a column is drawn: bars, and the share of every cell that is in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._tables.codes import BinaryCode, CategoricalCode, ColumnCode, ContinuousCode, GridCode

__all__ = ["Bar", "Chart", "NumericCode", "is_numeric", "level_texts", "quantiles", "shown"]

Floats = NDArray[np.float64]
NumericCode = GridCode | ContinuousCode

_MAX_BARS = 40  # of numbers; a column with fewer values has one for each
_TYPICAL_BARS = 30
_MAX_LEVELS = 200  # that are drawn; those that remain share the last bar
_TAIL = 0.01  # of the rows on either side may be put into one bar, if the range is much longer for them
_SPIKE = 0.2  # share of rows from which on the least value has a bar of its own
_STEPS = (1.0, 2.0, 5.0, 10.0)
_CALENDAR = (  # steps of dates, and about how many seconds they are
    *((k, "s", k) for k in (1, 5, 15, 30)),
    *((k, "m", 60 * k) for k in (1, 5, 15, 30)),
    *((k, "h", 3600 * k) for k in (1, 3, 6, 12)),
    *((k, "D", 86_400 * k) for k in (1, 2, 7)),
    *((k, "M", 2_629_800 * k) for k in (1, 3, 6)),
    *((k, "Y", 31_557_600 * k) for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)


@dataclass(frozen=True)
class Bar:
    """A level, a range of numbers with both ends, or the empty value (neither)."""

    label: str
    level: str | None = None  # as a condition names it
    low: float | None = None
    high: float | None = None
    texts: tuple[str, str] | None = None  # the ends of the range, as a condition names them
    words: tuple[str, str] | None = None  # and as people read them
    rest: bool = False  # all that have no bar of their own

    @property
    def is_empty(self) -> bool:
        return self.level is None and self.low is None and not self.rest

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"label": self.label}
        if self.is_empty:
            found["empty"] = True
        elif self.rest:
            found["rest"] = True
        elif self.texts is not None:
            found["from"], found["to"] = self.texts
            found["words"] = self.words
        else:
            found["level"] = self.level
        return found


def is_numeric(code: ColumnCode) -> bool:
    """Whether values have a range: numbers and points in time, but not ordered categories."""
    return isinstance(code, (GridCode, ContinuousCode)) and code.plain.sort != "string"


def level_texts(code: ColumnCode) -> list[str]:
    """The levels of a column that is not numeric, as conditions name them."""
    if isinstance(code, BinaryCode):
        return ["0", "1"]
    if isinstance(code, CategoricalCode):
        return list(code.levels)
    assert code.plain.categories is not None
    return list(code.plain.categories)


@dataclass(frozen=True, eq=False)
class Chart:
    """The bars of a column. If empty cells are values, the last bar is theirs."""

    code: ColumnCode
    bars: tuple[Bar, ...]

    @classmethod
    def of(cls, code: ColumnCode) -> Chart:
        if is_numeric(code):
            assert isinstance(code, (GridCode, ContinuousCode))
            bars = _ranges(code)
        else:
            bars = _levels(code)
        if code.missing:
            bars = [*bars, Bar("empty")]
        return cls(code, tuple(bars))

    @property
    def is_numeric(self) -> bool:
        return is_numeric(self.code)

    @cached_property
    def weights(self) -> Floats:
        """(cells, bars): the share of a cell's mass in a bar."""
        weights = np.zeros((self.code.n_cells, len(self.bars)))
        if self.code.missing:
            weights[0, -1] = 1.0
        for b, bar in enumerate(self.bars):
            if bar.low is not None and bar.high is not None:
                weights[:, b] = self._between(bar.low, bar.high)
        named = [b for b, bar in enumerate(self.bars) if bar.level is not None]
        if named:
            everything = self.level_weights
            place = {level: k for k, level in enumerate(level_texts(self.code))}
            own = [place[str(self.bars[b].level)] for b in named]
            weights[:, named] = everything[:, own]
            rest = [b for b, bar in enumerate(self.bars) if bar.rest]
            weights[:, rest] = np.delete(everything, own, axis=1).sum(axis=1, keepdims=True)
        return weights

    @cached_property
    def level_weights(self) -> Floats:
        """(cells, levels): the share of a cell's mass that a level has."""
        levels = level_texts(self.code)
        column = self.code.plain.with_values(_as_values(self.code, levels), np.zeros(len(levels), np.bool_))
        cells, inside = self.code.encode(column)
        weights = np.zeros((self.code.n_cells, len(levels)))
        weights[cells, np.arange(len(levels))] = np.exp(inside)
        return weights * self.code.tree.present[:, None]

    def _between(self, low: float, high: float) -> Floats:
        assert isinstance(self.code, (GridCode, ContinuousCode))
        return np.where(self.code.tree.present, self.code.share_between(low, high), 0.0)

    def between(self, low: float, high: float) -> Floats:
        """(cells, bars): the share of a cell's mass in a bar and in low..high."""
        weights = np.zeros((self.code.n_cells, len(self.bars)))
        for b, bar in enumerate(self.bars):
            if bar.low is not None and bar.high is not None and bar.low <= high and bar.high >= low:
                weights[:, b] = self._between(max(low, bar.low), min(high, bar.high))
        return weights

    def ticks(self) -> list[tuple[float, str]]:
        """What is written below a chart of numbers: places from 0 to 1, and words."""
        ends = [bar.words for bar in self.bars if bar.words is not None]
        n = len(ends)
        if n <= 6:
            return [((b + 0.5) / n, low) for b, (low, _) in enumerate(ends)]
        inner = (n // 2,) if max(len(low) for low, _ in ends) > 5 else (n // 3, 2 * n // 3)
        return [(0.0, ends[0][0]), *((b / n, ends[b][0]) for b in inner), (1.0, ends[-1][1])]


# ---------------------------------------------------------------------- levels


def _as_values(code: ColumnCode, levels: Sequence[str]) -> Any:
    if isinstance(code, BinaryCode):
        return np.array([int(level) for level in levels])
    return pa.array(list(levels), pa.string())


def _levels(code: ColumnCode) -> list[Bar]:
    levels = level_texts(code)
    if isinstance(code, BinaryCode):
        words = ("False", "True") if code.plain.sort == "boolean" else ("0", "1")
        return [Bar(word, level) for word, level in zip(words, levels)]
    order = list(range(len(levels)))
    if isinstance(code, CategoricalCode):
        mass = code.mass @ Chart(code, ()).level_weights
        order = np.argsort(-mass, kind="stable").tolist()
    bars = [Bar(levels[k], levels[k]) for k in order[:_MAX_LEVELS]]
    if len(order) > _MAX_LEVELS:
        bars.append(Bar(f"{len(order) - _MAX_LEVELS:,} other levels", rest=True))
    return bars


# ---------------------------------------------------------------------- numbers and dates


def shown(code: NumericCode, values: Sequence[Any]) -> list[str]:
    """Numbers as people read them; dates as dates."""
    array = np.asarray(values, np.float64)
    if code.plain.sort == "time":
        return [_short_time(text) for text in code.column(array).texts().to_pylist()]
    whole = isinstance(code, GridCode) and code.grid.decimals == 0
    return [_short_number(value, whole) for value in array.tolist()]


def _short_time(text: str) -> str:
    head, _, tail = text.partition(" ")
    return head if tail.rstrip("Z+0:.") == "" and tail else text


def _short_number(value: float, whole: bool) -> str:
    if whole and abs(value) < 1e15:
        return f"{round(value):,}" if abs(value) >= 10_000 else f"{round(value)}"
    if 10_000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.5g}"


def _named(code: NumericCode, low: float, high: float) -> tuple[str, str]:
    """The ends of a range so that reading them again gives the same numbers."""
    if code.plain.sort == "time":
        first, last = code.column(np.array([low, high])).texts().to_pylist()
        return str(first), str(last)
    whole = isinstance(code, GridCode) and code.grid.decimals == 0
    first, last = (str(round(end)) if whole else repr(float(end)) for end in (low, high))
    return first, last


def _ranges(code: NumericCode) -> list[Bar]:
    present = np.flatnonzero(code.tree.present)
    ends = code.ends
    first, last = float(ends[0][present[0]]), float(ends[1][present[-1]])
    width = code.grid.width if isinstance(code, GridCode) else 0.0
    if width and (last - first) / width < _MAX_BARS - 0.5:
        starts = [float(value) for value in np.arange(round((last - first) / width) + 1) * width + first]
        return _bars(code, starts, first, last)
    low, high = _core(code, present)
    starts = _dates(code, low, high) if code.plain.sort == "time" else _round_numbers(low, high, width)
    starts = [start for start in starts if first < start <= last]
    if not starts or low - first > (high - low) / 2:
        starts = [first, *starts]  # one bar for all that is below
    elif starts[0] > first:
        starts = [first, *starts]
    if last - high > (high - low) / 2 and len(starts) > 1:
        inner = [start for start in starts if start <= high]
        after = next((start for start in starts if start > high), None)
        starts = [*inner, *([after] if after is not None else [])]
    if width and _first_share(code, present, first) >= _SPIKE:
        starts = sorted({first, first + width, *starts})  # often 0, and all that it is not
    return _bars(code, starts, first, last)


def _first_share(code: NumericCode, present: NDArray[np.intp], first: float) -> float:
    """The share of rows that have the least value."""
    own = present[0]
    inside = code.share_between(first, first)[own]
    return float(inside * code.mass[own] / max(code.mass[present].sum(), 1.0))


def _core(code: NumericCode, present: NDArray[np.intp]) -> tuple[float, float]:
    """The range without far tails: nearly all rows are in it."""
    low, high = code.ends
    first, last = float(low[present[0]]), float(high[present[-1]])
    mass = np.where(code.tree.present, code.mass, 0.0)
    if not mass.sum() > 0:
        return first, last
    a, b = quantiles(code, mass, (_TAIL, 1 - _TAIL)).tolist()
    if not b > a:
        return first, last
    return (a if a - first > (b - a) / 2 else first), (b if last - b > (b - a) / 2 else last)


def quantiles(code: NumericCode, cells: Floats, shares: Sequence[float]) -> Floats:
    """The values that have such shares of the mass below them, given the mass of every cell."""
    upto = np.cumsum(cells) / cells.sum()
    wanted = np.array(shares)
    cell = np.minimum(np.searchsorted(upto, wanted - 1e-12), np.flatnonzero(cells)[-1])
    own = cells[cell] / cells.sum()
    rest = np.clip((wanted - (upto[cell] - own)) / np.maximum(own, 1e-300), 0.0, 1.0)
    return code.quantiles(cell, rest)


def _round_numbers(low: float, high: float, width: float) -> list[float]:
    """Where bars begin that are a round number wide."""
    least = max((high - low) / _TYPICAL_BARS, width)
    if not least > 0:
        return [low]
    power = 10.0 ** np.floor(np.log10(least))
    step = next(step * power for step in _STEPS if step * power >= least * (1 - 1e-9))
    if width:
        step = max(round(step / width), 1) * width
    begin = np.floor(low / step + 1e-9)
    count = int(np.ceil((high - begin * step) / step)) + 2
    digits = max(0, -int(np.floor(np.log10(step))) + 2)
    return [round(float((begin + k) * step), digits) for k in range(count)]


def _dates(code: NumericCode, low: float, high: float) -> list[float]:
    kind = code.plain.type
    unit = "D" if pa.types.is_date32(kind) else "ms" if pa.types.is_date64(kind) else getattr(kind, "unit", None)
    per_second = {"D": 1 / 86_400, "s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}.get(unit or "")
    width = code.grid.width if isinstance(code, GridCode) else 0.0
    if per_second is None or not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        step = max(1, round((high - low) / _TYPICAL_BARS / max(width, 1.0))) * max(width, 1.0)
        return [low + k * step for k in range(int((high - low) // step) + 2)]
    fits = (
        (count, name)
        for count, name, seconds in _CALENDAR
        if (high - low) / per_second / seconds <= _TYPICAL_BARS + 6 and seconds * per_second >= width
    )
    count, name = next(fits, (1000, "Y"))
    whole = np.array([low, high]).astype(np.int64).view(f"datetime64[{unit}]").astype(f"datetime64[{name}]")
    begin, end = (int(value) // count for value in whole.astype(np.int64))
    starts = (np.arange(begin, end + 2) * count).astype(np.int64).view(f"datetime64[{name}]")
    return [float(value) for value in starts.astype(f"datetime64[{unit}]").astype(np.int64)]


def _bars(code: NumericCode, starts: Sequence[float], first: float, last: float) -> list[Bar]:
    """Bars from each start to the next one."""
    width = code.grid.width if isinstance(code, GridCode) else 0.0
    bars = []
    for k, low in enumerate(starts):
        if k + 1 == len(starts):
            high = last
        else:
            high = starts[k + 1] - width if width else float(np.nextafter(starts[k + 1], -np.inf))
        words = _pair(shown(code, [low, high]))
        label = words[0] if words[0] == words[1] else f"{words[0]} to {words[1]}"
        # Half a step of room on a grid: what is between two values belongs to neither.
        ends = (low - width / 4, high + width / 4) if width and code.plain.sort != "time" else (low, high)
        bars.append(Bar(label, low=ends[0], high=ends[1], texts=_named(code, low, high), words=words))
    return bars


def _pair(ends: Sequence[str]) -> tuple[str, str]:
    return ends[0], ends[1]
