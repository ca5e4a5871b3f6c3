"""What sort of column a column is: detected from its type and values, or as the user says."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._tables.codes import (
    BinaryCode,
    CategoricalCode,
    ColumnCode,
    ContinuousCode,
    GridCode,
    parsed_numbers,
)
from lbarn._tables.column import Column
from lbarn._tables.grids import find_grid

__all__ = ["KINDS", "Coding", "detected_kind", "fit_code"]

KINDS = ("binary", "categorical", "ordered", "continuous", "datetime", "drop")

_MOST_DECIMALS = 9  # with which numbers may all be written
_FEW_ROWS = 20  # up to which strings may all differ and still be levels


@dataclass(frozen=True)
class Coding:
    """How columns are coded: cells per column at most, rows that a cell needs to be cut, whether missing is a value.

    ``alone``: whether what other columns tell is no reason for more cells.
    """

    max_cells: int = 256
    min_rows: float = 32.0
    missing: str = "value"
    alone: bool = False


def fit_code(
    label: str, column: Column, kind: str | None, how: Coding, weight: NDArray[np.float64] | None = None
) -> ColumnCode | str:
    """The code of a column of this kind, detected if it is None; or the reason for which it is left out."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"columns: {label} cannot be {kind!r}; the kinds are {', '.join(KINDS)}")
    if kind == "drop":
        return "as asked"
    share_missing = float(column.missing.mean()) if len(column) else 0.0
    missing = how.missing == "value" and bool(column.missing.any())
    plain, values, found = _read(label, column, kind)
    if found == "drop":
        return "every value is another string"
    common: dict[str, Any] = {"missing": missing, "share_missing": share_missing}
    empty = plain.take(slice(0, 0))
    if found == "binary":
        mass = _binary_mass(values, weight, missing)
        return BinaryCode(label, empty, missing, share_missing, mass)
    if found == "categorical":
        return CategoricalCode.fit(label, plain, weight, max_cells=how.max_cells, **common)
    size: dict[str, Any] = {"max_cells": how.max_cells, "min_rows": how.min_rows}
    if found == "continuous":
        values = replace(values, values=values.values.astype(np.float64))
        return ContinuousCode.fit(label, empty, values, weight, **size, **common)
    grid = find_grid(values)
    if grid is None:
        raise ValueError(f"columns: {label} holds numbers that are on no grid; it can be 'continuous', not {found!r}")
    return GridCode.fit(label, empty, values, grid, weight, **size, **common)


def detected_kind(column: Column) -> str:
    """What a column is if nobody says so: one of the kinds; "drop" if it holds strings that all differ."""
    return _read("", column, None)[2]


def _binary_mass(values: Column, weight: NDArray[np.float64] | None, missing: bool) -> NDArray[np.float64]:
    cells = np.where(values.missing, 0, values.values + int(missing)).astype(np.intp)
    kept = slice(None) if missing else ~values.missing
    return np.bincount(cells[kept], None if weight is None else weight[kept], 2 + int(missing)).astype(np.float64)


def _read(label: str, column: Column, kind: str | None) -> tuple[Column, Column, str]:
    """(the column as it is to be given back, its values as numbers if it has such, its kind)."""
    there = ~column.missing
    if not there.any():
        return column, column, "categorical"
    if kind == "categorical":
        return column, column, kind
    if column.sort == "string" and column.categories is not None:
        return _read_categories(label, column, kind)
    if column.sort == "string":
        numbers, bad = parsed_numbers(column)
        if not bad.any():
            alike = _written_alike(numbers, column)
            if alike is not None:
                return _read(label, alike, kind)
            if kind not in (None, "ordered"):
                return _read(label, numbers, kind)
        times = _parsed_times(column) if kind in (None, "datetime") else None
        if times is not None:
            return times, times, "datetime"
        if kind in ("binary", "continuous", "datetime"):
            word = {"binary": "0 and 1", "continuous": "numbers", "datetime": "dates such as 2024-01-31"}[kind]
            row = int(np.flatnonzero(bad)[0]) if bad.any() else int(np.flatnonzero(there)[0])
            raise ValueError(
                f"columns: {label} cannot be {kind!r}: it holds {column.values[row].as_py()!r}, not {word}"
            )
        if kind == "ordered":
            levels = sorted(set(column.values.drop_null().to_pylist()))
            if not bad.any():
                levels.sort(key=float)
            return _read_categories(label, replace(column, categories=tuple(levels), written=True), kind)
        distinct = pc.count_distinct(column.values, mode="only_valid").as_py()
        if distinct == int(there.sum()) > _FEW_ROWS:
            return column, column, "drop"
        return column, column, "categorical"
    if column.sort == "time":
        if kind not in (None, "datetime", "ordered"):
            raise ValueError(f"columns: {label} holds dates; it can be 'datetime' or 'categorical', not {kind!r}")
        return column, column, "datetime"
    return column, column, _kind_of_numbers(label, column, kind)


def _kind_of_numbers(label: str, column: Column, kind: str | None) -> str:
    values = column.values[~column.missing]
    is_binary = bool(((values == 0) | (values == 1)).all())
    if kind == "binary" and not is_binary:
        other = values[(values != 0) & (values != 1)][0].item()
        raise ValueError(f"columns: {label} cannot be 'binary': it holds {other!r}, not 0 and 1 only")
    if kind == "datetime":
        raise ValueError(f"columns: {label} holds numbers, not dates; convert it to dates first")
    if kind is not None:
        return kind
    if is_binary:
        return "binary"
    return "continuous" if find_grid(column) is None else "ordered"


def _read_categories(label: str, column: Column, kind: str | None) -> tuple[Column, Column, str]:
    assert column.categories is not None
    if kind not in (None, "ordered"):
        raise ValueError(f"columns: {label} holds categories; it can be 'categorical' or 'ordered', not {kind!r}")
    if kind is None and not column.ordered:
        n_seen = pc.count_distinct(column.values, mode="only_valid").as_py()
        drop = n_seen == int((~column.missing).sum()) > _FEW_ROWS
        return column, column, "drop" if drop else "categorical"
    codes = pc.index_in(column.values, value_set=pa.array(list(column.categories), pa.string()), skip_nulls=True)
    numbers = Column("number", np.asarray(codes.fill_null(0)).astype(np.int64), column.missing, pa.int64())
    return column, numbers, "ordered"


def _written_alike(numbers: Column, texts: Column) -> Column | None:
    """Numbers in the type in which they are written again as they were: "1.5", or "1.0" among decimals, or "1.50"; None if
    there is none ("007")."""
    decimals = pc.max(pc.utf8_length(pc.replace_substring_regex(texts.values, r"^[^.]*\.?", ""))).as_py() or 0
    ways = [numbers, replace(numbers, pointed=True)]
    if 0 < decimals <= _MOST_DECIMALS:
        ways.append(replace(numbers, type=pa.decimal128(38, decimals)))
    for way in ways:
        with suppress(pa.ArrowInvalid):  # too long for a decimal
            if way.texts().equals(texts.values):
                return way
    return None


def _parsed_times(column: Column) -> Column | None:
    """Dates or times that were written as strings, in a form that can be written again; None if they are none."""
    first = column.values.drop_null()[0].as_py()
    if not (first[:4].isdigit() and len(first) >= 8):
        return None
    for kind in (pa.date32(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us")):
        try:
            times = column.values.cast(kind)
        except pa.ArrowInvalid:
            continue
        if times.cast(pa.string()).equals(column.values):
            whole = times.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(pa.int64())
            return Column("time", np.asarray(whole.fill_null(0)), column.missing, kind, written=True)
    return None
