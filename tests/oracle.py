"""A plain NumPy LogitBoost, float64 sums, equation by equation from section 2 of the paper: slow, easy to believe."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lbarn._engine.bits import PackedBits
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import LOG_ODDS_UNIT, Trees

Array = NDArray[np.float64]
Splits = list[tuple[int, int]]  # (leaf, position): rows with a 1 move to a new leaf, the others stay

MAX_LEAF = 8.0  # a leaf is clipped to this after shrinkage


def splits_of(trees: Trees, t: int) -> Splits:
    """One of the core's trees in this file's terms."""
    return [(int(leaf), int(position)) for leaf, position in trees.splits[trees.offsets[t] : trees.offsets[t + 1]]]


def values_of(trees: Trees, t: int) -> Array:
    return trees.values[trees.offsets[t] + t : trees.offsets[t + 1] + t + 1] * LOG_ODDS_UNIT


def log_odds(conditional: Conditional, bits: PackedBits, n_trees: int | None = None) -> NDArray[np.int32]:
    """The core's log-odds after some of a conditional's trees, or all of them."""
    trees = conditional.trees if n_trees is None else conditional.trees.head(n_trees)
    return trees.log_odds(bits.columns, bits.n_rows)


def importance(conditional: Conditional, n_trees: int | None = None) -> Array:
    trees = conditional.trees if n_trees is None else conditional.trees.head(n_trees)
    return trees.importance(conditional.position)


def mean_one(weight: Array | None, n: int) -> Array:
    """Weights scaled to mean 1 over the rows that have any."""
    return np.ones(n) if weight is None else weight * np.count_nonzero(weight) / weight.sum()


def limit(weight: Array, how: Boosting) -> float:
    """The log-odds of the smallest probability that as many rows are evidence for."""
    p = 1.0 / (2.0 * (np.count_nonzero(weight) + 1.0))
    return float(np.log((1.0 - p) / p)) if how.cap else np.inf


def gradients(y: Array, log_odds: Array, weight: Array) -> tuple[Array, Array]:
    """g = y - p and h = p (1 - p) per row, weighted."""
    sign = 2.0 * y - 1.0
    p_y = np.exp(-np.logaddexp(0.0, -sign * log_odds))  # the probability of what was seen
    p_other = np.exp(-np.logaddexp(0.0, sign * log_odds))
    return weight * sign * p_other, weight * p_y * p_other


def log_likelihood(y: Array, log_odds: Array, weight: Array) -> float:
    """Mean per row, in nats."""
    return float(-np.average(np.logaddexp(0.0, (1.0 - 2.0 * y) * log_odds), weights=weight))


def objective(G: ArrayLike, H: ArrayLike, l2: float) -> Array:
    """obj(R) = (sum of g)^2 / sum of h; 0 without hessian."""
    G, H = np.asarray(G, float), np.asarray(H, float)
    return np.divide(G * G, H + l2, out=np.zeros(np.shape(H)), where=H > 0)


def split_gains(X: Array, g: Array, h: Array, l2: float) -> Array:
    """eq:gain at every position, for the rows of one node; 0 where a side is empty."""
    ones, n = X.sum(axis=0), len(X)
    G, H, G1, H1 = g.sum(), h.sum(), g @ X, h @ X
    gains = objective(G - G1, H - H1, l2) + objective(G1, H1, l2) - objective(G, H, l2)
    return np.where((ones > 0) & (ones < n), gains, 0.0)


def split_hessian(h: Array, weight: Array, how: Boosting) -> Array:
    """What the splitting objective divides by: gradient boosting splits on the gradient alone and counts rows."""
    return weight if how.boosting == "gradient" else h


class GrowingTree:
    """A tree while it grows: the gain of every leaf at every position, and every leaf's objective."""

    def __init__(self, X: Array, g: Array, h: Array, l2: float) -> None:
        self.X, self.g, self.h, self.l2 = X, g, h, l2
        self.leaf = np.zeros(len(X), np.intp)
        self.gains = np.zeros((0, X.shape[1]))
        self.objectives: list[float] = []
        self._examine(0)

    def _examine(self, leaf: int) -> None:
        if leaf == len(self.gains):
            self.gains = np.vstack([self.gains, np.zeros((1, self.X.shape[1]))])
            self.objectives.append(0.0)
        rows = self.leaf == leaf
        self.gains[leaf] = split_gains(self.X[rows], self.g[rows], self.h[rows], self.l2)
        self.objectives[leaf] = float(objective(self.g[rows].sum(), self.h[rows].sum(), self.l2))

    def split(self, leaf: int, position: int) -> None:
        new = len(self.gains)
        self.leaf[(self.leaf == leaf) & (self.X[:, position] == 1)] = new
        self._examine(leaf)
        self._examine(new)

    def best(self) -> tuple[int, int]:
        """The largest gain; among equals the oldest leaf, and there the lowest position."""
        leaf, position = np.unravel_index(np.argmax(self.gains), self.gains.shape)
        return int(leaf), int(position)

    def shortfall(self, choice: tuple[int, int]) -> float:
        """How far the gain of a choice is below the best one, relative to the objective of the nodes compared.

        A node whose residuals cancel has an objective near 0 although its gain is not, so the gain counts too; and
        float64 sums of residuals are no better than 1e-12.
        """
        best = self.best()
        scale = max(self.objectives[choice[0]], self.objectives[best[0]], self.gains[best])
        return float((self.gains[best] - self.gains[choice]) / (scale + 1e-7 * np.abs(self.g).max()))


def grow(X: Array, g: Array, h: Array, how: Boosting, ties: Splits | None = None) -> Splits:
    """Best-first to J leaves. Equal gains (to 1e-5) may go either way: where ``ties`` took one, so does this."""
    tree = GrowingTree(X, g, h, how.l2_regularization)
    splits: Splits = []
    while X.shape[1] and len(splits) + 1 < how.max_leaf_nodes:
        choice = tree.best()
        if ties and len(splits) < len(ties) and ties[len(splits)][0] < len(tree.gains):
            other = ties[len(splits)]
            choice = other if tree.shortfall(other) < 1e-5 else choice
        if tree.gains[choice] <= how.min_gain:
            break
        splits.append(choice)
        tree.split(*choice)
    return splits


def assign(X: Array, splits: Splits) -> NDArray[np.intp]:
    """The leaf of every row."""
    leaf = np.zeros(len(X), np.intp)
    for k, (parent, position) in enumerate(splits):
        leaf[(leaf == parent) & (X[:, position] == 1)] = k + 1
    return leaf


def leaf_updates(leaf: NDArray[np.intp], n_leaves: int, g: Array, h: Array, how: Boosting) -> Array:
    """eq:leaf_update with penalties, times the shrinkage factor, clipped; 0 without hessian."""
    G, H = np.bincount(leaf, g, n_leaves), np.bincount(leaf, h, n_leaves)
    G = np.sign(G) * np.maximum(np.abs(G) - how.l1_regularization, 0.0)
    gamma = np.divide(G, H + how.l2_regularization, out=np.zeros(n_leaves), where=H > 0)
    return np.clip(how.learning_rate * gamma, -MAX_LEAF, MAX_LEAF)


def refit(X: Array, y: Array, trees: list[Splits], how: Boosting, weight: Array | None = None) -> list[Array]:
    """Leaf values of given trees, round by round from log-odds 0."""
    w = mean_one(weight, len(y))
    bound = limit(w, how)
    log_odds = np.zeros(len(y))
    values = []
    for splits in trees:
        leaf = assign(X, splits)
        g, h = gradients(y, np.clip(log_odds, -bound, bound), w)
        values.append(leaf_updates(leaf, len(splits) + 1, g, h, how))
        log_odds += values[-1][leaf]
    return values


@dataclass
class Run:
    trees: list[Splits] = field(default_factory=list)
    values: list[Array] = field(default_factory=list)
    curve: list[float] = field(default_factory=list)


def boost(X: Array, y: Array, how: Boosting, weight: Array | None = None, ties: list[Splits] | None = None) -> Run:
    """T rounds from log-odds 0; rows of weight 0 are dropped."""
    w = mean_one(weight, len(y))
    X, y, w = X[w > 0], y[w > 0], w[w > 0]
    bound = limit(w, how)
    log_odds = np.zeros(len(y))
    run = Run(curve=[log_likelihood(y, log_odds, w)])
    for t in range(how.max_iter):
        g, h = gradients(y, np.clip(log_odds, -bound, bound), w)
        splits = grow(X, g, split_hessian(h, w, how), how, ties[t] if ties else None)
        leaf = assign(X, splits)
        values = leaf_updates(leaf, len(splits) + 1, g, h, how)
        log_odds += values[leaf]
        run.trees.append(splits)
        run.values.append(values)
        run.curve.append(log_likelihood(y, np.clip(log_odds, -bound, bound), w))
    return run
