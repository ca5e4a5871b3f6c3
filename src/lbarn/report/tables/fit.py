"""How good the fit is, as a whole and column by column, against independent columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lbarn._engine.codetree import UNKNOWN
from lbarn._models.density import Density
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import ColumnCode
from lbarn._tables.table import read_like
from lbarn.report.tables.rows import Field, Rows, completed_cells

__all__ = [
    "Fit",
    "RowScores",
    "Surprise",
    "independent_nats",
    "log_marginal_cells",
    "pair_strength",
    "score_rows",
    "surprise_of",
]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowScores:
    """Log-likelihoods of rows, of the values that are there, in nats.

    ``inside`` is the part of the values inside their cells, by a law that no other column changes. It is in both of the others.
    """

    model: Floats
    independent: Floats
    inside: Floats


@dataclass(frozen=True, eq=False)
class Surprise:
    """-log p of every cell, in nats: by the model given the columns before it, and if columns are independent; 0 where
    unknown."""

    model: Floats  # (n, D)
    independent: Floats
    known: NDArray[np.bool_]

    def mean(self) -> Floats:
        """(2, D): of every column, over the cells that are known: if columns are independent, and by the model."""
        known = np.maximum(self.known.sum(axis=0), 1)
        return np.stack([self.independent.sum(axis=0), self.model.sum(axis=0)]) / known


@dataclass(frozen=True, eq=False)
class Fit:
    """Log-likelihoods, in nats per row, and what the model gains over independent columns."""

    score: float
    independent: float
    gain: float
    gain_error: float
    is_mass: bool  # of every column; otherwise some are densities, and only differences mean something
    by_column: Floats  # (2, D): mean surprise of a cell if columns are independent, and by the model
    validated: float | None  # the gain on the rows held out in training, about
    validated_independent: float  # what independent columns score there

    @property
    def gains(self) -> Floats:
        """What every column gains over being independent, in nats per value."""
        return self.by_column[0] - self.by_column[1]


def log_marginal_cells(code: ColumnCode) -> Floats:
    """log P of every cell if the column is independent of all others: its share among the training rows.

    Every cell that a row may have had gets half a row on top, and so does each that no row had.
    """
    drawn = code.tree.drawn
    share = 0.5 / (code.n_rows + 1.0)
    mass = np.where(drawn, code.mass + 0.5, 0.0)
    p = np.where(drawn, mass / mass.sum() * (1.0 - share * (~drawn).sum()), share)
    return np.log(p)


def score_rows(model: Density, fields: Sequence[Field], X: Any) -> RowScores:
    """By the model, and if columns are independent."""
    table = read_like(
        X, model.table_format_, model.n_features_in_, binarize=model.binarize, optional=model.codebook_.left_out
    )
    marginals = [log_marginal_cells(field.code) for field in fields]
    found = RowScores(*(np.zeros(table.n_rows) for _ in range(3)))
    for chunk in CodedTable(table, model.codebook_).chunks():
        rows = slice(chunk.start, chunk.start + len(chunk))
        found.inside[rows] = chunk.log_inside
        found.model[rows] = model.distribution.log_likelihood(chunk.cells, model.n_jobs, chunk.unknown)
        for j, marginal in enumerate(marginals):
            cells = chunk.cells[:, j].astype(np.intp)
            there = cells != UNKNOWN
            found.independent[rows] += np.where(there, marginal[np.where(there, cells, 0)], 0.0)
    return RowScores(found.model + found.inside, found.independent + found.inside, found.inside)


def surprise_of(model: Density, fields: Sequence[Field], rows: Rows, seed: int) -> Surprise:
    """Of every cell of some rows."""
    known = ~rows.unknown
    cells = completed_cells(model, rows, seed)
    by_model = model.distribution.surprise(cells, model.n_jobs)
    alone = np.stack([-log_marginal_cells(field.code)[cells[:, j]] for j, field in enumerate(fields)], axis=1)
    return Surprise(np.where(known, by_model, 0.0), np.where(known, alone, 0.0), known)


def independent_nats(fields: Sequence[Field], known: Floats) -> float:
    """About what independent columns score on the cells of training rows, ``known`` of which are there in every column."""
    total = 0.0
    for field, share in zip(fields, known):
        p = field.code.mass / max(field.code.n_rows, 1.0)
        total += share * float((p * np.where(p > 0, log_marginal_cells(field.code), 0.0)).sum())
    return total


def pair_strength(importance: csr_array, gain: Floats) -> csr_array:
    """``[i, j]``: the nats per row that column i gains from j: its gain, shared out by importance among its predictors."""
    entries = importance.tocoo()
    positive = np.maximum(entries.data, 0.0)
    total = np.bincount(entries.row, positive, len(gain))
    share = positive / np.where(total > 0, total, 1.0)[entries.row]
    return csr_array((share * np.maximum(gain, 0.0)[entries.row], (entries.row, entries.col)), shape=importance.shape)
