"""Lossless compression of any table: its cells under the model, then the values inside the cells, then what no code can say.

A container is a header, four parts, each with its length before it, and a checksum:

    magic 6 | version 2 | rows 8 | cells | inside | exceptions | checksum of all that 8

``cells`` is the container of a network or a mixture. ``inside`` is a stream of the same coder: for every column, for each of its
cells in which there is a choice, the values of the rows in it under the law of the cell. Whatever does not come out of that as it went
in (an unseen level, a number off the grid or outside the range, a negative zero, "007" for 7) is an exception: its row and
its value as it is.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
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
from lbarn._tables.column import Column
from lbarn.errors import CompressedDataError

__all__ = ["compress", "decompress"]

VERSION = 1
_MAGIC = b"LBARNt"
_HEADER = struct.Struct("<6sHQ")
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
    exceptions = {}
    for j in reversed(range(book.n_columns)):
        code, column = book.codes[j], columns[j]
        plain = code.as_plain(column)
        _push(coder, code, cells[:, j], plain)
        different = _different(code, column, code.from_inside(cells[:, j], code.inside(cells[:, j], plain)))
        if different.any():
            exceptions[j] = np.flatnonzero(different), column.take(np.flatnonzero(different))
    content = _HEADER.pack(_MAGIC, VERSION, len(cells))
    inside = coder.get_compressed().astype("<u4").tobytes()
    for part in (codec.compress(iter([cells])), inside, _packed(exceptions)):
        content += struct.pack("<Q", len(part)) + part
    return content + _checksum(content)


def decompress(codec: RowCodec, book: Codebook, data: Any, max_rows: int | None) -> list[Column]:
    """The columns that went in."""
    n_rows, (coded, inside, exceptions) = _opened(bytes(memoryview(data)), max_rows)
    cells = codec.decompress(coded, max_rows)
    if len(cells) != n_rows or len(inside) % 4:
        raise CompressedDataError(_DAMAGED)
    try:
        coder = constriction.stream.stack.AnsCoder(np.frombuffer(inside, "<u4").astype(np.uint32))
    except ValueError as error:
        raise CompressedDataError(f"the compressed data is damaged ({error})") from error
    columns = []
    for j, code in enumerate(book.codes):
        columns.append(code.from_inside(cells[:, j], _pop(coder, code, cells[:, j])))
    if not coder.is_empty():
        raise CompressedDataError(_DAMAGED)
    for j, (rows, values) in _unpacked(exceptions, book, n_rows).items():
        columns[j] = _corrected(columns[j], rows, values)
    return columns


def _opened(data: bytes, max_rows: int | None) -> tuple[int, list[bytes]]:
    if data[: len(_MAGIC)] != _MAGIC[: len(data)]:
        raise CompressedDataError("this is not a table that lbarn has compressed")
    if len(data) < _HEADER.size + _CHECKSUM_BYTES:
        raise CompressedDataError(f"the compressed data is truncated: {len(data)} bytes are less than a header")
    _, version, n_rows = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CompressedDataError(f"the compressed data is of version {version}; this lbarn reads version {VERSION}")
    content = data[:-_CHECKSUM_BYTES]
    if data[-_CHECKSUM_BYTES:] != _checksum(content):
        raise CompressedDataError("the compressed data is damaged or truncated: its checksum does not match")
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
    return n_rows, parts


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
                _encode(coder, (offsets[other] >> digit) & ((1 << _DIGIT_BITS) - 1), np.full(size, 1.0 / size), size)
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
            if (offsets[other] >= n_other).any():
                raise CompressedDataError(_DAMAGED)
    return symbols, offsets


def _encode(coder: Any, symbols: NDArray[np.int64], chances: NDArray[np.float64], size: int) -> None:
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


# ---------------------------------------------------------------------- exceptions


def _different(code: ColumnCode, column: Column, decoded: Column) -> NDArray[np.bool_]:
    """Where what was decoded is not what went in, to the last bit."""
    if code.plain.written or column.sort != decoded.sort:
        one, other = column.texts().to_numpy(zero_copy_only=False), decoded.texts().to_numpy(zero_copy_only=False)
        return np.asarray(one != other) & ~(column.missing & decoded.missing)
    if isinstance(column.values, np.ndarray):
        one, other = column.values, decoded.values
        if one.dtype != other.dtype:
            same = (one == other) & (np.signbit(one) == np.signbit(other))
        elif one.dtype.kind == "f":
            same = one.view(np.int64) == other.view(np.int64)
        else:
            same = one == other
    else:
        same = column.values.to_numpy(zero_copy_only=False) == decoded.values.to_numpy(zero_copy_only=False)
    return ~(np.asarray(same) | (column.missing & decoded.missing)) | (column.missing != decoded.missing)


def _packed(exceptions: dict[int, tuple[NDArray[np.intp], Column]]) -> bytes:
    """Rows and values of every column that has exceptions: JSON of strings and numbers in the shortest form that reads back."""
    if not exceptions:
        return b""
    content = {}
    for j, (rows, column) in sorted(exceptions.items()):
        if isinstance(column.values, np.ndarray):
            kind = "f" if column.values.dtype.kind == "f" else "i"
            values: list[Any] = column.values.view(np.int64).tolist() if kind == "f" else column.values.tolist()
        else:
            kind, values = "s", column.values.to_pylist()
        content[str(j)] = [kind, np.diff(rows, prepend=0).tolist(), values]
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)


def _unpacked(data: bytes, book: Codebook, n_rows: int) -> dict[int, tuple[NDArray[np.int64], Any]]:
    if not data:
        return {}
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(data, _MAX_EXCEPTIONS)
        if inflate.unconsumed_tail or not inflate.eof:
            raise ValueError("too long, or cut short")
        found = {}
        for key, (kind, steps, values) in json.loads(text).items():
            rows = np.cumsum(np.array(steps, np.int64))
            if (
                not 0 <= int(key) < book.n_columns
                or len(rows) != len(values)
                or (rows < 0).any()
                or (rows >= n_rows).any()
            ):
                raise ValueError("a row or column that is not there")
            if kind == "s":
                found[int(key)] = rows, pa.array(values, pa.string())
            else:
                whole = np.array(values, np.int64)
                found[int(key)] = rows, whole.view(np.float64) if kind == "f" else whole
        return found
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        zlib.error,
        pa.ArrowInvalid,
        RecursionError,
    ) as error:
        raise CompressedDataError(f"{_DAMAGED} ({error})") from error


def _corrected(column: Column, rows: NDArray[np.int64], values: Any) -> Column:
    """The column with other values in some rows."""
    missing = column.missing.copy()
    missing[rows] = False
    if not isinstance(values, np.ndarray):
        texts = column.texts().to_numpy(zero_copy_only=False).astype(object)
        texts[rows] = values.to_numpy(zero_copy_only=False)
        kind = column.type if column.sort == "string" else pa.string()
        return replace(
            column, sort="string", values=pa.array(texts, pa.string()), missing=missing, type=kind, written=False
        )
    corrected = (
        column.values.astype(np.result_type(column.values, values))
        if column.values.dtype != values.dtype
        else column.values.copy()
    )
    corrected[rows] = values
    return column.with_values(corrected, missing)
