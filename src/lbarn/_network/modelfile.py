"""Model files: one safetensors file of arrays and one JSON text, checksummed. Nothing in it is ever executed.

The bytes depend on the model alone: one metadata key with sorted JSON, tensors in sorted order, no time, host or path.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from lbarn._engine.trees import Trees
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
