"""What each column is: numbers, dates, booleans or categories."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._tables.column import of_arrow
from lbarn._tables.kinds import detected_kind
from lbarn.comparison.tables import Columns

__all__ = ["Kind", "as_dates", "as_numbers", "as_text", "column_kinds", "date_format"]

Kind = Literal["number", "datetime", "boolean", "category"]

_ISO, _ISO_UTC = "ISO 8601", "ISO 8601 with a time zone"
_FORMATS = (
    _ISO,
    _ISO_UTC,
    "%d.%m.%Y",
    "%d.%m.%Y %H:%M",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%Y %H:%M",
    "%d/%m/%Y %H:%M",
    "%Y/%m/%d",
)
_WORDS = {"true": "1", "false": "0"}


def column_kinds(real: Columns) -> tuple[Kind, ...]:
    """The kind of every column of a table, as a fit would detect it.

    Strings may also be numbers, dates, or true and false in other spellings than a fit takes: whoever made a table, its cells are only
    compared, and need not be written again.

    Examples
    --------
    >>> from lbarn.comparison.tables import read_columns
    >>> column_kinds(read_columns([["1.5", "2024-02-29", "True", "a"], ["2", "", "False", "b"]], "real"))
    ('number', 'datetime', 'boolean', 'category')
    """
    return tuple(_kind(array) for array in real.arrays)


_KINDS: dict[str, Kind] = {
    "binary": "boolean",
    "categorical": "category",
    "drop": "category",
    "ordered": "number",
    "continuous": "number",
    "datetime": "datetime",
}
_CODE = r"^\s*[+-]?0\d"  # 007 is a name


def _kind(array: pa.Array) -> Kind:
    if pa.types.is_dictionary(array.type):
        return "boolean" if pa.types.is_boolean(array.type.value_type) else "category"
    if pa.types.is_time(array.type) or pa.types.is_duration(array.type):
        return "number"
    if pa.types.is_floating(array.type):  # an infinite number is refused later, by its place
        array = pc.if_else(pc.is_inf(array), None, array)
    try:
        kind = _KINDS[detected_kind(of_arrow(array, ""))]
    except ValueError:  # a type that no fit takes
        return "category"
    if kind != "category" or not _is_text(array.type):
        return kind
    are_codes = pc.any(pc.match_substring_regex(array, _CODE)).as_py()
    numbers = None if are_codes else as_numbers(array)
    if numbers is not None:
        return "boolean" if np.isin(numbers[~np.isnan(numbers)], (0, 1)).all() else "number"
    return "category" if date_format(array) is None else "datetime"


def as_numbers(array: pa.Array) -> NDArray[np.float64] | None:
    """The cells as numbers, NaN if they are empty; None if some of them are not numbers."""
    if _is_text(array.type):
        words = _trimmed(array)
        lower = pc.utf8_lower(words)
        for word, digit in _WORDS.items():
            words = pc.if_else(pc.equal(lower, word), digit, words)
        array = words
    elif pa.types.is_dictionary(array.type):
        return as_numbers(array.dictionary_decode())
    elif pa.types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pa.types.is_time(array.type) or pa.types.is_duration(array.type):
        array = array.view(pa.int32() if pa.types.is_time32(array.type) else pa.int64())
    elif not (_is_numeric(array.type) or pa.types.is_null(array.type)):
        return None
    try:
        numbers = array.cast(pa.float64(), safe=_is_text(array.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return np.array(numbers.to_numpy(zero_copy_only=False), np.float64)


def date_format(array: pa.Array) -> str | None:
    """The first of the known formats in which all cells can be read; None if there is none."""
    if pa.types.is_timestamp(array.type) or pa.types.is_date(array.type):
        return _ISO
    if not _is_text(array.type):
        return None
    return next((known for known in _FORMATS if as_dates(array, known) is not None), None)


def as_dates(array: pa.Array, known: str) -> NDArray[np.float64] | None:
    """Seconds since 1970, NaN if empty; None if some cells are not dates of this format."""
    if pa.types.is_null(array.type):
        return np.full(len(array), np.nan)
    try:
        if not _is_text(array.type):
            moments = array.cast(pa.timestamp("us", getattr(array.type, "tz", None)), safe=False)
        elif known == _ISO:
            moments = _trimmed(array).cast(pa.timestamp("us"))
        elif known == _ISO_UTC:
            moments = _trimmed(array).cast(pa.timestamp("us", "UTC"))
        else:
            moments = pc.strptime(_trimmed(array), known, "us")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return np.array(moments.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)) / 1e6


def as_text(array: pa.Array) -> pa.Array:
    """The cells as strings, by which levels are compared: 1, 1.0 and "1" are the same."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _is_text(array.type):
        return _trimmed(array)
    if pa.types.is_boolean(array.type):
        return pc.if_else(array, "True", "False")
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        cells = [None if cell is None or cell != cell else f"{cell:f}" for cell in array.to_pylist()]
        array = pa.array([None if cell is None else _shortened(cell) for cell in cells], pa.string())
    try:
        return array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([None if cell is None else str(cell) for cell in array.to_pylist()], pa.string())


def _shortened(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _trimmed(array: pa.Array) -> pa.Array:
    words = pc.utf8_trim_whitespace(array.cast(pa.string()))
    return pc.if_else(pc.equal(words, ""), None, words)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or str(kind) == "string_view"


def _is_numeric(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
