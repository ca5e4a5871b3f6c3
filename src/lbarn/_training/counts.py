"""Which ones are counted, and how the counts become bits that predict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.codetree import CodeTree
from lbarn._engine.counts import Counts
from lbarn._engine.rows import TrainingData

__all__ = ["counts_for", "kinds_of_ones"]

_WINDOWS = (4, 8, 16, 32, 64, 128)  # the last so many, beside all
_MOST_THRESHOLDS = 12  # of one count
_FEWEST = 10  # columns whose ones are counted
_ALIKE = 4  # groups, or columns, with the same levels


def kinds_of_ones(data: TrainingData, levels: Sequence[Sequence[tuple[int, int]]]) -> tuple[NDArray[np.intp], ...]:
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


def counts_for(data: TrainingData, place: int, node: int) -> Counts | None:
    """The counts that predict a node of the column at a place of the order; None if there is nothing to count."""
    first, position = int(data.layout.first_bit[place]), int(data.layout.first_bit[place]) + node
    counted = []
    for kind in data.counted:
        positions = np.sort(data.layout.first_bit[kind[:, 0]] + kind[:, 1])
        positions = positions[positions < first]
        if len(positions) >= 2:
            counted += [positions[-window:] for window in _WINDOWS if window < len(positions)] + [positions]
    if not counted:
        return None
    counts = Counts.of(position, counted)
    values = counts.values(data.train.bits.rows)
    which, at_least = [], []
    for m, own in enumerate(values.T):
        distinct = np.unique(own)[1:]
        if len(distinct) > _MOST_THRESHOLDS:
            shares = np.linspace(0, 1, _MOST_THRESHOLDS + 2)[1:-1]
            distinct = np.setdiff1d(np.quantile(own, shares, method="higher"), own.min())
        which += [m] * len(distinct)
        at_least += distinct.tolist()
    if not which:
        return None
    return Counts(position, counts.masks, np.array(which, np.uint16), np.array(at_least, np.uint16))
