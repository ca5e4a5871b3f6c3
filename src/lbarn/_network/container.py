"""A container for models: one safetensors file of arrays and one JSON text, checksummed. Nothing in it is ever executed.

The bytes depend on the model alone: one metadata key with sorted JSON, tensors in sorted order, no time, host or path.
Arrays go from memory to the file piece by piece, and back one by one, without a second copy of any. The file is never mapped
into memory: whoever shortens a mapped file kills its reader, and whoever writes into it changes what has been checked. Reading it costs
less than the checksum, which another thread computes while arrays are read and made a model of.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lbarn._tables.writing import writing_atomically
from lbarn.errors import ModelFileError

__all__ = ["VERSION", "Pieces", "Tensors", "ToWrite", "expect", "read", "reading", "write"]

VERSION = 1
_KEY = "lbarn"
_MAX_HEADER = 100_000_000  # bytes; that of the safetensors library

# What safetensors calls the types. Tensors stand in a file in this order of types, then by name.
_TYPES = {
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "F32": "<f4",
    "U32": "<u4",
    "I32": "<i4",
    "F16": "<f2",
    "U16": "<u2",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}
_RANKS = {dtype: rank for rank, dtype in enumerate(_NAMES)}

Tensors = dict[str, NDArray[Any]]


class Pieces:
    """An array that is only there in pieces, one behind the other along its first axis: it is written without being put together."""

    def __init__(self, pieces: Sequence[NDArray[Any]]) -> None:
        self.pieces = [_in_a_file(piece) for piece in pieces]
        first = self.pieces[0]
        self.dtype = first.dtype
        self.shape = (sum(len(piece) for piece in self.pieces), *first.shape[1:])
        if any(piece.dtype != self.dtype or piece.shape[1:] != self.shape[1:] for piece in self.pieces):
            raise ValueError("pieces of one array have one type and shape")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.concatenate(self.pieces, dtype=dtype)

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)


ToWrite = Mapping[str, NDArray[Any] | Pieces]


def _in_a_file(array: NDArray[Any]) -> NDArray[Any]:
    """As it stands in a file: contiguous, little endian; the array itself, as a rule."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _header_digest(header: Mapping[str, Any]) -> Any:
    return hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())


def _add(digest: Any, name: str, array: NDArray[Any] | Pieces) -> None:
    """What the checksum knows of an array; arrays go by name."""
    own = array if isinstance(array, Pieces) else Pieces([np.atleast_1d(array)])
    digest.update(f"{name} {own.dtype.str} {own.shape}".encode())
    for piece in own.pieces:
        digest.update(_bytes_of(piece))


def _checksum(header: Mapping[str, Any], tensors: ToWrite) -> str:
    digest = _header_digest(header)
    for name in sorted(tensors):
        _add(digest, name, tensors[name])
    return str(digest.hexdigest())


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


# ---------------------------------------------------------------- writing


def write(path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], tensors: ToWrite) -> None:
    """Write a model of ``kind``: whole or not at all."""
    arrays = {name: own if isinstance(own, Pieces) else _in_a_file(own) for name, own in tensors.items()}
    content = {"kind": kind, "version": VERSION, **header}
    content["checksum"] = _checksum(content, arrays)
    with writing_atomically(path) as file:
        _write_safetensors(file, json.dumps(content, sort_keys=True, allow_nan=False), arrays)


def _write_safetensors(file: BinaryIO, text: str, arrays: ToWrite) -> None:
    """The bytes that ``safetensors.numpy.save`` gives: the length of a JSON header, the header, the arrays."""
    names = sorted(arrays, key=lambda name: (_RANKS[arrays[name].dtype.str], name))
    head: dict[str, Any] = {"__metadata__": {_KEY: text}}
    end = 0
    for name in names:
        begin, end = end, end + arrays[name].nbytes
        head[name] = {
            "dtype": _NAMES[arrays[name].dtype.str],
            "shape": arrays[name].shape,
            "data_offsets": [begin, end],
        }
    encoded = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)
    file.write(len(encoded).to_bytes(8, "little"))
    file.write(encoded)
    for name in names:
        own = arrays[name]
        for piece in own.pieces if isinstance(own, Pieces) else [own]:
            file.write(_bytes_of(piece))


# ---------------------------------------------------------------- reading


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Tensors]:
    """(kind, header, tensors) of a model file, its checksum verified. What they mean is for the model to check."""
    with reading(path) as found:
        return found


@contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[tuple[str, dict[str, Any], Tensors]]:
    """The same while the checksum is computed: what is made of the arrays is good when the block has been left without an error.

    A file that is damaged is always said to be, whatever else was found to be wrong with it. No array is read before it is clear that
    the file is one of ours, and of this version.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"{path}: no such model file")
    with ThreadPoolExecutor(1) as other_thread:
        try:
            with open(path, "rb") as file:
                head = _read_head(file)
                header = _our_header(head)
                checksum = header.pop("checksum", None)
                digest = _digest_of_description(header)
                tensors = _read_tensors(file, head, lambda *array: other_thread.submit(_add, digest, *array))
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from error
        except OSError as error:
            raise ModelFileError(f"{path}: cannot be read ({error.strerror})") from error
        found = other_thread.submit(digest.hexdigest)
        try:
            yield header.pop("kind"), header, tensors
        finally:
            if found.result() != checksum:
                raise ModelFileError(f"{path}: damaged (its checksum does not match)") from None


def _digest_of_description(header: Mapping[str, Any]) -> Any:
    try:
        return _header_digest(header)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its description is damaged ({error})") from error


def _read_head(file: BufferedReader) -> dict[str, Any]:
    """The JSON header of a safetensors file, its metadata included."""
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _MAX_HEADER):
        raise ModelFileError("damaged or not a model file")
    try:
        head = _strict_json(file.read(length).decode())
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"damaged or not a model file ({error})") from error
    if not isinstance(head, dict):
        raise ModelFileError("damaged or not a model file")
    return head


def _our_header(head: dict[str, Any]) -> dict[str, Any]:
    metadata = head.pop("__metadata__", None)
    text = metadata.get(_KEY) if isinstance(metadata, dict) else None
    if not isinstance(text, str):
        raise ModelFileError("a safetensors file, but not a model of lbarn")
    try:
        header = _strict_json(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its description is damaged ({error})") from error
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise ModelFileError("its description is damaged")
    version = header.get("version")
    if type(version) is not int or version != VERSION:
        raise ModelFileError(f"a model file of version {version}; this lbarn reads version {VERSION}")
    return header


def _read_tensors(
    file: BufferedReader, head: dict[str, Any], done: Callable[[str, NDArray[Any]], Future[None]]
) -> Tensors:
    """The arrays, which must fill the rest of the file one after the other; they are read, and ``done``, by name."""
    start = file.tell()
    room = os.fstat(file.fileno()).st_size - start
    places = sorted((_place(name, entry) for name, entry in head.items()), key=lambda place: place[1:3])
    end = 0
    for name, begin, stop, dtype, shape in places:
        if begin != end or stop - begin != math.prod(shape) * dtype.itemsize:
            raise ModelFileError(f"damaged (the place of the array {name!r} does not fit)")
        end = stop
    if end != room:
        raise ModelFileError("damaged (its arrays do not fill it)")
    tensors: Tensors = {}
    for name, begin, stop, dtype, shape in sorted(places, key=lambda place: place[0]):
        file.seek(start + begin)
        try:
            array = np.empty(shape, dtype)
        except (ValueError, MemoryError) as error:
            raise ModelFileError(f"the array {name!r} is too large ({error})") from error
        if file.readinto(_bytes_of(array)) != stop - begin:
            raise ModelFileError("damaged (it became shorter while it was read)")
        tensors[name] = array
        done(name, array)
    return tensors


def _place(name: str, entry: Any) -> tuple[str, int, int, np.dtype[Any], tuple[int, ...]]:
    """(name, begin, end, type, shape) of an entry of the header."""
    try:
        dtype, shape, (begin, end) = _TYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if entry.keys() != {"dtype", "shape", "data_offsets"} or not isinstance(shape, list) or len(shape) > 32:
            raise ValueError
        if not all(type(n) is int and 0 <= n < 2**63 for n in (begin, end, *shape)):
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"damaged (the array {name!r} is not described as it should be)") from error
    return name, begin, end, np.dtype(dtype), tuple(shape)


def _strict_json(text: str) -> Any:
    """JSON as the standard has it: no number that is infinite or none, no key twice."""
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_finite, parse_float=_finite)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands in it twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number")
    return number


def expect(tensors: Mapping[str, NDArray[Any]], name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The named tensor, if it has that type and shape (None: any)."""
    array = tensors.get(name)
    if array is None:
        raise ModelFileError(f"the array {name!r} is missing")
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape))
    if array.dtype != np.dtype(dtype) or not fits:
        raise ModelFileError(f"the array {name!r} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array
