"""One column of a user's table in a plain form, and back: numbers, points in time as whole numbers, or strings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["AS_DIGITS", "Column", "arrow_type", "as_column", "of_arrow", "of_texts", "plain_array", "whole_numbers"]

AS_DIGITS = {
    b"lbarn": b"whole numbers without a point"
}  # metadata of an Arrow column of floats that came as 22, not as 22.0


@dataclass(frozen=True, eq=False)
class Column:
    """``values`` are floats or whole numbers, or an Arrow array of strings; what is ``missing`` has any value.

    ``type`` is the Arrow type that the values came in; if they were ``written`` as strings, the type that these tell, and
    ``pointed`` tells that whole numbers among others ended in ".0". A column of categories has their names, in order; so have
    strings whose order is known, which are ``written`` too. It is ``exact`` unless values have lost something: objects of several types are their
    strings, and numbers that are too long are the nearest doubles.
    """

    sort: str  # "boolean", "number", "time" or "string"
    values: Any
    missing: NDArray[np.bool_]
    type: pa.DataType
    categories: tuple[str, ...] | None = None
    ordered: bool = False
    written: bool = False
    pointed: bool = False
    exact: bool = True

    @classmethod
    def of_strings(cls, values: Sequence[str]) -> Column:
        return cls("string", pa.array(values, pa.string()), np.zeros(len(values), np.bool_), pa.string())

    def __len__(self) -> int:
        return len(self.missing)

    def __add__(self, below: Column) -> Column:
        """The rows of both; what was read as another sort of column is read as strings."""
        above = self
        if above.sort != below.sort or above.type != below.type:
            if not above.missing.all() and not below.missing.all():
                if {above.sort, below.sort} <= {"number", "boolean"}:
                    above, below = (replace(own, sort="number", type=self.type) for own in (above, below))
                else:
                    above, below = (
                        Column("string", own.texts(), own.missing, pa.string(), exact=False) for own in (above, below)
                    )
            elif below.missing.all():
                below = replace(above.take(np.zeros(len(below), np.intp)), missing=below.missing)
            else:
                above = replace(below.take(np.zeros(len(above), np.intp)), missing=above.missing)
        if isinstance(above.values, np.ndarray):
            values: Any = np.concatenate([above.values, below.values])
        else:
            values = pa.concat_arrays([above.values, below.values])
        missing = np.concatenate([above.missing, below.missing])
        return replace(above, values=values, missing=missing, exact=above.exact and below.exact)

    def take(self, rows: NDArray[np.intp] | slice) -> Column:
        if isinstance(rows, slice):
            rows = np.arange(len(self))[rows]
        values = self.values[rows] if isinstance(self.values, np.ndarray) else self.values.take(pa.array(rows))
        return replace(self, values=values, missing=self.missing[rows])

    def blank(self, n: int) -> Column:
        """A column of the same type with so many empty cells."""
        values = np.zeros(n, self.values.dtype) if isinstance(self.values, np.ndarray) else pa.nulls(n, pa.string())
        return replace(self, values=values, missing=np.ones(n, np.bool_))

    def texts(self) -> pa.Array:
        """The values as strings, null where they are missing."""
        return self._strings() if self.sort == "string" else _as_texts(self.arrow())

    def _strings(self) -> pa.Array:
        if self.values.null_count == np.count_nonzero(self.missing):
            return self.values
        return pc.if_else(pa.array(self.missing), pa.scalar(None, pa.string()), self.values)

    def arrow(self) -> pa.Array:
        """The values in the type that they came in."""
        array = self._arrow()
        if not self.written or self.sort == "string":
            return array
        return _floats_as_texts(array) if self.pointed else _as_texts(array)

    @property
    def has_categories(self) -> bool:
        """Whether it came as a column of categories."""
        return self.categories is not None and not self.written

    def _arrow(self) -> pa.Array:
        if self.sort == "string":
            return of_texts(self._strings(), self.type)
        if self.sort == "time":
            return pa.array(self.values, pa.int64(), mask=self.missing).cast(_integers_of(self.type)).cast(self.type)
        if self.sort == "boolean":
            return pa.array(self.values.astype(bool), mask=self.missing)
        return _numbers(self.values, self.missing, self.type)

    def with_values(self, values: Any, missing: NDArray[np.bool_]) -> Column:
        return replace(self, values=values, missing=missing)


def whole_numbers(values: NDArray[Any]) -> NDArray[np.int64]:
    """The nearest ones."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    limit = 2.0**63
    nearest = np.clip(np.rint(values), -limit, np.nextafter(limit, 0)).astype(np.int64)
    return np.where(values >= limit, np.iinfo(np.int64).max, nearest)


def _numbers(values: NDArray[Any], missing: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind) and values.dtype.kind == "f" and not pa.types.is_uint64(kind):
        values = whole_numbers(np.where(missing, 0, values))
    if pa.types.is_uint64(kind) and values.dtype.kind == "f":
        values = np.clip(np.rint(np.where(missing, 0, values)), 0, np.nextafter(2.0**64, 0)).astype(np.uint64)
    if pa.types.is_decimal(kind):
        return _decimals(values, missing, kind)
    return pa.array(values, mask=missing).cast(kind, safe=False)


def _decimals(values: NDArray[Any], missing: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """The nearest ones; Arrow's own cast is off by one now and then."""
    with np.errstate(over="ignore"):
        units = np.rint(np.where(missing, 0, values) * 10.0**kind.scale)
    if (np.abs(units) >= 2.0**53).any() or not pa.types.is_decimal128(kind):
        return pa.array(np.where(missing, 0.0, values), mask=missing).cast(kind, safe=False)
    low = units.astype(np.int64)
    both = np.stack([low, low >> 63], axis=1)  # 128 bits, the low ones first
    whole = pa.Array.from_buffers(pa.decimal128(kind.precision, kind.scale), len(low), [None, pa.py_buffer(both)])
    return pc.if_else(pa.array(missing), pa.scalar(None, whole.type), whole)


def _floats(array: pa.Array) -> NDArray[np.float64]:
    """The nearest doubles of numbers, 0 for null."""
    if pa.types.is_decimal(array.type) and 0 <= array.type.scale <= 22:
        whole = array.cast(pa.decimal128(38, array.type.scale)).fill_null(0)
        both = np.frombuffer(whole.buffers()[1], np.int64).reshape(-1, 2)[whole.offset : whole.offset + len(whole)]
        if (both[:, 1] == both[:, 0] >> 63).all() and (np.abs(both[:, 0]) < 2**53).all():
            return both[:, 0] / 10.0**array.type.scale
    return np.asarray(array.cast(pa.float64()).fill_null(0.0)).astype(np.float64)


def _integers_of(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) or pa.types.is_time32(kind) else pa.int64()


def _as_texts(array: pa.Array) -> pa.Array:
    if pa.types.is_floating(array.type):
        return pc.replace_substring_regex(_floats_as_texts(array), r"\.0$", "")
    return array.cast(pa.string())


def of_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Strings as the values of a type that ``Column.texts`` writes so."""
    if pa.types.is_duration(kind):
        return texts.cast(pa.int64()).cast(kind)
    if pa.types.is_time(kind):
        return pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(kind)


def _floats_as_texts(array: pa.Array) -> pa.Array:
    """As Python writes them."""
    return pa.array([None if value is None else repr(value) for value in array.to_pylist()], pa.string())


def as_column(series: nw.Series[Any], label: str) -> Column:
    """A column of a table of any library."""
    dtype = series.dtype
    if dtype in (nw.Int128, nw.UInt128):
        raise ValueError(f"{label} is of type {dtype}; cast it to 64-bit integers, to floats or to strings")
    if dtype == nw.Unknown or dtype == nw.Object:
        return _of_objects(series.to_numpy(), label)
    try:
        array = series.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeError):
        return _of_objects(series.to_numpy(), label)
    return of_arrow(array, label, ordered=_is_ordered(series))


def _is_ordered(series: nw.Series[Any]) -> bool:
    if series.dtype == nw.Enum:
        return True
    native = getattr(series.to_native(), "dtype", None)
    return bool(getattr(native, "ordered", False))


def of_arrow(array: Any, label: str, *, ordered: bool = False) -> Column:
    """An Arrow array in plain form."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _of_categories(array, label, ordered)
    missing = np.asarray(array.is_null(nan_is_null=True))
    if pa.types.is_null(kind):
        return Column("number", np.zeros(len(array)), missing, pa.float64())
    if pa.types.is_boolean(kind):
        return Column("boolean", np.asarray(array.fill_null(False)).astype(np.int64), missing, kind)
    if pa.types.is_integer(kind):
        values = np.asarray(array.fill_null(0))
        whole = values.dtype != np.uint64 or not len(values) or values.max() < 2**63
        return Column("number", values.astype(np.int64 if whole else np.float64), missing, kind, exact=bool(whole))
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        floats = _floats(array)
        if np.isinf(floats).any():
            row = int(np.flatnonzero(np.isinf(floats))[0])
            raise ValueError(
                f"{label} holds {floats[row]} (Input X contains infinity, row {row}, counted from 0); use a finite number, or "
                "leave the cell empty"
            )
        numbers = Column("number", np.where(missing, 0.0, floats), missing, kind)
        return replace(numbers, exact=not pa.types.is_decimal(kind) or _gives(numbers, array))
    if pa.types.is_temporal(kind):
        whole_numbers = array.cast(_integers_of(kind)).cast(pa.int64()).fill_null(0)
        return Column("time", np.asarray(whole_numbers).astype(np.int64), missing, kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return Column(
            "string", array.cast(pa.string()), missing, pa.string() if pa.types.is_string_view(kind) else kind
        )
    raise _unknown_type(label, kind)


def _unknown_type(label: str, kind: Any) -> ValueError:
    return ValueError(
        f"{label} is of type {kind}; LBARN takes numbers, booleans, strings, categories and dates: turn it into one of these, "
        "or leave it out with columns={...: 'drop'}"
    )


def _gives(column: Column, array: pa.Array) -> bool:
    """Whether a column's values, in its type, are these."""
    try:
        return bool(column.arrow().equals(array))
    except pa.ArrowInvalid:
        return False


def _of_categories(array: pa.DictionaryArray, label: str, ordered: bool) -> Column:
    try:
        levels = _as_texts(array.dictionary)
        of_texts(levels, array.dictionary.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"{label} has categories of type {array.dictionary.type}, which LBARN cannot write as strings and read again; "
            "turn them into strings"
        ) from None
    texts = levels.take(array.indices)
    missing = np.asarray(texts.is_null())
    categories = tuple(levels.to_pylist())
    return Column("string", texts, missing, array.dictionary.type, categories, ordered or array.type.ordered)


def _of_objects(values: NDArray[Any], label: str) -> Column:
    """Python objects of any type: as Arrow sees them, or as strings if they are of several types."""
    if values.dtype.kind == "c":
        raise _unknown_type(label, values.dtype)
    try:
        return of_arrow(pa.array(values, from_pandas=True), label)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, UnicodeError):
        for row, value in enumerate(values.tolist()):
            _check_object(value, f"{label} holds {value!r} (row {row}, counted from 0)")
        texts = [None if value is None or value != value else str(value) for value in values.tolist()]
        return replace(of_arrow(pa.array(texts, pa.string()), label), exact=False)


def _check_object(value: Any, told: str) -> None:
    """An error if a value is nothing that can be written as a string and told from others."""
    if isinstance(value, (dict, list, tuple, set, np.ndarray)):
        raise TypeError(
            f"{told}; a value in this argument must be a string, a number, a boolean or a date: turn it into one, or leave the "
            "column out with columns={...: 'drop'}"
        ) from None
    if isinstance(value, UUID):
        raise ValueError(
            f"{told}, an identifier; turn it into a string, or leave the column out with columns={{...: 'drop'}}"
        )
    if isinstance(value, Decimal) and value.is_infinite():
        raise ValueError(f"{told}; use a finite number, or leave the cell empty") from None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeError:
            raise ValueError(f"{told}, which is not valid Unicode; mend the string, or leave the cell empty") from None


def plain_array(values: NDArray[Any], label: str) -> Column:
    """A column of a NumPy array."""
    if values.dtype.kind == "O":
        return _of_objects(values, label)
    if values.dtype.kind in "biu":
        return of_arrow(pa.array(values), label)
    if values.dtype.kind in "Mm":
        unit = np.datetime_data(values.dtype)[0]
        if unit in ("ps", "fs", "as"):
            raise _unknown_type(label, values.dtype)
        if unit not in ("s", "ms", "us", "ns"):
            is_day = values.dtype.kind == "M" and unit in ("Y", "M", "W", "D")
            values = values.astype("M8[D]" if is_day else f"{values.dtype.kind}8[s]")
        return of_arrow(pa.array(values), label)
    return of_arrow(pa.array(np.asarray(values, np.float64) if values.dtype.kind == "f" else values), label)


_TYPES = {
    str(kind): kind
    for kind in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.string(), pa.large_string(), pa.date32(), pa.date64()),
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(kind(unit) for kind in (pa.timestamp, pa.duration) for unit in ("s", "ms", "us", "ns")),
    )
}


def arrow_type(name: str) -> pa.DataType:
    """The type that prints as ``name``; a ValueError if there is none of ours."""
    if name in _TYPES:
        return _TYPES[name]
    if match := re.fullmatch(r"timestamp\[(s|ms|us|ns), tz=([\w/+:-]{1,64})\]", name):
        return pa.timestamp(match[1], match[2])
    if match := re.fullmatch(r"decimal128\((\d{1,2}), (-?\d{1,2})\)", name):
        return pa.decimal128(int(match[1]), int(match[2]))
    raise ValueError(f"{name!r} is not a type of column that lbarn knows")
