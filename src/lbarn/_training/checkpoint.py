"""A folder in which a fit leaves each finished dimension, so that a killed one continues where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import NO_LIMIT, Trees
from lbarn._network import container
from lbarn._network.container import expect
from lbarn._tables.writing import write_atomically
from lbarn.errors import CheckpointError, ModelFileError

__all__ = ["Checkpoint"]

_VERSION = 3
_KIND = "checkpoint"


def _head(identity: Mapping[str, str], seed: int) -> dict[str, Any]:
    content = {"version": _VERSION, "identity": dict(identity), "seed": seed}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    return {**content, "checksum": digest.hexdigest()}


class Checkpoint:
    """The finished dimensions of one fit, which ``identity`` tells from every other.

    ``identity`` maps what determines the model (data, weights, parameters) to strings; a folder that holds another one
    is refused. The seed is kept there, so that a fit without ``random_state`` continues with the seed it began with.

    Every file has a checksum. A dimension that is damaged, or not what this fit can have written, is trained again.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, str], seed: int) -> None:
        if not os.fspath(folder):
            raise CheckpointError("the checkpoint has an empty name; name a folder, or None for no checkpoint")
        self.folder = Path(folder)
        head = self.folder / "checkpoint.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if os.path.lexists(head):
                self.seed = self._check(head, identity)
            else:
                self.seed = seed
                write_atomically(head, json.dumps(_head(identity, seed), sort_keys=True, indent=1).encode())
        except OSError as error:
            raise CheckpointError(f"{folder} cannot be used as a checkpoint: {error}; choose another folder") from error
        # Part of every file's name, so that nothing that belongs to another head is ever read.
        self._digest = hashlib.sha256(_head(identity, self.seed)["checksum"].encode())

    def _check(self, head: Path, identity: Mapping[str, str]) -> int:
        try:
            if not head.is_file():
                raise ValueError("it is not a file")
            content: Any = json.loads(head.read_bytes())
            version, stored, seed = content["version"], dict(content["identity"]), content["seed"]
            intact = content == _head(stored, seed) and type(seed) is int
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(f"{head} is not a checkpoint of lbarn: {error}; choose an empty folder") from error
        if version != _VERSION:
            raise CheckpointError(
                f"{head} is of version {version}, this lbarn writes {_VERSION}; choose an empty folder"
            )
        if not intact:
            raise CheckpointError(f"{head} is damaged (its checksum does not match); choose an empty folder")
        different = sorted(k for k in stored.keys() | identity.keys() if stored.get(k) != identity.get(k))
        if different:
            raise CheckpointError(
                f"{self.folder} holds a checkpoint of another fit: {', '.join(different)} differ; choose an empty folder, "
                "or delete this one to begin anew"
            )
        return seed

    # ------------------------------------------------------------------ dimensions

    def save(self, how: Boosting, conditional: Conditional) -> None:
        trees = conditional.trees
        tensors: container.Tensors = {
            "splits": trees.splits,
            "gains": trees.gains,
            "values": trees.values,
            "offsets": trees.offsets,
            "train_curve": conditional.train_curve,
            "valid_curve": conditional.valid_curve,
        }
        header = {"n_start": conditional.n_start, "limit": trees.limit}
        self._write(how, f"{conditional.position:05d}", header, tensors)

    def load(self, how: Boosting, position: int) -> Conditional | None:
        """The finished conditional, or None if there is none, or none that this fit can have written."""
        try:
            header, tensors = self._read(how, f"{position:05d}")
            trees = Trees(
                expect(tensors, "splits", np.uint16, (None, 2)),
                expect(tensors, "gains", np.float32, (None,)),
                expect(tensors, "values", np.int32, (None,)),
                expect(tensors, "offsets", np.int64, (None,)),
                _count(header, "limit", NO_LIMIT),
            )
            trees.check(position)
            if len(trees) > how.max_iter:
                return None
            train_curve = expect(tensors, "train_curve", np.float64, (len(trees) + 1,))
            valid_curve = expect(tensors, "valid_curve", np.float64, (len(trees) + 1,))
            if not np.isfinite([train_curve, valid_curve]).all():
                return None
            n_start = _count(header, "n_start", len(trees))
        except ValueError:
            return None
        return Conditional(position, trees, train_curve, valid_curve, n_start)

    # ------------------------------------------------------------------ the order

    def save_order(self, order: NDArray[np.intp]) -> None:
        self._write("order", "order", {}, {"order": order.astype(np.int64)})

    def load_order(self, n_columns: int) -> NDArray[np.intp] | None:
        """The order that was found, or None if there is none (or it is damaged: it is found again)."""
        try:
            order = expect(self._read("order", "order")[1], "order", np.int64, (n_columns,))
        except ModelFileError:
            return None
        return order.astype(np.intp) if np.array_equal(np.sort(order), np.arange(n_columns)) else None

    # ------------------------------------------------------------------ files

    def _path(self, what: object, name: str) -> Path:
        digest = self._digest.copy()
        digest.update(repr(what).encode())
        return self.folder / f"{digest.hexdigest()[:12]}-{name}.safetensors"

    def _write(self, what: object, name: str, header: Mapping[str, Any], tensors: container.Tensors) -> None:
        path = self._path(what, name)
        if path.is_symlink():  # not ours: where it leads, nothing is to be overwritten
            path.unlink()
        if path.is_dir():
            raise CheckpointError(f"{path} is a folder, which a fit does not leave there; choose an empty folder")
        container.write(path, _KIND, {"belongs_to": path.stem, **header}, tensors)

    def _read(self, what: object, name: str) -> tuple[dict[str, Any], container.Tensors]:
        """Header and arrays of a file that was written under this name for this fit, or a ModelFileError."""
        path = self._path(what, name)
        kind, header, tensors = container.read(path)
        if kind != _KIND or header.get("belongs_to") != path.stem:
            raise ModelFileError(f"{path} is not the file that it was written as")
        return header, tensors


def _count(header: Mapping[str, Any], name: str, most: int) -> int:
    value = header.get(name)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r}")
    return value
