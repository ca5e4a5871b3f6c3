"""The page of a comparison: its figures, the distributions of columns, and the pairs that differ most."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lbarn
from lbarn._tables.writing import write_atomically
from lbarn.comparison.distributions import Distribution
from lbarn.comparison.result import ColumnLikeness, Fidelity
from lbarn.comparison.text import printable
from lbarn.plots.numbers import number
from lbarn.report.pictures import DARK, LIGHT

if TYPE_CHECKING:
    from jinja2 import Template

__all__ = ["page_template", "write_comparison"]

_COLUMNS, _PAIRS = 60, 12  # that are shown
_MAP_COLUMNS = 30  # of which all pairs are drawn
_WIDTH, _HEIGHT = 240, 72  # of a small picture
_LONGEST_LABEL = 20
_RISE, _REACH = 0.27, 0.19  # of a character in a slanted label, in squares
_GROUPS = {
    "likeness": "Are they like real rows?",
    "usefulness": "Are they as useful?",
    "copies": "Were rows copied?",
}

Content = dict[str, Any]


def write_comparison(found: Fidelity, path: str | os.PathLike[str], *, title: str | None = None) -> None:
    """Write one HTML page about synthetic rows, from what :func:`lbarn.fidelity` has found. It needs no network.

    Parameters
    ----------
    found : Fidelity
    path : where to write
    title : str, optional

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from lbarn import fidelity
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_comparison(fidelity(X[:100], X[100:]), Path(folder, "page.html"), title="Two halves")
    ...     page = Path(folder, "page.html").read_text(encoding="utf-8")
    >>> "<title>Two halves</title>" in page
    True
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder: {path} cannot be written there")
    text = page_template().render(
        version=lbarn.__version__,
        light=LIGHT,
        dark=DARK,
        title=printable(title or "Synthetic rows compared with real ones"),
        rows=found.rows(),
        summary=_summary(found),
        tiles=[
            (printable(one.title), _value(one.text(one.value)), _value(one.text(one.real)))
            for one in found.figures
            if one.key in _TILES
        ],
        groups=_groups(found),
        reference=_reference(found),
        columns=[_column(column) for column in found.worst_columns(_COLUMNS)],
        n_columns=len(found.columns),
        pairs=_pairs(found),
        map=_map(found),
        notes=[printable(note) for note in found.notes],
    )
    write_atomically(path, text.encode("utf-8", errors="replace"))


def page_template() -> Template:
    """What the page is made of; an error if jinja2 is not there."""
    try:
        from jinja2 import Environment, FileSystemLoader
    except ImportError as error:
        raise ImportError("a page is made with jinja2; pip install 'lbarn[plots]'") from error
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True)
    return pages.get_template("comparison.html")


_TILES = ("c2st", "shape", "trend", "trained_on_synthetic", "copied_synthetic", "nearer_to_training")


def _value(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}") if any(c.isdigit() for c in text) else "\N{EN DASH}"


def _summary(found: Fidelity) -> str:
    auc, expected = found.two_sample_auc, found.real_against_real.two_sample_auc
    if auc < max(expected, 0.5) + 0.02:
        text = "Boosted trees cannot tell the synthetic rows from real ones"
    else:
        text = f"Of a synthetic and a real row, boosted trees find the synthetic one {auc:.0%} of the time (50% is by chance)"
    copies = next(one for one in found.figures if one.key == "copied_synthetic")
    known, expected_copies = copies.text(copies.value), copies.text(copies.real)
    if found.n_train is None:
        return (
            f"{text}. {known} of the synthetic rows are exact copies of real rows; {expected_copies} of the real rows occur "
            "more than once."
        )
    return f"{text}. {known} of the synthetic rows, and {expected_copies} of the held-out rows, are exact copies of training rows."


def _reference(found: Fidelity) -> str:
    if found.n_train is None:
        return "one random half of the real rows compared with the other half, or each real row with the others"
    return "real training rows in place of the synthetic ones, or held-out rows"


def _groups(found: Fidelity) -> list[Content]:
    return [
        {
            "title": title,
            "lines": [
                {
                    "title": printable(one.title),
                    "value": _value(one.text(one.value)),
                    "real": _value(one.text(one.real)),
                    "meaning": one.meaning,
                    "good": one.good,
                }
                for one in found.figures
                if one.group == group
            ],
        }
        for group, title in _GROUPS.items()
        if any(one.group == group for one in found.figures)
    ]


# ---------------------------------------------------------------------- columns


def _column(column: ColumnLikeness) -> Content:
    own = column.distribution
    is_number = column.kind in ("number", "datetime")
    return {
        "name": printable(column.name),
        "kind": {"number": "number", "datetime": "date", "boolean": "boolean", "category": "category"}[column.kind],
        "shape": number(column.shape, 3),
        "shape_real": number(column.shape_real, 3),
        "empty": f"{column.empty_real:.1%} empty, synthetic {column.empty_synthetic:.1%}"
        if column.empty_real or column.empty_synthetic
        else None,
        "bars": None if is_number else _bars(own),
        "steps": _steps(own) if is_number else None,
    }


def _bars(own: Distribution) -> list[Content]:
    """One line a level: shares as numbers, and as parts of the largest."""
    largest = max(*own.real, *own.synthetic, 1e-9)
    return [
        {
            "label": printable(label),
            "real": f"{real:.1%}",
            "synthetic": f"{made:.1%}",
            "real_width": f"{100 * real / largest:.1f}",
            "synthetic_width": f"{100 * made / largest:.1f}",
        }
        for label, real, made in zip(own.labels, own.real, own.synthetic)
    ]


def _steps(own: Distribution) -> Content:
    """Bars of the real shares, and a line over them of the synthetic ones."""
    shown = [k for k, label in enumerate(own.labels) if label != "(empty)"]
    largest = max(*own.real, *own.synthetic, 1e-9)
    width = _WIDTH / len(shown)
    heights = [(_HEIGHT * own.real[k] / largest, _HEIGHT * own.synthetic[k] / largest) for k in shown]
    line = " ".join(
        f"{x:.1f},{_HEIGHT - made:.1f}" for i, (_, made) in enumerate(heights) for x in (i * width, (i + 1) * width)
    )
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "bars": [
            {
                "x": f"{i * width:.1f}",
                "y": f"{_HEIGHT - real:.1f}",
                "width": f"{max(width - 1, 0.5):.1f}",
                "height": f"{real:.1f}",
            }
            for i, (real, _) in enumerate(heights)
        ],
        "line": line,
        "first": own.labels[shown[0]],
        "last": own.labels[shown[-1]],
        "is_binned": own.is_binned,
    }


# ---------------------------------------------------------------------- pairs


def _pairs(found: Fidelity) -> list[Content]:
    return [
        {
            "first": printable(pair.first),
            "second": printable(pair.second),
            "trend": number(pair.trend or 0, 3),
            "real": "\N{EN DASH}" if pair.trend_real is None else number(pair.trend_real, 3),
        }
        for pair in found.worst_pairs(_PAIRS)
    ]


def _map(found: Fidelity) -> Content | None:
    """All pairs as a triangle of squares, the darker the less alike."""
    n = len(found.columns)
    if not 2 < n <= _MAP_COLUMNS or not found.worst_pairs(1):
        return None
    place = {column.name: j for j, column in enumerate(found.columns)}
    names = [_short(printable(column.name)) for column in found.columns]
    most = max(0.1, *(1 - pair.trend for pair in found.pairs if pair.trend is not None))
    return {
        "size": n,
        "names": names,
        "above": max(0.0, *(round(_RISE * len(name) - j, 1) for j, name in enumerate(names))),
        "beside": max(0.0, *(round(_REACH * len(name) + j + 1 - n, 1) for j, name in enumerate(names[:-1]))),
        "most": f"{1 - most:.2f}",
        "cells": [
            {
                "x": place[pair.first],
                "y": place[pair.second],
                "opacity": f"{(1 - pair.trend) / most:.2f}",
                "title": f"{printable(pair.first)}, {printable(pair.second)}: {pair.trend:.3f}",
            }
            for pair in found.pairs
            if pair.trend is not None
        ],
    }


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}\N{HORIZONTAL ELLIPSIS}"
