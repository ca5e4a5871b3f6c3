"""Trees that several variables share: each has its own bits where these have features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.trees import Trees

__all__ = ["ONE", "ZERO", "SharedTrees"]

ZERO, ONE = -2, -1  # what is known of a feature without looking at a row


@dataclass(frozen=True, eq=False)
class SharedTrees:
    """Trees on features, and the position, ``ZERO`` or ``ONE`` that each feature is for the variable at every place.

    Examples
    --------
    >>> splits = np.array([(0, 0), (1, 1), (0, 1)], np.uint16)
    >>> tree = Trees(splits, np.ones(3, np.float32), np.arange(4, dtype=np.int32), np.array([0, 3]))
    >>> shared = SharedTrees(tree, np.array([[5, 7], [ONE, 7]], np.int32))
    >>> shared.at(0).splits.tolist(), shared.at(0).values.tolist()
    ([[0, 5], [1, 7], [0, 7]], [0, 1, 2, 3])
    >>> shared.at(1).splits.tolist(), shared.at(1).values.tolist()
    ([[0, 7]], [1, 2])
    """

    trees: Trees
    features: NDArray[np.int32]  # (places, features)

    def __len__(self) -> int:
        return len(self.trees)

    def at(self, place: int) -> Trees:
        """The trees of one variable. A split on what is known for it is none: one side of it goes."""
        own, size = self.trees, np.diff(self.trees.offsets)
        n_trees, most = len(own), int(size.max(initial=0))
        trees = np.arange(n_trees)
        number = np.full((n_trees, most + 1), -1)  # of every leaf in the new tree; -1 is unreachable
        number[:, 0] = 0
        count = np.zeros(n_trees, np.int64)  # of new splits
        kept, leaf = np.zeros(len(own.splits), np.bool_), np.zeros(len(own.splits), np.uint16)
        for k in range(most):
            there = trees[size > k]
            at = own.offsets[there] + k
            split, known = own.splits[at, 0], self.features[place, own.splits[at, 1]]
            old = number[there, split]
            real = (known >= 0) & (old >= 0)
            kept[at[real]], leaf[at[real]] = True, old[real]
            count[there[real]] += 1
            number[there, k + 1] = np.where(real, count[there], np.where(known == ONE, old, -1))
            number[there[known == ONE], split[known == ONE]] = -1
        offsets = np.concatenate([[0], np.cumsum(count)])
        values = np.zeros(offsets[-1] + n_trees, np.int32)
        all_trees = np.repeat(trees, size + 1)
        leaves = np.arange(len(own.values)) - np.repeat(own.offsets[:-1] + trees, size + 1)
        new = number[all_trees, leaves]
        reached = new >= 0
        values[(offsets[all_trees] + all_trees + new)[reached]] = own.values[reached]
        position = self.features[place, own.splits[kept, 1]].astype(np.uint16)
        splits = np.ascontiguousarray(np.stack([leaf[kept], position], axis=1))
        return Trees(splits, own.gains[kept], values, offsets)
