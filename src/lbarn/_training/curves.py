"""Curves of training: mean log-likelihood per row of every column after 0, 1, ... trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.conditional import Conditional

__all__ = ["curves", "is_rising", "padded"]

_STILL_RISING = 2e-3  # share of the log-likelihood gained in the last tenth of the rounds


def curves(conditionals: Sequence[Conditional], max_iter: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Train and validation curves, one row each; that of a dimension that stopped early is held flat."""
    train = np.array([padded(c.train_curve, max_iter) for c in conditionals])
    valid = np.array([padded(c.valid_curve, max_iter) for c in conditionals])
    return train, valid


def padded(curve: NDArray[np.float64], max_iter: int) -> NDArray[np.float64]:
    """Held flat to the last round."""
    return np.concatenate([curve, np.full(max_iter + 1 - len(curve), curve[-1])])


def is_rising(valid: NDArray[np.float64]) -> bool:
    """Whether the last tenth of the rounds still made a difference."""
    before = valid[:, : -max(1, valid.shape[1] // 10)].max(axis=1).sum()
    best = valid.max(axis=1).sum()
    return bool(best - before > _STILL_RISING * abs(best))
