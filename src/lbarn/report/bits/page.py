"""The report on a table of bits: facts, drawn and put into words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lbarn.plots import DependencyGraphDisplay, SamplesDisplay, SurpriseDisplay
from lbarn.plots.numbers import chance, number
from lbarn.report.bits.facts import INDEPENDENT, Cell, Explanation, Facts, Folded
from lbarn.report.calibration import calibration_section
from lbarn.report.pictures import Picture, draw_picture, scatter_picture
from lbarn.report.training import training_section
from lbarn.report.words import WIDTH, Content, image_size, listed, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["sections"]

_COLUMNS = 200  # in the table of columns
_TABLE_COLUMNS = 60  # of samples that are shown as a table
_STRIP_COLUMNS = 400


def sections(facts: Facts) -> Content:
    """What the template is given."""
    return {
        "title": f"A model of {len(facts.names)} binary columns",
        "summary": _summary(facts),
        "figures": _figures(facts),
        "fit": _fit(facts),
        "calibration": None if facts.calibration is None else calibration_section(facts.calibration),
        "dependencies": _dependencies(facts),
        "samples": _samples(facts),
        "strange": _strange(facts),
        "training": training_section(facts.training, _plain_names(facts), facts.shape),
        "columns": _columns(facts),
    }


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
        "picture": draw_picture(draw, (WIDTH, 0.8 + 0.6 * len(bits)), alt),
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
        "picture": draw_picture(graph.plot, image_size(facts.shape) if facts.shape else (WIDTH, WIDTH), alt),
        "legend": f"{what}The thicker a line, the stronger the dependency; the {len(found.pairs)} strongest are drawn.",
        "lines": [
            {
                "column": names[one.column],
                "predictor": names[one.predictor],
                "share": percent(one.share),
                "equal": percent(one.equal),
                "information": number(one.information, 2),
            }
            for one in found.strongest
        ],
        "folded": [_same(group, names) for group in found.folded],
    }


def _same(group: Folded, names: list[str]) -> str:
    parts = [
        f"{what} {listed([names[j] for j in columns])}"
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
    height = 0.2 + 2 * (WIDTH - 0.9) / n * facts.shape[0] / facts.shape[1] if facts.shape else 2.4
    display = SamplesDisplay(found.shown, found.nearest, facts.shape)
    content["legend"] = "A pixel is filled if its column is 1."
    if facts.shape is None:
        display = SamplesDisplay(found.shown[:, :_STRIP_COLUMNS], found.nearest[:, :_STRIP_COLUMNS])
        first = f" The first {_STRIP_COLUMNS} are shown." if len(facts.names) > _STRIP_COLUMNS else ""
        content["legend"] = f"Every strip is a row, its columns from left to right, filled if 1.{first}"
    alt = f"{n} samples and the rows of the data nearest to them"
    content["picture"] = draw_picture(display.plot, (WIDTH, height), alt)
    return content


def _frequencies(facts: Facts) -> list[tuple[Picture, str]]:
    """Two scatter plots: of shares of ones, and of correlations."""
    found = facts.samples
    drawn = [
        (
            scatter_picture(found.marginals, (0, 1), "share of ones"),
            f"Shares of ones of {found.marginals.shape[1]:,} columns differ by {found.marginal_difference:.3f} on average; "
            f"by chance alone it would be {found.marginal_noise:.3f}.",
        )
    ]
    if found.correlations.shape[1]:
        difference = np.abs(found.correlations[0] - found.correlations[1]).mean()
        lowest = min(0.0, float(found.correlations.min()) - 0.05)
        drawn.append(
            (
                scatter_picture(found.correlations, (lowest, 1.02), "correlation"),
                f"Correlations of {found.correlations.shape[1]:,} pairs of columns differ by {difference:.3f} on average.",
            )
        )
    return drawn


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
        "picture": draw_picture(histogram, (WIDTH, 2.2), alt),
        "missing": bool(facts.share_missing),
        "rates": all(cell.base_rate is not None for one in found for cell in one.cells),
        "explanations": [_explanation(one, facts) for one in found],
    }


def _explanation(found: Explanation, facts: Facts) -> Content:
    rows = [f"{row:,}" for row in found.rows]
    scores = [number(score, 1) for score in found.scores]
    several = f"Rows {listed(rows)}: log p from {scores[0]} to {scores[-1]}"
    picture = None
    if facts.shape:
        display = SurpriseDisplay(found.bits, found.surprise, facts.names, shape=facts.shape)
        alt = f"Row {rows[0]} as an image, and the surprise of its pixels; log p is {scores[0]} nats"
        picture = draw_picture(display.plot, image_size(facts.shape, 2), alt)
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


# ---------------------------------------------------------------------- columns


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
            line.append("constant" if np.isnan(found.explained[j]) else percent(found.explained[j]))
        lines.append(line)
    n = len(facts.names)
    shown = f"All {n:,} columns" if n <= _COLUMNS else f"{_COLUMNS} of {n:,} columns"
    return {"text": text, "summary": shown, "headings": headings, "lines": lines}


# ---------------------------------------------------------------------- words


def _plain_names(facts: Facts) -> list[str]:
    """As pictures call the columns, which have no room for more."""
    return facts.names if facts.named else [name.partition(" ")[2] for name in facts.names]
