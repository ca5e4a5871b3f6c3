"""The code of numbers without a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._tables.cells import Node, equal_mass
from lbarn._tables.codes.base import Choices, Floats, Inside, Tensors
from lbarn._tables.codes.numeric import TAIL_POWER, NumericCode, numeric_mass
from lbarn._tables.codes.parts import common_fields, packed, unpacked
from lbarn._tables.column import Column

__all__ = ["ContinuousCode"]

_REPEATED = 0.005  # share of the rows from which on a value of a continuous column has a cell of its own


@dataclass(frozen=True, eq=False)
class ContinuousCode(NumericCode):
    """Numbers without a grid: a density, uniform in every cell. A value that is often repeated has a cell of its own."""

    kind = "continuous"
    edges: Floats  # of the cells; that of a repeated value has no width

    @property
    def measure(self) -> str:
        return "density"

    @classmethod
    def fit(
        cls,
        label: str,
        plain: Column,
        column: Column,
        weight: Floats | None,
        *,
        max_cells: int,
        min_rows: float,
        missing: bool,
        share_missing: float,
    ) -> ContinuousCode:
        there = ~column.missing
        seen, index = np.unique(column.values[there], return_inverse=True)
        mass = np.bincount(index, None if weight is None else weight[there]).astype(np.float64)
        edges, nodes = _continuous_cells(seen, mass, max_cells, min_rows)
        code = cls(label, plain, missing, share_missing, np.zeros(0), tuple(nodes), edges)
        whole = numeric_mass(code._cell(column.values), len(edges) - 1, column, weight, missing)
        return replace(code, mass=whole)

    def _cell(self, values: Floats) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.edges, values, side="right") - 1, 0, len(self.edges) - 2)

    @cached_property
    def _log_widths(self) -> Floats:
        """Of the cells; 0 for a single value, whose likelihood is its mass."""
        low, high = self.edges[:-1], self.edges[1:]
        large = np.maximum(np.abs(low), np.abs(high)) > 1e300  # halves: the difference may be too large for a double
        with np.errstate(over="ignore"):
            width = np.where(large, high / 2 - low / 2, high - low)
        return np.where(np.nextafter(low, np.inf) >= high, 0.0, np.log(width) + np.where(large, np.log(2.0), 0.0))

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        values = column.values.astype(np.float64)
        low, high = self.edges[0], self.edges[-1]
        cells = self._cell(values)
        inside = -self._log_widths[cells]
        below, above = values < low, values > high
        scale = max(float(high / 10 - low / 10), float(np.finfo(np.float64).tiny))
        outside = below | above
        with np.errstate(over="ignore"):
            distance = np.minimum(np.where(below, low - values, values - high)[outside], np.finfo(np.float64).max)
            ratio = np.minimum(distance / scale, np.finfo(np.float64).max)
        inside[outside] = np.log(TAIL_POWER / scale) - (TAIL_POWER + 1) * np.log1p(ratio)
        return self._outer(cells, below, above), inside

    def _decode(self, cells: NDArray[np.intp], rng: np.random.Generator) -> Any:
        return self.quantiles(cells, rng.random(len(cells)))

    def _likeliest(self) -> Any:
        return np.where(np.isnan(self.centers), self.edges[0], self.centers)

    @cached_property
    def centers(self) -> Floats:
        low, high = self.ends
        centers = np.full(self.n_cells, np.nan)
        centers[self._first : -1] = low[self._first : -1] / 2 + high[self._first : -1] / 2
        centers[self._first - 1], centers[-1] = self.edges[0], self.edges[-1]
        return centers

    def quantiles(self, cells: NDArray[np.intp], share: Floats) -> Floats:
        inner = np.clip(cells - self._first, 0, len(self.edges) - 2)
        low, high = self.edges[inner], self.edges[inner + 1]
        below = np.maximum(np.nextafter(high, -np.inf), low)
        return np.clip(low * (1 - share) + high * share, low, below)

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        low, high = np.full(self.n_cells, np.nan), np.full(self.n_cells, np.nan)
        low[self._first : -1], high[self._first : -1] = self.edges[:-1], self.edges[1:]
        low[self._first - 1], high[self._first - 1] = -np.inf, self.edges[0]
        low[-1], high[-1] = self.edges[-1], np.inf
        return low, high

    def share_between(self, low: float, high: float) -> Floats:
        shares = np.zeros(self.n_cells)
        a, b = self.edges[:-1], self.edges[1:]
        single = np.nextafter(a, np.inf) >= b
        with np.errstate(invalid="ignore"):
            part = np.clip((np.minimum(b, high) - np.maximum(a, low)) / np.where(single, 1.0, b - a), 0.0, 1.0)
        shares[self._first : -1] = np.where(single, (a >= low) & (a <= high), part)
        shares[self._first - 1] = low == -np.inf and high >= self.edges[0]
        shares[-1] = high == np.inf and low <= self.edges[-1]
        return shares

    def inside_between(self, cells: NDArray[np.intp], low: float, high: float, rng: np.random.Generator) -> Any:
        inner = np.clip(cells - self._first, 0, len(self.edges) - 2)
        a, b = np.maximum(self.edges[inner], low), np.minimum(self.edges[inner + 1], high)
        values = a + (b - a) * rng.random(len(cells))
        return np.clip(values, a, np.maximum(np.minimum(b, np.nextafter(self.edges[inner + 1], -np.inf)), a))

    @cached_property
    def _ordinals(self) -> NDArray[np.int64]:
        return _ordinals(self.edges)

    @cached_property
    def entropy_inside(self) -> Floats:
        found = np.zeros(self.n_cells)
        found[self._first : -1] = self._log_widths
        return found

    @property
    def choices(self) -> Choices:
        ordinals = self._ordinals.view(np.uint64)
        n_values = ordinals[1:] - ordinals[:-1]  # modulo 2^64, as there may be more than 2^63
        n_values[-1] += np.uint64(1)
        return self._of_range(np.ones(len(n_values)), np.ones(len(n_values), np.int64), n_values)

    def _locate(self, column: Column) -> tuple[NDArray[Any], Inside]:
        values = column.values.astype(np.float64)
        inner, low, high = self._cell(values), self.edges[0], self.edges[-1]
        offsets = _ordinals(np.clip(values, low, high)) - self._ordinals[inner]
        return self._outer(inner, values < low, values > high), (
            np.zeros(len(values), np.int64),
            offsets.view(np.uint64),
        )

    def from_inside(self, cells: NDArray[Any], where: Inside | None) -> Column:
        assert where is not None
        inner = np.clip(cells.astype(np.intp) - self._first, 0, len(self.edges) - 2)
        gone = cells == 0 if self.missing else np.zeros(len(cells), np.bool_)
        return self.plain.with_values(_of_ordinals(self._ordinals[inner] + where[1].view(np.int64)), gone)

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        return self._head(), {"mass": self.mass, "nodes": packed(self.nodes), "edges": self.edges}

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], tensors: Tensors) -> ContinuousCode:
        common, edges = common_fields(head, tensors), tensors["edges"]
        if common["plain"].sort not in ("number", "boolean"):
            raise ValueError("a continuous column is not of numbers")
        if edges.dtype != np.float64 or edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
            raise ValueError("the edges of cells are not numbers")
        if not (edges[1:] > edges[:-1]).all() or len(common["mass"]) != len(edges) + 1 + int(common["missing"]):
            raise ValueError("the edges of cells make no sense")
        return cls(**common, nodes=unpacked(tensors["nodes"], len(edges) - 1), edges=edges)

    def told_range(self) -> str:
        return f"{self.edges[0]:.6g} to {self.edges[-1]:.6g}"


def _continuous_cells(seen: Floats, mass: Floats, max_cells: int, min_rows: float) -> tuple[Floats, list[Node]]:
    """Edges of cells, and nodes. A value that is often repeated is cut off on both sides."""
    heavy = mass >= max(3.0, _REPEATED * mass.sum())
    first, nodes = equal_mass(mass, max_cells, min_rows)
    if heavy.any() and len(seen) > 1:
        # Cells as they were, and heavy values out of them: the tree is made again over the pieces.
        starts = np.unique(np.concatenate([first, np.flatnonzero(heavy), np.flatnonzero(heavy) + 1]))
        starts = starts[starts < len(seen)]
        pieces = np.add.reduceat(mass, starts)
        again, nodes = equal_mass(pieces, max(max_cells, len(pieces)), 0.0)
        first = starts[again]
    ends = np.append(first[1:], len(seen))
    edges = [float(seen[0])]
    for a, b in zip(first[1:], ends[1:]):
        before, own = float(seen[a - 1]), float(seen[a])
        single, single_before = heavy[a] and b - a == 1, heavy[a - 1]
        if single:
            edges.append(own)
        elif single_before:
            edges.append(float(np.nextafter(before, np.inf)))
        else:
            edges.append(before / 2 + own / 2 if before < before / 2 + own / 2 <= own else own)
    last = float(seen[-1])
    edges.append(last if last > edges[-1] else float(np.nextafter(last, np.inf)))
    return np.array(edges), nodes


def _ordinals(values: Floats) -> NDArray[np.int64]:
    """The place of every double among all doubles, in whole numbers that rise with it."""
    bits = np.ascontiguousarray(values + 0.0).view(np.int64)
    return np.where(bits < 0, -(2**63) - bits, bits)


def _of_ordinals(ordinals: NDArray[np.int64]) -> Floats:
    return np.where(ordinals < 0, -(2**63) - ordinals, ordinals).view(np.float64)
