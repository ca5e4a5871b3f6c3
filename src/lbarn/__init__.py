"""The joint distribution of many binary variables, exactly and fast, by boosted trees.

Names are imported when they are first used: ``lbarn --help`` needs neither NumPy nor scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lbarn import datasets
    from lbarn._core import simd_path
    from lbarn._models.classifier import LBARNClassifier
    from lbarn._models.ensemble import LBARNEnsemble
    from lbarn._models.imputer import LBARNImputer
    from lbarn._models.lbarn import LBARN
    from lbarn._models.opening import load
    from lbarn._models.tuning import tune
    from lbarn.anomalies import LBARNOutlierDetector
    from lbarn.errors import CheckpointError, CompressedDataError, DatasetError, ModelFileError
    from lbarn.synthesis import fidelity

__all__ = [
    "LBARN",
    "CheckpointError",
    "CompressedDataError",
    "DatasetError",
    "LBARNClassifier",
    "LBARNEnsemble",
    "LBARNImputer",
    "LBARNOutlierDetector",
    "ModelFileError",
    "datasets",
    "fidelity",
    "load",
    "simd_path",
    "tune",
]
__version__ = "0.1.0"

_HOMES = {
    "LBARN": "_models.lbarn",
    "CheckpointError": "errors",
    "CompressedDataError": "errors",
    "DatasetError": "errors",
    "LBARNClassifier": "_models.classifier",
    "LBARNEnsemble": "_models.ensemble",
    "LBARNImputer": "_models.imputer",
    "LBARNOutlierDetector": "anomalies",
    "ModelFileError": "errors",
    "fidelity": "synthesis",
    "load": "_models.opening",
    "simd_path": "_core",
    "tune": "_models.tuning",
}
_MODULES = ("anomalies", "baselines", "datasets", "plots", "report", "synthesis")  # reached as lbarn.NAME


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"lbarn.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'lbarn' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"lbarn.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
