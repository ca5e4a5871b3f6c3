"""A report: one web page, complete in itself, that tells somebody who did not fit the model what it has learned."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

import lbarn
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._tables.table import take_rows
from lbarn._tables.writing import write_atomically
from lbarn.anomalies import explain
from lbarn.plots import (
    DependencyGraphDisplay,
    SamplesDisplay,
    SurpriseDisplay,
    TreeCountsDisplay,
    ValidationCurvesDisplay,
)
from lbarn.plots.columns import checked_shape, column_names
from lbarn.plots.display import bars_size
from lbarn.plots.graph import strongest_pairs
from lbarn.report.comparison import INDEPENDENT, MIN_ROWS, Comparison, Rows, without_threshold
from lbarn.report.pictures import DARK, LIGHT, Picture, draw_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["write_report"]

_PAIRS = 12
_STRANGE = 4
_BITS = 5
_COLUMNS = 200  # in the table of columns
_WIDTH = 4.6  # inches of a picture that still reads on a telephone
_NARROW = (_WIDTH, 3.3)


def write_report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    image_shape: Sequence[int] | None = None,
    random_state: int = 0,
) -> None:
    """Write one HTML page about a model and rows of its kind.

    How well it fits beside simple models, which columns depend on which, samples, the strangest rows and why, how it was
    trained. The page needs no network, and the same arguments give the same bytes.

    Parameters
    ----------
    model : fitted density
        An LBARN (loaded, trimmed or refitted ones too), an LBARNEnsemble, or one of ``lbarn.baselines``.
    X : table of 0 and 1
        Rows that the model was *not* fitted on. NaN where missing, if the model can impute. Of more than 5000 rows
        (400 where values are missing) so many are chosen at random.
    path : where to write
    title : str, optional
    image_shape : (rows, columns), optional
        Where the columns are the pixels of an image.
    random_state : int, default=0
        Seeds the choice of rows, the halves and the samples.

    Notes
    -----
    Simple models are fitted on a random half of the rows, and all models are compared on the other half.

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
    if not isinstance(model, DensityMixin):
        hint = "; write one for each of its networks_" if hasattr(model, "networks_") else ""
        raise ValueError(f"a report is about a density such as LBARN, not about a {type(model).__name__}{hint}")
    check_is_fitted(model)
    try:
        from jinja2 import Environment, FileSystemLoader
        from markupsafe import Markup, escape
        from matplotlib.figure import Figure  # noqa: F401  better missed now than after a long computation
    except ImportError as error:
        raise ImportError("a report is made with jinja2 and matplotlib; pip install 'lbarn[plots]'") from error
    shape = checked_shape(image_shape, model.n_features_in_)
    rows = Rows.of(model, X, random_state)
    report = _Report(without_threshold(model), rows, shape, random_state, model.get_params())
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    pages.filters["breakable"] = lambda name: escape(name).replace("_", Markup("_<wbr>"))
    text = pages.get_template("report.html").render(
        version=lbarn.__version__, light=LIGHT, dark=DARK, **report.content(title)
    )
    write_atomically(path, text.encode("utf-8", errors="replace"))


@dataclass(frozen=True)
class _Report:
    """What each section of the page says."""

    model: Any
    rows: Rows
    shape: tuple[int, int] | None
    seed: int
    parameters: dict[str, Any]

    @cached_property
    def comparison(self) -> Comparison:
        return Comparison(self.model, self.rows, self.seed)

    @cached_property
    def names(self) -> list[str]:
        names = column_names(self.model, self.shape)
        if self.model.table_format_.names is not None:
            return names
        return [f"{'pixel' if self.shape else 'column'} {name}" for name in names]

    def content(self, title: str | None) -> dict[str, Any]:
        return {
            "title": title or f"A model of {self.model.n_features_in_} binary columns",
            "summary": self.summary(),
            "facts": self.facts(),
            "fit": self.fit(),
            "dependencies": self.dependencies(),
            "samples": self.samples(),
            "strange": self.strange() if hasattr(self.model, "surprise") else None,
            "model": self.training(),
            "columns": self.columns(),
        }

    def summary(self) -> str:
        bits = -self.comparison.scores[self.comparison.own_name] / np.log(2)
        text = (
            f"Under this model a row of {self.model.n_features_in_} yes-or-no values takes {bits:.1f} bits on average"
        )
        if INDEPENDENT not in self.comparison.scores:
            return f"{text}."
        alone = -self.comparison.scores[INDEPENDENT] / np.log(2)
        if bits < alone:
            return f"{text}, {1 - bits / alone:.0%} less than the {alone:.1f} that it takes if its columns are independent."
        return f"{text}. It takes no more if its columns are independent: {alone:.1f}."

    def facts(self) -> list[tuple[str, str]]:
        rows, missing = self.rows, self.rows.missing
        chosen = "" if rows.n_given == len(rows) else f", {len(rows):,} of them looked at"
        return [
            (f"rows{chosen}", f"{rows.n_given:,}"),
            ("columns", f"{self.model.n_features_in_:,}"),
            ("share of ones", f"{rows.bits[~missing].mean():.1%}"),
            ("missing values", f"{missing.mean():.1%}" if missing.any() else "none"),
            ("log-likelihood, nats per row", f"{self.comparison.scores[self.comparison.own_name]:.2f}"),
        ]

    def fit(self) -> dict[str, Any]:
        scores = self.comparison.scores
        bits = {name: -score / np.log(2) for name, score in scores.items()}

        def draw(ax: Axes) -> None:
            colours = ["C0" if name == self.comparison.own_name else "0.6" for name in bits]
            bars = ax.barh(range(len(bits)), list(bits.values()), color=colours, height=0.6)
            ax.bar_label(bars, [f"{value:.1f}" for value in bits.values()], padding=4)
            ax.set_yticks(range(len(bits)), [name.replace(" of ", " of\n").replace(" (", "\n(") for name in bits])
            ax.tick_params(axis="y", length=0)
            ax.set(ylim=(len(bits) - 0.4, -0.6), xlabel="bits per row")
            ax.margins(x=0.15)
            ax.spines[["top", "right"]].set_visible(False)

        alt = "Bars of bits per row: " + ", ".join(f"{name} {value:.1f}" for name, value in bits.items())
        n = len(self.comparison.halves[1])
        return {
            "picture": draw_picture(draw, _NARROW, alt),
            "caption": f"On {n:,} rows, best first",
            "verdict": self.verdict(),
            "lines": [
                {
                    "name": name,
                    "nats": f"{score:.2f}",
                    "bits": f"{bits[name]:.2f}",
                    "own": name == self.comparison.own_name,
                }
                for name, score in scores.items()
            ],
            "notes": self.caveats(),
        }

    def verdict(self) -> str | None:
        """This model beside the best of the others, with the standard error of the difference."""
        best = next(name for name in self.comparison.scores if name != self.comparison.own_name)
        difference = self.comparison.row_scores[self.comparison.own_name] - self.comparison.row_scores[best]
        if len(difference) < MIN_ROWS // 2:
            return None
        gain, error = difference.mean(), difference.std(ddof=1) / np.sqrt(len(difference))
        figures = f"{abs(gain):.2f} nats per row, with a standard error of {error:.2f}"
        if abs(gain) < 2 * error:
            return f"This model and the best simple one ({best}) are hardly to be told apart: they differ by {figures}."
        return f"This model is {'better' if gain > 0 else 'worse'} than the best simple one ({best}) by {figures}."

    def caveats(self) -> list[str]:
        fit, compare = self.comparison.halves
        notes = [
            "A model file does not hold the rows that the model was fitted on. The figures of this model are honest only "
            "if the rows of this report are others; on rows that it has seen it looks better than it is."
        ]
        if len(fit):
            notes[0] += (
                f" The simple models were fitted on a random half of these rows ({len(fit):,}), and all models are compared "
                f"on the other half ({len(compare):,}): the simple ones may have seen fewer rows than this model has."
            )
        else:
            notes.append(f"There are too few rows ({len(compare)}) to fit simple models for comparison.")
        if self.rows.missing.any():
            notes.append(
                "Some values are missing: the likelihood is that of the values that are there, and models that "
                "need complete rows are left out."
            )
        elif hasattr(self.model, "valid_curve_"):
            D = np.arange(self.model.n_features_in_)
            validated = self.model.valid_curve_[D, self.model.n_trees_].sum()
            notes.append(
                f"For comparison: on the rows held out when the model was fitted, its log-likelihood was {validated:.2f} "
                "nats per row (a little flattered: they chose the numbers of trees). If it is much better here, these "
                "rows were probably used for training; if it is much worse, they are of another kind."
            )
        return notes

    def dependencies(self) -> dict[str, Any] | None:
        importance = getattr(self.model, "feature_importances_", None)
        if importance is None:
            return None
        pairs = strongest_pairs(importance, _PAIRS)
        if len(pairs) == 0:
            return {"text": "As far as this model knows, no column depends on another.", "lines": []}
        lines = []
        for i, j in pairs.tolist():
            known = ~(self.rows.missing[:, i] | self.rows.missing[:, j])
            equal = (self.rows.bits[known, i] == self.rows.bits[known, j]).mean() if known.any() else float("nan")
            share = importance[i, j] / importance.sum()
            lines.append(
                {"column": self.names[i], "predictor": self.names[j], "share": f"{share:.1%}", "equal": f"{equal:.0%}"}
            )
        shown = max(60, len(self.names) // 4) if self.shape else 15
        alt = "A graph of the strongest dependencies. " + "; ".join(
            f"{line['column']} with {line['predictor']}" for line in lines[:5]
        )
        size = _image_size(self.shape) if self.shape else (_WIDTH, _WIDTH)
        pixels = " Pixels are named by row and column, counted from 0." if self.shape else ""
        legend = "Every dot is a column, at its pixel. " if self.shape else "Every dot is a column. "
        return {
            "text": "The model predicts every column from those before it in its order. Importance is how much a "
            "column helped to predict another, over all trees. It does not tell cause from effect, and which of two "
            "columns predicts the other is a matter of the order." + pixels,
            "picture": draw_picture(
                _once(
                    lambda ax: DependencyGraphDisplay.from_estimator(self.model, n_pairs=shown, shape=self.shape, ax=ax)
                ),
                size,
                alt,
            ),
            "legend": f"{legend}The thicker a line, the more one column tells of the other; the {shown} strongest at most.",
            "lines": lines,
        }

    def samples(self) -> dict[str, Any]:
        n = 6 if self.shape else 4

        def draw(ax: Axes) -> SamplesDisplay:
            return SamplesDisplay.from_estimator(
                self.model, self.rows.filled, n_samples=n, shape=self.shape, random_state=self.seed, ax=ax
            )

        height = 0.2 + 2 * 3.7 / n * self.shape[0] / self.shape[1] if self.shape else 2.4
        known = draw_picture(_once(draw), (_WIDTH, height), f"{n} samples and the rows of the data nearest to them")
        legend = "Every strip is a row, its columns from left to right, filled where 1."
        if self.shape:
            legend = "A pixel is filled where its column is 1."
        return {"picture": known, "legend": legend, "text": "The rows of the data are those of this report."}

    def strange(self) -> dict[str, Any]:
        scores = self.model.score_samples(self.rows.filled)
        found = explain(
            self.model, self.rows.filled, n_rows=min(_STRANGE, len(self.rows)), n_bits=self.model.n_features_in_
        )

        def histogram(ax: Axes) -> None:
            ax.hist(scores, bins=40, color="C0", alpha=0.8)
            for anomaly in found:
                ax.axvline(anomaly.log_likelihood, color="C1", linewidth=1.5)
            ax.set(xlabel="log p of a row, nats", ylabel="rows")
            ax.spines[["top", "right"]].set_visible(False)

        holes = "Missing values were filled with their likelier value for this." if self.rows.missing.any() else None
        alt = f"Histogram of log p of the rows, from {scores.min():.1f} to {scores.max():.1f} nats"
        return {
            "picture": draw_picture(histogram, (_WIDTH, 2.2), alt),
            "note": holes,
            "rows": [self.strange_row(anomaly.row, anomaly) for anomaly in found],
        }

    def strange_row(self, row: int, anomaly: Any) -> dict[str, Any]:
        def draw(ax: Axes) -> SurpriseDisplay:
            return SurpriseDisplay.from_estimator(
                self.model, self.rows.filled, row, n_shown=_BITS, shape=self.shape, ax=ax
            )

        size = _image_size(self.shape, 2) if self.shape else (_WIDTH, 2.0)
        what = "The row as an image and the surprise of its pixels" if self.shape else "Its most surprising values"
        number = {name: j for j, name in enumerate(self.model.table_format_.labels(self.model.n_features_in_))}
        bits = [bit for bit in anomaly.bits if not self.rows.missing[row, number[bit.column]]][:_BITS]
        return {
            "number": int(self.rows.numbers[row]),
            "score": f"{anomaly.log_likelihood:.1f}",
            "picture": draw_picture(_once(draw), size, f"{what}; -log p is {-anomaly.log_likelihood:.1f} nats"),
            "bits": [
                {
                    "column": self.names[number[bit.column]],
                    "value": bit.value,
                    "probability": _probability(bit.probability),
                }
                for bit in bits
            ],
        }

    def training(self) -> dict[str, Any]:
        model = self.model
        pictures: list[tuple[Picture, str]] = []
        if isinstance(model, LBARNEnsemble):
            text = (
                f"It is a mixture of {len(model.members_)} networks of boosted trees, which read the columns in different "
                f"orders: {sum(int(member.n_trees_.sum()) for member in model.members_):,} trees in all. How many trees each "
                "column gets was chosen on rows held out."
            )
        elif not hasattr(model, "learning_rate_"):
            text = f"It is a {type(model).__name__}, one of the simple models that networks are held against."
        else:
            text = (
                f"It is a network of boosted trees: {int(model.n_trees_.sum()):,} trees of at most {model.max_leaf_nodes_} "
                f"leaves, {model.n_trees_.mean():.0f} for a column on average, added with a learning rate of "
                f"{model.learning_rate_:g}. How many trees each column gets was chosen on rows held out "
                f"(selection {model.selection_!r})."
            )
            if hasattr(model, "valid_curve_"):
                curves = {"training": model.train_curve_.sum(axis=0), "held out": model.valid_curve_.sum(axis=0)}
                alt = "Log-likelihood of training and of held-out rows, round by round"
                pictures.append(
                    (
                        draw_picture(ValidationCurvesDisplay(curves).plot, _NARROW, alt),
                        "Every round adds a tree to each column. While the curve of the held-out rows rises, more trees "
                        "help; where it falls, they learn by heart. Beside the names: the best of each curve, at its dot.",
                    )
                )
            else:
                text += " The model was trimmed: its training curves are not in the file."
            size = _image_size(self.shape) if self.shape else (_WIDTH, bars_size(len(model.n_trees_))[1])
            pictures.append(
                (
                    draw_picture(
                        TreeCountsDisplay(model.n_trees_, column_names(model), self.shape).plot,
                        size,
                        f"Trees per column, from {model.n_trees_.min()} to {model.n_trees_.max()}",
                    ),
                    "How many trees each column was given: as many as helped on the rows held out.",
                )
            )
        parameters = [(name, str(value)) for name, value in sorted(self.parameters.items())]
        return {"text": text, "pictures": pictures, "parameters": parameters}

    def columns(self) -> dict[str, Any]:
        present = ~self.rows.missing
        counts = present.sum(axis=0)
        ones = (self.rows.bits & present).sum(axis=0) / np.maximum(counts, 1)
        headings = ["column", "ones", "missing"]
        told = None
        if hasattr(self.model, "surprise"):
            compare = self.comparison.halves[1]
            rows, there = take_rows(self.rows.filled, compare), present[compare]
            alone = (self.comparison.independent.surprise(rows) * there).sum(axis=0)
            together = (self.model.surprise(rows) * there).sum(axis=0)
            told = 1 - together / np.maximum(alone, 1e-9)
            headings.append("told by others")
        order = np.arange(len(ones)) if told is None else np.argsort(-told, kind="stable")
        lines = []
        for j in order[:_COLUMNS]:
            line = [self.names[j], f"{ones[j]:.1%}" if counts[j] else "", f"{1 - counts[j] / len(self.rows):.1%}"]
            lines.append(line if told is None else [*line, f"{max(told[j], 0):.0%}"])
        text = "How often each column is 1, and how often it is missing."
        if told is not None:
            text = (
                "How often each column is 1, how often it is missing, and how much of what is uncertain about it is told by "
                "the columns before it in the model's order: 0% is nothing, 100% all. Best told first."
            )
        shown = f"All {len(ones)} columns" if len(ones) <= _COLUMNS else f"{_COLUMNS} of {len(ones)} columns"
        return {"text": text, "summary": shown, "headings": headings, "lines": lines}


def _once(make: Any) -> Any:
    """Draws what ``make`` makes of the first axes, and draws the same again on others."""
    made: list[Any] = []

    def draw(ax: Axes) -> None:
        if made:
            made[0].plot(ax)
        else:
            made.append(make(ax))

    return draw


def _image_size(shape: tuple[int, int], n_images: int = 1) -> tuple[float, float]:
    """Inches of a picture with as many images side by side and a scale."""
    return _WIDTH, min(_WIDTH, 0.4 + (_WIDTH - 1) / n_images * shape[0] / shape[1])


def _probability(p: float) -> str:
    if p < 1e-6:
        return "below 1 in a million"
    return f"{p:.1%}" if p >= 0.001 else f"1 in {1 / p:,.0f}"
