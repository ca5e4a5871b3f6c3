"""Boosted trees as flat arrays, and what their log-odds mean. The only place where trees are evaluated."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.counts import Counts

__all__ = [
    "AS_THEY_ARE",
    "KNEES",
    "LOG_ODDS_UNIT",
    "MOST_STRETCH",
    "NO_LIMIT",
    "NO_STRETCH",
    "UNIT",
    "Stretch",
    "Trees",
    "boundaries",
    "log_likelihoods",
    "probabilities",
]

LOG_ODDS_UNIT = 2.0**-20  # leaf values and log-odds
NO_LIMIT = 2**31 - 1  # no log-odds are larger
KNEES = 3, 4, 5, 6, 7, 8  # beyond which log-odds may be stretched
AS_THEY_ARE, MOST_STRETCH = 8, 32  # a stretch, in eighths
UNIT = 2.0**-30  # probabilities and log-likelihoods

Stretch = tuple[int, ...]  # of log-odds beyond each of the knees
NO_STRETCH: Stretch = (AS_THEY_ARE,) * len(KNEES)


@dataclass(frozen=True)
class Trees:
    """Trees as flat arrays, each in the order in which its leaves were split.

    A tree starts as leaf 0. Its split ``k``, ``splits[offsets[t] + k] == (leaf, position)``, takes that leaf apart: rows
    with a 0 at that position stay, rows with a 1 move to the new leaf ``k + 1``. Leaf ``l`` of tree ``t`` has the value
    ``values[offsets[t] + t + l]``, in units of 2^-20. The log-odds of a row are the sum of its leaves, but no further from
    0 than ``limit``, and beyond each of the ``KNEES`` stretched; and where a position among ``closers`` has a 1, they are ``closed``, whatever the trees say. Positions
    behind the variable's own are those of its ``counts``.
    """

    splits: NDArray[np.uint16]
    gains: NDArray[np.float32]
    values: NDArray[np.int32]
    offsets: NDArray[np.int64]
    limit: int = NO_LIMIT
    closers: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16))
    closed: int = 0
    counts: Counts | None = None  # what they may also split on
    stretch: Stretch = NO_STRETCH

    @classmethod
    def empty(cls) -> Trees:
        return cls(np.zeros((0, 2), np.uint16), np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int64))

    @classmethod
    def constant(cls, log_odds: float) -> Trees:
        """One tree of a single leaf."""
        value = np.array([round(log_odds / LOG_ODDS_UNIT)], np.int32)
        return cls(np.zeros((0, 2), np.uint16), np.zeros(0, np.float32), value, np.zeros(2, np.int64))

    @classmethod
    def of_core(cls, trees: _core.Trees) -> Trees:
        """Without closers: training knows nothing of them."""
        return cls(trees.splits, trees.gains, trees.values, trees.offsets, trees.limit)

    def with_trees(self, trees: Trees) -> Trees:
        """Other trees on the same predictors."""
        return replace(trees, closers=self.closers, closed=self.closed, counts=self.counts, stretch=self.stretch)

    def closed_by(self, closers: NDArray[np.uint16], log_odds: float) -> Trees:
        """The same trees, which do not count for a row that has a 1 at one of these positions."""
        return replace(self, closers=closers, closed=round(log_odds / LOG_ODDS_UNIT))

    def stretched(self, stretch: Stretch) -> Trees:
        """With other certainty, unless they say the same of every row: that is known from this column's rows alone."""
        return replace(self, stretch=stretch) if len(self.splits) else self

    @cached_property
    def core(self) -> _core.Trees:
        """The same arrays for the core, which checks them once: a ValueError says what is wrong."""
        try:
            return _core.Trees(
                self.splits,
                self.gains,
                self.values,
                self.offsets,
                self.limit,
                self.closers,
                self.closed,
                self.stretch,
            )
        except TypeError:
            raise ValueError("an array of the trees has another type or shape") from None

    def check(self, position: int) -> None:
        """Raise a ValueError if these cannot be the trees of the variable at ``position``."""
        if self.counts is not None:
            if self.counts.position != position or (self.closers >= position).any():
                raise ValueError("a conditional looks at a variable that comes later in the order")
            self.counts.check()
        if self.core.n_features > position + (0 if self.counts is None else len(self.counts)):
            raise ValueError("a split uses a variable that comes later in the order")
        if not np.isfinite(self.gains).all():
            raise ValueError("a gain is not a number")

    def __getstate__(self) -> dict[str, object]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # the core's object stays here

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def head(self, count: int) -> Trees:
        """The first ``count`` trees, as views."""
        n = int(self.offsets[count])
        return replace(
            self,
            splits=self.splits[:n],
            gains=self.gains[:n],
            values=self.values[: n + count],
            offsets=self.offsets[: count + 1],
        )

    def importance(self, position: int) -> NDArray[np.float64]:
        """Summed gain of each predictor, by position, for the variable at ``position``; what a count is over shares that of the count."""
        gain = np.bincount(self.splits[:, 1], weights=self.gains, minlength=position).astype(np.float64)
        if self.counts is None:
            return gain
        own, of_counts = gain[:position], np.zeros(self.counts.n_counts)
        for feature, value in enumerate(gain[position:]):
            of_counts[self.counts.which[feature]] += value
        for c in np.flatnonzero(of_counts):
            counted, weights = self.counts.weights(int(c))
            share = np.abs(weights.astype(np.float64))
            own[counted] += of_counts[c] * share / share.sum()
        return own

    def log_odds(self, columns: NDArray[np.uint64], n_rows: int) -> NDArray[np.int32]:
        """Log-odds of a 1 for every row of packed columns in network order, in units of 2^-20."""
        return _core.log_odds(columns, n_rows, self.core, None if self.counts is None else self.counts.core)

    def log_odds_at(self, rows: NDArray[np.uint8], index: NDArray[np.int32]) -> NDArray[np.int32]:
        """The same for some rows of ``PackedBits.rows``, by their numbers; others cost nothing."""
        return _core.log_odds_at(rows, index, self.core, None if self.counts is None else self.counts.core)


def log_likelihoods(log_odds: NDArray[np.int32], target: NDArray[np.uint64]) -> NDArray[np.int64]:
    """log P(y) per row, in units of 2^-30, for the packed column ``target``."""
    return _core.log_likelihoods(log_odds, target)


def probabilities(log_odds: NDArray[np.int32]) -> NDArray[np.int32]:
    """P(1) per row, in units of 2^-30."""
    return _core.probabilities(log_odds)


def boundaries(log_odds: NDArray[np.int32]) -> NDArray[np.uint32]:
    """The same for the coder: where the part of a 1 begins, out of 2^24; both values have a part."""
    return _core.boundaries(log_odds)
