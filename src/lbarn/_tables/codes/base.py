"""What every code of a column does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._engine.codetree import UNKNOWN, CodeTree
from lbarn._tables.column import Column

__all__ = ["Choices", "ColumnCode", "Floats", "Inside", "Tensors"]

Floats = NDArray[np.float64]
Tensors = dict[str, NDArray[Any]]
Inside = tuple[NDArray[np.int64], NDArray[np.uint64]]  # symbol and offset of every value in its cell


class Choices(NamedTuple):
    """What may be in every cell: one of its symbols, of which the last one stands for some values, told apart by an offset."""

    chances: Floats  # of the symbols of all cells
    starts: NDArray[np.int64]  # where those of every cell begin; at last the number of all
    n_last: NDArray[np.uint64]  # the number of values that the last symbol of every cell stands for


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
    def numbers(self) -> Floats | None:
        """What the cells stand for, NaN for one that is no number; None if the values are none."""
        return None

    @property
    def n_rows(self) -> float:
        return float(self.mass.sum())

    def encode(self, column: Column) -> tuple[NDArray[np.uint16], Floats]:
        """The cell of every value (``UNKNOWN`` for an empty one that is no value), and the log-likelihood of the value inside it."""
        column = self.conform(self._typed(column))
        cells, inside = self._encode(column)
        return self._with_missing(cells, column), np.where(column.missing, 0.0, inside)

    def _with_missing(self, cells: NDArray[Any], column: Column) -> NDArray[np.uint16]:
        return np.where(column.missing, 0 if self.missing else UNKNOWN, cells).astype(np.uint16)

    @abstractmethod
    def conform(self, column: Column) -> Column:
        """The column in the form that this code takes; an error that names what cannot be."""

    @abstractmethod
    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]: ...

    def as_plain(self, column: Column) -> Column:
        """The same values in the form that ``decode`` gives them."""
        own = self.conform(self._typed(column))
        return self.plain.with_values(self._shown(own.values), column.missing)

    def _typed(self, column: Column) -> Column:
        """A column without a single value may have come in any type: here in this one."""
        return self.plain.blank(len(column)) if column.missing.all() else column

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
        found, choices = np.zeros(self.n_cells), self.choices
        if choices is not None:
            for cell, (start, stop) in enumerate(pairwise(choices.starts)):
                chances, n_last = choices.chances[start:stop], choices.n_last[cell]
                found[cell] = chances[-1] * np.log(n_last) - np.sum(chances * np.log(np.maximum(chances, 1e-300)))
        return found

    def shown(self, column: Column) -> list[Any]:
        """Values as Python has them, for people: numbers, booleans and strings, None for what is missing."""
        if self.plain.sort == "string":
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
        if low > high:
            one, zero = self._told_cells(low, self.n_cells)
            return f"{one} or is empty", zero
        return self._told_cells(low, high)

    @abstractmethod
    def _told_cells(self, low: int, high: int) -> tuple[str, str]:
        """What it says of a value to be in these cells, and in the others."""

    # Inside a cell, for whoever codes values without loss.

    @property
    def choices(self) -> Choices | None:
        """What the cells leave to choose; None if every cell has one value."""
        return None

    def locate(self, column: Column) -> tuple[NDArray[np.uint16], Inside | None]:
        """The cell of every value, and its symbol and offset there; None if there are no ``choices``."""
        column = self.conform(self._typed(column))
        cells, inside = self._locate(column)
        return self._with_missing(cells, column), inside

    def _locate(self, column: Column) -> tuple[NDArray[Any], Inside | None]:
        """The same of a column that conforms. What is inside a cell of one value does not matter."""
        return self._encode(column)[0], None

    def from_inside(self, cells: NDArray[Any], where: Inside | None) -> Column:
        """The values with these symbols and offsets."""
        return self.decode(cells, np.random.default_rng(0))

    def share_of(self, values: Column) -> Floats:
        """The share of every cell's mass that some values have, each of which is there once."""
        cells, inside = self.encode(values)
        return np.bincount(cells, np.exp(inside), self.n_cells).astype(np.float64, copy=False)

    def inside_set(self, cells: NDArray[np.intp], values: Column, rng: np.random.Generator) -> Any:
        """Values in these cells that are among some."""
        own, inside = self.encode(values)
        chance = np.where(own == cells[:, None], np.exp(inside), 0.0)
        upto = np.cumsum(chance, axis=1)
        picked = (rng.random((len(cells), 1)) * upto[:, -1:] >= upto).sum(axis=1)
        return self.as_plain(values).take(np.minimum(picked, len(values) - 1)).values

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
            "pointed": self.plain.pointed,
            "missing": self.missing,
            **({"empty_on_either_side": True} if self.missing and self.kind != "categorical" else {}),
            "share_missing": self.share_missing,
        }

    def told_range(self) -> str:
        """Range or levels, for people."""
        return ""
