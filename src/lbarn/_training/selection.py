"""How many trees each dimension gets: the three procedures of the paper's section 3, from two curves per dimension."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SELECTIONS", "select"]

Curves = NDArray[np.float64]  # (D, T + 1): mean log-likelihood after 0..T trees


def _individual(train: Curves, valid: Curves) -> NDArray[np.intp]:
    return valid.argmax(axis=1)


def _common(train: Curves, valid: Curves) -> NDArray[np.intp]:
    return np.full(len(valid), valid.sum(axis=0).argmax(), dtype=np.intp)


def _along(priority: Curves, valid: Curves, start: float, *, backward: bool) -> NDArray[np.intp]:
    """Walk all steps in descending priority, and stop where the joint validation likelihood is highest.

    ``priority[d]`` must not rise with the step, so that sorting all steps of all dimensions respects each one's order.
    """
    D, T = priority.shape
    steps = np.diff(valid, axis=1)
    if backward:
        steps = -steps[:, ::-1]
    by_priority = np.argsort(-priority, axis=None, kind="stable")
    joint = start + np.concatenate([[0.0], np.cumsum(steps.ravel()[by_priority])])
    taken = by_priority[: joint.argmax()]
    count = np.bincount(taken // T, minlength=D)
    return T - count if backward else count


def _linearized(train: Curves, valid: Curves) -> NDArray[np.intp]:
    # Greedy: always add the tree that raises the training likelihood most. A dimension's next tree comes only after
    # the ones before it, so with a poor tree in front a better one has to wait: the order is that of the running minimum.
    improvement = np.diff(train, axis=1)
    return _along(np.minimum.accumulate(improvement, axis=1), valid, valid[:, 0].sum(), backward=False)


def _linearized_backward(train: Curves, valid: Curves) -> NDArray[np.intp]:
    # Greedy from the full model: always remove the tree whose loss is smallest; the last tree of a dimension goes first.
    loss = np.diff(train, axis=1)[:, ::-1]
    return _along(-np.maximum.accumulate(loss, axis=1), valid, valid[:, -1].sum(), backward=True)


SELECTIONS = {
    "individual": _individual,
    "common": _common,
    "linearized": _linearized,
    "linearized-backward": _linearized_backward,
}


def select(method: str, train: Curves, valid: Curves) -> NDArray[np.intp]:
    """The number of trees per dimension, 0 included, by ``method``.

    Examples
    --------
    >>> import numpy as np
    >>> train = np.array([[-0.7, -0.5, -0.4], [-0.7, -0.6, -0.6]])
    >>> valid = np.array([[-0.7, -0.5, -0.5], [-0.7, -0.8, -0.9]])
    >>> select("individual", train, valid)
    array([1, 0])
    >>> select("common", train, valid)
    array([1, 1])
    """
    return SELECTIONS[method](train, valid)
