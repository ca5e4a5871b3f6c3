"""The trained network as a value: an order of the columns and, for each, the trees that predict it from those before it.

Log-likelihoods are integers throughout, so that no answer depends on how the work was shared out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.trees import NO_LIMIT, UNIT, Trees, log_likelihoods, probabilities
from lbarn._network.codec import Codec, new_digest
from lbarn._network.conditioning import Answer, Evidence, condition

__all__ = ["Bits", "Chunk", "Distribution", "Network", "RowCodec"]

Bits = NDArray[np.bool_]  # rows of 0 and 1, columns as the user gave them
Floats = NDArray[np.float64]
Chunk = tuple[int, Bits, Bits | None]  # first row, values, where they are missing (None: nowhere)

_PARTICLES = 1000  # for the likelihood of rows with missing values
_DRAWN_ROWS = 4096  # rows drawn together, each such block from a random stream of its own


class RowCodec(Protocol):
    """Rows to bytes and back, without loss."""

    fingerprint: bytes

    def compress(self, chunks: Iterable[Bits]) -> bytes: ...
    def decompress(self, data: Any, max_rows: int | None = None) -> NDArray[np.uint8]: ...
    def decompress_chunks(self, data: Any, max_rows: int | None = None) -> Iterator[NDArray[np.uint8]]: ...


class Distribution(Protocol):
    """What can be asked of a trained model of rows: a network, or a mixture of networks."""

    @property
    def n_columns(self) -> int: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def most_trees(self) -> int:
        """Of the column that has most."""

    def log_likelihood(self, rows: Bits, n_jobs: int | None = None, missing: Bits | None = None) -> Floats:
        """log p(x) of every row, in nats; of the values that are there, if some are missing."""

    def surprise(self, rows: Bits, n_jobs: int | None = None) -> Floats:
        """How unexpected every value is, in nats, shape (n, D)."""

    def draw(self, n: int, random: np.random.RandomState, n_jobs: int | None = None) -> NDArray[np.uint8]:
        """New rows, shape (n, D)."""

    def draw_given(
        self,
        chunks: Iterable[Chunk],
        n_each: int,
        random: np.random.RandomState,
        *,
        n_particles: int,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.str_], Floats]:
        """``n_each`` rows for each row that is given in part, grouped; the method and the effective sample size of each."""

    def condition(
        self,
        chunks: Iterable[Chunk],
        random: np.random.RandomState,
        *,
        flip: float = 0.0,
        n_draws: int = 1,
        n_particles: int,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[int, Answer]]:
        """(first row, answer) for successive chunks of rows that are incomplete, or flipped with probability ``flip``."""

    def importance(self) -> sp.csr_array:
        """``[i, j]``: summed gain of predictor ``j`` for column ``i``."""

    def codec(self, n_jobs: int | None = None) -> RowCodec: ...

    def fingerprint(self) -> bytes:
        """Of what determines the probabilities, and nothing else."""


@dataclass(frozen=True, eq=False)
class Network:
    """``P(x) = prod_k P(x_order[k] | x_order[0..k-1])``; ``trees`` go by position in the order."""

    order: NDArray[np.intp]
    trees: tuple[Trees, ...]

    @property
    def n_columns(self) -> int:
        return len(self.order)

    @property
    def n_trees(self) -> int:
        return sum(len(trees) for trees in self.trees)

    @property
    def most_trees(self) -> int:
        return max(len(trees) for trees in self.trees)

    @cached_property
    def position(self) -> NDArray[np.intp]:
        """The position of every column."""
        return np.argsort(self.order)

    # ------------------------------------------------------------------ complete rows

    def log_p(self, bits: PackedBits, n_jobs: int | None = None) -> NDArray[np.int64]:
        """log p(x) of rows in network order, in units of 2^-30."""
        jobs = max(1, min(effective_n_jobs(n_jobs), len(self.trees)))
        positions = range(len(self.trees))
        bits.columns  # noqa: B018  transposed once, before the threads share it
        parts = Parallel(n_jobs=jobs, require="sharedmem")(
            delayed(self._sum)(positions[j::jobs], bits) for j in range(jobs)
        )
        return np.sum(parts, axis=0)

    def _sum(self, positions: Sequence[int], bits: PackedBits) -> NDArray[np.int64]:
        total = np.zeros(bits.n_rows, np.int64)
        for position in positions:
            log_odds = self.trees[position].log_odds(bits.columns, bits.n_rows)
            total += log_likelihoods(log_odds, bits.columns[position])
        return total

    def log_p_each(self, bits: PackedBits, n_jobs: int | None = None) -> NDArray[np.int64]:
        """log p(x_d | x_<d) per position and row, of rows in network order, in units of 2^-30, shape (D, n)."""
        bits.columns  # noqa: B018
        rows = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(self._sum)([position], bits) for position in range(len(self.trees))
        )
        return np.array(rows)

    def log_likelihood(self, rows: Bits, n_jobs: int | None = None, missing: Bits | None = None) -> Floats:
        """log p(x) of every row, in nats; of the values that are there, if some are missing.

        What follows the last value that is there sums to one, whatever it may be, and is left out.
        """
        if missing is None:
            return UNIT * self.log_p(pack(rows, self.order), n_jobs).astype(np.float64)
        rows, missing = rows[:, self.order], missing[:, self.order]
        end = np.where(missing.all(axis=1), 0, self.n_columns - np.argmin(missing[:, ::-1], axis=1))
        complete = ~missing.any(axis=1)
        log_p = np.zeros(len(rows))
        log_p[complete] = UNIT * self.log_p(pack(rows[complete]), n_jobs)
        for stop in np.unique(end[~complete & (end > 0)]).tolist():
            group = np.flatnonzero(~complete & (end == stop))
            evidence = Evidence.of(rows[group, :stop], missing[group, :stop], flip=0.0)
            answer = condition(self.trees[:stop], evidence, n_draws=1, n_particles=_PARTICLES, seed=0, n_jobs=n_jobs)
            log_p[group] = answer.log_marginal
        return log_p

    def surprise(self, rows: Bits, n_jobs: int | None = None) -> Floats:
        """-log p(x_d | x_<d) of every value, in nats, shape (n, D); a row sums to -log p(x)."""
        return -UNIT * self.log_p_each(pack(rows, self.order), n_jobs)[self.position].T.astype(np.float64)

    def cumulative(self, chunks: Iterable[Bits], n_jobs: int | None = None) -> Floats:
        """Mean log p(x) of the first 1, 2, ..., D columns of the order, in nats."""
        n_rows, total = 0, np.zeros(self.n_columns, np.int64)
        for rows in chunks:
            n_rows += len(rows)
            total += self.log_p_each(pack(rows, self.order), n_jobs).sum(axis=1)
        return np.cumsum(total * UNIT) / n_rows

    # ------------------------------------------------------------------ new rows

    def draw(self, n: int, random: np.random.RandomState, n_jobs: int | None = None) -> NDArray[np.uint8]:
        """``n`` new rows, exactly."""
        return self.draw_on(None, n, int(random.randint(2**31 - 1)), n_jobs)

    def draw_on(self, known: Floats | None, n: int, seed: int, n_jobs: int | None = None) -> NDArray[np.uint8]:
        """``n`` rows. ``known`` (n, D) fixes values where it is not NaN: in each row a prefix of the order."""
        if known is not None:
            known = known[:, self.order]
        blocks = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(self._draw_block)(
                min(_DRAWN_ROWS, n - start),
                (seed, block),
                None if known is None else known[start : start + _DRAWN_ROWS],
            )
            for block, start in enumerate(range(0, n, _DRAWN_ROWS))
        )
        return np.concatenate(blocks)

    def _draw_block(self, n: int, seed: tuple[int, int], known: Floats | None) -> NDArray[np.uint8]:
        rng = np.random.default_rng(seed)
        columns = np.zeros((self.n_columns, _core.column_words(n)), np.uint64)
        rows = np.empty((n, self.n_columns), np.uint8)
        for d, trees in enumerate(self.trees):
            bit = rng.integers(0, 1 << 30, n, dtype=np.int32) < probabilities(trees.log_odds(columns, n))
            if known is not None:
                bit = np.where(np.isnan(known[:, d]), bit, known[:, d] == 1)
            rows[:, self.order[d]] = bit
            packed = np.packbits(bit, bitorder="little")
            columns[d].view(np.uint8)[: len(packed)] = packed
        return rows

    def draw_given(
        self,
        chunks: Iterable[Chunk],
        n_each: int,
        random: np.random.RandomState,
        *,
        n_particles: int,
        n_jobs: int | None = None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.str_], Floats]:
        """Exact where what is fixed is a prefix of the order in every row; otherwise as by ``condition``."""
        given = list(chunks)
        known = np.concatenate([_with_gaps(values, missing) for _, values, missing in given])
        free = np.isnan(known[:, self.order])
        if not (free[:, :-1] & ~free[:, 1:]).any():
            seed = int(random.randint(2**31 - 1))
            rows = self.draw_on(np.repeat(known, n_each, axis=0), n_each * len(known), seed, n_jobs)
            return rows, np.full(len(known), "prefix"), np.full(len(known), np.inf)
        return given_by_conditioning(self, given, n_each, random, n_particles, n_jobs)

    # ------------------------------------------------------------------ incomplete rows

    def condition(
        self,
        chunks: Iterable[Chunk],
        random: np.random.RandomState,
        *,
        flip: float = 0.0,
        n_draws: int = 1,
        n_particles: int,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[int, Answer]]:
        seed = int(random.randint(2**31 - 1))
        for start, values, missing in chunks:
            holes = None if missing is None else missing[:, self.order]
            answer = condition(
                self.trees,
                Evidence.of(values[:, self.order], holes, flip),
                n_draws=n_draws,
                n_particles=n_particles,
                seed=(seed, start),
                n_jobs=n_jobs,
            )
            yield start, answer.in_columns(self.order)

    # ------------------------------------------------------------------ what it is made of

    def importance(self) -> sp.csr_array:
        rows, columns, gains = [], [], []
        for d, trees in enumerate(self.trees):
            gain = trees.importance(d)
            used = np.flatnonzero(gain)
            rows.append(np.full(len(used), self.order[d]))
            columns.append(self.order[used])
            gains.append(gain[used])
        index = np.concatenate(rows), np.concatenate(columns)
        return sp.csr_array((np.concatenate(gains), index), shape=(self.n_columns, self.n_columns))

    def codec(self, n_jobs: int | None = None) -> Codec:
        return Codec(self, n_jobs)

    def fingerprint(self) -> bytes:
        """Of what determines the probabilities, and nothing else: the order and the selected trees."""
        digest = new_digest(16)
        digest.update(self.order.astype("<u4").tobytes())
        for trees in self.trees:
            digest.update(len(trees).to_bytes(8, "little"))
            digest.update(trees.offsets.astype("<i8", copy=False).tobytes())
            digest.update(trees.splits.astype("<u2", copy=False).tobytes())
            digest.update(trees.values.astype("<i4", copy=False).tobytes())
            if trees.limit != NO_LIMIT:
                digest.update(trees.limit.to_bytes(4, "little"))
        return digest.digest()


def _with_gaps(values: Bits, missing: Bits | None) -> Floats:
    known = values.astype(np.float64)
    if missing is not None:
        known[missing] = np.nan
    return known


def given_by_conditioning(
    model: Distribution,
    chunks: Iterable[Chunk],
    n_each: int,
    random: np.random.RandomState,
    n_particles: int,
    n_jobs: int | None,
) -> tuple[NDArray[np.uint8], NDArray[np.str_], Floats]:
    """``Distribution.draw_given`` for any pattern of what is given."""
    answers = [
        answer for _, answer in model.condition(chunks, random, n_draws=n_each, n_particles=n_particles, n_jobs=n_jobs)
    ]
    draws = np.concatenate([answer.draws for answer in answers], axis=1)  # (n_each, rows given, D)
    rows = draws.swapaxes(0, 1).reshape(-1, model.n_columns)
    method = np.concatenate([answer.method for answer in answers])
    return rows, method, np.concatenate([answer.effective for answer in answers])
