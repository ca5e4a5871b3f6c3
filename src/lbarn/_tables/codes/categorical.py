"""The code of levels without an order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._engine.codetree import CodeTree
from lbarn._tables.cells import Node, huffman, shifted
from lbarn._tables.codes.base import Choices, ColumnCode, Floats, Inside, Tensors
from lbarn._tables.codes.parts import check_levels, common_fields, packed, unpacked
from lbarn._tables.codes.reading import level_numbers
from lbarn._tables.column import Column

__all__ = ["CategoricalCode"]

_RARE = 5  # rows below which a category shares its cell


@dataclass(frozen=True, eq=False)
class CategoricalCode(ColumnCode):
    """Levels, each in a cell of its own; rare ones share the last of them, and levels that were never seen have one.

    Levels are strings; if they came as numbers or dates they are written as such, and ``plain`` has their type. Cells: the missing value if it is one, what was never seen, then the levels as ``order`` has them.
    """

    kind = "categorical"
    nodes: tuple[Node, ...]  # of the tree over the levels' cells
    levels: tuple[str, ...]  # as users see them
    order: tuple[int, ...]  # the level in every cell after the first ones; -1 is the cell of the rare ones
    rare: tuple[int, ...]  # levels that share a cell
    rare_mass: Floats  # of rows with each of them

    @classmethod
    def fit(
        cls, label: str, column: Column, weight: Floats | None, *, max_cells: int, missing: bool, share_missing: float
    ) -> CategoricalCode:
        texts = column.texts()
        seen = set(pc.unique(texts.filter(pa.array(~column.missing))).to_pylist())
        # A category that no row has was never seen, whatever the type of the column says.
        levels = sorted(seen) if column.categories is None else [level for level in column.categories if level in seen]
        if column.sort == "number" and column.categories is None:
            levels.sort(key=float)
        codes = level_numbers(texts, levels)
        counted = codes >= 0
        mass = np.bincount(codes[counted], None if weight is None else weight[counted], len(levels)).astype(float)
        by_mass = np.argsort(-mass, kind="stable")
        common = [int(k) for k in by_mass[:max_cells] if mass[k] >= _RARE]
        if len(levels) - len(common) == 1 or (not common and len(levels) <= max_cells):
            common = [int(k) for k in by_mass]  # nobody to share with
        rare = sorted(set(range(len(levels))) - set(common))
        keys = [*common, *([-1] if rare else [])]
        weights = np.array([mass[k] if k >= 0 else mass[rare].sum() for k in keys])
        places, nodes = huffman(weights) if keys else ([], [])
        order = [keys[k] for k in places]
        first = 1 + int(missing)
        cell_mass = np.zeros(first + len(order))
        for cell, k in enumerate(order):
            cell_mass[first + cell] = mass[k] if k >= 0 else mass[rare].sum()
        if missing:
            cell_mass[0] = column.missing.sum() if weight is None else weight[column.missing].sum()
        plain = replace(column.take(slice(0, 0)), sort="string", values=pa.array([], pa.string()))
        own = tuple(nodes), tuple(levels), tuple(order), tuple(rare), mass[rare]
        return cls(label, plain, missing, share_missing, cell_mass, *own)

    @cached_property
    def tree(self) -> CodeTree:
        first = 1 + int(self.missing)
        n_cells = first + len(self.order)
        nodes = [(0, 1, n_cells)] if self.missing and n_cells > 1 else []
        fixed = {}
        if self.order:
            fixed[len(nodes)] = float(np.log(2.0 * self.n_rows + 1.0))  # half a row for all that was never seen
            nodes.append((first - 1, first, n_cells))
            nodes += shifted(self.nodes, first)
        return CodeTree.of(n_cells, nodes, one_hot=range(first, n_cells), fixed=fixed, missing=self.missing)

    @cached_property
    def _cell_of_level(self) -> NDArray[np.int64]:
        cells = np.empty(len(self.levels), np.int64)
        for cell, k in enumerate(self.order, 1 + int(self.missing)):
            cells[list(self.rare) if k < 0 else k] = cell
        return cells

    def cell_of(self, level: str) -> int | None:
        """The cell of a level; None if it shares one."""
        k = self.levels.index(level)
        return None if k in self.rare else int(self._cell_of_level[k])

    @cached_property
    def _log_share(self) -> Floats:
        """Of every level in its cell: 0 unless it shares it."""
        shares = np.zeros(len(self.levels))
        shares[list(self.rare)] = np.log((self.rare_mass + 0.5) / (self.rare_mass + 0.5).sum())
        return shares

    def conform(self, column: Column) -> Column:
        return column if column.sort == "string" else replace(column, sort="string", values=column.texts())

    def level_codes(self, column: Column) -> NDArray[np.int64]:
        """The number of every value's level, -1 for one that was never seen."""
        return level_numbers(self.conform(column).values, self.levels)

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        codes = level_numbers(column.values, self.levels)
        log_share = np.where(codes < 0, 0.0, self._log_share[codes]) if self.levels else np.zeros(len(codes))
        return self._cells(codes), log_share

    def _cells(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        if not self.levels:
            return np.full(len(codes), int(self.missing))
        return np.where(codes < 0, int(self.missing), self._cell_of_level[codes])

    def _decode(self, cells: NDArray[np.intp], rng: np.random.Generator) -> Any:
        first = 1 + int(self.missing)
        if not self.order:
            return pa.nulls(len(cells), pa.string())
        codes = np.array(self.order)[np.maximum(cells - first, 0)]
        shared = np.flatnonzero(codes < 0)
        if len(shared):
            p = self.rare_mass + 0.5
            codes[shared] = np.array(self.rare)[rng.choice(len(p), len(shared), p=p / p.sum())]
        return pa.array(self.levels, pa.string()).take(pa.array(codes))

    def _told_cells(self, low: int, high: int) -> tuple[str, str]:
        first = 1 + int(self.missing)
        own = [self.order[cell - first] for cell in range(max(low, first), high)]
        rest = [k for k in self.order if k not in own]
        if len(own) > len(rest) > 0:
            return self._told_cells_of(rest)[::-1]
        return self._told_cells_of(own)

    def _told_cells_of(self, cells: list[int]) -> tuple[str, str]:
        levels = [repr(self.levels[k]) if k >= 0 else f"one of {len(self.rare)} rare levels" for k in cells]
        told = levels[0] if len(levels) == 1 else f"one of {', '.join(levels[:4])}"
        told += f" and {len(levels) - 4} more" if len(levels) > 4 else ""
        return f"is {told}", f"is not {told}"

    @cached_property
    def peaks(self) -> tuple[Floats, Column]:
        likeliest = [int(np.argmax(self.rare_mass)) if k < 0 else k for k in self.order]
        levels = [self.rare[k] if own < 0 else k for own, k in zip(self.order, likeliest)]
        texts = [None] * (1 + int(self.missing)) + [self.levels[k] for k in levels]
        inside = np.concatenate([np.zeros(1 + int(self.missing)), self._log_share[levels]])
        return inside, self.plain.with_values(pa.array(texts, pa.string()), np.array([t is None for t in texts]))

    @property
    def choices(self) -> Choices | None:
        if not self.rare:
            return None
        shared = np.array([False] * (1 + int(self.missing)) + [k < 0 for k in self.order])
        sizes = np.where(shared, len(self.rare), 1)
        chances = np.ones(sizes.sum())
        chances[np.repeat(shared, sizes)] = (self.rare_mass + 0.5) / (self.rare_mass + 0.5).sum()
        return Choices(chances, np.concatenate([[0], np.cumsum(sizes)]), np.ones(len(sizes), np.uint64))

    def _locate(self, column: Column) -> tuple[NDArray[Any], Inside | None]:
        codes = level_numbers(column.values, self.levels)
        if not self.rare:
            return self._cells(codes), None
        symbol = np.zeros(len(self.levels) + 1, np.int64)  # the last one for what was never seen
        symbol[list(self.rare)] = np.arange(len(self.rare))
        return self._cells(codes), (symbol[codes], np.zeros(len(codes), np.uint64))

    def from_inside(self, cells: NDArray[Any], where: Inside | None) -> Column:
        column = self.decode(cells, np.random.default_rng(0))
        if where is None:
            return column
        shared = cells == 1 + int(self.missing) + self.order.index(-1)
        rare = pa.array(self.levels, pa.string()).take(pa.array(np.array(self.rare)[where[0]]))
        return replace(column, values=pc.if_else(pa.array(shared), rare, column.values))

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        own = {"levels": list(self.levels), "order": list(self.order), "rare": list(self.rare)}
        return self._head() | own, {"mass": self.mass, "rare_mass": self.rare_mass, "nodes": packed(self.nodes)}

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], tensors: Tensors) -> CategoricalCode:
        levels, order, rare = tuple(head["levels"]), tuple(head["order"]), tuple(head["rare"])
        if not all(isinstance(level, str) for level in levels):
            raise ValueError("levels are not strings")
        if sorted([*(k for k in order if k != -1), *rare]) != list(range(len(levels))) or (-1 in order) != bool(rare):
            raise ValueError("cells and levels do not fit")
        common = common_fields(head, tensors)
        if common["plain"].sort != "string":
            raise ValueError("levels are not strings")
        check_levels(levels, common["plain"].type)
        rare_mass = tensors["rare_mass"]
        if len(common["mass"]) != 1 + int(common["missing"]) + len(order) or rare_mass.shape != (len(rare),):
            raise ValueError("cells and their numbers of rows do not fit")
        if rare_mass.dtype != np.float64 or not (rare_mass >= 0).all() or not np.isfinite(rare_mass.sum()):
            raise ValueError("the numbers of rows of rare levels make no sense")
        nodes = unpacked(tensors["nodes"], len(order))
        return cls(**common, nodes=nodes, levels=levels, order=order, rare=rare, rare_mass=rare_mass)

    def told_range(self) -> str:
        shown = ", ".join(self.levels[:4])
        return shown if len(self.levels) <= 4 else f"{shown}, ... ({len(self.levels)} levels)"
