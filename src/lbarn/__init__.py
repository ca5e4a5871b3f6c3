"""The joint distribution of many binary variables, exactly and fast, by boosted trees."""

from lbarn._core import simd_path
from lbarn.anomalies import LBARNOutlierDetector
from lbarn.classifier import LBARNClassifier
from lbarn.errors import CheckpointError, CompressedDataError, ModelFileError
from lbarn.load import load
from lbarn.network import LBARN

__all__ = [
    "LBARN",
    "CheckpointError",
    "CompressedDataError",
    "LBARNClassifier",
    "LBARNOutlierDetector",
    "ModelFileError",
    "load",
    "simd_path",
]
__version__ = "0.1.0"
