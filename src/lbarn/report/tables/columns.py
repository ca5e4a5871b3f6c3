"""How the values of every column are distributed, in rows and in samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lbarn._tables.codes import GridCode
from lbarn.report.tables.rows import Field, Rows

__all__ = ["Axis", "Bar", "Distribution", "Histogram", "Spike", "axis_of", "distribution"]

Floats = NDArray[np.float64]

_BARS = 8  # levels of a column that are shown, if they are many
_BINS = 28
_TAIL = 0.005  # share of the rows on either side that need not be drawn
_SPIKE = 0.35  # share of the rows from which on a single value is told apart from the others
_DECADES = 2.0  # from here on, an axis is logarithmic


@dataclass(frozen=True)
class Bar:
    """A level and its shares: in rows, and in samples."""

    level: str
    real: float
    made: float


@dataclass(frozen=True)
class Axis:
    """A range of numbers, in steps or by their logarithm."""

    low: float
    high: float
    log: bool

    def place(self, values: Floats) -> Floats:
        """0 at the low end, 1 at the high end."""
        if self.log:
            with np.errstate(divide="ignore", invalid="ignore"):
                return (np.log(values) - np.log(self.low)) / (np.log(self.high) - np.log(self.low))
        return (values - self.low) / (self.high - self.low)

    def at(self, place: float) -> float:
        if self.log:
            return float(self.low * (self.high / self.low) ** place)
        return float(self.low + place * (self.high - self.low))


@dataclass(frozen=True)
class Spike:
    """A value that so many rows have that the others would not be seen beside it."""

    value: float
    real: float
    made: float


@dataclass(frozen=True, eq=False)
class Histogram:
    """Of numbers: heights over the bins between ``edges``, which are places on the axis."""

    axis: Axis
    edges: Floats
    real: Floats
    made: Floats
    ends: tuple[float, float]  # of the axis, as numbers that the column may have
    outside: float  # the share of the rows that is beyond the axis
    spike: Spike | None


@dataclass(frozen=True, eq=False)
class Distribution:
    """Of one column. ``empty`` and ``unseen`` are shares: of empty cells in rows and samples, and of levels in the rows that no
    training row had."""

    column: int
    empty: tuple[float, float]
    unseen: float
    bars: list[Bar] | None
    n_other: int  # levels that share the last bar
    histogram: Histogram | None
    difference: float  # total variation distance of rows and samples, in cells
    chance: float  # what it would be by chance alone


def distribution(column: int, field: Field, real: Rows, made: Rows) -> Distribution:
    """Of a modelled column, by its number among those."""
    empty = tuple(float(rows.columns[column].missing.mean()) for rows in (real, made))
    bars: list[Bar] | None = None
    n_other, unseen, histogram = 0, 0.0, None
    if field.levels is not None:
        numbers = [field.level_numbers(rows.columns[column]) for rows in (real, made)]
        bars, n_other = _bars(field, field.levels, numbers)
        unseen = float((numbers[0] == -1).mean())
    else:
        histogram = _histogram(field, *(field.numbers(rows.columns[column]) for rows in (real, made)))
    difference, chance = _difference(field, real.cells[:, column], made.cells[:, column])
    return Distribution(column, (empty[0], empty[1]), unseen, bars, n_other, histogram, difference, chance)


def _bars(field: Field, levels: list[str], numbers: list[NDArray[np.int64]]) -> tuple[list[Bar], int]:
    """Shares of the rows whose cell is not empty."""
    real, made = (np.bincount(own[own >= 0], minlength=len(levels)) / max((own >= -1).sum(), 1) for own in numbers)
    shown = np.arange(len(levels))
    if not field.is_ordered or len(levels) > 2 * _BARS:
        shown = np.lexsort((shown, -made, -real))
    others = shown[:0]
    if len(levels) > _BARS + 1 and not (field.is_ordered and len(levels) <= 2 * _BARS):
        shown, others = shown[:_BARS], shown[_BARS:]
    bars = [Bar(levels[k], float(real[k]), float(made[k])) for k in shown.tolist()]
    if len(others):
        bars.append(Bar("", float(real[others].sum()), float(made[others].sum())))
    return bars, len(others)


def axis_of(field: Field, values: Floats) -> Axis | None:
    """Where most of the numbers are, None if there are none."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, middle, high = (float(q) for q in np.quantile(values, [_TAIL, 0.5, 1 - _TAIL]))
    least, most = float(values.min()), float(values.max())
    if most - least < 1.3 * (high - low):
        low, high = least, most
    log = low > 0 and np.log10(high / low) >= _DECADES and middle < (low + high) / 4
    step = field.code.grid.width if isinstance(field.code, GridCode) else 0.0
    if high - low <= step or high == low:
        step = max(step, abs(high) * 1e-3, 1e-12)
        low, high, log = low - step, high + step, False
    return Axis(low, high, bool(log))


def _histogram(field: Field, real: Floats, made: Floats) -> Histogram | None:
    spike = _spike(real, made)
    there = real[np.isfinite(real)]
    if spike is not None:
        there = there[there != spike.value]
    axis = axis_of(field, there)
    if axis is None:
        return None
    cuts = _cuts(field, axis)
    edges = axis.place(cuts)
    widths = np.diff(edges)
    heights = []
    for values in (real, made):
        own = values[np.isfinite(values)]
        n = max(len(own), 1)
        if spike is not None:
            own = own[own != spike.value]
        heights.append(np.histogram(own, cuts)[0] / n / widths)
    drawn = there[(there >= cuts[0]) & (there <= cuts[-1])]
    outside = float((len(there) - len(drawn)) / max(np.isfinite(real).sum(), 1))
    half = field.code.grid.width / 2 if isinstance(field.code, GridCode) else 0.0
    ends = float(cuts[0]) + half, min(float(cuts[-1]) - half, float(there.max()))
    edges = (edges - edges[0]) / (edges[-1] - edges[0])
    axis = Axis(float(cuts[0]), float(cuts[-1]), axis.log)
    return Histogram(axis, edges, heights[0], heights[1], ends, outside, spike)


def _spike(real: Floats, made: Floats) -> Spike | None:
    there = real[np.isfinite(real)]
    if not len(there):
        return None
    values, counts = np.unique(there, return_counts=True)
    k = int(counts.argmax())
    if len(values) < 3 or counts[k] < _SPIKE * len(there):
        return None
    also = made[np.isfinite(made)]
    return Spike(
        float(values[k]), float(counts[k] / len(there)), float((also == values[k]).mean()) if len(also) else 0.0
    )


def _cuts(field: Field, axis: Axis) -> Floats:
    """The ends of bins; on a grid, each has as many of its points."""
    if axis.log:
        cuts: Floats = np.geomspace(axis.low, axis.high, _BINS + 1, dtype=np.float64)
        if isinstance(field.code, GridCode):
            width = field.code.grid.width
            cuts = np.unique((np.floor(cuts / width) + 0.5) * width)
            cuts[0] = min(cuts[0], axis.low - width / 2) if axis.low > width / 2 else cuts[0]
            cuts = np.append(cuts[cuts < axis.high], axis.high + width / 2)
        return cuts
    if isinstance(field.code, GridCode):
        width = field.code.grid.width
        points = round((axis.high - axis.low) / width) + 1
        each = max(1, -(-points // _BINS))
        return axis.low - width / 2 + width * each * np.arange(-(-points // each) + 1, dtype=np.float64)
    return np.linspace(axis.low, axis.high, _BINS + 1, dtype=np.float64)


def _difference(field: Field, real: NDArray[np.uint16], made: NDArray[np.uint16]) -> tuple[float, float]:
    """The total variation distance of the cells that are known, and its mean if there were no difference."""
    n_cells = field.code.n_cells
    counts = [np.bincount(cells[cells < n_cells], minlength=n_cells).astype(np.float64) for cells in (real, made)]
    n, m = (max(own.sum(), 1.0) for own in counts)
    p, q = counts[0] / n, counts[1] / m
    pooled = (counts[0] + counts[1]) / (n + m)
    noise = np.sqrt(2 / np.pi * pooled * (1 - pooled) * (1 / n + 1 / m))
    return float(np.abs(p - q).sum() / 2), float(noise.sum() / 2)
