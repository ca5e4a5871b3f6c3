"""What is counted and added up, and how that becomes bits that predict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.codetree import CodeTree
from lbarn._engine.counts import Counts, WeightedSum
from lbarn._engine.rows import TrainingData
from lbarn._engine.sums import Sums
from lbarn._training.data import GivenRows

__all__ = ["ColumnCounts", "with_counts"]

_WINDOWS = (4, 8, 16, 32, 64, 128)  # the last so many, beside all
_MOST_THRESHOLDS = 12  # of one count
_MOST_OF_A_SUM = 24
_FEWEST = 10  # columns whose ones are counted
_ALIKE = 4  # groups, or columns, with the same levels


def with_counts(data: TrainingData, rows: GivenRows) -> TrainingData:
    """With all that may be counted or added up."""
    sums = None
    if data.train.cells is not None and not rows.alone:
        sums = Sums.of(data.layout, data.train.cells, data.train.weight, [code.numbers for code in rows.book.codes])
    return replace(data, counted=_kinds_of_ones(data, rows.shared_levels()), sums=sums)


def _kinds_of_ones(data: TrainingData, levels: Sequence[Sequence[tuple[int, int]]]) -> tuple[NDArray[np.intp], ...]:
    """What may be counted: ones of binary columns, and each level of groups, or of columns, that have the same levels.

    ``levels`` are of categories that several columns share: for each, (column, cell) wherever it may be.
    """
    kinds = []
    binary = [k for k, tree in enumerate(data.layout.columns) if tree.is_binary]
    if len(binary) >= _FEWEST:
        kinds.append(np.array([(k, 0) for k in binary], dtype=np.intp))
    for size in sorted({len(group.columns) for group in data.groups}):
        alike = [group.columns for group in data.groups if len(group.columns) == size]
        if len(alike) >= _ALIKE:
            kinds += [np.array([(columns[level], 0) for columns in alike], dtype=np.intp) for level in range(size)]
    for level in levels:
        bits = [(k, _bit_of(data.layout.columns[k], cell)) for k, cell in level]
        there = [(k, bit) for k, bit in bits if bit is not None]
        if len(there) >= _ALIKE:
            kinds.append(np.array(there, dtype=np.intp))
    return tuple(kinds)


def _bit_of(tree: CodeTree, cell: int) -> int | None:
    """The bit that is 1 in this cell alone."""
    found = np.flatnonzero((tree.ones_low == cell) & (tree.ones_high == cell + 1))
    return int(found[0]) if len(found) else None


@dataclass(frozen=True, eq=False)
class ColumnCounts:
    """The counts that predict a column, and what they are in the training rows."""

    counts: Counts
    values: NDArray[np.uint16]

    @classmethod
    def of(cls, data: TrainingData, place: int) -> ColumnCounts | None:
        """For the column at a place of the order; None if there is nothing to count."""
        first = int(data.layout.first_bit[place])
        counted: list[NDArray[np.intp] | WeightedSum] = []
        for kind in data.counted:
            positions = np.sort(data.layout.first_bit[kind[:, 0]] + kind[:, 1])
            positions = positions[positions < first]
            if len(positions) >= 2:
                counted += [positions[-window:] for window in _WINDOWS if window < len(positions)] + [positions]
        if data.sums is not None:
            counted += data.sums.before(place, data.layout)
        if not counted:
            return None
        counts = Counts.of(first, counted)
        return cls(counts, counts.values(data.train.bits.rows))

    def at(self, position: int, reached: NDArray[np.bool_]) -> Counts | None:
        """For the bit at a position of the column: thresholds of sums are spread over the training rows that have ``reached`` it."""
        which, at_least = [], []
        for c, own in enumerate(self.values.T):
            most = _MOST_THRESHOLDS
            if self.counts.is_sum(c):
                own, most = own[reached], _MOST_OF_A_SUM
            distinct = np.unique(own)[1:]
            if len(distinct) > most:
                shares = np.linspace(0, 1, most + 2)[1:-1]
                distinct = np.setdiff1d(np.quantile(own, shares, method="higher"), own.min())
            which += [c] * len(distinct)
            at_least += distinct.tolist()
        if not which:
            return None
        return replace(
            self.counts.at(position), which=np.array(which, np.uint16), at_least=np.array(at_least, np.uint16)
        )
