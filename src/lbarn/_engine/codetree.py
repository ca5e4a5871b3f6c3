"""A column as a small tree of bits over its cells, and the bits of all columns side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.bits import PackedBits, pack, row_bytes

__all__ = ["BINARY", "UNKNOWN", "Cells", "CodeTree", "Layout"]

Cells = NDArray[Any]  # rows x columns: the number of the cell that every value is in; booleans if all columns have two
UNKNOWN = 65_535  # stands for the cell of a value that is not known

_CHUNK_ROWS = 4096  # rows packed at a time
_EITHER_SIDE = 31  # thresholds of a column with which an empty value may also go; finer ones hardly ever have it there


@dataclass(frozen=True, eq=False)
class CodeTree:
    """The values of a column are in cells 0, 1, ..., ``n_cells - 1``, and a binary tree leads to them.

    Node ``k`` is reached by the cells ``low[k] .. high[k] - 1``; its bit is 0 for those before ``cut[k]`` and 1 for the
    others. Parents come before their children. For whoever predicts later columns from this one, every bit means more: bit ``b``
    is 1 for all cells in ``ones_low[b] .. ones_high[b] - 1`` and 0 for all others, reached or not; if ``ones_low[b]`` is the
    greater one, for all cells from there on and for those before ``ones_high[b]``. The first bits are those of
    the nodes; bits after them only predict. ``fixed`` has the log-odds of nodes that are not learned, NaN for those that are: their
    unlikely side leads to what no training row had, and what is drawn takes the other one. If ``missing``, cell 0 is that
    of an empty value.
    """

    n_cells: int
    low: NDArray[np.int32]
    cut: NDArray[np.int32]
    high: NDArray[np.int32]
    ones_low: NDArray[np.int32]
    ones_high: NDArray[np.int32]
    fixed: NDArray[np.float64]
    missing: bool = False

    @property
    def n_nodes(self) -> int:
        return len(self.cut)

    @property
    def n_bits(self) -> int:
        return len(self.ones_low)

    @property
    def is_binary(self) -> bool:
        return self.n_cells == 2 and self.n_bits == 1 and bool(np.isnan(self.fixed[0]))

    @cached_property
    def children(self) -> NDArray[np.int32]:
        """(nodes, 2): the node that follows a 0 and a 1, or ``~cell`` if that is where it ends."""
        at = {(int(a), int(b)): k for k, (a, b) in enumerate(zip(self.low, self.high))}
        children = np.empty((self.n_nodes, 2), np.int32)
        for k in range(self.n_nodes):
            for side, (a, b) in enumerate(((self.low[k], self.cut[k]), (self.cut[k], self.high[k]))):
                children[k, side] = ~a if b - a == 1 else at[int(a), int(b)]
        return children

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """(cells, bits): the bits of every cell."""
        cell = np.arange(self.n_cells)[:, None]
        above, below = cell >= self.ones_low, cell < self.ones_high
        return np.where(self.around, above | below, above & below).astype(np.uint8)

    @property
    def around(self) -> NDArray[np.bool_]:
        """Which bits are 1 from a cell on, and for an empty value too; they are the last ones."""
        return self.ones_low > self.ones_high

    @cached_property
    def depth(self) -> NDArray[np.int32]:
        """The level of every node."""
        depth = np.zeros(self.n_nodes, np.int32)
        for node in range(self.n_nodes):
            for child in self.children[node]:
                if child >= 0:
                    depth[child] = depth[node] + 1
        return depth

    @property
    def n_levels(self) -> int:
        return int(self.depth.max(initial=-1)) + 1

    @cached_property
    def drawn(self) -> NDArray[np.bool_]:
        """The cells that may be drawn."""
        drawn = np.ones(self.n_cells, np.bool_)
        for k in np.flatnonzero(~np.isnan(self.fixed)):
            a, b = (self.low[k], self.cut[k]) if self.fixed[k] > 0 else (self.cut[k], self.high[k])
            drawn[a:b] = False
        return drawn

    @cached_property
    def drawn_children(self) -> NDArray[np.int32]:
        """``children`` for whoever draws: either bit of a node that is not learned leads to its likely side."""
        children = self.children.copy()
        known = np.flatnonzero(~np.isnan(self.fixed))
        children[known] = children[known, (self.fixed[known] > 0).astype(np.intp)][:, None]
        return children

    @cached_property
    def unseen(self) -> NDArray[np.float64]:
        """The probability of the cells that are not drawn, for a value that is there; 0 for the others."""
        share, rest = np.zeros(self.n_cells), 1.0
        for k in np.flatnonzero(
            ~np.isnan(self.fixed)
        ):  # one after the other, each on the likely side of those before it
            p = float(1.0 / (1.0 + np.exp(abs(self.fixed[k]))))
            unlikely = slice(self.low[k], self.cut[k]) if self.fixed[k] > 0 else slice(self.cut[k], self.high[k])
            share[unlikely] = rest * p
            rest *= 1.0 - p
        return share

    @cached_property
    def present(self) -> NDArray[np.bool_]:
        """The cells that may be drawn for a value that is there."""
        present = self.drawn.copy()
        present[: int(self.missing)] = False
        return present

    def subtree_max(self, likelihood: NDArray[np.float64]) -> NDArray[np.float64]:
        """The largest likelihood, (..., cells), in the subtree of every node and, after the nodes, of every cell."""
        most = np.empty((*likelihood.shape[:-1], self.n_nodes + self.n_cells))
        most[..., self.n_nodes :] = likelihood
        for k in reversed(range(self.n_nodes)):
            a, b = self.slots[k]
            np.maximum(most[..., a], most[..., b], out=most[..., k])
        return most

    @cached_property
    def slots(self) -> NDArray[np.int32]:
        """``children`` as places in what ``subtree_max`` returns."""
        return np.where(self.children < 0, self.n_nodes + ~self.children, self.children)

    @classmethod
    def of(
        cls,
        n_cells: int,
        nodes: Sequence[tuple[int, int, int]],
        *,
        ordered: bool = False,
        one_hot: Sequence[int] = (),
        fixed: Mapping[int, float] | None = None,
        missing: bool = False,
    ) -> CodeTree:
        """Of nodes (low, cut, high), parents first.

        The bits of an ordered column say whether a value is at least the cut; those of another, whether it is below the node's
        ones. ``one_hot`` are cells that get a bit of their own unless they have one. An empty value has no place in an order, so
        the upper cuts of an ordered column are there twice: the second time, it is with the values above.
        """
        low, cut, high = (np.array(part, np.int32) for part in (zip(*nodes) if nodes else ((), (), ())))
        ones_high = np.full(len(nodes), n_cells, np.int32) if ordered else high
        own = set(cut[high - cut == 1].tolist()) if not ordered else set()
        extra = np.array([cell for cell in one_hot if cell not in own], np.int32)
        values = np.full(len(nodes), np.nan)
        for node, log_odds in (fixed or {}).items():
            values[node] = log_odds
        twice = _upper_cuts([own for own, odds in zip(nodes, values) if np.isnan(odds)]) if ordered and missing else []
        ones = np.concatenate([cut, extra, twice]).astype(np.int32)
        ends = np.concatenate([ones_high, extra + 1, np.ones(len(twice))]).astype(np.int32)
        return cls(n_cells, low, cut, high, ones, ends, values, missing)


def _upper_cuts(nodes: Sequence[tuple[int, int, int]]) -> list[int]:
    """Of the learned nodes of a column with empty values, level by level; whether a value is there is none of them."""
    level: dict[tuple[int, int], int] = {}
    found = []
    for low, cut, high in nodes:
        own = level.get((low, high), 0)
        level[low, cut] = level[cut, high] = own + 1
        if cut > 1:
            found.append((own, cut))
    return sorted(cut for _, cut in sorted(found)[:_EITHER_SIDE])


BINARY = CodeTree.of(2, [(0, 1, 2)])


@dataclass(frozen=True, eq=False)
class Layout:
    """The bits of columns, one column after the other in network order."""

    columns: tuple[CodeTree, ...]

    @classmethod
    def binary(cls, n_columns: int) -> Layout:
        return cls((BINARY,) * n_columns)

    @property
    def n_columns(self) -> int:
        return len(self.columns)

    @cached_property
    def is_binary(self) -> bool:
        """Whether every column is one bit."""
        return all(column is BINARY or column.is_binary for column in self.columns)

    @cached_property
    def first_bit(self) -> NDArray[np.intp]:
        """The position of the first bit of every column, and the number of all bits."""
        return np.cumsum([0, *(column.n_bits for column in self.columns)])

    @cached_property
    def first_node(self) -> NDArray[np.intp]:
        """The number of the first node of every column among all nodes, and the number of all."""
        return np.cumsum([0, *(column.n_nodes for column in self.columns)])

    @property
    def n_bits(self) -> int:
        return int(self.first_bit[-1])

    @property
    def n_nodes(self) -> int:
        return int(self.first_node[-1])

    @cached_property
    def node_position(self) -> NDArray[np.intp]:
        """The position of every node's bit."""
        parts = [bit + np.arange(column.n_nodes) for bit, column in zip(self.first_bit, self.columns)]
        return np.concatenate(parts).astype(np.intp)

    @cached_property
    def node_column(self) -> NDArray[np.intp]:
        """The column that every node belongs to, by its place in the order."""
        return np.repeat(np.arange(self.n_columns), [column.n_nodes for column in self.columns])

    @cached_property
    def bit_column(self) -> NDArray[np.intp]:
        """The column that every bit belongs to, by its place in the order."""
        return np.repeat(np.arange(self.n_columns), [column.n_bits for column in self.columns])

    @cached_property
    def peers(self) -> NDArray[np.intp]:
        """A number by node, the same for nodes that are problems of one kind: those of a column at one depth; all columns of one bit."""
        numbers, used = [], 1
        for column in self.columns:
            if column.n_nodes == 1:
                numbers.append(np.zeros(1, np.intp))
            else:
                numbers.append(used + column.depth.astype(np.intp))
                used += column.n_levels
        return np.concatenate(numbers)

    def permuted(self, order: NDArray[np.intp]) -> Layout:
        """With column ``order[k]`` at place ``k``."""
        return Layout(tuple(self.columns[k] for k in order))

    @cached_property
    def _packed(self) -> list[tuple[int, NDArray[np.uint8]]]:
        """Per column: the byte where its bits begin, and the bytes that every cell sets."""
        packed = []
        for bit, column in zip(self.first_bit, self.columns):
            padded = np.zeros((column.n_cells, bit % 8 + column.n_bits), np.uint8)
            padded[:, bit % 8 :] = column.table
            packed.append((int(bit // 8), np.packbits(padded, axis=1, bitorder="little")))
        return packed

    def pack(self, cells: Cells) -> PackedBits:
        """The bits of rows of cells, columns in network order; unknown ones read as cell 0."""
        if self.is_binary:
            return pack(np.where(cells == UNKNOWN, 0, cells) if cells.dtype == np.uint16 else cells)
        rows = np.zeros((len(cells), row_bytes(self.n_bits)), np.uint8)
        for start in range(0, len(cells), _CHUNK_ROWS):
            chunk = rows[start : start + _CHUNK_ROWS]
            for k in range(self.n_columns):
                own = cells[start : start + _CHUNK_ROWS, k]
                self.set_column(chunk, k, np.where(own == UNKNOWN, 0, own))
        return PackedBits(rows, self.n_bits)

    def cells(self, rows: NDArray[np.uint8]) -> Cells:
        """The cells of packed rows."""
        bits = np.unpackbits(rows, axis=1, count=self.n_bits, bitorder="little")
        if self.is_binary:
            return bits
        found = np.empty((len(rows), self.n_columns), np.uint16)
        for k, column in enumerate(self.columns):
            at = np.full(len(rows), 0 if column.n_nodes else ~0, np.int64)
            first = int(self.first_bit[k])
            while (falls := np.flatnonzero(at >= 0)).size:
                at[falls] = column.children[at[falls], bits[falls, first + at[falls]]]
            found[:, k] = ~at
        return found

    def set_column(self, rows: NDArray[np.uint8], k: int, cells: NDArray[Any]) -> None:
        """Set the bits of a column, which are 0 so far, in packed rows."""
        first, table = self._packed[k]
        rows[:, first : first + table.shape[1]] |= table[cells]
