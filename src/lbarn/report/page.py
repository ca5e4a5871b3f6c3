"""The page of a report: facts, drawn and put into words."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import poisson
from sklearn.utils.validation import check_is_fitted

import lbarn
from lbarn._models.classifier import LBARNClassifier
from lbarn._models.density import Density
from lbarn._tables.writing import write_atomically
from lbarn.baselines.mixture import BernoulliMixture
from lbarn.inspection import Calibration
from lbarn.plots import (
    CalibrationDisplay,
    DependencyGraphDisplay,
    SamplesDisplay,
    SurpriseDisplay,
    TreeCountsDisplay,
    ValidationCurvesDisplay,
)
from lbarn.plots.columns import checked_shape
from lbarn.plots.display import bars_size
from lbarn.plots.numbers import chance, number
from lbarn.report.facts import INDEPENDENT, Cell, Explanation, Facts, Folded, collect
from lbarn.report.pictures import DARK, LIGHT, Picture, draw_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_report"]

_WIDTH = 4.2  # inches of a picture that still reads on a telephone
_NARROW = (_WIDTH, 3.1)
_COLUMNS = 200  # in the table of columns
_TABLE_COLUMNS = 60  # of samples that are shown as a table
_STRIP_COLUMNS = 400
_NAMED_BARS = 40
_SURE = 0.001  # chance below which a deviation from calibration is called one
_SEVERAL = 6  # rows, or columns, that are listed one by one

Content = dict[str, Any]  # what a section of the template is given


def write_report(
    model: Density | BernoulliMixture,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    image_shape: Sequence[int] | None = None,
    random_state: int = 0,
) -> None:
    """Write one HTML page about a model and rows of its kind.

    How well it fits, whether its probabilities are right, which columns depend on which, samples, the strangest rows and
    why, how it was trained. The page needs no network, and the same arguments give the same bytes.

    Parameters
    ----------
    model : fitted density
        An LBARN (loaded, trimmed or refitted ones too), an LBARNEnsemble, or one of ``lbarn.baselines``.
    X : table of 0 and 1
        Rows that the model was *not* fitted on; NaN if missing. Log-likelihoods and calibration are those of all rows;
        columns and rows are compared with each other on a random 5000 at most.
    path : where to write
    title : str, optional
    image_shape : (rows, columns), optional
        If the columns are the pixels of an image.
    random_state : int, default=0
        Seeds the choice of rows and the samples.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (400, 2)), 2, axis=1)
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.3, max_iter=60, random_state=0).fit(X[:200])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, X[200:], Path(folder, "report.html"), title="Four bits")
    ...     page = Path(folder, "report.html").read_text(encoding="utf-8")
    >>> "<title>Four bits</title>" in page
    True
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder: {path} cannot be written there")
    if not isinstance(model, Density | BernoulliMixture):
        hint = "; write one for each of its networks_" if isinstance(model, LBARNClassifier) else ""
        raise ValueError(f"a report is about a density such as LBARN, not about a {type(model).__name__}{hint}")
    check_is_fitted(model)
    try:
        from jinja2 import Environment, FileSystemLoader
        from markupsafe import Markup, escape
        from matplotlib.figure import Figure  # noqa: F401  better missed now than after a long computation
    except ImportError as error:
        raise ImportError("a report is made with jinja2 and matplotlib; pip install 'lbarn[plots]'") from error
    facts = collect(model, X, checked_shape(image_shape, model.n_features_in_), random_state)
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    pages.filters["breakable"] = lambda name: escape(name).replace("_", Markup("_<wbr>"))
    text = pages.get_template("report.html").render(
        version=lbarn.__version__,
        light=LIGHT,
        dark=DARK,
        title=title or f"A model of {len(facts.names)} binary columns",
        summary=_summary(facts),
        figures=_figures(facts),
        fit=_fit(facts),
        calibration=None if facts.calibration is None else _calibration(facts.calibration),
        dependencies=_dependencies(facts),
        samples=_samples(facts),
        strange=_strange(facts),
        training=_training(facts),
        columns=_columns(facts),
    )
    write_atomically(path, text.encode("utf-8", errors="replace"))


# ---------------------------------------------------------------------- how good the fit is


def _summary(facts: Facts) -> str:
    scores = facts.fit.scores
    bits = {name: -score / np.log(2) for name, score in scores.items()}
    own = bits[facts.training.kind]
    text = f"Under this model a row of {len(facts.names):,} yes-or-no values takes {own:.1f} bits on average"
    if INDEPENDENT not in bits:
        return f"{text}."
    alone = bits[INDEPENDENT]
    if own < alone:
        return f"{text}, {1 - own / alone:.0%} less than the {alone:.1f} it takes if the columns are independent."
    return f"{text}. It takes no more if the columns are independent: {alone:.1f}."


def _figures(facts: Facts) -> list[tuple[str, str]]:
    return [
        ("rows", f"{facts.n_rows:,}"),
        ("columns", f"{len(facts.names):,}"),
        ("share of ones", chance(facts.share_of_ones)),
        ("missing values", chance(facts.share_missing) if facts.share_missing else "none"),
        ("log-likelihood, nats per row", number(facts.fit.scores[facts.training.kind], 2)),
    ]


def _fit(facts: Facts) -> Content:
    own = facts.training.kind
    bits = {name: -score / np.log(2) for name, score in facts.fit.scores.items()}
    labels = {name: "this model" if name == own else name for name in bits}

    def draw(ax: Axes) -> None:
        bars = ax.barh(range(len(bits)), list(bits.values()), height=0.6)
        for bar, name in zip(bars, bits):
            bar.set_color("C0" if name == own else "0.6")
        ax.bar_label(bars, [number(value, 1) for value in bits.values()], padding=4)
        ax.set_yticks(range(len(bits)), [label.replace(" ", "\n", 1) for label in labels.values()])
        ax.tick_params(axis="y", length=0)
        ax.set(ylim=(len(bits) - 0.4, -0.6), xlabel="bits per row")
        ax.margins(x=0.15)
        ax.spines[["top", "right"]].set_visible(False)

    alt = "Bars of bits per row: " + ", ".join(f"{labels[name]} {value:.1f}" for name, value in bits.items())
    return {
        "picture": draw_picture(draw, (_WIDTH, 0.8 + 0.6 * len(bits)), alt),
        "caption": f"All {facts.n_rows:,} rows, best model first",
        "lines": [
            {
                "name": f"this model ({own})" if name == own else name,
                "nats": number(score, 2),
                "bits": number(bits[name], 2),
                "own": name == own,
            }
            for name, score in facts.fit.scores.items()
        ],
        "verdict": _verdict(facts),
        "notes": _caveats(facts),
    }


def _verdict(facts: Facts) -> str | None:
    gain, error = facts.fit.gain, facts.fit.gain_error
    if not error >= 0 or facts.n_rows < 10:
        return None
    best = next(name for name in facts.fit.scores if name != facts.training.kind)
    figures = f"{abs(gain):.2f} nats per row (standard error {error:.2f})"
    if abs(gain) < 2 * error:
        return f"This model and {best} can hardly be told apart: they differ by {figures}."
    return f"This model is {'better' if gain > 0 else 'worse'} than {best} by {figures}."


def _caveats(facts: Facts) -> list[str]:
    notes = [
        "The figures of this model are honest only if it was not fitted on the rows of this report, which a model file "
        "cannot tell: on rows that it has seen, a model looks better than it is."
    ]
    if INDEPENDENT in facts.fit.scores:
        notes[0] += (
            " Independent columns have the share of ones that each column had among the rows the model was fitted on; "
            "nothing is fitted on the rows of this report."
        )
    else:
        notes.append(
            "There are no independent columns to compare with: the share of ones of each column among the training rows is "
            "not stored with this model. Models of lbarn 0.1 and some simple models do not have it; fit the model again."
        )
    if facts.share_missing:
        notes.append("Some values are missing: the log-likelihood of a row is that of the values that are there.")
    if facts.fit.validated is not None:
        notes.append(
            f"On the rows held out when the model was fitted, its log-likelihood was {number(facts.fit.validated, 2)} nats "
            "per row (slightly optimistic, because they chose the numbers of trees). If it is much better here, these rows "
            "were probably used for training; if it is much worse, they are of another kind."
        )
    return notes


# ---------------------------------------------------------------------- calibration


def _calibration(lines: list[Calibration]) -> Content:
    decades = [line for line in lines if line.n_cells and np.isclose(np.log10(line.threshold) % 1, [0, 1]).any()]
    alt = "Observed against predicted frequency of the rarer value. " + "; ".join(
        f"below {chance(line.threshold)}: {_count(line.expected)} expected, {_count(line.observed)} observed"
        for line in decades[:-1]
    )
    return {
        "picture": draw_picture(CalibrationDisplay(lines).plot, (_WIDTH, 3.4), alt),
        "verdict": _calibration_verdict(decades),
        "lines": [
            {
                "below": "any" if line.threshold >= 1 else f"below {chance(line.threshold)}",
                "cells": f"{line.n_cells:,.0f}",
                "expected": _count(line.expected),
                "observed": _count(line.observed),
            }
            for line in decades
        ],
    }


def _calibration_verdict(lines: list[Calibration]) -> str:
    """The largest deviation, if it is hardly an accident."""
    too_many = [float(poisson.sf(line.observed - 1, line.expected)) for line in lines]
    too_few = [float(poisson.cdf(line.observed, line.expected)) for line in lines]
    if min(too_many + too_few) >= _SURE:
        return "Unlikely values occur about as often as the model says."
    certain = min(too_many) <= min(too_few)
    worst = lines[int(np.argmin(too_many if certain else too_few))]
    what = "the less likely value of a cell"
    if worst.threshold < 1:
        what = f"values that it gives less than {chance(worst.threshold)}"
    than = "more certain than it should be" if certain else "less certain than it could be"
    counts = f"occurred {_times(worst.observed)}, where {_count(worst.expected)} were expected"
    return f"The model is {than}: {what} {counts}."


def _count(value: float) -> str:
    """A number of cells, whole or not."""
    if value >= 10 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.95 else f"{value:.1g}" if value >= 1e-3 else "<0.001"


def _times(value: float) -> str:
    return "once" if value == 1 else f"{_count(value)} times"


# ---------------------------------------------------------------------- dependencies


def _dependencies(facts: Facts) -> Content | None:
    found = facts.dependencies
    if found is None:
        return None
    if not found.strongest:
        return {"text": "In this model no column depends on another.", "lines": []}
    names = facts.names
    graph = DependencyGraphDisplay(found.pairs, found.strength, _plain_names(facts), facts.shape)
    alt = "A graph of the strongest dependencies. " + "; ".join(
        f"{names[one.column]} with {names[one.predictor]}" for one in found.strongest[:5]
    )
    what = "Every dot is a pixel. " if facts.shape else "Every dot is a column. "
    pixels = " Pixels are named by row and column, counted from 0." if facts.shape else ""
    return {
        "text": "The model predicts every column from those before it in its order. Importance is how much a column helped "
        "to predict another, over all trees; which of two columns predicts the other is a matter of the order, and "
        "neither is cause or effect. Mutual information does not depend on the model: it is 0 if two columns are "
        f"independent and 1 if each determines the other.{pixels}{_on_some(facts)}",
        "picture": draw_picture(graph.plot, _image_size(facts.shape) if facts.shape else (_WIDTH, _WIDTH), alt),
        "legend": f"{what}The thicker a line, the stronger the dependency; the {len(found.pairs)} strongest are drawn.",
        "lines": [
            {
                "column": names[one.column],
                "predictor": names[one.predictor],
                "share": _percent(one.share),
                "equal": _percent(one.equal),
                "information": number(one.information, 2),
            }
            for one in found.strongest
        ],
        "folded": [_same(group, names) for group in found.folded],
    }


def _same(group: Folded, names: list[str]) -> str:
    parts = [
        f"{what} {_listed([names[j] for j in columns])}"
        for what, columns in (("equal to", group.copies), ("the opposite of", group.opposites))
        if columns
    ]
    return f"{names[group.column]} is always {' and '.join(parts)}"


def _on_some(facts: Facts) -> str:
    if facts.n_compared == facts.n_rows:
        return ""
    return f" Columns and rows are compared with each other on {facts.n_compared:,} rows, chosen at random."


# ---------------------------------------------------------------------- samples


def _samples(facts: Facts) -> Content:
    found, n = facts.samples, len(facts.samples.shown)
    content: Content = {
        "n_drawn": f"{found.n_drawn:,}",
        "picture": None,
        "table": None,
        "comparisons": _frequencies(facts),
    }
    if facts.shape is None and facts.named and len(facts.names) <= _TABLE_COLUMNS:
        used = np.any(found.shown | found.nearest, axis=0).tolist()
        content["table"] = {
            "headings": [f"row {number:,}" for number in found.nearest_numbers.tolist()],
            "lines": [
                {
                    "name": name,
                    "cells": [
                        {"sample": int(a), "nearest": int(b), "differs": a != b}
                        for a, b in zip(found.shown[:, j].tolist(), found.nearest[:, j].tolist())
                    ],
                }
                for j, name in enumerate(facts.names)
                if used[j]
            ],
        }
        content["legend"] = "Each sample is followed by the row nearest to it; values that differ are marked." + (
            "" if all(used) else " Columns that are 0 in all of them are left out."
        )
        return content
    height = 0.2 + 2 * (_WIDTH - 0.9) / n * facts.shape[0] / facts.shape[1] if facts.shape else 2.4
    display = SamplesDisplay(found.shown, found.nearest, facts.shape)
    content["legend"] = "A pixel is filled if its column is 1."
    if facts.shape is None:
        display = SamplesDisplay(found.shown[:, :_STRIP_COLUMNS], found.nearest[:, :_STRIP_COLUMNS])
        first = f" The first {_STRIP_COLUMNS} are shown." if len(facts.names) > _STRIP_COLUMNS else ""
        content["legend"] = f"Every strip is a row, its columns from left to right, filled if 1.{first}"
    alt = f"{n} samples and the rows of the data nearest to them"
    content["picture"] = draw_picture(display.plot, (_WIDTH, height), alt)
    return content


def _frequencies(facts: Facts) -> list[tuple[Picture, str]]:
    """Two scatter plots: of shares of ones, and of correlations."""
    found = facts.samples
    drawn = [
        (
            _scatter(found.marginals, (0, 1), "share of ones"),
            f"Shares of ones of {found.marginals.shape[1]:,} columns differ by {found.marginal_difference:.3f} on average; "
            f"by chance alone it would be {found.marginal_noise:.3f}.",
        )
    ]
    if found.correlations.shape[1]:
        difference = np.abs(found.correlations[0] - found.correlations[1]).mean()
        lowest = min(0.0, float(found.correlations.min()) - 0.05)
        drawn.append(
            (
                _scatter(found.correlations, (lowest, 1.02), "correlation"),
                f"Correlations of {found.correlations.shape[1]:,} pairs of columns differ by {difference:.3f} on average.",
            )
        )
    return drawn


def _scatter(values: Any, limits: tuple[float, float], what: str) -> Picture:
    def draw(ax: Axes) -> None:
        ax.plot(limits, limits, color="0.6", linewidth=1, zorder=0)
        ax.plot(*values, "o", color="C0", markersize=3.5, alpha=0.5, markeredgewidth=0, clip_on=False)
        ax.set(xlabel=f"{what}, rows of the data", ylabel=f"{what}, samples", xlim=limits, ylim=limits)
        ax.set_aspect("equal", anchor="W")
        ax.spines[["top", "right"]].set_visible(False)

    alt = f"Scatter plot of each {what} in the rows of the data against that in samples"
    return draw_picture(draw, (_WIDTH, 3.3), alt)


# ---------------------------------------------------------------------- strange rows


def _strange(facts: Facts) -> Content | None:
    if facts.strange is None:
        return None
    scores, found = facts.strange.scores, facts.strange.explanations
    marked = [score for one in found for score in one.scores]

    def histogram(ax: Axes) -> None:
        ax.hist(scores, bins=40, color="C0", alpha=0.8)
        for score in marked:
            ax.axvline(score, color="C1", linewidth=1.5)
        ax.set(xlabel="log p of a row, nats", ylabel="rows")
        ax.spines[["top", "right"]].set_visible(False)

    alt = f"Histogram of log p of the rows, from {number(scores.min(), 1)} to {number(scores.max(), 1)} nats"
    return {
        "picture": draw_picture(histogram, (_WIDTH, 2.2), alt),
        "missing": bool(facts.share_missing),
        "rates": all(cell.base_rate is not None for one in found for cell in one.cells),
        "explanations": [_explanation(one, facts) for one in found],
    }


def _explanation(found: Explanation, facts: Facts) -> Content:
    rows = [f"{row:,}" for row in found.rows]
    scores = [number(score, 1) for score in found.scores]
    several = f"Rows {_listed(rows)}: log p from {scores[0]} to {scores[-1]}"
    picture = None
    if facts.shape:
        display = SurpriseDisplay(found.bits, found.surprise, facts.names, shape=facts.shape)
        alt = f"Row {rows[0]} as an image, and the surprise of its pixels; log p is {scores[0]} nats"
        picture = draw_picture(display.plot, _image_size(facts.shape, 2), alt)
    return {
        "heading": f"Row {rows[0]}: log p = {scores[0]}" if len(rows) == 1 else several,
        "picture": picture,
        "cells": [
            {
                "value": f"{facts.names[cell.column]} is {cell.value}",
                "probability": _range(cell),
                "rate": None if cell.base_rate is None else chance(cell.base_rate),
            }
            for cell in found.cells
        ],
    }


def _range(cell: Cell) -> str:
    low, high = chance(cell.lowest), chance(cell.highest)
    return high if low == high else f"{high} or less"


# ---------------------------------------------------------------------- training and columns


def _training(facts: Facts) -> Content:
    found = facts.training
    pictures: list[tuple[Picture, str]] = []
    if found.n_networks is not None:
        text = (
            f"It is a mixture of {found.n_networks} networks of boosted trees, which read the columns in different orders: "
            f"{found.n_trees:,} trees in all. How many trees each column gets was chosen on held-out rows."
        )
    elif found.trees_per_column is None:
        text = f"It is a {found.kind}, one of the simple models to compare networks with."
    else:
        text = (
            f"It is a network of boosted trees: {found.n_trees:,} trees of at most {found.max_leaf_nodes} leaves, "
            f"{found.trees_per_column.mean():.0f} per column on average, added with a learning rate of "
            f"{found.learning_rate:g}. How many trees each column gets was chosen on held-out rows (selection "
            f"{found.selection!r})."
        )
        if found.curves is None:
            text += " The model was trimmed: its training curves are not in the file."
        else:
            pictures.append((_curves(found.curves), _CURVES_LEGEND))
        pictures.append((_tree_counts(facts, found.trees_per_column), "Selected trees per column."))
    parameters = [(name, str(value)) for name, value in sorted(found.parameters.items())]
    return {"text": text, "pictures": pictures, "parameters": parameters}


_CURVES_LEGEND = (
    "Every round adds a tree to each column. In the selected model, each column stops at its own number of trees; its curve is "
    "for the held-out rows, too. A dot marks the best of each curve, the figure beside its name."
)


def _curves(curves: dict[str, Any]) -> Picture:
    alt = "Log-likelihood, round by round, in nats per row. " + "; ".join(
        f"{name}: {number(curve.max(), 2)} at best" for name, curve in curves.items()
    )
    return draw_picture(ValidationCurvesDisplay(curves).plot, _NARROW, alt)


def _tree_counts(facts: Facts, counts: Any) -> Picture:
    alt = f"Trees per column, from {counts.min()} to {counts.max()}"
    draw: Callable[[Axes], object] = TreeCountsDisplay(counts, _plain_names(facts), facts.shape).plot
    size = _image_size(facts.shape) if facts.shape else (_WIDTH, bars_size(len(counts))[1])
    if not facts.shape and len(counts) > _NAMED_BARS:
        size = _NARROW

        def draw(ax: Axes) -> None:
            ax.hist(counts, bins=30, color="C0", alpha=0.8)
            ax.set(xlabel="trees", ylabel="columns")
            ax.spines[["top", "right"]].set_visible(False)

    return draw_picture(draw, size, alt)


def _columns(facts: Facts) -> Content:
    found = facts.columns
    headings = ["column", "ones", "missing"]
    text = "How often each column is 1, and how often it is missing."
    order = np.arange(len(facts.names))
    if found.explained is not None:
        headings.append("explained by other columns")
        text = (
            "How often each column is 1, how often it is missing, and how much of its uncertainty is explained by the columns "
            "before it in the model's order: 0% is nothing, 100% everything. Best explained first."
        )
        order = np.argsort(-np.nan_to_num(found.explained, nan=-1), kind="stable")
    lines = []
    for j in order[:_COLUMNS].tolist():
        line = [facts.names[j], "" if np.isnan(found.ones[j]) else chance(found.ones[j]), chance(found.missing[j])]
        if found.explained is not None:
            line.append("constant" if np.isnan(found.explained[j]) else _percent(found.explained[j]))
        lines.append(line)
    n = len(facts.names)
    shown = f"All {n:,} columns" if n <= _COLUMNS else f"{_COLUMNS} of {n:,} columns"
    return {"text": text, "summary": shown, "headings": headings, "lines": lines}


# ---------------------------------------------------------------------- words and sizes


def _plain_names(facts: Facts) -> list[str]:
    """As pictures call the columns, which have no room for more."""
    return facts.names if facts.named else [name.partition(" ")[2] for name in facts.names]


def _listed(items: Sequence[str]) -> str:
    shown = list(items[:_SEVERAL])
    if len(items) > _SEVERAL:
        shown.append(f"{len(items) - _SEVERAL} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _percent(share: float) -> str:
    return "" if np.isnan(share) else f"{share:.0%}" if share >= 0.1 else f"{share:.1%}"


def _image_size(shape: tuple[int, int], n_images: int = 1) -> tuple[float, float]:
    """Inches of a picture with as many images side by side and a scale."""
    return _WIDTH, min(_WIDTH, 0.4 + (_WIDTH - 1) / n_images * shape[0] / shape[1])
