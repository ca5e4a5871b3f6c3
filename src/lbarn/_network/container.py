"""A container for models: one safetensors file of arrays and one JSON text, checksummed. Nothing in it is ever executed.

The bytes depend on the model alone: one metadata key with sorted JSON, tensors in sorted order, no time, host or path.
Arrays go from memory to the file and back one by one, without a second copy of all; the file is never mapped into
memory, for whoever shortens a mapped file kills its reader.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lbarn._tables.writing import writing_atomically
from lbarn.errors import ModelFileError

__all__ = ["VERSION", "Tensors", "expect", "read", "write"]

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


def _checksum(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name in sorted(tensors):
        array = np.atleast_1d(tensors[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


# ---------------------------------------------------------------- writing


def write(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]
) -> None:
    """Write a model of ``kind``: whole or not at all."""
    arrays = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for name, array in tensors.items()}
    content = {"kind": kind, "version": VERSION, **header}
    content["checksum"] = _checksum(content, arrays)
    with writing_atomically(path) as file:
        _write_safetensors(file, json.dumps(content, sort_keys=True, allow_nan=False), arrays)


def _write_safetensors(file: BinaryIO, text: str, arrays: Tensors) -> None:
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
        file.write(_bytes_of(arrays[name]))


# ---------------------------------------------------------------- reading


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Tensors]:
    """(kind, header, tensors) of a model file, its checksum verified. What they mean is for the model to check.

    No array is read before it is clear that the file is one of ours, and of this version.
    """
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"{path}: no such model file")
    try:
        with open(path, "rb") as file:
            head = _read_head(file)
            header = _our_header(head)
            tensors = _read_tensors(file, head)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read ({error.strerror})") from error
    checksum = header.pop("checksum", None)
    try:
        intact = checksum == _checksum(header, tensors)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: its description is damaged ({error})") from error
    if not intact:
        raise ModelFileError(f"{path}: damaged (its checksum does not match)")
    return header.pop("kind"), header, tensors


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


def _read_tensors(file: BufferedReader, head: dict[str, Any]) -> Tensors:
    """The arrays, which must fill the rest of the file one after the other."""
    room = os.fstat(file.fileno()).st_size - file.tell()
    places = sorted((_place(name, entry) for name, entry in head.items()), key=lambda place: place[1:3])
    end = 0
    for name, begin, stop, dtype, shape in places:
        if begin != end or stop - begin != math.prod(shape) * dtype.itemsize:
            raise ModelFileError(f"damaged (the place of the array {name!r} does not fit)")
        end = stop
    if end != room:
        raise ModelFileError("damaged (its arrays do not fill it)")
    tensors: Tensors = {}
    for name, begin, stop, dtype, shape in places:
        try:
            array = np.empty(shape, dtype)
        except (ValueError, MemoryError) as error:
            raise ModelFileError(f"the array {name!r} is too large ({error})") from error
        if file.readinto(_bytes_of(array)) != stop - begin:
            raise ModelFileError("damaged (it became shorter while it was read)")
        tensors[name] = array
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
