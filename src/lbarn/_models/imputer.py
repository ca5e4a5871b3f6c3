"""Imputation as a step of a scikit-learn pipeline."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.base import OneToOneFeatureMixin, TransformerMixin, _fit_context, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import Density, all_or_nothing
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.lbarn import LBARN
from lbarn._models.routing import RoutesToEstimator
from lbarn._tables.table import read_like

__all__ = ["LBARNImputer"]


class LBARNImputer(OneToOneFeatureMixin, TransformerMixin, RoutesToEstimator):
    """Fills the empty cells of any table by a density that was fitted on rows with or without them.

    Parameters
    ----------
    estimator : LBARN or LBARNEnsemble, default=None
        What learns the distribution; a clone of it is fitted. None is ``LBARN()``.
    output : {"mode", "sample", "mean", "median", "probability"}, default="mode"
        What to fill in: each value's most probable one, a draw from the conditional distribution of all the missing values
        of a row, the mean or median of numbers (and otherwise the most probable value), or the probability of a 1, which
        only tables of bits have.
    n_particles : int, default=4000
        Particles per row, at most, if more than 12 bits are missing.
    tolerance : float, default=0.001
        Estimated error of a row's probabilities up to which particles are added.

    Attributes
    ----------
    network_ : the fitted density
        Its ``impute`` has more to offer: several draws per row, and which rows to trust.

    Notes
    -----
    The random numbers of ``transform`` follow from the estimator's ``random_state`` alone: the same rows are filled the same
    way.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN, LBARNImputer
    >>> X = np.random.default_rng(0).integers(0, 2, (500, 3)).astype(float)
    >>> X[:, 2] = X[:, 0] != X[:, 1]
    >>> X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    >>> network = LBARN(max_leaf_nodes=4, learning_rate=0.3, max_iter=50, random_state=0)
    >>> imputer = LBARNImputer(network).fit(X)
    >>> imputer.transform([[0, np.nan, 1], [np.nan, 1, 1]])
    array([[0., 1., 1.],
           [0., 1., 1.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [Density, None],
        "output": [StrOptions({"mode", "sample", "mean", "median", "probability"})],
        "n_particles": [Interval(Integral, 1, None, closed="left")],
        "tolerance": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        estimator: LBARN | LBARNEnsemble | None = None,
        *,
        output: str = "mode",
        n_particles: int = 4000,
        tolerance: float = 0.001,
    ) -> None:
        self.estimator = estimator
        self.output = output
        self.n_particles = n_particles
        self.tolerance = tolerance

    network_: LBARN | LBARNEnsemble
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._estimator()).input_tags
        as_it_was = self.output in ("mode", "sample", "median")
        tags.transformer_tags.preserves_dtype = ["float64", "float32"] if as_it_was else []
        return tags

    def _estimator(self) -> LBARN | LBARNEnsemble:
        return LBARN() if self.estimator is None else self.estimator

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: None = None, **fit_params: Any) -> LBARNImputer:
        """Fit the density, to which ``fit_params`` go: ``X_val``, ``sample_weight``, ``checkpoint`` and so on."""
        self.network_ = clone(self._estimator()).fit(X, **self._fit_parameters(fit_params))
        if self.output == "probability" and not self._is_of_bits:
            raise ValueError(
                "output='probability' is for tables of 0 and 1; of others, network_.impute(X, output='probability') has an "
                "array for every column"
            )
        self.n_features_in_ = self.network_.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if self.network_.table_format_.feature_names is not None:
            self.feature_names_in_ = self.network_.table_format_.feature_names
        return self

    @property
    def n_iter_(self) -> int:
        """Trees grown for the column that got most."""
        check_is_fitted(self, "network_")
        members = self.network_.members_ if isinstance(self.network_, LBARNEnsemble) else [self.network_]
        return max(len(trees) for member in members for trees in member.run_.trees)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the columns of ``transform``."""
        names = super().get_feature_names_out(input_features)
        return names[self.network_.codebook_.taken]

    def transform(self, X: Any) -> Any:
        """The rows with every missing value filled: an array if all are 0 and 1, otherwise the sort of table that is given.

        ``set_output`` makes it another one. Columns that the model has left out are left out.
        """
        check_is_fitted(self, "network_")
        filled = self.network_.impute(
            X,
            output=self.output,
            n_particles=self.n_particles,
            tolerance=self.tolerance,
            random_state=self.network_.seed_,
        )
        if isinstance(filled, dict):
            return self._with_probabilities(X, filled)
        if isinstance(filled, np.ndarray) or not self._is_of_bits:
            return filled
        return np.column_stack([column.to_numpy() for column in nw.from_native(filled, eager_only=True).iter_columns()])

    @property
    def _is_of_bits(self) -> bool:
        return all(code.kind == "binary" for code in self.network_.codebook_.codes)

    def _with_probabilities(self, X: Any, found: dict[Any, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Bits, and the probability of a 1 where they are missing."""
        model = self.network_
        table = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize)
        labels = table.format.labels(table.n_columns)
        columns = []
        for j in model.codebook_.taken.tolist():
            own = table.column(j)
            ones = found[labels[j]][:, 1] if labels[j] in found else 0.0
            columns.append(np.where(own.missing, ones, own.values))
        return np.column_stack(columns)
