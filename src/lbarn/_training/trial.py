"""What a few of the columns say about how to learn all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.conditional import Boosting
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._training.auto import Columns

__all__ = ["Trial", "settled", "some_rows"]

_TRIED, _TRIED_SUMS = 24, 8  # columns, at most; those whose sums alone are in question tell sooner
_WIDE = 32  # columns from which the number of leaves is tried: with fewer it would take too large a part of the time
_LEAVES = 4, 128
_MOST_ROWS = 50_000  # to train on, and to validate on
_RATE, _ROUNDS, _PATIENCE = 0.1, 150, 25  # of every trial, so that a longer fit begins like a shorter one


@dataclass(frozen=True, eq=False)
class Trial:
    """A way to learn, and how well each of some columns validates that was trained so."""

    how: Boosting
    data: TrainingData
    values: NDArray[np.float64]

    def gain(self, other: Trial) -> tuple[float, float]:
        """How much better this is, over all columns together, and the error of that."""
        more = self.values - other.values
        return float(more.sum()), float(np.sqrt((more**2).sum()))


def settled(
    how: Boosting,
    data: TrainingData,
    places: Sequence[int],
    train: Callable[[Sequence[int], Boosting, TrainingData], Columns],
    judge: Callable[[Columns], NDArray[np.float64]],
    *,
    counts: bool,
    shared: bool,
    leaves: bool,
) -> Trial:
    """Whether to count, to share trees, and with how many leaves, by a few columns spread over the ``places``.

    Counts and shared trees are kept if the columns validate better with them. The number of leaves, where none is asked for, is the one that goes with the
    number of rows, halved as long as the columns are better for it, or else doubled as long as they are by more than its error.
    """

    def trial(how: Boosting, data: TrainingData) -> Trial:
        brief = replace(how, learning_rate=_RATE, max_iter=_ROUNDS + data.n_shared, n_iter_no_change=_PATIENCE)
        return Trial(
            how,
            data,
            judge(train(tried, brief, replace(some, counted=data.counted, sums=data.sums, shared=data.shared))),
        )

    leaves = leaves and how.max_leaf_nodes is None and data.layout.is_binary and len(places) >= _WIDE
    counts, shared = counts and data.has_counts, shared and data.shared is not None
    most = _TRIED
    if counts and data.sums is not None and not data.counted and not shared:
        places = [place for place in places if data.sums.before(place, data.layout)]  # others learn the same without
        counts, most = bool(places), _TRIED_SUMS
    if not leaves and not counts and not shared:
        return Trial(how, data, np.zeros(0))
    tried = [places[int(k)] for k in np.unique(np.linspace(0, len(places) - 1, most + 2).round()[1:-1])]
    some = replace(data, train=some_rows(data.train, data.seed), valid=some_rows(data.valid, data.seed))
    if leaves:
        how = how.for_rows(data.train.n_rows)
    best = trial(how, data)
    without = [TrainingData.without_counts] * counts + [TrainingData.without_shared] * shared
    for change in without:
        plain = trial(how, change(best.data))
        best = plain if plain.gain(best)[0] > 0 else best
    for factor in (0.5, 2.0) if leaves else ():
        before = best
        while _LEAVES[0] <= (J := int((best.how.max_leaf_nodes or 0) * factor)) <= _LEAVES[1]:
            other = trial(replace(best.how, max_leaf_nodes=J), best.data)
            gain, error = other.gain(best)
            if gain <= (error if factor > 1 else 0.0):
                break
            best = other
        if best is not before:
            break
    return best


def some_rows(rows: TrainingRows, seed: int, most: int = _MOST_ROWS) -> TrainingRows:
    """The rows, or so many of them."""
    if rows.n_rows <= most:
        return rows
    return rows.take(np.sort(np.random.default_rng([seed, 3]).permutation(rows.n_rows)[:most]))
