"""A folder in which a fit leaves each finished dimension, so that a killed one continues where it was."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lbarn.conditional import Boosting, Conditional, Trees
from lbarn.errors import CheckpointError

__all__ = ["Checkpoint", "write_atomically"]

_VERSION = 1


def write_atomically(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename: whoever looks sees all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class Checkpoint:
    """The finished dimensions of one fit, which ``identity`` tells from every other.

    ``identity`` maps what determines the model (data, weights, parameters) to strings; a folder that holds another one
    is refused. The seed is kept there, so that a fit without ``random_state`` continues with the seed it began with.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: Mapping[str, str], seed: int) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        head = self.folder / "checkpoint.json"
        if head.exists():
            self.seed = self._check(head, identity)
        else:
            self.seed = seed
            content = {"version": _VERSION, "identity": dict(identity), "seed": seed}
            write_atomically(head, json.dumps(content, sort_keys=True, indent=1).encode())

    def _check(self, head: Path, identity: Mapping[str, str]) -> int:
        try:
            content: Any = json.loads(head.read_text())
            version, stored, seed = content["version"], dict(content["identity"]), int(content["seed"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{head} is not a checkpoint of lbarn: {error}; choose an empty folder") from error
        if version != _VERSION:
            raise CheckpointError(
                f"{head} is of version {version}, this lbarn writes {_VERSION}; choose an empty folder"
            )
        different = sorted(k for k in stored.keys() | identity.keys() if stored.get(k) != identity.get(k))
        if different:
            raise CheckpointError(
                f"{self.folder} holds a checkpoint of another fit: {', '.join(different)} differ; choose an empty folder, "
                "or delete this one to begin anew"
            )
        return seed

    def _path(self, how: Boosting, position: int) -> Path:
        run = hashlib.sha256(repr(how).encode()).hexdigest()[:12]
        return self.folder / f"{run}-{position:05d}.npz"

    def save(self, how: Boosting, conditional: Conditional) -> None:
        trees = conditional.trees
        path = self._path(how, conditional.position)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with open(temporary, "wb") as file:
            np.savez(
                file,
                splits=trees.splits,
                gains=trees.gains,
                values=trees.values,
                offsets=trees.offsets,
                train_curve=conditional.train_curve,
                valid_curve=conditional.valid_curve,
            )
        os.replace(temporary, path)

    def load(self, how: Boosting, position: int) -> Conditional | None:
        """The finished conditional, or None where there is none (or its file is damaged: it is trained again)."""
        try:
            with np.load(self._path(how, position), allow_pickle=False) as z:
                trees = Trees(z["splits"], z["gains"], z["values"], z["offsets"])
                return Conditional(position, trees, z["train_curve"], z["valid_curve"])
        except (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
            return None

    def load_array(self, name: str) -> Any:
        try:
            return np.load(self.folder / f"{name}.npy", allow_pickle=False)
        except (FileNotFoundError, ValueError, EOFError):
            return None

    def save_array(self, name: str, array: np.ndarray[Any, Any]) -> None:
        path = self.folder / f"{name}.npy"
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with open(temporary, "wb") as file:
            np.save(file, array)
        os.replace(temporary, path)
