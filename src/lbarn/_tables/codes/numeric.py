"""What the codes of numbers and of all that has an order share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._engine.codetree import CodeTree
from lbarn._tables.cells import Node, shifted
from lbarn._tables.codes.base import Choices, ColumnCode, Floats
from lbarn._tables.codes.reading import level_numbers, numbers_of, times_of
from lbarn._tables.column import Column, whole_numbers

__all__ = ["TAIL_POWER", "Bools", "NumericCode", "numeric_mass", "tail_mass"]

Bools = NDArray[np.bool_]

_IMPOSSIBLE = 40.0  # log-odds against what there is not
TAIL_POWER = 3.0  # of the law outside the range: values ten times as far are this many powers of ten less likely


@dataclass(frozen=True, eq=False)
class NumericCode(ColumnCode):
    """Cells: the missing value if it is one, below the range, the cells of the range from left to right, above it."""

    nodes: tuple[Node, ...]

    @cached_property
    def tree(self) -> CodeTree:
        first = 1 + int(self.missing)
        n_cells = len(self.mass)
        nodes = [(0, 1, n_cells)] if self.missing else []
        rare = float(np.log(2.0 * self.n_rows + 1.0))  # half a row on either side
        fixed = {len(nodes): rare if self._n_below else _IMPOSSIBLE, len(nodes) + 1: -rare}
        nodes += [(first - 1, first, n_cells), (first, n_cells - 1, n_cells), *shifted(self.nodes, first)]
        return CodeTree.of(n_cells, nodes, ordered=True, fixed=fixed, missing=self.missing)

    @property
    def _first(self) -> int:
        """The first cell of the range."""
        return 1 + int(self.missing)

    @property
    def _n_below(self) -> float:
        """The number of values below the range."""
        return np.inf

    def conform(self, column: Column) -> Column:
        if self.plain.sort == "string":  # ordered categories, by their number
            assert self.plain.categories is not None
            codes = level_numbers(column.texts(), self.plain.categories)
            codes = np.where(codes < 0, len(self.plain.categories), codes)
            return Column("number", codes, column.missing, pa.int64())
        if self.plain.sort == "time":
            return times_of(column, self.plain.type, self.label)
        return numbers_of(column, self.label)

    def as_plain(self, column: Column) -> Column:
        if self.plain.sort == "string":  # also a level that there is not
            return self.plain.with_values(column.texts(), column.missing)
        return super().as_plain(column)

    def number(self, column: Column) -> Floats:
        """The values as numbers (ordered categories by their number, times in their unit), NaN where missing."""
        values = self.conform(column)
        return np.where(values.missing, np.nan, values.values.astype(np.float64))

    def column(self, values: NDArray[Any]) -> Column:
        """Numbers as a plain column: ordered categories by their names, times as times."""
        if self.plain.sort == "time":
            values = whole_numbers(values)
        return self.plain.with_values(self._shown(values), np.zeros(len(values), np.bool_))

    def _shown(self, values: Any) -> Any:
        if self.plain.sort != "string":
            return values
        assert self.plain.categories is not None
        return pa.array(self.plain.categories, pa.string()).take(pa.array(values.astype(np.int64)))

    def _outer(self, inner: NDArray[np.intp], below: Bools, above: Bools) -> NDArray[np.intp]:
        """The cells of values in the range, counted from its first, or of those below and above it."""
        return np.where(below, -1, np.where(above, self.n_cells - 1 - self._first, inner)) + self._first

    def _of_range(self, chances: Floats, sizes: NDArray[np.int64], n_last: NDArray[np.uint64]) -> Choices:
        """The choices of all cells, by those of the range: nothing is to be chosen in the others."""
        one = np.ones(self._first)
        starts = np.cumsum(np.concatenate([[0], one, sizes, one[:1]]).astype(np.int64))
        n_all = np.concatenate([one, n_last, one[:1]], dtype=np.uint64, casting="unsafe")
        return Choices(np.concatenate([one, chances, one[:1]]), starts, n_all)

    @property
    def numbers(self) -> Floats:
        return self.centers

    @cached_property
    def peaks(self) -> tuple[Floats, Column]:
        return self._peaks_at(self._likeliest())

    def _told_cells(self, low: int, high: int) -> tuple[str, str]:
        if low >= self.n_cells - 1:
            (most,) = self.shown(self.column(self.ends[1][-2:-1]))
            return f"> {most}", f"<= {most}"
        (least,) = self.shown(self.column(self.ends[0][low : low + 1]))
        least = f"{least:.6g}" if isinstance(least, float) else least
        return f">= {least}", f"< {least}"

    @abstractmethod
    def _likeliest(self) -> Any:
        """A value in every cell."""

    @property
    @abstractmethod
    def centers(self) -> Floats:
        """The mean of every cell, NaN where there is none."""

    @abstractmethod
    def quantiles(self, cells: NDArray[np.intp], share: Floats) -> NDArray[Any]:
        """The value below which a share of a cell's mass is, for cells of the range."""

    @property
    @abstractmethod
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the greatest value of every cell, infinite outside the range, NaN for the missing value."""

    @abstractmethod
    def share_between(self, low: float, high: float) -> Floats:
        """The share of every cell's mass in low..high, both included."""


def numeric_mass(cells: NDArray[Any], n_main: int, column: Column, weight: Floats | None, missing: bool) -> Floats:
    first = 1 + int(missing)
    there = ~column.missing
    mass = np.zeros(n_main + first + 1)
    own = None if weight is None else weight[there]
    mass[first:-1] = np.bincount(cells[there], own, n_main)
    if missing:
        mass[0] = column.missing.sum() if weight is None else weight[column.missing].sum()
    return mass


def tail_mass(distance: Floats, scale: float) -> Floats:
    """log of the mass of the grid point so many steps outside the range, among all on that side."""
    distance = np.maximum(distance, 1.0)
    near = np.log1p((distance - 1) / scale)
    ratio = -TAIL_POWER * (np.log1p(distance / scale) - near)
    far = np.log(TAIL_POWER / scale) - (TAIL_POWER + 1) * np.log1p(distance / scale)
    with np.errstate(divide="ignore"):
        exact = -TAIL_POWER * near + np.log(-np.expm1(ratio))
    return np.where(distance > 1e6 * scale, far, exact)
