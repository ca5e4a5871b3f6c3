"""Cells of text as values: numbers however they are written, true and false, or strings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "MISSING",
    "Detected",
    "Mixed",
    "NotANumberError",
    "as_numbers",
    "as_strings",
    "as_times",
    "compacted",
    "detected",
    "wholes",
]

# Words for a missing value, in any case, where numbers or dates are expected
MISSING = ("", "?", "na", "n/a", "#n/a", "<na>", "nan", "null", "none")
_MISSING_STRINGS = ("", "NA")  # where strings are expected
_WORDS = {"true": "1", "false": "0"}
_LEADING_ZERO = r"^[+-]?0\d"
_DATE = r"^\d{4}-\d\d-\d\d( \d\d:\d\d:\d\d(\.\d+)?)?$"
_UNCLEAR_DATE = r"^\d{1,2}/\d{1,2}/\d{2,4}\b"
_OTHER_DATES = (  # how else they may be written, and what that is
    (r"^\s*(\d\d)\.(\d\d)\.(\d{4})\b", r"\3-\2-\1"),
    (r"^\s*(\d{4})/(\d\d)/(\d\d)\b", r"\1-\2-\3"),
    (r"^(\d{4}-\d\d-\d\d)[Tt](.*?)[Zz]?$", r"\1 \2"),
    (r"^(\d{4}-\d\d-\d\d \d\d:\d\d)$", r"\1:00"),
)

# numbers with separators of thousands, or with a decimal comma
_GROUPED_BY_COMMAS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d+)?$"
_SURELY_GROUPED_BY_COMMAS = r"^[+-]?\d{1,3}(,\d{3})+(,\d{3}|\.\d+)$"
_GROUPED_BY_POINTS = r"^[+-]?\d{1,3}(\.\d{3})+,\d+$"
_DECIMAL_COMMA = r"^[+-]?\d*,\d+(e[+-]?\d+)?$"


class NotANumberError(Exception):
    """A cell of a column of numbers is something else."""

    def __init__(self, row: int, cell: str) -> None:
        super().__init__(cell)
        self.row, self.cell = row, cell


@dataclass(frozen=True)
class Mixed:
    """A column with numbers in at least half of its cells, but not in all: the first other one, and how many there are.

    If ``comma`` is a cell, the column has decimal points and decimal commas.
    """

    row: int
    cell: str
    n_others: int
    comma: str | None = None


@dataclass(frozen=True)
class Detected:
    """A whole column: booleans, which stand for 0 and 1 if they are ``digits``, numbers or strings.

    ``as_digits`` are floats among which whole numbers are written as 22, not as 22.0. ``date`` is the first date and how it is
    written here, if it was written otherwise; None instead of that if day and month cannot be told apart: then it is a string.
    """

    values: pa.Array
    digits: bool = False
    mixed: Mixed | None = None
    as_digits: bool = False
    date: tuple[str, str | None] | None = None


def as_strings(cells: pa.Array) -> pa.Array:
    """The cells as they are; those that are empty or NA are missing."""
    return pc.if_else(pc.is_in(cells, pa.array(_MISSING_STRINGS)), None, cells)


def as_times(cells: pa.Array) -> pa.Array:
    """Cells of dates, as strings like 2024-01-31 or 2024-01-31 12:00:00."""
    cells = pc.if_else(pc.is_in(_words(cells), pa.array(MISSING)), None, cells)
    for pattern, plain in _OTHER_DATES:
        cells = pc.replace_substring_regex(cells, pattern=pattern, replacement=plain)
    return cells


def as_numbers(cells: pa.Array, delimiter: str) -> pa.Array:
    """uint8 where a byte will do, else int64 or float64; the same column may have other types in other batches."""
    try:
        return cells.cast(pa.uint8())
    except pa.ArrowInvalid:
        pass
    numbers = _numbers(_without_missing(cells), cells, delimiter)
    try:
        return numbers.cast(pa.uint8())
    except pa.ArrowInvalid:  # with a fraction, negative, or large
        return numbers


def compacted(cells: pa.Array) -> pa.Array:
    """Cells of 0 and 1 as booleans and other whole numbers as such, if the cells can be had back from these; else as they are."""
    try:
        small = cells.cast(pa.uint8())
    except pa.ArrowInvalid:
        pass
    else:
        if _n_bytes(cells) == len(cells) - cells.null_count and not (pc.max(small).as_py() or 0) > 1:
            return small.cast(pa.bool_())
    try:
        whole = cells.cast(pa.int64())
    except pa.ArrowInvalid:
        return cells
    return whole if whole.cast(pa.string()).equals(cells) else cells


def _n_bytes(cells: pa.Array) -> int:
    return pc.sum(pc.binary_length(cells)).as_py() or 0


def detected(pieces: Sequence[pa.Array], delimiter: str) -> Detected:
    """What a column is of which ``pieces`` are compacted cells."""
    types = {piece.type for piece in pieces}
    if types == {pa.bool_()}:
        return Detected(pa.concat_arrays(pieces), digits=True)
    if pa.string() not in types:
        return Detected(pa.concat_arrays([_whole(piece) for piece in pieces]))
    cells = pa.concat_arrays([_as_written(piece) for piece in pieces])
    words = _without_missing(cells)
    n_there = len(words) - words.null_count
    if n_there == 0:
        return Detected(pa.nulls(len(cells), pa.float64()))
    if _all(pc.is_in(words, pa.array([*_WORDS, None], pa.string()))):
        return Detected(pc.equal(words, "true"))
    times = as_times(cells)
    if _are_dates(times):
        first = pc.index(pc.is_valid(times), True).as_py()
        date = (cells[first].as_py(), times[first].as_py())
        return Detected(times, date=None if date[0] == date[1] else date)
    if _all(pc.match_substring_regex(words, _UNCLEAR_DATE)):
        return Detected(as_strings(cells), date=(words.drop_null()[0].as_py(), None))
    if _any(pc.match_substring_regex(words, _LEADING_ZERO)):  # 007 is the name of something
        return Detected(as_strings(cells))
    try:
        numbers = _numbers(words, cells, delimiter)
        n_whole, n_digits = wholes(cells, numbers, delimiter)
        return Detected(numbers, as_digits=0 < n_whole == n_digits)
    except NotANumberError as error:
        plain, contradicting = _plain(words, delimiter)
        n_others = n_there - (pc.sum(_casts(plain)).as_py() or 0)
        mixed = None
        if contradicting is not None:
            comma = pc.index(pc.match_substring_regex(words, _DECIMAL_COMMA), True).as_py()
            mixed = Mixed(error.row, error.cell, n_others, cells[comma].as_py())
        elif 2 * n_others <= n_there:
            mixed = Mixed(error.row, error.cell, n_others)
        return Detected(as_strings(cells), mixed=mixed)


def wholes(cells: pa.Array, numbers: pa.Array, delimiter: str) -> tuple[int, int]:
    """How many of the numbers that cells were read as are whole, and how many of these are written without a decimal point."""
    if not pa.types.is_floating(numbers.type):
        n = len(numbers) - numbers.null_count
        return n, n
    whole = pc.equal(numbers, pc.floor(numbers))
    digits = pc.match_substring_regex(_plain(_without_missing(cells), delimiter)[0], r"^[+-]?\d+$")
    return pc.sum(whole).as_py() or 0, pc.sum(pc.and_(whole, digits)).as_py() or 0


def _whole(piece: pa.Array) -> pa.Array:
    return piece.cast(pa.uint8()).cast(pa.int64()) if piece.type == pa.bool_() else piece


def _as_written(piece: pa.Array) -> pa.Array:
    return piece if piece.type == pa.string() else _whole(piece).cast(pa.string())


def _are_dates(times: pa.Array) -> bool:
    if not _all(pc.match_substring_regex(times, _DATE)):
        return False
    try:
        times.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:  # no such day
        return False
    return True


def _words(cells: pa.Array) -> pa.Array:
    return pc.ascii_lower(pc.ascii_trim_whitespace(cells))


def _without_missing(cells: pa.Array) -> pa.Array:
    words = _words(cells)
    return pc.if_else(pc.is_in(words, pa.array(MISSING)), None, words)


def _all(found: pa.Array) -> bool:
    return bool(pc.all(found).as_py())


def _any(found: pa.Array) -> bool:
    return bool(pc.any(found).as_py())


def _numbers(words: pa.Array, cells: pa.Array, delimiter: str) -> pa.Array:
    """Words as int64 or float64; the first that is no number is an error."""
    for word, digit in _WORDS.items():
        words = pc.if_else(pc.equal(words, word), digit, words)
    plain, wrong = _plain(words, delimiter)
    if wrong is None:
        for kind in (pa.int64(), pa.float64()):
            try:
                return plain.cast(kind)
            except pa.ArrowInvalid:
                pass
        wrong = pc.invert(_casts(plain))
    row = pc.index(wrong, True).as_py()
    raise NotANumberError(row, cells[row].as_py())


def _plain(words: pa.Array, delimiter: str) -> tuple[pa.Array, pa.Array | None]:
    """Words without separators of thousands and with decimal points; and which of them contradict the others, if any do."""
    if not _any(pc.match_substring(words, ",")):
        return words, None
    if delimiter == ",":  # cells in quotes: 1,234.5, or else a decimal comma
        grouped = pc.match_substring_regex(words, _GROUPED_BY_COMMAS)
        decimal = pc.and_(pc.match_substring_regex(words, _DECIMAL_COMMA), pc.invert(grouped))
        other = grouped
        words = pc.if_else(grouped, pc.replace_substring(words, ",", ""), words)
    else:
        grouped = pc.match_substring_regex(words, _SURELY_GROUPED_BY_COMMAS)
        words = pc.if_else(grouped, pc.replace_substring(words, ",", ""), words)
        by_points = pc.match_substring_regex(words, _GROUPED_BY_POINTS)
        words = pc.if_else(by_points, pc.replace_substring(words, ".", ""), words)
        decimal = pc.match_substring_regex(words, _DECIMAL_COMMA)
        other = pc.match_substring(words, ".")
    if _any(decimal):
        if _any(other):  # 1.234 beside 0,5 is one number or another
            return words, other
        words = pc.if_else(decimal, pc.replace_substring(words, ",", "."), words)
    return words, None


def _casts(words: pa.Array) -> pa.Array:
    """Which words are numbers; null for those that are missing."""
    looks = pc.match_substring_regex(words, r"^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|^[+-]?inf(inity)?$")
    return pc.if_else(pc.is_null(words), None, looks)
