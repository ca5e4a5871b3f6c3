"""Lossless compression of any table: its cells under the model, then the values inside the cells, then what no code can say.

A container is a header, three parts, each with its length before it, and a checksum:

    magic 6 | version 2 | codebook 16 | rows 8 | values 16 | cells | inside | exceptions | checksum of all that 8

``codebook`` is the fingerprint of the codes, and ``values`` that of the rows. ``cells`` is the container of a network or a mixture.
``inside`` is a stream of the same coder: for every column, for each of its cells in which there is a choice, the values of the rows in
it under the law of the cell. Whatever does not come out of that as it went in (an unseen level, a number off the grid or outside the
range, a negative zero, "007" for 7) is an exception: its row and its value as it is.
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
from lbarn._network.codec import new_digest
from lbarn._network.network import RowCodec
from lbarn._tables.codebook import Codebook
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import ColumnCode
from lbarn._tables.column import Column, whole_numbers
from lbarn.errors import CompressedDataError

__all__ = ["compress", "decompress"]

Values = NDArray[Any]

VERSION = 1
_MAGIC = b"LBARNt"
_HEADER = struct.Struct("<6sH16sQ16s")
_CHECKSUM_BYTES = 8
_DIGIT_BITS = 20  # of a whole number that may be anything in a range
_MAX_EXCEPTIONS = 2**31  # bytes, unpacked

_DAMAGED = "the compressed data is damaged: it does not decode to the rows that went in"


def compress(codec: RowCodec, book: Codebook, tables: Iterable[CodedTable]) -> bytes:
    """The rows of all tables, one after the other."""
    columns: list[Column] | None = None
    parts: list[Cells] = []
    for table in tables:
        own = list(table.columns())
        columns = own if columns is None else [above + below for above, below in zip(columns, own)]
        parts += [chunk.cells for chunk in table.complete_chunks()]
    if columns is None:
        raise ValueError("there is nothing to compress")
    cells = np.concatenate(parts)
    coder = constriction.stream.stack.AnsCoder()
    exceptions: dict[int, tuple[NDArray[np.intp], Values]] = {}
    stored: list[Values] = []
    for j, (code, column) in enumerate(zip(book.codes, columns)):
        values = _stored(code, column)
        decoded = _plain_values(code, code.from_inside(cells[:, j], code.inside(cells[:, j], code.as_plain(column))))
        different = np.flatnonzero(~_same(values, decoded) & ~column.missing)
        if len(different):
            exceptions[j] = different, values[different]
        stored.append(values)
    for j in reversed(range(book.n_columns)):
        _push(coder, book.codes[j], cells[:, j], book.codes[j].as_plain(columns[j]))
    content = _HEADER.pack(_MAGIC, VERSION, book.fingerprint(), len(cells), _fingerprint(stored, columns))
    inside = coder.get_compressed().astype("<u4").tobytes()
    for part in (codec.compress(iter([cells])), inside, _packed(exceptions)):
        content += struct.pack("<Q", len(part)) + part
    return content + _checksum(content)


def decompress(codec: RowCodec, book: Codebook, data: Any, max_rows: int | None) -> list[Column]:
    """The columns that went in."""
    n_rows, values, (coded, inside, exceptions) = _opened(bytes(memoryview(data)), book, max_rows)
    cells = codec.decompress(coded, max_rows)
    if len(cells) != n_rows or len(inside) % 4:
        raise CompressedDataError(_DAMAGED)
    try:
        coder = constriction.stream.stack.AnsCoder(np.frombuffer(inside, "<u4").astype(np.uint32))
    except ValueError as error:
        raise CompressedDataError(f"the compressed data is damaged ({error})") from error
    found = _unpacked(exceptions, book, n_rows)
    columns, stored = [], []
    for j, code in enumerate(book.codes):
        column = code.from_inside(cells[:, j], _pop(coder, code, cells[:, j]))
        own = _plain_values(code, column)
        if j in found:
            own = own.copy()
            own[found[j][0]] = found[j][1]
        stored.append(own)
        columns.append(_of_values(code, own, column.missing))
    if not coder.is_empty() or _fingerprint(stored, columns) != values:
        raise CompressedDataError(_DAMAGED)
    return columns


def _opened(data: bytes, book: Codebook, max_rows: int | None) -> tuple[int, bytes, list[bytes]]:
    if data[: len(_MAGIC)] != _MAGIC[: len(data)]:
        raise CompressedDataError("this is not a table that lbarn has compressed")
    if len(data) < _HEADER.size + _CHECKSUM_BYTES:
        raise CompressedDataError(f"the compressed data is truncated: {len(data)} bytes are less than a header")
    _, version, fingerprint, n_rows, values = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CompressedDataError(f"the compressed data is of version {version}; this lbarn reads version {VERSION}")
    content = data[:-_CHECKSUM_BYTES]
    if data[-_CHECKSUM_BYTES:] != _checksum(content):
        raise CompressedDataError("the compressed data is damaged or truncated: its checksum does not match")
    if fingerprint != book.fingerprint():
        raise CompressedDataError("the data was compressed with another model, whose columns have other codes")
    if max_rows is not None and n_rows > max_rows:
        raise CompressedDataError(
            f"the compressed data claims to hold {n_rows:,} rows, more than max_rows={max_rows:,}"
        )
    parts, start = [], _HEADER.size
    for _ in range(3):
        if start + 8 > len(content):
            raise CompressedDataError(_DAMAGED)
        (length,) = struct.unpack_from("<Q", content, start)
        parts.append(content[start + 8 : start + 8 + length])
        start += 8 + length
    if start != len(content):
        raise CompressedDataError(_DAMAGED)
    return n_rows, values, parts


def _checksum(content: bytes) -> bytes:
    digest = new_digest(_CHECKSUM_BYTES)
    digest.update(content)
    return digest.digest()


# ---------------------------------------------------------------------- inside the cells


def _groups(code: ColumnCode, cells: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """(cell, its rows) for every cell in which there is a choice."""
    order = np.argsort(cells, kind="stable")
    there, starts = np.unique(cells[order], return_index=True)
    for cell, rows in zip(there.tolist(), np.split(order, starts[1:])):
        if code.has_choice(cell):
            yield cell, rows


def _push(coder: Any, code: ColumnCode, cells: NDArray[Any], plain: Column) -> None:
    symbols, offsets = code.inside(cells, plain)
    for cell, rows in reversed(list(_groups(code, cells))):
        chances, n_other = code.choices(cell)
        own = symbols[rows]
        if n_other > 1:
            other = rows[own == len(chances) - 1]
            for digit, size in reversed(_digits(n_other)):
                part = (offsets[other].view(np.uint64) >> np.uint64(digit)) & np.uint64((1 << _DIGIT_BITS) - 1)
                _encode(coder, part, np.full(size, 1.0 / size), size)
        if len(chances) > 1:
            _encode(coder, own, chances, len(chances))


def _pop(coder: Any, code: ColumnCode, cells: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    symbols, offsets = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
    for cell, rows in _groups(code, cells):
        chances, n_other = code.choices(cell)
        if len(chances) > 1:
            symbols[rows] = coder.decode(_model(chances, len(chances)), len(rows))
        if n_other > 1:
            other = rows[symbols[rows] == len(chances) - 1]
            for digit, size in _digits(n_other):
                if len(other):
                    part = coder.decode(_model(np.full(size, 1.0 / size), size), len(other)).astype(np.int64)
                    offsets[other] |= part << digit
            if (offsets[other].view(np.uint64) > np.uint64(n_other - 1)).any():
                raise CompressedDataError(_DAMAGED)
    return symbols, offsets


def _encode(coder: Any, symbols: NDArray[Any], chances: NDArray[np.float64], size: int) -> None:
    if len(symbols):
        coder.encode_reverse(symbols.astype(np.int32), _model(chances, size))


def _model(chances: NDArray[np.float64], size: int) -> Any:
    if (chances == chances[0]).all():
        return constriction.stream.model.Uniform(size)
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
        return texts.to_numpy(zero_copy_only=False).astype(object)
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
        return column.texts().to_numpy(zero_copy_only=False).astype(object)
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


def _fingerprint(values: Sequence[Values], columns: Sequence[Column]) -> bytes:
    digest = new_digest(16)
    for own, column in zip(values, columns):
        digest.update(np.packbits(column.missing).tobytes())
        if own.dtype == object:
            for text in own[~column.missing]:
                digest.update(f"{len(text)}:{text}".encode())
        else:
            digest.update(np.where(column.missing, 0, own).astype(own.dtype).tobytes())
    return digest.digest()


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
