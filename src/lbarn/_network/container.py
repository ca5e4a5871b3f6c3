"""A container for models: one safetensors file of arrays and one JSON text, checksummed. Nothing in it is ever executed.

The bytes depend on the model alone: one metadata key with sorted JSON, tensors in sorted order, no time, host or path.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lbarn._tables.writing import write_atomically
from lbarn.errors import ModelFileError

__all__ = ["VERSION", "Tensors", "expect", "read", "write"]

VERSION = 1
_KEY = "lbarn"

Tensors = dict[str, NDArray[Any]]


def _checksum(header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True, allow_nan=False).encode())
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def write(
    path: str | os.PathLike[str], kind: str, header: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]
) -> None:
    """Write a model of ``kind``: whole or not at all."""
    content = {"kind": kind, "version": VERSION, **header}
    content["checksum"] = _checksum(content, tensors)
    metadata = {_KEY: json.dumps(content, sort_keys=True, allow_nan=False)}
    arrays = {name: np.ascontiguousarray(tensors[name]) for name in sorted(tensors)}
    write_atomically(Path(path), save(arrays, metadata))


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Any], Tensors]:
    """(kind, header, tensors) of a model file, its checksum verified. What they mean is for the model to check."""
    path = Path(path)
    if not path.is_file():
        raise ModelFileError(f"{path}: no such model file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors: Tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelFileError(f"{path}: damaged or not a model file ({error})") from error
    if _KEY not in metadata:
        raise ModelFileError(f"{path}: a safetensors file, but not a model of lbarn")
    try:
        header = json.loads(metadata[_KEY])
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: its description is damaged ({error})") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{path}: its description is damaged")
    version = header.get("version")
    if version != VERSION:
        raise ModelFileError(f"{path}: a model file of version {version}; this lbarn reads version {VERSION}")
    checksum = header.pop("checksum", None)
    try:
        intact = checksum == _checksum(header, tensors)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: its description is damaged ({error})") from error
    if not intact:
        raise ModelFileError(f"{path}: damaged (its checksum does not match)")
    return str(header.pop("kind", "")), header, tensors


def expect(tensors: Mapping[str, NDArray[Any]], name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The named tensor, if it has that type and shape (None: any)."""
    array = tensors.get(name)
    if array is None:
        raise ModelFileError(f"the array {name!r} is missing")
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape))
    if array.dtype != np.dtype(dtype) or not fits:
        raise ModelFileError(f"the array {name!r} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array
