"""Lossless compression: rows of cells entropy-coded under the probabilities that a network gives their bits.

A container (``envelope``) has one stream of 32-bit words, little endian, and the checksum of the rows is that of their bits.

Probabilities are integers from integers, so every machine and SIMD path decodes what another encoded. The coder is an
asymmetric numeral system, a stack: the encoder goes through groups of rows forwards and, within a group, through positions
backwards; the decoder goes the other way and meets each bit after those it depends on. One stream for all groups, so that
nothing is added per group.

The first rows come off the stack last, so that decoding cannot stream: it holds all rows, at one bit a cell, until their
checksum is known to be right, and gives them out in chunks from there.

Zeros on an empty stack leave it empty, so a few bytes may rightly stand for millions of rows, and their number cannot be
bounded by the bytes. But a stack that gives next to nothing soon comes back to what it was, and from then on gives the same
rows again, without the model being asked and without memory. What a caller is ready to take is for ``max_rows`` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, groupby, islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.codetree import Cells, Layout
from lbarn._engine.trees import boundaries
from lbarn._network.envelope import Envelope, new_digest, stream_coder, stream_of
from lbarn.errors import CompressedDataError

if TYPE_CHECKING:
    from lbarn._network.network import Network

__all__ = [
    "BLOCK_ROWS",
    "PRECISION",
    "Codec",
    "Submit",
    "cut",
    "gathered",
    "opened",
    "pop_groups",
    "sealed",
    "threads",
    "whole_weights",
]

PRECISION = 24  # bits of the coder's probabilities: part of the format, as the core has it

_ENVELOPE = Envelope(
    magic=b"LBARNz",
    version=1,
    noun="data",
    other_model="the data was compressed with another model (fingerprint {theirs}, this one's is {ours}); the trees, their "
    "selection, leaf values and order must all be the same",
)

BLOCK_ROWS = 4096  # evaluated in one call; a multiple of 8, or the checksum of the bits would depend on it
_CELL_BLOCK_ROWS = 4 * BLOCK_ROWS  # the same for rows of cells, of which few are at any one node
_GROUP_ROWS = 65_536  # coded position by position: part of the format, as is the next line
_GROUP_BITS = 2**29

_SMALL_STACK = 16  # words

OTHER_ROWS = "the compressed data is damaged: it does not decode to the rows that went in"

_Task = Callable[[], NDArray[np.uint32]]
Submit = Callable[..., _Task]
_Group = TypeVar("_Group")


class _Block(Protocol):
    """A few thousand rows, in network order. They are coded column by column; a decoder fills them in step by step."""

    most_rows: ClassVar[int]
    n_rows: int

    @property
    def packed(self) -> NDArray[np.uint8]:
        """All bits, eight rows to a byte."""

    def coded(self, k: int) -> NDArray[np.uint32]:
        """The bits of column ``k`` as the coder takes them, (levels, n_rows)."""

    def boundaries(self, step: Any) -> NDArray[np.uint32]:
        """What the coder has to know of every row to give its bit of this step."""

    def pop(self, coder: _core.Coder, step: Any, boundaries: NDArray[np.uint32]) -> None:
        """Fill in the bits of this step."""

    def unpack(self, order: NDArray[np.intp]) -> Cells:
        """Rows of cells, columns as they were before ``order``."""


@dataclass
class _BitBlock:
    """Rows of binary columns, as column bit vectors. A step is a column."""

    most_rows: ClassVar[int] = BLOCK_ROWS
    network: Network
    columns: NDArray[np.uint64]
    n_rows: int

    @classmethod
    def of(cls, network: Network, cells: Cells) -> _BitBlock:
        return cls(network, network.ordered_layout.pack(cells).columns, len(cells))

    @classmethod
    def blank(cls, network: Network, n_rows: int) -> _BitBlock:
        return cls(network, np.zeros((network.n_columns, _core.column_words(n_rows)), np.uint64), n_rows)

    @property
    def packed(self) -> NDArray[np.uint8]:
        """The columns without their padding, eight rows to a byte."""
        return self.columns.view(np.uint8)[:, : -(-self.n_rows // 8)]

    def unpack(self, order: NDArray[np.intp]) -> NDArray[np.uint8]:
        """Rows, columns as they were before ``order``, each bit a byte."""
        rows = np.empty((self.n_rows, len(order)), np.uint8)
        rows[:, order] = np.unpackbits(self.packed, axis=1, count=self.n_rows, bitorder="little").T
        return rows

    def coded(self, k: int) -> NDArray[np.uint32]:
        bits = np.unpackbits(self.packed[k], count=self.n_rows, bitorder="little")
        return (self.boundaries(k) << np.uint32(1) | bits)[None]

    def boundaries(self, step: int) -> NDArray[np.uint32]:
        return boundaries(self.network.trees[step].log_odds(self.columns, self.n_rows))

    def pop(self, coder: _core.Coder, step: int, boundaries: NDArray[np.uint32]) -> None:
        self.packed[step] = np.packbits(coder.pop_bits(boundaries), bitorder="little")


class _CellBlock:
    """Rows of any columns. A step is a column and a level of its tree, on which every row is at one node, or at its end."""

    most_rows: ClassVar[int] = _CELL_BLOCK_ROWS

    def __init__(self, network: Network, rows: NDArray[np.uint8], cells: Cells) -> None:
        self._network, self._rows = network, rows
        self._cells = np.asfortranarray(cells, np.uint16)  # they are looked at column by column
        self.n_rows = len(rows)
        self._everyone = np.arange(self.n_rows, dtype=np.int32)
        self._at = np.zeros(self.n_rows, np.int32)  # the node where a decoder is in the tree of the column, or ~cell

    @classmethod
    def of(cls, network: Network, cells: Cells) -> _CellBlock:
        return cls(network, network.ordered_layout.pack(cells).rows, cells)

    @classmethod
    def blank(cls, network: Network, n_rows: int) -> _CellBlock:
        layout = network.ordered_layout
        rows = np.zeros((n_rows, row_bytes(layout.n_bits)), np.uint8)
        return cls(network, rows, np.zeros((n_rows, layout.n_columns), np.uint16))

    @property
    def packed(self) -> NDArray[np.uint8]:
        columns = _core.transpose(self._rows, self._network.ordered_layout.n_bits)
        return columns.view(np.uint8)[:, : -(-self.n_rows // 8)]

    def unpack(self, order: NDArray[np.intp]) -> Cells:
        rows = np.empty(self._cells.shape, np.uint16)
        rows[:, order] = self._cells
        return rows

    def coded(self, k: int) -> NDArray[np.uint32]:
        return self._network.nodes.coded(k, self._cells[:, k], self._rows, self._everyone)

    def boundaries(self, step: tuple[int, int]) -> NDArray[np.uint32]:
        k, level = step
        if level == 0:
            self._at[:] = 0
        return boundaries(self._network.nodes.log_odds(k, self._at, self._rows, self._everyone))

    def pop(self, coder: _core.Coder, step: tuple[int, int], boundaries: NDArray[np.uint32]) -> None:
        k, level = step
        column = self._network.ordered_layout.columns[k]
        self._at = coder.descend(boundaries, self._at, column.children)
        if level + 1 == column.n_levels:
            self._cells[:, k] = ~self._at
            self._network.ordered_layout.set_column(self._rows, k, self._cells[:, k])


class Codec:
    """Turns rows into bytes and back under one network."""

    def __init__(self, network: Network, n_jobs: int | None) -> None:
        self._network = network
        self.fingerprint = network.fingerprint()
        self._n_jobs = n_jobs
        layout = network.ordered_layout
        if layout.is_binary:
            self._steps: Sequence[Any] = range(layout.n_columns)
            self._blocks: type[_BitBlock] | type[_CellBlock] = _BitBlock
        else:
            self._steps = [(k, level) for k, column in enumerate(layout.columns) for level in range(column.n_levels)]
            self._blocks = _CellBlock

    def compress(self, chunks: Iterable[Cells]) -> bytes:
        """Rows as they come, in one container."""
        ordered = (rows[:, self._network.order] for rows in chunks)
        coder = _core.Coder()
        n_rows, bits = 0, new_digest(16)
        sizes = self._block_sizes(self.group_rows)
        blocks = (self._blocks.of(self._network, rows) for rows in cut(ordered, cycle(sizes)))
        with threads(self._n_jobs) as submit:
            while group := list(islice(blocks, len(sizes))):
                n_rows += sum(block.n_rows for block in group)
                bits.update(_packed(group).data)
                self._encode(coder, group, submit)
        return sealed(self.fingerprint, n_rows, bits.digest(), coder)

    def decompress(self, data: Any, max_rows: int | None = None) -> Cells:
        """The rows in a container, columns as they were given, each bit a byte.

        A container of more than ``max_rows`` is refused before anything is decoded.
        """
        return gathered(*self._decoded(data, max_rows), self._network.layout)

    def decompress_chunks(self, data: Any, max_rows: int | None = None) -> Iterator[Cells]:
        """The same a few thousand rows at a time, at one bit of memory per cell; damaged data is refused at once."""
        return self._decoded(data, max_rows)[1]

    def _decoded(self, data: Any, max_rows: int | None) -> tuple[int, Iterator[Cells]]:
        n_rows, checksum, coder = opened(data, self.fingerprint, max_rows)
        sizes = [min(self.group_rows, n_rows - start) for start in range(0, n_rows, self.group_rows)]
        with threads(self._n_jobs) as submit:
            groups = pop_groups(coder, sizes, lambda stack, size: self._decode(stack, size, submit))
        bits = new_digest(16)
        for _, same in groupby(groups, key=id):
            repeated = list(same)
            packed = _packed(repeated[0])
            for _ in repeated:
                bits.update(packed.data)
        if bits.digest() != checksum:
            raise CompressedDataError(OTHER_ROWS)
        return n_rows, (block.unpack(self._network.order) for group in groups for block in group)

    def push(self, coder: _core.Coder, rows: Cells, submit: Submit) -> None:
        """Put a group of rows, columns as they were given, at most ``group_rows``, on a coder's stack."""
        ordered = rows[:, self._network.order]
        sizes = self._block_sizes(len(rows))
        blocks = [self._blocks.of(self._network, part) for part in cut([ordered], cycle(sizes))]
        self._encode(coder, blocks, submit)

    def pop(self, coder: _core.Coder, n_rows: int, submit: Submit) -> Cells:
        """Take the group of rows that was put there last, columns as they were given."""
        return np.concatenate([block.unpack(self._network.order) for block in self._decode(coder, n_rows, submit)])

    @property
    def group_rows(self) -> int:
        blocks = _GROUP_BITS // max(1, self._network.ordered_layout.n_bits) // BLOCK_ROWS
        return min(_GROUP_ROWS, max(1, blocks) * BLOCK_ROWS)

    def _block_sizes(self, n_rows: int) -> list[int]:
        """Rows of the blocks that so many rows are cut into; what is coded does not depend on it."""
        most = self._blocks.most_rows
        return [min(most, n_rows - start) for start in range(0, n_rows, most)]

    def _encode(self, coder: _core.Coder, blocks: Sequence[_Block], submit: Submit) -> None:
        """Column by column. While one is coded, threads evaluate the next."""
        columns = range(self._network.n_columns)[::-1]
        tasks = [submit(block.coded, columns[0]) for block in blocks]
        for following in [*columns[1:], None]:
            coded = [task() for task in tasks]
            if following is not None:
                tasks = [submit(block.coded, following) for block in blocks]
            for level in reversed(range(len(coded[0]))):
                for own in reversed(coded):
                    coder.push_bits(own[level])

    def _decode(self, coder: _core.Coder, n_rows: int, submit: Submit) -> list[_Block]:
        """Step by step. While one block is decoded, threads evaluate the others."""
        blocks: list[_Block] = [self._blocks.blank(self._network, size) for size in self._block_sizes(n_rows)]
        if not self._steps:
            return blocks
        tasks = [submit(block.boundaries, self._steps[0]) for block in blocks]
        for step, following in zip(self._steps, [*self._steps[1:], None]):
            for i, block in enumerate(blocks):
                boundaries = tasks[i]()
                if self._blocks is _BitBlock and coder.is_empty:  # all that follows is zeros, as are blank blocks
                    return blocks
                block.pop(coder, step, boundaries)
                if following is not None:
                    tasks[i] = submit(block.boundaries, following)
        return blocks


def sealed(fingerprint: bytes, n_rows: int, checksum: bytes, coder: _core.Coder) -> bytes:
    """A container of what the coder holds; ``checksum`` is that of the rows' bits."""
    return _ENVELOPE.sealed(fingerprint, n_rows, checksum, stream_of(coder))


def opened(container: Any, own: bytes, max_rows: int | None) -> tuple[int, bytes, _core.Coder]:
    """(number of rows, checksum of their bits, coder) of a container that is whole and made with the model ``own``."""
    n_rows, checksum, stream = _ENVELOPE.opened(container, own, max_rows)
    return n_rows, checksum, stream_coder(stream)


def pop_groups(coder: _core.Coder, sizes: Sequence[int], pop: Callable[[_core.Coder, int], _Group]) -> list[_Group]:
    """All groups that a stack holds, of these sizes, the first one deepest; ``pop`` takes one off."""
    groups: list[_Group] = []
    # Small stacks: the group that came off, and what was left.
    met: dict[tuple[int, bytes], tuple[_Group, _core.Coder]] = {}
    for size in reversed(sizes):
        if coder.n_words > _SMALL_STACK:
            groups.append(pop(coder, size))
            continue
        key = size, coder.words().tobytes()
        if key not in met:
            met[key] = pop(coder, size), coder.clone()
        group, left = met[key]
        groups.append(group)
        coder = left.clone()
    if not coder.is_empty:
        raise CompressedDataError(OTHER_ROWS)
    groups.reverse()
    return groups


def gathered(n_rows: int, chunks: Iterable[Cells], layout: Layout) -> Cells:
    """The chunks in one array."""
    X = np.empty((n_rows, layout.n_columns), np.uint8 if layout.is_binary else np.uint16)
    start = 0
    for chunk in chunks:
        X[start : start + len(chunk)] = chunk
        start += len(chunk)
    return X


def _packed(group: Sequence[_Block]) -> NDArray[np.uint8]:
    """The group's columns, one after the other; they do not depend on how it was cut into blocks."""
    return np.hstack([block.packed for block in group])


def cut(chunks: Iterable[Cells], sizes: Iterable[int]) -> Iterator[Cells]:
    """The same rows in pieces of these sizes, of which there are enough."""
    size = iter(sizes)
    parts: list[Cells] = []
    missing = next(size)
    for chunk in chunks:
        start = 0
        while start < len(chunk):
            parts.append(chunk[start : start + missing])
            start += len(parts[-1])
            missing -= len(parts[-1])
            if missing == 0:
                yield np.concatenate(parts)
                parts, missing = [], next(size)
    if parts:
        yield np.concatenate(parts)


def whole_weights(weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """Every column as whole numbers that sum to 2^24, as the coder wants them; it never takes a 0 for impossible."""
    total = sum(weights)  # one row after the other: the order in which NumPy would add is not the same everywhere
    whole = np.floor(weights / total * (1 << PRECISION)).astype(np.int64)
    whole[np.argmax(whole, axis=0), np.arange(whole.shape[1])] += (1 << PRECISION) - whole.sum(axis=0)
    return whole


@contextmanager
def threads(n_jobs: int | None) -> Iterator[Submit]:
    """Hands out calls: to threads, or to be made when their result is asked for where one job is all there may be."""
    jobs = effective_n_jobs(n_jobs)
    if jobs == 1:
        yield partial
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield lambda function, *args: pool.submit(function, *args).result
