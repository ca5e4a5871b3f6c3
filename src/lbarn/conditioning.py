"""A network given evidence: what the unknown bits of a row may be, and how likely what was seen is.

Evidence is a likelihood per bit. A missing bit has none, (1, 1); an observed one is certain, (0, 1) or (1, 0); a noisy
one, flipped with probability e, has (e, 1 - e) or (1 - e, e). Up to 12 unknown bits are enumerated. Beyond, a sequential
Monte Carlo pass in network order draws each bit of each particle from p(x_d | x_<d) times its evidence, weights the
particle by the normaliser, and resamples a row's particles when their effective number halves. Where the certain bits
are a prefix of the order this is exact sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from lbarn import _core
from lbarn.bits import PackedBits, pack
from lbarn.conditional import UNIT, Conditional, log_likelihoods, probabilities

__all__ = ["MAX_ENUMERATED", "Answer", "Evidence", "condition"]

MAX_ENUMERATED = 12  # unknown bits
_BLOCK_PARTICLES = 32_768  # particles or completions looked at together

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

    def take(self, rows: NDArray[np.intp]) -> Evidence:
        return Evidence(self.zero[rows], self.one[rows])


@dataclass(frozen=True)
class Answer:
    """Per row: P(bit = 1), draws, the log-likelihood of what was seen, how it was found, and the effective sample size."""

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


@dataclass(frozen=True)
class Network:
    """The conditionals, each with its number of trees, as this module evaluates them."""

    conditionals: Sequence[Conditional]
    n_trees: Sequence[int] | NDArray[np.intp]

    def log_odds(self, position: int, columns: NDArray[np.uint64], n: int) -> NDArray[np.int32]:
        trees = self.conditionals[position].trees.head(self.n_trees[position])
        return _core.log_odds(columns, n, trees.splits, trees.values, trees.offsets)

    def log_likelihood(self, bits: PackedBits, first: int, last: int) -> Floats:
        """Of the bits at positions first..last-1 given those before each."""
        total = np.zeros(bits.n_rows, np.int64)
        for d in range(first, last):
            total += log_likelihoods(self.log_odds(d, bits.columns, bits.n_rows), bits.columns[d])
        return np.multiply(total, UNIT, dtype=np.float64)


def condition(
    conditionals: Sequence[Conditional],
    n_trees: Sequence[int] | NDArray[np.intp],
    evidence: Evidence,
    *,
    n_draws: int,
    n_particles: int,
    seed: int,
    n_jobs: int | None,
    max_enumerated: int = MAX_ENUMERATED,
) -> Answer:
    """Condition the network on every row of ``evidence``. ``max_enumerated=-1`` forces Monte Carlo."""
    network = Network(conditionals, n_trees)
    unknown = evidence.unknown
    n, D = unknown.shape
    count = unknown.sum(axis=1)
    first = np.where(count > 0, unknown.argmax(axis=1), D)  # the certain prefix ends there
    after = evidence.zero != evidence.one
    free_suffix = ~(after & (np.arange(D) >= first[:, None])).any(axis=1)  # nothing was seen of the rest

    jobs: list[tuple[NDArray[np.intp], int, str]] = []  # rows, particles per row, method

    def split(rows: NDArray[np.intp], size: int, method: str) -> None:
        rows = rows[np.argsort(first[rows], kind="stable")]  # like prefixes together
        step = max(1, _BLOCK_PARTICLES // size)
        jobs.extend((rows[i : i + step], size, method) for i in range(0, len(rows), step))

    enumerated = count <= max_enumerated
    for m in np.unique(count[enumerated]):
        split(np.flatnonzero(enumerated & (count == m)), 1 << int(m), "enumeration" if m else "complete")
    split(np.flatnonzero(~enumerated & free_suffix), n_particles, "prefix")
    split(np.flatnonzero(~enumerated & ~free_suffix), n_particles, "monte-carlo")

    parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_enumerate if method in ("enumeration", "complete") else _sequential)(
            network, evidence.take(rows), first[rows], size, method, n_draws, np.random.default_rng([seed, k])
        )
        for k, (rows, size, method) in enumerate(jobs)
    )
    answer = Answer.empty(n, D, n_draws)
    for (rows, _, _), part in zip(jobs, parts):
        answer.put(rows, part)
    return answer


def _normalised(log_weight: Floats) -> tuple[Floats, Floats]:
    """Weights that sum to 1 over the last axis, and the log of their mean before that."""
    top = log_weight.max(axis=1, keepdims=True)
    weight = np.exp(log_weight - top)
    total = weight.sum(axis=1, keepdims=True)
    return weight / total, (top + np.log(total / weight.shape[1]))[:, 0]


def _effective(weight: Floats) -> Floats:
    return 1.0 / np.square(weight).sum(axis=1)


def _pick(rng: np.random.Generator, weight: Floats, n: int) -> NDArray[np.intp]:
    """n indices per row, independently, with probabilities ``weight``: shape (rows, n)."""
    edges = np.cumsum(weight, axis=1)
    u = rng.random((len(weight), n)) * edges[:, -1:]
    return np.array([np.searchsorted(edge, point, side="right") for edge, point in zip(edges, u)]).clip(
        max=weight.shape[1] - 1
    )


def _enumerate(
    network: Network,
    evidence: Evidence,
    first: NDArray[np.intp],
    size: int,
    method: str,
    n_draws: int,
    rng: np.random.Generator,
) -> Answer:
    """Every completion of every row, weighed exactly."""
    n, D = evidence.one.shape
    start = int(first.min(initial=D))
    unknown = evidence.unknown
    rows = np.repeat((evidence.one > evidence.zero)[:, None, :], size, axis=1)  # (n, size, D)
    codes = (np.arange(size)[:, None] >> np.arange(size.bit_length() - 1)) & 1
    for i in range(n):
        rows[i][:, unknown[i]] = codes.astype(bool)
    bits = pack(rows.reshape(-1, D))
    prefix = network.log_likelihood(pack(rows[:, 0]), 0, start)
    log_weight = network.log_likelihood(bits, start, D).reshape(n, size)
    with np.errstate(divide="ignore"):
        log_weight += np.where(rows, np.log(evidence.one)[:, None], np.log(evidence.zero)[:, None]).sum(axis=2)
    weight, log_mean = _normalised(log_weight)
    probability = np.einsum("ns,nsd->nd", weight, rows)
    draws = rows[np.arange(n)[:, None], _pick(rng, weight, n_draws)].transpose(1, 0, 2).astype(np.uint8)
    return Answer(
        probability,
        draws,
        prefix + log_mean + np.log(size),
        np.full(n, method),
        np.full(n, np.inf),
    )


def _sequential(
    network: Network,
    evidence: Evidence,
    first: NDArray[np.intp],
    n_particles: int,
    method: str,
    n_draws: int,
    rng: np.random.Generator,
) -> Answer:
    """Sequential Monte Carlo with ``n_particles`` per row, all rows of the block side by side."""
    n, D = evidence.one.shape
    total = n * n_particles
    start = int(first.min())
    certain = pack(evidence.one > evidence.zero)
    prefix_log = network.log_likelihood(certain, 0, start)
    keep = np.zeros(8 * certain.rows.shape[1], bool)
    keep[:start] = True
    rows = np.repeat(certain.rows & np.packbits(keep, bitorder="little"), n_particles, axis=0)
    columns = _core.transpose(rows, D)
    log_weight = np.zeros((n, n_particles))
    for d in range(start, D):
        one = probabilities(network.log_odds(d, columns, total)).reshape(n, n_particles) * UNIT
        one = one.clip(UNIT / 2, 1 - UNIT / 2)
        one_seen = one * evidence.one[:, d, None]
        seen = one_seen + (1.0 - one) * evidence.zero[:, d, None]
        bit = (rng.random((n, n_particles)) * seen < one_seen).ravel()
        rows[:, d // 8] |= bit.astype(np.uint8) << (d % 8)
        packed = np.packbits(bit, bitorder="little")
        columns[d].view(np.uint8)[: len(packed)] = packed
        informative = evidence.one[:, d] != evidence.zero[:, d]
        if not informative.any():
            continue
        log_weight[informative] += np.log(seen[informative])
        weight, log_mean = _normalised(log_weight)
        poor = _effective(weight) < n_particles / 2
        if poor.any():
            source = np.arange(total).reshape(n, n_particles)
            source[poor] = _systematic(rng, weight[poor]) + np.flatnonzero(poor)[:, None] * n_particles
            rows = rows[source.ravel()]
            columns[: d + 1] = _core.transpose(rows, d + 1)
            log_weight[poor] = log_mean[poor, None]
    weight, log_mean = _normalised(log_weight)
    particles = np.unpackbits(rows, axis=1, count=D, bitorder="little").reshape(n, n_particles, D)
    probability = np.einsum("np,npd->nd", weight, particles)
    draws = particles[np.arange(n)[:, None], _pick(rng, weight, n_draws)].transpose(1, 0, 2)
    return Answer(probability, draws, prefix_log + log_mean, np.full(n, method), _effective(weight))


def _systematic(rng: np.random.Generator, weight: Floats) -> NDArray[np.intp]:
    """As many indices per row as it has weights, each drawn about weight x number times."""
    n, m = weight.shape
    edges = np.cumsum(weight, axis=1)
    edges /= edges[:, -1:]
    points = (np.arange(m) + rng.random((n, 1))) / m
    return np.array([np.searchsorted(edge, point, side="right") for edge, point in zip(edges, points)]).clip(max=m - 1)
