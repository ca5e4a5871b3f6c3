"""The order in which the variables are modelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "resolve_order"]

ORDERS = ("given", "random", "entropy-decreasing", "entropy-increasing")


def resolve_order(
    order: str | Sequence[int] | NDArray[Any],
    n_columns: int,
    seed: int,
    entropy: Callable[[bool], NDArray[np.intp]],
) -> NDArray[np.intp]:
    """``order_[k]`` is the column at position ``k``; ``entropy(decreasing)`` is asked only where the order is greedy."""
    if isinstance(order, str):
        if order == "given":
            return np.arange(n_columns)
        if order == "random":
            return np.random.default_rng([seed, 1]).permutation(n_columns)
        return entropy(order == "entropy-decreasing")
    permutation = np.asarray(order)
    if permutation.shape != (n_columns,) or not np.array_equal(np.sort(permutation), np.arange(n_columns)):
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, or a permutation of 0..{n_columns - 1}")
    return permutation.astype(np.intp)
