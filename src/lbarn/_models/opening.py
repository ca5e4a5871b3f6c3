"""Opens a file of any of our models."""

from __future__ import annotations

import os

from lbarn._models.classifier import LBARNClassifier
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.lbarn import LBARN
from lbarn._network import modelfile

__all__ = ["load"]

_Model = LBARN | LBARNClassifier | LBARNEnsemble
_MODELS: list[type[_Model]] = [LBARN, LBARNClassifier, LBARNEnsemble]


def load(path: str | os.PathLike[str]) -> _Model:
    """The model in a file that any of our ``save`` methods has written."""
    return modelfile.open_model(path, _MODELS, "of unknown kind {!r}")
