"""Which completions of a row would make likely what was seen at a later position: the trees of that position know.

Every leaf is a conjunction of bits. The leaves that speak loudest for what was seen are where to begin; going on, the other
trees choose among the leaves that can still be reached.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.trees import Trees

__all__ = ["UNSET", "likely_causes"]

UNSET = -1

_STARTS = 4
_TRIED_LEAVES = 64  # among which the starts are looked for: many trees may begin alike
_MORE_TREES = 8  # that have their say after a start

Setting = NDArray[np.int8]  # a bit per position, or UNSET


def likely_causes(trees: Trees, bit: bool, known: Setting) -> NDArray[np.int8]:
    """Settings of bits that are not ``known`` for which ``trees`` expect ``bit``: a few, of (positions,) each.

    Examples
    --------
    >>> import numpy as np
    >>> both = Trees(  # the logical and of two bits
    ...     splits=np.array([[0, 0], [1, 1]], np.uint16),
    ...     gains=np.ones(2, np.float32),
    ...     values=np.array([-5, -5, 5], np.int32) << 20,
    ...     offsets=np.array([0, 2]),
    ... )
    >>> likely_causes(both, True, np.array([UNSET, UNSET, 1], np.int8))
    array([[ 1,  1, -1]], dtype=int8)
    """
    n_known = len(known)
    if trees.counts is not None:  # any count may be; they come behind the bits of the column itself
        n_features = trees.counts.position + len(trees.counts)
        known = np.pad(known, (0, n_features - n_known), constant_values=UNSET)
    leaves = _Leaves(trees, bit)
    found: dict[bytes, Setting] = {}
    for tree, leaf in leaves.loudest(known, _TRIED_LEAVES):
        if len(found) >= 2 * _STARTS:
            break
        start = leaves.settled(known, tree, leaf)
        if start.tobytes() in found:
            continue
        found[start.tobytes()] = start
        end = start
        for _ in range(_MORE_TREES):
            following = leaves.loudest(end, 1)
            if not following:
                break
            end = leaves.settled(end, *following[0])
        found[end.tobytes()] = end
    free = known == UNSET
    settings = [np.where(free, setting, UNSET)[:n_known] for setting in found.values()]
    return np.array(settings, np.int8).reshape(-1, n_known)


class _Leaves:
    """The leaves of trees, (trees, leaves), and how far each speaks for a bit."""

    def __init__(self, trees: Trees, bit: bool) -> None:
        self._trees = trees
        self._n_splits = np.diff(trees.offsets)
        first = trees.offsets[:-1] + np.arange(len(trees))
        index = np.arange(self._n_splits.max(initial=0) + 1)
        self._exists = index <= self._n_splits[:, None]
        values = trees.values[np.where(self._exists, first[:, None] + index, 0)].astype(np.int64)
        self._values = values if bit else -values

    def loudest(self, setting: Setting, most: int) -> list[tuple[int, int]]:
        """(tree, leaf) that can be reached and say more than another leaf of the tree, those that say most more first."""
        reached = self._reached(setting)
        least = np.where(reached, self._values, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
        more = np.where(reached, self._values - least[:, None], 0).ravel()
        first = np.argsort(-more, kind="stable")[:most]
        return [divmod(int(k), len(reached.T)) for k in first if more[k] > 0]

    def _reached(self, setting: Setting) -> NDArray[np.bool_]:
        reached = np.zeros(self._exists.shape, np.bool_)
        reached[:, :1] = True
        for k in range(len(reached.T) - 1):
            tree = np.flatnonzero(self._n_splits > k)
            leaf, position = self._trees.splits[self._trees.offsets[tree] + k].T
            reached[tree, k + 1] = reached[tree, leaf] & (setting[position] != 0)
            reached[tree, leaf] &= setting[position] != 1
        return reached

    def settled(self, setting: Setting, tree: int, leaf: int) -> Setting:
        """``setting`` and the bits that lead to a leaf."""
        setting = setting.copy()
        splits = self._trees.splits[self._trees.offsets[tree] : self._trees.offsets[tree + 1]]
        for k in range(len(splits))[::-1]:
            parent, position = (int(v) for v in splits[k])
            if leaf in (parent, k + 1):
                setting[position] = leaf == k + 1
                leaf = parent
        return setting
