"""How alike two tables are, column by column and pair by pair, as SDMetrics defines it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lbarn.comparison.encoding import Floats, Schema

__all__ = [
    "Bins",
    "Correlations",
    "compare_correlations",
    "correlations",
    "missing_similarity",
    "pairs_of",
    "shapes",
    "trends",
]

_BINS = 10
_DECIMALS = 14  # to which numbers are compared
_DENSE = 1_000_000  # cells of a contingency table that is counted without sorting

Pairs = NDArray[np.intp]


def shapes(schema: Schema, real: Floats, other: Floats) -> Floats:
    """By column: 1 - the Kolmogorov-Smirnov distance of numbers and dates, 1 - the total variation distance of levels.

    Empty cells are left out.
    """
    return np.array(
        [
            1 - (_total_variation if discrete else _kolmogorov_smirnov)(_known(real[:, j]), _known(other[:, j]))
            for j, discrete in enumerate(schema.discrete)
        ]
    )


def missing_similarity(real: Floats, other: Floats) -> Floats:
    """By column: 1 - the difference of the shares of empty cells."""
    return 1 - np.abs(np.isnan(real).mean(axis=0) - np.isnan(other).mean(axis=0))


def _known(column: Floats) -> Floats:
    return column[~np.isnan(column)]


def _kolmogorov_smirnov(a: Floats, b: Floats) -> float:
    a, b = (np.sort(np.round(column, _DECIMALS)) for column in (a, b))
    steps = np.concatenate([a, b])
    above = np.searchsorted(a, steps, side="right") / len(a) - np.searchsorted(b, steps, side="right") / len(b)
    return float(np.abs(above).max())


def _total_variation(a: Floats, b: Floats) -> float:
    n = int(max(a.max(), b.max())) + 1
    share_a, share_b = (np.bincount(column.astype(np.intp), minlength=n) / len(column) for column in (a, b))
    return float(np.abs(share_a - share_b).sum() / 2)


def pairs_of(n_columns: int, most: int, rng: np.random.Generator) -> Pairs:
    """All pairs of columns; so many of them, drawn at random, if there are more."""
    pairs = np.column_stack(np.triu_indices(n_columns, 1))
    return pairs if len(pairs) <= most else pairs[np.sort(rng.choice(len(pairs), most, replace=False))]


def trends(schema: Schema, real: Floats, other: Floats, pairs: Pairs) -> Floats:
    """By pair: 1 - half the difference of two correlations if both columns are numbers or dates; else 1 - the total
    variation distance of the contingency tables, in which numbers are in ten bins and empty cells are a level.

    NaN if a column of numbers is constant.
    """
    discrete = schema.discrete
    continuous = ~discrete
    place = np.cumsum(continuous) - 1
    both = [correlations(table[:, continuous]) for table in (real, other)] if continuous.any() else []
    bins = Bins(schema, real)
    levels = {int(j): bins.levels(int(j), real[:, j], other[:, j]) for j in np.unique(pairs)}
    found = np.empty(len(pairs))
    for k, (i, j) in enumerate(pairs.tolist()):
        if discrete[i] or discrete[j]:
            found[k] = 1 - _contingency_distance(levels[i], levels[j])
        else:
            first, second = (matrix[place[i], place[j]] for matrix in both)
            found[k] = 1 - abs(first - second) / 2
    return found


class Bins:
    """Numbers and dates in ten bins of equal width over the range of the real rows, the outer ones open."""

    def __init__(self, schema: Schema, real: Floats) -> None:
        self._edges: list[Floats | None] = []
        for j, discrete in enumerate(schema.discrete):
            known = _known(real[:, j])
            low, high = float(known.min()), float(known.max())
            wide = (low, high) if high > low else (low - 0.5, high + 0.5)
            self._edges.append(None if discrete else np.linspace(*wide, _BINS + 1))

    def edges(self, j: int) -> Floats:
        found = self._edges[j]
        assert found is not None
        return found

    def levels(self, j: int, *columns: Floats) -> tuple[int, list[NDArray[np.intp]]]:
        """How many levels there are, and which one each cell has: the last one if it is empty."""
        edges = self._edges[j]
        n = int(max(np.nanmax(column) for column in columns)) + 1 if edges is None else _BINS
        coded = [column if edges is None else np.searchsorted(edges[1:-1], column, side="right") for column in columns]
        return n + 1, [np.where(np.isnan(own), n, code).astype(np.intp) for own, code in zip(columns, coded)]


def _contingency_distance(
    first: tuple[int, list[NDArray[np.intp]]], second: tuple[int, list[NDArray[np.intp]]]
) -> float:
    (n_first, a), (n_second, b) = first, second
    joint = [x * n_second + y for x, y in zip(a, b)]
    if n_first * n_second > _DENSE:
        _, numbers = np.unique(np.concatenate(joint), return_inverse=True)
        joint = [numbers[: len(joint[0])], numbers[len(joint[0]) :]]
    n = int(max(cells.max() for cells in joint)) + 1
    share_a, share_b = (np.bincount(cells, minlength=n) / len(cells) for cells in joint)
    return float(np.abs(share_a - share_b).sum() / 2)


def correlations(X: Floats) -> Floats:
    """Of every pair of columns, over the rows in which both have a value; NaN if one of them is constant there."""
    known = ~np.isnan(X)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nanmean(X, axis=0)
        scale = np.nanstd(X, axis=0)
        constant = np.nanmax(X, axis=0) == np.nanmin(X, axis=0)
        scale[constant | ~(scale > 0)] = np.nan
        Z = np.where(known, (X - mean) / scale, 0)
        Z[:, np.isnan(scale)] = 0
        M = known.astype(np.float64)
        n, total, squares, products = M.T @ M, Z.T @ M, (Z * Z).T @ M, Z.T @ Z
        covariance = products - total * total.T / n
        variance = squares - total**2 / n
        variance[variance < 1e-9 * n] = np.nan
        found = covariance / np.sqrt(variance * variance.T)
    return np.clip(found, -1, 1)


@dataclass(frozen=True)
class Correlations:
    """Mean absolute difference of the correlations of two tables, and how well they agree (NaN if they do not vary)."""

    difference: float
    agreement: float


def compare_correlations(schema: Schema, real: Floats, other: Floats) -> Correlations:
    """Of all pairs of numbers, dates and booleans that vary in the real rows; a constant column correlates with nothing."""
    ordered = np.array([kind != "category" for kind in schema.kinds])
    varying = ordered & (np.nanmin(real, axis=0) < np.nanmax(real, axis=0))
    upper = np.triu_indices(int(varying.sum()), 1)
    if not len(upper[0]):
        return Correlations(0.0, float("nan"))
    a, b = (np.nan_to_num(correlations(table[:, varying]))[upper] for table in (real, other))
    difference = float(np.abs(a - b).mean())
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return Correlations(difference, float("nan"))
    return Correlations(difference, float(np.corrcoef(a, b)[0, 1]))
