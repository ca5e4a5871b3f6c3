"""Lossless compression of any table: its cells under the model, then the values inside the cells, then what no code can say.

A container (``envelope``) has parts, each with its length before it: the cells of all rows, and two for every 65,536 rows, what is
inside their cells and exceptions. Its fingerprint is that of the codes, and its checksum of the rows that of their values. ``cells``
is the container of a network or a mixture. ``inside`` is a stream of the same coder: for every column, for each of its cells in which
there is a choice, the values of the rows in it under the law of the cell. Whatever does not come out of that as it went in (an
unseen level, a number off the grid or outside the range, a negative zero, "007" for 7) is an exception: its row and its value as
it is. Rows come as an iterator and none is kept, so memory does not grow with their number.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.codetree import Cells
from lbarn._network.envelope import Envelope, new_digest, stream_coder, stream_of
from lbarn._network.network import RowCodec
from lbarn._tables.codebook import Codebook
from lbarn._tables.coded import CodedTable, LocatedColumns
from lbarn._tables.codes import ColumnCode, Inside
from lbarn._tables.column import Column, whole_numbers
from lbarn.errors import CompressedDataError

__all__ = ["compress", "decompress"]

Values = Any  # an array of numbers, or Arrow's of strings, which comes without types
_Rows = TypeVar("_Rows", Column, LocatedColumns)

_ENVELOPE = Envelope(
    magic=b"LBARNt",
    version=1,
    noun="a table",
    other_model="the data was compressed with another model, whose columns have other codes",
)
_GROUP_ROWS = 65_536  # part of the format
_MAX_EXCEPTIONS = 2**31  # bytes, unpacked

_DAMAGED = "the compressed data is damaged: it does not decode to the rows that went in"


def compress(codec: RowCodec, book: Codebook, tables: Iterable[CodedTable]) -> bytes:
    """The rows of all tables, one after the other."""
    parts: list[bytes] = []
    n_rows, digest = 0, new_digest(16)

    def coded() -> Iterator[Cells]:
        nonlocal n_rows
        for group in _grouped(tables):
            parts.extend(_pushed(book, group, digest))
            n_rows += len(group)
            yield group.cells.T

    parts.insert(0, codec.compress(coded()))
    if not n_rows:
        raise ValueError("there is nothing to compress")
    content = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    return _ENVELOPE.sealed(book.fingerprint(), n_rows, digest.digest(), content)


def _grouped(tables: Iterable[CodedTable]) -> Iterator[LocatedColumns]:
    """The rows of all tables, a group at a time."""
    waiting: list[LocatedColumns] = []
    for table in tables:
        for own in table.complete_columns():
            waiting.append(own)
            if sum(map(len, waiting)) < _GROUP_ROWS:
                continue
            rows = _below_each_other(waiting)
            whole = len(rows) - len(rows) % _GROUP_ROWS
            for start in range(0, whole, _GROUP_ROWS):
                yield rows.take(slice(start, start + _GROUP_ROWS))
            waiting = [rows.take(slice(whole, len(rows)))] if whole < len(rows) else []
    if waiting:
        yield _below_each_other(waiting)


def _pushed(book: Codebook, rows: LocatedColumns, digest: Any) -> tuple[bytes, bytes]:
    """What is inside the cells of a group of rows, and exceptions; ``digest`` gets the values."""
    coder = _core.Coder()
    exceptions: dict[int, tuple[NDArray[np.intp], list[Any]]] = {}
    for j, (code, column) in enumerate(zip(book.codes, rows.columns)):
        values = _stored(code, column)
        decoded = _plain_values(code, code.from_inside(rows.cells[j], rows.insides[j]))
        different = np.flatnonzero(_differ(values, decoded) & ~column.missing)
        if len(different):
            exceptions[j] = different, _listed(values, different)
        _digest_values(digest, values, column.missing)
    for code, cells, inside in reversed(list(zip(book.codes, rows.cells, rows.insides))):
        if (laws := _laws(code)) is not None and inside is not None:
            coder.push_inside(laws, cells, *inside)
    return stream_of(coder), _packed(exceptions)


def decompress(codec: RowCodec, book: Codebook, data: Any, max_rows: int | None) -> list[Column]:
    """The columns that went in."""
    n_rows, checksum, content = _ENVELOPE.opened(data, book.fingerprint(), max_rows)
    n_groups = -(-n_rows // _GROUP_ROWS)
    coded, *parts = _parts(content, 1 + 2 * n_groups)
    cells = codec.decompress(coded, n_rows)
    if len(cells) != n_rows:
        raise CompressedDataError(_DAMAGED)
    groups, digest = [], new_digest(16)
    for k in range(n_groups):
        own = cells[k * _GROUP_ROWS : (k + 1) * _GROUP_ROWS]
        groups.append(_popped(book, own, parts[2 * k], parts[2 * k + 1], digest))
    if digest.digest() != checksum:
        raise CompressedDataError(_DAMAGED)
    return _joined(groups)


def _popped(book: Codebook, cells: Cells, inside: bytes, exceptions: bytes, digest: Any) -> list[Column]:
    """The columns of a group of rows; ``digest`` gets the values."""
    coder = stream_coder(inside)
    found = _unpacked(exceptions, book, len(cells))
    columns = []
    cells = np.asfortranarray(cells)
    for j, code in enumerate(book.codes):
        column = code.from_inside(cells[:, j], _pop(coder, code, cells[:, j]))
        own = _plain_values(code, column)
        if j in found:
            own = _with_exceptions(own, *found[j], column.missing)
        _digest_values(digest, own, column.missing)
        columns.append(_of_values(code, own, column.missing))
    if not coder.is_empty:
        raise CompressedDataError(_DAMAGED)
    return columns


def _joined(groups: list[list[Column]]) -> list[Column]:
    """Columns of all groups, one below the other; what has been joined is not kept."""
    for group in groups:
        group.reverse()
    return [_below_each_other([group.pop() for group in groups]) for _ in range(len(groups[0]))]


def _below_each_other(parts: list[_Rows]) -> _Rows:
    """Halves first, so that no row is copied often."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return _below_each_other(parts[:half]) + _below_each_other(parts[half:])


def _parts(content: bytes, number: int) -> list[bytes]:
    parts, start = [], 0
    for _ in range(number):
        if start + 8 > len(content):
            raise CompressedDataError(_DAMAGED)
        (length,) = struct.unpack_from("<Q", content, start)
        parts.append(content[start + 8 : start + 8 + length])
        start += 8 + length
    if start != len(content):
        raise CompressedDataError(_DAMAGED)
    return parts


# ---------------------------------------------------------------------- inside the cells


def _laws(code: ColumnCode) -> _core.CellSymbols | None:
    choices = code.choices
    return None if choices is None else _core.CellSymbols.of(*choices)


def _pop(coder: _core.Coder, code: ColumnCode, cells: NDArray[np.uint16]) -> Inside | None:
    laws = _laws(code)
    if laws is None:
        return None
    try:
        return coder.pop_inside(laws, cells)
    except ValueError as error:
        raise CompressedDataError(f"{_DAMAGED} ({error})") from error


# ---------------------------------------------------------------------- values, and exceptions
#
# The values of a column as the model's own table has them: an Arrow array of strings (null where missing), whole numbers, or doubles.


def _is_text(code: ColumnCode) -> bool:
    return code.plain.sort == "string" or code.plain.written


def _stored(code: ColumnCode, column: Column) -> Values:
    """What has to come back, in the type of the model's table; a ValueError if that cannot hold it."""
    if not column.exact:
        raise ValueError(
            f"{code.label} cannot be compressed without loss: it mixes types of values, or has numbers that neither a double "
            "nor a 64-bit integer can hold"
        )
    if _is_text(code):
        texts = column.texts()
        if code.plain.sort == "string" and column.type != code.plain.type:
            _check_type(code, column, texts)
        return texts
    own = code.as_plain(column)
    if column.type != own.type and column.sort == own.sort:
        _check_type(code, column, column.arrow())
    return _plain_values(code, own)


def _check_type(code: ColumnCode, column: Column, values: pa.Array) -> None:
    """Refuse values of another type that the model's cannot hold."""
    try:
        same = values.cast(code.plain.type, safe=False).cast(values.type, safe=False).equals(values)
    except pa.ArrowInvalid:
        same = False
    if not same:
        raise ValueError(
            f"{code.label} is of type {column.type} and has values that {code.plain.type}, the type that the model was fitted on, "
            "cannot hold"
        )


def _plain_values(code: ColumnCode, column: Column) -> Values:
    if _is_text(code):
        return column.texts()
    kind = code.plain.type
    if code.plain.sort == "number" and not pa.types.is_integer(kind):
        return column.values.astype(np.float64)
    return whole_numbers(column.values)


def _of_values(code: ColumnCode, values: Values, missing: NDArray[np.bool_]) -> Column:
    """The other way round."""
    if code.plain.sort == "string" or not code.plain.written:
        return code.plain.with_values(values, missing)
    return replace(code.plain, sort="string", values=values, missing=missing, type=pa.string(), written=False)


def _differ(one: Values, other: Values) -> NDArray[np.bool_]:
    """Where values are not the same to the last bit."""
    if isinstance(one, pa.Array):
        return np.asarray(pc.not_equal(one, other).fill_null(True))
    if one.dtype.kind == "f":
        one, other = one.view(np.int64), other.view(np.int64)
    return np.asarray(one != other)


def _listed(values: Values, rows: NDArray[np.intp]) -> list[Any]:
    """Some values as Python has them, doubles by their bits."""
    if isinstance(values, pa.Array):
        return values.take(pa.array(rows)).to_pylist()
    return (values.view(np.int64) if values.dtype.kind == "f" else values)[rows].tolist()


def _with_exceptions(values: Values, rows: NDArray[np.int64], exceptions: Values, missing: NDArray[np.bool_]) -> Values:
    index = np.arange(len(values))
    index[rows] = len(values) + np.arange(len(rows))
    if not isinstance(values, pa.Array):
        return np.concatenate([values, exceptions])[index]
    return pa.concat_arrays([values, exceptions]).take(pa.array(index, mask=missing))


def _digest_values(digest: Any, values: Values, missing: NDArray[np.bool_]) -> None:
    digest.update(np.packbits(missing).tobytes())
    if not isinstance(values, pa.Array):
        digest.update(np.where(missing, 0, values).astype(values.dtype).tobytes())
    elif len(there := values.drop_null()):
        _, offsets, letters = there.buffers()
        ends = np.frombuffer(offsets, np.int32)[there.offset : there.offset + len(there) + 1]
        digest.update(_core.with_lengths(ends, np.frombuffer(letters or b"", np.uint8)))


def _packed(exceptions: dict[int, tuple[NDArray[np.intp], list[Any]]]) -> bytes:
    """Rows and values of every column that has exceptions."""
    if not exceptions:
        return b""
    content = {str(j): [np.diff(rows, prepend=0).tolist(), values] for j, (rows, values) in exceptions.items()}
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)


def _unpacked(data: bytes, book: Codebook, n_rows: int) -> dict[int, tuple[NDArray[np.int64], Values]]:
    if not data:
        return {}
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(data, _MAX_EXCEPTIONS)
        if inflate.unconsumed_tail or not inflate.eof:
            raise ValueError("too long, or cut short")
        found = {}
        for key, (steps, values) in json.loads(text).items():
            j, rows = int(key), np.cumsum(np.array(steps, np.int64))
            if not 0 <= j < book.n_columns or len(rows) != len(values):
                raise ValueError("a column that is not there")
            if not ((rows >= 0) & (rows < n_rows)).all():
                raise ValueError("a row that is not there")
            found[j] = rows, _exceptional(book.codes[j], values)
        return found
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, zlib.error) as error:
        raise CompressedDataError(f"{_DAMAGED} ({error})") from error


def _exceptional(code: ColumnCode, values: list[Any]) -> Values:
    if _is_text(code):
        if not all(isinstance(value, str) for value in values):
            raise ValueError("a value is not a string")
        return pa.array(values, pa.string())
    whole = np.array(values, np.int64)
    is_float = code.plain.sort == "number" and not pa.types.is_integer(code.plain.type)
    return whole.view(np.float64) if is_float else whole
