"""A network given evidence: what the unknown bits of a row may be, and how likely what was seen is.

Evidence is a likelihood per cell of a column. A value that was seen is certain, 1 for its cell and 0 for the others; a missing
one has none, the same for all; a noisy bit, flipped with probability e, has (e, 1 - e) or (1 - e, e).

Particles are different beginnings of a row, in network order, each with a weight. They fall through the tree of one column
after the other, and at a node of which both sides are possible every particle becomes two, weighed by p(bit | x_<d) times the
largest likelihood that is still ahead, relative to what it was: at the cell this comes to the cell's own. So nothing is left to
chance as long as there is room for all: up to 4,096 completions are enumerated. Beyond that a row keeps ``n_particles`` of them
by the resampling of Fearnhead and Clifford (2003), the least noise there is without bias: a particle heavier than a threshold
stays as it is, and each lighter one stays with a chance in proportion to its weight and then weighs as much as the
threshold. Such a thinning leaves the total weight as it was: where nothing is seen after the certain prefix of a row, its
draws are exact.

Two sorts of rows need more. If what is seen is so unlikely that weights leave the range of doubles, the row is done again
with their logarithms. And if, after a thinning, something is seen that no particle expected, a completion that was thinned
out might have: the trees are asked for completions that would make it likely (``lookahead``). Those that weigh enough are
followed by particles of their own, with their cells taken as seen, and the particles from before stand for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logsumexp

from lbarn import _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.codetree import UNKNOWN, Cells, Layout
from lbarn._engine.trees import UNIT, log_likelihoods
from lbarn._network.lookahead import UNSET, likely_causes
from lbarn._network.nodes import NodeTrees

__all__ = ["MAX_ENUMERATED", "Answer", "Evidence", "condition"]

MAX_ENUMERATED = 12  # unknown bits: that many doublings of the number of completions
_PSEUDOCOUNT = 0.5  # draws that a probability is drawn back by to what was expected before the later evidence
_BLOCK_PARTICLES = 32_768  # looked at together
_BLOCK_VALUES = 8_000_000  # particles x columns whose descent is kept

_TINY = float(np.finfo(np.float64).tiny)  # smaller ones lose digits
_LOST = 650.0  # nats: what was below e^-708 before that much evidence is below e^-58 of the answer, beyond all digits
_FLOOR = 1e-300  # the least weight by which a particle is chosen; it is put right after that

# What is seen is unexpected if its probability is less than that of this many particles, and less than the second figure:
# below, what was thinned out may be most of the answer; above, it changes the effective sample size by less than a factor of 3.
_UNEXPECTED_PARTICLES = 10.0
_UNEXPECTED = 0.01
_MATERIAL = 0.02  # share of a row's weight that may be missing
_TOLD = 4.0  # variance of an answer that warns of itself: looking ahead, dear as it is, seldom makes it much better
_MAX_CAUSES = 4
_MAX_DEPTH = 2  # causes of causes
_TRIAL = 8  # a cause is tried with one in so many particles

Floats = NDArray[np.float64]
Cause = Mapping[int, NDArray[np.bool_]]  # by column, the cells that it may be in


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was seen of rows, in network order: ``cells`` (n, D), ``UNKNOWN`` where it is not one cell for certain.

    For columns with unknown cells, ``likelihood`` tells how likely what was seen is for each of the column's cells: (n, cells), or
    (cells,) if it is the same for all rows.
    """

    layout: Layout
    cells: NDArray[np.uint16]
    likelihood: Mapping[int, Floats]

    @classmethod
    def of(
        cls,
        layout: Layout,
        cells: Cells,
        unknown: NDArray[np.bool_] | None = None,
        likelihood: Mapping[int, Floats] | None = None,
        *,
        present: bool = True,
    ) -> Evidence:
        """Of rows of cells; an unknown one may be all that can be drawn, the missing value only if not ``present``."""
        seen = cells.astype(np.uint16)
        if unknown is not None:
            seen = np.where(unknown, np.uint16(UNKNOWN), seen)
        found = dict(likelihood or {})
        for k in np.flatnonzero((seen == UNKNOWN).any(axis=0)).tolist():
            if k not in found:
                tree = layout.columns[k]
                found[k] = (tree.present if present else tree.drawn).astype(np.float64)
        return cls(layout, seen, found)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        return self.cells == UNKNOWN

    def _by_column(self, value: Callable[[int, Floats], Floats | NDArray[np.bool_]], known: float) -> Floats:
        found = np.full(self.cells.shape, known)
        for k, likelihood in self.likelihood.items():
            found[:, k] = np.where(self.cells[:, k] == UNKNOWN, value(k, likelihood), known)
        return found

    @cached_property
    def doublings(self) -> Floats:
        """How many times the number of completions doubles at each column, (n, D)."""
        return self._by_column(lambda k, own: np.log2(np.maximum((own > 0).sum(axis=-1), 1)), 0.0)

    @cached_property
    def informative(self) -> NDArray[np.bool_]:
        """Whether something was seen that changes what is likely: more than that no cell is one that cannot be drawn."""

        def tells(k: int, own: Floats) -> NDArray[np.bool_]:
            drawn = self.layout.columns[k].drawn
            return (own[..., drawn] != own[..., drawn].max(axis=-1, keepdims=True)).any(axis=-1)

        return self._by_column(tells, 1.0) > 0

    def take(self, rows: NDArray[np.intp]) -> Evidence:
        likelihood = {k: own[rows] if own.ndim == 2 else own for k, own in self.likelihood.items()}
        return replace(self, cells=self.cells[rows], likelihood=likelihood)

    def upto(self, n_columns: int) -> Evidence:
        layout = Layout(self.layout.columns[:n_columns])
        return Evidence(
            layout, self.cells[:, :n_columns], {k: own for k, own in self.likelihood.items() if k < n_columns}
        )

    def given(self, causes: Sequence[Cause]) -> Evidence:
        """One row of evidence, again for every cause, with cells outside the cause impossible."""
        n = len(causes)
        likelihood = {k: np.broadcast_to(own, (n, own.shape[-1])) for k, own in self.likelihood.items()}
        for k in {k for cause in causes for k in cause}:
            everywhere = np.ones(self.layout.columns[k].n_cells, np.bool_)
            allowed = np.stack([cause.get(k, everywhere) for cause in causes])
            likelihood[k] = np.where(allowed, likelihood[k], 0.0)
        return replace(self, cells=np.repeat(self.cells, n, axis=0), likelihood=likelihood)


@dataclass(frozen=True, eq=False)
class Answer:
    """Per row: what the unknown cells may be, draws, the log-likelihood of what was seen, how it was found, and the effective
    sample size: that of as many independent draws, 1 / (relative variance that thinning has added).

    ``probability`` is P(cell 1) of columns with two cells; that of every cell is in ``cells``, (n, cells) by column, for the
    other columns that had unknown cells.
    """

    probability: Floats  # (n, D)
    draws: Cells  # (n_draws, n, D)
    log_marginal: Floats  # (n,)
    method: NDArray[np.str_]  # (n,)
    effective: Floats  # (n,)
    cells: dict[int, Floats] = field(default_factory=dict)

    @classmethod
    def empty(cls, evidence: Evidence, n_draws: int) -> Answer:
        n, D = evidence.cells.shape
        layout = evidence.layout
        draws = np.empty((n_draws, n, D), np.uint8 if layout.is_binary else np.uint16)
        cells = {
            k: np.zeros((n, layout.columns[k].n_cells)) for k in evidence.likelihood if layout.columns[k].n_cells != 2
        }
        return cls(np.full((n, D), np.nan), draws, np.empty(n), np.empty(n, "U11"), np.empty(n), cells)

    def put(self, rows: NDArray[np.intp], part: Answer) -> None:
        self.probability[rows], self.log_marginal[rows] = part.probability, part.log_marginal
        self.draws[:, rows] = part.draws
        self.method[rows], self.effective[rows] = part.method, part.effective
        for k, own in part.cells.items():
            self.cells[k][rows] = own

    def in_columns(self, order: NDArray[np.intp]) -> Answer:
        """The same with the columns as they were before ``order`` put column ``order[k]`` at place ``k``."""
        position = np.argsort(order)
        cells = {int(order[k]): own for k, own in self.cells.items()}
        return replace(self, probability=self.probability[:, position], draws=self.draws[:, :, position], cells=cells)


def condition(
    network: NodeTrees,
    evidence: Evidence,
    *,
    n_draws: int,
    n_particles: int,
    seed: int | tuple[int, ...],
    n_jobs: int | None,
    max_enumerated: float = MAX_ENUMERATED,
) -> Answer:
    """Condition the network on every row of ``evidence``.

    ``max_enumerated=-1`` forces Monte Carlo.
    """
    unknown = evidence.unknown
    D = unknown.shape[1]
    doublings = evidence.doublings.sum(axis=1)
    count = np.ceil(doublings - 1e-9).astype(np.int64)
    first = np.where(unknown.any(axis=1), unknown.argmax(axis=1), D)  # the certain prefix ends there
    free_suffix = ~(evidence.informative & (np.arange(D) >= first[:, None])).any(axis=1)  # nothing was seen of the rest

    jobs: list[tuple[NDArray[np.intp], int, str]] = []  # rows, most particles per row, method
    row_size = max(D, row_bytes(network.layout.n_bits))

    def split(rows: NDArray[np.intp], limit: int, method: str) -> None:
        rows = rows[np.argsort(first[rows], kind="stable")]  # a block branches as soon as one of its rows does
        step = max(1, min(_BLOCK_PARTICLES, _BLOCK_VALUES // row_size) // limit)
        jobs.extend((rows[i : i + step], limit, method) for i in range(0, len(rows), step))

    enumerated = doublings <= max_enumerated + 1e-9
    for m in np.unique(count[enumerated]):
        split(np.flatnonzero(enumerated & (count == m)), 1 << int(m), "enumeration" if m else "complete")
    split(np.flatnonzero(~enumerated & free_suffix), n_particles, "prefix")
    split(np.flatnonzero(~enumerated & ~free_suffix), n_particles, "monte-carlo")

    seeds = np.random.SeedSequence(seed).spawn(len(jobs))
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_condition_block)(network, evidence.take(rows), limit, method, n_draws, np.random.default_rng(own))
        for (rows, limit, method), own in zip(jobs, seeds)
    )
    answer = Answer.empty(evidence, n_draws)
    for (rows, _, _), part in zip(jobs, parts):
        answer.put(rows, part)
    return answer


def _condition_block(
    network: NodeTrees, evidence: Evidence, limit: int, method: str, n_draws: int, rng: np.random.Generator
) -> Answer:
    """Up to ``limit`` particles per row, as many in every row of the block: those that are not needed have no weight."""
    cloud = _follow(network, evidence, limit, rng, _Plain)
    answer = _answer([cloud], evidence, method, n_draws, rng)
    # All that follows is for the few rows that need it, and draws after the others have drawn.
    clouds = [(np.arange(len(cloud.lost)), cloud)]
    if cloud.lost.any():
        lost = np.flatnonzero(cloud.lost)
        seen = evidence.take(lost)
        again = _follow(network, seen, limit, rng, _Logarithmic)
        answer.put(lost, _answer([again], seen, method, n_draws, rng))
        clouds.append((lost, again))
    for rows, cloud in clouds:
        for i in np.flatnonzero((cloud.unexpected >= 0) & ~cloud.lost):
            own, seen = cloud.take(np.array([i])), evidence.take(rows[i : i + 1])
            if own.variance[0] < _TOLD:
                strata = _strata(network, seen, own, limit, rng, _MAX_DEPTH)
                if len(strata) > 1:
                    answer.put(rows[i : i + 1], _answer(strata, seen, method, n_draws, rng))
                else:
                    answer.effective[rows[i]] = _effective(strata[0].variance)[0]
    return answer


class _Weights(Protocol):
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

    def keep(self, weight: Floats, bit: NDArray[np.uint8], descent: _Descent) -> None:
        """These children."""

    @property
    def weight(self) -> Floats: ...


class _Plain:
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

    def keep(self, weight: Floats, bit: NDArray[np.uint8], descent: _Descent) -> None:
        self.weight = weight


class _Logarithmic:
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

    def keep(self, weight: Floats, bit: NDArray[np.uint8], descent: _Descent) -> None:
        chosen = self._both[np.arange(len(bit))[:, None], descent.parent, bit]
        chosen -= np.log(descent.chance, dtype=np.float64)
        self._log = np.where(weight > 0, chosen, -np.inf)


@dataclass(frozen=True, eq=False)
class _Cloud:
    """The particles of a block of rows in the end."""

    states: Cells  # (n, particles, D)
    weight: Floats  # (n, particles); a row sums to 1
    log_marginal: Floats  # (n,)
    expected: dict[int, Floats]  # by column that branched: P(cell) given what was seen up to it, (n, cells)
    descent: list[_Descent]
    lost: NDArray[np.bool_]  # (n,): numbers have left the range of doubles in a way that matters
    unexpected: NDArray[np.intp]  # (n,): the column that was least expected after a thinning, -1 if none was
    log_marginal_there: Floats  # (n,)
    unexplained: Floats  # (n,): relative weight of what should be there and is not

    def take(self, rows: NDArray[np.intp]) -> _Cloud:
        return _Cloud(
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
        return _variance(self.weight, self.descent) + self.unexplained**2

    def share(self, chosen: NDArray[np.bool_]) -> Floats:
        return (self.weight * chosen).sum(axis=1)

    def without(self, causes: Sequence[Cause]) -> _Cloud:
        """The cloud of one row without the particles that agree with any of these causes."""
        rest = ~_agree(self.states, causes)
        share = self.share(rest)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(share > 0, self.weight * rest / share, self.weight)
            return replace(self, weight=weight, log_marginal=self.log_marginal + np.log(share))


def _follow(
    network: NodeTrees, evidence: Evidence, limit: int, rng: np.random.Generator, arithmetic: type[_Weights]
) -> _Cloud:
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
    descent: list[_Descent] = []
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
                weight, bit, parents = _branch(zero, one, limit, rng)
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
            expected[k] = _shares(weights.weight, cells.reshape(n, -1), layout.columns[k].n_cells)
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
    return _Cloud(
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


def _shares(weight: Floats, cells: NDArray[np.uint16], n_cells: int) -> Floats:
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


def _answer(
    strata: Sequence[_Cloud], evidence: Evidence, method: str, n_draws: int, rng: np.random.Generator
) -> Answer:
    """What clouds say together that share out the completions of the same rows."""
    each = np.stack([cloud.log_marginal for cloud in strata])
    log_marginal = logsumexp(each, axis=0) if len(strata) > 1 else each[0]
    shares = np.exp(each - log_marginal) if len(strata) > 1 else np.ones_like(each)
    n = len(evidence.cells)
    weight = np.concatenate([share[:, None] * cloud.weight for share, cloud in zip(shares, strata)], axis=1)
    states = np.concatenate([cloud.states for cloud in strata], axis=1)
    variance = sum(share**2 * cloud.variance for share, cloud in zip(shares, strata))
    # In the end the particles may agree on an early cell for want of numbers only, so a probability is drawn back to what
    # was expected of that cell: by so many draws out of as many as the particles are worth.
    doubt = _PSEUDOCOUNT * variance[:, None]
    columns = evidence.layout.columns
    binary = np.array([column.n_cells == 2 for column in columns])
    probability = np.where(binary & (evidence.cells != UNKNOWN), evidence.cells == 1, np.nan)
    cells: dict[int, Floats] = {}

    def expected(k: int) -> Floats:
        return sum((share[:, None] * cloud.expected[k] for share, cloud in zip(shares, strata)), np.zeros(1))

    open_bits = np.flatnonzero(binary & (evidence.cells == UNKNOWN).any(axis=0))
    if len(open_bits):
        bits = np.ascontiguousarray(states[:, :, open_bits])  # a sum must not depend on how arrays lie in memory
        ones = np.einsum("np,npd->nd", weight, bits)
        before = np.stack([expected(int(k))[:, 1] for k in open_bits], axis=1)
        mixed = np.minimum((ones + doubt * before) / (1.0 + doubt), 1.0)
        probability[:, open_bits] = np.where(evidence.unknown[:, open_bits], mixed, probability[:, open_bits])
    for k in evidence.likelihood:
        if not binary[k] and evidence.unknown[:, k].any():
            found = (_shares(weight, states[:, :, k], columns[k].n_cells) + doubt * expected(k)) / (1.0 + doubt)
            cells[k] = found
    draws = states[np.arange(n)[:, None], _pick(rng, weight, n_draws)].transpose(1, 0, 2)
    return Answer(probability, draws, log_marginal, np.full(n, method), _effective(variance), cells)


def _effective(variance: Floats) -> Floats:
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / variance


# ---------------------------------------------------------------------- what was not expected


def _strata(
    network: NodeTrees, evidence: Evidence, cloud: _Cloud, limit: int, rng: np.random.Generator, depth: int
) -> list[_Cloud]:
    """The cloud of one row, and clouds of their own for completions that it has too few of."""
    if cloud.unexpected[0] < 0:
        return [cloud]
    causes, missing = _causes(network, evidence, cloud, limit, rng, _MAX_CAUSES if depth else 0)
    cloud = replace(cloud, unexplained=np.array([missing]))
    if not causes:
        return [cloud]
    strata = [cloud.without(causes)]
    for i, cause in enumerate(causes):
        seen = evidence.given([cause])
        own = _follow(network, seen, limit, rng, _Logarithmic)
        strata += [part.without(causes[:i]) for part in _strata(network, seen, own, limit, rng, depth - 1)]
    return strata


def _causes(
    network: NodeTrees, evidence: Evidence, cloud: _Cloud, limit: int, rng: np.random.Generator, most: int
) -> tuple[list[Cause], float]:
    """Cells of the row that would make likely what was not expected, and that weigh more than the cloud has of them.

    Up to ``most`` sets of cells, and how far the cloud is from the right weight of the next one, relative to all of it.
    """
    k = int(cloud.unexpected[0])
    found = _likely_causes(network, evidence, cloud, k)
    if not found:
        return [], 0.0
    upto = evidence.upto(k + 1)
    tried = _follow(network.upto(k + 1), upto.given(found), max(1, limit // _TRIAL), rng, _Logarithmic)
    weight = np.exp(np.minimum(tried.log_marginal - cloud.log_marginal_there, 300.0))
    taken: list[Cause] = []
    while True:
        other = ~_agree(cloud.states, taken)
        there = [cloud.share(_agree(cloud.states, [cause]) & other)[0] for cause in found]
        missing = np.abs(weight * tried.share(~_agree(tried.states, taken)) - there)
        best = int(missing.argmax())
        if missing[best] < _MATERIAL or len(taken) == most:
            return taken, float(missing[best])
        taken.append(found[best])


def _likely_causes(network: NodeTrees, evidence: Evidence, cloud: _Cloud, k: int) -> list[Cause]:
    """Cells of earlier columns for which the trees of column ``k`` expect what was seen there."""
    layout, tree = network.layout, network.column(k)
    likelihood = np.zeros(tree.n_cells)
    if evidence.cells[0, k] == UNKNOWN:
        own = evidence.likelihood[k]
        likelihood = own[0] if own.ndim == 2 else own
    else:
        likelihood[evidence.cells[0, k]] = 1.0
    node, bit = _least_expected(network, cloud, k, likelihood)
    known = np.full(int(layout.first_bit[k]), UNSET, np.int8)
    for c in np.flatnonzero(evidence.cells[0, :k] != UNKNOWN).tolist():
        first, last = layout.first_bit[c], layout.first_bit[c + 1]
        known[first:last] = layout.columns[c].table[evidence.cells[0, c]]
    causes: list[Cause] = []
    for setting in likely_causes(network.at(k, node), bit, known):
        cause = _cells_of(layout, evidence, setting)
        if cause is not None:
            causes.append(cause)
    return causes


def _least_expected(network: NodeTrees, cloud: _Cloud, k: int, likelihood: Floats) -> tuple[int, bool]:
    """The node on the way to what was seen whose bit the particles expected least, and that bit."""
    tree = network.column(k)
    ahead = tree.subtree_max(likelihood)
    if tree.n_nodes == 1:
        return 0, bool(likelihood[1] > likelihood[0])
    earlier = network.upto(k).layout
    rows = earlier.pack(cloud.states[0, :, :k])
    node, least, found = 0, np.inf, (0, True)
    while node >= 0:
        bit = bool(ahead[tree.slots[node, 1]] > ahead[tree.slots[node, 0]])
        odds = network.at(k, node).log_odds_at(rows.rows, np.arange(rows.n_rows, dtype=np.int32))
        words = np.full(_core.column_words(rows.n_rows), ~np.uint64(0) if bit else np.uint64(0))
        expected = float(cloud.weight[0] @ (UNIT * log_likelihoods(odds, words)))
        if expected < least:
            least, found = expected, (node, bit)
        node = int(tree.children[node, int(bit)])
    return found


def _cells_of(layout: Layout, evidence: Evidence, setting: NDArray[np.int8]) -> Cause | None:
    """The cells that bits leave to unknown columns, None if there are none."""
    cause: dict[int, NDArray[np.bool_]] = {}
    for c in np.unique(layout.bit_column[: len(setting)][setting != UNSET]).tolist():
        tree, first = layout.columns[c], int(layout.first_bit[c])
        own = setting[first : first + tree.n_bits]
        allowed = ((tree.table == own) | (own == UNSET)).all(axis=1)
        likelihood = evidence.likelihood[c]
        allowed &= (likelihood[0] if likelihood.ndim == 2 else likelihood) > 0
        if not allowed.any():
            return None
        cause[c] = allowed
    return cause or None


def _agree(states: Cells, causes: Sequence[Cause]) -> NDArray[np.bool_]:
    """Which particles agree with any of the causes, (n, particles)."""
    agree = np.zeros(states.shape[:2], np.bool_)
    for cause in causes:
        all_agree = np.ones(states.shape[:2], np.bool_)
        for k, allowed in cause.items():
            all_agree &= allowed[states[:, :, k]]
        agree |= all_agree
    return agree


@dataclass(frozen=True)
class _Descent:
    """Where the particles of a generation come from, (rows, particles) each."""

    parent: NDArray[np.int32]  # a particle of the same row
    chance: NDArray[np.float32]  # with which the child was kept
    n_parents: int  # per row
    threshold: Floats  # (rows,): weight of those that were kept by chance, 0 if none was

    @property
    def flat(self) -> NDArray[np.intp]:
        """The parents, counted through all rows."""
        return (self.parent + np.arange(len(self.parent))[:, None] * self.n_parents).ravel()

    def take(self, rows: NDArray[np.intp]) -> _Descent:
        return _Descent(self.parent[rows], self.chance[rows], self.n_parents, self.threshold[rows])


def _branch(
    zero: Floats, one: Floats, limit: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.uint8], _Descent]:
    """Both children of every particle, weighed ``zero`` and ``one``: weights, bits and descent of those that are kept.

    A row that has more than ``limit`` is thinned to so many.
    """
    n, n_parents = zero.shape
    both = np.stack([zero, one], axis=2)  # (rows, parents, children)
    chance, threshold = np.ones_like(both), np.zeros(n)
    crowded = np.flatnonzero(np.count_nonzero(both, axis=(1, 2)) > limit)
    if len(crowded):
        both[crowded], chance[crowded], threshold[crowded] = _thin(both[crowded], limit, rng)
    counts = np.count_nonzero(both, axis=(1, 2))
    row, parent, child = np.nonzero(both)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = n, int(counts.max())
    weight, bit = np.zeros(shape), np.zeros(shape, np.uint8)
    descent = _Descent(np.zeros(shape, np.int32), np.ones(shape, np.float32), n_parents, threshold)
    weight[row, slot] = both[row, parent, child]
    bit[row, slot] = child
    descent.parent[row, slot] = parent
    descent.chance[row, slot] = chance[row, parent, child]
    return weight, bit, descent


def _thin(weight: Floats, limit: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """``limit`` of the children of every row: their weights, 0 for the others, each one's chance to be kept, and the
    row's threshold.

    How many children a parent keeps is spread evenly over the parents, which are in the order of their bits, so seldom
    does a family die out; which of two children stays is for every parent to draw on its own.
    """
    threshold = _threshold(weight.reshape(len(weight), -1), limit)[:, None, None]
    threshold = np.maximum(threshold, np.nextafter(0.0, 1.0))
    with np.errstate(over="ignore"):
        chance = np.minimum(weight / threshold, 1.0)
    expected = chance.sum(axis=2)
    ends = np.cumsum(expected, axis=1)
    ends *= limit / ends[:, -1:]
    n_kept = np.diff(np.floor(ends + rng.random((len(ends), 1))), axis=1, prepend=0.0)  # expected, rounded up or down
    # Of two children with chances a and b one is kept with probability a + b, or 2 - a - b where that is above 1.
    few = expected <= 1.0
    first = np.where(few, chance[..., 0], 1.0 - chance[..., 1])
    is_first = rng.random(first.shape) * np.where(few, expected, 2.0 - expected) < first
    kept = (n_kept[..., None] == 2) | ((n_kept[..., None] == 1) & np.stack([is_first, ~is_first], axis=2))
    return np.where(kept, np.maximum(weight, threshold), 0.0), chance, threshold[:, 0, 0]


def _threshold(weight: Floats, limit: int) -> Floats:
    """The c of every row at which sum of min(weight / c, 1) is ``limit``."""
    light_first = np.sort(weight, axis=1)
    weight_up_to = np.cumsum(light_first, axis=1)[:, : -limit - 1 : -1]  # all but the k heaviest, k = 0..limit-1
    room = limit - np.arange(limit)  # for them, if those k stay as they are
    k = np.argmax(light_first[:, : -limit - 1 : -1] * room <= weight_up_to, axis=1)
    return weight_up_to[np.arange(len(k)), k] / room[k]


def _variance(weight: Floats, descent: list[_Descent]) -> Floats:
    """What thinning has added to the relative variance of a row's weights.

    A particle that was kept with chance q adds 1 - q times the square of the weight that its descendants have in the end.
    """
    variance = np.zeros(len(weight))
    for generation in reversed(descent):
        variance += (np.square(weight) * (1.0 - generation.chance)).sum(axis=1)
        inherited = np.bincount(generation.flat, weight.ravel(), len(weight) * generation.n_parents)
        weight = inherited.astype(np.float64, copy=False).reshape(len(weight), -1)
    return variance


def _pick(rng: np.random.Generator, weight: Floats, n: int) -> NDArray[np.intp]:
    """n indices per row, independently, with probabilities ``weight``: shape (rows, n)."""
    edges = np.cumsum(weight, axis=1)
    u = rng.random((len(weight), n)) * edges[:, -1:]
    return np.array([np.searchsorted(edge, point, side="right") for edge, point in zip(edges, u)])
