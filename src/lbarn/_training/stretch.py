"""How certain a network may be: as certain as the validation rows of all its conditionals together confirm.

A conditional that has seen n rows agree knows no more than that exceptions are rarer than about 1 in 2n, and says so. Many conditionals that
do the same know more: their exceptions together can be counted. So log-odds beyond each of a few knees are stretched, by what makes the
validation rows likeliest if there had been one exception more, among the log-odds beyond the last that there was.

Two sorts of values are not counted, because training would have stopped earlier had there been an exception among the validation rows: those as
certain as a conditional may be (they are stretched like the others), and those of conditionals that say the same of every row (they are not).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Conditional
from lbarn._engine.rows import TrainingRows
from lbarn._engine.trees import (
    AS_THEY_ARE,
    KNEES,
    LOG_ODDS_UNIT,
    MOST_STRETCH,
    NO_STRETCH,
    Stretch,
    log_likelihoods,
)
from lbarn._network.nodes import packed_word
from lbarn._training.curves import selected
from lbarn._training.jobs import each_dimension

__all__ = ["confirmed_stretch"]

_BIN = 1 / 16  # nats
_MOST = 32.0  # beyond, all are one
_SWEEPS = 8  # over the knees, at most
_TINY = float(np.finfo(np.float64).tiny)

Floats = NDArray[np.float64]


def confirmed_stretch(
    conditionals: Sequence[Conditional],
    layout: Layout,
    valid: TrainingRows,
    pooling: float,
    *,
    n_jobs: int | None,
) -> Stretch:
    """How far rows that a network was not trained on allow to stretch its log-odds; all in network order.

    The numbers of trees are chosen on one half of the rows, and exceptions counted in the other: rows that have chosen among curves
    have fewer exceptions than others.
    """
    halves = [valid.take(np.arange(start, valid.n_rows, 2)) for start in (0, 1)]
    if not all(half.n_rows for half in halves):
        return NO_STRETCH
    counted = np.zeros((2, int(_MOST / _BIN) + 1))
    for chooses, counts in (halves, halves[::-1]):
        with_curves = _each(_curves, conditionals, layout, chooses, n_jobs)
        trees = selected("individual", with_curves, layout.peers, float(chooses.n_rows), pooling)
        chosen = [own if own.constant else own.head(int(n)) for own, n in zip(conditionals, trees)]
        for part in _each(_tally, chosen, layout, counts, n_jobs):
            counted += part
    return _likeliest(counted[0], counted[1])


def _each(
    function: Callable[..., list[Any]],
    conditionals: Sequence[Conditional],
    layout: Layout,
    rows: TrainingRows,
    n_jobs: int | None,
) -> list[Any]:
    """What the function says of every conditional, column by column."""
    first, found = layout.first_node, {}

    def done(place: int, result: list[Any]) -> None:
        found[place] = result

    arguments = [(k, tuple(conditionals[first[k] : first[k + 1]])) for k in reversed(range(layout.n_columns))]
    each_dimension(function, arguments, layout, rows, n_jobs=n_jobs, done=done)
    return [own for place in sorted(found) for own in found[place]]


def _curves(
    place: int, conditionals: tuple[Conditional, ...], layout: Layout, rows: TrainingRows, *, cancel: _core.CancelFlag
) -> list[Conditional]:
    """The conditionals of a column with the curves of these rows."""
    found = []
    for node, own in enumerate(conditionals):
        if not own.constant:
            there = rows.at_node(layout, place, node, None, own.trees.closers, own.trees.counts)
            share = rows.share_at_node(layout, place, node, own.trees.closers)
            curve = own.curve(there.bits, there.weight) if there.n_rows else np.zeros_like(own.valid_curve)
            own = replace(own, valid_curve=curve, valid_share=share)
        found.append(own)
    return found


def _tally(
    place: int, conditionals: tuple[Conditional, ...], layout: Layout, rows: TrainingRows, *, cancel: _core.CancelFlag
) -> list[Floats]:
    """Of every conditional, how many rows have log-odds of each size, and how many of them do not have the likelier value."""
    found = []
    for node, own in enumerate(conditionals):
        counted = np.zeros((2, int(_MOST / _BIN) + 1))
        there = rows.at_node(layout, place, node, None, own.trees.closers, own.trees.counts)
        if len(own.trees.splits) and there.n_rows:
            odds = own.log_odds(there.bits)
            ones = there.bits.column(own.target) == 1
            weight = np.ones(len(ones)) if there.bits.count is None else there.bits.count.astype(np.float64)
            if there.weight is not None:
                weight = there.weight / max(there.weight.mean(), _TINY)
            weight = np.where(np.abs(odds) < own.trees.limit, weight, 0.0)
            size = np.minimum(np.abs(odds) * (LOG_ODDS_UNIT / _BIN), _MOST / _BIN).astype(np.intp)
            for total, count in zip(counted, (weight, weight * (ones != (odds > 0)))):
                total += np.bincount(size, count, len(total))
        found.append(counted)
    return found


def _likeliest(everyone: Floats, wrong: Floats) -> Stretch:
    """By coordinate ascent over the knees."""
    sizes = ((np.arange(len(everyone)) + 0.5) * (_BIN / LOG_ODDS_UNIT)).astype(np.int32)
    seen = np.flatnonzero(wrong)
    last = max(int(KNEES[0] / _BIN) - 1, int(seen[-1]) if len(seen) else 0)
    beyond = everyone[last + 1 :].sum()
    wrong = wrong.copy()
    if beyond > 0:
        wrong[last + 1 :] += everyone[last + 1 :] * min(1.0 / beyond, 1.0)
    elif len(seen):
        wrong[last] = min(wrong[last] + 1.0, everyone[last])
    zeros = packed_word(np.zeros(len(sizes), np.bool_))

    def likelihood(stretch: Stretch) -> float:
        odds = _core.stretched(sizes, stretch)
        of_wrong, of_right = log_likelihoods(odds, zeros), log_likelihoods(-odds, zeros)
        return fsum(wrong * of_wrong + (everyone - wrong) * of_right)

    found, before = NO_STRETCH, None
    for _ in range(_SWEEPS):
        if found == before:
            break
        before = found
        for i in range(len(KNEES)):
            tried = [(*found[:i], eighths, *found[i + 1 :]) for eighths in range(AS_THEY_ARE, MOST_STRETCH + 1)]
            found = max(tried, key=likelihood)  # the first of equals
    return found
