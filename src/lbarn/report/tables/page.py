"""The report on any table: facts, drawn and put into words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chisquare

from lbarn._tables.codes import GridCode
from lbarn.plots import DependencyGraphDisplay
from lbarn.plots.numbers import chance, number
from lbarn.report.calibration import calibration_section
from lbarn.report.pictures import Picture, draw_picture, scatter_picture
from lbarn.report.tables.columns import Distribution, Histogram
from lbarn.report.tables.facts import Facts
from lbarn.report.tables.pairs import Boxes, HeatMap, Pair, Scatter
from lbarn.report.tables.predictions import Guess
from lbarn.report.tables.rows import Field, told_number
from lbarn.report.tables.strange import StrangeRow
from lbarn.report.training import training_section
from lbarn.report.words import WIDTH, Content, labels, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["sections"]

Floats = NDArray[np.float64]

_LINES = 200  # of the tables of columns
_SAMPLE_LINES = 40
_NODES = 16  # of a graph
_OPEN = 30  # columns that need not be folded away
_SURE = 0.001  # chance below which a deviation is called one
_SECONDS = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_FACTOR = 1e6  # up to which "times as likely" says something


def sections(facts: Facts) -> Content:
    """What the template is given."""
    n = len(facts.fields)
    return {
        "title": f"A model of a table of {n:,} column{'s' if n > 1 else ''}",
        "summary": _summary(facts),
        "figures": _figures(facts),
        "columns": _columns(facts),
        "fit": _fit(facts),
        "dependencies": _dependencies(facts),
        "samples": _samples(facts),
        "strange": _strange(facts),
        "calibration": _calibration(facts),
        "training": training_section(
            facts.training,
            [field.name for field in facts.fields],
            independent=facts.fit.validated_independent,
        ),
    }


# ---------------------------------------------------------------------- headline


def _summary(facts: Facts) -> str:
    gain, bits = facts.fit.gain, facts.fit.gain / np.log(2)
    if len(facts.fields) == 1:
        return "This model knows how the values of a single column are distributed; there are no others for it to depend on."
    if not _is_sure(facts):
        return "This model and one with independent columns can hardly be told apart on these rows."
    if gain < 0:
        return f"On these rows this model is worse than one with independent columns, by {-bits:.1f} bits per row."
    saved, than = f"it saves {bits:.1f} bits per row", "over"
    if facts.fit.is_mass:
        alone = -facts.fit.independent / np.log(2)
        saved = f"a row takes {alone - bits:.1f} bits instead of {alone:.1f}, {percent(bits / alone)} less"
        than = "than with"
    if np.exp(gain) >= _FACTOR:
        return f"This model knows how the columns depend on each other: {saved} {than} independent columns."
    times = f"{np.exp(gain):,.0f}" if gain >= np.log(10) else f"{np.exp(gain):.1f}"
    return (
        f"On average this model finds a row {times} times as likely as a model in which the columns are independent of each "
        f"other: {saved}."
    )


def _is_sure(facts: Facts) -> bool:
    return facts.n_scored >= 10 and abs(facts.fit.gain) >= 2 * facts.fit.gain_error


def _figures(facts: Facts) -> list[tuple[str, str]]:
    return [
        ("rows", f"{facts.n_rows:,}"),
        ("columns", f"{len(facts.fields):,}"),
        ("empty cells", chance(facts.share_empty) if facts.share_empty else "none"),
        ("log-likelihood, nats per row", number(facts.fit.score, 2)),
        ("gain over independent columns, nats per row", number(facts.fit.gain, 2)),
    ]


# ---------------------------------------------------------------------- columns


def _columns(facts: Facts) -> Content:
    n = len(facts.fields)
    here = {one.column: one for one in facts.distributions}
    lines = [
        {
            "name": field.name,
            "kind": info.kind,
            "told": info.values if field.numeric is None or info.levels is not None else field.told_range(),
            "empty": chance(info.share_missing) if info.share_missing > 0 else "",
        }
        for field, info in list(zip(facts.fields, facts.infos))[:_LINES]
    ]
    kinds = Counter(info.kind for info in facts.infos)
    told = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    pictured = list(here.values())
    difference = float(np.mean([one.difference for one in pictured]))
    by_chance = float(np.mean([one.chance for one in pictured]))
    which = "" if len(pictured) == n else f" The {len(pictured)} that depend most on others are drawn, strongest first."
    return {
        "lines": lines,
        "summary": f"{n:,} column{'s' if n > 1 else ''}: {told}"
        + (f" (the first {_LINES} are listed)" if n > _LINES else ""),
        "empty": any(line["empty"] for line in lines),
        "open": n <= _OPEN,
        "left_out": [{"name": str(info.name), "why": info.values} for info in facts.left_out],
        "text": f"Samples are {facts.samples.n_drawn:,} new rows drawn from the model.{which}{_on_some(facts)}",
        "verdict": f"Distributions of rows and samples differ by {percent(difference)} on average (the share of samples that "
        f"would have to change); by chance alone it would be {percent(by_chance)}.",
        "cards": [_card(one, facts) for one in pictured],
    }


def _card(found: Distribution, facts: Facts) -> Content:
    field, info = facts.fields[found.column], facts.infos[found.column]
    notes = []
    if found.empty[0] or found.empty[1]:
        notes.append(f"Empty: {chance(found.empty[0])} of rows, {chance(found.empty[1])} of samples.")
    if found.unseen:
        notes.append(f"{chance(found.unseen)} of rows have a value that no training row had.")
    content: Content = {"name": field.name, "kind": info.kind, "bars": None, "histogram": None}
    if found.bars is not None:
        most = max((max(bar.real, bar.made) for bar in found.bars), default=0.0) or 1.0
        content["bars"] = [
            {
                "level": bar.level,
                "others": found.n_other if found.n_other and bar is found.bars[-1] else 0,
                "real": f"{100 * bar.real / most:.1f}",
                "made": f"{100 * bar.made / most:.1f}",
                "shares": (_share(bar.real), _share(bar.made)),
            }
            for bar in found.bars
        ]
    elif found.histogram is not None:
        content["histogram"] = _histogram(found.histogram, field)
        if found.histogram.spike is not None:
            spike = found.histogram.spike
            notes.insert(
                0,
                f"Not drawn: {_told_value(spike.value, field)}, which {chance(spike.real)} of rows and {chance(spike.made)} of "
                "samples have.",
            )
        if found.histogram.outside >= 0.0005:
            notes.append(f"{chance(found.histogram.outside)} of rows are beyond the ends.")
    else:
        notes.append("There is no value in these rows.")
    content["notes"] = " ".join(notes)
    return content


def _share(share: float) -> str:
    return "<0.1%" if 0 < share < 0.0005 else percent(share)


def _histogram(found: Histogram, field: Field) -> Content:
    top = max(float(found.real.max()), float(found.made.max())) or 1.0
    ticks = _ticks(found, field)
    return {
        "real": _bars_path(found.edges, found.real / top),
        "made": _outline_path(found.edges, found.made / top),
        "ticks": ticks,
        "log": found.axis.log,
        "alt": f"Histogram of {field.name} in rows and in samples, from {ticks[0]} to {ticks[-1]}",
    }


def _bars_path(edges: Floats, heights: Floats) -> str:
    """Bars on a canvas of 100 by 100, as an SVG path."""
    parts = []
    for left, right, height in zip(edges[:-1].tolist(), edges[1:].tolist(), heights.tolist()):
        if height > 0:
            parts.append(f"M{100 * left:.1f} 100V{100 - 98 * height:.1f}H{100 * right:.1f}V100z")
    return "".join(parts)


def _outline_path(edges: Floats, heights: Floats) -> str:
    """The outline of bars."""
    steps = "".join(
        f"V{100 - 98 * height:.1f}H{100 * right:.1f}" for right, height in zip(edges[1:].tolist(), heights.tolist())
    )
    return f"M0 100{steps}V100"


def _ticks(found: Histogram, field: Field) -> list[str]:
    """The ends and the middle of an axis."""
    middle = found.axis.at(0.5)
    if isinstance(field.code, GridCode):
        middle = float(field.code.grid.values(field.code.grid.ticks(np.array([middle])))[0])
    return [_told_value(value, field, exact=False) for value in (found.ends[0], middle, found.ends[1])]


def _told_value(value: float, field: Field, *, exact: bool = True) -> str:
    """A number of a column as people read it: as exactly as the column has it, or as an axis has room for."""
    assert field.numeric is not None
    if field.code.plain.sort == "number":
        return told_number(value, field.code) if exact else _short_number(value)
    column = field.numeric.column(np.array([value]))
    text = str(field.texts(column)[0])
    return text if exact else text.partition(" ")[0]


def _short_number(value: float) -> str:
    """Three digits."""
    size = abs(value)
    if size == 0:
        return "0"
    for least, name in ((1e12, ""), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= least:
            if not name:
                break
            text = f"{value / (least if name != 'k' else 1e3):.3g}{name}"
            return text.replace("-", "\N{MINUS SIGN}")
    text = f"{value:.0f}" if 1000 <= size < 1e4 else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _on_some(facts: Facts) -> str:
    if facts.n_compared == facts.n_rows:
        return ""
    return f" Columns are compared on {facts.n_compared:,} rows, chosen at random."


# ---------------------------------------------------------------------- fit


def _fit(facts: Facts) -> Content:
    alone, own = facts.fit.by_column
    guesses = {guess.column: guess for guess in facts.predictions.guesses}
    lines = []
    for j in facts.interest[:_LINES].tolist():
        explained = 1 - own[j] / alone[j] if alone[j] > 1e-6 else float("nan")
        lines.append(
            {
                "name": facts.fields[j].name,
                "bits": number(alone[j] / np.log(2), 2),
                "explained": "constant" if np.isnan(explained) else percent(max(explained, 0.0)),
                "width": f"{100 * float(np.clip(np.nan_to_num(explained), 0, 1)):.1f}",
                "guess": _guessed(guesses.get(j), facts.fields[j], "error"),
                "without": _guessed(guesses.get(j), facts.fields[j], "alone"),
            }
        )
    return {
        "verdict": _verdict(facts),
        "notes": _caveats(facts),
        "lines": lines,
        "open": len(lines) <= _OPEN,
        "guesses": bool(guesses),
        "n_guesses": min((guess.n_rows for guess in facts.predictions.guesses), default=0),
        "some": len(guesses) < len(lines),
        "caption": "Strongest first" if len(lines) == len(facts.fields) else f"The {_LINES} strongest",
    }


def _guessed(guess: Guess | None, field: Field, which: str) -> str:
    if guess is None:
        return ""
    value = getattr(guess, which)
    if field.levels is not None:
        return percent(value)
    if field.code.plain.sort != "time":
        return f"±{_short_number(value)}"
    assert isinstance(field.code, GridCode)
    steps, unit = value / field.code.grid.width, field.code.resolution
    if unit not in _SECONDS:
        return f"±{_short_number(steps)} \N{MULTIPLICATION SIGN} {unit}"
    seconds = steps * _SECONDS[unit]
    unit = next((name for name, size in _SECONDS.items() if seconds >= size), unit)
    return f"±{_short_number(seconds / _SECONDS[unit])} {unit}s"


def _verdict(facts: Facts) -> str | None:
    fit = facts.fit
    if not fit.gain_error >= 0 or facts.n_scored < 10:
        return None
    figures = f"{abs(fit.gain):.2f} nats per row (standard error {fit.gain_error:.2f})"
    scores = f"{number(fit.score, 2)} against {number(fit.independent, 2)}"
    if not _is_sure(facts):
        return f"This model and independent columns can hardly be told apart: they differ by {figures}."
    return f"This model is {'better' if fit.gain > 0 else 'worse'} than independent columns by {figures}: {scores}."


def _caveats(facts: Facts) -> list[str]:
    notes = [
        "The figures are honest only if the model was not fitted on the rows of this report, which a model file cannot tell: on "
        "rows that it has seen, a model looks better than it is. Independent columns have the frequencies that each column had "
        "among the rows the model was fitted on."
    ]
    if facts.n_scored < facts.n_rows:
        notes.append(f"Scores are those of {facts.n_scored:,} rows, chosen at random.")
    if not facts.fit.is_mass:
        notes.append(
            "Some columns hold numbers without a grid, whose likelihood is a density: it depends on their unit. Differences "
            "between models do not."
        )
    if facts.fit.validated is not None:
        notes.append(
            f"On the rows held out when the model was fitted, it was better than independent columns by about "
            f"{number(facts.fit.validated, 2)} nats per row (slightly optimistic, because they chose the numbers of trees). If it "
            "is much better here, these rows were probably used for training; if it is much worse, they are of another kind."
        )
    if facts.training.n_networks is not None:
        notes.append("Of a mixture, what the columns gain adds up to a little more than what rows gain.")
    return notes


# ---------------------------------------------------------------------- dependencies


def _dependencies(facts: Facts) -> Content:
    found = facts.dependencies
    if not len(found.pairs):
        return {"text": "In this model no column depends on another.", "picture": None, "pairs": [], "comparison": None}
    names = [field.name for field in facts.fields]
    drawn = _readable(found.pairs)
    graph = DependencyGraphDisplay(found.pairs[drawn], found.strength[drawn], labels(names))
    alt = "A graph of the strongest dependencies. " + "; ".join(
        f"{names[one.first]} with {names[one.second]}" for one in found.pictured[:5]
    )
    return {
        "text": "The model predicts every column from those before it in its order; what a column gains is shared out among its "
        "predictors. Which of two columns predicts the other is a matter of the order, and neither is cause or effect. "
        "The association of two columns does not depend on the model: it is 0 if they are independent, and 1 if one of them "
        "determines the other.",
        "picture": draw_picture(graph.plot, (WIDTH, WIDTH), alt),
        "legend": f"Every dot is a column. The thicker a line, the stronger the dependency; the {len(drawn)} strongest "
        "are drawn.",
        "comparison": _comparison(found.associations.values),
        "pairs": [_pair(one, facts.fields) for one in found.pictured],
    }


def _readable(pairs: NDArray[np.intp]) -> NDArray[np.intp]:
    """The strongest pairs of so few columns that their names have room."""
    kept, nodes = [], set[int]()
    for k, pair in enumerate(pairs.tolist()):
        if len(nodes.union(pair)) <= _NODES:
            nodes.update(pair)
            kept.append(k)
    return np.array(kept, dtype=np.intp)


def _comparison(values: Floats) -> tuple[Picture, str] | None:
    if not values.shape[1]:
        return None
    difference = float(np.abs(values[0] - values[1]).mean())
    caption = (
        f"Associations of {values.shape[1]:,} pairs of columns differ by {difference:.3f} on average: the closer the dots are "
        "to the line, the better the samples."
        if values.shape[1] > 1
        else f"The association of the two columns differs by {difference:.3f}."
    )
    return scatter_picture(values, (-0.02, 1.02), "association"), caption


def _pair(found: Pair, fields: Sequence[Field]) -> Content:
    a, b = fields[found.first], fields[found.second]
    content: Content = {
        "first": a.name,
        "second": b.name,
        "association": tuple(number(value, 2) for value in found.association),
        "scatter": None,
        "boxes": None,
        "heat": None,
    }
    picture = found.picture
    if isinstance(picture, Scatter):
        ranges = [tuple(_told_value(end, own, exact=False) for end in ends) for ends, own in zip(picture.ends, (a, b))]
        content["scatter"] = {
            "real": _dots_path(picture.real),
            "made": _dots_path(picture.made),
            "ranges": ranges,
            "alts": [
                f"{b.name} against {a.name}, {len(points)} {what}"
                for points, what in ((picture.real, "rows"), (picture.made, "samples"))
            ],
        }
    elif isinstance(picture, Boxes):
        content["boxes"] = {
            "lines": [
                {"level": level, "real": _strip(real), "made": _strip(made)}
                for level, real, made in zip(picture.levels, picture.real, picture.made)
            ],
            "ends": (_told_value(picture.axis.low, b, exact=False), _told_value(picture.axis.high, b, exact=False)),
            "alt": f"{b.name} by {a.name}",
        }
    elif isinstance(picture, HeatMap):
        content["heat"] = {
            "heads": picture.levels[1],
            "lines": [
                {"level": level, "real": _shades(real), "made": _shades(made)}
                for level, real, made in zip(picture.levels[0], picture.real, picture.made)
            ],
        }
    return content


def _dots_path(points: Floats) -> str:
    """Dots on a canvas of 100 by 100: lines without length, with round ends."""
    return "".join(f"M{2 + 96 * x:.1f} {98 - 96 * y:.1f}h0" for x, y in points.tolist())


def _strip(quantiles: Floats) -> Content | None:
    """Places of a box, in percent of the width."""
    if np.isnan(quantiles).any():
        return None
    q = (100 * quantiles).tolist()
    return {
        "low": f"{q[0]:.1f}",
        "whole": f"{max(q[4] - q[0], 0.5):.1f}",
        "left": f"{q[1]:.1f}",
        "half": f"{max(q[3] - q[1], 0.5):.1f}",
        "middle": f"{min(q[2], 99.0):.1f}",
    }


def _shades(shares: Floats) -> list[tuple[str, str]]:
    """Opacity, and the share in words."""
    return [(f"{share:.2f}", _share(share)) for share in shares.tolist()]


# ---------------------------------------------------------------------- samples and strange rows


def _samples(facts: Facts) -> Content:
    found = facts.samples
    shown = list(range(len(facts.fields)))
    legend = "Each sample is followed by the row most like it; values that differ are marked."
    if len(facts.fields) > _SAMPLE_LINES:
        shown = sorted(facts.interest[:_SAMPLE_LINES].tolist())
        legend += f" The {_SAMPLE_LINES} columns that depend most on others are shown."
    return {
        "legend": legend,
        "headings": [f"row {row:,}" for row in found.nearest_numbers.tolist()],
        "lines": [
            {
                "name": facts.fields[j].name,
                "cells": [
                    {"sample": a, "nearest": b, "differs": a != b} for a, b in zip(found.made[j], found.nearest[j])
                ],
                "number": facts.fields[j].code.plain.sort == "number",
            }
            for j in shown
        ],
    }


def _strange(facts: Facts) -> Content:
    scores = facts.strange.scores

    def histogram(ax: Axes) -> None:
        low = min(float(np.quantile(scores, 0.0005)), min(row.score for row in facts.strange.rows))
        ax.hist(scores, bins=40, range=(low, float(scores.max()) + 1e-9), color="C0", alpha=0.8)
        for row in facts.strange.rows:
            ax.axvline(row.score, color="C1", linewidth=1.5)
        ax.set(xlabel="log p of a row, nats", ylabel="rows")
        ax.spines[["top", "right"]].set_visible(False)

    alt = f"Histogram of log p of the rows, from {number(scores.min(), 1)} to {number(scores.max(), 1)} nats"
    return {
        "picture": draw_picture(histogram, (WIDTH, 2.2), alt),
        "rows": [_strange_row(row, facts.fields) for row in facts.strange.rows],
    }


def _strange_row(found: StrangeRow, fields: Sequence[Field]) -> Content:
    return {
        "heading": f"Row {found.row:,}: log p = {number(found.score, 1)}",
        "combination": len(found.reasons) > 1 and not any(reason.expected for reason in found.reasons),
        "reasons": [
            {
                "name": fields[reason.column].name,
                "value": reason.value,
                "expected": reason.expected or ("a rather unlikely value" if len(found.reasons) == 1 else ""),
            }
            for reason in found.reasons
        ],
    }


# ---------------------------------------------------------------------- calibration


def _calibration(facts: Facts) -> Content | None:
    levels, tenths = facts.predictions.calibration, facts.predictions.tenths
    if levels is None and tenths is None:
        return None
    return {
        "levels": None if levels is None else calibration_section(levels),
        "tenths": None if tenths is None else _tenths(tenths),
    }


def _tenths(counts: NDArray[np.intp]) -> Content:
    shares = counts / counts.sum()
    p = float(chisquare(counts).pvalue)
    verdict = "Numbers fall where the model says."
    if p < _SURE:
        ends = shares[0] + shares[-1]
        verdict = "Numbers do not fall quite where the model says"
        if ends > 0.22:
            verdict += f": {percent(ends)} are in the lowest or highest tenth, where 20% should be. The model is more certain than it should be."
        elif ends < 0.18:
            verdict += f": {percent(ends)} are in the lowest or highest tenth, where 20% should be. The model is less certain than it could be."
        else:
            verdict += "."

    def draw(ax: Axes) -> None:
        ax.bar(np.arange(10) + 0.5, 100 * shares, width=0.8, color="C0", alpha=0.8)
        ax.axhline(10, color="0.6", linewidth=1)
        ax.set(xlabel="tenth of the predicted distribution", ylabel="numbers, %", xlim=(0, 10), ylim=(0, None))
        ax.set_xticks(np.arange(10) + 0.5, [str(k) for k in range(1, 11)])
        ax.tick_params(axis="x", length=0)
        ax.spines[["top", "right"]].set_visible(False)

    alt = "Shares of numbers in the tenths of their predicted distributions: " + ", ".join(percent(s) for s in shares)
    return {
        "verdict": verdict,
        "picture": draw_picture(draw, (WIDTH, 2.6), alt),
        "caption": f"{counts.sum():,} numbers, each predicted from all other columns of its row: a tenth of them should be in each "
        "tenth of its predicted distribution.",
    }
