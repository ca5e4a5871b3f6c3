"""Simple density estimators to hold a network against: each has ``fit``, ``score_samples``, ``score`` and ``sample``."""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray

from lbarn._engine.bits import PackedBits
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingRows
from lbarn._engine.trees import LOG_ODDS_UNIT, Trees
from lbarn._models.autoregressive import AutoregressiveNetwork, checked_weights
from lbarn._tables.table import Kind
from lbarn.baselines.logistic_network import LogisticNetwork
from lbarn.baselines.mixture import BernoulliMixture

__all__ = ["BernoulliMixture", "IndependentBits", "LogisticNetwork", "SingleTreeNetwork"]

_PSEUDOCOUNTS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def _log_odds(ones: NDArray[Any], rows: NDArray[Any], pseudocount: Any) -> NDArray[np.float64]:
    odds: NDArray[np.float64] = (ones + pseudocount) / (rows - ones + pseudocount)
    return np.log(odds)


def _log_likelihood(log_odds: NDArray[np.float64], ones: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
    """Summed over the rows of leaves that hold ``rows`` rows, ``ones`` of them with a 1."""
    return -(ones * np.logaddexp(0, -log_odds) + (rows - ones) * np.logaddexp(0, log_odds))


def _fixed(log_odds: NDArray[np.float64]) -> NDArray[np.int32]:
    return np.rint(log_odds / LOG_ODDS_UNIT).astype(np.int32)


class _Baseline(AutoregressiveNetwork):
    """One tree per dimension, columns as given."""

    def _read_pair(self, X: Any, X_val: Any) -> tuple[PackedBits, PackedBits | None]:
        tables = [self._read(X, reset=True)] + ([] if X_val is None else [self._read(X_val, reset=False)])
        self._kind = tables[0].kind
        self.order_ = np.arange(tables[0].n_columns)
        self.n_trees_ = np.ones(tables[0].n_columns, np.intp)
        packed = [PackedBits.concatenate([bits for _, bits in self._chunks(table)]) for table in tables]
        return packed[0], packed[1] if X_val is not None else None


class IndependentBits(_Baseline):
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

    def fit(
        self, X: Any, y: None = None, *, X_val: Any = None, sample_weight: ArrayLike | None = None
    ) -> IndependentBits:
        """Count. A missing value (NaN) counts for neither side; ``X_val`` has nothing to choose and is ignored."""
        table = self._read(X, reset=True)
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        if weight is not None:
            weight = weight / weight.max()  # so that no sum overflows
            weight *= np.count_nonzero(weight) / weight.sum()  # as in LBARN: 1 on average
        sample = TrainingRows(*table.pack(np.arange(table.n_columns)), weight)
        counts = np.array([_counts(sample, d) for d in range(table.n_columns)])
        return self._hold(table.kind, _fixed(_log_odds(counts[:, 0], counts[:, 1], 0.5)))

    def _hold(self, kind: Kind, log_odds: NDArray[np.int32]) -> IndependentBits:
        self._kind = kind
        self.order_ = np.arange(len(log_odds))
        self.n_trees_ = np.ones(len(log_odds), np.intp)
        no_splits = np.zeros((0, 2), np.uint16)
        self._conditionals = [_one_tree(d, no_splits, log_odds[d : d + 1]) for d in range(len(log_odds))]
        return self


def _counts(sample: TrainingRows, d: int) -> tuple[float, float]:
    """Ones and rows of a column."""
    weight = sample.weight_for(d)
    column = sample.bits.column(d)
    return (column.sum(), len(column)) if weight is None else (float(column @ weight), weight.sum())


class SingleTreeNetwork(_Baseline):
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

    def fit(self, X: Any, y: None = None, *, X_val: Any = None) -> SingleTreeNetwork:
        train, valid = self._read_pair(X, X_val)
        if valid is None:
            shuffled = np.random.default_rng(self.random_state).permutation(train.n_rows)
            n_valid = max(1, round(self.validation_fraction * train.n_rows))
            train, valid = train.take(shuffled[n_valid:]), train.take(shuffled[:n_valid])
        how = Boosting(max_leaf_nodes=self.max_leaf_nodes, learning_rate=1.0, max_iter=1, splits="exact")
        train.columns, valid.columns  # noqa: B018  transposed once, before the threads share them
        grown = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
            delayed(_grow)(train, valid, d, how) for d in range(train.n_columns)
        )
        scores = np.array([curve.max(axis=1) for _, _, _, curve in grown])  # (D, pseudocounts)
        chosen = int(scores.sum(axis=0).argmax())
        self.pseudocount_ = _PSEUDOCOUNTS[chosen]
        self._conditionals = [
            _pruned(d, splits, ones, rows, int(curve[chosen].argmax()), self.pseudocount_)
            for d, (splits, ones, rows, curve) in enumerate(grown)
        ]
        return self


def _one_tree(position: int, splits: NDArray[np.uint16], values: NDArray[np.int32]) -> Conditional:
    trees = Trees(splits, np.zeros(len(splits), np.float32), values, np.array([0, len(splits)], np.int64))
    return Conditional(position, trees, np.zeros(0), np.zeros(0))


def _leaf_counts(bits: PackedBits, position: int, splits: NDArray[np.uint16]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ones and rows per leaf. A tree whose values are its leaves' numbers gives every row its leaf."""
    numbered = _one_tree(position, splits, np.arange(len(splits) + 1, dtype=np.int32))
    leaf = numbered.log_odds(bits)
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
        return _log_likelihood(_log_odds(o, r, pseudocounts), vo, vr).sum(axis=1)

    curve = np.empty((len(_PSEUDOCOUNTS), len(splits) + 1))
    curve[:, -1] = value(counts)
    for k in range(len(splits) - 1, -1, -1):
        kept = splits[k, 0]
        apart = value(counts[:, [kept, k + 1]])
        counts[:, kept] += counts[:, k + 1]
        curve[:, k] = curve[:, k + 1] - apart + value(counts[:, [kept]])
    return splits, ones, rows, curve / valid.n_rows


def _pruned(
    position: int, splits: NDArray[np.uint16], ones: NDArray[Any], rows: NDArray[Any], n_splits: int, pseudocount: float
) -> Conditional:
    ones, rows = ones.copy(), rows.copy()
    for k in range(len(splits) - 1, n_splits - 1, -1):
        for counts in (ones, rows):
            counts[splits[k, 0]] += counts[k + 1]
    values = _fixed(_log_odds(ones[: n_splits + 1], rows[: n_splits + 1], pseudocount))
    return _one_tree(position, np.ascontiguousarray(splits[:n_splits]), values)
