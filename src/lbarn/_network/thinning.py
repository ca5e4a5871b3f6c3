"""The children of particles, and which of them are kept if there are too many.

A row keeps ``limit`` of them by the resampling of Fearnhead and Clifford (2003), the least noise there is without bias: a
particle heavier than a threshold stays as it is, and each lighter one stays with a chance in proportion to its weight and then
weighs as much as the threshold. That leaves the total weight as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Descent", "added_variance", "branch"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Descent:
    """Where the particles of a generation come from, (rows, particles) each."""

    parent: NDArray[np.int32]  # a particle of the same row
    chance: NDArray[np.float32]  # with which the child was kept
    n_parents: int  # per row
    threshold: Floats  # (rows,): weight of those that were kept by chance, 0 if none was

    @property
    def flat(self) -> NDArray[np.intp]:
        """The parents, counted through all rows."""
        return (self.parent + np.arange(len(self.parent))[:, None] * self.n_parents).ravel()

    def take(self, rows: NDArray[np.intp]) -> Descent:
        return Descent(self.parent[rows], self.chance[rows], self.n_parents, self.threshold[rows])


def branch(
    zero: Floats, one: Floats, limit: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.uint8], Descent]:
    """Both children of every particle, weighed ``zero`` and ``one``: weights, bits and descent of those that are kept.

    A row that has more than ``limit`` is thinned to so many.
    """
    n, n_parents = zero.shape
    both = np.stack([zero, one], axis=2)  # (rows, parents, children)
    chance, threshold = np.ones_like(both), np.zeros(n)
    crowded = np.flatnonzero(np.count_nonzero(both, axis=(1, 2)) > limit)
    if len(crowded):
        both[crowded], chance[crowded], threshold[crowded] = _thin(both[crowded], limit, rng)
    counts = np.count_nonzero(both, axis=(1, 2))
    row, parent, child = np.nonzero(both)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = n, int(counts.max())
    weight, bit = np.zeros(shape), np.zeros(shape, np.uint8)
    descent = Descent(np.zeros(shape, np.int32), np.ones(shape, np.float32), n_parents, threshold)
    weight[row, slot] = both[row, parent, child]
    bit[row, slot] = child
    descent.parent[row, slot] = parent
    descent.chance[row, slot] = chance[row, parent, child]
    return weight, bit, descent


def _thin(weight: Floats, limit: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """``limit`` of the children of every row: their weights, 0 for the others, each one's chance to be kept, and the
    row's threshold.

    How many children a parent keeps is spread evenly over the parents, which are in the order of their bits, so seldom
    does a family die out; which of two children stays is for every parent to draw on its own.
    """
    threshold = _threshold(weight.reshape(len(weight), -1), limit)[:, None, None]
    threshold = np.maximum(threshold, np.nextafter(0.0, 1.0))
    with np.errstate(over="ignore"):
        chance = np.minimum(weight / threshold, 1.0)
    expected = chance.sum(axis=2)
    ends = np.cumsum(expected, axis=1)
    ends *= limit / ends[:, -1:]
    n_kept = np.diff(np.floor(ends + rng.random((len(ends), 1))), axis=1, prepend=0.0)  # expected, rounded up or down
    # Of two children with chances a and b one is kept with probability a + b, or 2 - a - b where that is above 1.
    few = expected <= 1.0
    first = np.where(few, chance[..., 0], 1.0 - chance[..., 1])
    is_first = rng.random(first.shape) * np.where(few, expected, 2.0 - expected) < first
    kept = (n_kept[..., None] == 2) | ((n_kept[..., None] == 1) & np.stack([is_first, ~is_first], axis=2))
    return np.where(kept, np.maximum(weight, threshold), 0.0), chance, threshold[:, 0, 0]


def _threshold(weight: Floats, limit: int) -> Floats:
    """The c of every row at which sum of min(weight / c, 1) is ``limit``."""
    light_first = np.sort(weight, axis=1)
    weight_up_to = np.cumsum(light_first, axis=1)[:, : -limit - 1 : -1]  # all but the k heaviest, k = 0..limit-1
    room = limit - np.arange(limit)  # for them, if those k stay as they are
    k = np.argmax(light_first[:, : -limit - 1 : -1] * room <= weight_up_to, axis=1)
    return weight_up_to[np.arange(len(k)), k] / room[k]


def added_variance(weight: Floats, descent: list[Descent]) -> Floats:
    """What thinning has added to the relative variance of a row's weights.

    A particle that was kept with chance q adds 1 - q times the square of the weight that its descendants have in the end.
    """
    variance = np.zeros(len(weight))
    for generation in reversed(descent):
        variance += (np.square(weight) * (1.0 - generation.chance)).sum(axis=1)
        inherited = np.bincount(generation.flat, weight.ravel(), len(weight) * generation.n_parents)
        weight = inherited.astype(np.float64, copy=False).reshape(len(weight), -1)
    return variance
