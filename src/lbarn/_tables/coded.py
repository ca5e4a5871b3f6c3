"""A table as its codebook reads it: cells, in chunks of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.codetree import UNKNOWN, Cells
from lbarn._tables.codebook import Codebook
from lbarn._tables.codes import Inside
from lbarn._tables.column import Column
from lbarn._tables.table import Table

__all__ = ["CodedChunk", "CodedTable", "LocatedColumns"]

Floats = NDArray[np.float64]

_CHUNK_VALUES = 2_000_000  # cells looked at together


@dataclass(frozen=True)
class CodedChunk:
    """Some rows: their cells, where these are unknown (None: nowhere), and the log-likelihood of the values inside the
    cells, (n, D) (None: all are 0)."""

    start: int
    cells: Cells
    unknown: NDArray[np.bool_] | None = None
    inside: Floats | None = None

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def log_inside(self) -> Floats | float:
        """Of whole rows."""
        return 0.0 if self.inside is None else self.inside.sum(axis=1)


@dataclass(frozen=True)
class LocatedColumns:
    """Values by column, and where they are: in which ``cells``, (D, n), and inside these, None where they have one value each."""

    columns: list[Column]
    cells: NDArray[np.uint16]
    insides: list[Inside | None]

    @classmethod
    def of(cls, book: Codebook, columns: list[Column]) -> LocatedColumns:
        found = [code.locate(column) for code, column in zip(book.codes, columns)]
        return cls(columns, np.stack([cells for cells, _ in found]), [inside for _, inside in found])

    def __len__(self) -> int:
        return self.cells.shape[1]

    def __add__(self, below: LocatedColumns) -> LocatedColumns:
        columns = [one + other for one, other in zip(self.columns, below.columns)]
        insides = [_joined(one, other) for one, other in zip(self.insides, below.insides)]
        return LocatedColumns(columns, np.concatenate([self.cells, below.cells], axis=1), insides)

    def take(self, rows: slice) -> LocatedColumns:
        insides = [None if own is None else (own[0][rows], own[1][rows]) for own in self.insides]
        return LocatedColumns([own.take(rows) for own in self.columns], self.cells[:, rows], insides)


def _joined(one: Inside | None, other: Inside | None) -> Inside | None:
    if one is None or other is None:
        return None
    return np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])


@dataclass(frozen=True)
class CodedTable:
    """The columns of a table that a model knows, in the codes of the model."""

    table: Table
    book: Codebook
    blind: int | None = None  # a modelled column whose values are not looked at: they read as unknown

    @property
    def n_rows(self) -> int:
        return self.table.n_rows

    def columns(self, rows: slice = slice(None)) -> Iterator[Column]:
        """The modelled columns."""
        for k, j in enumerate(self.book.taken):
            if k == self.blind:
                n = len(range(*rows.indices(self.n_rows)))
                yield self.book.codes[k].plain.take(np.zeros(0, np.intp)).blank(n)
            else:
                yield self.table.column(int(j), rows)

    def without(self, j: int) -> CodedTable:
        """The same without looking at the values of a modelled column, which may be absent."""
        return replace(self, blind=j)

    def chunks(self) -> Iterator[CodedChunk]:
        """Successive chunks of rows."""
        if self.book.is_binary and self.blind is None:
            for start, values, missing in self.table.chunks():
                yield CodedChunk(start, values, missing)
            return
        for rows in self._slices():
            yield self._chunk(rows.start, self.columns(rows))

    def _chunk(self, start: int, columns: Iterable[Column]) -> CodedChunk:
        cells, inside = self.book.encode(columns)
        unknown = cells == UNKNOWN
        return CodedChunk(start, cells, unknown if unknown.any() else None, inside)

    def complete_chunks(self) -> Iterator[CodedChunk]:
        """The same; a value that is missing and no value of its own is an error."""
        return map(self._complete, self.chunks())

    def complete_columns(self) -> Iterator[LocatedColumns]:
        """The same as columns, for whoever codes them without loss."""
        for rows in self._slices():
            columns = list(self.columns(rows))
            gone = [(int(own.missing.argmax()), j) for j, own in enumerate(columns) if self._lacks(j, own)]
            if gone:
                i, j = min(gone)
                raise self._missing(j, rows.start + i)
            yield LocatedColumns.of(self.book, columns)

    def _lacks(self, j: int, column: Column) -> bool:
        return not self.book.codes[j].missing and bool(column.missing.any())

    def _slices(self) -> Iterator[slice]:
        step = max(1, _CHUNK_VALUES // self.book.n_columns)
        return (slice(start, min(start + step, self.n_rows)) for start in range(0, self.n_rows, step))

    def _complete(self, chunk: CodedChunk) -> CodedChunk:
        if chunk.unknown is not None:
            i, j = np.argwhere(chunk.unknown)[0]
            raise self._missing(j, chunk.start + i)
        return chunk

    def _missing(self, j: int, row: int) -> ValueError:
        return ValueError(
            f"{self.book.codes[j].label} is missing (Input X contains NaN, row {row}, counted from 0); "
            "complete rows are needed here: impute fills them, score_samples scores what is there"
        )

    def give(self, columns: list[Column]) -> Any:
        """As many rows in the same sort of table, pandas' index included."""
        given = self.table.format.give_columns(columns, self.book.taken)
        return self.table.with_index(given)
