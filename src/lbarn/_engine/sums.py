"""Which weighted sums of the columns before it predict a column of numbers: trees need many splits for a slope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from lbarn._engine.codetree import UNKNOWN, CodeTree, Layout
from lbarn._engine.counts import WeightedSum

__all__ = ["Sums"]

Floats = NDArray[np.float64]

_MOST_ROWS = 50_000  # whose numbers are compared
_FINE = 250  # divided by the rows: the share of variance left from which on trees say as much as a sum
_MOST_COLUMNS = 12  # in a sum
_ROWS_EACH = 10  # of each column in it
_UNIT, _FURTHEST = 1024, 16  # of a standard deviation; standard deviations
_RANGE = 32_000  # of a sum in whole numbers, so that each weight fits 16 bits


@dataclass(frozen=True, eq=False)
class Sums:
    """How the columns of numbers go together, as they are and by their ranks, and so which sums predict which of them.

    Everything is added up in whole numbers, so that it is the same on every machine.
    """

    columns: NDArray[np.intp]  # those of numbers, ascending
    cells: tuple[tuple[NDArray[np.int64], ...], ...]  # as they are, by rank; of each column, what its cells stand for
    products: tuple[Floats, ...]  # sums over the rows of products of two columns, without the means
    n_rows: int

    @classmethod
    def of(
        cls, layout: Layout, cells: NDArray[np.uint16], weight: Floats | None, numbers: Sequence[Floats | None]
    ) -> Sums | None:
        """Of columns whose cells stand for these ``numbers``, NaN for what is none; None where there are not three of them.

        ``cells`` are those of rows, (columns, rows).
        """
        ordered = (own is not None and _is_ordered(tree) for own, tree in zip(numbers, layout.columns))
        return cls._of([own if is_ordered else None for own, is_ordered in zip(numbers, ordered)], list(cells), weight)

    @classmethod
    def of_values(cls, values: Sequence[Floats | None], weight: Floats | None) -> Sums | None:
        """Of columns with these values, as if every value had a cell of its own; None for a column that is not looked at."""
        distinct = [(None, None) if own is None else np.unique(own, return_inverse=True) for own in values]
        return cls._of([numbers for numbers, _ in distinct], [cells for _, cells in distinct], weight)

    @classmethod
    def _of(cls, numbers: Sequence[Floats | None], cells: Sequence[Any], weight: Floats | None) -> Sums | None:
        index = None if weight is None else np.flatnonzero(weight > 0)
        placed, found = [], []
        for k, values in enumerate(numbers):
            if values is None:
                continue
            own = cells[k] if index is None else cells[k][index]
            own = own[:: -(-len(own) // _MOST_ROWS) or 1]
            mass = np.bincount(own[own != UNKNOWN], minlength=len(values))
            as_they_are, by_rank = _scaled(values, mass), _scaled(_ranks(values, mass), mass)
            if as_they_are is not None and by_rank is not None:
                placed.append(np.where(own == UNKNOWN, mass.argmax(), own))
                found.append((k, as_they_are, by_rank))
        if len(found) < 3:
            return None
        columns, *scales = (tuple(own) for own in zip(*found))
        n_rows = len(placed[0])
        products = []
        for scale in scales:
            X = np.stack([own[at] for own, at in zip(scale, placed)], axis=1).astype(np.float64)
            sums = X.sum(axis=0)
            products.append(X.T @ X - sums[:, None] * sums / n_rows)  # the first is exact: all are whole numbers
        return cls(np.array(columns, dtype=np.intp), tuple(scales), tuple(products), n_rows)

    def permuted(self, order: NDArray[np.intp]) -> Sums:
        """With column ``order[k]`` at place ``k``."""
        places = np.argsort(order)[self.columns]
        new = np.argsort(places)
        cells = tuple(tuple(own[j] for j in new) for own in self.cells)
        products = tuple(own[np.ix_(new, new)] for own in self.products)
        return replace(self, columns=places[new], cells=cells, products=products)

    def before(self, place: int, layout: Layout) -> list[WeightedSum]:
        """Sums of columns before this one that predict it."""
        target = int(np.searchsorted(self.columns, place))
        if target == len(self.columns) or self.columns[target] != place:
            return []
        found = []
        before = np.arange(len(self.columns)) < target
        for cells, products in zip(self.cells, self.products):
            chosen, weights, left = _chosen(products, target, before, self.n_rows)
            if len(chosen) > 1 and left * self.n_rows <= _FINE:
                parts = [(int(self.columns[j]), weight * cells[j].astype(float)) for j, weight in zip(chosen, weights)]
                found.append(_in_bits(parts, layout))
        return found

    @cached_property
    def unexplained(self) -> dict[int, float]:
        """Of every column of numbers, the share of its variance that the best sum of all others leaves."""
        found = {}
        for target, column in enumerate(self.columns.tolist()):
            others = np.arange(len(self.columns)) != target
            found[column] = min(_chosen(products, target, others, self.n_rows)[2] for products in self.products)
        return found


def _is_ordered(tree: CodeTree) -> bool:
    """Whether there is a bit for every cell that says whether a value is there or further up."""
    cuts = tree.ones_low[tree.ones_high == tree.n_cells]
    return tree.n_cells > 1 and bool(np.isin(np.arange(1, tree.n_cells), cuts).all())


def _scaled(values: Floats, mass: NDArray[np.intp]) -> NDArray[np.int64] | None:
    """In whole numbers around 0; what is no number, there. None if all rows have the same."""
    there = np.isfinite(values)
    n, largest = int(mass[there].sum()), float(np.abs(values[there]).max(initial=0.0))
    if not n or not largest:
        return None
    values = np.where(there, values, 0.0) / largest  # so that no square overflows
    mean = fsum((values * np.where(there, mass, 0)).tolist()) / n
    deviation = (fsum((np.where(there, values - mean, 0.0) ** 2 * mass).tolist()) / n) ** 0.5
    if not deviation:
        return None
    units = np.clip((values - mean) / deviation, -_FURTHEST, _FURTHEST) * _UNIT
    return np.where(there, np.rint(units), 0).astype(np.int64)


def _ranks(values: Floats, mass: NDArray[np.intp]) -> Floats:
    """As quantiles of a normal distribution."""
    there = np.where(np.isfinite(values), mass, 0)
    rank = np.cumsum(there) - there / 2
    return np.where(np.isfinite(values), ndtri((rank + 0.5) / (there.sum() + 1)), np.nan)


def _chosen(
    products: Floats, target: int, among: NDArray[np.bool_], n_rows: int
) -> tuple[list[int], list[float], float]:
    """Columns, one after the other, that explain most of what is left of the target; their weights; the share that is left.

    By Cholesky's decomposition of the products, a column at a time.
    """
    squares, on_target = products.diagonal().copy(), products[target].copy()
    whole, n_others = squares.copy(), int(among.sum())
    chosen: list[int] = []
    factors: list[Floats] = []
    while len(chosen) < min(_MOST_COLUMNS, n_rows // _ROWS_EACH, n_others):
        free = among & (squares > 1e-6 * whole)
        free[chosen] = False
        gains = np.where(free, on_target**2 / np.where(free, squares, 1.0), 0.0)
        best, left = int(gains.argmax()), float(squares[target])
        rest = max(left - float(gains[best]), 1e-9 * float(whole[target]))
        if rest >= left or n_rows * np.log(left / rest) < np.log(n_rows) + 2 * np.log(n_others):  # it may be chance
            break
        factor = products[best].copy()
        for before in factors:
            factor -= before[best] * before
        factor /= np.sqrt(squares[best])
        chosen.append(best)
        factors.append(factor)
        squares = squares - factor**2
        on_target = on_target - factor[target] * factor
    weights = [0.0] * len(chosen)
    for i in reversed(range(len(chosen))):
        known = fsum(weights[j] * float(factors[i][chosen[j]]) for j in range(i + 1, len(chosen)))
        weights[i] = (float(factors[i][target]) - known) / float(factors[i][chosen[i]])
    return chosen, weights, max(float(squares[target] / whole[target]), 0.0)


def _in_bits(parts: Sequence[tuple[int, Floats]], layout: Layout) -> WeightedSum:
    """What the cells of some columns weigh, as weights of their bits: a value has the steps of all cells up to its own."""
    unit = _RANGE / fsum(float(np.ptp(values)) for _, values in parts)
    positions, weights, begins = [], [], 0
    for column, values in parts:
        tree = layout.columns[column]
        bits = np.flatnonzero(tree.ones_high == tree.n_cells)
        bits = bits[np.unique(tree.ones_low[bits], return_index=True)[1]]
        steps = np.rint(unit * values).astype(np.int64)
        positions.append(layout.first_bit[column] + bits)
        weights.append(np.diff(steps)[tree.ones_low[bits] - 1])
        begins -= int(np.minimum(weights[-1], 0).sum())
    which = np.argsort(np.concatenate(positions), kind="stable")
    return WeightedSum(np.concatenate(positions)[which], np.concatenate(weights)[which].astype(np.int16), begins)
