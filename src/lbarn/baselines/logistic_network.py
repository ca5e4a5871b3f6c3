"""A network of logistic regressions, one per column on the columns before it: a fully visible sigmoid belief net."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit, log_expit, logit
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from lbarn._models.density import RowModel, all_or_nothing
from lbarn.baselines.rows import CompleteRows

__all__ = ["LogisticNetwork"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_COLUMNS_AT_ONCE = 64
_INTERCEPT_PENALTY = 0.1  # weak, and not chosen: it keeps a column that never varies from certainty
_MAX_NEWTON_STEPS = 50
_MAX_CONJUGATE_STEPS = 30


class LogisticNetwork(RowModel):
    """``P(x_d = 1 | x_<d) = 1 / (1 + exp(-intercept_d - sum_(i<d) coef_di x_i))``, columns as given.

    All regressions have the same L2 penalty. The strengths are tried from the strongest to the weakest, until one
    validates worse than the one before.

    Parameters
    ----------
    l2_regularization : float or sequence of float, default=(1000, 300, 100, 30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003)
        Strength, or the strengths to choose from: half of it times the squared coefficients is added to the summed
        negative log-likelihood, so it is 1 / C of scikit-learn's ``LogisticRegression``. Above 0.
    tol : float, default=1e-6
        A regression is done when its next step promises less than this, in nats per row.
    validation_fraction : float, default=0.2
        Share of the rows held out when ``fit`` is given no ``X_val``.
    n_jobs : int or None, default=None
        Threads over columns.

    Attributes
    ----------
    intercept_ : ndarray of shape (D,)
    coef_ : ndarray of shape (D, D)
        Row d has the coefficients of regression d: 0 from column d on.
    l2_regularization_ : float
        The strength that was chosen.
    search_results_ : list of dict
        The validation log-likelihood of every strength that was tried.

    References
    ----------
    B. Frey, "Graphical Models for Machine Learning and Digital Communication", 1998.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat([[0, 0, 0], [1, 1, 1]], 50, axis=0)
    >>> network = LogisticNetwork().fit(X)
    >>> np.round(np.exp(network.score_samples([[1, 1, 1], [0, 1, 0]])), 1)
    array([0.5, 0. ])
    """

    def __init__(
        self,
        *,
        l2_regularization: float | Sequence[float] = (1000, 300, 100, 30, 10, 3, 1, 0.3, 0.1, 0.03, 0.01, 0.003),
        tol: float = 1e-6,
        validation_fraction: float = 0.2,
        binarize: float | None = None,
        n_jobs: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.l2_regularization = l2_regularization
        self.tol = tol
        self.validation_fraction = validation_fraction
        self.binarize = binarize
        self.n_jobs = n_jobs
        self.random_state = random_state

    intercept_: Floats
    coef_: Floats

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        X_val: Any = None,
        sample_weight: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> LogisticNetwork:
        """Train on ``X``; choose the strength on ``X_val``, or on rows of ``X`` that are held out."""
        strengths = np.sort(np.atleast_1d(np.asarray(self.l2_regularization, float)))[::-1]
        if strengths.ndim != 1 or not len(strengths) or not (strengths > 0).all() or not np.isfinite(strengths).all():
            raise ValueError(f"l2_regularization must be above 0 and finite; got {self.l2_regularization!r}")
        rows = CompleteRows.read(self, X, X_val, sample_weight, sample_weight_val)
        train, valid = rows.train.astype(np.float32), rows.valid.astype(np.float32)
        self._remember(rows.format, train.shape[1])
        self._search(_Regressions(train, rows.weight), strengths, valid, rows.weight_val)
        return self

    def _search(self, regressions: _Regressions, strengths: Floats, valid: Singles, weight_val: Floats | None) -> None:
        self.search_results_: list[dict[str, float]] = []
        D = valid.shape[1]
        blocks = [slice(start, min(start + _COLUMNS_AT_ONCE, D)) for start in range(0, D, _COLUMNS_AT_ONCE)]
        parameters, best = np.zeros((D + 1, D), np.float32), -np.inf
        parameters[0] = logit(regressions.column_means())
        for strength in strengths.tolist():
            with threadpool_limits(1, user_api="blas"):  # the threads are over blocks
                solved = Parallel(n_jobs=self.n_jobs, require="sharedmem")(
                    delayed(regressions.solve)(block, parameters[: block.stop, block], strength, self.tol)
                    for block in reversed(blocks)  # the costly ones first
                )
            for block, found in zip(reversed(blocks), solved):
                parameters[: block.stop, block] = found
            intercept, coef = parameters[0].astype(float), parameters[1:].T.astype(float)
            score = float(np.average(_log_likelihood(valid, intercept, coef), weights=weight_val))
            self.search_results_.append({"l2_regularization": strength, "valid_log_likelihood": score})
            if score <= best:
                break
            best = score
            self.intercept_, self.coef_, self.l2_regularization_ = intercept, coef, strength

    def score_samples(self, X: Any) -> Floats:
        """log p(x) of every row, in nats."""
        check_is_fitted(self, "coef_")
        chunks = self._ready(X).table.complete_chunks()
        return np.concatenate([_log_likelihood(bits, self.intercept_, self.coef_) for _, bits in chunks])

    def sample(self, n_samples: int = 1, *, random_state: Any = None) -> Any:
        """Draw rows, in the kind of table that the model was fitted on."""
        check_is_fitted(self, "coef_")
        uniform = check_random_state(random_state).random_sample((n_samples, self.n_features_in_))
        bits = np.zeros_like(uniform)
        for d in range(self.n_features_in_):
            bits[:, d] = uniform[:, d] < expit(self.intercept_[d] + bits[:, :d] @ self.coef_[d, :d])
        return self.table_format_.give(bits.astype(np.uint8))


def _log_likelihood(bits: NDArray[Any], intercept: Floats, coef: Floats) -> Floats:
    log_odds = bits.astype(float) @ coef.T + intercept
    return log_expit(np.where(bits, log_odds, -log_odds)).sum(axis=1)


class _Regressions:
    """The regressions of all columns, solved a block of columns at a time by matrix products.

    Column d is regressed on the first d + 1 columns of ``X``: the constant, then the d columns before it. So what a
    block needs is a prefix of ``X``, and a mask leaves to each of its columns a prefix of that.
    """

    def __init__(self, bits: Singles, weight: Floats | None) -> None:
        self.X = np.concatenate([np.ones((len(bits), 1), np.float32), bits], axis=1)
        self.weight = None if weight is None else (weight / weight.mean()).astype(np.float32)[:, None]
        weighted = self.X if self.weight is None else self.weight * self.X
        self.gram = (self.X.T @ weighted).astype(float)

    def column_means(self) -> Floats:
        """Half a pseudocount on either side."""
        return (self.gram[0, 1:] + 0.5) / (self.gram[0, 0] + 1)

    def solve(self, block: slice, W: Singles, strength: float, tol: float) -> Singles:
        """The parameters, (inputs, columns), that minimise the penalised loss; ``W`` is where to start."""
        X, target = self.X[:, : block.stop], self.X[:, block.start + 1 : block.stop + 1]
        penalty = np.full((block.stop, 1), strength, np.float32)
        penalty[0] = _INTERCEPT_PENALTY
        mask = np.arange(block.stop)[:, None] <= np.arange(block.start, block.stop)
        W, log_odds = W.copy(), X @ W
        loss = self._loss(log_odds, target, W, penalty)
        for _ in range(_MAX_NEWTON_STEPS):
            p = expit(log_odds)
            gradient = np.where(mask, X.T @ self._weighted(p - target) + penalty * W, 0)
            step = self._newton_step(X, gradient, self._weighted(p * (1 - p)), penalty, mask, tol)
            promised = -np.einsum("ij,ij->j", gradient, step) / 2
            if (promised < tol * len(X)).all():
                break
            moved = X @ step
            length = np.ones(W.shape[1], np.float32)
            while True:
                new = self._loss(log_odds + length * moved, target, W + length * step, penalty)
                worse = new > loss + 1e-6 * np.abs(loss)
                if not worse.any():
                    break
                length[worse] /= 2
            W, log_odds, loss = W + length * step, log_odds + length * moved, new
        return W

    def _newton_step(
        self, X: Singles, gradient: Singles, curvature: Singles, penalty: Singles, mask: NDArray[np.bool_], tol: float
    ) -> Singles:
        """Minus the inverse of every column's Hessian times its gradient."""
        k = X.shape[1]
        return _conjugate_gradients(
            lambda V: np.where(mask, X.T @ (curvature * (X @ V)) + penalty * V, 0),
            -gradient,
            _Preconditioner(self.gram[:k, :k], curvature.mean(axis=0, dtype=float), penalty, mask),
            enough=tol * len(X),
        )

    def _loss(self, log_odds: Singles, target: Singles, W: Singles, penalty: Singles) -> Floats:
        """Of every column, summed over the rows."""
        negative = self._weighted(-log_expit(np.where(target, log_odds, -log_odds)))
        return negative.sum(axis=0, dtype=float) + (penalty * W * W).sum(axis=0, dtype=float) / 2

    def _weighted(self, rows: Singles) -> Singles:
        return rows if self.weight is None else rows * self.weight


class _Preconditioner:
    """Solves ``(curvature gram + penalty)[:k, :k] u = g`` for every column, ``k`` being the number of its inputs.

    One Cholesky factor does for all columns of about the same curvature, since that of a leading block is the leading
    block of the factor.
    """

    def __init__(self, gram: Floats, curvature: Floats, penalty: Singles, mask: NDArray[np.bool_]) -> None:
        self.mask = mask
        powers = np.rint(np.log2(curvature.clip(1e-6)))
        self.factors = [
            (powers == power, cholesky(gram * 2.0**power + np.diag(penalty[:, 0]), lower=True).astype(np.float32))
            for power in np.unique(powers)
        ]

    def __call__(self, g: Singles) -> Singles:
        u = np.empty_like(g)
        for columns, factor in self.factors:
            forward = solve_triangular(factor, g[:, columns], lower=True, check_finite=False)
            forward[~self.mask[:, columns]] = 0
            u[:, columns] = solve_triangular(factor, forward, lower=True, trans="T", check_finite=False)
        return u


def _conjugate_gradients(
    multiply: Callable[[Singles], Singles], g: Singles, precondition: Callable[[Singles], Singles], enough: float
) -> Singles:
    """Solves ``multiply(x) = g``, every column a system of its own, to a tenth of where it starts or to ``enough``."""
    x, residual, scaled = np.zeros_like(g), g, precondition(g)
    direction = scaled
    start = size = np.einsum("ij,ij->j", residual, scaled)
    for _ in range(_MAX_CONJUGATE_STEPS):
        if (size <= np.maximum(0.01 * start, enough)).all():
            break
        image = multiply(direction)
        length = size / np.maximum(np.einsum("ij,ij->j", direction, image), np.finfo(np.float32).tiny)
        x = x + length * direction
        residual = residual - length * image
        scaled = precondition(residual)
        before, size = size, np.einsum("ij,ij->j", residual, scaled)
        direction = scaled + size / np.maximum(before, np.finfo(np.float32).tiny) * direction
    return x
