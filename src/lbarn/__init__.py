"""The joint distribution of many binary variables, exactly and fast, by boosted trees."""

from lbarn import datasets
from lbarn._core import simd_path
from lbarn.anomalies import LBARNOutlierDetector
from lbarn.classifier import LBARNClassifier
from lbarn.errors import CheckpointError, CompressedDataError, DatasetError, ModelFileError
from lbarn.imputer import LBARNImputer
from lbarn.load import load
from lbarn.network import LBARN
from lbarn.synthesis import fidelity

__all__ = [
    "LBARN",
    "CheckpointError",
    "CompressedDataError",
    "DatasetError",
    "LBARNClassifier",
    "LBARNImputer",
    "LBARNOutlierDetector",
    "ModelFileError",
    "datasets",
    "fidelity",
    "load",
    "simd_path",
]
__version__ = "0.1.0"
