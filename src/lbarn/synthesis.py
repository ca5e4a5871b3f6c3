"""Rows made by a model: how close they are to real ones, and what becomes of rows of which little was kept."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lbarn._engine.codetree import UNKNOWN
from lbarn._models.density import check_counts
from lbarn._models.lbarn import LBARN
from lbarn._tables.table import read_like
from lbarn.baselines.independent import TreeBaseline
from lbarn.comparison.fidelity import fidelity
from lbarn.comparison.result import ColumnLikeness, Fidelity, Figure, PairLikeness, RealAgainstReal

__all__ = ["ColumnLikeness", "Fidelity", "Figure", "PairLikeness", "RealAgainstReal", "fidelity", "reconstruct"]


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
