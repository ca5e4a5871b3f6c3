"""Rows made by a model: how close they are to real ones, and what becomes of rows of which little was kept."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lbarn._engine.codetree import UNKNOWN
from lbarn._models.density import check_counts
from lbarn._models.lbarn import LBARN
from lbarn._tables.table import read_like, read_table
from lbarn.baselines.independent import TreeBaseline

__all__ = ["Fidelity", "fidelity", "reconstruct"]

_MAX_ROWS = 5000  # of either table, for the classifier and for the neighbours
_FOLDS = 5
_NEIGHBOUR_CHUNK = 1000  # rows whose distances are looked at together

Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Fidelity:
    """How close synthetic rows are to held-out real ones; the last four need the training rows."""

    marginal_difference_max: float
    """Largest difference of a column's share of ones."""
    marginal_difference_mean: float
    correlation_difference_mean: float
    """Mean absolute difference of the correlation of two columns, over all pairs that vary in the real rows."""
    correlation_agreement: float
    """Correlation of the synthetic correlations with the real ones: 1 where they rise and fall together."""
    two_sample_auc: float
    """How well boosted trees tell synthetic rows from real ones they have not seen: 0.5 is not at all, 1 is always."""
    nearest_synthetic: float | None = None
    """Mean number of bits by which a synthetic row differs from the training row nearest to it."""
    nearest_holdout: float | None = None
    """The same for held-out rows. Synthetic rows that are much nearer to training rows than these were learned by heart."""
    copied_synthetic: float | None = None
    """Share of the synthetic rows that are training rows."""
    copied_holdout: float | None = None

    def __str__(self) -> str:
        lines = [
            f"marginals     differ by {self.marginal_difference_mean:.4f} on average, {self.marginal_difference_max:.4f} at most",
            f"correlations  differ by {self.correlation_difference_mean:.4f} on average, agree to {self.correlation_agreement:.4f}",
            f"classifier    tells synthetic from real with an AUC of {self.two_sample_auc:.3f} (0.5: not at all)",
        ]
        if self.nearest_synthetic is not None:
            lines += [
                f"neighbours    in training {self.nearest_synthetic:.2f} bits away; of held-out rows {self.nearest_holdout:.2f}",
                f"copies        of training rows {self.copied_synthetic:.2%}; among held-out rows {self.copied_holdout:.2%}",
            ]
        return "\n".join(lines)


def fidelity(real_holdout: Any, synthetic: Any, *, train: Any = None, random_state: Any = 0) -> Fidelity:
    """Compare synthetic rows with real ones that the model has not seen.

    Parameters
    ----------
    real_holdout, synthetic : tables of 0 and 1
    train : table of 0 and 1, optional
        The rows that the model was fitted on, to find rows that it has learned by heart.
    random_state : int, RandomState instance or None, default=0
        For the folds, and for which 5000 rows the classifier and the search for neighbours see of a longer table.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (900, 2)), 2, axis=1)
    >>> synthetic = IndependentBits().fit(X[:600]).sample(300, random_state=0)
    >>> found = fidelity(X[600:], synthetic, train=X[:600])
    >>> found.marginal_difference_max < 0.1  # every column is as it should be ...
    True
    >>> found.two_sample_auc > 0.7  # ... but not together
    True
    """
    real, made = _bits(real_holdout, "real_holdout"), _bits(synthetic, "synthetic")
    known = None if train is None else _bits(train, "train")
    for name, table in (("synthetic", made), ("train", known)):
        if table is not None and table.shape[1] != real.shape[1]:
            raise ValueError(f"{name} has {table.shape[1]} columns, but real_holdout has {real.shape[1]}")
    for name, table in (("real_holdout", real), ("synthetic", made)):
        if len(table) < _FOLDS:
            raise ValueError(f"{name} has {len(table)} rows; at least {_FOLDS} are needed to compare")
    rng = check_random_state(random_state)
    marginal = np.abs(real.mean(axis=0) - made.mean(axis=0))
    difference, agreement = _compare_correlations(real, made)
    real, made = _some(real, rng), _some(made, rng)
    neighbours: dict[str, float] = {}
    if known is not None:
        for name, table in (("synthetic", made), ("holdout", real)):
            nearest = _nearest(table, known)
            neighbours |= {f"nearest_{name}": float(nearest.mean()), f"copied_{name}": float((nearest == 0).mean())}
    return Fidelity(
        float(marginal.max()),
        float(marginal.mean()),
        difference,
        agreement,
        _two_sample_auc(real, made, rng.randint(2**31 - 1)),
        **neighbours,
    )


def reconstruct(
    model: LBARN | TreeBaseline, X: Any, *, share: float = 0.1, n_draws: int = 3, random_state: Any = None
) -> NDArray[np.uint8]:
    """Lossy compression: keep the first variables of the order, a ``share`` of them, and draw the others.

    With ``order="entropy-decreasing"`` the variables that are kept are those that tell most about the others.

    Returns
    -------
    ndarray of shape (n_draws, n, D)
        The bits at ``model.order_[:round(share * D)]`` are those of ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (500, 2)), 4, axis=1)
    >>> model = LBARN(max_leaf_nodes=4, learning_rate=0.3, max_iter=50, order="entropy-decreasing", random_state=0).fit(X)
    >>> restored = reconstruct(model, X, share=0.25, random_state=0)
    >>> restored.shape
    (3, 500, 8)
    >>> bool((restored == X).mean() > 0.99)
    True
    """
    if not isinstance(share, Real) or not 0 <= float(share) <= 1:
        raise ValueError(f"share must be a number from 0 to 1; got {share!r}")
    check_counts(n_draws=n_draws)
    table = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize)
    bits = table.complete()
    known = np.full(bits.shape, UNKNOWN, np.uint16)
    kept = model.order_[: round(float(share) * bits.shape[1])]
    known[:, kept] = bits[:, kept]
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    n = int(n_draws)
    rows = model.distribution.draw_on(np.tile(known, (n, 1)), n * len(bits), seed, model.n_jobs)
    return rows.reshape(n, *bits.shape)


def _bits(X: Any, name: str) -> Bits:
    try:
        return read_table(X).complete()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def _some(X: Bits, rng: np.random.RandomState) -> Bits:
    return X if len(X) <= _MAX_ROWS else X[rng.choice(len(X), _MAX_ROWS, replace=False)]


def _correlations(X: Bits, columns: NDArray[np.intp]) -> NDArray[np.float64]:
    """Of every pair of columns; 0 where one of them is constant."""
    centred = X[:, columns] - X[:, columns].mean(axis=0)
    scale = np.sqrt(np.square(centred).sum(axis=0))
    scale[scale == 0] = np.inf
    return ((centred.T @ centred) / np.outer(scale, scale))[np.triu_indices(len(columns), 1)]


def _compare_correlations(real: Bits, made: Bits) -> tuple[float, float]:
    """Mean absolute difference, and the correlation of the two: not a number where there is nothing to correlate."""
    varying = np.flatnonzero(real.any(axis=0) & ~real.all(axis=0))
    a, b = _correlations(real, varying), _correlations(made, varying)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float(np.abs(a - b).mean()) if len(a) else 0.0, float("nan")
    return float(np.abs(a - b).mean()), float(np.corrcoef(a, b)[0, 1])


def _two_sample_auc(real: Bits, made: Bits, seed: int) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier  # not needed by those who only import lbarn
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from threadpoolctl import threadpool_limits

    rows = np.concatenate([real, made]).astype(np.uint8)
    is_made = np.repeat([0, 1], [len(real), len(made)])
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=seed)
    judge = HistGradientBoostingClassifier(random_state=seed)
    with threadpool_limits(1, user_api="openmp"):  # on so few rows its threads cost more than they bring
        return float(cross_val_score(judge, rows, is_made, cv=folds, scoring="roc_auc").mean())


def _nearest(rows: Bits, others: Bits) -> NDArray[np.float32]:
    """The number of bits by which each row differs from the nearest of ``others``."""
    a, b = rows.astype(np.float32), others.astype(np.float32)
    ones = b.sum(axis=1)
    nearest = [
        (ones - 2 * (part @ b.T)).min(axis=1) + part.sum(axis=1)
        for part in np.array_split(a, -(-len(a) // _NEIGHBOUR_CHUNK))
    ]
    return np.concatenate(nearest)
