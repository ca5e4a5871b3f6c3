"""A network given evidence: what the unknown bits of a row may be, and how likely what was seen is.

Particles (``particles``) are different beginnings of a row. At a bit that is not known every particle becomes two, so nothing is
left to chance as long as there is room for all: up to 4,096 completions are enumerated. Beyond that a row keeps ``n_particles`` of
them (``thinning``), which leaves the total weight as it was: where nothing is seen after the certain prefix of a row, its draws are
exact.

Two sorts of rows need more. If what is seen is so unlikely that weights leave the range of doubles, the row is done again
with their logarithms. And if, after a thinning, something is seen that no particle expected, completions that would make it likely
are followed by particles of their own (``causes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.special import logsumexp

from lbarn._engine.bits import row_bytes
from lbarn._engine.codetree import UNKNOWN, Cells
from lbarn._network.causes import MAX_DEPTH, strata_of
from lbarn._network.evidence import Evidence
from lbarn._network.nodes import NodeTrees
from lbarn._network.particles import Cloud, Logarithmic, Plain, follow, shares_of_cells

__all__ = ["MAX_ENUMERATED", "Answer", "condition"]

MAX_ENUMERATED = 12  # unknown bits: that many doublings of the number of completions
_PSEUDOCOUNT = 0.5  # draws that a probability is drawn back by to what was expected before the later evidence
_BLOCK_PARTICLES = 32_768  # looked at together
_BLOCK_VALUES = 8_000_000  # particles x columns whose descent is kept
_TOLD = 4.0  # variance of an answer that warns of itself: looking ahead, dear as it is, seldom makes it much better

Floats = NDArray[np.float64]


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
    cloud = follow(network, evidence, limit, rng, Plain)
    answer = _answer([cloud], evidence, method, n_draws, rng)
    # All that follows is for the few rows that need it, and draws after the others have drawn.
    clouds = [(np.arange(len(cloud.lost)), cloud)]
    if cloud.lost.any():
        lost = np.flatnonzero(cloud.lost)
        seen = evidence.take(lost)
        again = follow(network, seen, limit, rng, Logarithmic)
        answer.put(lost, _answer([again], seen, method, n_draws, rng))
        clouds.append((lost, again))
    for rows, cloud in clouds:
        for i in np.flatnonzero((cloud.unexpected >= 0) & ~cloud.lost):
            own, seen = cloud.take(np.array([i])), evidence.take(rows[i : i + 1])
            if own.variance[0] < _TOLD:
                strata = strata_of(network, seen, own, limit, rng, MAX_DEPTH)
                if len(strata) > 1:
                    answer.put(rows[i : i + 1], _answer(strata, seen, method, n_draws, rng))
                else:
                    answer.effective[rows[i]] = _effective(strata[0].variance)[0]
    return answer


def _answer(strata: Sequence[Cloud], evidence: Evidence, method: str, n_draws: int, rng: np.random.Generator) -> Answer:
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
            found = (shares_of_cells(weight, states[:, :, k], columns[k].n_cells) + doubt * expected(k)) / (1.0 + doubt)
            cells[k] = found
    draws = states[np.arange(n)[:, None], _pick(rng, weight, n_draws)].transpose(1, 0, 2)
    return Answer(probability, draws, log_marginal, np.full(n, method), _effective(variance), cells)


def _effective(variance: Floats) -> Floats:
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / variance


def _pick(rng: np.random.Generator, weight: Floats, n: int) -> NDArray[np.intp]:
    """n indices per row, independently, with probabilities ``weight``: shape (rows, n)."""
    edges = np.cumsum(weight, axis=1)
    u = rng.random((len(weight), n)) * edges[:, -1:]
    return np.array([np.searchsorted(edge, point, side="right") for edge, point in zip(edges, u)])
