"""Opens a file of any of our models."""

from __future__ import annotations

import os

from lbarn._models.classifier import LBARNClassifier
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.lbarn import LBARN
from lbarn._models.regressor import LBARNRegressor
from lbarn._network.modelfile import open_model
from lbarn.baselines.independent import IndependentBits
from lbarn.baselines.independent_columns import IndependentColumns

__all__ = ["load"]

Model = LBARN | LBARNClassifier | LBARNRegressor | LBARNEnsemble | IndependentBits | IndependentColumns


def load(path: str | os.PathLike[str]) -> Model:
    """The model in a file that any of our ``save`` methods has written."""
    model = open_model(path)
    assert isinstance(model, Model)
    return model
