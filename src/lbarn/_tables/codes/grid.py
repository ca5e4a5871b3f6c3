"""The code of numbers on a grid, dates and ordered categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._tables.cells import equal_mass
from lbarn._tables.codes.base import Choices, Floats, Inside, Tensors
from lbarn._tables.codes.numeric import Bools, NumericCode, numeric_mass, tail_mass
from lbarn._tables.codes.parts import common_fields, packed, unpacked
from lbarn._tables.column import Column
from lbarn._tables.grids import Grid, Law, Ticks

__all__ = ["GridCode"]


@dataclass(frozen=True, eq=False)
class GridCode(NumericCode):
    """Numbers on a grid: whole ones, decimals, dates, ordered categories."""

    grid: Grid
    law: Law

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "datetime" if self.plain.sort == "time" else "ordered"

    @classmethod
    def fit(
        cls,
        label: str,
        plain: Column,
        column: Column,
        grid: Grid,
        weight: Floats | None,
        *,
        max_cells: int,
        min_rows: float,
        missing: bool,
        share_missing: float,
    ) -> GridCode:
        """``column`` has numbers, also where ``plain`` has categories."""
        there = ~column.missing
        ticks = grid.ticks(column.values)
        seen, index = np.unique(ticks[there], return_inverse=True)
        mass = np.bincount(index, None if weight is None else weight[there]).astype(np.float64)
        first, nodes = equal_mass(mass, max_cells, min_rows)
        law = Law.fit(seen, mass, first)
        cells = law.cell(ticks)
        whole = numeric_mass(cells, len(first), column, weight, missing)
        return cls(label, plain, missing, share_missing, whole, tuple(nodes), grid, law)

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        values, ticks, inner, below, above = self._place(column)
        low, high = self._ends_of_range
        inside = self.law.log_share(ticks, inner)
        outside = below | above
        if self.plain.sort == "string":
            inside[below], inside[above] = -np.log(max(self._n_below, 1)), -np.log(self._n_above)
        elif outside.any():
            far = values[outside].astype(np.float64)
            with np.errstate(over="ignore"):
                distance = np.where(below[outside], low - far, far - high) / self.grid.width
            inside[outside] = tail_mass(np.minimum(distance, np.finfo(np.float64).max), self._tail_scale)
        return self._outer(inner, below, above), inside

    def _place(self, column: Column) -> tuple[NDArray[Any], Ticks, NDArray[np.intp], Bools, Bools]:
        """Values, the nearest ticks, their cells in the range, and which are below and above it."""
        values = column.values.astype(np.float64) if column.values.dtype.kind == "f" else column.values
        if values.dtype.kind == "f":
            low, high = self._ends_of_range
            ticks = self.grid.ticks(np.clip(values, low, high))
            below, above = values < low - self.grid.width / 2, values > high + self.grid.width / 2
        else:
            ticks = self.grid.ticks(values)
            below, above = ticks < self.law.starts[0], ticks >= self.law.starts[-1]
        return values, ticks, self.law.cell(ticks), below, above

    @cached_property
    def _ends_of_range(self) -> Floats:
        return self.grid.values(self.law.starts[[0, -1]] - [0, 1]).astype(np.float64)

    @property
    def _n_below(self) -> float:
        return float(self.law.starts[0]) if self.plain.sort == "string" else np.inf

    @property
    def _n_above(self) -> float:
        """The number of values above the range: of ordered categories also, as one, whatever is none of them."""
        return len(self.plain.categories) - float(self.law.starts[-1]) + 1 if self.plain.categories else np.inf

    @property
    def _tail_scale(self) -> float:
        return float(max(1.0, (float(self.law.starts[-1]) - float(self.law.starts[0])) / 10))

    def _decode(self, cells: NDArray[np.intp], rng: np.random.Generator) -> Any:
        cells = np.clip(cells - self._first, 0, self.law.n_cells - 1)
        return self._shown(self.grid.values(self.law.draw(cells, rng)))

    def _likeliest(self) -> Any:
        ticks = self.law.likeliest
        return self._shown(self.grid.values(np.concatenate([ticks[:1].repeat(self._first), ticks, ticks[-1:]])))

    @cached_property
    def centers(self) -> Floats:
        centers = np.full(self.n_cells, np.nan)
        centers[self._first : -1] = self.grid.values_of(self.law.means)
        low, high = self.ends
        centers[self._first - 1], centers[-1] = high[self._first - 1], low[-1]
        return centers

    def quantiles(self, cells: NDArray[np.intp], share: Floats) -> NDArray[Any]:
        inner = np.clip(cells - self._first, 0, self.law.n_cells - 1)
        return self.grid.values(self.law.quantile(inner, share))

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        low, high = np.full(self.n_cells, np.nan), np.full(self.n_cells, np.nan)
        starts = self.law.starts
        low[self._first : -1] = self.grid.values(starts[:-1])
        high[self._first : -1] = self.grid.values(starts[1:] - 1)
        low[self._first - 1], high[self._first - 1] = -np.inf, self.grid.values(starts[:1] - 1)[0]
        low[-1], high[-1] = self.grid.values(starts[-1:])[0], np.inf
        return low, high

    def share_between(self, low: float, high: float) -> Floats:
        shares = np.zeros(self.n_cells)
        shares[self._first : -1] = self.law.share_between(*self.grid.between(low, high))
        least, most = self.ends
        shares[self._first - 1] = low <= least[self._first - 1] and high >= most[self._first - 1]
        shares[-1] = high >= most[-1] and low <= least[-1]
        return shares

    def inside_between(self, cells: NDArray[np.intp], low: float, high: float, rng: np.random.Generator) -> Any:
        """Values in these cells and in low..high."""
        a, b = self.grid.between(low, high)
        inner = np.clip(cells - self._first, 0, self.law.n_cells - 1)
        return self._shown(self.grid.values(self.law.draw(inner, rng, (a, b))))

    def has_choice(self, cell: int) -> bool:
        own = cell - self._first
        return 0 <= own < self.law.n_cells and bool(self.law.starts[own + 1] - self.law.starts[own] > 1)

    @property
    def choices(self) -> Choices:
        return self._of_range(*self.law.choices())

    def _locate(self, column: Column) -> tuple[NDArray[Any], Inside]:
        _, ticks, inner, below, above = self._place(column)
        symbols, offsets = self.law.symbols(np.clip(ticks, self.law.starts[0], self.law.starts[-1] - 1), inner)
        return self._outer(inner, below, above), (symbols, offsets.view(np.uint64))

    def from_inside(self, cells: NDArray[Any], where: Inside | None) -> Column:
        assert where is not None
        inner = np.clip(cells.astype(np.intp) - self._first, 0, self.law.n_cells - 1)
        gone = cells == 0 if self.missing else np.zeros(len(cells), np.bool_)
        return self.plain.with_values(
            self._shown(self.grid.values(self.law.ticks(inner, where[0], where[1].view(np.int64)))), gone
        )

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        tensors: Tensors = {"mass": self.mass, "nodes": packed(self.nodes), **self.law.to_tensors()}
        return self._head() | {"grid": self.grid.to_json()}, tensors

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], tensors: Tensors) -> GridCode:
        common, law = common_fields(head, tensors), Law.from_tensors(tensors)
        if len(common["mass"]) != law.n_cells + 2 + int(common["missing"]):
            raise ValueError("cells and their numbers of rows do not fit")
        grid = Grid.from_json(head["grid"])
        categories = common["plain"].categories
        if common["plain"].sort == "string" and (
            categories is None or law.starts[0] < 0 or law.starts[-1] > len(categories) or grid != Grid()
        ):
            raise ValueError("cells and categories do not fit")
        if max(abs(grid.offset + grid.step * int(tick)) for tick in law.starts[[0, -1]]) >= 2**62:
            raise ValueError("a grid leaves the range of whole numbers")
        code = cls(**common, nodes=unpacked(tensors["nodes"], law.n_cells), grid=grid, law=law)
        try:
            code.told_range()
        except (OverflowError, pa.ArrowInvalid) as error:
            raise ValueError(f"its range cannot be one of {code.plain.type} ({error})") from error
        return code

    def told_range(self) -> str:
        ends = self.plain.with_values(
            self._shown(self.grid.values(self.law.starts[[0, -1]] - [0, 1])), np.zeros(2, np.bool_)
        )
        low, high = ends.arrow().to_pylist()
        return f"{low} to {high}"

    @property
    def resolution(self) -> str:
        return self.grid.told(self.plain)
