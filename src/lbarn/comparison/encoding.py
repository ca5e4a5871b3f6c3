"""Tables as matrices of floats: numbers and dates as they are, levels by their number, NaN if a cell is empty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn.comparison.kinds import Kind, as_dates, as_numbers, as_text, column_kinds, date_format
from lbarn.comparison.tables import Columns

__all__ = ["Floats", "Schema", "encode"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Schema:
    """What the columns of the matrices are. Levels are those of all tables, the most frequent first; None for numbers."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    levels: tuple[tuple[str, ...] | None, ...]

    @property
    def discrete(self) -> NDArray[np.bool_]:
        """Which columns hold numbers of levels."""
        return np.array([levels is not None for levels in self.levels])


def encode(tables: Sequence[Columns]) -> tuple[Schema, list[Floats]]:
    """All tables in the terms of the first one, which says what the columns are.

    Examples
    --------
    >>> from lbarn.comparison.tables import read_columns
    >>> tables = [read_columns([[1, "b"], [2, "a"]], "real"), read_columns([[3, "b"]], "synthetic")]
    >>> schema, (real, synthetic) = encode(tables)
    >>> schema.levels
    (None, ('b', 'a'))
    >>> real, synthetic
    (array([[1., 0.],
           [2., 1.]]), array([[3., 0.]]))
    """
    real = tables[0]
    kinds = column_kinds(real)
    matrices = [np.empty((table.n_rows, len(kinds))) for table in tables]
    all_levels: list[tuple[str, ...] | None] = []
    for j, (name, kind) in enumerate(zip(real.labels(), kinds)):
        columns, levels = _encode_column(kind, name, [table.arrays[j] for table in tables], tables)
        all_levels.append(levels)
        for table, matrix, values in zip(tables, matrices, columns):
            if np.isnan(values).all():
                raise ValueError(f"{table.title}: column {name!r} is empty in every row; leave it out of all tables")
            matrix[:, j] = values
    return Schema(real.labels(), kinds, tuple(all_levels)), matrices


def _encode_column(
    kind: Kind, name: str, arrays: Sequence[pa.Array], tables: Sequence[Columns]
) -> tuple[list[Floats], tuple[str, ...] | None]:
    if kind == "category":
        return _codes([as_text(array) for array in arrays])
    known = date_format(arrays[0]) if kind == "datetime" else None
    columns = []
    for array, table in zip(arrays, tables):
        values = as_numbers(array) if known is None else as_dates(array, known)
        if values is None:
            cell = _first_other(array, known)
            what = {"number": "numbers", "datetime": "dates", "boolean": "booleans"}[kind]
            raise ValueError(f"{table.title}: column {name!r} holds {cell[:40]!r}, but {what} in {tables[0].title}")
        if np.isinf(values).any():
            raise ValueError(f"{table.title}: column {name!r} holds an infinite number")
        columns.append(values)
    return _boolean_codes(columns) if kind == "boolean" else (columns, None)


def _first_other(array: pa.Array, known: str | None) -> str:
    """The first cell that is not what it should be."""
    for i in range(len(array)):
        cell = array[i : i + 1]
        if (as_numbers(cell) if known is None else as_dates(cell, known)) is None:
            return str(cell[0].as_py())
    raise AssertionError("every cell can be read alone, but not all of them")


def _codes(texts: Sequence[pa.Array]) -> tuple[list[Floats], tuple[str, ...]]:
    encoded = pa.chunked_array(list(texts), pa.string()).combine_chunks().dictionary_encode()
    codes = np.array(encoded.indices.cast(pa.float64()).to_numpy(zero_copy_only=False))
    levels = encoded.dictionary.to_pylist()
    counts = np.bincount(codes[~np.isnan(codes)].astype(np.intp), minlength=len(levels))
    ranking = sorted(range(len(levels)), key=lambda level: (-counts[level], levels[level]))
    rank = np.empty(len(levels) + 1)
    rank[ranking], rank[-1] = np.arange(len(levels)), np.nan
    ranked = rank[np.where(np.isnan(codes), len(levels), codes).astype(np.intp)]
    ends = np.cumsum([len(text) for text in texts])[:-1]
    return np.split(ranked, ends), tuple(levels[level] for level in ranking)


def _boolean_codes(columns: Sequence[Floats]) -> tuple[list[Floats], tuple[str, ...]]:
    """0 and 1 keep their values; what only other tables hold comes after them."""
    values = np.unique(np.concatenate(columns))
    others = [value for value in values[~np.isnan(values)].tolist() if value not in (0, 1)]
    levels = [0.0, 1.0, *others]
    codes = [column.copy() for column in columns]
    for code, value in enumerate(others, 2):
        for own, column in zip(codes, columns):
            own[column == value] = code
    return codes, tuple(f"{level:g}" for level in levels)
