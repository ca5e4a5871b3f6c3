"""The order in which the variables are modelled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ORDERS", "resolve_order", "scans"]

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


def scans(n_rows: int, n_columns: int) -> list[NDArray[np.intp]]:
    """Eight ways to read an image whose pixels are numbered row by row.

    By rows, by columns, both backwards; then the same four with every row (or column) read from its other end.

    Examples
    --------
    >>> for order in scans(2, 3)[:4]:
    ...     print(order)
    [0 1 2 3 4 5]
    [0 3 1 4 2 5]
    [5 4 3 2 1 0]
    [5 2 4 1 3 0]
    """
    pixels = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    straight = [pixels.ravel(), pixels.T.ravel()]
    mirrored = [pixels[:, ::-1].ravel(), pixels[::-1].T.ravel()]
    return [*straight, *(order[::-1] for order in straight), *mirrored, *(order[::-1] for order in mirrored)]
