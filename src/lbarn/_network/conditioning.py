"""A network given evidence: what the unknown bits of a row may be, and how likely what was seen is.

Evidence is a likelihood per bit. A missing bit has none, (1, 1); an observed one is certain, (0, 1) or (1, 0); a noisy
one, flipped with probability e, has (e, 1 - e) or (1 - e, e).

Particles are different beginnings of a row, in network order, each with a weight. At an unknown bit every particle
becomes two, weighed by p(x_d | x_<d) times the evidence, so nothing is left to chance as long as there is room for all:
up to 12 unknown bits are enumerated. Beyond that a row keeps ``n_particles`` of them by the resampling of Fearnhead and
Clifford (2003), the least noise there is without bias: a particle heavier than a threshold stays as it is, and each
lighter one stays with a chance in proportion to its weight and then weighs as much as the threshold. Such a thinning
leaves the total weight as it was: where nothing is seen after the certain prefix of a row, its draws are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.trees import UNIT, Trees, log_likelihoods

__all__ = ["MAX_ENUMERATED", "Answer", "Evidence", "condition"]

MAX_ENUMERATED = 12  # unknown bits
_PSEUDOCOUNT = 0.5  # draws that a probability is drawn back by to what was expected before the later evidence
_BLOCK_PARTICLES = 32_768  # looked at together
_BLOCK_VALUES = 8_000_000  # particles x columns whose descent is kept

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Evidence:
    """Likelihoods of what was seen given a 0 and given a 1, (n, D) each, in network order."""

    zero: Floats
    one: Floats

    @classmethod
    def of(cls, bits: NDArray[np.bool_], missing: NDArray[np.bool_] | None, flip: float) -> Evidence:
        one = np.where(bits, 1.0 - flip, flip)
        zero = 1.0 - one
        if missing is not None:
            one[missing] = zero[missing] = 1.0
        return cls(zero, one)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        return (self.zero > 0) & (self.one > 0)

    @property
    def informative(self) -> NDArray[np.bool_]:
        return self.zero != self.one

    def take(self, rows: NDArray[np.intp]) -> Evidence:
        return Evidence(self.zero[rows], self.one[rows])


@dataclass(frozen=True)
class Answer:
    """Per row: P(bit = 1), draws, the log-likelihood of what was seen, how it was found, and the effective sample size.

    The effective sample size is that of as many independent draws: 1 / (relative variance that thinning has added).
    """

    probability: Floats  # (n, D)
    draws: NDArray[np.uint8]  # (n_draws, n, D)
    log_marginal: Floats  # (n,)
    method: NDArray[np.str_]  # (n,)
    effective: Floats  # (n,)

    @classmethod
    def empty(cls, n: int, D: int, n_draws: int) -> Answer:
        return cls(np.empty((n, D)), np.empty((n_draws, n, D), np.uint8), np.empty(n), np.empty(n, "U11"), np.empty(n))

    def put(self, rows: NDArray[np.intp], part: Answer) -> None:
        self.probability[rows], self.log_marginal[rows] = part.probability, part.log_marginal
        self.draws[:, rows] = part.draws
        self.method[rows], self.effective[rows] = part.method, part.effective

    def in_columns(self, order: NDArray[np.intp]) -> Answer:
        """The same with the columns as they were before ``order`` put column ``order[k]`` at position ``k``."""
        position = np.argsort(order)
        return replace(self, probability=self.probability[:, position], draws=self.draws[:, :, position])


def _probabilities(trees: Trees, columns: NDArray[np.uint64], n: int) -> tuple[Floats, Floats]:
    """P(0) and P(1) of every row. From log p, as scores are: a probability in fixed point is coarse near 0."""
    log_odds = trees.log_odds(columns, n)
    zeros = np.zeros(columns.shape[1], np.uint64)
    return np.exp(log_likelihoods(log_odds, zeros) * UNIT), np.exp(log_likelihoods(log_odds, ~zeros) * UNIT)


def condition(
    network: Sequence[Trees],
    evidence: Evidence,
    *,
    n_draws: int,
    n_particles: int,
    seed: int | tuple[int, ...],
    n_jobs: int | None,
    max_enumerated: int = MAX_ENUMERATED,
) -> Answer:
    """Condition the network, its trees by position, on every row of ``evidence``.

    ``max_enumerated=-1`` forces Monte Carlo.
    """
    unknown = evidence.unknown
    n, D = unknown.shape
    count = unknown.sum(axis=1)
    first = np.where(count > 0, unknown.argmax(axis=1), D)  # the certain prefix ends there
    free_suffix = ~(evidence.informative & (np.arange(D) >= first[:, None])).any(axis=1)  # nothing was seen of the rest

    jobs: list[tuple[NDArray[np.intp], int, str]] = []  # rows, most particles per row, method

    def split(rows: NDArray[np.intp], limit: int, method: str) -> None:
        rows = rows[np.argsort(first[rows], kind="stable")]  # a block branches as soon as one of its rows does
        step = max(1, min(_BLOCK_PARTICLES, _BLOCK_VALUES // D) // limit)
        jobs.extend((rows[i : i + step], limit, method) for i in range(0, len(rows), step))

    enumerated = count <= max_enumerated
    for m in np.unique(count[enumerated]):
        split(np.flatnonzero(enumerated & (count == m)), 1 << int(m), "enumeration" if m else "complete")
    split(np.flatnonzero(~enumerated & free_suffix), n_particles, "prefix")
    split(np.flatnonzero(~enumerated & ~free_suffix), n_particles, "monte-carlo")

    seeds = np.random.SeedSequence(seed).spawn(len(jobs))
    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_condition_block)(network, evidence.take(rows), limit, method, n_draws, np.random.default_rng(own))
        for (rows, limit, method), own in zip(jobs, seeds)
    )
    answer = Answer.empty(n, D, n_draws)
    for (rows, _, _), part in zip(jobs, parts):
        answer.put(rows, part)
    return answer


def _condition_block(
    network: Sequence[Trees], evidence: Evidence, limit: int, method: str, n_draws: int, rng: np.random.Generator
) -> Answer:
    """Up to ``limit`` particles per row, as many in every row of the block: those that are not needed have no weight."""
    n, D = evidence.one.shape
    unknown = evidence.unknown
    particles = np.zeros((n, -(-D // 256) * 32), np.uint8)  # packed bits, the particles of a row one after the other
    weight = np.ones((n, 1))
    log_marginal = np.zeros(n)
    expected = np.empty((n, D))  # P(bit = 1) given what was seen up to it
    descent: list[_Descent] = []
    for d in range(D):
        columns = _core.transpose(particles, d)
        zero, one = (p.reshape(n, -1) * weight for p in _probabilities(network[d], columns, len(particles)))
        zero *= evidence.zero[:, d, None]
        one *= evidence.one[:, d, None]
        total = (zero + one).sum(axis=1, keepdims=True)
        log_marginal += np.log(total[:, 0])
        zero /= total
        one /= total
        expected[:, d] = one.sum(axis=1)
        if unknown[:, d].any():
            weight, bit, parents = _branch(zero, one, limit, rng)
            particles = particles[parents.flat]
            descent.append(parents)
        else:
            weight = zero + one
            bit = np.broadcast_to(evidence.one[:, d, None] > 0, weight.shape)
        particles[:, d // 8] |= bit.ravel().astype(np.uint8) << (d % 8)
    states = np.unpackbits(particles, axis=1, count=D, bitorder="little").reshape(n, -1, D)
    variance = _variance(weight, descent)
    # In the end the particles may agree on an early bit for want of numbers only, so a probability is drawn back to what
    # was expected of that bit: by so many draws out of as many as the particles are worth.
    doubt = _PSEUDOCOUNT * variance[:, None]
    probability = (np.einsum("np,npd->nd", weight, states) + doubt * expected) / (1.0 + doubt)
    probability = np.where(unknown, probability, evidence.one > 0)
    draws = states[np.arange(n)[:, None], _pick(rng, weight, n_draws)].transpose(1, 0, 2)
    with np.errstate(divide="ignore"):
        return Answer(probability, draws, log_marginal, np.full(n, method), 1.0 / variance)


@dataclass(frozen=True)
class _Descent:
    """Where the particles of a generation come from, (rows, particles) each."""

    parent: NDArray[np.int32]  # a particle of the same row
    chance: NDArray[np.float32]  # with which the child was kept
    n_parents: int  # per row

    @property
    def flat(self) -> NDArray[np.intp]:
        """The parents, counted through all rows."""
        return (self.parent + np.arange(len(self.parent))[:, None] * self.n_parents).ravel()


def _branch(
    zero: Floats, one: Floats, limit: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.uint8], _Descent]:
    """Both children of every particle, weighed ``zero`` and ``one``: weights, bits and descent of those that are kept.

    A row that has more than ``limit`` is thinned to so many.
    """
    n, n_parents = zero.shape
    both = np.stack([zero, one], axis=2)  # (rows, parents, children)
    chance = np.ones_like(both)
    crowded = np.flatnonzero(np.count_nonzero(both, axis=(1, 2)) > limit)
    if len(crowded):
        both[crowded], chance[crowded] = _thin(both[crowded], limit, rng)
    counts = np.count_nonzero(both, axis=(1, 2))
    row, parent, child = np.nonzero(both)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    shape = n, int(counts.max())
    weight, bit = np.zeros(shape), np.zeros(shape, np.uint8)
    descent = _Descent(np.zeros(shape, np.int32), np.ones(shape, np.float32), n_parents)
    weight[row, slot] = both[row, parent, child]
    bit[row, slot] = child
    descent.parent[row, slot] = parent
    descent.chance[row, slot] = chance[row, parent, child]
    return weight, bit, descent


def _thin(weight: Floats, limit: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """``limit`` of the children of every row: their weights, 0 for the others, and each one's chance to be kept.

    How many children a parent keeps is spread evenly over the parents, which are in the order of their bits, so seldom
    does a family die out; which of two children stays is for every parent to draw on its own.
    """
    threshold = _threshold(weight.reshape(len(weight), -1), limit)[:, None, None]
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
    return np.where(kept, np.maximum(weight, threshold), 0.0), chance


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
