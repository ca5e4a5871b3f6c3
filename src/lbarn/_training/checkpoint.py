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

from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._network import container
from lbarn._network.container import expect
from lbarn._network.modelfile import pack_trees, unpack_trees
from lbarn._tables.writing import write_atomically
from lbarn.errors import CheckpointError, ModelFileError

__all__ = ["Checkpoint"]

_VERSION = 5
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

    def save(self, how: Boosting, place: int, conditionals: tuple[Conditional, ...]) -> None:
        """Keep the conditionals of the column at a place of the order."""
        tensors: container.ToWrite = {
            **pack_trees([own.trees for own in conditionals]),
            "train_curve": np.concatenate([np.zeros(0), *(own.train_curve for own in conditionals)]),
            "valid_curve": np.concatenate([np.zeros(0), *(own.valid_curve for own in conditionals)]),
            "n_start": np.array([own.n_start for own in conditionals], np.int64),
            "shares": np.array([(own.train_share, own.valid_share) for own in conditionals]).reshape(-1, 2),
            "constant": np.array([own.constant for own in conditionals], np.uint8),
        }
        self._write(how, f"{place:05d}", {}, tensors)

    def load(self, how: Boosting, layout: Layout, place: int) -> tuple[Conditional, ...] | None:
        """The finished conditionals, or None if there are none, or none that this fit can have written."""
        n_nodes, first = layout.columns[place].n_nodes, int(layout.first_bit[place])
        try:
            tensors = self._read(how, f"{place:05d}")[1]
            trees = unpack_trees(tensors, first + np.arange(n_nodes))
            counts = np.array([len(own) for own in trees], dtype=np.int64)
            ends = np.cumsum(counts + 1)
            total = (int(ends[-1]) if n_nodes else 0,)
            curves = [expect(tensors, name, np.float64, total) for name in ("train_curve", "valid_curve")]
            n_start = expect(tensors, "n_start", np.int64, (n_nodes,))
            shares = expect(tensors, "shares", np.float64, (n_nodes, 2))
            constant = expect(tensors, "constant", np.uint8, (n_nodes,))
        except ValueError:
            return None
        if (counts > how.max_iter).any() or (n_start < 0).any() or (n_start > counts).any():
            return None
        if (
            not np.isfinite(curves).all()
            or not ((shares >= 0) & (shares <= 1)).all()
            or (counts[constant > 0] != 1).any()
        ):
            return None
        parts = [np.split(curve, ends[:-1]) if n_nodes else [] for curve in curves]
        return tuple(
            Conditional(
                first + k,
                trees[k],
                parts[0][k],
                parts[1][k],
                int(n_start[k]),
                float(shares[k, 0]),
                float(shares[k, 1]),
                bool(constant[k]),
            )
            for k in range(n_nodes)
        )

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

    def _write(self, what: object, name: str, header: Mapping[str, Any], tensors: container.ToWrite) -> None:
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
