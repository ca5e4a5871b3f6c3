"""The trees of a network by column and node: what a row's next bit is, wherever in a column's tree it stands."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.codetree import CodeTree, Layout
from lbarn._engine.trees import UNIT, Trees, log_likelihoods

__all__ = ["NodeTrees", "packed_word"]

Floats = NDArray[np.float64]


def packed_word(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Bits as a column of packed words."""
    words = np.zeros(_core.column_words(len(bits)), np.uint64)
    packed = np.packbits(bits, bitorder="little")
    words.view(np.uint8)[: len(packed)] = packed
    return words


@dataclass(frozen=True, eq=False)
class NodeTrees:
    """A network's trees by column, in network order."""

    layout: Layout
    trees: tuple[Trees, ...]  # by node

    def __len__(self) -> int:
        return self.layout.n_columns

    @cached_property
    def core(self) -> _core.Network:
        """The same for the core, which checks how it hangs together."""
        columns = self.layout.columns
        sizes = np.array([(own.n_cells, own.n_nodes, own.n_bits) for own in columns], np.int32).reshape(-1, 3)
        empty = np.zeros(0, np.int32)
        return _core.Network(
            sizes,
            np.concatenate([empty, *(own.cut for own in columns)]),
            np.concatenate([np.zeros((0, 2), np.int32), *(own.children for own in columns)]),
            np.concatenate([empty, *(own.ones_low for own in columns)]),
            np.concatenate([empty, *(own.ones_high for own in columns)]),
            [trees.core for trees in self.trees],
            [None if trees.counts is None else trees.counts.core for trees in self.trees],
        )

    def __getstate__(self) -> dict[str, object]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # the core's object stays here

    def column(self, k: int) -> CodeTree:
        return self.layout.columns[k]

    def at(self, k: int, node: int) -> Trees:
        return self.trees[int(self.layout.first_node[k]) + node]

    @cached_property
    def _cores(self) -> dict[int, tuple[list[_core.Trees], list[_core.Counts | None]]]:
        """What the core knows of the columns that have been asked for."""
        return {}

    def _core(self, k: int) -> tuple[list[_core.Trees], list[_core.Counts | None]]:
        if k not in self._cores:
            own = self.trees[self.layout.first_node[k] : self.layout.first_node[k + 1]]
            counts = [None if trees.counts is None else trees.counts.core for trees in own]
            self._cores[k] = [trees.core for trees in own], counts
        return self._cores[k]

    def log_odds(
        self, k: int, nodes: NDArray[Any], rows: NDArray[np.uint8], index: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Log-odds of a 1 at the node where each of the packed rows ``index`` is; 0 for those that are at an end."""
        return _core.log_odds_by_node(*self._core(k), nodes.astype(np.int32, copy=False), rows, index)

    def log_p(
        self, k: int, cells: NDArray[Any], rows: NDArray[np.uint8], index: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """log P(cell) of column ``k`` for each of the packed rows ``index``, in units of 2^-30; 0 for an unknown one."""
        tree = self.column(k)
        return _core.log_likelihoods_of_cells(
            *self._core(k), tree.low, tree.cut, tree.high, cells.astype(np.uint16), rows, index
        )

    def coded(
        self, k: int, cells: NDArray[np.uint16], rows: NDArray[np.uint8], index: NDArray[np.int32]
    ) -> NDArray[np.uint32]:
        """The bits on the way to the cells of column ``k`` as the coder takes them, (levels, n): 0 behind the end of a way."""
        tree = self.column(k)
        return _core.coded_cells(*self._core(k), tree.low, tree.cut, tree.high, tree.depth, cells, rows, index)

    def cell_log_p(self, k: int, rows: NDArray[np.uint8]) -> Floats:
        """log P of every cell of column ``k`` for all packed rows, in nats, (n, cells)."""
        tree, n = self.column(k), len(rows)
        index = np.arange(n, dtype=np.int32)
        log_p = np.zeros((n, tree.n_cells))
        for node in range(tree.n_nodes):
            odds = self.at(k, node).log_odds_at(rows, index)
            zeros = np.zeros(_core.column_words(n), np.uint64)
            for bits, (a, b) in (
                (zeros, (tree.low[node], tree.cut[node])),
                (~zeros, (tree.cut[node], tree.high[node])),
            ):
                log_p[:, a:b] += UNIT * log_likelihoods(odds, bits).astype(np.float64)[:, None]
        return log_p
