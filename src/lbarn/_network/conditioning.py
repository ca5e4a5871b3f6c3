"""A network given evidence: what the unknown bits of a row may be, and how likely what was seen is.

Evidence is a likelihood per bit. A missing bit has none, (1, 1); an observed one is certain, (0, 1) or (1, 0); a noisy
one, flipped with probability e, has (e, 1 - e) or (1 - e, e).

Particles are different beginnings of a row, in network order, each with a weight. At an unknown bit every particle
becomes two, weighed by p(x_d | x_<d) times the evidence, so nothing is left to chance as long as there is room for all:
up to 12 unknown bits are enumerated. Beyond that a row keeps ``n_particles`` of them by the resampling of Fearnhead and
Clifford (2003), the least noise there is without bias: a particle heavier than a threshold stays as it is, and each
lighter one stays with a chance in proportion to its weight and then weighs as much as the threshold. Such a thinning
leaves the total weight as it was: where nothing is seen after the certain prefix of a row, its draws are exact.

Two sorts of rows need more. If what is seen is so unlikely that weights leave the range of doubles, the row is done again
with their logarithms. And if, after a thinning, something is seen that no particle expected, a completion that was thinned
out might have: the trees are asked for completions that would make it likely (``lookahead``). Those that weigh enough are
followed by particles of their own, with their bits taken as seen, and the particles from before stand for the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logsumexp

from lbarn import _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.trees import UNIT, Trees, log_likelihoods
from lbarn._network.lookahead import UNSET, likely_causes

__all__ = ["MAX_ENUMERATED", "Answer", "Evidence", "condition"]

MAX_ENUMERATED = 12  # unknown bits
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

    def given(self, bits: NDArray[np.int8]) -> Evidence:
        """The same with these bits certain, ``UNSET`` where they are not: a row of evidence for every row of them."""
        return Evidence(np.where(bits == 1, 0.0, self.zero), np.where(bits == 0, 0.0, self.one))


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

        ``log_p`` are those of a 0 and of a 1 for every particle, ``likelihood`` of what was seen for every row.
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
            lost |= ((child < _TINY) & alive).any(axis=1) & (seen[:, 0] > 0)
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

    states: NDArray[np.uint8]  # (n, particles, D)
    weight: Floats  # (n, particles); a row sums to 1
    log_marginal: Floats  # (n,)
    expected: Floats  # (n, D): P(bit = 1) given what was seen up to it
    descent: list[_Descent]
    lost: NDArray[np.bool_]  # (n,): numbers have left the range of doubles in a way that matters
    unexpected: NDArray[np.intp]  # (n,): position of what was least expected after a thinning, -1 if nothing was
    log_marginal_there: Floats  # (n,)
    unexplained: Floats  # (n,): relative weight of what should be there and is not

    def take(self, rows: NDArray[np.intp]) -> _Cloud:
        return _Cloud(
            self.states[rows],
            self.weight[rows],
            self.log_marginal[rows],
            self.expected[rows],
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

    def without(self, causes: NDArray[np.int8]) -> _Cloud:
        """The cloud of one row without the particles that agree with any of these causes."""
        rest = ~_agree(self.states, causes)
        share = self.share(rest)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = np.where(share > 0, self.weight * rest / share, self.weight)
            return replace(self, weight=weight, log_marginal=self.log_marginal + np.log(share))


def _follow(
    network: Sequence[Trees], evidence: Evidence, limit: int, rng: np.random.Generator, arithmetic: type[_Weights]
) -> _Cloud:
    """Particles from the first position to the last."""
    n, D = evidence.one.shape
    unknown = evidence.unknown
    particles = np.zeros((n, row_bytes(D)), np.uint8)  # packed bits, the particles of a row one after the other
    weights = arithmetic(n)
    log_marginal = np.zeros(n)
    expected = np.empty((n, D))
    descent: list[_Descent] = []
    lost_since = np.full(n, -np.inf)  # log-marginal before the first loss
    threshold = np.zeros(n)  # of the last thinning
    unexpected, least, log_marginal_there = np.full(n, -1), np.zeros(n), np.zeros(n)
    for d in range(D):
        log_p = _log_probabilities(network[d], particles, d, n)
        likelihood = evidence.zero[:, d, None], evidence.one[:, d, None]
        zero, one, log_total, lost = weights.divide(log_p, likelihood)
        lost_since = np.maximum(lost_since, np.where(lost, log_marginal, -np.inf))
        log_marginal += log_total
        with np.errstate(divide="ignore", invalid="ignore"):  # the threshold is 0 before the first thinning
            surprise = log_total - np.log(np.minimum(_UNEXPECTED_PARTICLES * threshold, _UNEXPECTED))
        less = surprise < least
        unexpected[less], least[less], log_marginal_there[less] = d, surprise[less], log_marginal[less]
        expected[:, d] = one.sum(axis=1)
        if unknown[:, d].any():
            weight, bit, parents = _branch(zero, one, limit, rng)
            weights.keep(weight, bit, parents)
            threshold = np.where(parents.threshold > 0, parents.threshold, threshold)
            particles = particles[parents.flat]
            descent.append(parents)
        else:
            weights.join()
            bit = np.broadcast_to(evidence.one[:, d, None] > 0, zero.shape)
        particles[:, d // 8] |= bit.ravel().astype(np.uint8) << (d % 8)
    states = np.unpackbits(particles, axis=1, count=D, bitorder="little").reshape(n, -1, D)
    lost = lost_since - log_marginal > _LOST
    return _Cloud(
        states, weights.weight, log_marginal, expected, descent, lost, unexpected, log_marginal_there, np.zeros(n)
    )


def _log_probabilities(trees: Trees, particles: NDArray[np.uint8], d: int, n: int) -> tuple[Floats, Floats]:
    """log P(0) and log P(1) at position ``d``, (n, particles per row). A probability in fixed point is coarse near 0."""
    columns = _core.transpose(particles, d)
    log_odds = trees.log_odds(columns, len(particles))
    zeros = np.zeros(columns.shape[1], np.uint64)
    zero, one = (log_likelihoods(log_odds, target).astype(np.float64) * UNIT for target in (zeros, ~zeros))
    return zero.reshape(n, -1), one.reshape(n, -1)


def _answer(
    strata: Sequence[_Cloud], evidence: Evidence, method: str, n_draws: int, rng: np.random.Generator
) -> Answer:
    """What clouds say together that share out the completions of the same rows."""
    each = np.stack([cloud.log_marginal for cloud in strata])
    log_marginal = logsumexp(each, axis=0) if len(strata) > 1 else each[0]
    shares = np.exp(each - log_marginal) if len(strata) > 1 else np.ones_like(each)
    n = each.shape[1]
    weight = np.concatenate([share[:, None] * cloud.weight for share, cloud in zip(shares, strata)], axis=1)
    states = np.concatenate([cloud.states for cloud in strata], axis=1)
    expected = sum(share[:, None] * cloud.expected for share, cloud in zip(shares, strata))
    variance = sum(share**2 * cloud.variance for share, cloud in zip(shares, strata))
    # In the end the particles may agree on an early bit for want of numbers only, so a probability is drawn back to what
    # was expected of that bit: by so many draws out of as many as the particles are worth.
    doubt = _PSEUDOCOUNT * variance[:, None]
    probability = (np.einsum("np,npd->nd", weight, states) + doubt * expected) / (1.0 + doubt)
    probability = np.where(evidence.unknown, np.minimum(probability, 1.0), evidence.one > 0)
    draws = states[np.arange(n)[:, None], _pick(rng, weight, n_draws)].transpose(1, 0, 2)
    return Answer(probability, draws, log_marginal, np.full(n, method), _effective(variance))


def _effective(variance: Floats) -> Floats:
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / variance


# ---------------------------------------------------------------------- what was not expected


def _strata(
    network: Sequence[Trees], evidence: Evidence, cloud: _Cloud, limit: int, rng: np.random.Generator, depth: int
) -> list[_Cloud]:
    """The cloud of one row, and clouds of their own for completions that it has too few of."""
    if cloud.unexpected[0] < 0:
        return [cloud]
    causes, missing = _causes(network, evidence, cloud, limit, rng, _MAX_CAUSES if depth else 0)
    cloud = replace(cloud, unexplained=np.array([missing]))
    if not len(causes):
        return [cloud]
    strata = [cloud.without(causes)]
    for k, cause in enumerate(causes):
        seen = evidence.given(cause[None])
        own = _follow(network, seen, limit, rng, _Logarithmic)
        strata += [part.without(causes[:k]) for part in _strata(network, seen, own, limit, rng, depth - 1)]
    return strata


def _causes(
    network: Sequence[Trees], evidence: Evidence, cloud: _Cloud, limit: int, rng: np.random.Generator, most: int
) -> tuple[NDArray[np.int8], float]:
    """Bits of the row that would make likely what was not expected, and that weigh more than the cloud has of them.

    Up to ``most`` sets of bits, and how far the cloud is from the right weight of the next one, relative to all of it.
    """
    d = int(cloud.unexpected[0])
    known = np.where(evidence.unknown, UNSET, evidence.one > 0)[0, :d].astype(np.int8)
    found = likely_causes(network[d], bool(evidence.one[0, d] > evidence.zero[0, d]), known)
    taken = np.empty((0, evidence.one.shape[1]), np.int8)
    if not len(found):
        return taken, 0.0
    upto = Evidence(evidence.zero[:, : d + 1], evidence.one[:, : d + 1])
    found = np.pad(found, ((0, 0), (0, 1)), constant_values=UNSET)
    tried = _follow(network[: d + 1], upto.given(found), max(1, limit // _TRIAL), rng, _Logarithmic)
    weight = np.exp(np.minimum(tried.log_marginal - cloud.log_marginal_there, 300.0))
    found = np.pad(found, ((0, 0), (0, taken.shape[1] - d - 1)), constant_values=UNSET)
    while True:
        other = ~_agree(cloud.states, taken)
        there = [cloud.share(_agree(cloud.states, cause[None]) & other)[0] for cause in found]
        missing = np.abs(weight * tried.share(~_agree(tried.states, taken[:, : d + 1])) - there)
        best = int(missing.argmax())
        if missing[best] < _MATERIAL or len(taken) == most:
            return taken, float(missing[best])
        taken = np.append(taken, found[best : best + 1], axis=0)


def _agree(states: NDArray[np.uint8], causes: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Which particles agree with any of the causes, (n, particles)."""
    agree = np.zeros(states.shape[:2], np.bool_)
    for cause in causes:
        asked = cause != UNSET
        agree |= (states[:, :, asked] == cause[asked]).all(axis=2)
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
