"""What a column is: its values in cells, a tree of bits over the cells, and a law inside each that no other column changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._engine.codetree import BINARY, UNKNOWN, CodeTree
from lbarn._tables.cells import Node, equal_mass, huffman, shifted
from lbarn._tables.column import Column, arrow_type
from lbarn._tables.grids import Grid, Law
from lbarn.errors import NotBinaryError

__all__ = ["BinaryCode", "CategoricalCode", "ColumnCode", "ContinuousCode", "GridCode", "code_from_parts"]

Floats = NDArray[np.float64]
Tensors = dict[str, NDArray[Any]]

_RARE = 5  # rows below which a category shares its cell
_TAIL_POWER = 3.0  # of the law outside the range: values ten times as far are this many powers of ten less likely


@dataclass(frozen=True, eq=False)
class ColumnCode(ABC):
    """A column's code. ``missing`` tells whether an empty cell is a value of its own, the first one.

    ``plain`` is a column without rows, of the type that came in. ``mass`` is the number of training rows in every cell.
    """

    kind: ClassVar[str]
    label: str
    plain: Column
    missing: bool
    share_missing: float
    mass: Floats

    @property
    @abstractmethod
    def tree(self) -> CodeTree: ...

    @property
    def n_cells(self) -> int:
        return self.tree.n_cells

    @property
    def measure(self) -> str:
        """What a likelihood is of: "mass", or "density" for numbers without a grid."""
        return "mass"

    @property
    def n_rows(self) -> float:
        return float(self.mass.sum())

    def encode(self, column: Column) -> tuple[NDArray[np.uint16], Floats]:
        """The cell of every value (``UNKNOWN`` for an empty one that is no value), and the log-likelihood of the value inside it."""
        column = self.conform(column)
        cells, inside = self._encode(column)
        cells = np.where(column.missing, 0 if self.missing else UNKNOWN, cells).astype(np.uint16)
        return cells, np.where(column.missing, 0.0, inside)

    @abstractmethod
    def conform(self, column: Column) -> Column:
        """The column in the form that this code takes; an error that names what cannot be."""

    @abstractmethod
    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]: ...

    def as_plain(self, column: Column) -> Column:
        """The same values in the form that ``decode`` gives them."""
        own = self.conform(column)
        return self.plain.with_values(self._shown(own.values), column.missing)

    def _shown(self, values: Any) -> Any:
        """What ``conform`` makes of values, as the plain column has them."""
        return values

    @property
    @abstractmethod
    def peaks(self) -> tuple[Floats, Column]:
        """Of every cell: the log-likelihood of its likeliest value inside it, and that value."""

    def _peaks_at(self, values: Any) -> tuple[Floats, Column]:
        """The same, of a value in every cell."""
        gone = np.zeros(self.n_cells, np.bool_)
        gone[: int(self.missing)] = True
        column = self.plain.with_values(values, gone)
        return self.encode(column)[1], column

    @cached_property
    def entropy_inside(self) -> Floats:
        """The mean of -log p of a value inside every cell, by the law in it; 0 outside the range."""
        found = np.zeros(self.n_cells)
        for cell in range(self.n_cells):
            if self.has_choice(cell):
                chances, n_last = self.choices(cell)
                found[cell] = chances[-1] * np.log(n_last) - np.sum(chances * np.log(np.maximum(chances, 1e-300)))
        return found

    def shown(self, column: Column) -> list[Any]:
        """Values as Python has them, for people: numbers, booleans and strings, None for what is missing."""
        if self.plain.sort == "string" or isinstance(self, CategoricalCode):
            return column.texts().to_pylist()
        own = self.conform(column)
        if self.plain.sort == "time":
            times = replace(own, type=self.plain.type).arrow().to_pylist()
            return [None if time is None else str(time).removesuffix(" 00:00:00") for time in times]
        values = own.values.tolist()
        if self.plain.sort == "boolean":
            values = [bool(value) for value in values]
        elif pa.types.is_integer(self.plain.type):
            values = [round(value) if float(value).is_integer() else value for value in values]
        return [None if gone else value for gone, value in zip(column.missing, values)]

    def told_bit(self, bit: int) -> tuple[str, str]:
        """What it says of a value that a bit of it is 1, and 0, for people."""
        low, high = int(self.tree.ones_low[bit]), int(self.tree.ones_high[bit])
        if self.missing and low == 1 and high == self.n_cells:
            return "is there", "is empty"
        return self._told_cells(low, high)

    @abstractmethod
    def _told_cells(self, low: int, high: int) -> tuple[str, str]:
        """What it says of a value to be in these cells, and in the others."""

    # Inside a cell, for whoever codes values without loss: a value is one of the cell's symbols, the last of which may stand
    # for many, told apart by an offset.

    def has_choice(self, cell: int) -> bool:
        """Whether a cell has more than one value."""
        return False

    def choices(self, cell: int) -> tuple[Floats, int]:
        """The chances of a cell's symbols, and the number of values that the last one stands for (1: it is one)."""
        raise NotImplementedError

    def inside(self, cells: NDArray[Any], plain: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Symbol and offset of every value in its cell."""
        return np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)

    def from_inside(self, cells: NDArray[Any], where: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Column:
        """The values with these symbols and offsets."""
        return self.decode(cells, np.random.default_rng(0))

    def share_of(self, texts: AbstractSet[str]) -> Floats:
        """The share of every cell's mass that some values have, which are given as strings."""
        column = Column("string", pa.array(sorted(texts), pa.string()), np.zeros(len(texts), np.bool_), pa.string())
        cells, inside = self.encode(column)
        return np.bincount(cells, np.exp(inside), self.n_cells).astype(np.float64, copy=False)

    def inside_set(self, cells: NDArray[np.intp], texts: AbstractSet[str], rng: np.random.Generator) -> Any:
        """Values in these cells that are among some, which are given as strings."""
        column = Column("string", pa.array(sorted(texts), pa.string()), np.zeros(len(texts), np.bool_), pa.string())
        own, inside = self.encode(column)
        chance = np.where(own == cells[:, None], np.exp(inside), 0.0)
        upto = np.cumsum(chance, axis=1)
        picked = (rng.random((len(cells), 1)) * upto[:, -1:] >= upto).sum(axis=1)
        return self.as_plain(column).take(np.minimum(picked, len(texts) - 1)).values

    def decode(self, cells: NDArray[Any], rng: np.random.Generator) -> Column:
        """Values in these cells, drawn by the law inside them."""
        gone = cells == (0 if self.missing else UNKNOWN)
        return self.plain.with_values(self._decode(np.where(gone, self._any_cell, cells).astype(np.intp), rng), gone)

    @property
    def _any_cell(self) -> int:
        return int(np.argmax(self.tree.present))

    @abstractmethod
    def _decode(self, cells: NDArray[np.intp], rng: np.random.Generator) -> Any: ...

    @abstractmethod
    def to_parts(self) -> tuple[dict[str, Any], Tensors]: ...

    def _head(self) -> dict[str, Any]:
        return {
            "code": type(self).__name__,
            "label": self.label,
            "sort": self.plain.sort,
            "type": str(self.plain.type),
            "categories": None if self.plain.categories is None else list(self.plain.categories),
            "ordered": self.plain.ordered,
            "written": self.plain.written,
            "missing": self.missing,
            "share_missing": self.share_missing,
        }

    def told_range(self) -> str:
        """Range or levels, for people."""
        return ""


def _common(head: Mapping[str, Any], tensors: Tensors) -> dict[str, Any]:
    """The fields that all codes have, from a file."""
    categories = head["categories"]
    if categories is not None and not (isinstance(categories, list) and all(isinstance(c, str) for c in categories)):
        raise ValueError("categories are not strings")
    if head["sort"] not in ("boolean", "number", "time", "string"):
        raise ValueError(f"unknown sort of column {head['sort']!r}")
    kind = arrow_type(str(head["type"]))
    if categories is not None:
        _check_levels(categories, kind)
    values: Any = pa.array([], pa.string()) if head["sort"] == "string" else np.zeros(0)
    plain = Column(
        str(head["sort"]),
        values,
        np.zeros(0, np.bool_),
        kind,
        None if categories is None else tuple(categories),
        bool(head["ordered"]),
        bool(head["written"]),
    )
    share, mass = float(head["share_missing"]), tensors["mass"]
    if not 0 <= share <= 1 or mass.dtype != np.float64 or mass.ndim != 1 or not (mass >= 0).all():
        raise ValueError("the numbers of rows in cells make no sense")
    return {
        "label": str(head["label"]),
        "plain": plain,
        "missing": bool(head["missing"]),
        "share_missing": share,
        "mass": mass,
    }


def _check_levels(levels: Sequence[str], kind: pa.DataType) -> None:
    """A ValueError if strings are not different, or do not read as values of a type."""
    if len(set(levels)) != len(levels):
        raise ValueError("levels are not different strings")
    try:
        pa.array(list(levels), pa.string()).cast(kind)
    except (pa.ArrowNotImplementedError, UnicodeError) as error:
        raise ValueError(str(error)) from error


def _packed(nodes: Sequence[Node]) -> NDArray[np.int32]:
    return np.array(nodes, np.int32).reshape(-1, 3)


def _unpacked(nodes: NDArray[Any], n_cells: int) -> tuple[Node, ...]:
    """The nodes in a file, which must make a tree over so many cells."""
    if nodes.dtype != np.int32 or nodes.shape != (max(n_cells - 1, 0), 3):
        raise ValueError("cells do not make a tree")
    waiting = {(0, n_cells)} if n_cells > 1 else set()
    found: list[Node] = []
    for low, cut, high in nodes.tolist():
        if (low, high) not in waiting or not low < cut < high:
            raise ValueError("cells do not make a tree")
        waiting.remove((low, high))
        waiting |= {(a, b) for a, b in ((low, cut), (cut, high)) if b - a > 1}
        found.append((low, cut, high))
    return tuple(found)


def _refuse(column: Column, bad: NDArray[np.bool_], label: str, what: str) -> None:
    """An error that names the first value that is not what it should be."""
    row = int(np.flatnonzero(bad)[0])
    value = column.values[row]
    value = value.as_py() if isinstance(value, pa.Scalar) else value.item()
    raise ValueError(f"{label} holds {value!r} (row {row}, counted from 0); {what}")


# ---------------------------------------------------------------------- binary


@dataclass(frozen=True, eq=False)
class BinaryCode(ColumnCode):
    """0 and 1."""

    kind = "binary"

    @property
    def is_plain(self) -> bool:
        """Whether the values came as numbers or booleans, none of them missing."""
        return not self.missing and not self.plain.written and self.plain.sort in ("number", "boolean")

    @cached_property
    def tree(self) -> CodeTree:
        return CodeTree.of(3, [(0, 1, 3), (1, 2, 3)], ordered=True, missing=True) if self.missing else BINARY

    def conform(self, column: Column) -> Column:
        if column.sort == "string":
            column = numbers_of(_bits_of_words(column), self.label)
        elif column.sort == "time":
            raise ValueError(f"{self.label} holds dates; it was 0 and 1 when the model was fitted")
        return column

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        bad = (column.values != 0) & (column.values != 1) & ~column.missing
        if bad.any():
            row = int(np.flatnonzero(bad)[0])
            raise NotBinaryError(self.label, column.values[row].item(), row)
        return (column.values == 1) + int(self.missing), np.zeros(len(column))

    def _decode(self, cells: NDArray[np.intp], rng: np.random.Generator) -> Any:
        return (cells - int(self.missing)).astype(np.int64)

    @cached_property
    def peaks(self) -> tuple[Floats, Column]:
        return self._peaks_at(np.maximum(np.arange(self.n_cells) - int(self.missing), 0))

    def _told_cells(self, low: int, high: int) -> tuple[str, str]:
        return "= 1", "= 0"

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        return self._head(), {"mass": self.mass}

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], tensors: Tensors) -> BinaryCode:
        return cls(**_common(head, tensors))

    def told_range(self) -> str:
        return "0, 1"


def _bits_of_words(column: Column) -> Column:
    """Strings with "true" and "false", in any case, as "1" and "0"."""
    low = pc.utf8_lower(column.values)
    words = pa.array(["false", "true"])
    found = pc.index_in(low, value_set=words, skip_nulls=True)
    return replace(column, values=pc.if_else(found.is_valid(), found.cast(pa.string()), column.values))


# ---------------------------------------------------------------------- categories


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
        seen = pc.value_counts(texts.filter(pa.array(~column.missing))).field(0).to_pylist() if len(texts) else []
        levels = list(column.categories) if column.categories is not None else sorted(seen)
        if column.sort == "number" and column.categories is None:
            levels.sort(key=float)
        codes = _codes(texts, levels)
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
        return _codes(self.conform(column).values, self.levels)

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        codes = _codes(column.values, self.levels)
        if not self.levels:
            return np.full(len(codes), int(self.missing)), np.zeros(len(codes))
        cells = np.where(codes < 0, int(self.missing), self._cell_of_level[codes])
        return cells, np.where(codes < 0, 0.0, self._log_share[codes])

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

    def has_choice(self, cell: int) -> bool:
        first = 1 + int(self.missing)
        return cell >= first and self.order[cell - first] < 0

    def choices(self, cell: int) -> tuple[Floats, int]:
        return (self.rare_mass + 0.5) / (self.rare_mass + 0.5).sum(), 1

    def inside(self, cells: NDArray[Any], plain: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        codes = _codes(plain.values, self.levels)
        symbols = np.searchsorted(np.array(self.rare, np.int64), codes)
        return np.minimum(symbols, max(len(self.rare) - 1, 0)), np.zeros(len(cells), np.int64)

    def from_inside(self, cells: NDArray[Any], where: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Column:
        column = self.decode(cells, np.random.default_rng(0))
        first = 1 + int(self.missing)
        shared = np.array([-2] * first + list(self.order))[cells.astype(np.intp)] == -1
        if not shared.any():
            return column
        rare = pa.array(self.levels, pa.string()).take(pa.array(np.array(self.rare)[where[0]]))
        return replace(column, values=pc.if_else(pa.array(shared), rare, column.values))

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        own = {"levels": list(self.levels), "order": list(self.order), "rare": list(self.rare)}
        return self._head() | own, {"mass": self.mass, "rare_mass": self.rare_mass, "nodes": _packed(self.nodes)}

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], tensors: Tensors) -> CategoricalCode:
        levels, order, rare = tuple(head["levels"]), tuple(head["order"]), tuple(head["rare"])
        if not all(isinstance(level, str) for level in levels):
            raise ValueError("levels are not strings")
        if sorted([*(k for k in order if k != -1), *rare]) != list(range(len(levels))) or (-1 in order) != bool(rare):
            raise ValueError("cells and levels do not fit")
        common = _common(head, tensors)
        if common["plain"].sort != "string":
            raise ValueError("levels are not strings")
        _check_levels(levels, common["plain"].type)
        rare_mass = tensors["rare_mass"]
        if len(common["mass"]) != 1 + int(common["missing"]) + len(order) or rare_mass.shape != (len(rare),):
            raise ValueError("cells and their numbers of rows do not fit")
        if rare_mass.dtype != np.float64 or not (rare_mass >= 0).all():
            raise ValueError("the numbers of rows of rare levels make no sense")
        nodes = _unpacked(tensors["nodes"], len(order))
        return cls(**common, nodes=nodes, levels=levels, order=order, rare=rare, rare_mass=rare_mass)

    def told_range(self) -> str:
        shown = ", ".join(self.levels[:4])
        return shown if len(self.levels) <= 4 else f"{shown}, ... ({len(self.levels)} levels)"


def _codes(texts: pa.Array, levels: Any) -> NDArray[np.int64]:
    found = pc.index_in(texts, value_set=pa.array(list(levels), pa.string()), skip_nulls=True)
    return np.asarray(found.fill_null(-1)).astype(np.int64)


# ---------------------------------------------------------------------- numbers


@dataclass(frozen=True, eq=False)
class _NumericCode(ColumnCode):
    """Cells: the missing value if it is one, below the range, the cells of the range from left to right, above it."""

    nodes: tuple[Node, ...]

    @cached_property
    def tree(self) -> CodeTree:
        first = 1 + int(self.missing)
        n_cells = len(self.mass)
        nodes = [(0, 1, n_cells)] if self.missing else []
        rare = float(np.log(2.0 * self.n_rows + 1.0))  # half a row on either side
        fixed = {len(nodes): rare, len(nodes) + 1: -rare}
        nodes += [(first - 1, first, n_cells), (first, n_cells - 1, n_cells), *shifted(self.nodes, first)]
        return CodeTree.of(n_cells, nodes, ordered=True, fixed=fixed, missing=self.missing)

    @property
    def _first(self) -> int:
        """The first cell of the range."""
        return 1 + int(self.missing)

    def conform(self, column: Column) -> Column:
        if self.plain.sort == "string":  # ordered categories, by their number
            assert self.plain.categories is not None
            codes = _codes(column.texts(), self.plain.categories)
            codes = np.where(codes < 0, len(self.plain.categories), codes)
            return Column("number", codes, column.missing, pa.int64())
        if self.plain.sort == "time":
            return times_of(column, self.plain.type, self.label)
        return numbers_of(column, self.label)

    def as_plain(self, column: Column) -> Column:
        if self.plain.sort == "string":  # also a level that there is not
            return self.plain.with_values(column.texts(), column.missing)
        return super().as_plain(column)

    def number(self, column: Column) -> Floats:
        """The values as numbers (ordered categories by their number, times in their unit), NaN where missing."""
        values = self.conform(column)
        return np.where(values.missing, np.nan, values.values.astype(np.float64))

    def column(self, values: NDArray[Any]) -> Column:
        """Numbers as a plain column: ordered categories by their names, times as times."""
        if self.plain.sort == "time":
            values = np.rint(values).astype(np.int64)
        return self.plain.with_values(self._shown(values), np.zeros(len(values), np.bool_))

    def _shown(self, values: Any) -> Any:
        if self.plain.sort != "string":
            return values
        assert self.plain.categories is not None
        return pa.array(self.plain.categories, pa.string()).take(pa.array(values.astype(np.int64)))

    @cached_property
    def peaks(self) -> tuple[Floats, Column]:
        return self._peaks_at(self._likeliest())

    def _told_cells(self, low: int, high: int) -> tuple[str, str]:
        if low >= self.n_cells - 1:
            (most,) = self.shown(self.column(self.ends[1][-2:-1]))
            return f"> {most}", f"<= {most}"
        (least,) = self.shown(self.column(self.ends[0][low : low + 1]))
        least = f"{least:.6g}" if isinstance(least, float) else least
        return f">= {least}", f"< {least}"

    @abstractmethod
    def _likeliest(self) -> Any:
        """A value in every cell."""

    @property
    @abstractmethod
    def centers(self) -> Floats:
        """The mean of every cell, NaN where there is none."""

    @abstractmethod
    def quantiles(self, cells: NDArray[np.intp], share: Floats) -> Floats:
        """The value below which a share of a cell's mass is, for cells of the range."""

    @property
    @abstractmethod
    def ends(self) -> tuple[Floats, Floats]:
        """The least and the greatest value of every cell, infinite outside the range, NaN for the missing value."""

    @abstractmethod
    def share_between(self, low: float, high: float) -> Floats:
        """The share of every cell's mass in low..high, both included."""


def _numeric_mass(cells: NDArray[Any], n_main: int, column: Column, weight: Floats | None, missing: bool) -> Floats:
    first = 1 + int(missing)
    there = ~column.missing
    mass = np.zeros(n_main + first + 1)
    own = None if weight is None else weight[there]
    mass[first:-1] = np.bincount(cells[there], own, n_main)
    if missing:
        mass[0] = column.missing.sum() if weight is None else weight[column.missing].sum()
    return mass


@dataclass(frozen=True, eq=False)
class GridCode(_NumericCode):
    """Numbers on a grid: whole ones, decimals, dates, ordered categories."""

    grid: Grid
    law: Law

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "datetime" if self.plain.sort == "time" else "ordered"

    @classmethod
    def fit(
        cls,
        label: str,
        plain: Column,
        column: Column,
        grid: Grid,
        weight: Floats | None,
        *,
        max_cells: int,
        min_rows: float,
        missing: bool,
        share_missing: float,
    ) -> GridCode:
        """``column`` has numbers, also where ``plain`` has categories."""
        there = ~column.missing
        ticks = grid.ticks(column.values)
        seen, index = np.unique(ticks[there], return_inverse=True)
        mass = np.bincount(index, None if weight is None else weight[there]).astype(np.float64)
        first, nodes = equal_mass(mass, max_cells, min_rows)
        law = Law.fit(seen, mass, first)
        cells = law.cell(ticks)
        whole = _numeric_mass(cells, len(first), column, weight, missing)
        return cls(label, plain, missing, share_missing, whole, tuple(nodes), grid, law)

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        low, high = self.grid.values(self.law.starts[[0, -1]] - [0, 1]).astype(np.float64)
        step = self.grid.width
        values = column.values.astype(np.float64) if column.values.dtype.kind == "f" else column.values
        ticks = self.grid.ticks(np.clip(values, low, high) if values.dtype.kind == "f" else values)
        below, above = ticks < self.law.starts[0], ticks >= self.law.starts[-1]
        if values.dtype.kind == "f":
            below, above = values < low - step / 2, values > high + step / 2
        cells = self.law.cell(ticks)
        inside = self.law.log_share(ticks, cells)
        distance = np.where(below, low - values.astype(np.float64), values.astype(np.float64) - high) / step
        outside = below | above
        inside[outside] = _tail_mass(distance[outside], self._tail_scale)
        cells = np.where(below, -1, np.where(above, self.law.n_cells, cells)) + self._first
        return cells, inside

    @property
    def _tail_scale(self) -> float:
        return float(max(1.0, (float(self.law.starts[-1]) - float(self.law.starts[0])) / 10))

    def _decode(self, cells: NDArray[np.intp], rng: np.random.Generator) -> Any:
        cells = np.clip(cells - self._first, 0, self.law.n_cells - 1)
        return self._shown(self.grid.values(self.law.draw(cells, rng)))

    def _likeliest(self) -> Any:
        ticks = self.law.likeliest
        return self._shown(self.grid.values(np.concatenate([ticks[:1].repeat(self._first), ticks, ticks[-1:]])))

    @cached_property
    def centers(self) -> Floats:
        centers = np.full(self.n_cells, np.nan)
        centers[self._first : -1] = self.grid.values_of(self.law.means)
        low, high = self.ends
        centers[self._first - 1], centers[-1] = high[self._first - 1], low[-1]
        return centers

    def quantiles(self, cells: NDArray[np.intp], share: Floats) -> Floats:
        inner = np.clip(cells - self._first, 0, self.law.n_cells - 1)
        return self.grid.values(self.law.quantile(inner, share)).astype(np.float64)

    @cached_property
    def ends(self) -> tuple[Floats, Floats]:
        low, high = np.full(self.n_cells, np.nan), np.full(self.n_cells, np.nan)
        starts = self.law.starts
        low[self._first : -1] = self.grid.values(starts[:-1])
        high[self._first : -1] = self.grid.values(starts[1:] - 1)
        low[self._first - 1], high[self._first - 1] = -np.inf, self.grid.values(starts[:1] - 1)[0]
        low[-1], high[-1] = self.grid.values(starts[-1:])[0], np.inf
        return low, high

    def share_between(self, low: float, high: float) -> Floats:
        shares = np.zeros(self.n_cells)
        shares[self._first : -1] = self.law.share_between(*self.grid.between(low, high))
        least, most = self.ends
        shares[self._first - 1] = low <= least[self._first - 1] and high >= most[self._first - 1]
        shares[-1] = high >= most[-1] and low <= least[-1]
        return shares

    def inside_between(self, cells: NDArray[np.intp], low: float, high: float, rng: np.random.Generator) -> Any:
        """Values in these cells and in low..high."""
        a, b = self.grid.between(low, high)
        inner = np.clip(cells - self._first, 0, self.law.n_cells - 1)
        return self._shown(self.grid.values(self.law.draw(inner, rng, (a, b))))

    def has_choice(self, cell: int) -> bool:
        own = cell - self._first
        return 0 <= own < self.law.n_cells and bool(self.law.starts[own + 1] - self.law.starts[own] > 1)

    def choices(self, cell: int) -> tuple[Floats, int]:
        return self.law.choices(cell - self._first)

    def inside(self, cells: NDArray[Any], plain: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        inner = np.clip(cells.astype(np.intp) - self._first, 0, self.law.n_cells - 1)
        low, high = self.law.starts[inner], self.law.starts[inner + 1] - 1
        ticks = np.clip(self.grid.ticks(self.conform(plain).values), low, high)
        return self.law.symbols(ticks, inner)

    def from_inside(self, cells: NDArray[Any], where: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Column:
        inner = np.clip(cells.astype(np.intp) - self._first, 0, self.law.n_cells - 1)
        gone = cells == 0 if self.missing else np.zeros(len(cells), np.bool_)
        return self.plain.with_values(self._shown(self.grid.values(self.law.ticks(inner, *where))), gone)

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        tensors: Tensors = {"mass": self.mass, "nodes": _packed(self.nodes), **self.law.to_tensors()}
        return self._head() | {"grid": self.grid.to_json()}, tensors

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], tensors: Tensors) -> GridCode:
        common, law = _common(head, tensors), Law.from_tensors(tensors)
        if len(common["mass"]) != law.n_cells + 2 + int(common["missing"]):
            raise ValueError("cells and their numbers of rows do not fit")
        grid = Grid.from_json(head["grid"])
        categories = common["plain"].categories
        if common["plain"].sort == "string" and (
            categories is None or law.starts[0] < 0 or law.starts[-1] > len(categories) or grid != Grid()
        ):
            raise ValueError("cells and categories do not fit")
        return cls(**common, nodes=_unpacked(tensors["nodes"], law.n_cells), grid=grid, law=law)

    def told_range(self) -> str:
        ends = self.plain.with_values(
            self._shown(self.grid.values(self.law.starts[[0, -1]] - [0, 1])), np.zeros(2, np.bool_)
        )
        low, high = ends.arrow().to_pylist()
        return f"{low} to {high}"

    @property
    def resolution(self) -> str:
        return self.grid.told(self.plain)


@dataclass(frozen=True, eq=False)
class ContinuousCode(_NumericCode):
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
        whole = _numeric_mass(code._cell(column.values), len(edges) - 1, column, weight, missing)
        return replace(code, mass=whole)

    def _cell(self, values: Floats) -> NDArray[np.intp]:
        return np.clip(np.searchsorted(self.edges, values, side="right") - 1, 0, len(self.edges) - 2)

    @cached_property
    def _widths(self) -> Floats:
        """Of the cells; 1 for a single value, whose likelihood is its mass."""
        widths = np.diff(self.edges)
        return np.where(np.nextafter(self.edges[:-1], np.inf) >= self.edges[1:], 1.0, widths)

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        values = column.values.astype(np.float64)
        low, high = self.edges[0], self.edges[-1]
        cells = self._cell(values)
        inside = -np.log(self._widths[cells])
        below, above = values < low, values > high
        scale = max(float(high - low) / 10, float(np.finfo(np.float64).tiny))
        outside = below | above
        with np.errstate(over="ignore"):
            distance = np.minimum(np.where(below, low - values, values - high)[outside], np.finfo(np.float64).max)
            ratio = np.minimum(distance / scale, np.finfo(np.float64).max)
        inside[outside] = np.log(_TAIL_POWER / scale) - (_TAIL_POWER + 1) * np.log1p(ratio)
        return np.where(below, -1, np.where(above, len(self.edges) - 1, cells)) + self._first, inside

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
        found[self._first : -1] = np.log(self._widths)
        return found

    def has_choice(self, cell: int) -> bool:
        own = cell - self._first
        return 0 <= own < len(self.edges) - 1

    def choices(self, cell: int) -> tuple[Floats, int]:
        own = cell - self._first
        return np.ones(1), int(self._ordinals[own + 1] - self._ordinals[own]) + (own == len(self.edges) - 2)

    def inside(self, cells: NDArray[Any], plain: Column) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        inner = np.clip(cells.astype(np.intp) - self._first, 0, len(self.edges) - 2)
        low = self._ordinals[inner]
        ordinals = _ordinals(np.clip(plain.values.astype(np.float64), self.edges[inner], self.edges[inner + 1]))
        return np.zeros(len(cells), np.int64), np.minimum(ordinals, self._ordinals[inner + 1]) - low

    def from_inside(self, cells: NDArray[Any], where: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Column:
        inner = np.clip(cells.astype(np.intp) - self._first, 0, len(self.edges) - 2)
        gone = cells == 0 if self.missing else np.zeros(len(cells), np.bool_)
        return self.plain.with_values(_of_ordinals(self._ordinals[inner] + where[1]), gone)

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        return self._head(), {"mass": self.mass, "nodes": _packed(self.nodes), "edges": self.edges}

    @classmethod
    def from_parts(cls, head: Mapping[str, Any], tensors: Tensors) -> ContinuousCode:
        common, edges = _common(head, tensors), tensors["edges"]
        if edges.dtype != np.float64 or edges.ndim != 1 or len(edges) < 2 or not np.isfinite(edges).all():
            raise ValueError("the edges of cells are not numbers")
        if not (np.diff(edges) > 0).all() or len(common["mass"]) != len(edges) + 1 + int(common["missing"]):
            raise ValueError("the edges of cells make no sense")
        return cls(**common, nodes=_unpacked(tensors["nodes"], len(edges) - 1), edges=edges)

    def told_range(self) -> str:
        return f"{self.edges[0]:.6g} to {self.edges[-1]:.6g}"


_REPEATED = 0.005  # share of the rows from which on a value of a continuous column has a cell of its own


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


def _tail_mass(distance: Floats, scale: float) -> Floats:
    """log of the mass of the grid point so many steps outside the range."""
    distance = np.maximum(distance, 1.0)
    near = np.log1p((distance - 1) / scale)
    ratio = -_TAIL_POWER * (np.log1p(distance / scale) - near)
    far = np.log(_TAIL_POWER / scale) - (_TAIL_POWER + 1) * np.log1p(distance / scale)
    with np.errstate(divide="ignore"):
        exact = -_TAIL_POWER * near + np.log(-np.expm1(ratio))
    return np.where(distance > 1e6 * scale, far, exact)


def numbers_of(column: Column, label: str) -> Column:
    """The same values as numbers; what is not one is an error."""
    if column.sort in ("number", "boolean"):
        return column
    if column.sort == "time":
        raise ValueError(f"{label} holds dates; it was numbers when the model was fitted")
    numbers, bad = parsed_numbers(column)
    if bad.any():
        _refuse(column, bad, label, "it was numbers when the model was fitted")
    return numbers


def parsed_numbers(column: Column) -> tuple[Column, NDArray[np.bool_]]:
    """Strings as numbers, and which of them are none."""
    texts = pc.utf8_trim_whitespace(column.values)
    looks = pc.match_substring_regex(texts, r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$").fill_null(False)
    bad = ~np.asarray(looks) & ~column.missing
    kept = pc.if_else(looks, texts, None)
    whole = pc.match_substring_regex(kept, r"^[+-]?\d{1,18}$").fill_null(True)
    missing = column.missing | bad
    if bool(pc.all(whole).as_py()):
        digits = pc.replace_substring_regex(kept, r"^\+", "")
        values = np.asarray(digits.cast(pa.int64()).fill_null(0)).astype(np.int64)
    else:
        values = np.asarray(pc.replace_substring_regex(kept, r"^\+", "").cast(pa.float64()).fill_null(0.0))
        if np.isinf(values).any():
            bad = bad | np.isinf(values)
    kind = pa.int64() if values.dtype.kind == "i" else pa.float64()
    return Column("number", values, missing, kind, written=True), bad


def times_of(column: Column, kind: pa.DataType, label: str) -> Column:
    """The same points in time in the unit of ``kind``."""
    if column.sort == "time" and column.type == kind:
        return column
    if column.sort not in ("time", "string"):
        raise ValueError(f"{label} holds numbers; it was {kind} when the model was fitted")
    try:
        array = column.arrow().cast(pa.string()) if column.sort == "string" else column.arrow()
        cast = array.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"{label} cannot be read as {kind}: {error}") from error
    whole = cast.cast(pa.int64() if not (pa.types.is_date32(kind) or pa.types.is_time32(kind)) else pa.int32())
    return Column("time", np.asarray(whole.cast(pa.int64()).fill_null(0)), column.missing, kind)


_CODES: dict[str, Any] = {code.__name__: code for code in (BinaryCode, CategoricalCode, GridCode, ContinuousCode)}


def code_from_parts(head: Mapping[str, Any], tensors: Tensors) -> ColumnCode:
    """The code in a file; what makes no sense is a ValueError."""
    if head["code"] not in _CODES:
        raise ValueError(f"unknown code of a column {head['code']!r}")
    code: ColumnCode = _CODES[head["code"]].from_parts(head, tensors)
    return code
