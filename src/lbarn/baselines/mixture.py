"""A mixture of Bernoulli distributions, by expectation maximisation: the classic to compare a network with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from lbarn._models.density import RowModel, all_or_nothing
from lbarn.baselines.rows import CompleteRows

__all__ = ["BernoulliMixture"]

Floats = NDArray[np.float64]
Bits = NDArray[np.float32]  # 0 and 1, as matrix products want them


class BernoulliMixture(RowModel):
    """``P(x) = sum_k w_k prod_d p_kd^x_d (1 - p_kd)^(1 - x_d)``.

    The numbers of components are tried in turn, until one validates worse than the one before; each is started several
    times, and the start that validates best is kept.

    Parameters
    ----------
    n_components : int or sequence of int, default=(4, 8, 16, 32, 64, 128, 256, 512)
        Number of components, or the numbers to choose from.
    n_init : int, default=3
        Starts per number of components.
    max_iter : int, default=200
        The most steps of expectation maximisation.
    tol : float, default=1e-3
        Stop when a step gains less than this, in nats per row.
    pseudocount : float, default=1.0
        Each component is given this many rows more, with the column means for values; above 0.
    validation_fraction : float, default=0.2
        Share of the rows held out when ``fit`` is given no ``X_val``.
    n_jobs : int or None, default=None
        Threads over starts.

    Attributes
    ----------
    weights_ : ndarray of shape (K,)
    means_ : ndarray of shape (K, D)
        The probability of a 1 in every component.
    search_results_ : list of dict
        The validation log-likelihood of every number of components that was tried.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
    >>> mixture = BernoulliMixture(n_components=2).fit(X)
    >>> np.round(np.exp(mixture.score_samples([[1, 1, 1], [0, 1, 0]])), 1)
    array([0.5, 0. ])
    """

    def __init__(
        self,
        *,
        n_components: int | Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512),
        n_init: int = 3,
        max_iter: int = 200,
        tol: float = 1e-3,
        pseudocount: float = 1.0,
        validation_fraction: float = 0.2,
        binarize: float | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.pseudocount = pseudocount
        self.validation_fraction = validation_fraction
        self.binarize = binarize
        self.n_jobs = n_jobs
        self.random_state = random_state

    weights_: Floats
    means_: Floats

    @all_or_nothing
    def fit(self, X: Any, y: None = None, *, X_val: Any = None) -> BernoulliMixture:
        """Train on ``X``; choose the number of components on ``X_val``, or on rows of ``X`` that are held out."""
        rows = CompleteRows.read(self, X, X_val)
        train, valid = rows.train.astype(np.float32), rows.valid.astype(np.float32)
        self._remember(rows.format, train.shape[1])
        self.search_results_: list[dict[str, Any]] = []
        best = -np.inf
        for K in np.atleast_1d(self.n_components).tolist():
            starts = self._starts(train, K)
            scores = [_shares(_joint(valid, *start))[1] for start in starts]
            self.search_results_.append({"n_components": K, "valid_log_likelihood": max(scores)})
            if max(scores) <= best:
                break
            best = max(scores)
            self.weights_, self.means_ = starts[int(np.argmax(scores))]
        return self

    def _starts(self, train: Bits, K: int) -> list[tuple[Floats, Floats]]:
        rngs = [np.random.default_rng([self.random_state, K, i]) for i in range(self.n_init)]
        with threadpool_limits(1, user_api="blas"):  # its threads wait for each other wherever a core is busy
            return Parallel(n_jobs=self.n_jobs, require="sharedmem")(delayed(self._em)(train, K, rng) for rng in rngs)

    def _em(self, train: Bits, K: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """From components half way between the mean and rows picked at random."""
        average = (train.sum(axis=0, dtype=np.float64) + 0.5) / (len(train) + 1)
        prototypes = train[rng.choice(len(train), K, replace=len(train) < K)]
        weights, means = np.full(K, 1 / K), ((average + prototypes) / 2).clip(0.01, 0.99)
        before = -np.inf
        for _ in range(self.max_iter):
            share, evidence = _shares(_joint(train, weights, means))
            rows = share.sum(axis=0, dtype=np.float64)
            ones = (share.T @ train).clip(max=rows[:, None])  # single precision may exceed them
            means = (ones + self.pseudocount * average) / (rows[:, None] + self.pseudocount)
            weights = (rows + self.pseudocount) / (rows + self.pseudocount).sum()
            if evidence - before < self.tol:
                break
            before = evidence
        return weights, means

    def score_samples(self, X: Any) -> Floats:
        """log p(x) of every row, in nats."""
        check_is_fitted(self, "means_")
        chunks = self._ready(X).table.complete_chunks()
        return np.concatenate(
            [logsumexp(_joint(bits.astype(np.float64), self.weights_, self.means_), axis=1) for _, bits in chunks]
        )

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Any:
        """Draw rows, in the kind of table that the model was fitted on."""
        check_is_fitted(self, "means_")
        rng = check_random_state(random_state)
        component = rng.choice(len(self.weights_), n_samples, p=self.weights_)
        bits = rng.random_sample((n_samples, self.n_features_in_)) < self.means_[component]
        return self.table_format_.give(bits.view(np.uint8))


def _joint(X: NDArray[Any], weights: Floats, means: Floats) -> NDArray[Any]:
    """log w_k p_k(x) for every row and component, by one matrix product in the precision of ``X``."""
    log_odds = np.log(means) - np.log1p(-means)
    joint = X @ log_odds.T.astype(X.dtype)
    joint += (np.log(weights) + np.log1p(-means).sum(axis=1)).astype(X.dtype)
    return joint


def _shares(joint: NDArray[Any]) -> tuple[NDArray[Any], float]:
    """P(k | x) for every row, in place of ``joint``, and the mean of log p(x)."""
    top = joint.max(axis=1, keepdims=True)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=1, keepdims=True)
    joint /= total
    return joint, float((top.astype(np.float64) + np.log(total)).mean())
