"""Packed bits: the only form in which data is kept, one bit per value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lbarn import _core

__all__ = ["MAX_COLUMNS", "MAX_ROWS", "PackedBits", "PickedRows", "pack", "row_bytes"]

MAX_COLUMNS = 65_535  # a split names its column in 16 bits
MAX_ROWS = 30_000_000  # the histogram's sums fit 31 bits

_CHUNK_ROWS = 4096  # rows unpacked at a time
_FEWEST = 16_384  # rows of which equal ones are merged: among fewer, the noise of rounding each by itself does good
_LOOKED_AT = 4  # times the square root of the number of rows, to see whether many are equal
_SEEN_AGAIN = (
    16  # of them, with half as many different rows as rows: 16 n / 2 pairs are looked at, a share 2 / n of them equal
)

Count = NDArray[np.uint32] | None


@dataclass(frozen=True)
class PackedBits:
    """A binary table of ``n_rows`` x ``n_columns``, row by row, columns in network order.

    ``rows[i]`` holds row ``i``, column ``j`` in bit ``j % 8`` of byte ``j // 8``; rows are padded to 32 bytes.
    """

    rows: NDArray[np.uint8]
    n_columns: int

    @property
    def n_rows(self) -> int:
        return self.rows.shape[0]

    @property
    def count(self) -> None:
        """Every row stands for itself."""
        return None

    @property
    def n_all(self) -> int:
        return self.n_rows

    @cached_property
    def columns(self) -> NDArray[np.uint64]:
        """The same bits column by column: row ``i`` of column ``j`` is bit ``i % 64`` of ``columns[j, i // 64]``."""
        return _core.transpose(self.rows, self.n_columns)

    def column(self, j: int) -> NDArray[np.uint8]:
        """One column as 0 and 1."""
        return _unpacked(self.columns[j], self.n_rows)

    def unpack(self) -> NDArray[np.uint8]:
        """The table as an array of 0 and 1, in network order."""
        return np.unpackbits(self.rows, axis=1, count=self.n_columns, bitorder="little")

    def __getstate__(self) -> dict[str, object]:
        return {"rows": self.rows, "n_columns": self.n_columns}  # columns are cheaper to make than to send

    @classmethod
    def concatenate(cls, parts: Sequence[PackedBits]) -> PackedBits:
        return cls(np.concatenate([part.rows for part in parts]), parts[0].n_columns)

    def __add__(self, other: PackedBits) -> PackedBits:
        return PackedBits.concatenate([self, other])

    def take(self, rows: NDArray[np.intp]) -> PackedBits:
        return PackedBits(np.ascontiguousarray(self.rows[rows]), self.n_columns)

    def pick(self, rows: NDArray[np.int32], n_columns: int, count: Count = None) -> PickedRows:
        """The first columns of the rows with these numbers, each standing for ``count`` equal ones."""
        return PickedRows(_core.take_columns(self.rows, rows, n_columns), len(rows), count)

    def distinct(self, rows: NDArray[np.int32], n_columns: int) -> tuple[NDArray[np.int32], Count]:
        """Of the rows with these numbers those that differ in the first columns, and how many equal ones each stands for.

        All of them, and no counts, if too few are equal for it to be worth while.
        """
        if len(rows) < _FEWEST:
            return rows, None
        few = np.ascontiguousarray(rows[:: max(1, len(rows) // (_LOOKED_AT * isqrt(len(rows)) + 1))])
        if _core.distinct_rows(self.rows, few, n_columns, max(0, len(few) - _SEEN_AGAIN)) is None:
            return rows, None
        return _core.distinct_rows(self.rows, rows, n_columns, len(rows) // 3) or (rows, None)

    def permuted(self, order: NDArray[np.intp]) -> PackedBits:
        """The same rows with column ``order[k]`` at position ``k``."""
        rows = np.zeros_like(self.rows)
        for start in range(0, self.n_rows, _CHUNK_ROWS):
            values = np.unpackbits(
                self.rows[start : start + _CHUNK_ROWS], axis=1, count=self.n_columns, bitorder="little"
            )
            packed = np.packbits(values[:, order], axis=1, bitorder="little")
            rows[start : start + _CHUNK_ROWS, : packed.shape[1]] = packed
        return PackedBits(rows, self.n_columns)

    def column_sums(self) -> NDArray[np.float64]:
        """The number of ones of every column."""
        return np.array([self.column(j).sum(dtype=float) for j in range(self.n_columns)])


@dataclass(frozen=True)
class PickedRows:
    """Some rows of packed bits, column by column."""

    columns: NDArray[np.uint64]
    n_rows: int
    count: Count = None  # of equal rows that each one stands for

    @property
    def n_all(self) -> int:
        """Rows, those counted that others stand for."""
        return self.n_rows if self.count is None else int(self.count.sum(dtype=np.int64))

    def column(self, j: int) -> NDArray[np.uint8]:
        """One column as 0 and 1."""
        return _unpacked(self.columns[j], self.n_rows)


def _unpacked(column: NDArray[np.uint64], n_rows: int) -> NDArray[np.uint8]:
    return np.unpackbits(column.view(np.uint8), count=n_rows, bitorder="little")


def row_bytes(n_columns: int) -> int:
    """Bytes of a packed row, padding included."""
    return -(-n_columns // 256) * 32


def pack(X: ArrayLike, order: Sequence[int] | NDArray[np.intp] | None = None) -> PackedBits:
    """Pack an array of 0 and 1 (or of booleans), column ``order[k]`` going to position ``k``.

    Works a few thousand rows at a time, so the array is never copied whole.

    Examples
    --------
    >>> import numpy as np
    >>> bits = pack(np.eye(3, dtype=bool), order=[2, 1, 0])
    >>> bits.unpack()
    array([[0, 0, 1],
           [0, 1, 0],
           [1, 0, 0]], dtype=uint8)
    """
    X = np.asarray(X)
    n, d = X.shape
    rows = np.zeros((n, row_bytes(d)), np.uint8)
    for start in range(0, n, _CHUNK_ROWS):
        chunk = X[start : start + _CHUNK_ROWS]
        if order is not None:
            chunk = chunk[:, order]
        rows[start : start + _CHUNK_ROWS, : -(-d // 8)] = np.packbits(chunk != 0, axis=1, bitorder="little")
    return PackedBits(rows, d)
