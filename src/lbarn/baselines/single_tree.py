"""One probability estimation tree per column."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import Trees
from lbarn._models.density import all_or_nothing
from lbarn.baselines.independent import TreeBaseline, fixed_point, one_tree, smoothed_log_odds
from lbarn.baselines.rows import CompleteRows

__all__ = ["SingleTreeNetwork"]

_PSEUDOCOUNTS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def _log_likelihood(log_odds: NDArray[np.float64], ones: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
    """Summed over the rows of leaves that hold ``rows`` rows, ``ones`` of them with a 1."""
    return -(ones * np.logaddexp(0, -log_odds) + (rows - ones) * np.logaddexp(0, log_odds))


class SingleTreeNetwork(TreeBaseline):
    """One probability estimation tree per dimension.

    The number of leaves of each tree and one pseudocount for all of them are chosen on validation rows.

    Parameters
    ----------
    max_leaf_nodes : int, default=512
        The most leaves that a tree may have.
    validation_fraction : float, default=0.2
        Share of the rows held out when ``fit`` is given no ``X_val``.
    """

    def __init__(
        self,
        *,
        max_leaf_nodes: int = 512,
        validation_fraction: float = 0.2,
        binarize: float | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.validation_fraction = validation_fraction
        self.binarize = binarize
        self.n_jobs = n_jobs
        self.random_state = random_state

    @all_or_nothing
    def fit(self, X: Any, y: None = None, *, X_val: Any = None) -> SingleTreeNetwork:
        """Train on ``X``; choose leaves and pseudocount on ``X_val``, or on rows of ``X`` that are held out."""
        rows = CompleteRows.read(self, X, X_val)
        train, valid = pack(rows.train), pack(rows.valid)
        how = Boosting(max_leaf_nodes=self.max_leaf_nodes, learning_rate=1.0, max_iter=1, splits="exact")
        train.columns, valid.columns  # noqa: B018  transposed once, before the threads share them
        grown = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
            delayed(_grow)(train, valid, d, how) for d in range(train.n_columns)
        )
        scores = np.array([curve.max(axis=1) for _, _, _, curve in grown])  # (D, pseudocounts)
        chosen = int(scores.sum(axis=0).argmax())
        self.pseudocount_ = _PSEUDOCOUNTS[chosen]
        trees = [
            _pruned(splits, ones, rows, int(curve[chosen].argmax()), self.pseudocount_)
            for splits, ones, rows, curve in grown
        ]
        self._hold(rows.format, trees)
        return self


def _leaf_counts(bits: PackedBits, position: int, splits: NDArray[np.uint16]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ones and rows per leaf. A tree whose values are its leaves' numbers gives every row its leaf."""
    numbered = one_tree(splits, np.arange(len(splits) + 1, dtype=np.int32))
    leaf = numbered.log_odds(bits.columns, bits.n_rows)
    ones = np.bincount(leaf, weights=bits.column(position), minlength=len(splits) + 1)
    return ones, np.bincount(leaf, minlength=len(splits) + 1).astype(float)


def _grow(train: PackedBits, valid: PackedBits, position: int, how: Boosting) -> tuple[Any, ...]:
    """Splits, counts per leaf, and the validation log-likelihood per row for every (pseudocount, number of splits).

    Splits are in the order in which they were made, so the first k of them are the best-first tree of k + 1 leaves:
    undoing the last split again and again visits all of those trees.
    """
    splits = Conditional.train(train, valid, position, how).trees.splits
    ones, rows = _leaf_counts(train, position, splits)
    valid_ones, valid_rows = _leaf_counts(valid, position, splits)
    counts = np.stack([ones, rows, valid_ones, valid_rows])
    pseudocounts = np.array(_PSEUDOCOUNTS)[:, None]

    def value(columns: NDArray[Any]) -> NDArray[np.float64]:
        o, r, vo, vr = columns
        return _log_likelihood(smoothed_log_odds(o, r, pseudocounts), vo, vr).sum(axis=1)

    curve = np.empty((len(_PSEUDOCOUNTS), len(splits) + 1))
    curve[:, -1] = value(counts)
    for k in range(len(splits) - 1, -1, -1):
        kept = splits[k, 0]
        apart = value(counts[:, [kept, k + 1]])
        counts[:, kept] += counts[:, k + 1]
        curve[:, k] = curve[:, k + 1] - apart + value(counts[:, [kept]])
    return splits, ones, rows, curve / valid.n_rows


def _pruned(
    splits: NDArray[np.uint16], ones: NDArray[Any], rows: NDArray[Any], n_splits: int, pseudocount: float
) -> Trees:
    ones, rows = ones.copy(), rows.copy()
    for k in range(len(splits) - 1, n_splits - 1, -1):
        for counts in (ones, rows):
            counts[splits[k, 0]] += counts[k + 1]
    values = fixed_point(smoothed_log_odds(ones[: n_splits + 1], rows[: n_splits + 1], pseudocount))
    return one_tree(np.ascontiguousarray(splits[:n_splits]), values)
