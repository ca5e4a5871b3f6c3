"""Model files: one safetensors file of arrays and one JSON text, checksummed. Nothing in it is ever executed.

The bytes depend on the model alone: one metadata key with sorted JSON, tensors in sorted order, no time, host or path.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from sklearn.base import BaseEstimator

from lbarn._engine.conditional import Trees
from lbarn._training.checkpoint import write_atomically
from lbarn.errors import ModelFileError

__all__ = [
    "VERSION",
    "SavedModel",
    "expect",
    "nest",
    "nested",
    "open_model",
    "pack_trees",
    "parameters_from_json",
    "parameters_to_json",
    "read",
    "unpack_trees",
    "write",
]

VERSION = 1
_KEY = "lbarn"
_MAX_LOG_ODDS = 2**31 - 1
_NOT_IN_FILES = {"n_jobs", "verbose"}  # parameters that do not affect the model

Tensors = dict[str, NDArray[Any]]
_Model = TypeVar("_Model", bound=BaseEstimator)
_Saved = TypeVar("_Saved", bound="SavedModel")


class SavedModel:
    """``save`` and ``load`` for a model that can be taken to parts, a JSON-like header and arrays, and made of them."""

    _file_kind: ClassVar[str]  # what its files say they hold

    def _to_parts(self, trim: bool) -> tuple[dict[str, Any], Tensors]:
        raise NotImplementedError

    @classmethod
    def _from_parts(cls: type[_Saved], header: dict[str, Any], tensors: Tensors) -> _Saved:
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str], *, trim: bool = False) -> None:
        """Write the model to one file of arrays and JSON; ``trim=True`` keeps the selected trees only."""
        write(path, self._file_kind, *self._to_parts(trim))

    @classmethod
    def load(cls: type[_Saved], path: str | os.PathLike[str]) -> _Saved:
        """Read a model that ``save`` has written."""
        return open_model(path, [cls], f"of kind {{!r}}, not {cls._file_kind}; lbarn.load opens any kind")


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


def open_model(path: str | os.PathLike[str], models: Sequence[type[_Saved]], none_of_them: str) -> _Saved:
    """The model in a file, which must be one of ``models``; ``none_of_them`` says what else it is a model of."""
    kind, header, tensors = read(path)
    for model in models:
        if model._file_kind == kind:
            try:
                return model._from_parts(header, tensors)
            except ModelFileError as error:
                raise ModelFileError(f"{path}: {error}") from error
    raise ModelFileError(f"{path}: holds a model {none_of_them.format(kind)}")


def parameters_to_json(model: BaseEstimator) -> dict[str, Any]:
    """The parameters of a model that affect it; a generator of random numbers cannot be kept."""
    return {name: _plain(value) for name, value in model.get_params().items() if name not in _NOT_IN_FILES}


def _plain(value: Any) -> Any:
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        return np.asarray(value).tolist()
    return value.item() if isinstance(value, np.generic) else value


def parameters_from_json(kind: type[_Model], parameters: Any) -> _Model:
    """A model that is not fitted, with parameters that are all known and all valid; what is wrong is a ValueError.

    A parameter that is younger than the file has its default there, which is what the model was fitted with.
    """
    unknown = parameters.keys() - (kind().get_params().keys() - _NOT_IN_FILES)
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(sorted(unknown))}")
    for name, value in parameters.items():
        if isinstance(value, list) and np.asarray(value).dtype.kind not in "biuf":
            raise ValueError(f"the {name} asked for is not of numbers")
    model = kind(**parameters)
    model._validate_params()
    return model


def nest(parts: Sequence[Tensors]) -> Tensors:
    """The arrays of several models as those of one."""
    return {f"{k}.{name}": array for k, arrays in enumerate(parts) for name, array in arrays.items()}


def nested(tensors: Tensors, k: int) -> Tensors:
    """The arrays of model ``k`` of those that ``nest`` has put together."""
    prefix = f"{k}."
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def pack_trees(network: Sequence[Trees]) -> Tensors:
    """The trees of a network's conditionals as six arrays."""
    return {
        "splits": np.concatenate([t.splits for t in network]),
        "gains": np.concatenate([t.gains for t in network]),
        "values": np.concatenate([t.values for t in network]),
        "tree_splits": np.concatenate([np.diff(t.offsets) for t in network]).astype(np.uint16),
        "tree_counts": np.array([len(t) for t in network], np.int64),
    }


def expect(tensors: Mapping[str, NDArray[Any]], name: str, dtype: Any, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """The named tensor, if it has that type and shape (None: any)."""
    array = tensors.get(name)
    if array is None:
        raise ModelFileError(f"the array {name!r} is missing")
    fits = array.ndim == len(shape) and all(want in (None, have) for want, have in zip(shape, array.shape))
    if array.dtype != np.dtype(dtype) or not fits:
        raise ModelFileError(f"the array {name!r} is {array.dtype} {array.shape}, not {np.dtype(dtype)} {shape}")
    return array


def unpack_trees(tensors: Mapping[str, NDArray[Any]], n_positions: int) -> list[Trees]:
    """The trees of every conditional, each array checked so that no evaluation can leave its bounds or overflow."""
    counts = expect(tensors, "tree_counts", np.int64, (n_positions,))
    sizes = expect(tensors, "tree_splits", np.uint16, (None,)).astype(np.int64)
    splits = expect(tensors, "splits", np.uint16, (None, 2))
    gains = expect(tensors, "gains", np.float32, (None,))
    values = expect(tensors, "values", np.int32, (None,))
    if (counts < 0).any() or (counts > len(sizes)).any() or counts.sum() != len(sizes):
        raise ModelFileError("the numbers of trees do not add up")
    n_splits = int(sizes.sum())
    if len(splits) != n_splits or len(gains) != n_splits or len(values) != n_splits + len(sizes):
        raise ModelFileError("the numbers of splits and leaves do not add up")
    if not np.isfinite(gains).all():
        raise ModelFileError("a gain is not a number")
    first_split = np.concatenate([[0], np.cumsum(sizes)])  # per tree
    within = np.arange(n_splits) - np.repeat(first_split[:-1], sizes)
    position = np.repeat(np.arange(n_positions), counts)  # per tree
    if (splits[:, 0] > within).any():
        raise ModelFileError("a split names a leaf that does not exist")
    if (splits[:, 1] >= np.repeat(position, sizes)).any():
        raise ModelFileError("a split uses a variable that comes later in the order")
    first_leaf = first_split[:-1] + np.arange(len(sizes))
    if len(sizes):
        largest = np.maximum.reduceat(np.abs(values.astype(np.int64)), first_leaf)
        if (np.bincount(position, weights=largest, minlength=n_positions) > _MAX_LOG_ODDS).any():
            raise ModelFileError("the leaf values are too large")
    first_tree = np.concatenate([[0], np.cumsum(counts)])
    network = []
    for d in range(n_positions):
        a, b = int(first_tree[d]), int(first_tree[d + 1])
        s, e = int(first_split[a]), int(first_split[b])
        network.append(Trees(splits[s:e], gains[s:e], values[s + a : e + b], first_split[a : b + 1] - s))
    return network
