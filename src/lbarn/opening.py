"""Opens a file of any of our models."""

from __future__ import annotations

import os

from lbarn import modelfile
from lbarn.classifier import LBARNClassifier
from lbarn.ensemble import LBARNEnsemble
from lbarn.errors import ModelFileError
from lbarn.network import LBARN

__all__ = ["load"]

_KINDS: dict[str, type[LBARN] | type[LBARNClassifier] | type[LBARNEnsemble]] = {
    "LBARN": LBARN,
    "LBARNClassifier": LBARNClassifier,
    "LBARNEnsemble": LBARNEnsemble,
}


def load(path: str | os.PathLike[str]) -> LBARN | LBARNClassifier | LBARNEnsemble:
    """The model in a file that any of our ``save`` methods has written."""
    kind, header, tensors = modelfile.read(path)
    if kind not in _KINDS:
        raise ModelFileError(f"{path}: holds a model of unknown kind {kind!r}")
    try:
        return _KINDS[kind]._from_parts(header, tensors)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
