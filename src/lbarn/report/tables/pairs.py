"""Pairs of columns that depend on each other, in rows and in samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lbarn._tables.codes import GridCode
from lbarn.report.tables.columns import Axis, axis_of
from lbarn.report.tables.rows import Field, Rows

__all__ = ["Associations", "Boxes", "HeatMap", "Pair", "Scatter", "associations", "draw_pair"]

Floats = NDArray[np.float64]

_POINTS = 400  # of a scatter plot
_LEVELS = 6  # of a column in a picture
_BINS = 8  # of a number, to measure how two columns are associated
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_COARSE, _BESIDE = 40, 0.35  # points of a grid on an axis; steps of the grid
_FEWEST = 5  # rows of a level that are enough for a box


@dataclass(frozen=True, eq=False)
class Scatter:
    """Points (n, 2) of rows and samples, as places between 0 and 1, and the ends of the two axes."""

    ends: tuple[tuple[float, float], tuple[float, float]]
    real: Floats
    made: Floats


@dataclass(frozen=True, eq=False)
class Boxes:
    """Quantiles (5%, 25%, 50%, 75%, 95%) of numbers, as places on an axis, for levels: (levels, 5), NaN if there are too few."""

    axis: Axis
    levels: list[str]
    real: Floats
    made: Floats


@dataclass(frozen=True, eq=False)
class HeatMap:
    """Shares of the second column's levels for each level of the first one: (levels, levels of the second)."""

    levels: tuple[list[str], list[str]]
    real: Floats
    made: Floats


@dataclass(frozen=True, eq=False)
class Pair:
    """Two columns: their strength in nats per row, how they are associated in rows and samples, and a picture."""

    first: int
    second: int
    strength: float
    association: tuple[float, float]
    picture: Scatter | Boxes | HeatMap | None


@dataclass(frozen=True, eq=False)
class Associations:
    """Of many pairs, (2, pairs): in rows, and in samples."""

    values: Floats


def draw_pair(
    pair: tuple[int, int], strength: float, fields: Sequence[Field], real: Rows, made: Rows, seed: int
) -> Pair:
    """A pair with its picture; numbers against levels have the levels first."""
    first, second = pair
    if fields[first].levels is None and fields[second].levels is not None:
        first, second = second, first
    association = tuple(_association(fields, rows, first, second) for rows in (real, made))
    a, b = fields[first], fields[second]
    picture: Scatter | Boxes | HeatMap | None
    if a.levels is None:
        picture = _scatter(a, b, first, second, real, made, seed)
    elif b.levels is None:
        picture = _boxes(a, b, first, second, real, made)
    else:
        if len(a.levels) < len(b.levels):
            first, second, a, b = second, first, b, a
        picture = _heat_map(a, b, first, second, real, made)
    return Pair(first, second, strength, (association[0], association[1]), picture)


def associations(fields: Sequence[Field], pairs: Sequence[tuple[int, int]], real: Rows, made: Rows) -> Associations:
    """Of some pairs of columns."""
    found = []
    for rows in (real, made):
        groups = {j: _groups(fields[j], rows, j) for j in {j for pair in pairs for j in pair}}
        found.append([_normalised_information(groups[i], groups[j]) for i, j in pairs])
    return Associations(np.array(found, dtype=np.float64).reshape(2, len(pairs)))


def _association(fields: Sequence[Field], rows: Rows, first: int, second: int) -> float:
    return _normalised_information(_groups(fields[first], rows, first), _groups(fields[second], rows, second))


def _groups(field: Field, rows: Rows, j: int) -> NDArray[np.intp]:
    """A few groups of the column's cells, alike in training rows; -1 where unknown."""
    code, cells = field.code, rows.cells[:, j]
    if field.numeric is not None:
        upto = np.cumsum(code.mass) - code.mass / 2
        group = np.minimum((_BINS * upto / max(code.n_rows, 1.0)).astype(np.intp), _BINS - 1)
        if code.missing:
            group = group + 1
            group[0] = 0
    else:
        rank = np.argsort(np.argsort(-code.mass, kind="stable"), kind="stable")
        group = np.minimum(rank, 2 * _BINS - 1)
    found: NDArray[np.intp] = np.where(rows.unknown[:, j], -1, group[np.where(rows.unknown[:, j], 0, cells)])
    return found


def _normalised_information(a: NDArray[np.intp], b: NDArray[np.intp]) -> float:
    """Mutual information, less its bias, by the smaller entropy: 0 if independent, 1 if one tells the other."""
    both = (a >= 0) & (b >= 0)
    a, b = a[both], b[both]
    n = len(a)
    if n < 2:
        return 0.0
    joint = np.bincount(a * (b.max() + 1) + b, minlength=(a.max() + 1) * (b.max() + 1)).reshape(a.max() + 1, -1) / n
    p, q = joint.sum(axis=1), joint.sum(axis=0)
    entropies = _entropy(p), _entropy(q)
    if min(entropies) < 1e-9:
        return 0.0
    bias = ((p > 0).sum() - 1) * ((q > 0).sum() - 1) / (2 * n)
    information = sum(entropies) - _entropy(joint.ravel()) - bias
    return float(np.clip(information / min(entropies), 0.0, 1.0))


def _entropy(p: Floats) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def _scatter(a: Field, b: Field, i: int, j: int, real: Rows, made: Rows, seed: int) -> Scatter | None:
    rng = np.random.default_rng([seed, 2])
    axes = [axis_of(own, own.numbers(real.columns[k])) for own, k in ((a, i), (b, j))]
    if axes[0] is None or axes[1] is None:
        return None
    points = []
    for rows in (real, made):
        places = np.stack(
            [
                _scattered(own, axis, own.numbers(rows.columns[k]), rng)
                for own, axis, k in ((a, axes[0], i), (b, axes[1], j))
            ],
            axis=1,
        )
        places = places[np.isfinite(places).all(axis=1)]
        if len(places) > _POINTS:
            places = places[rng.choice(len(places), _POINTS, replace=False)]
        points.append(places[((places >= 0) & (places <= 1)).all(axis=1)])
    return Scatter(((axes[0].low, axes[0].high), (axes[1].low, axes[1].high)), points[0], points[1])


def _scattered(field: Field, axis: Axis, values: Floats, rng: np.random.Generator) -> Floats:
    """Places on an axis; on a coarse grid a little beside it, so that equal numbers do not hide each other."""
    if isinstance(field.code, GridCode) and not axis.log:
        width = field.code.grid.width
        if axis.high - axis.low < _COARSE * width:
            beside = values + width * rng.uniform(-_BESIDE, _BESIDE, len(values))
            return Axis(axis.low - width / 2, axis.high + width / 2, False).place(beside)
    return axis.place(values)


def _shown_levels(field: Field, rows: Rows, j: int) -> NDArray[np.intp]:
    """The most frequent levels, in their order if they have one."""
    assert field.levels is not None
    numbers = field.level_numbers(rows.columns[j])
    counts = np.bincount(numbers[numbers >= 0], minlength=len(field.levels))
    shown = np.argsort(-counts, kind="stable")[:_LEVELS]
    shown = shown[counts[shown] > 0]
    return np.sort(shown) if field.is_ordered else shown


def _boxes(a: Field, b: Field, i: int, j: int, real: Rows, made: Rows) -> Boxes | None:
    assert a.levels is not None
    axis, shown = axis_of(b, b.numbers(real.columns[j])), _shown_levels(a, real, i)
    if axis is None or not len(shown):
        return None
    found = []
    for rows in (real, made):
        level, values = a.level_numbers(rows.columns[i]), b.numbers(rows.columns[j])
        boxes = np.full((len(shown), len(_QUANTILES)), np.nan)
        for row, k in enumerate(shown.tolist()):
            own = values[(level == k) & np.isfinite(values)]
            if len(own) >= _FEWEST:
                boxes[row] = np.clip(axis.place(np.maximum(np.quantile(own, _QUANTILES), axis.low)), 0.0, 1.0)
        found.append(boxes)
    return Boxes(axis, [a.levels[k] for k in shown.tolist()], found[0], found[1])


def _heat_map(a: Field, b: Field, i: int, j: int, real: Rows, made: Rows) -> HeatMap | None:
    assert a.levels is not None
    assert b.levels is not None
    shown = _shown_levels(a, real, i), _shown_levels(b, real, j)
    if not len(shown[0]) or not len(shown[1]):
        return None
    found = []
    for rows in (real, made):
        first, second = a.level_numbers(rows.columns[i]), b.level_numbers(rows.columns[j])
        own = [[np.count_nonzero((first == k) & (second == m)) for m in shown[1]] for k in shown[0]]
        total = np.array([max(np.count_nonzero((first == k) & (second >= -1)), 1) for k in shown[0]])
        found.append(np.array(own) / total[:, None])
    names = [[field.levels[k] for k in own.tolist()] for field, own in ((a, shown[0]), (b, shown[1])) if field.levels]
    return HeatMap((names[0], names[1]), found[0], found[1])
