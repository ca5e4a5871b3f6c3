"""What the pixels of images have in common: trees learned from the neighbourhoods of all of them, for each to begin with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PickedRows
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._engine.sharedtrees import ONE, ZERO, SharedTrees
from lbarn._training.jobs import each_dimension

__all__ = ["learn_together", "neighbourhoods"]

_RADIUS = 10  # pixels
_LEAVES = ((50_000, 256), (10_000, 64), (0, 16))  # from so many neighbourhoods on
_RATE, _ROUNDS, _PATIENCE = 0.1, 500, 20
_MOST_ROWS = 6_000_000  # neighbourhoods to learn from
_MOST_VALID = 500_000
_WORD = 64  # rows that are next to each other are taken together
_MANY = 4096  # rows of which the last few may be left out


def neighbourhoods(order: NDArray[np.intp], size: tuple[int, int]) -> NDArray[np.int32] | None:
    """What a pixel is learned from, as places in the order, ``ZERO`` or ``ONE``: (pixels in order, features).

    Features are the pixels around it that always come before it, ``ZERO`` beyond the margin, and thresholds of its row and its column. None if
    the order does not go through the images line by line: then no direction comes before.

    Examples
    --------
    >>> found = neighbourhoods(np.arange(6), (2, 3))
    >>> found[4]  # the pixel in the middle of the second row: those above, those left of it, then where it is
    array([-2,  0,  1,  2, -2, -2,  3, -1, -1, -2], dtype=int32)
    """
    height, width = size
    place = np.argsort(order).reshape(size)
    found, directions = [], set()
    for down in range(-min(_RADIUS, height - 1), min(_RADIUS, height - 1) + 1):
        for right in range(-min(_RADIUS, width - 1), min(_RADIUS, width - 1) + 1):
            there = np.full(size, ZERO)
            inside = tuple(slice(max(0, -by), n - max(0, by)) for by, n in zip((down, right), size))
            other = tuple(slice(max(0, by), n - max(0, -by)) for by, n in zip((down, right), size))
            there[inside] = place[other]
            if (there < place).all() and (down or right):
                found.append(there)
                directions.add((down, right))
    nearest = [{(-1, 0), (1, 0)}] * (height > 1) + [{(0, -1), (0, 1)}] * (width > 1)
    if not found or not all(own & directions for own in nearest):
        return None
    row, column = np.indices(size)
    found += [np.where(row >= k, ONE, ZERO) for k in range(1, height)]
    found += [np.where(column >= k, ONE, ZERO) for k in range(1, width)]
    return np.stack(found, axis=-1).reshape(len(order), -1)[order].astype(np.int32)


def learn_together(data: TrainingData, features: NDArray[np.int32], how: Boosting, n_jobs: int | None) -> SharedTrees:
    """Trees for the pixels of all places at once."""
    found: list[SharedTrees] = []
    each_dimension(_learn, [(0,)], features, how, data, n_jobs=n_jobs, done=lambda _, own: found.append(own))
    return found[0]


def _learn(
    _: int, features: NDArray[np.int32], how: Boosting, data: TrainingData, *, cancel: _core.CancelFlag
) -> SharedTrees:
    rng = np.random.default_rng([data.seed, 4])
    train, weight = _gathered(data.train, features, _MOST_ROWS, rng)
    valid, valid_weight = _gathered(data.valid, features, _MOST_VALID, rng)
    how = replace(
        how,
        max_leaf_nodes=next(leaves for rows, leaves in _LEAVES if train.n_rows >= rows),
        learning_rate=_RATE,
        max_iter=_ROUNDS,
        n_iter_no_change=_PATIENCE,
    )
    own = Conditional.train(
        train, valid, features.shape[1], how, weight=weight, valid_weight=valid_weight, seed=data.seed, cancel=cancel
    )
    return SharedTrees(own.head(int(own.valid_curve.argmax())).trees, features)


def _gathered(
    rows: TrainingRows, features: NDArray[np.int32], most: int, rng: np.random.Generator
) -> tuple[PickedRows, NDArray[np.float64] | None]:
    """The features of every pixel in some of the rows, and its value, pixel after pixel; and the weights of all that."""
    n_pixels, n_words = len(features), -(-rows.n_rows // _WORD)
    if rows.n_rows >= _MANY:
        n_words = rows.n_rows // _WORD
    n_taken = min(n_words, max(1, most // (_WORD * n_pixels)))
    n_rows = n_pixels * n_taken * _WORD
    constant = np.zeros((2, rows.bits.columns.shape[1]), np.uint64)
    constant[ONE] = ~constant[ONE]
    columns = np.concatenate([rows.bits.columns, constant])  # where ZERO and ONE, which are negative, find them
    gathered = np.zeros((features.shape[1] + 1, _core.column_words(n_rows)), np.uint64)
    weights = [rows.weight_for(place) for place in range(n_pixels)]
    whole = n_words * _WORD <= rows.n_rows and all(own is None for own in weights)
    weight = None if whole else np.empty(n_rows)
    for place in range(n_pixels):
        words = np.sort(rng.permutation(n_words)[:n_taken])
        to = slice(place * n_taken, (place + 1) * n_taken)
        gathered[:-1, to] = columns[features[place][:, None], words]
        gathered[-1, to] = columns[place, words]
        if weight is not None:
            own, each = weights[place], np.zeros(n_words * _WORD)  # none beyond the last row
            each[: rows.n_rows] = 1.0 if own is None else own[: len(each)]
            weight[to.start * _WORD : to.stop * _WORD] = each.reshape(n_words, _WORD)[words].ravel()
    return PickedRows(gathered, n_rows), weight
