"""Whether rows were copied: exact copies, and how near rows are to their neighbours among known ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from lbarn.comparison.encoding import Floats, Schema

__all__ = ["Neighbours", "Space", "copied_share", "nearer_share", "repeated_share"]

_CHUNK_CELLS = 2_000_000  # distances that are looked at together
_SAME = 1e-9  # distances that differ by rounding only
_FEW_LEVELS = 64  # of a column whose levels are compared by a matrix product


def copied_share(rows: Floats, known: Floats) -> float:
    """Share of the rows that are equal to a known one."""
    keys = set(_keys(known))
    return sum(key in keys for key in _keys(rows)) / len(rows)


def repeated_share(rows: Floats) -> float:
    """Share of the rows that are equal to another one of them."""
    counts = Counter(_keys(rows))
    return sum(count for count in counts.values() if count > 1) / len(rows)


def _keys(rows: Floats) -> Iterator[bytes]:
    canonical = np.where(np.isnan(rows), np.nan, rows + 0.0)  # one NaN, one zero
    return (row.tobytes() for row in canonical)


@dataclass(frozen=True)
class Neighbours:
    """Distances from each row to the nearest and the second nearest of the known rows, and how many are as near as the first."""

    first: Floats
    second: Floats
    ties: NDArray[np.intp]

    def mean_ratio(self) -> float:
        """Mean of nearest / second nearest; 1 if both are 0, for then no single known row is given away."""
        ratio = np.divide(self.first, self.second, out=np.ones_like(self.first), where=self.second > 0)
        return float(ratio.mean())


class Space:
    """A distance of rows of mixed kinds: the sum over columns of 0 or 1 for levels, and of the difference of ranks, from 0
    to 1, for numbers and dates. Empty is a level: at distance 0 from empty and 1 from everything else."""

    def __init__(self, schema: Schema, known: Floats) -> None:
        self._discrete = schema.discrete
        self._n_levels = [0 if levels is None else len(levels) for levels in schema.levels]
        self._scales = [None if discrete else _ranks(known[:, j]) for j, discrete in enumerate(self._discrete)]

    def neighbours(self, rows: Floats, known: Floats, own: NDArray[np.intp] | None = None) -> Neighbours:
        """Of every row among the known ones; ``own`` is where it is itself one of these, which is not its neighbour."""
        others = self._placed(known)
        size = max(1, _CHUNK_CELLS // len(known))
        nearest, ties = [], []
        for start in range(0, len(rows), size):
            distances = self._placed(rows[start : start + size]).distances(others)
            if own is not None:
                distances[np.arange(len(distances)), own[start : start + size]] = np.inf
            nearest.append(np.partition(distances, min(1, len(known) - 1), axis=1)[:, :2])
            ties.append((distances <= nearest[-1][:, :1] + _SAME).sum(axis=1))
        found = np.concatenate(nearest)
        return Neighbours(found[:, 0], found[:, -1], np.concatenate(ties))

    def _placed(self, rows: Floats) -> _Placed:
        numbers = [np.interp(rows[:, j], *scale) for j, scale in enumerate(self._scales) if scale is not None]
        ranks = np.column_stack(numbers) if numbers else np.empty((len(rows), 0))
        few, many = [], []
        for j in np.flatnonzero(self._discrete):
            n = self._n_levels[j]
            codes = np.where(np.isnan(rows[:, j]), n, rows[:, j]).astype(np.intp)
            if n < _FEW_LEVELS:
                few.append(np.eye(n + 1, dtype=np.float32)[codes])
            else:
                many.append(codes)
        return _Placed(
            ranks,
            np.isnan(rows[:, ~self._discrete]),
            len(few),
            np.concatenate(few, axis=1) if few else np.empty((len(rows), 0), np.float32),
            many,
        )


@dataclass(frozen=True)
class _Placed:
    """Rows in a space."""

    ranks: Floats
    missing: NDArray[np.bool_]  # of the columns of numbers
    n_few: int
    indicators: NDArray[np.float32]  # of the levels of columns with few of them
    codes: list[NDArray[np.intp]]  # of the others

    def distances(self, others: _Placed) -> Floats:
        found = self.n_few - (self.indicators @ others.indicators.T).astype(np.float64)
        for a, b in zip(self.codes, others.codes):
            found += a[:, None] != b
        if self.ranks.shape[1]:
            a, b = (np.where(rows.missing, 0, rows.ranks) for rows in (self, others))
            found += cdist(a, b, "cityblock")
            if self.missing.any() or others.missing.any():  # the distance of an empty cell was that to 0; now it is 1
                found += np.where(self.missing, 0, 1 - a) @ others.missing.T
                found += self.missing @ np.where(others.missing, 0, 1 - b).T
        return np.maximum(found, 0)


def _ranks(column: Floats) -> tuple[Floats, Floats]:
    """Values, and the share of the known rows that lie below each, half of its equals included."""
    values, counts = np.unique(column[~np.isnan(column)], return_counts=True)
    below = (np.cumsum(counts) - counts / 2) / counts.sum()
    return values, below


def nearer_share(to_train: Neighbours, to_holdout: Neighbours, n_train: int, n_holdout: int) -> float:
    """Share of the rows that are nearer to training than to held-out rows, as if there were as many of both.

    Among n + m rows of the same kind the nearest is one of the n with the odds n : m, so the odds are divided by these. Of
    rows that are equally near, each is the nearest with the same chance.

    Examples
    --------
    >>> near, far = (Neighbours(np.full(3, d), np.full(3, d), np.full(3, 2)) for d in (1.0, 2.0))
    >>> nearer_share(near, far, 500, 500), nearer_share(near, near, 500, 500)
    (1.0, 0.5)
    """
    a, b = to_train, to_holdout
    tied = np.abs(a.first - b.first) <= _SAME
    share = float(np.where(tied, a.ties / (a.ties + b.ties), a.first < b.first).mean())
    return share * n_holdout / (share * n_holdout + (1 - share) * n_train)
