"""What conditionals are trained on: packed bits, the cells they come from, where they are missing, and row weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PackedBits, PickedRows
from lbarn._engine.codetree import UNKNOWN, Cells, Layout
from lbarn._engine.counts import Counts
from lbarn._engine.sharedtrees import SharedTrees
from lbarn._engine.sums import Sums

__all__ = ["Group", "TrainingData", "TrainingRows"]

Weights = NDArray[np.float64] | None
_NOWHERE = np.zeros(0, np.uint16)


@dataclass(frozen=True)
class NodeRows:
    """The rows that one conditional is learned from."""

    bits: PackedBits | PickedRows
    weight: Weights
    cells: _core.CellColumns | None = None

    @property
    def n_rows(self) -> int:
        """Those counted that others stand for."""
        return self.bits.n_all


@dataclass(frozen=True)
class TrainingRows:
    """Bits in network order, where they are missing, and row weights.

    Tables with columns of more than one bit also have the ``cells`` of every column, (columns, rows), of which some may be
    ``UNKNOWN``; where they are, their bits read as another value.
    """

    bits: PackedBits
    missing: PackedBits | None = None
    weight: NDArray[np.float64] | None = None
    cells: NDArray[np.uint16] | None = None
    common: NDArray[np.uint16] | None = None  # the cell as which an unknown one of a column reads
    merged: bool = False  # whether equal rows are learned from once

    @classmethod
    def coded(cls, cells: Cells, weight: Weights = None) -> TrainingRows:
        """Rows of cells, (n, columns), not packed yet: ``in_order`` does that."""
        nothing = PackedBits(np.zeros((len(cells), 0), np.uint8), 0)
        return cls(nothing, None, weight, np.ascontiguousarray(cells.T))

    @property
    def n_rows(self) -> int:
        return self.bits.n_rows

    @property
    def n_columns(self) -> int:
        return self.bits.n_columns if self.cells is None else len(self.cells)

    def reached(
        self, layout: Layout, column: int, node: int, closers: NDArray[np.uint16] = _NOWHERE
    ) -> NDArray[np.bool_]:
        """Whether each row reaches a node of a column, and none of the ``closers`` keeps it away.

        A row of a binary table does if its value is missing, too: it has no weight there.
        """
        reached = np.ones(self.n_rows, np.bool_)
        if self.cells is not None:
            tree, own = layout.columns[column], self.cells[column]
            reached = (own >= tree.low[node]) & (own < tree.high[node])
        for position in closers.tolist():
            reached &= self.bits.column(position) == 0
        return reached

    def at_node(
        self,
        layout: Layout,
        column: int,
        node: int,
        cells: _core.CellColumns | None = None,
        closers: NDArray[np.uint16] = _NOWHERE,
        counts: Counts | None = None,
    ) -> NodeRows:
        """The rows that reach a node of a column, equal ones once if they are merged; ``cells`` are the ``cell_columns`` of all rows."""
        position = int(layout.first_bit[column]) + node
        weight = self.weight if self.cells is not None else self.weight_for(position)
        reached = self.reached(layout, column, node, closers)
        index = np.flatnonzero(reached).astype(np.int32)
        equal = None
        if self.merged and weight is None:
            index, equal = self.bits.distinct(index, position + 1)
        if counts is None and len(index) == self.n_rows:
            return NodeRows(self.bits, weight, cells)
        if counts is None:
            picked = self.bits.pick(index, position + 1, equal)
        else:
            picked = counts.to_train(self.bits.rows, index, equal)
        own = None if weight is None else weight[index]
        return NodeRows(picked, own, None if cells is None else cells.take(index))

    def cell_columns(self, layout: Layout, column: int) -> _core.CellColumns | None:
        """The columns before one that have many bits, each bit an interval of cells: to learn from them is fast."""
        if self.cells is None or self.common is None:
            return None
        cells, first, low, high = [], [], [], []
        for k in range(column):
            tree = layout.columns[k]
            if tree.n_bits < 2:
                continue
            own = np.where(self.cells[k] == UNKNOWN, self.common[k], self.cells[k]).astype(np.uint16)
            n_around = int(tree.around.sum())
            n_usual = tree.n_bits - n_around
            cells.append(own)
            first.append(layout.first_bit[k])
            low.append(tree.ones_low[:n_usual])
            high.append(tree.ones_high[:n_usual])
            if n_around:  # once more, with the empty value behind all others: there its bits are intervals
                cells.append(np.where(own == 0, tree.n_cells, own).astype(np.uint16))
                first.append(layout.first_bit[k] + n_usual)
                low.append(tree.ones_low[n_usual:])
                high.append(np.full(n_around, tree.n_cells + 1))
        if not cells:
            return None
        return _core.CellColumns(
            np.stack(cells),
            np.array(first, np.uint32),
            np.cumsum([0, *map(len, low)]).astype(np.uint32),
            np.concatenate(low).astype(np.uint16),
            np.concatenate(high).astype(np.uint16),
        )

    def share_at_node(self, layout: Layout, column: int, node: int, closers: NDArray[np.uint16] = _NOWHERE) -> float:
        """The share of the rows, by weight, that reach a node."""
        if self.cells is None and not len(closers):
            return 1.0
        weight = self.weight if self.cells is not None else self.weight_for(int(layout.first_bit[column]))
        if weight is not None and not weight.any():
            return 0.0
        return float(np.average(self.reached(layout, column, node, closers), weights=weight))

    def node_log_odds(self, layout: Layout, column: int) -> NDArray[np.float64]:
        """The log-odds of every node of a column among the rows that reach it, with half a row more on either side."""
        tree = layout.columns[column]
        if self.cells is None:
            own, weight = self.bits.column(int(layout.first_bit[column])), self.weight_for(column)
        else:
            own, weight = self.cells[column], self.weight
        if weight is not None:
            weight = weight * (np.count_nonzero(weight) / max(weight.sum(), np.finfo(float).tiny))  # 1 on average
        known = own != UNKNOWN
        mass = np.bincount(own[known], None if weight is None else weight[known], tree.n_cells)
        upto = np.concatenate([[0.0], np.cumsum(mass)])
        zeros, ones = upto[tree.cut] - upto[tree.low], upto[tree.high] - upto[tree.cut]
        return np.where(np.isnan(tree.fixed), np.log((ones + 0.5) / (zeros + 0.5)), tree.fixed)

    def weight_for(self, position: int) -> Weights:
        """Row weights for one conditional: a row whose target is missing has none."""
        if self.missing is None or not self.missing.columns[position].any():
            return self.weight
        present = 1.0 - self.missing.column(position).astype(np.float64)
        return present if self.weight is None else present * self.weight

    def __sizeof__(self) -> int:
        cells = 0 if self.cells is None else self.cells.nbytes
        return (
            object.__sizeof__(self) + self.bits.rows.nbytes + cells
        )  # Dask's backend sends what is large once per worker

    def take(self, rows: NDArray[np.intp]) -> TrainingRows:
        return TrainingRows(
            self.bits.take(rows),
            None if self.missing is None else self.missing.take(rows),
            None if self.weight is None else self.weight[rows],
            None if self.cells is None else np.ascontiguousarray(self.cells[:, rows]),
            self.common,
            self.merged,
        )

    def common_values(self) -> NDArray[np.bool_] | None:
        """Each column's most common value by weight among the rows that have one; None where nothing is missing."""
        if self.missing is None:
            return None
        weight = _weight_or_ones(self)
        ones = np.array([weight @ self.bits.column(j) for j in range(self.bits.n_columns)])
        holes = np.array([weight @ self.missing.column(j) for j in range(self.bits.n_columns)])
        return ones > (weight.sum() - holes) / 2

    def filled(self, values: NDArray[np.bool_] | None) -> TrainingRows:
        """Missing bits replaced by ``values`` (zeros where None): what they read as when they are predictors."""
        if self.missing is None or values is None:
            return self
        fill = np.zeros(self.bits.rows.shape[1], np.uint8)
        packed = np.packbits(values, bitorder="little")
        fill[: len(packed)] = packed
        bits = PackedBits(self.bits.rows | (self.missing.rows & fill), self.bits.n_columns)
        return replace(self, bits=bits)

    def common_cells(self, layout: Layout) -> NDArray[np.uint16]:
        """Each column's most common cell by weight among the rows whose cell is known."""
        assert self.cells is not None
        common = np.zeros(len(self.cells), np.uint16)
        for k, cells in enumerate(self.cells):
            known = cells != UNKNOWN
            weight = None if self.weight is None else self.weight[known]
            common[k] = np.bincount(cells[known], weight, layout.columns[k].n_cells).argmax()
        return common

    def in_order(self, order: NDArray[np.intp], layout: Layout) -> TrainingRows:
        """The same rows with column ``order[k]`` at place ``k`` of ``layout``."""
        if self.cells is not None:
            assert self.common is not None
            cells, common = self.cells[order], self.common[order]
            unknown = cells == UNKNOWN
            filled = np.where(unknown, common[:, None], cells) if unknown.any() else cells
            return replace(self, bits=layout.pack(filled.T), cells=cells, common=common)
        if np.array_equal(order, np.arange(len(order))):
            return self
        missing = None if self.missing is None else self.missing.permuted(order)
        return replace(self, bits=self.bits.permuted(order), missing=missing)

    def __add__(self, other: TrainingRows) -> TrainingRows:
        missing = None
        if self.missing is not None or other.missing is not None:
            missing = _missing_or_none(self) + _missing_or_none(other)
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([_weight_or_ones(self), _weight_or_ones(other)])
        cells = None
        if self.cells is not None and other.cells is not None:
            cells = np.concatenate([self.cells, other.cells], axis=1)
        return TrainingRows(self.bits + other.bits, missing, weight, cells, self.common, self.merged)


def _missing_or_none(rows: TrainingRows) -> PackedBits:
    return rows.missing or PackedBits(np.zeros_like(rows.bits.rows), rows.bits.n_columns)


def _weight_or_ones(rows: TrainingRows) -> NDArray[np.float64]:
    return np.ones(rows.bits.n_rows) if rows.weight is None else rows.weight


@dataclass(frozen=True)
class Group:
    """Binary columns that exclude each other: at most one of them is 1, or exactly one if ``exact``.

    ``log_odds`` are those of a 1 in a row that has one already.
    """

    columns: tuple[int, ...]
    exact: bool
    log_odds: float

    def permuted(self, place: NDArray[np.intp]) -> Group:
        return replace(self, columns=tuple(sorted(int(place[j]) for j in self.columns)))


@dataclass(frozen=True)
class TrainingData:
    """What a network is trained and validated on."""

    layout: Layout
    train: TrainingRows
    valid: TrainingRows
    seed: int
    groups: tuple[Group, ...] = ()
    counted: tuple[NDArray[np.intp], ...] = ()  # kinds of ones to count: (column, bit of the column) of each
    sums: Sums | None = None  # of numbers, which predict others
    shared: SharedTrees | None = None  # that every column begins with, by place in the order

    def in_order(self, order: NDArray[np.intp]) -> TrainingData:
        layout, place = self.layout.permuted(order), np.argsort(order)
        return replace(
            self,
            layout=layout,
            train=self.train.in_order(order, layout),
            valid=self.valid.in_order(order, layout),
            groups=tuple(group.permuted(place) for group in self.groups),
            counted=tuple(np.stack([place[own[:, 0]], own[:, 1]], axis=1) for own in self.counted),
            sums=None if self.sums is None else self.sums.permuted(order),
        )

    def merged(self, merged: bool) -> TrainingData:
        """Learned from with equal rows as one, or each by itself."""
        return replace(self, train=replace(self.train, merged=merged), valid=replace(self.valid, merged=merged))

    @property
    def has_counts(self) -> bool:
        return bool(self.counted) or self.sums is not None

    def without_counts(self) -> TrainingData:
        return replace(self, counted=(), sums=None)

    def without_shared(self) -> TrainingData:
        return replace(self, shared=None)

    @property
    def n_shared(self) -> int:
        """Trees that every column begins with."""
        return 0 if self.shared is None else len(self.shared)

    def group_of(self, place: int) -> Group | None:
        return next((group for group in self.groups if place in group.columns), None)

    def closers(self, place: int) -> NDArray[np.uint16]:
        """The bits of the columns before this one that are in its group."""
        group = self.group_of(place)
        before = [] if group is None else [k for k in group.columns if k < place]
        return self.layout.first_bit[before].astype(np.uint16)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.train.__sizeof__() + self.valid.__sizeof__()
