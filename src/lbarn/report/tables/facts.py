"""What the report on any table says, as plain data: computed here, drawn and written elsewhere."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._models.density import Density
from lbarn._tables.columnlist import ColumnInfo
from lbarn._tables.table import read_table, take_rows
from lbarn.plots.graph import strongest_pairs
from lbarn.report.bits.facts import fold_pairs
from lbarn.report.tables.columns import Distribution, distribution
from lbarn.report.tables.fit import Fit, RowScores, Surprise, independent_nats, pair_strength, score_rows, surprise_of
from lbarn.report.tables.pairs import Associations, Pair, associations, draw_pair
from lbarn.report.tables.predictions import Predictions, predictions
from lbarn.report.tables.rows import Field, Rows, read_rows
from lbarn.report.tables.samples import Samples, samples_beside
from lbarn.report.tables.strange import Strange, strange_rows
from lbarn.report.training import Training, training_facts

__all__ = ["Dependencies", "Facts", "collect"]

Floats = NDArray[np.float64]

_MAX_ROWS = 5000  # that columns and rows are compared on
_MAX_SCORED = 100_000  # that are scored
_MAX_UNKNOWN = 300  # of rows with unknown values, whose surprise takes Monte Carlo
_SAMPLES = 1000  # to draw at least
_PICTURED = 30  # columns
_PAIRS, _EDGES, _STRONG = 12, 24, 100
_COMPARED = 20  # columns whose pairs are compared, rows with samples


@dataclass(frozen=True, eq=False)
class Dependencies:
    """The pairs of columns that gain most from each other."""

    pairs: NDArray[np.intp]  # of a graph
    strength: Floats  # nats per row
    pictured: list[Pair]
    associations: Associations


@dataclass(frozen=True, eq=False)
class Facts:
    fields: list[Field]
    infos: list[ColumnInfo]  # of the same columns
    left_out: list[ColumnInfo]
    n_rows: int
    n_scored: int
    n_compared: int
    share_empty: float
    interest: NDArray[np.intp]  # the columns, most interesting first
    fit: Fit
    distributions: list[Distribution]
    dependencies: Dependencies
    predictions: Predictions
    samples: Samples
    strange: Strange
    training: Training


def collect(model: Density, X: Any, seed: int) -> Facts:
    """Everything that is said about ``model`` and the rows of ``X``."""
    fields, infos, left_out = _fields(model)
    n_rows = read_table(X).n_rows
    numbers = _some(n_rows, _MAX_SCORED, seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="columns that the model does not have")  # said by the first reader
        scored = X if len(numbers) == n_rows else take_rows(X, numbers)
        scores = score_rows(model, fields, scored)
        real = read_rows(model, X, numbers[_some(len(numbers), _MAX_ROWS, seed)])
        if all(column.missing.all() for column in real.columns):
            raise ValueError("every value of X is missing; there is nothing to report on")
        made = read_rows(model, model.sample(max(_SAMPLES, len(real)), random_state=seed))
        usual = surprise_of(model, fields, _quick(real), seed)
        training = training_facts(model)
        fit = _fit(fields, scores, usual, training)
        strength = fold_pairs(pair_strength(model.distribution.importance(), fit.gains), [])
        interest = np.argsort(-(strength.sum(axis=0) + strength.sum(axis=1)), kind="stable")
        pictured = interest[:_PICTURED].tolist()
        pairs, weight = strongest_pairs(strength, _STRONG)
        return Facts(
            fields=fields,
            infos=infos,
            left_out=left_out,
            n_rows=n_rows,
            n_scored=len(numbers),
            n_compared=len(real),
            share_empty=float(np.mean([column.missing.mean() for column in real.columns])),
            interest=interest,
            fit=fit,
            distributions=[distribution(j, fields[j], real, made) for j in pictured],
            dependencies=Dependencies(
                pairs[:_EDGES],
                weight[:_EDGES],
                [
                    draw_pair((i, j), own, fields, real, made, seed)
                    for (i, j), own in zip(pairs[:_PAIRS].tolist(), weight.tolist())
                ],
                associations(fields, _compared(pairs, pictured[:_COMPARED]), real, made),
            ),
            predictions=predictions(model, X, fields, pictured, real, seed),
            samples=samples_beside(fields, real, made),
            strange=strange_rows(model, X, fields, scores.model - scores.inside, numbers, usual, seed),
            training=training,
        )


def _fields(model: Density) -> tuple[list[Field], list[ColumnInfo], list[ColumnInfo]]:
    book, infos = model.codebook_, model.columns_
    labels = model.table_format_.labels(model.n_features_in_)
    unnamed = model.table_format_.names is None
    fields = [
        Field(number, f"column {number}" if unnamed else str(labels[number]), labels[number], code)
        for number, code in zip(book.taken.tolist(), book.codes)
    ]
    left_out = [infos[number] for number in sorted(book.left_out)]
    return fields, [infos[number] for number in book.taken.tolist()], left_out


def _some(n: int, most: int, seed: int) -> NDArray[np.intp]:
    """As many of ``n`` rows at random, in their order; all if they are not more."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng([seed, 0]).choice(n, most, replace=False))


def _compared(pairs: NDArray[np.intp], columns: list[int]) -> list[tuple[int, int]]:
    """The strong pairs, and all pairs of some columns."""
    strong = [(min(pair), max(pair)) for pair in pairs.tolist()]
    others = [(min(i, j), max(i, j)) for k, i in enumerate(columns) for j in columns[k + 1 :]]
    return sorted({*strong, *others})


def _quick(rows: Rows) -> Rows:
    """Fewer of them, if many have unknown values."""
    incomplete = rows.unknown.any(axis=1)
    if incomplete.sum() <= _MAX_UNKNOWN:
        return rows
    return rows.take(np.arange(max(_MAX_UNKNOWN, int(len(rows) * _MAX_UNKNOWN / incomplete.sum()))))


def _fit(fields: list[Field], scores: RowScores, usual: Surprise, training: Training) -> Fit:
    gain = scores.model - scores.independent
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("nan")
    shares = np.array([1.0 if field.code.missing else 1.0 - field.code.share_missing for field in fields])
    expected = independent_nats(fields, shares)
    return Fit(
        score=float(scores.model.mean()),
        independent=float(scores.independent.mean()),
        gain=float(gain.mean()),
        gain_error=error,
        is_mass=all(field.code.measure == "mass" for field in fields),
        by_column=usual.mean(),
        validated=None if training.validated is None else training.validated - expected,
        validated_independent=expected,
    )
