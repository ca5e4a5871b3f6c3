"""The trained network as a value: an order of the columns and, for each, the trees that predict it from those before it.

Rows are rows of cells, one per column, as the codebook has numbered them; of binary columns these are 0 and 1. Log-likelihoods are
integers throughout, so that no answer depends on how the work was shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.codetree import UNKNOWN, Cells, Layout
from lbarn._engine.trees import NO_LIMIT, NO_STRETCH, UNIT, Trees, log_likelihoods, probabilities
from lbarn._network.codec import Codec
from lbarn._network.conditioning import Answer, Effort, condition
from lbarn._network.envelope import new_digest
from lbarn._network.evidence import Evidence
from lbarn._network.nodes import NodeTrees, packed_word
from lbarn._network.streams import Streams

__all__ = ["Distribution", "Given", "GivenChunk", "Network", "RowCodec", "given_by_conditioning"]

Floats = NDArray[np.float64]

_EFFORT = Effort(4000, 0.01, "marginal")  # for the likelihood of rows with missing values
_FEW_ROWS = 4  # up to which rows are evaluated one by one
_GIVEN_ROWS = 4096  # rows that are conditioned on together
_DRAWN_TOGETHER = 4  # blocks of rows


class RowCodec(Protocol):
    """Rows to bytes and back, without loss."""

    fingerprint: bytes

    def compress(self, chunks: Iterable[Cells]) -> bytes: ...
    def decompress(self, data: Any, max_rows: int | None = None) -> Cells: ...
    def decompress_chunks(self, data: Any, max_rows: int | None = None) -> Iterator[Cells]: ...


@dataclass(frozen=True, eq=False)
class Given:
    """What is known of rows: their cells, where they are unknown, and how likely what was seen makes the cells of some columns.

    ``cells`` are (n, columns) as the columns were given. ``likelihood`` is by column, (n, cells) or (cells,), and counts where the
    cell is unknown; an unknown cell without any may be all that can be drawn, or all but the missing value if ``present``. If
    unknown cells are ``empty``, those of columns with missing values were seen to be such, which tells something of the others.
    """

    cells: Cells
    unknown: NDArray[np.bool_] | None
    likelihood: Mapping[int, Floats] = field(default_factory=dict)
    present: bool = True
    empty: bool = False

    @classmethod
    def flipped(cls, cells: Cells, unknown: NDArray[np.bool_] | None, flip: float) -> Given:
        """Bits that were flipped with a probability."""
        if flip == 0:
            return cls(cells, unknown)
        gone = np.zeros(cells.shape, np.bool_) if unknown is None else unknown
        one = np.where(gone, 1.0, np.where(cells != 0, 1.0 - flip, flip))
        zero = np.where(gone, 1.0, 1.0 - one)
        likelihood = {j: np.stack([zero[:, j], one[:, j]], axis=1) for j in range(cells.shape[1])}
        return cls(cells, np.ones(cells.shape, np.bool_), likelihood)

    def __len__(self) -> int:
        return len(self.cells)

    def take(self, rows: NDArray[np.intp]) -> Given:
        unknown = None if self.unknown is None else self.unknown[rows]
        likelihood = {j: own[rows] if own.ndim == 2 else own for j, own in self.likelihood.items()}
        return replace(self, cells=self.cells[rows], unknown=unknown, likelihood=likelihood)

    def chunks(self, size: int) -> Iterator[tuple[int, Given]]:
        for start in range(0, len(self), size):
            yield start, self.take(np.arange(start, min(start + size, len(self))))


GivenChunk = tuple[int, Given]  # first row, what is known


class Distribution(Protocol):
    """What can be asked of a trained model of rows: a network, or a mixture of networks."""

    @property
    def n_columns(self) -> int: ...
    @property
    def n_trees(self) -> int: ...
    @property
    def most_trees(self) -> int:
        """Of the column that has most."""

    @property
    def layout(self) -> Layout:
        """The bits of the columns, as they were given."""

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Binary columns of which at most one is 1 in a row, or nearly so."""

    def log_likelihood(
        self, rows: Cells, n_jobs: int | None = None, unknown: NDArray[np.bool_] | None = None
    ) -> Floats:
        """log p(x) of every row, in nats; of the values that are there, if some are unknown."""

    def surprise(self, rows: Cells, n_jobs: int | None = None) -> Floats:
        """How unexpected every value is, in nats, shape (n, D)."""

    def predictions(self, rows: Cells) -> list[Floats]:
        """For every column, P of its cells given those before it in the order, (n, cells), whatever it holds itself."""

    def draw(self, n: int, random: np.random.RandomState, n_jobs: int | None = None) -> Cells:
        """New rows, shape (n, D)."""

    def draw_given(
        self, given: Given, n_each: int, random: np.random.RandomState, *, effort: Effort, n_jobs: int | None = None
    ) -> tuple[Cells, NDArray[np.str_], Floats]:
        """``n_each`` rows for each row that is given in part, grouped; the method and the effective sample size of each."""

    def condition(
        self,
        chunks: Iterable[GivenChunk],
        random: np.random.RandomState,
        *,
        n_draws: int = 1,
        effort: Effort,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[int, Answer]]:
        """(first row, answer) for successive chunks of rows that are known in part."""

    def importance(self) -> sp.csr_array:
        """``[i, j]``: summed gain of predictor ``j`` for column ``i``."""

    def codec(self, n_jobs: int | None = None) -> RowCodec: ...

    def fingerprint(self) -> bytes:
        """Of what determines the probabilities, and nothing else."""


@dataclass(frozen=True, eq=False)
class Network:
    """``P(x) = prod_k P(x_order[k] | x_order[0..k-1])``.

    ``ordered_layout`` has the columns in network order; ``trees`` go by node, column after column.
    """

    order: NDArray[np.intp]
    trees: tuple[Trees, ...]
    ordered_layout: Layout

    def __getstate__(self) -> dict[str, object]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # what was derived from them stays here

    @property
    def n_columns(self) -> int:
        return len(self.order)

    @property
    def n_trees(self) -> int:
        return int(self.column_trees.sum())

    @property
    def most_trees(self) -> int:
        return int(self.column_trees.max())

    @cached_property
    def column_trees(self) -> NDArray[np.intp]:
        """The number of trees of every column, in network order; those of a node that is not learned do not count."""
        counts = np.array([len(trees) for trees in self.trees], dtype=np.intp)
        if not self.ordered_layout.is_binary:
            counts[[len(trees) == 1 and not len(trees.splits) for trees in self.trees]] = 0
        return np.bincount(self.ordered_layout.node_column, counts, self.n_columns).astype(np.intp)

    @cached_property
    def layout(self) -> Layout:
        return self.ordered_layout.permuted(self.position)

    @cached_property
    def position(self) -> NDArray[np.intp]:
        """The place of every column in the order."""
        return np.argsort(self.order)

    @cached_property
    def has_counts(self) -> bool:
        return any(trees.counts is not None for trees in self.trees)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Binary columns of which at most one is 1 in a row, or nearly so."""
        owner = self.ordered_layout.bit_column
        found: dict[int, set[int]] = {}  # by the first of them
        for k, trees in zip(self.ordered_layout.node_column.tolist(), self.trees):
            if len(trees.closers):
                members = owner[trees.closers].tolist()
                found.setdefault(min(members), set()).update(members, [k])
        return tuple(tuple(sorted(self.order[list(members)].tolist())) for members in found.values())

    @cached_property
    def nodes(self) -> NodeTrees:
        return NodeTrees(self.ordered_layout, self.trees)

    # ------------------------------------------------------------------ complete rows

    def log_p(self, rows: Cells, n_jobs: int | None = None) -> NDArray[np.int64]:
        """log p(x) of rows of cells in network order, in units of 2^-30; unknown ones count for nothing."""
        jobs = max(1, min(effective_n_jobs(n_jobs), self.n_columns))
        columns = range(self.n_columns)
        evaluate = self._evaluator(rows)
        parts = Parallel(n_jobs=jobs, require="sharedmem")(
            delayed(_total)(evaluate, columns[j::jobs], len(rows)) for j in range(jobs)
        )
        return np.sum(parts, axis=0)

    def log_p_each(self, rows: Cells, n_jobs: int | None = None) -> NDArray[np.int64]:
        """log p(x_d | x_<d) per column and row, of rows of cells in network order, in units of 2^-30, shape (D, n)."""
        evaluate = self._evaluator(rows)
        parts = Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(evaluate)(k) for k in range(self.n_columns))
        return np.array(parts)

    def _evaluator(self, rows: Cells) -> Callable[[int], NDArray[np.int64]]:
        """log p of the column at a place in the order, for every row. A row only pays for the nodes that it reaches."""
        bits = self.ordered_layout.pack(rows)
        everyone = np.arange(len(rows), dtype=np.int32)
        if not self.ordered_layout.is_binary:
            return lambda k: self.nodes.log_p(k, np.ascontiguousarray(rows[:, k]), bits.rows, everyone)
        columns = bits.columns  # transposed once, before threads share it

        def evaluate(k: int) -> NDArray[np.int64]:
            trees = self.trees[k]
            odds = (
                trees.log_odds_at(bits.rows, everyone) if len(rows) <= _FEW_ROWS else trees.log_odds(columns, len(rows))
            )
            return log_likelihoods(odds, columns[k])

        return evaluate

    def log_likelihood(
        self, rows: Cells, n_jobs: int | None = None, unknown: NDArray[np.bool_] | None = None
    ) -> Floats:
        """log p(x) of every row, in nats; of the values that are there, if some are unknown.

        What follows the last value that is there sums to one, whatever it may be, and is left out.
        """
        rows = rows[:, self.order]
        if unknown is None:
            return UNIT * self.log_p(rows, n_jobs).astype(np.float64)
        unknown = unknown[:, self.order]
        end = np.where(unknown.all(axis=1), 0, self.n_columns - np.argmin(unknown[:, ::-1], axis=1))
        complete = ~unknown.any(axis=1)
        log_p = np.zeros(len(rows))
        log_p[complete] = UNIT * self.log_p(rows[complete], n_jobs)
        for stop in np.unique(end[~complete & (end > 0)]).tolist():
            group = np.flatnonzero(~complete & (end == stop))
            layout = Layout(self.ordered_layout.columns[:stop])
            evidence = Evidence.of(layout, rows[group, :stop], unknown[group, :stop])
            answer = condition(self.nodes, evidence, n_draws=1, effort=_EFFORT, seed=0, n_jobs=n_jobs)
            log_p[group] = answer.log_marginal
        return log_p

    def surprise(self, rows: Cells, n_jobs: int | None = None) -> Floats:
        """-log p(x_d | x_<d) of every value, in nats, shape (n, D); a row sums to -log p(x)."""
        return -UNIT * self.log_p_each(rows[:, self.order], n_jobs)[self.position].T.astype(np.float64)

    def cumulative(self, chunks: Iterable[Cells], n_jobs: int | None = None) -> Floats:
        """Mean log p(x) of the first 1, 2, ..., D columns of the order, in nats."""
        n_rows, total = 0, np.zeros(self.n_columns, np.int64)
        for rows in chunks:
            n_rows += len(rows)
            total += self.log_p_each(rows[:, self.order], n_jobs).sum(axis=1)
        return np.cumsum(total * UNIT) / n_rows

    def last_column(self, rows: Cells, n_jobs: int | None = None) -> Floats:
        """log P of every cell of the last column of the order given the others, in nats, (n, cells); its own value is not looked at."""
        ordered = rows[:, self.order].copy()
        ordered[:, -1] = 0
        step = max(1, -(-len(rows) // max(1, effective_n_jobs(n_jobs))))
        parts = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(self.nodes.cell_log_p)(
                self.n_columns - 1, self.ordered_layout.pack(ordered[start : start + step]).rows
            )
            for start in range(0, len(rows), step)
        )
        return np.concatenate(parts)

    def predictions(self, rows: Cells) -> list[Floats]:
        """For every column, P of its cells given those before it in the order, (n, cells), whatever it holds itself."""
        packed = self.ordered_layout.pack(rows[:, self.order]).rows
        return [np.exp(self.nodes.cell_log_p(int(k), packed)) for k in self.position]

    # ------------------------------------------------------------------ new rows

    def draw(self, n: int, random: np.random.RandomState, n_jobs: int | None = None) -> Cells:
        """``n`` new rows, exactly."""
        return self.draw_on(None, n, int(random.randint(2**31 - 1)), n_jobs)

    def draw_on(self, known: Cells | None, n: int, seed: int, n_jobs: int | None = None) -> Cells:
        """``n`` rows. ``known`` (n, D) fixes cells where it is not ``UNKNOWN``: in each row a prefix of the order."""
        if known is not None:
            known = known[:, self.order]
        streams = Streams.of(n, seed)
        # Rows of cells are few at any one node: it pays to take some blocks together.
        most = 1 if self.ordered_layout.is_binary else _DRAWN_TOGETHER
        step = max(1, min(most, -(-len(streams) // effective_n_jobs(n_jobs))))
        draw = self._draw_bits if self.ordered_layout.is_binary else self._draw_cells
        rows = Parallel(n_jobs=n_jobs, require="sharedmem")(
            delayed(draw)(part, None if known is None else known[start : start + part.n_rows])
            for start, part in streams.parts(step)
        )
        return np.concatenate(rows)

    def _draw_bits(self, streams: Streams, known: Cells | None) -> Cells:
        n = streams.n_rows
        columns = np.zeros((self.n_columns, _core.column_words(n)), np.uint64)
        rows = np.empty((n, self.n_columns), np.uint8)
        everyone = np.ones(n, np.bool_)
        for d, trees in enumerate(self.trees):
            bit = streams.numbers(everyone) < probabilities(trees.log_odds(columns, n))
            if known is not None:
                bit = np.where(known[:, d] == UNKNOWN, bit, known[:, d] == 1)
            rows[:, self.order[d]] = bit
            columns[d] = packed_word(bit)
        return rows

    def _draw_cells(self, streams: Streams, known: Cells | None) -> Cells:
        """Rows fall through the tree of one column after the other; at nodes that are not learned they take the likely side."""
        n = streams.n_rows
        packed = np.zeros((n, row_bytes(self.ordered_layout.n_bits)), np.uint8)
        everyone = np.arange(n, dtype=np.int32)
        rows = np.empty((n, self.n_columns), np.uint16)
        for k, column in enumerate(self.ordered_layout.columns):
            at = np.full(n, 0 if column.n_nodes else ~0, np.int32)
            if known is not None:
                at = np.where(known[:, k] == UNKNOWN, at, ~known[:, k].astype(np.int32))
            children = column.drawn_children.ravel()
            while (falls := at >= 0).any():
                odds = self.nodes.log_odds(k, at, packed, everyone)
                bit = streams.numbers(falls) < probabilities(odds)
                at = np.where(falls, children[2 * np.maximum(at, 0) + bit], at)
            rows[:, self.order[k]] = ~at
            self.ordered_layout.set_column(packed, k, ~at)
        return rows

    def draw_given(
        self, given: Given, n_each: int, random: np.random.RandomState, *, effort: Effort, n_jobs: int | None = None
    ) -> tuple[Cells, NDArray[np.str_], Floats]:
        """Exact where what is fixed is a prefix of the order in every row; otherwise as by ``condition``."""
        unknown = np.zeros(given.cells.shape, np.bool_) if given.unknown is None else given.unknown
        free = unknown[:, self.order]
        if not given.likelihood and not given.present and not (free[:, :-1] & ~free[:, 1:]).any():
            seed = int(random.randint(2**31 - 1))
            known = np.where(unknown, UNKNOWN, given.cells).astype(np.uint16)
            rows = self.draw_on(np.repeat(known, n_each, axis=0), n_each * len(known), seed, n_jobs)
            return rows, np.full(len(known), "prefix"), np.full(len(known), np.inf)
        return given_by_conditioning(self, given, n_each, random, effort, n_jobs)

    # ------------------------------------------------------------------ incomplete rows

    def condition(
        self,
        chunks: Iterable[GivenChunk],
        random: np.random.RandomState,
        *,
        n_draws: int = 1,
        effort: Effort,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[int, Answer]]:
        seed = int(random.randint(2**31 - 1))
        for start, given in chunks:
            evidence = Evidence.of(
                self.ordered_layout,
                given.cells[:, self.order],
                None if given.unknown is None else given.unknown[:, self.order],
                {int(self.position[j]): own for j, own in given.likelihood.items()},
                present=given.present,
                empty=given.empty,
            )
            answer = condition(
                self.nodes, evidence, n_draws=n_draws, effort=effort, seed=seed, first_row=start, n_jobs=n_jobs
            )
            yield start, answer.in_columns(self.order)

    # ------------------------------------------------------------------ what it is made of

    def importance(self) -> sp.csr_array:
        rows, columns, gains = [], [], []
        column_of_bit = self.order[self.ordered_layout.bit_column]
        for node, trees in enumerate(self.trees):
            gain = trees.importance(int(self.ordered_layout.node_position[node]))
            used = np.flatnonzero(gain)
            rows.append(np.full(len(used), self.order[self.ordered_layout.node_column[node]]))
            columns.append(column_of_bit[used])
            gains.append(gain[used])
        index = np.concatenate(rows), np.concatenate(columns)
        return sp.csr_array((np.concatenate(gains), index), shape=(self.n_columns, self.n_columns))

    def codec(self, n_jobs: int | None = None) -> Codec:
        return Codec(self, n_jobs)

    def fingerprint(self) -> bytes:
        """Of what determines the probabilities, and nothing else: the order, the columns' bits and the selected trees."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> bytes:
        digest = new_digest(16)
        digest.update(self.order.astype("<u4").tobytes())
        if not self.ordered_layout.is_binary:
            for column in self.ordered_layout.columns:
                for part in (column.low, column.cut, column.high, column.ones_low, column.ones_high):
                    digest.update(part.astype("<i4").tobytes() + b"|")
        for trees in self.trees:
            digest.update(len(trees).to_bytes(8, "little"))
            digest.update(trees.offsets.astype("<i8", copy=False).tobytes())
            digest.update(trees.splits.astype("<u2", copy=False).tobytes())
            digest.update(trees.values.astype("<i4", copy=False).tobytes())
            if trees.limit != NO_LIMIT:
                digest.update(trees.limit.to_bytes(4, "little"))
            if trees.stretch != NO_STRETCH:
                digest.update(bytes(trees.stretch))
            if trees.counts is not None:
                own = trees.counts
                digest.update(own.masks.tobytes() + own.which.tobytes() + own.at_least.tobytes())
                if own.has_sums:
                    digest.update(own.first.astype("<u4").tobytes() + own.base.astype("<u2").tobytes())
            if len(trees.closers):
                digest.update(trees.closers.astype("<u2").tobytes() + trees.closed.to_bytes(4, "little", signed=True))
        return digest.digest()


def _total(evaluate: Callable[[int], NDArray[np.int64]], columns: Sequence[int], n: int) -> NDArray[np.int64]:
    total = np.zeros(n, np.int64)
    for k in columns:
        total += evaluate(k)
    return total


def given_by_conditioning(
    model: Distribution, given: Given, n_each: int, random: np.random.RandomState, effort: Effort, n_jobs: int | None
) -> tuple[Cells, NDArray[np.str_], Floats]:
    """``Distribution.draw_given`` for any pattern of what is given."""
    chunks = given.chunks(_GIVEN_ROWS)
    answers = [answer for _, answer in model.condition(chunks, random, n_draws=n_each, effort=effort, n_jobs=n_jobs)]
    draws = np.concatenate([answer.draws for answer in answers], axis=1)  # (n_each, rows given, D)
    rows = draws.swapaxes(0, 1).reshape(-1, model.n_columns)
    method = np.concatenate([answer.method for answer in answers])
    return rows, method, np.concatenate([answer.effective for answer in answers])
