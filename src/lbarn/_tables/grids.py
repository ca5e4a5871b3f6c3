"""Numbers on a grid: how fine it is, and what is likely inside a cell of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._tables.column import Column

__all__ = ["Grid", "Law", "Ticks", "find_grid"]

Floats = NDArray[np.float64]
Ticks = NDArray[np.int64]

_MAX_DECIMALS = 9
_SECONDS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_LOO_STEPS = 50
_PRIOR_ROWS = 5.0  # by which the weight of a cell is drawn to that of its column


@dataclass(frozen=True)
class Grid:
    """Value ``tick`` of the grid is (offset + step * tick) / 10**decimals."""

    decimals: int = 0
    step: int = 1
    offset: int = 0

    @property
    def width(self) -> float:
        """From one value to the next."""
        return float(self.step / 10**self.decimals)

    def ticks(self, values: NDArray[Any]) -> Ticks:
        """The nearest grid points."""
        if values.dtype.kind == "f" or self.decimals:
            with np.errstate(over="ignore"):
                scaled = np.rint((values * 10.0**self.decimals - self.offset) / self.step)
            return np.clip(scaled, -(2.0**62), 2.0**62).astype(np.int64)
        # The remainder first: a sum could leave the range of 64 bits.
        whole, rest = np.divmod(values, self.step)
        nearest = whole + (rest - self.offset + self.step // 2) // self.step
        return np.clip(nearest, -(2**62), 2**62)

    def values(self, ticks: NDArray[Any]) -> NDArray[Any]:
        whole = self.offset + self.step * ticks
        return whole / 10.0**self.decimals if self.decimals else whole

    def values_of(self, ticks: Floats) -> Floats:
        """The same for points between the grid's."""
        return (self.offset + self.step * ticks) / 10.0**self.decimals

    def between(self, low: float, high: float) -> tuple[float, float]:
        """The first and last tick in low..high."""
        scale = 10.0**self.decimals
        slack = 1e-9
        a = np.ceil((low * scale - self.offset) / self.step - slack)
        b = np.floor((high * scale - self.offset) / self.step + slack)
        return float(a), float(b)

    def told(self, plain: Column) -> str:
        """How fine it is, for people."""
        if plain.sort == "string":
            return "level"
        if plain.sort != "time":
            return str(10**-self.decimals) if self.decimals <= 4 else f"1e-{self.decimals}"
        seconds = self.step / _per_second(plain.type)
        named = [name for name, size in _SECONDS.items() if seconds == size]
        return named[0] if named else f"{seconds:g} s"

    def to_json(self) -> list[int]:
        return [self.decimals, self.step, self.offset]

    @classmethod
    def from_json(cls, content: Any) -> Grid:
        decimals, step, offset = content
        if not all(type(value) is int for value in content):
            raise ValueError("a grid is not of whole numbers")
        if not 0 <= decimals <= _MAX_DECIMALS or not 0 < step < 2**62 or not 0 <= offset < step:
            raise ValueError("a grid makes no sense")
        return cls(decimals, step, offset)


def find_grid(column: Column) -> Grid | None:
    """The coarsest decimal grid (or the coarsest unit of time) that all values are on, None if there is none."""
    values = column.values[~column.missing]
    if column.sort == "time":
        return _find_time_grid(values, column.type)
    if values.dtype.kind == "i":
        return Grid() if -(2**61) < values.min(initial=0) <= values.max(initial=0) < 2**61 else None
    for decimals in range(_MAX_DECIMALS + 1):
        scaled = np.rint(values * 10.0**decimals)
        if np.abs(scaled).max(initial=0.0) >= 2.0**53:
            return None
        if (scaled / 10.0**decimals == values).all():
            return Grid(decimals)
    return None


def _per_second(kind: pa.DataType) -> float:
    if pa.types.is_date32(kind):
        return 1 / 86_400
    if pa.types.is_date64(kind):
        return 1e3
    return {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]


def _find_time_grid(values: Ticks, kind: pa.DataType) -> Grid:
    per_second = _per_second(kind)
    if per_second < 1 or not len(values):
        return Grid()
    for size in (*_SECONDS.values(), 1e-3, 1e-6):
        step = round(size * per_second)
        if step < 1:
            break
        offset = int(values[0] % step)
        if ((values - offset) % step == 0).all():
            return Grid(0, step, offset)
    return Grid()


@dataclass(frozen=True, eq=False)
class Law:
    """What is likely inside the cells: the values that were seen, mixed with all grid points alike.

    Cell ``c`` has the ticks ``starts[c] .. starts[c + 1] - 1``, and the weight of the values seen in it is ``weight[c]``;
    ``seen`` (sorted) and ``mass`` are those values and their rows. The weights make the rows most likely when each is left out
    of what is counted: heaped numbers want their counts, fine grids want none.
    """

    starts: Ticks
    seen: Ticks
    mass: Floats
    weight: Floats

    @property
    def n_cells(self) -> int:
        return len(self.weight)

    @classmethod
    def fit(cls, seen: Ticks, mass: Floats, first: NDArray[np.intp]) -> Law:
        """``first`` is the first of the seen values in every cell; a gap between two cells is shared."""
        before, own = seen[first[1:] - 1], seen[first[1:]]
        starts = np.concatenate([seen[:1], before + (own - before) // 2 + 1, seen[-1:] + 1])
        starts[1:-1] = np.minimum(starts[1:-1], own)
        cell = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(seen))))
        weight = _leave_one_out(mass, cell, np.diff(starts).astype(np.float64))
        kept = weight[cell] > 0
        return cls(starts, seen[kept], mass[kept], weight)

    def cell(self, ticks: Ticks) -> NDArray[np.intp]:
        """The cell that every tick is in, or the nearest one."""
        return np.clip(np.searchsorted(self.starts, ticks, side="right") - 1, 0, self.n_cells - 1)

    @cached_property
    def _first_seen(self) -> NDArray[np.intp]:
        return np.searchsorted(self.seen, self.starts)

    @cached_property
    def _unseen_before(self) -> Ticks:
        """Where each value that was seen would be if those seen before it in its cell were not there."""
        own = np.arange(len(self.seen))
        return self.seen - (own - np.repeat(self._first_seen[:-1], np.diff(self._first_seen)))

    @cached_property
    def _upto(self) -> Floats:
        """Rows of the values before each one that was seen."""
        return np.concatenate([[0.0], np.cumsum(self.mass)])

    @cached_property
    def _total(self) -> Floats:
        """Rows per cell, 1 if there are none."""
        total = np.diff(self._upto[self._first_seen])
        return np.where(total > 0, total, 1.0)

    @cached_property
    def _points(self) -> Floats:
        return np.diff(self.starts).astype(np.float64)

    def log_share(self, ticks: Ticks, cells: NDArray[np.intp]) -> Floats:
        """The log-likelihood of ticks in their cells."""
        share = (1.0 - self.weight[cells]) / self._points[cells]
        if len(self.seen):
            at = np.minimum(np.searchsorted(self.seen, ticks), len(self.seen) - 1)
            share = share + np.where(
                self.seen[at] == ticks, self.weight[cells] * self.mass[at] / self._total[cells], 0.0
            )
        return np.log(share)

    def draw(
        self, cells: NDArray[np.intp], rng: np.random.Generator, between: tuple[float, float] | None = None
    ) -> Ticks:
        """Ticks in these cells, of those ``between`` two if that is given (which must hold some of each cell)."""
        low, high = self.starts[cells], self.starts[cells + 1] - 1
        if between is not None:
            low = np.maximum(low, np.int64(max(between[0], -(2.0**62))))
            high = np.minimum(high, np.int64(min(between[1], 2.0**62)))
        a, b = np.searchsorted(self.seen, low), np.searchsorted(self.seen, high, side="right")
        seen_share = self.weight[cells] * (self._upto[b] - self._upto[a]) / self._total[cells]
        flat_share = (1.0 - self.weight[cells]) * (high - low + 1.0) / self._points[cells]
        u = rng.random((3, len(cells)))
        flat = np.minimum(low + np.floor(u[1] * (high - low + 1.0)).astype(np.int64), high)
        if not len(self.seen):
            return flat
        point = self._upto[a] + u[2] * (self._upto[b] - self._upto[a])
        at = np.clip(np.searchsorted(self._upto, point, side="right") - 1, a, np.maximum(b - 1, a))
        taken = self.seen[np.minimum(at, len(self.seen) - 1)]
        return np.where((u[0] * (seen_share + flat_share) < seen_share) & (b > a), taken, flat)

    def choices(self) -> tuple[Floats, NDArray[np.int64], NDArray[np.uint64]]:
        """The chances of the values that were seen in each cell and, last, of all others together; how many chances each cell
        has; and how many others it has, 1 for none."""
        n_seen = np.diff(self._first_seen)
        others = np.diff(self.starts) - n_seen
        flat = (1.0 - self.weight) / self._points
        cell = np.repeat(np.arange(self.n_cells), n_seen)
        sizes = n_seen + (others > 0)
        last = np.cumsum(sizes) - 1
        is_other = np.zeros(sizes.sum(), np.bool_)
        is_other[last[others > 0]] = True
        chances = np.empty(len(is_other))
        chances[~is_other] = self.weight[cell] * self.mass / self._total[cell] + flat[cell]
        chances[is_other] = (flat * others)[others > 0]
        return chances, sizes, np.maximum(others, 1).astype(np.uint64)

    def symbols(self, ticks: Ticks, cells: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The symbol of every tick among the ``choices`` of its cell, and for the last symbol its number among the others."""
        at = np.searchsorted(self.seen, ticks)
        first, last = self._first_seen[cells], self._first_seen[cells + 1]
        before = at - first
        if len(self.seen):
            is_seen = (self.seen[np.minimum(at, len(self.seen) - 1)] == ticks) & (at < last)
        else:
            is_seen = np.zeros(len(ticks), np.bool_)
        symbols = np.where(is_seen, before, last - first)
        return symbols, np.where(is_seen, 0, ticks - self.starts[cells] - before)

    def ticks(self, cells: NDArray[np.intp], symbols: NDArray[np.int64], offsets: NDArray[np.int64]) -> Ticks:
        """The other way round."""
        first, last = self._first_seen[cells], self._first_seen[cells + 1]
        is_seen = symbols < last - first
        # The k-th tick that was not seen: as many further on as there are seen ones before it.
        found = self.starts[cells] + offsets
        found = found + np.searchsorted(self._unseen_before, found, side="right") - first
        if not len(self.seen):
            return found
        taken = self.seen[np.minimum(first + np.minimum(symbols, np.maximum(last - first - 1, 0)), len(self.seen) - 1)]
        return np.where(is_seen, taken, found)

    def share_between(self, low: float, high: float) -> Floats:
        """The share of every cell in the ticks low..high."""
        a = np.clip(low, self.starts[:-1], self.starts[1:])
        b = np.clip(high + 1, self.starts[:-1], self.starts[1:])
        points = np.maximum(b - a, 0.0)
        inside = self._upto[np.searchsorted(self.seen, b)] - self._upto[np.searchsorted(self.seen, a)]
        return self.weight * np.maximum(inside, 0.0) / self._total + (1.0 - self.weight) * points / self._points

    def quantile(self, cells: NDArray[np.intp], share: Floats) -> Ticks:
        """The least tick up to which a share of the cell's mass is."""
        low, high = self.starts[cells], self.starts[cells + 1] - 1
        a, b = low - 1, high  # bisection: share up to a is less, up to b is enough
        for _ in range(64):
            if (b - a <= 1).all():
                break
            middle = a + (b - a) // 2
            enough = self._share_upto(middle, cells) >= share
            a, b = np.where(enough, a, middle), np.where(enough, middle, b)
        return b

    def _share_upto(self, ticks: Ticks, cells: NDArray[np.intp]) -> Floats:
        low = self.starts[cells]
        flat = (1.0 - self.weight[cells]) * (ticks - low + 1.0) / self._points[cells]
        counted = self._upto[np.searchsorted(self.seen, ticks, side="right")] - self._upto[self._first_seen[cells]]
        return flat + self.weight[cells] * np.maximum(counted, 0.0) / self._total[cells]

    @cached_property
    def means(self) -> Floats:
        """The mean tick of every cell."""
        flat = (self.starts[:-1].astype(np.float64) + (self.starts[1:] - 1)) / 2
        if not len(self.seen):
            return flat
        summed = np.concatenate([[0.0], np.cumsum(self.mass * self.seen)])
        return self.weight * np.diff(summed[self._first_seen]) / self._total + (1.0 - self.weight) * flat

    @cached_property
    def likeliest(self) -> Ticks:
        """The likeliest tick of every cell; the middle one if all are alike."""
        ticks = self.starts[:-1] + (np.diff(self.starts) - 1) // 2
        first = self._first_seen
        for cell in np.flatnonzero(np.diff(first) > 0):
            own = slice(first[cell], first[cell + 1])
            ticks[cell] = self.seen[own][int(self.mass[own].argmax())]
        return ticks

    def to_tensors(self) -> dict[str, NDArray[Any]]:
        return {"starts": self.starts, "seen": self.seen, "seen_mass": self.mass, "weight": self.weight}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> Law:
        law = cls(tensors["starts"], tensors["seen"], tensors["seen_mass"], tensors["weight"])
        for array, kind in zip((law.starts, law.seen, law.mass, law.weight), "iiff"):
            if array.ndim != 1 or array.dtype != (np.int64 if kind == "i" else np.float64):
                raise ValueError("an array of cells has another type or shape")
        if len(law.starts) != len(law.weight) + 1 or len(law.weight) < 1 or len(law.seen) != len(law.mass):
            raise ValueError("the numbers of cells do not fit")
        if not ((np.abs(law.starts) < 2**62).all() and (np.diff(law.starts) > 0).all()):
            raise ValueError("cells are not in order")
        if not (np.diff(law.seen) > 0).all() or (
            len(law.seen) and not law.starts[0] <= law.seen[0] <= law.seen[-1] < law.starts[-1]
        ):
            raise ValueError("values are not in order, or outside the cells")
        if not ((law.weight >= 0) & (law.weight < 1)).all() or not ((law.mass > 0) & np.isfinite(law.mass)).all():
            raise ValueError("the weights of cells make no sense")
        if (law.weight[np.diff(law._first_seen) == 0] > 0).any():
            raise ValueError("a cell without values gives them weight")
        return law


def _leave_one_out(mass: Floats, cell: NDArray[np.intp], points: Floats) -> Floats:
    """For every cell, the weight of its values' counts against all grid points alike.

    The weight makes the rows most likely if each is predicted from the others, by expectation maximisation: first one weight
    for the column, then for every cell its own, drawn to that of the column. Weights are 0 where they are next to nothing.
    """
    n_cells = len(points)
    total = np.bincount(cell, mass, n_cells)
    alone = total[cell]
    others = np.where(alone > 1, np.maximum(mass - 1.0, 0.0) / np.maximum(alone - 1.0, 1e-12), 0.0)
    flat = 1.0 / points[cell]
    weight = np.full(n_cells, 0.5)

    def likely(weight: Floats) -> Floats:
        """Rows per cell that its counts explain."""
        counted = weight[cell] * others
        explained = mass * counted / (counted + (1.0 - weight[cell]) * flat)
        return np.bincount(cell, explained, n_cells).astype(np.float64, copy=False)

    for _ in range(_LOO_STEPS):
        weight = np.full(n_cells, np.clip(likely(weight).sum() / total.sum(), 0.0, 1 - 0.5 / (total.sum() + 1)))
    common = weight[0]
    for _ in range(_LOO_STEPS):
        weight = (likely(weight) + _PRIOR_ROWS * common) / (total + _PRIOR_ROWS)
    weight = np.minimum(weight, 1.0 - 0.5 / (total + 1.0))
    single = points <= 1
    weight[single] = 0.0  # one grid point: nothing to choose
    return np.where(weight < 0.01, 0.0, weight)
