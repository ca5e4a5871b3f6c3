"""The distributions of a column in two tables, as shares of a few levels or bins that can be drawn side by side."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from lbarn.comparison.encoding import Floats, Schema

__all__ = ["Distribution", "distribution"]

_LEVELS = 8  # that are shown one by one
_BINS = 20
_DAY = 86_400.0


@dataclass(frozen=True)
class Distribution:
    """Shares of the cells of a column; ``labels`` are levels, values, or the beginnings of bins. Empty cells come last."""

    labels: tuple[str, ...]
    real: tuple[float, ...]
    synthetic: tuple[float, ...]
    is_binned: bool


def distribution(schema: Schema, j: int, real: Floats, synthetic: Floats) -> Distribution:
    """Of column ``j``: of its levels, or of its numbers or dates in bins between the outer percentiles of the real rows."""
    columns = [real[:, j], synthetic[:, j]]
    levels = schema.levels[j]
    known = np.unique(columns[0][~np.isnan(columns[0])])
    is_binned = levels is None and len(known) > _BINS
    if levels is not None:
        labels, counts = _of_levels(levels, columns, schema.kinds[j] == "boolean")
    elif is_binned:
        labels, counts = _of_bins(columns, schema.kinds[j] == "datetime")
    else:
        values = [_label(value, schema.kinds[j] == "datetime") for value in known.tolist()]
        counts = [[int((column == value).sum()) for value in known] for column in columns]
        labels, counts = _with_others(values, columns, counts)
    empty = [int(np.isnan(column).sum()) for column in columns]
    if any(empty):
        labels, counts = [*labels, "(empty)"], [[*own, n] for own, n in zip(counts, empty)]
    shares = [tuple((np.array(own) / len(column)).tolist()) for own, column in zip(counts, columns)]
    return Distribution(tuple(labels), shares[0], shares[1], is_binned)


def _of_levels(levels: tuple[str, ...], columns: list[Floats], in_order: bool) -> tuple[list[str], list[list[int]]]:
    """The most frequent ones among the real rows."""
    n = len(levels)
    all_counts = [np.bincount(column[~np.isnan(column)].astype(np.intp), minlength=n) for column in columns]
    shown = np.arange(n) if in_order else np.argsort(-all_counts[0], kind="stable")
    if n > _LEVELS:
        shown = shown[: _LEVELS - 1]
    return _with_others([levels[level] for level in shown], columns, [counts[shown].tolist() for counts in all_counts])


def _with_others(
    labels: list[str], columns: list[Floats], counts: list[list[int]]
) -> tuple[list[str], list[list[int]]]:
    rest = [int((~np.isnan(column)).sum()) - sum(own) for column, own in zip(columns, counts)]
    if not any(rest):
        return labels, counts
    return [*labels, "(others)"], [[*own, n] for own, n in zip(counts, rest)]


def _of_bins(columns: list[Floats], is_date: bool) -> tuple[list[str], list[list[int]]]:
    """The outer bins hold what lies beyond."""
    low, high = np.nanquantile(columns[0], [0.01, 0.99])
    if high <= low:
        low, high = np.nanmin(columns[0]), np.nanmax(columns[0])
    edges = np.linspace(low, high, _BINS + 1)
    counts = []
    for column in columns:
        bins = np.searchsorted(edges[1:-1], column[~np.isnan(column)], side="right")
        counts.append(np.bincount(bins, minlength=_BINS).tolist())
    return [_label(edge, is_date) for edge in edges[:-1].tolist()], counts


def _label(value: float, is_date: bool) -> str:
    if not is_date:
        return (
            f"{value:.4g}"
            if abs(value) < 1e4 and value != round(value)
            else f"{value:,.0f}"
            if abs(value) < 1e9
            else f"{value:.3g}"
        )
    try:
        moment = datetime(1970, 1, 1) + timedelta(seconds=value)
    except OverflowError:
        return f"{value:.3g} s"
    return f"{moment:%Y-%m-%d}" if value % _DAY == 0 else f"{moment:%Y-%m-%d %H:%M}"
