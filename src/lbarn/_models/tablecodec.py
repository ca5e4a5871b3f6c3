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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import constriction
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._engine.codetree import Cells
from lbarn._network.envelope import Envelope, new_digest, stream_coder, stream_of
from lbarn._network.network import RowCodec
from lbarn._tables.codebook import Codebook
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import ColumnCode
from lbarn._tables.column import Column, whole_numbers
from lbarn.errors import CompressedDataError

__all__ = ["compress", "decompress"]

Values = NDArray[Any]
Inside = tuple[NDArray[np.int64], NDArray[np.int64]]  # symbol and offset of every value in its cell

_ENVELOPE = Envelope(
    magic=b"LBARNt",
    version=1,
    noun="a table",
    other_model="the data was compressed with another model, whose columns have other codes",
)
_GROUP_ROWS = 65_536  # part of the format
_DIGIT_BITS = 20  # of a whole number that may be anything in a range
_MAX_EXCEPTIONS = 2**31  # bytes, unpacked

_DAMAGED = "the compressed data is damaged: it does not decode to the rows that went in"


def compress(codec: RowCodec, book: Codebook, tables: Iterable[CodedTable]) -> bytes:
    """The rows of all tables, one after the other."""
    parts: list[bytes] = []
    n_rows, digest = 0, new_digest(16)

    def coded() -> Iterator[Cells]:
        nonlocal n_rows
        for columns, cells in _grouped(tables):
            parts.extend(_pushed(book, columns, cells, digest))
            n_rows += len(cells)
            yield cells

    parts.insert(0, codec.compress(coded()))
    if not n_rows:
        raise ValueError("there is nothing to compress")
    content = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    return _ENVELOPE.sealed(book.fingerprint(), n_rows, digest.digest(), content)


def _grouped(tables: Iterable[CodedTable]) -> Iterator[tuple[list[Column], Cells]]:
    """Columns and cells of the rows of all tables, a group at a time."""
    columns: list[Column] = []
    waiting: list[Cells] = []
    for table in tables:
        for own, own_cells in table.complete_columns():
            columns = [above + below for above, below in zip(columns, own)] if waiting else own
            waiting.append(own_cells)
            n = sum(map(len, waiting))
            if n < _GROUP_ROWS:
                continue
            cells = np.concatenate(waiting)
            whole = n - n % _GROUP_ROWS
            for start in range(0, whole, _GROUP_ROWS):
                rows = slice(start, start + _GROUP_ROWS)
                yield [column.take(rows) for column in columns], cells[rows]
            columns, waiting = (
                [column.take(slice(whole, n)) for column in columns],
                [cells[whole:]] if whole < n else [],
            )
    if waiting:
        yield columns, np.concatenate(waiting)


def _pushed(book: Codebook, columns: list[Column], cells: Cells, digest: Any) -> tuple[bytes, bytes]:
    """What is inside the cells of a group of rows, and exceptions; ``digest`` gets the values."""
    coder = constriction.stream.stack.AnsCoder()
    exceptions: dict[int, tuple[NDArray[np.intp], Values]] = {}
    stored: list[Values] = []
    insides: list[Inside] = []
    for j, (code, column) in enumerate(zip(book.codes, columns)):
        values = _stored(code, column)
        inside = code.inside(cells[:, j], code.as_plain(column))
        decoded = _plain_values(code, code.from_inside(cells[:, j], inside))
        different = np.flatnonzero(~_same(values, decoded) & ~column.missing)
        if len(different):
            exceptions[j] = different, values[different]
        stored.append(values)
        insides.append(inside)
    for j in reversed(range(book.n_columns)):
        _push(coder, book.codes[j], cells[:, j], insides[j])
    _digest_values(digest, stored, columns)
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
    columns, stored = [], []
    for j, code in enumerate(book.codes):
        column = code.from_inside(cells[:, j], _pop(coder, code, cells[:, j]))
        own = _plain_values(code, column)
        if j in found:
            own = own.copy()
            own[found[j][0]] = found[j][1]
        stored.append(own)
        columns.append(_of_values(code, own, column.missing))
    if not coder.is_empty():
        raise CompressedDataError(_DAMAGED)
    _digest_values(digest, stored, columns)
    return columns


def _joined(groups: list[list[Column]]) -> list[Column]:
    """Columns of all groups, one below the other; what has been joined is not kept."""
    for group in groups:
        group.reverse()
    return [_below_each_other([group.pop() for group in groups]) for _ in range(len(groups[0]))]


def _below_each_other(parts: list[Column]) -> Column:
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


def _groups(code: ColumnCode, cells: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """(cell, its rows) for every cell in which there is a choice."""
    order = np.argsort(cells, kind="stable")
    there, starts = np.unique(cells[order], return_index=True)
    for cell, rows in zip(there.tolist(), np.split(order, starts[1:])):
        if code.has_choice(cell):
            yield cell, rows


def _push(coder: Any, code: ColumnCode, cells: NDArray[Any], inside: Inside) -> None:
    symbols, offsets = inside
    for cell, rows in reversed(list(_groups(code, cells))):
        chances, n_other = code.choices(cell)
        own = symbols[rows]
        if n_other > 1:
            other = rows[own == len(chances) - 1]
            for digit, size in reversed(_digits(n_other)):
                part = (offsets[other].view(np.uint64) >> np.uint64(digit)) & np.uint64((1 << _DIGIT_BITS) - 1)
                _encode(coder, part, constriction.stream.model.Uniform(size))
        if len(chances) > 1:
            _encode(coder, own, _model(chances))


def _pop(coder: Any, code: ColumnCode, cells: NDArray[Any]) -> Inside:
    symbols, offsets = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    for cell, rows in _groups(code, cells):
        chances, n_other = code.choices(cell)
        if len(chances) > 1:
            symbols[rows] = coder.decode(_model(chances), len(rows))
        if n_other > 1:
            other = rows[symbols[rows] == len(chances) - 1]
            for digit, size in _digits(n_other):
                if len(other):
                    part = coder.decode(constriction.stream.model.Uniform(size), len(other))
                    offsets[other] |= part.astype(np.int64) << digit
            if (offsets[other].view(np.uint64) > np.uint64(n_other - 1)).any():
                raise CompressedDataError(_DAMAGED)
    return symbols, offsets


def _encode(coder: Any, symbols: NDArray[Any], model: Any) -> None:
    if len(symbols):
        coder.encode_reverse(symbols.astype(np.int32), model)


def _model(chances: NDArray[np.float64]) -> Any:
    if (chances == chances[0]).all():
        return constriction.stream.model.Uniform(len(chances))
    return constriction.stream.model.Categorical(chances, perfect=False)


def _digits(n: int) -> list[tuple[int, int]]:
    """(shift, number of values) of the digits of a number below n, the highest first."""
    highest = max(0, (int(n - 1).bit_length() - 1) // _DIGIT_BITS)
    first = (int(n - 1) >> (highest * _DIGIT_BITS)) + 1
    digits = [(k * _DIGIT_BITS, 1 << _DIGIT_BITS) for k in reversed(range(highest))]
    return [*([(highest * _DIGIT_BITS, first)] if first > 1 else []), *digits]


# ---------------------------------------------------------------------- values, and exceptions
#
# The values of a column as the model's own table has them: strings (None where missing), whole numbers, or doubles.


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
        return _strings(texts)
    own = code.as_plain(column)
    if column.type != own.type and column.sort == own.sort:
        _check_type(code, column, column.arrow())
    return _plain_values(code, own)


def _strings(texts: pa.Array) -> Values:
    """Strings as Python has them, None where missing. Equal ones are one object: they are made once."""
    coded = texts.dictionary_encode()
    known = np.array([*coded.dictionary.to_pylist(), None], dtype=object)
    return known[coded.indices.fill_null(len(known) - 1).to_numpy(zero_copy_only=False)]


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
        return _strings(column.texts())
    kind = code.plain.type
    if code.plain.sort == "number" and not pa.types.is_integer(kind):
        return column.values.astype(np.float64)
    return whole_numbers(column.values)


def _of_values(code: ColumnCode, values: Values, missing: NDArray[np.bool_]) -> Column:
    """The other way round."""
    if not _is_text(code):
        return code.plain.with_values(values, missing)
    texts = pa.array(values, pa.string(), mask=missing)
    if code.plain.sort == "string":
        return code.plain.with_values(texts, missing)
    return replace(code.plain, sort="string", values=texts, missing=missing, type=pa.string(), written=False)


def _same(one: Values, other: Values) -> NDArray[np.bool_]:
    """Where values are the same to the last bit."""
    if one.dtype.kind == "f":
        return np.asarray(one.view(np.int64) == other.view(np.int64))
    return np.asarray(one == other, np.bool_)


def _digest_values(digest: Any, values: Sequence[Values], columns: Sequence[Column]) -> None:
    for own, column in zip(values, columns):
        digest.update(np.packbits(column.missing).tobytes())
        if own.dtype == object:
            texts = own[~column.missing].tolist()
            written = {text: f"{len(text)}:{text}" for text in set(texts)}
            digest.update("".join(map(written.__getitem__, texts)).encode())
        else:
            digest.update(np.where(column.missing, 0, own).astype(own.dtype).tobytes())


def _packed(exceptions: dict[int, tuple[NDArray[np.intp], Values]]) -> bytes:
    """Rows and values of every column that has exceptions, doubles by their bits."""
    if not exceptions:
        return b""
    content = {}
    for j, (rows, values) in sorted(exceptions.items()):
        plain = values.view(np.int64) if values.dtype.kind == "f" else values
        content[str(j)] = [np.diff(rows, prepend=0).tolist(), plain.tolist()]
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
        texts = np.empty(len(values), object)
        texts[:] = values
        return texts
    whole = np.array(values, np.int64)
    is_float = code.plain.sort == "number" and not pa.types.is_integer(code.plain.type)
    return whole.view(np.float64) if is_float else whole
