"""Every column of any table on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.trees import Trees
from lbarn._models.density import all_or_nothing
from lbarn._network import modelfile
from lbarn._network.container import Tensors, expect
from lbarn._network.network import Network
from lbarn._tables.codebook import Codebook
from lbarn._tables.table import TableFormat
from lbarn._training.data import GivenRows
from lbarn.baselines.independent import TreeBaseline, fixed_point
from lbarn.errors import ModelFileError

__all__ = ["IndependentColumns"]


class IndependentColumns(modelfile.SavedModel, TreeBaseline):
    """Every column of a table on its own: how often each of its values, or ranges of values, was seen.

    Columns are what they are to :class:`lbarn.LBARN` with the same ``columns``, ``max_cells`` and ``missing``, so the log-likelihoods of
    the two can be compared: what a network has more is what the columns say about each other. Cells that are finer because of other columns are part of that.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"sex": ["f", "f", "m", "f"] * 50, "age": [20, 30, 40, 50] * 50})
    >>> model = IndependentColumns().fit(table)
    >>> model.conditional(table[:1], "sex").probability.round(2)
    array([[0.75, 0.25]])
    """

    def __init__(
        self,
        *,
        columns: dict[Any, str] | None = None,
        max_cells: int = 256,
        missing: str = "value",
        binarize: float | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.columns = columns
        self.max_cells = max_cells
        self.missing = missing
        self.binarize = binarize
        self.n_jobs = n_jobs

    @all_or_nothing
    def fit(
        self, X: Any, y: None = None, *, X_val: Any = None, sample_weight: ArrayLike | None = None
    ) -> IndependentColumns:
        """Count. A missing value is one of its column's, or counts for nothing; ``X_val`` has nothing to choose and is ignored."""
        return self.fit_rows(GivenRows.read(self, X, None, sample_weight, alone=True))

    def fit_rows(self, rows: GivenRows) -> IndependentColumns:
        """Count in rows that have been coded, those to validate on included."""
        train = rows.train if rows.valid is None else rows.train + rows.valid
        odds = [train.node_log_odds(rows.book.layout, j) for j in range(rows.n_columns)]
        return self.restored(rows.format, rows.book, fixed_point(np.concatenate(odds)), rows.base_rates())

    def restored(
        self,
        table_format: TableFormat,
        book: Codebook,
        log_odds: NDArray[np.int32],
        base_rates: NDArray[np.float64] | None,
    ) -> IndependentColumns:
        """Fitted with log-odds of all nodes that are there already, in units of 2^-20."""
        no_splits, no_gains, ends = np.zeros((0, 2), np.uint16), np.zeros(0, np.float32), np.zeros(2, np.int64)
        trees = tuple(Trees(no_splits, no_gains, log_odds[k : k + 1], ends) for k in range(len(log_odds)))
        self._remember(table_format, book.n_columns + len(book.left_out), base_rates, book)
        self.order_ = np.arange(book.n_columns)
        self.network_ = Network(self.order_, trees, book.layout)
        self.n_trees_ = np.zeros(book.n_columns, np.intp)
        return self


# ---------------------------------------------------------------------- files


def _to_parts(model: IndependentColumns, trim: bool) -> tuple[dict[str, Any], Tensors]:
    check_is_fitted(model)
    described, tensors = model.codebook_.to_parts()
    log_odds = [np.zeros(0, np.int32), *(trees.values for trees in model.distribution.trees)]
    header = {
        "columns": model.table_format_.to_json(),
        "binarize": model.binarize,
        "max_cells": int(model.max_cells),
        "missing": model.missing,
        "codebook": described,
    }
    assert model.base_rates_ is not None
    own: Tensors = {"log_odds": np.concatenate(log_odds), "base_rates": model.base_rates_}
    return header, {**own, **{f"codebook.{name}": array for name, array in tensors.items()}}


def _from_parts(header: dict[str, Any], tensors: Tensors) -> IndependentColumns:
    with modelfile.sensible():
        own = {name.removeprefix("codebook."): a for name, a in tensors.items() if name.startswith("codebook.")}
        book = Codebook.from_parts(header["codebook"], own)
        table_format = TableFormat.from_json(header["columns"], book.n_columns + len(book.left_out))
        threshold, missing = header["binarize"], str(header["missing"])
        if missing not in ("value", "unknown") or not (threshold is None or np.isfinite(threshold)):
            raise ValueError("its parameters are out of range")
        model = IndependentColumns(
            max_cells=int(header["max_cells"]),
            missing=missing,
            binarize=None if threshold is None else float(threshold),
        )
    log_odds = expect(tensors, "log_odds", np.int32, (book.layout.n_nodes,))
    if len(log_odds) and log_odds.min() == np.iinfo(np.int32).min:
        raise ModelFileError("the log-odds of independent columns do not make sense")
    rates = expect(tensors, "base_rates", np.float64, (book.n_columns,))
    if not ((rates > 0) & (rates < 1) | np.isnan(rates)).all():
        raise ModelFileError("the base rates are not probabilities")
    return model.restored(table_format, book, log_odds, rates)


modelfile.register(IndependentColumns, _to_parts, _from_parts)
