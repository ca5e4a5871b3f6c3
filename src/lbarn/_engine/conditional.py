"""One conditional P(x_d | x_1..x_{d-1}): its boosted trees, trained, continued, refitted and evaluated."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PackedBits, PickedRows
from lbarn._engine.counts import Counts
from lbarn._engine.trees import Trees

__all__ = ["Boosting", "Conditional"]

_LEAVES = ((16_000, 64), (8_000, 32), (1_000, 16), (0, 8))  # from so many rows on, if nobody says how many
_START_SPEED = 10  # times the learning rate, but 1 at most
_START_PATIENCE = 50
_START_ROUNDS = 200  # at most: with many rows stumps would go on for as long as there are rounds

Weights = NDArray[np.float64] | None
Bits = PackedBits | PickedRows


@dataclass(frozen=True)
class Boosting:
    """How a conditional is boosted; names are those of :class:`lbarn.LBARN`.

    Without ``max_leaf_nodes`` there are as many leaves as the rows that a conditional is learned from allow for.
    """

    max_leaf_nodes: int | None = 16
    learning_rate: float = 0.02
    max_iter: int = 1000
    init: str = "half"
    init_rate: float | None = None  # of a linear start; without one it is that of all starts
    boosting: str = "newton"
    splits: str = "fast"
    split_bits: int = 6
    min_gain: float = 0.0
    l2_regularization: float = 0.0
    max_features: float = 1.0
    n_iter_no_change: int | None = None
    l1_regularization: float = 0.0
    cap: bool = False  # no probability below 1 / (2 (n + 1)) after n rows

    def for_rows(self, n_rows: int) -> Boosting:
        """The same with a number of leaves."""
        if self.max_leaf_nodes is not None:
            return self
        return replace(self, max_leaf_nodes=next(leaves for rows, leaves in _LEAVES if n_rows >= rows))

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
        if self.init == "linear" and self.init_rate is not None:
            return float(self.init_rate)
        return min(1.0, _START_SPEED * self.learning_rate)

    def for_core(self) -> _core.BoostingParameters:
        """The same in the core, which has the same names for all but those of the start."""
        of_start = "init", "init_rate"
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in of_start}
        values |= {"boosting": _core.BoostingKind[self.boosting], "splits": _core.SplitKind[self.splits]}
        parameters = _core.BoostingParameters()
        for name, value in values.items():
            setattr(parameters, name, value)
        return parameters


def _rows(bits: Bits, weight: Weights, cells: _core.CellColumns | None = None) -> _core.WeightedRows:
    return _core.WeightedRows(bits.columns, bits.n_rows, weight, cells, bits.count)


@dataclass(frozen=True)
class Conditional:
    """The conditional of the variable at ``position`` given those before it.

    The curves are mean log-likelihoods in nats per row that reaches it, after 0, 1, ... trees; the shares of the rows that do tell
    how much they count. The first ``n_start`` of the trees are the start that ``Boosting.init`` asks for, or, if that is "half", trees that were there before. A
    ``constant`` one is not learned: it has one tree of a single leaf.

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
    train_share: float = 1.0
    valid_share: float = 1.0
    constant: bool = False

    @property
    def target(self) -> int:
        """The column that is learned, of rows to learn from: counts come before it."""
        return self.position + (0 if self.trees.counts is None else len(self.trees.counts))

    @classmethod
    def untrained(cls, position: int, counts: Counts | None = None) -> Conditional:
        return cls(position, replace(Trees.empty(), counts=counts), np.zeros(0), np.zeros(0))

    def beginning_with(self, trees: Trees) -> Conditional:
        """An untrained one, if it is to go on from these trees, whose leaf values stay as they are."""
        return replace(self, trees=self.trees.with_trees(trees), n_start=len(trees))

    @classmethod
    def fixed(cls, position: int, log_odds: float) -> Conditional:
        """One that is not learned: the same log-odds for every row."""
        curve = np.array([-1.0, 0.0])  # it is better with its tree than without
        return cls(position, Trees.constant(log_odds), curve, curve, 0, 0.0, 0.0, True)

    @classmethod
    def train(
        cls,
        train: Bits,
        valid: Bits,
        position: int,
        how: Boosting,
        *,
        weight: Weights = None,
        valid_weight: Weights = None,
        cells: _core.CellColumns | None = None,
        seed: int = 0,
        cancel: _core.CancelFlag | None = None,
    ) -> Conditional:
        """Boost ``how.max_iter`` rounds, or fewer where ``how.n_iter_no_change`` stops it.

        ``cells`` says which columns of ``train`` are intervals of cells. The result is the same without, but slower.
        """
        untrained = cls.untrained(position)
        return untrained.extend(
            train, valid, how, weight=weight, valid_weight=valid_weight, cells=cells, seed=seed, cancel=cancel
        )

    def extend(
        self,
        train: Bits,
        valid: Bits,
        how: Boosting,
        *,
        weight: Weights = None,
        valid_weight: Weights = None,
        cells: _core.CellColumns | None = None,
        seed: int = 0,
        cancel: _core.CancelFlag | None = None,
    ) -> Conditional:
        """More rounds, up to ``how.max_iter`` in all: the same result as one longer run."""
        train_rows, valid_rows = _rows(train, weight, cells), _rows(valid, valid_weight)
        cancel = cancel or _core.CancelFlag()
        current, start = self, how.start()
        if start is not None and len(self.trees) == self.n_start:  # a start that is over has other trees behind it
            current = _boosted(current, train_rows, valid_rows, start, seed, cancel)
            n_start = min(int(current.valid_curve.argmax()), how.max_iter)
            current = replace(current.head(n_start), n_start=n_start)
        return _boosted(current, train_rows, valid_rows, how, seed, cancel)

    def closed_by(self, closers: NDArray[np.uint16], log_odds: float) -> Conditional:
        """The same for rows without a 1 at one of these positions; log-odds of its own for others."""
        return replace(self, trees=self.trees.closed_by(closers, log_odds))

    def head(self, count: int) -> Conditional:
        """With the first ``count`` trees alone."""
        curves = self.train_curve[: count + 1], self.valid_curve[: count + 1]
        return replace(
            self,
            trees=self.trees.head(count),
            train_curve=curves[0],
            valid_curve=curves[1],
            n_start=min(self.n_start, count),
        )

    def refit(
        self, bits: Bits, how: Boosting, *, weight: Weights = None, cancel: _core.CancelFlag | None = None
    ) -> Conditional:
        """The same splits with leaf values renewed on ``bits``, round by round, but for trees that were there before. A leaf that meets no row gets 0."""
        renewed = _core.refit(
            _rows(bits, weight),
            self.target,
            self.trees.core,
            how.for_core(),
            n_start=self.n_start,
            start_rate=None if how.init == "half" else how.start_rate,
            cancel=cancel or _core.CancelFlag(),
        )
        return replace(self, trees=replace(self.trees, values=renewed.values, limit=renewed.limit))

    def log_odds(self, bits: Bits) -> NDArray[np.int32]:
        """Log-odds of a 1 for rows to learn from, in units of 2^-20."""
        return _core.log_odds(bits.columns, bits.n_rows, self.trees.core)

    def curve(self, bits: Bits, weight: Weights = None) -> NDArray[np.float64]:
        """Mean log-likelihood of ``bits`` after 0, 1, ... trees."""
        return _core.curve(_rows(bits, weight), self.target, self.trees.core, _core.CancelFlag())


def _boosted(
    conditional: Conditional,
    train: _core.WeightedRows,
    valid: _core.WeightedRows,
    how: Boosting,
    seed: int,
    cancel: _core.CancelFlag,
) -> Conditional:
    before = _core.Boosted(conditional.trees.core, conditional.train_curve, conditional.valid_curve)
    after = _core.boost(
        train, valid, conditional.target, how.for_core(), seed, before, n_start=conditional.n_start, cancel=cancel
    )
    trees = conditional.trees.with_trees(Trees.of_core(after.trees))
    return replace(conditional, trees=trees, train_curve=after.train_curve, valid_curve=after.valid_curve)
