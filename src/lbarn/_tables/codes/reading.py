"""Columns that come later, as the numbers, times or levels that a code knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._tables.column import Column

__all__ = ["level_numbers", "numbers_of", "parsed_numbers", "refuse", "times_of"]


def level_numbers(texts: pa.Array, levels: Any) -> NDArray[np.int64]:
    found = pc.index_in(texts, value_set=pa.array(list(levels), pa.string()), skip_nulls=True)
    return np.asarray(found.fill_null(-1)).astype(np.int64)


def numbers_of(column: Column, label: str, was: str = "numbers") -> Column:
    """The same values as numbers; what is not one is an error."""
    if column.sort in ("number", "boolean"):
        return column
    if column.sort == "time":
        raise ValueError(f"{label} holds dates; it was {was} when the model was fitted")
    numbers, bad = parsed_numbers(column)
    if bad.any():
        refuse(column, bad, label, f"it was {was} when the model was fitted")
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


def refuse(column: Column, bad: NDArray[np.bool_], label: str, what: str) -> None:
    """An error that names the first value that is not what it should be."""
    row = int(np.flatnonzero(bad)[0])
    value = column.values[row]
    value = value.as_py() if isinstance(value, pa.Scalar) else value.item()
    raise ValueError(f"{label} holds {value!r} (row {row}, counted from 0); {what}")
