"""The code of 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._engine.codetree import BINARY, CodeTree
from lbarn._tables.codes.base import ColumnCode, Floats, Tensors
from lbarn._tables.codes.numeric import tail_mass
from lbarn._tables.codes.parts import common_fields
from lbarn._tables.codes.reading import numbers_of
from lbarn._tables.column import Column
from lbarn.errors import NotBinaryError

__all__ = ["BinaryCode"]


@dataclass(frozen=True, eq=False)
class BinaryCode(ColumnCode):
    """0 and 1.

    Among columns of other kinds, a number that is neither is in the cell of the nearer one, with the share of half a row; booleans, and
    tables that are 0 and 1 throughout, have no such numbers.
    """

    kind = "binary"

    @property
    def is_plain(self) -> bool:
        """Whether the values came as numbers or booleans, none of them missing."""
        return not self.missing and not self.plain.written and self.plain.sort in ("number", "boolean")

    @cached_property
    def tree(self) -> CodeTree:
        return CodeTree.of(3, [(0, 1, 3), (1, 2, 3)], ordered=True, missing=True) if self.missing else BINARY

    @property
    def numbers(self) -> Floats:
        return np.array([np.nan, 0.0, 1.0][not self.missing :])

    def conform(self, column: Column) -> Column:
        bits = _bits_of_words(column) if column.sort == "string" else column
        return numbers_of(bits, self.label, "booleans" if self.plain.sort == "boolean" else "0 and 1")

    @property
    def _beyond(self) -> float:
        """The share of a cell that numbers beyond 0 and 1 have."""
        return 0.5 / (self.n_rows + 1.0) if self.n_rows and self.plain.sort == "number" else 0.0

    def _encode(self, column: Column) -> tuple[NDArray[Any], Floats]:
        other = (column.values != 0) & (column.values != 1) & ~column.missing
        inside = np.full(len(column), np.log1p(-self._beyond))
        if other.any():
            if not self._beyond:
                row = int(np.flatnonzero(other)[0])
                raise NotBinaryError(self.label, column.values[row].item(), row)
            distance = np.abs(column.values.astype(np.float64) - 0.5) - 0.5
            far = other & (distance > 0.5)
            inside[far] = np.log(self._beyond) + tail_mass(distance[far], 1.0)
        return (column.values > 0.5) + int(self.missing), inside

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
        common = common_fields(head, tensors)
        if len(common["mass"]) != 2 + int(common["missing"]) or common["plain"].sort not in ("number", "boolean"):
            raise ValueError("a binary column is not of 0 and 1")
        return cls(**common)

    def told_range(self) -> str:
        return "0, 1"


def _bits_of_words(column: Column) -> Column:
    """Strings with "true" and "false", in any case, as "1" and "0"."""
    low = pc.utf8_lower(column.values)
    words = pa.array(["false", "true"])
    found = pc.index_in(low, value_set=words, skip_nulls=True)
    return replace(column, values=pc.if_else(found.is_valid(), found.cast(pa.string()), column.values))
