"""Curves of training: mean log-likelihood per row of every conditional after 0, 1, ... trees, and how many trees they ask for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.conditional import Conditional
from lbarn._training.selection import select

__all__ = ["curves", "is_rising", "padded", "selected", "validated", "with_peers"]

_STILL_RISING = 2e-3  # share of the log-likelihood gained in the last tenth of the rounds

Floats = NDArray[np.float64]


def curves(conditionals: Sequence[Conditional], max_iter: int | None = None) -> tuple[Floats, Floats]:
    """Train and validation curves, one row each, weighed by the share of rows that reach the conditional.

    They are as long as the longest, or as ``max_iter``; that of a conditional that stopped early is held flat.
    """
    rounds = max(len(c.trees) for c in conditionals) if max_iter is None else max_iter
    train = np.array([_weighed(padded(c.train_curve, rounds), c.train_share) for c in conditionals])
    valid = np.array([_weighed(padded(c.valid_curve, rounds), c.valid_share) for c in conditionals])
    return train, valid


def _weighed(curve: Floats, share: float) -> Floats:
    return curve if share == 1.0 else share * curve


def padded(curve: Floats, max_iter: int) -> Floats:
    """Held flat to the last round."""
    return np.concatenate([curve, np.full(max_iter + 1 - len(curve), curve[-1])])


def is_rising(valid: Floats) -> bool:
    """Whether the last tenth of the rounds still made a difference."""
    before = valid[:, : -max(1, valid.shape[1] // 10)].max(axis=1).sum()
    best = valid.max(axis=1).sum()
    return bool(best - before > _STILL_RISING * abs(best))


def selected(
    method: str, conditionals: Sequence[Conditional], peers: NDArray[np.intp], n_valid: float, pooling: float
) -> NDArray[np.intp]:
    """The number of trees of every conditional by one of the selections.

    Few validation rows may reach a node, or be there at all, and they would choose noise. Its ``peers``, which have the same number, are problems
    of the same kind, so every node is chosen on its own rows and on what its peers say together, which counts for ``pooling`` rows.
    """
    train, valid = curves(conditionals)
    if method == "individual" and pooling:
        valid = with_peers(valid, np.array([c.valid_share for c in conditionals]), peers, n_valid, pooling)
    most = np.array([len(c.trees) for c in conditionals])
    counts = np.minimum(select(method, train, valid), most)
    return np.where([c.constant for c in conditionals], most, counts)


def with_peers(valid: Floats, share: Floats, peers: NDArray[np.intp], n_valid: float, pooling: float) -> Floats:
    """Validation curves by node, weighed by the share of rows that reach it, joined by what its peers say together."""
    together = np.zeros((int(peers.max()) + 1, valid.shape[1]))
    np.add.at(together, peers, valid)
    rows = np.maximum(np.bincount(peers, share), 1e-300)
    return valid * n_valid + pooling * (together / rows[:, None])[peers]


def validated(conditionals: Sequence[Conditional], counts: NDArray[np.intp]) -> float:
    """The validation log-likelihood per row with so many trees of each."""
    return float(np.array([c.valid_share * c.valid_curve[n] for c, n in zip(conditionals, counts)]).sum())
