"""One conditional P(x_d | x_1..x_{d-1}): its boosted trees, trained, continued, refitted and evaluated."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PackedBits
from lbarn._engine.trees import Trees

__all__ = ["Boosting", "Conditional"]

_START_SPEED = 10  # times the learning rate, but 1 at most
_START_PATIENCE = 50
_START_ROUNDS = 200  # at most: with many rows stumps would go on for as long as there are rounds

Weights = NDArray[np.float64] | None


@dataclass(frozen=True)
class Boosting:
    """How a conditional is boosted; names and defaults are those of :class:`lbarn.LBARN`."""

    max_leaf_nodes: int = 16
    learning_rate: float = 0.02
    max_iter: int = 1000
    init: str = "half"
    boosting: str = "newton"
    splits: str = "fast"
    split_bits: int = 6
    min_gain: float = 0.0
    l2_regularization: float = 0.0
    max_features: float = 1.0
    n_iter_no_change: int | None = None

    def start(self) -> Boosting | None:
        """How the first rounds are boosted, those before trees of full size; None where there are none.

        Stumps add up to a function that is linear in the bits: boosted until validation stalls, they are a regularised
        logistic regression, and single leaves are the base rate.
        """
        if self.init == "half":
            return None
        leaves = {"prior": 1, "linear": 2}[self.init]
        return replace(
            self,
            max_leaf_nodes=leaves,
            learning_rate=self.start_rate,
            max_iter=min(self.max_iter + _START_PATIENCE, _START_ROUNDS),  # longer than all rounds: it may stall late
            n_iter_no_change=_START_PATIENCE,
        )

    @property
    def start_rate(self) -> float:
        return min(1.0, _START_SPEED * self.learning_rate)


@dataclass(frozen=True)
class _Rows:
    """What one call trains and validates on."""

    train: PackedBits
    valid: PackedBits
    weight: Weights
    valid_weight: Weights
    seed: int
    cancel: _core.CancelFlag


@dataclass(frozen=True)
class Conditional:
    """The conditional of the variable at ``position`` given those before it.

    The curves are mean log-likelihoods per row, in nats, after 0, 1, ... trees. The first ``n_start`` of the trees are the
    start that ``Boosting.init`` asks for.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn._engine.bits import pack
    >>> X = np.random.default_rng(0).integers(0, 2, (1000, 3))
    >>> X[:, 2] = X[:, 0] & X[:, 1]
    >>> train, valid = pack(X[:800]), pack(X[800:])
    >>> both = Conditional.train(train, valid, 2, Boosting(max_leaf_nodes=4, learning_rate=0.5, max_iter=20))
    >>> bool(both.valid_curve[20] > -1e-3)
    True
    """

    position: int
    trees: Trees
    train_curve: NDArray[np.float64]
    valid_curve: NDArray[np.float64]
    n_start: int = 0

    @classmethod
    def untrained(cls, position: int) -> Conditional:
        return cls(position, Trees.empty(), np.zeros(0), np.zeros(0))

    @classmethod
    def train(
        cls,
        train: PackedBits,
        valid: PackedBits,
        position: int,
        how: Boosting,
        *,
        weight: Weights = None,
        valid_weight: Weights = None,
        seed: int = 0,
        cancel: _core.CancelFlag | None = None,
    ) -> Conditional:
        """Boost ``how.max_iter`` rounds, or fewer where ``how.n_iter_no_change`` stops it."""
        untrained = cls.untrained(position)
        return untrained.extend(train, valid, how, weight=weight, valid_weight=valid_weight, seed=seed, cancel=cancel)

    def extend(
        self,
        train: PackedBits,
        valid: PackedBits,
        how: Boosting,
        *,
        weight: Weights = None,
        valid_weight: Weights = None,
        seed: int = 0,
        cancel: _core.CancelFlag | None = None,
    ) -> Conditional:
        """More rounds, up to ``how.max_iter`` in all: the same result as one longer run."""
        rows = _Rows(train, valid, weight, valid_weight, seed, cancel or _core.CancelFlag())
        current, start = self, how.start()
        if start is not None and len(self.trees) == self.n_start:  # a start that is over has other trees behind it
            current = self._boosted(rows, start)
            n_start = min(int(current.valid_curve.argmax()), how.max_iter)
            current = replace(current.head(n_start), n_start=n_start)
        return current._boosted(rows, how)

    def _boosted(self, rows: _Rows, how: Boosting) -> Conditional:
        splits, gains, values, offsets, train_curve, valid_curve = _core.boost(
            columns=rows.train.columns,
            n_rows=rows.train.n_rows,
            weight=rows.weight,
            valid_columns=rows.valid.columns,
            n_valid=rows.valid.n_rows,
            valid_weight=rows.valid_weight,
            position=self.position,
            max_leaves=how.max_leaf_nodes,
            learning_rate=how.learning_rate,
            rounds=how.max_iter,
            exact=how.splits == "exact",
            split_bits=how.split_bits,
            gradient=how.boosting == "gradient",
            min_gain=how.min_gain,
            l2=how.l2_regularization,
            max_features=how.max_features,
            seed=rows.seed,
            patience=how.n_iter_no_change or 0,
            cancel=rows.cancel,
            splits=self.trees.splits,
            gains=self.trees.gains,
            values=self.trees.values,
            offsets=self.trees.offsets,
            train_curve=self.train_curve,
            valid_curve=self.valid_curve,
        )
        return replace(
            self,
            trees=Trees(splits, gains, values, offsets),
            train_curve=train_curve,
            valid_curve=valid_curve,
        )

    def head(self, count: int) -> Conditional:
        """With the first ``count`` trees alone."""
        curves = self.train_curve[: count + 1], self.valid_curve[: count + 1]
        return Conditional(self.position, self.trees.head(count), *curves, min(self.n_start, count))

    def refit(
        self, bits: PackedBits, how: Boosting, *, weight: Weights = None, cancel: _core.CancelFlag | None = None
    ) -> Conditional:
        """The same splits with leaf values renewed on ``bits``, round by round. A leaf that meets no row gets 0."""
        trees = self.trees
        values, _ = _core.refit(
            columns=bits.columns,
            n_rows=bits.n_rows,
            weight=weight,
            position=self.position,
            n_start=self.n_start,
            start_rate=how.start_rate,
            learning_rate=how.learning_rate,
            l2=how.l2_regularization,
            cancel=cancel or _core.CancelFlag(),
            splits=trees.splits,
            values=trees.values,
            offsets=trees.offsets,
        )
        return replace(self, trees=replace(trees, values=values))

    def curve(self, bits: PackedBits, weight: Weights = None) -> NDArray[np.float64]:
        """Mean log-likelihood of ``bits`` after 0, 1, ... trees."""
        trees = self.trees
        cancel = _core.CancelFlag()
        return _core.curve(
            bits.columns, bits.n_rows, weight, self.position, cancel, trees.splits, trees.values, trees.offsets
        )
