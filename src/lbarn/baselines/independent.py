"""Every column on its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.codetree import Layout
from lbarn._engine.rows import TrainingRows
from lbarn._engine.trees import LOG_ODDS_UNIT, Trees
from lbarn._models.density import Density, all_or_nothing
from lbarn._network import modelfile
from lbarn._network.container import Tensors, expect
from lbarn._network.network import Network
from lbarn._tables.table import TableFormat, read_table
from lbarn._training.data import checked_weights
from lbarn.errors import ModelFileError

__all__ = ["IndependentBits", "TreeBaseline", "fixed_point", "one_tree", "smoothed_log_odds"]


class TreeBaseline(Density):
    """A network of one tree per column, columns as given."""

    network_: Network
    order_: NDArray[np.intp]
    n_trees_: NDArray[np.intp]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    @property
    def distribution(self) -> Network:
        """The trained network, apart from tables and parameters."""
        check_is_fitted(self)
        return self.network_

    def _hold(self, table_format: TableFormat, trees: Sequence[Trees], *, base: bool = False) -> None:
        rates = expit(LOG_ODDS_UNIT * np.array([tree.values[0] for tree in trees])) if base else None
        self._remember(table_format, len(trees), rates)
        self.order_, self.n_trees_ = np.arange(len(trees)), np.ones(len(trees), np.intp)
        self.network_ = Network(self.order_, tuple(trees), Layout.binary(len(trees)))

    def cumulative_score(self, X: Any) -> NDArray[np.float64]:
        """Mean log-likelihood of the first 1, 2, ..., D columns; the last one is ``score(X)``."""
        return self.distribution.cumulative((chunk.cells for chunk in self._ready(X).complete_chunks()), self.n_jobs)


class IndependentBits(modelfile.SavedModel, TreeBaseline):
    """Every column on its own: a coin with the frequency seen, and half a pseudocount on either side.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0, 1], [0, 1], [0, 1], [1, 1]])
    >>> np.round(np.exp(IndependentBits().fit(X).score_samples([[0, 1]])), 2)
    array([0.63])
    """

    def __init__(self, *, binarize: float | None = None, n_jobs: int | None = None) -> None:
        self.binarize = binarize
        self.n_jobs = n_jobs

    @all_or_nothing
    def fit(
        self, X: Any, y: None = None, *, X_val: Any = None, sample_weight: ArrayLike | None = None
    ) -> IndependentBits:
        """Count. A missing value (NaN) counts for neither side; ``X_val`` has nothing to choose and is ignored."""
        table = read_table(X, binarize=self.binarize)
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        return self.fit_rows(table.format, TrainingRows(*table.pack(), weight))

    def fit_rows(self, table_format: TableFormat, rows: TrainingRows) -> IndependentBits:
        """Count in rows that have been packed."""
        if rows.weight is not None:
            weight = rows.weight / rows.weight.max()  # so that no sum overflows
            weight *= np.count_nonzero(weight) / weight.sum()  # as in LBARN: 1 on average
            rows = replace(rows, weight=weight)
        counts = np.array([_counts(rows, d) for d in range(rows.n_columns)])
        return self.restored(table_format, fixed_point(smoothed_log_odds(counts[:, 0], counts[:, 1], 0.5)))

    def restored(self, table_format: TableFormat, log_odds: NDArray[np.int32]) -> IndependentBits:
        """Fitted with log-odds that are there already, in units of 2^-20."""
        no_splits = np.zeros((0, 2), np.uint16)
        self._hold(table_format, [one_tree(no_splits, log_odds[d : d + 1]) for d in range(len(log_odds))], base=True)
        return self


def _counts(rows: TrainingRows, d: int) -> tuple[float, float]:
    """Ones and rows of a column."""
    weight = rows.weight_for(d)
    column = rows.bits.column(d)
    return (column.sum(), len(column)) if weight is None else (float(column @ weight), weight.sum())


def smoothed_log_odds(ones: NDArray[Any], rows: NDArray[Any], pseudocount: Any) -> NDArray[np.float64]:
    odds: NDArray[np.float64] = (ones + pseudocount) / (rows - ones + pseudocount)
    return np.log(odds)


def fixed_point(log_odds: NDArray[np.float64]) -> NDArray[np.int32]:
    """In units of 2^-20."""
    return np.rint(log_odds / LOG_ODDS_UNIT).astype(np.int32)


def one_tree(splits: NDArray[np.uint16], values: NDArray[np.int32]) -> Trees:
    return Trees(splits, np.zeros(len(splits), np.float32), values, np.array([0, len(splits)], np.int64))


# ---------------------------------------------------------------------- files


def _to_parts(model: IndependentBits, trim: bool) -> tuple[dict[str, Any], Tensors]:
    check_is_fitted(model)
    log_odds = np.concatenate([trees.values for trees in model.network_.trees])
    return {"columns": model.table_format_.to_json(), "binarize": model.binarize}, {"log_odds": log_odds}


def _from_parts(header: dict[str, Any], tensors: Tensors) -> IndependentBits:
    log_odds = expect(tensors, "log_odds", np.int32, (None,))
    if not len(log_odds) or log_odds.min() == np.iinfo(np.int32).min:
        raise ModelFileError("the log-odds of independent bits do not make sense")
    with modelfile.sensible():
        table_format = TableFormat.from_json(header["columns"], len(log_odds))
        threshold = header.get("binarize")
        if isinstance(threshold, str) or (threshold is not None and not math.isfinite(threshold)):
            raise ValueError(f"the binarize asked for is {threshold!r}")
        model = IndependentBits(binarize=None if threshold is None else float(threshold))
    return model.restored(table_format, log_odds)


modelfile.register(IndependentBits, _to_parts, _from_parts)
