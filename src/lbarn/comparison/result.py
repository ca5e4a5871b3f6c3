"""What a comparison has found: figures with their meaning, and how they are printed."""

from __future__ import annotations

import math
import textwrap
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Literal

from lbarn.comparison.distributions import Distribution
from lbarn.comparison.kinds import Kind
from lbarn.comparison.text import printable, shortened

__all__ = ["ColumnLikeness", "Fidelity", "Figure", "PairLikeness", "RealAgainstReal"]

_WORST = 5  # columns and pairs that are printed
_WIDTH = 100  # of what is printed


@dataclass(frozen=True)
class ColumnLikeness:
    """One column: how alike its values are in the two tables."""

    name: str
    kind: Kind
    shape: float
    """1 - the Kolmogorov-Smirnov distance (numbers, dates), or 1 - the total variation distance (categories, booleans)."""
    shape_real: float
    """The same, real against real."""
    empty_real: float
    """Share of empty cells."""
    empty_synthetic: float
    distribution: Distribution = field(repr=False)


@dataclass(frozen=True)
class PairLikeness:
    """Two columns: how alike their dependence is in the two tables; None if one of them is constant."""

    first: str
    second: str
    trend: float | None
    trend_real: float | None


@dataclass(frozen=True)
class RealAgainstReal:
    """The figures of likeness if real rows stand in for the synthetic ones: what no generator can be expected to beat."""

    shape: float
    trend: float | None
    missing: float
    c2st: float
    two_sample_auc: float
    nearer_to_training: float | None = None
    likelihood_gap: float | None = None


@dataclass(frozen=True)
class Figure:
    """One line of the report."""

    key: str
    group: Literal["likeness", "usefulness", "copies"]
    title: str
    value: float | None
    real: float | None
    """The same, real against real."""
    good: str
    """What a good value is."""
    meaning: str
    style: Literal["score", "share", "distance", "nats"] = "score"

    def text(self, value: float | None) -> str:
        """A value as people read it."""
        if value is None or math.isnan(value):
            return "-"
        if self.style == "share":
            return f"{value:.2%}" if value < 0.1 else f"{value:.1%}"
        return f"{value:.2f}" if self.style in ("distance", "nats") else f"{value:.3f}"


@dataclass(frozen=True)
class Fidelity:
    """How close synthetic rows are to real ones, and whether they are copies. Printed, it is a table.

    ``figures`` are the lines of that table, ``to_dict`` everything for JSON. Distances are sums over the columns: 1 for other
    categories, the difference in rank, from 0 to 1, for numbers and dates. In a table of 0 and 1 they count bits.
    """

    marginal_difference_max: float
    """1 - the shape of the column that differs most; the difference of the shares of ones if a column is binary."""
    marginal_difference_mean: float
    correlation_difference_mean: float
    """Mean absolute difference of the correlations of two columns (numbers, dates, booleans) that vary in the real rows."""
    correlation_agreement: float
    """Correlation of the synthetic correlations with the real ones: 1 if they rise and fall together."""
    two_sample_auc: float
    """How well boosted trees tell synthetic rows from real ones they have not seen: 0.5 is not at all, 1 is always."""
    nearest_synthetic: float
    """Mean distance of a synthetic row to the training row nearest to it; to the nearest real row without training rows."""
    nearest_holdout: float
    """The same for held-out rows; without training rows, of a real row to the nearest of the others."""
    copied_synthetic: float
    """Share of the synthetic rows that are training rows; that are real rows without training rows."""
    copied_holdout: float
    """The same for held-out rows; without training rows, for a real row and the others."""
    neighbour_ratio_synthetic: float
    """Mean of the distance to the nearest training (or real) row divided by that to the second nearest."""
    neighbour_ratio_holdout: float
    shape: float
    """Mean over the columns, by the definitions of SDMetrics."""
    trend: float | None
    """Mean over the pairs of columns, by the definitions of SDMetrics; None if there are none."""
    missing: float
    """1 - the difference of the shares of empty cells, mean over the columns."""
    c2st: float
    """1 - 2 max(AUC - 1/2, 0) of a classifier that tells synthetic rows from real ones, over three folds."""
    target: str | None
    """The column that is predicted from the others; None if none can be."""
    measure: str | None
    """What is measured of that: AUC or R2."""
    trained_on_synthetic: float | None
    """Of boosted trees trained on synthetic rows, on real rows that they have not seen."""
    trained_on_real: float | None
    """The same, trained on as many real rows."""
    nearer_to_training: float | None
    """Share of the synthetic rows that are nearer to training rows than to as many held-out rows; None without training rows."""
    likelihood_gap: float | None
    """Mean log-likelihood of training rows less that of held-out rows, in nats; None without a model."""
    real_against_real: RealAgainstReal
    n_real: int
    n_synthetic: int
    n_train: int | None
    columns: tuple[ColumnLikeness, ...] = field(repr=False)
    pairs: tuple[PairLikeness, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    """What the reader should know about how this was computed."""

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures that there are, each with its meaning and what a good value is."""
        real = self.real_against_real
        known = "real" if self.n_train is None else "training"
        fresh = "real rows among the others" if self.n_train is None else "held-out rows"
        found = [
            Figure(
                "shape",
                "likeness",
                "shape of columns",
                self.shape,
                real.shape,
                "1",
                "How alike the values of each column are, taken alone; 1 is the same distribution, 0 nothing in common.",
            ),
            Figure(
                "missing",
                "likeness",
                "empty cells",
                self.missing,
                real.missing,
                "1",
                "How alike the shares of empty cells are; 1 if every column has as many.",
            ),
            Figure(
                "trend",
                "likeness",
                "trend of pairs",
                self.trend,
                real.trend,
                "1",
                "How alike the dependence of two columns is, over all pairs; 1 is the same.",
            ),
            Figure(
                "c2st",
                "likeness",
                "classifier test (C2ST)",
                self.c2st,
                real.c2st,
                "1",
                "Whether boosted trees can tell synthetic rows from real ones; 1 if they cannot, 0 if they always can.",
            ),
            Figure(
                "two_sample_auc",
                "likeness",
                "its AUC",
                self.two_sample_auc,
                real.two_sample_auc,
                "0.5",
                "How often they find the synthetic one of two rows, one of which is real; 0.5 is by chance.",
            ),
            Figure(
                "trained_on_synthetic",
                "usefulness",
                f"{self.measure} for {shortened(self.target or '')}",
                self.trained_on_synthetic,
                self.trained_on_real,
                "as real",
                "How well that column is predicted in real rows by a model trained on synthetic rows, or on as many real ones.",
            ),
            Figure(
                "copied_synthetic",
                "copies",
                "exact copies",
                self.copied_synthetic,
                self.copied_holdout,
                "no more than real",
                f"Share of the rows that are equal to a {known} row in every column; beside it, that of {fresh}.",
                "share",
            ),
            Figure(
                "nearer_to_training",
                "copies",
                "nearer to training rows",
                self.nearer_to_training,
                real.nearer_to_training,
                "50%",
                "Share of the rows that are nearer to a training row than to any of as many held-out rows.",
                "share",
            ),
            Figure(
                "nearest_synthetic",
                "copies",
                f"distance to nearest {known} row",
                self.nearest_synthetic,
                self.nearest_holdout,
                "no less than real",
                f"How many columns differ, on average; if that is much less than for {fresh}, rows were memorised.",
                "distance",
            ),
            Figure(
                "neighbour_ratio_synthetic",
                "copies",
                "nearest / second nearest",
                self.neighbour_ratio_synthetic,
                self.neighbour_ratio_holdout,
                "no less than real",
                f"How much nearer the nearest {known} row is than the second; near 0 if single rows were memorised.",
            ),
            Figure(
                "likelihood_gap",
                "copies",
                "likelihood gap, nats",
                self.likelihood_gap,
                real.likelihood_gap,
                "0",
                "How much more likely the model finds training rows than held-out ones; far above 0 if it has memorised them.",
                "nats",
            ),
        ]
        empty = any(column.empty_real or column.empty_synthetic for column in self.columns)
        return tuple(one for one in found if one.value is not None and (one.key != "missing" or empty))

    def worst_columns(self, n: int = _WORST) -> list[ColumnLikeness]:
        """Those whose shapes differ most."""
        return sorted(self.columns, key=lambda column: column.shape)[:n]

    def worst_pairs(self, n: int = _WORST) -> list[PairLikeness]:
        """Those whose trends differ most."""
        return sorted((pair for pair in self.pairs if pair.trend is not None), key=lambda pair: pair.trend or 0)[:n]

    def rows(self) -> str:
        """What was compared with what, in words."""
        columns = f"{len(self.columns):,} column{'' if len(self.columns) == 1 else 's'}"
        if self.n_train is None:
            return f"{self.n_synthetic:,} synthetic rows and {self.n_real:,} real rows of {columns}"
        return (
            f"{self.n_synthetic:,} synthetic, {self.n_real:,} held-out and {self.n_train:,} training rows of {columns}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it: what is not a number is None."""
        found = asdict(self)
        found["figures"] = {
            one.key: {"value": one.value, "real": one.real, "good": one.good, "meaning": one.meaning}
            for one in self.figures
        }
        return _finite(found)

    def __str__(self) -> str:
        width = max(len(shortened(one.title)) for one in self.figures) + 2
        lines = [self.rows(), "", f"{'':{width}}  synthetic       real  good"]
        group = ""
        for one in self.figures:
            if one.group != group:
                group = one.group
                lines.append(group)
            lines.append(
                f"  {printable(one.title):{width}}{one.text(one.value):>9}  {one.text(one.real):>9}  {one.good}"
            )
        lines += ["", *_meanings(self.figures)]
        if self.columns:
            lines += ["", "columns that differ most (shape, real against real)"]
            lines += [
                f"  {column.shape:.3f}  {column.shape_real:.3f}  {shortened(column.name)}"
                for column in self.worst_columns()
            ]
        if self.trend is not None:
            lines += ["", "pairs that differ most (trend, real against real)"]
            for pair in self.worst_pairs():
                reference = "    -" if pair.trend_real is None else f"{pair.trend_real:.3f}"
                lines.append(f"  {pair.trend:.3f}  {reference}  {shortened(pair.first)}, {shortened(pair.second)}")
        for note in self.notes:
            lines += ["", *textwrap.wrap(f"note: {printable(note)}", _WIDTH)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><th scope='row' style='text-align:left' title='{escape(one.meaning)}'>{escape(one.title)}</th>"
            f"<td>{escape(one.text(one.value))}</td><td>{escape(one.text(one.real))}</td><td>{escape(one.good)}</td></tr>"
            for one in self.figures
        )
        headings = "".join(f"<th scope='col'>{one}</th>" for one in ("", "synthetic", "real against real", "good"))
        return f"<table><caption>{escape(self.rows())}</caption><thead><tr>{headings}</tr></thead><tbody>{cells}</tbody></table>"


def _meanings(figures: tuple[Figure, ...]) -> list[str]:
    texts = [f"{printable(one.title)}: {one.meaning[0].lower()}{one.meaning[1:]}" for one in figures]
    return [line for text in texts for line in textwrap.wrap(text, _WIDTH, subsequent_indent="  ")]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
