from . import anomalies as anomalies
from . import baselines as baselines
from . import datasets as datasets
from . import inspection as inspection
from . import plots as plots
from . import report as report
from . import synthesis as synthesis
from ._core import simd_path as simd_path
from ._models.classifier import LBARNClassifier as LBARNClassifier
from ._models.ensemble import LBARNEnsemble as LBARNEnsemble
from ._models.files import load as load
from ._models.imputer import LBARNImputer as LBARNImputer
from ._models.lbarn import LBARN as LBARN
from ._models.outliers import LBARNOutlierDetector as LBARNOutlierDetector
from ._models.regressor import LBARNRegressor as LBARNRegressor
from ._models.tuning import tune as tune
from .anomalies import explain as explain
from .errors import CheckpointError as CheckpointError
from .errors import CompressedDataError as CompressedDataError
from .errors import DatasetError as DatasetError
from .errors import LBARNError as LBARNError
from .errors import ModelFileError as ModelFileError
from .errors import NotBinaryError as NotBinaryError
from .errors import TableFileError as TableFileError
from .synthesis import fidelity as fidelity
from .synthesis import reconstruct as reconstruct

__version__: str
