"""A network given evidence: what the unknown bits of a row may be, and how likely what was seen is.

Particles (``particles``) are different beginnings of a row. At a bit that is not known every particle becomes two, so nothing is
left to chance as long as there is room for all: up to 4,096 completions are enumerated. Beyond that a row keeps some of them, which
leaves the total weight as it was: where nothing is seen after the certain prefix of a row, its draws are exact. How many are
kept is doubled until the answers hardly change (``Effort``).

If, after a thinning, something is seen that no particle expected, completions that would make it likely are followed by particles
of their own (``causes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray
from scipy.special import logsumexp

from lbarn._engine.codetree import UNKNOWN, Cells
from lbarn._network.causes import MAX_DEPTH, strata_of
from lbarn._network.evidence import Evidence
from lbarn._network.nodes import NodeTrees
from lbarn._network.particles import Cloud, Followed, follow

__all__ = ["MAX_ENUMERATED", "Answer", "Effort", "condition"]

MAX_ENUMERATED = 12  # unknown bits: that many doublings of the number of completions
_START = 192  # particles before any doubling if the tolerance were 1, and more if it is smaller, by this power of it:
_STEEPNESS = 0.2  # small halves may both miss what matters, and a row that is done again pays for its trees again
_WHOLE = 64  # particles are looked at so many at a time
_FEW = 64  # particles that do not part, for two halves would be worse
_DOUBLINGS = 1.0  # of the particles, to halve the error: some rows need a second one
_MOST_DOUBLINGS = 3  # at a time
_PSEUDOCOUNT = 0.5  # draws that a probability is drawn back by to what was expected before the later evidence
_BLOCK_PARTICLES = 32_768  # looked at together
_BLOCK_VALUES = 8_000_000  # particles x columns whose descent is kept
_BLOCKS_PER_JOB = 2
_TOLD = 4.0  # variance of an answer that warns of itself: looking ahead, dear as it is, seldom makes it much better

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Effort:
    """How much is done for a row that is not enumerated: up to ``n_particles``, more and more until the error is small.

    The error is the root mean square over the row's unknown cells, or that of the log-likelihood of what was seen. It is told by
    how far two halves of the particles are apart. Without a tolerance all particles are taken at once, in one.
    """

    n_particles: int
    tolerance: float = 0.0
    asked: Literal["cells", "marginal"] = "cells"

    def first(self, n_draws: int) -> int:
        """As many particles to begin with: no fewer than draws, or too many of these would be the same."""
        if self.tolerance == 0:
            return self.n_particles
        start = _WHOLE * max(1, round(_START * self.tolerance**-_STEEPNESS / _WHOLE))
        return min(max(start, n_draws), self.n_particles)

    def more(self, limit: int, error: Floats) -> NDArray[np.intp]:
        """After ``limit`` particles, how many are needed by rows with these errors; 0 where it is enough."""
        if limit >= self.n_particles:
            return np.zeros(len(error), np.intp)
        excess = np.maximum(error / self.tolerance, 1.0)
        doublings = np.clip(np.ceil(_DOUBLINGS * np.log2(excess)), 1, _MOST_DOUBLINGS)
        return np.where(excess > 1, np.minimum(limit * 2.0**doublings, self.n_particles), 0).astype(np.intp)


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
    def empty(cls, evidence: Evidence, method: NDArray[np.str_], n_draws: int) -> Answer:
        n, D = evidence.cells.shape
        layout = evidence.layout
        draws = np.empty((n_draws, n, D), np.uint8 if layout.is_binary else np.uint16)
        cells = {
            k: np.zeros((n, layout.columns[k].n_cells)) for k in evidence.likelihood if layout.columns[k].n_cells != 2
        }
        return cls(np.full((n, D), np.nan), draws, np.empty(n), method, np.empty(n), cells)

    @classmethod
    def of(cls, found: Followed, evidence: Evidence, method: NDArray[np.str_]) -> Answer:
        """What particles say."""
        columns = evidence.layout.columns
        binary = np.array([column.n_cells == 2 for column in columns])
        probability = np.where(binary & (evidence.cells != UNKNOWN), evidence.cells == 1, np.nan)
        order = sorted(evidence.likelihood)
        ends = np.cumsum([0, *(columns[k].n_cells for k in order)])
        bits = [(k, end + 1) for k, end in zip(order, ends) if binary[k]]
        if bits:
            at, ones = map(list, zip(*bits))
            probability[:, at] = np.where(evidence.unknown[:, at], found.shares[:, ones], probability[:, at])
        cells = {k: found.shares[:, ends[i] : ends[i + 1]] for i, k in enumerate(order) if not binary[k]}
        draws = found.draws.transpose(1, 0, 2)
        return cls(probability, draws, found.log_marginal, method, _effective(found.variance), cells)

    def put(self, rows: NDArray[np.intp], part: Answer) -> None:
        self.probability[rows], self.log_marginal[rows] = part.probability, part.log_marginal
        self.draws[:, rows] = part.draws
        self.method[rows], self.effective[rows] = part.method, part.effective
        for k, own in part.cells.items():
            self.cells[k][rows] = own

    def estimates(self, rows: NDArray[np.intp]) -> list[Floats]:
        """What is a number and may be off, of some rows."""
        return [own[rows] for own in (self.probability, self.log_marginal, *self.cells.values())]

    def mix(self, rows: NDArray[np.intp], before: list[Floats], error_before: Floats, error: Floats) -> Floats:
        """Mix estimates with independent ones from before, each by its error; the errors that are left."""
        share = np.where(error > 0, 1.0 / (1.0 + np.square(error / error_before)), 1.0)  # of the new ones
        mixed = np.flatnonzero(share < 1)
        for own, other in zip((self.probability, self.log_marginal, *self.cells.values()), before):
            new, weight = own[rows[mixed]], share[mixed].reshape(-1, *[1] * (own.ndim - 1))
            own[rows[mixed]] = other[mixed] + weight * (new - other[mixed])
        return error * np.sqrt(share)

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
    effort: Effort,
    seed: int,
    first_row: int = 0,
    n_jobs: int | None = None,
    max_enumerated: float = MAX_ENUMERATED,
) -> Answer:
    """Condition the network on every row of ``evidence``, whose numbers start at ``first_row``.

    ``max_enumerated=-1`` forces Monte Carlo.
    """
    unknown = evidence.unknown
    D = unknown.shape[1]
    doublings = evidence.doublings.sum(axis=1)
    count = np.ceil(doublings - 1e-9).astype(np.int64)
    first = np.where(unknown.any(axis=1), unknown.argmax(axis=1), D)  # the certain prefix ends there
    free_suffix = ~(evidence.informative & (np.arange(D) >= first[:, None])).any(axis=1)  # nothing was seen of the rest
    enumerated = doublings <= max_enumerated + 1e-9
    by_chance = np.where(free_suffix, "prefix", "monte-carlo")
    method = np.where(enumerated, np.where(count > 0, "enumeration", "complete"), by_chance)
    answer = Answer.empty(evidence, method, n_draws)
    block = _Block(network, evidence, method, n_draws, seed, first_row)
    for m in np.unique(count[enumerated]):
        block.answer(np.flatnonzero(enumerated & (count == m)), 1 << int(m), answer, n_jobs)
    todo = {effort.first(n_draws): np.flatnonzero(~enumerated)}
    error = np.full(len(unknown), np.inf)
    while todo:
        limit = min(todo)
        rows = todo.pop(limit)
        before, error_before = answer.estimates(rows), error[rows]
        error[rows] = block.answer(rows, limit, answer, n_jobs, effort)
        error[rows] = answer.mix(rows, before, error_before, error[rows])
        more = effort.more(limit, error[rows])
        for following in np.unique(more[more > 0]).tolist():
            todo[following] = np.append(todo.get(following, rows[:0]), rows[more == following])
    return answer


@dataclass(frozen=True)
class _Block:
    """Rows that are followed together."""

    network: NodeTrees
    evidence: Evidence
    method: NDArray[np.str_]
    n_draws: int
    seed: int
    first_row: int

    def answer(
        self, rows: NDArray[np.intp], limit: int, answer: Answer, n_jobs: int | None, effort: Effort | None = None
    ) -> Floats:
        """Put the answers of some rows into ``answer``, and return their errors. No row's depends on which others are with it."""
        self.network.core  # noqa: B018 - made once, before threads share it
        most = max(1, min(_BLOCK_PARTICLES, _BLOCK_VALUES // self.evidence.cells.shape[1]) // limit)
        step = max(1, min(most, -(-len(rows) // (_BLOCKS_PER_JOB * effective_n_jobs(n_jobs)))))
        blocks = [rows[i : i + step] for i in range(0, len(rows), step)]
        parts = Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(self._of)(own, limit, effort) for own in blocks)
        for own, (part, _) in zip(blocks, parts):
            answer.put(own, part)
        return np.concatenate([np.zeros(0), *(error for _, error in parts)])

    def _of(self, rows: NDArray[np.intp], limit: int, effort: Effort | None) -> tuple[Answer, Floats]:
        seen, numbers = self.evidence.take(rows), (self.first_row + rows).astype(np.uint64)
        islands = effort is not None and effort.tolerance > 0 and limit > _FEW
        found = follow(
            self.network, seen, limit, seed=self.seed, numbers=numbers, n_draws=self.n_draws, islands=islands
        )
        answer = Answer.of(found, seen, self.method[rows])
        marginal = effort is not None and effort.asked == "marginal"
        error = found.marginal_error if marginal else found.error
        for i in np.flatnonzero((found.unexpected >= 0) & (found.variance < _TOLD)).tolist():
            number, row = int(numbers[i]), np.array([i])
            rng = np.random.default_rng((self.seed, number))
            cloud = Cloud.of(self.network, seen.take(row), limit, seed=self.seed, number=number)
            strata = strata_of(self.network, seen.take(row), cloud, limit, rng, MAX_DEPTH)
            if len(strata) > 1:
                answer.put(row, _together(strata, seen.take(row), answer.method[row], self.n_draws, rng))
            else:
                answer.effective[i] = _effective(np.array(strata[0].variance))
        return answer, error


def _together(
    strata: Sequence[Cloud], evidence: Evidence, method: NDArray[np.str_], n_draws: int, rng: np.random.Generator
) -> Answer:
    """What clouds say together that share out the completions of the same row."""
    each = np.array([cloud.log_marginal for cloud in strata])
    log_marginal = logsumexp(each)
    shares = np.exp(each - log_marginal)
    weight = np.concatenate([share * cloud.weight for share, cloud in zip(shares, strata)])
    states = np.concatenate([cloud.states for cloud in strata])
    variance = sum(share**2 * cloud.variance for share, cloud in zip(shares, strata))
    # In the end the particles may agree on an early cell for want of numbers only, so a probability is drawn back to what
    # was expected of that cell: by so many draws out of as many as the particles are worth.
    doubt = _PSEUDOCOUNT * variance
    columns = evidence.layout.columns
    binary = np.array([column.n_cells == 2 for column in columns])
    probability = np.where(binary & (evidence.cells != UNKNOWN), evidence.cells == 1, np.nan)
    cells: dict[int, Floats] = {}
    for k in np.flatnonzero(evidence.unknown[0]).tolist():
        found = np.bincount(states[:, k], weight, columns[k].n_cells)
        expected = sum(share * cloud.expected[k] for share, cloud in zip(shares, strata))
        mixed = np.minimum((found + doubt * expected) / (1.0 + doubt), 1.0)
        if binary[k]:
            probability[0, k] = mixed[1]
        else:
            cells[k] = mixed[None]
    draws = states[rng.choice(len(weight), n_draws, p=weight / weight.sum())][:, None]
    return Answer(probability, draws, np.array([log_marginal]), method, _effective(np.array([variance])), cells)


def _effective(variance: Floats) -> Floats:
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / variance
