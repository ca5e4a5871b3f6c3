"""A folder in which a fit leaves each finished dimension, so that a killed one continues where it was."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import Trees
from lbarn._tables.writing import write_atomically
from lbarn.errors import CheckpointError

__all__ = ["Checkpoint"]

_VERSION = 2


def _head(identity: Mapping[str, str], seed: int) -> bytes:
    content = {"version": _VERSION, "identity": dict(identity), "seed": seed}
    return json.dumps(content, sort_keys=True, indent=1).encode()


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
            write_atomically(head, _head(identity, seed))
        # Part of every file's name, so that nothing that belongs to another head is ever read.
        self._digest = hashlib.sha256(_head(identity, self.seed))

    def _check(self, head: Path, identity: Mapping[str, str]) -> int:
        try:
            content: Any = json.loads(head.read_text())
            version, stored, seed = content["version"], dict(content["identity"]), int(content["seed"])
            if seed < 0:
                raise ValueError(f"its seed is {seed}")
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
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

    def _path(self, what: object, name: str) -> Path:
        digest = self._digest.copy()
        digest.update(repr(what).encode())
        return self.folder / f"{digest.hexdigest()[:12]}-{name}.npz"

    def save(self, how: Boosting, conditional: Conditional) -> None:
        trees = conditional.trees
        _save(
            self._path(how, f"{conditional.position:05d}"),
            splits=trees.splits,
            gains=trees.gains,
            values=trees.values,
            offsets=trees.offsets,
            train_curve=conditional.train_curve,
            valid_curve=conditional.valid_curve,
            n_start=np.array(conditional.n_start),
        )

    def load(self, how: Boosting, position: int) -> Conditional | None:
        """The finished conditional, or None where there is none (or its file is damaged: it is trained again)."""
        names = ("splits", "gains", "values", "offsets", "train_curve", "valid_curve", "n_start")
        arrays = _load(self._path(how, f"{position:05d}"), names)
        if arrays is None:
            return None
        *trees, train_curve, valid_curve, n_start = arrays
        return Conditional(position, Trees(*trees), train_curve, valid_curve, int(n_start))

    def save_array(self, name: str, array: NDArray[Any]) -> None:
        _save(self._path(name, name), array=array)

    def load_array(self, name: str) -> NDArray[Any] | None:
        arrays = _load(self._path(name, name), ("array",))
        return None if arrays is None else arrays[0]


def _save(path: Path, **arrays: Any) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(temporary, "wb") as file:
        np.savez(file, **arrays)
    os.replace(temporary, path)


def _load(path: Path, names: Sequence[str]) -> list[NDArray[Any]] | None:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as z:
            return [z[name] for name in names]
    except Exception:  # no such file, or a damaged one: a zip file has its checksums, and fails in many ways
        return None
