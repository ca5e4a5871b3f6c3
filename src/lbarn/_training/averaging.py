"""Networks with the same order that have learned from other rows, averaged to one: its log-odds are the mean of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.conditional import Conditional
from lbarn._engine.counts import Counts
from lbarn._engine.trees import NO_LIMIT, Trees
from lbarn._network.shorttrees import short_gains, short_values
from lbarn._training.run import TrainingRun

__all__ = ["averaged"]


def averaged(runs: Sequence[TrainingRun], n_trees: Sequence[NDArray[np.intp]]) -> TrainingRun:
    """One trimmed run, whose trees are the selected ones of all runs, each with its share of the log-odds.

    The trees of a round follow each other, and the learning rate is divided by their number: leaves that are renewed then come out alike.
    """
    first = runs[0]
    trees = [[own.head(int(n)) for own, n in zip(run.trees, counts)] for run, counts in zip(runs, n_trees)]
    conditionals = []
    shared = first.boosting.init == "half"  # if a conditional has a start, then it is not its own
    for k, own in enumerate(first.conditionals):
        constant = all(run.conditionals[k].constant for run in runs)
        parts = [each[k] for each in trees]
        mean = _one_leaf(parts) if constant else _averaged_trees(parts)
        n_start = sum(min(run.conditionals[k].n_start, len(part)) for run, part in zip(runs, parts)) if shared else 0
        conditionals.append(Conditional(own.position, mean, np.zeros(0), np.zeros(0), n_start, constant=constant))
    stretch = np.mean([run.stretch for run in runs], axis=0).round().astype(int).tolist()
    how = replace(first.boosting, learning_rate=first.boosting.learning_rate / len(runs))
    return TrainingRun(
        first.order,
        first.layout,
        tuple(conditionals),
        how,
        first.seed,
        first.n_valid,
        first.pooling,
        stretch=tuple(stretch),
        search_results=first.search_results,
    )


def _one_leaf(parts: Sequence[Trees]) -> Trees:
    """Of conditionals that are not learned."""
    return replace(parts[0], values=short_values(np.mean([own.values for own in parts], axis=0)))


def _averaged_trees(parts: Sequence[Trees]) -> Trees:
    counts, splits = _common_counts(parts)
    by_round = np.argsort(np.concatenate([np.arange(len(own)) for own in parts]), kind="stable")
    sizes = np.concatenate([np.diff(own.offsets) for own in parts])
    taken = _taken(sizes, by_round)
    values = np.concatenate([own.values for own in parts])[_taken(sizes + 1, by_round)]
    gains = np.concatenate([own.gains for own in parts])[taken]
    learned = [own.limit for own in parts if len(own.splits)]
    return replace(
        parts[0],
        splits=np.ascontiguousarray(np.concatenate(splits)[taken]),
        gains=gains if len(parts) == 1 else short_gains(gains / np.float32(len(parts))),
        values=values if len(parts) == 1 else short_values(values / len(parts)),
        offsets=np.concatenate([[0], np.cumsum(sizes[by_round])]).astype(np.int64),
        limit=max(learned, default=NO_LIMIT),
        counts=counts,
    )


def _taken(sizes: NDArray[np.int64], order: NDArray[np.intp]) -> NDArray[np.int64]:
    """Where the elements of parts of these sizes are, if the parts come in this order."""
    start = np.cumsum(sizes) - sizes
    sizes, start = sizes[order], start[order]
    shift = start - (np.cumsum(sizes) - sizes)
    return np.repeat(shift, sizes) + np.arange(sizes.sum())


def _common_counts(parts: Sequence[Trees]) -> tuple[Counts | None, list[NDArray[np.uint16]]]:
    """The counts of all of them, and their splits in these terms: each has thresholds, and sums, of its own."""
    first = next((own.counts for own in parts if own.counts is not None), None)
    if first is None:
        return None, [own.splits for own in parts]
    counts = [own.counts for own in parts]
    together, of_each = Counts.together([own for own in counts if own is not None])
    numbers = iter(of_each)
    asked = [
        np.zeros((0, 2), np.uint16) if c is None else np.stack([next(numbers)[c.which], c.at_least], axis=1)
        for c in counts
    ]
    all_asked, place = np.unique(np.concatenate(asked), axis=0, return_inverse=True)
    places = np.split(place.reshape(-1), np.cumsum([len(own) for own in asked])[:-1])
    splits = []
    for own, number in zip(parts, places):
        moved = own.splits.copy()
        counted = moved[:, 1] >= first.position
        moved[counted, 1] = first.position + number[moved[counted, 1] - first.position]
        splits.append(moved)
    which, at_least = np.ascontiguousarray(all_asked.T)
    return replace(together, which=which, at_least=at_least), splits
