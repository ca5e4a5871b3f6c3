"""The joint distribution of many binary variables, exactly and fast, by boosted trees."""

from lbarn._core import simd_path
from lbarn.anomalies import LBARNOutlierDetector
from lbarn.classifier import LBARNClassifier
from lbarn.ensemble import LBARNEnsemble
from lbarn.errors import CheckpointError, CompressedDataError, ModelFileError
from lbarn.imputer import LBARNImputer
from lbarn.load import load
from lbarn.network import LBARN
from lbarn.synthesis import fidelity

__all__ = [
    "LBARN",
    "CheckpointError",
    "CompressedDataError",
    "LBARNClassifier",
    "LBARNEnsemble",
    "LBARNImputer",
    "LBARNOutlierDetector",
    "ModelFileError",
    "fidelity",
    "load",
    "simd_path",
]
__version__ = "0.1.0"
