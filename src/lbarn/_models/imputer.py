"""Imputation as a step of a scikit-learn pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from lbarn._models.lbarn import LBARN
from lbarn._tables.table import read_table

__all__ = ["LBARNImputer"]


class LBARNImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fills missing bits (NaN) by a network that was fitted on rows with or without them.

    Parameters
    ----------
    output : {"mode", "sample", "probability"}, default="mode"
        What to fill in: each bit's more probable value, a draw from the conditional distribution of all the missing bits
        of a row, or the probability of a 1.
    n_particles : int, default=1000
        Particles per row where more than 12 bits are missing.
    max_leaf_nodes, learning_rate, ... : the other parameters are those of :class:`lbarn.LBARN`

    Attributes
    ----------
    network_ : LBARN
        Its ``impute`` has more to offer: several draws per row, and which rows to trust.
    n_iter_ : int
        Trees grown for the column that got most.

    Notes
    -----
    The random numbers of ``transform`` follow from ``random_state`` alone: the same rows are filled the same way.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARNImputer
    >>> X = np.random.default_rng(0).integers(0, 2, (500, 3)).astype(float)
    >>> X[:, 2] = X[:, 0] != X[:, 1]
    >>> X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    >>> imputer = LBARNImputer(max_leaf_nodes=4, learning_rate=0.3, max_iter=50, random_state=0).fit(X)
    >>> imputer.transform([[0, np.nan, 1], [np.nan, 1, 1]])
    array([[0., 1., 1.],
           [0., 1., 1.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LBARN._parameter_constraints,
        "output": [StrOptions({"mode", "sample", "probability"})],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        output: str = "mode",
        n_particles: int = 1000,
        max_leaf_nodes: int | str = 16,
        learning_rate: float | str = 0.02,
        max_iter: int = 1000,
        selection: str = "individual",
        order: str | Sequence[int] | NDArray[Any] = "given",
        init: str = "half",
        boosting: str = "newton",
        splits: str = "fast",
        split_bits: int = 6,
        min_gain: float = 0.0,
        l2_regularization: float = 0.0,
        max_features: float = 1.0,
        refit: bool = False,
        n_iter_no_change: int | None = None,
        validation_fraction: float = 0.2,
        binarize: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.output = output
        self.n_particles = n_particles
        self.max_leaf_nodes = max_leaf_nodes
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.selection = selection
        self.order = order
        self.init = init
        self.boosting = boosting
        self.splits = splits
        self.split_bits = split_bits
        self.min_gain = min_gain
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.refit = refit
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.binarize = binarize
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    network_: LBARN
    n_iter_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = [] if self.output == "probability" else ["float64", "float32"]
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: None = None, **fit_params: Any) -> LBARNImputer:
        """Fit the network, to which ``fit_params`` go: ``X_val``, ``sample_weight``, ``checkpoint`` and so on."""
        self._check(X, reset=True)
        parameters = self.get_params(deep=False)
        own = {name: parameters[name] for name in LBARN._parameter_constraints}
        network = self.network_.set_params(**own) if self.warm_start and hasattr(self, "network_") else LBARN(**own)
        self.network_ = network.fit(X, **fit_params)
        self.n_iter_ = max(len(conditional.trees) for conditional in self.network_._conditionals)
        return self

    def _check(self, X: Any, *, reset: bool) -> None:
        read_table(X, binarize=self.binarize)
        validate_data(self, X, reset=reset, skip_check_array=True)

    def transform(self, X: Any) -> Any:
        """The rows with every missing bit filled, as an array; ``set_output`` makes it a table."""
        check_is_fitted(self, "network_")
        self._check(X, reset=False)
        filled = self.network_.impute(
            X, output=self.output, n_particles=self.n_particles, random_state=self.network_.seed_
        )
        if isinstance(filled, np.ndarray):
            return filled
        return np.column_stack([column.to_numpy() for column in nw.from_native(filled, eager_only=True).iter_columns()])
