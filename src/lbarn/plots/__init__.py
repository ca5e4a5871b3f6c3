"""Pictures of a model and of what it says about rows: displays in the manner of scikit-learn's, drawn by matplotlib."""

from lbarn.plots.calibration import CalibrationDisplay
from lbarn.plots.cumulative import CumulativeScoreDisplay
from lbarn.plots.curves import ValidationCurvesDisplay
from lbarn.plots.graph import DependencyGraphDisplay
from lbarn.plots.importance import ImportanceDisplay
from lbarn.plots.order import OrderDisplay
from lbarn.plots.reconstruction import ReconstructionDisplay
from lbarn.plots.samples import SamplesDisplay
from lbarn.plots.surprise import SurpriseDisplay
from lbarn.plots.trees import TreeCountsDisplay

__all__ = [
    "CalibrationDisplay",
    "CumulativeScoreDisplay",
    "DependencyGraphDisplay",
    "ImportanceDisplay",
    "OrderDisplay",
    "ReconstructionDisplay",
    "SamplesDisplay",
    "SurpriseDisplay",
    "TreeCountsDisplay",
    "ValidationCurvesDisplay",
]
