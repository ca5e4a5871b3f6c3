"""Anomalies: the least likely rows, and what is strange about each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import Density, check_counts
from lbarn._models.outliers import LBARNOutlierDetector
from lbarn._tables.table import read_like, take_rows

__all__ = ["Anomaly", "LBARNOutlierDetector", "SurprisingBit", "explain"]


class SurprisingBit(NamedTuple):
    """A value of a row, and what the model thought of it given the columns before it in the order."""

    column: str | int  # its name, or its number if neither the table nor the model has names
    value: int
    surprise: float  # -log p(value), in nats
    probability: float  # p(value)
    base_rate: float | None  # the share of this value in the column, among the rows that the model was fitted on


class Anomaly(NamedTuple):
    """An unlikely row and its most surprising values."""

    row: int
    log_likelihood: float
    bits: list[SurprisingBit]


def explain(model: Density, X: Any, *, n_rows: int = 10, n_bits: int = 5) -> list[Anomaly]:
    """The ``n_rows`` least likely rows of ``X``, least likely first, each with its ``n_bits`` most surprising values.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (300, 1)), 3, axis=1)
    >>> X[7] = [0, 1, 0]
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.2, random_state=0).fit(X[10:])
    >>> [(strange.row, strange.bits[0].column, strange.bits[0].value) for strange in explain(model, X, n_rows=1)]
    [(7, 1, 1)]
    """
    check_counts(n_rows=n_rows, n_bits=n_bits)
    check_is_fitted(model)
    table = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize)
    chunks = (values for _, values in table.complete_chunks())
    scores = np.concatenate([model.distribution.log_likelihood(values, model.n_jobs) for values in chunks])
    rows = np.argsort(scores, kind="stable")[:n_rows]
    chosen = read_like(take_rows(X, rows), model.table_format_, table.n_columns, binarize=model.binarize).complete()
    names = (table.format if table.format.names else model.table_format_).labels(table.n_columns)
    anomalies = []
    for row, bits, nats in zip(rows, chosen, model.distribution.surprise(chosen, model.n_jobs)):
        found = []
        for j in np.argsort(-nats, kind="stable")[:n_bits]:
            rate = None if model.base_rates_ is None else float(model.base_rates_[j])
            share = rate if rate is None or bits[j] else 1 - rate
            found.append(SurprisingBit(names[j], int(bits[j]), float(nats[j]), float(np.exp(-nats[j])), share))
        anomalies.append(Anomaly(int(row), float(scores[row]), found))
    return anomalies
