"""Particles: different beginnings of a row, in network order, each with a weight.

They fall through the tree of one column after the other, and at a node of which both sides are possible every particle becomes
two, weighed by p(bit | x_<d) times the largest likelihood that is still ahead, relative to what it was: at the cell this comes to
the cell's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from lbarn import _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.codetree import UNKNOWN, Cells
from lbarn._engine.trees import UNIT, log_likelihoods
from lbarn._network.evidence import Cause, Evidence, agreeing
from lbarn._network.nodes import NodeTrees
from lbarn._network.thinning import Descent, added_variance, branch

__all__ = ["Cloud", "Logarithmic", "Plain", "follow", "shares_of_cells"]

_TINY = float(np.finfo(np.float64).tiny)  # smaller ones lose digits
_LOST = 650.0  # nats: what was below e^-708 before that much evidence is below e^-58 of the answer, beyond all digits
_FLOOR = 1e-300  # the least weight by which a particle is chosen; it is put right after that

# What is seen is unexpected if its probability is less than that of this many particles, and less than the second figure:
# below, what was thinned out may be most of the answer; above, it changes the effective sample size by less than a factor of 3.
_UNEXPECTED_PARTICLES = 10.0
_UNEXPECTED = 0.01

Floats = NDArray[np.float64]


class Weights(Protocol):
    """The particles' weights, (rows, particles), each row's summing to 1; an unused place weighs nothing."""

    def __init__(self, n: int) -> None: ...

    def divide(
        self, log_p: tuple[Floats, Floats], likelihood: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        """Weights of every particle's children, normalised; log of what they summed to; which rows have lost digits.

        ``log_p`` are those of a 0 and of a 1 for every particle; ``likelihood`` of what was seen, for every particle or row.
        """

    def join(self) -> None:
        """Every particle has one child."""

    def keep(self, weight: Floats, bit: NDArray[np.uint8], descent: Descent) -> None:
        """These children."""

    @property
    def weight(self) -> Floats: ...


class Plain:
    """As they are: fast, and right unless numbers leave the range of doubles."""

    def __init__(self, n: int) -> None:
        self.weight = np.ones((n, 1))

    def divide(
        self, log_p: tuple[Floats, Floats], likelihood: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        zero, one = (np.exp(p) * self.weight * seen for p, seen in zip(log_p, likelihood))
        alive = self.weight > 0
        lost = np.zeros(len(alive), np.bool_)
        for child, seen in zip((zero, one), likelihood):
            lost |= ((child < _TINY) & alive & (seen > 0)).any(axis=1)
        total = (zero + one).sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            log_total = np.log(total[:, 0])
        nothing = total[:, 0] == 0
        if nothing.any():  # these rows are done again; until then they may weigh anything
            zero[nothing], total[nothing] = self.weight[nothing], 1.0
        zero /= total
        one /= total
        self._joined = zero, one
        return zero, one, log_total, lost

    def join(self) -> None:
        self.weight = self._joined[0] + self._joined[1]

    def keep(self, weight: Floats, bit: NDArray[np.uint8], descent: Descent) -> None:
        self.weight = weight


class Logarithmic:
    """By their logarithms, so that none is ever lost."""

    def __init__(self, n: int) -> None:
        self._log = np.zeros((n, 1))

    @property
    def weight(self) -> Floats:
        weight = np.exp(self._log)
        return weight / weight.sum(axis=1, keepdims=True)  # all those roundings

    def divide(
        self, log_p: tuple[Floats, Floats], likelihood: tuple[Floats, Floats]
    ) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
        with np.errstate(divide="ignore"):
            both = np.stack([p + self._log + np.log(seen) for p, seen in zip(log_p, likelihood)], axis=2)
        log_total = logsumexp(both, axis=(1, 2))
        self._both = both - log_total[:, None, None]
        children = np.where(np.isneginf(both), 0.0, np.maximum(np.exp(self._both), _FLOOR))
        return children[..., 0], children[..., 1], log_total, np.zeros(len(both), np.bool_)

    def join(self) -> None:
        self._log = np.logaddexp(self._both[..., 0], self._both[..., 1])

    def keep(self, weight: Floats, bit: NDArray[np.uint8], descent: Descent) -> None:
        chosen = self._both[np.arange(len(bit))[:, None], descent.parent, bit]
        chosen -= np.log(descent.chance, dtype=np.float64)
        self._log = np.where(weight > 0, chosen, -np.inf)


@dataclass(frozen=True, eq=False)
class Cloud:
    """The particles of a block of rows in the end."""

    states: Cells  # (n, particles, D)
    weight: Floats  # (n, particles); a row sums to 1
    log_marginal: Floats  # (n,)
    expected: dict[int, Floats]  # by column that branched: P(cell) given what was seen up to it, (n, cells)
    descent: list[Descent]
    lost: NDArray[np.bool_]  # (n,): numbers have left the range of doubles in a way that matters
    unexpected: NDArray[np.intp]  # (n,): the column that was least expected after a thinning, -1 if none was
    log_marginal_there: Floats  # (n,)
    unexplained: Floats  # (n,): relative weight of what should be there and is not

    def take(self, rows: NDArray[np.intp]) -> Cloud:
        return Cloud(
            self.states[rows],
            self.weight[rows],
            self.log_marginal[rows],
            {k: own[rows] for k, own in self.expected.items()},
            [generation.take(rows) for generation in self.descent],
            self.lost[rows],
            self.unexpected[rows],
            self.log_marginal_there[rows],
            self.unexplained[rows],
        )

    @property
    def variance(self) -> Floats:
        return added_variance(self.weight, self.descent) + self.unexplained**2

    def share(self, chosen: NDArray[np.bool_]) -> Floats:
        return (self.weight * chosen).sum(axis=1)

    def without(self, causes: Sequence[Cause]) -> Cloud:
        """The cloud of one row without the particles that agree with any of these causes."""
        rest = ~agreeing(self.states, causes)
        share = self.share(rest)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(share > 0, self.weight * rest / share, self.weight)
            return replace(self, weight=weight, log_marginal=self.log_marginal + np.log(share))


def follow(
    network: NodeTrees, evidence: Evidence, limit: int, rng: np.random.Generator, arithmetic: type[Weights]
) -> Cloud:
    """Particles from the first column to the last."""
    n, D = evidence.cells.shape
    layout = network.layout
    unknown = evidence.unknown
    particles = np.zeros((n, row_bytes(layout.n_bits)), np.uint8)  # packed, the particles of a row one after the other
    wide = [k for k in range(D) if layout.columns[k].n_cells != 2]
    states = np.zeros((n, len(wide)), np.uint16)  # the cells of columns that have not two of them
    weights = arithmetic(n)
    log_marginal = np.zeros(n)
    expected: dict[int, Floats] = {}
    descent: list[Descent] = []
    lost_since = np.full(n, -np.inf)  # log-marginal before the first loss
    threshold = np.zeros(n)  # of the last thinning
    unexpected, least, log_marginal_there = np.full(n, -1), np.zeros(n), np.zeros(n)
    for k in range(D):
        before = log_marginal.copy()
        limits = np.minimum(_UNEXPECTED_PARTICLES * threshold, _UNEXPECTED)
        falling = _Falling(network, evidence, k, particles, n)
        while not falling.ended:
            zero, one, log_total, lost = weights.divide(*falling.chances())
            lost_since = np.maximum(lost_since, np.where(lost, log_marginal, -np.inf))
            log_marginal += log_total
            if unknown[:, k].any():
                if layout.columns[k].n_cells == 2:
                    expected[k] = np.stack([zero.sum(axis=1), one.sum(axis=1)], axis=1)
                weight, bit, parents = branch(zero, one, limit, rng)
                weights.keep(weight, bit, parents)
                threshold = np.where(parents.threshold > 0, parents.threshold, threshold)
                descent.append(parents)
                falling.branch(bit, parents.flat)
            else:
                weights.join()
                falling.end()
        with np.errstate(divide="ignore", invalid="ignore"):  # the threshold is 0 before the first thinning
            surprise = log_marginal - before - np.log(limits)
        less = surprise < least
        unexpected[less], least[less], log_marginal_there[less] = k, surprise[less], log_marginal[less]
        cells = falling.cells
        if k not in expected and unknown[:, k].any():
            expected[k] = shares_of_cells(weights.weight, cells.reshape(n, -1), layout.columns[k].n_cells)
        particles, states = particles[falling.origin], states[falling.origin]
        layout.set_column(particles, k, cells)
        if k in wide:
            states[:, wide.index(k)] = cells
    if layout.is_binary:
        all_cells = np.unpackbits(particles, axis=1, count=D, bitorder="little")
    else:
        bits = np.unpackbits(particles, axis=1, count=layout.n_bits, bitorder="little")
        all_cells = bits[:, np.minimum(layout.first_bit[:-1], layout.n_bits - 1)].astype(np.uint16)
        all_cells[:, wide] = states
    lost = lost_since - log_marginal > _LOST
    return Cloud(
        all_cells.reshape(n, -1, D),
        weights.weight,
        log_marginal,
        expected,
        descent,
        lost,
        unexpected,
        log_marginal_there,
        np.zeros(n),
    )


def shares_of_cells(weight: Floats, cells: NDArray[np.uint16], n_cells: int) -> Floats:
    """The weight in every cell, (n, cells)."""
    n = len(weight)
    where = cells.astype(np.intp) + np.arange(n)[:, None] * n_cells
    shares = np.bincount(where.ravel(), weight.ravel(), n * n_cells).astype(np.float64, copy=False)
    return shares.reshape(n, n_cells)


class _Falling:
    """The particles of a block on their way through the tree of one column: where each one is, and what may come next."""

    def __init__(self, network: NodeTrees, evidence: Evidence, k: int, particles: NDArray[np.uint8], n: int) -> None:
        self._network, self._k, self._particles, self._n = network, k, particles, n
        self._tree = network.column(k)
        self._seen = evidence.cells[:, k]
        self._certain = self._seen != UNKNOWN
        self.origin = np.arange(len(particles), dtype=np.int32)  # the particle, before this column, that each one was
        self._at = np.full(len(particles), 0 if self._tree.n_nodes else ~0, np.int64)
        if not self._certain.all():
            own = evidence.likelihood[k]
            likelihood = own if own.ndim == 2 else own[None]
            self._ahead = np.broadcast_to(
                self._tree.subtree_max(likelihood), (n, self._tree.n_nodes + self._tree.n_cells)
            )

    @property
    def ended(self) -> bool:
        return not (self._at >= 0).any()

    @property
    def cells(self) -> NDArray[np.uint16]:
        return (~self._at).astype(np.uint16)

    def chances(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """log P(0) and log P(1) of every particle, and how likely either makes what was seen, (n, particles) or (n, 1).

        If the cell is certain in all rows, the 0 stands for all of its way.
        """
        n, tree = self._n, self._tree
        if self._certain.all() and tree.n_cells != 2:
            cells = np.repeat(self._seen, len(self._at) // n)
            log_p = UNIT * self._network.log_p(self._k, cells, self._particles, self.origin).astype(np.float64)
            here = log_p.reshape(n, -1)
            return (here, np.zeros_like(here)), (np.ones((n, 1)), np.zeros((n, 1)))
        odds = self._network.log_odds(self._k, self._at, self._particles, self.origin)
        zeros = np.zeros(_core.column_words(len(odds)), np.uint64)
        zero, one = (UNIT * log_likelihoods(odds, target).astype(np.float64) for target in (zeros, ~zeros))
        if tree.n_cells == 2:
            ahead = [np.where(self._certain, self._seen == side, 0.0) for side in (0, 1)]
            if not self._certain.all():
                ahead = [np.where(self._certain, own, self._ahead[:, 1 + side]) for side, own in enumerate(ahead)]
            return (zero.reshape(n, -1), one.reshape(n, -1)), (ahead[0][:, None], ahead[1][:, None])
        falls = self._at >= 0
        zero[~falls] = one[~falls] = 0.0
        node = np.maximum(self._at, 0)
        row = np.repeat(np.arange(n), len(node) // n)
        sides = []
        for side, (a, b) in enumerate(((tree.low, tree.cut), (tree.cut, tree.high))):
            seen = (self._seen[row] >= a[node]) & (self._seen[row] < b[node])
            likely = self._ahead[row, tree.slots[node, side]]
            with np.errstate(invalid="ignore", divide="ignore"):
                share = np.where(node == 0, likely, likely / self._ahead[row, node])
            share = np.where(self._certain[row], seen, np.nan_to_num(share, nan=0.0))
            sides.append(np.where(falls, share, 1.0 - side).reshape(n, -1))
        return (zero.reshape(n, -1), one.reshape(n, -1)), (sides[0], sides[1])

    def branch(self, bit: NDArray[np.uint8], parents: NDArray[np.intp]) -> None:
        """Every particle is now a child of one of those before."""
        at = self._at[parents]
        self.origin = self.origin[parents]
        self._at = np.where(at >= 0, self._tree.children[np.maximum(at, 0), bit.ravel()], at)

    def end(self) -> None:
        """Every particle goes where its row was seen."""
        self._at = ~np.repeat(self._seen, len(self._at) // self._n).astype(np.int64)
