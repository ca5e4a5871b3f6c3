"""An outlier detector: a row is strange if the model gives it a low log-likelihood."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin, _fit_context, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import _num_samples, check_is_fitted

from lbarn._models.density import Density, all_or_nothing
from lbarn._models.lbarn import LBARN
from lbarn._models.routing import RoutesToEstimator
from lbarn._tables.table import read_table, take_rows
from lbarn._training.data import hold_out

__all__ = ["LBARNOutlierDetector"]


class LBARNOutlierDetector(OutlierMixin, RoutesToEstimator):
    """Calls a row of any table an outlier if the model gives it a low log-likelihood.

    Empty cells are values like others if the model takes them so (``missing="value"``), and an error otherwise.

    Parameters
    ----------
    estimator : density estimator, default=None
        What learns the distribution; a clone of it is fitted. None is ``LBARN()``. A model that is already fitted goes in as
        ``sklearn.frozen.FrozenEstimator(model)``.
    contamination : float in (0, 0.5], default=0.1
        Share of rows to be called outliers among new rows like those given to ``fit``.
    validation_fraction : float in (0, 1), default=0.2
        Share of the rows that the model does not learn from: the threshold is set on them, because a model gives rows that it
        has seen higher likelihoods than new ones.
    random_state : int, default=0
        Seeds the choice of those rows.

    Attributes
    ----------
    estimator_ : the fitted model
    offset_ : float
        The log-likelihood below which a row is an outlier.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN, LBARNOutlierDetector
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (300, 1)), 3, axis=1)
    >>> network = LBARN(max_leaf_nodes=2, learning_rate=0.2, random_state=0)
    >>> LBARNOutlierDetector(network, contamination=0.01).fit(X).predict([[0, 0, 0], [0, 1, 0]])
    array([ 1, -1])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "score_samples"]), None],
        "contamination": [Interval(Real, 0, 0.5, closed="right")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        contamination: float = 0.1,
        validation_fraction: float = 0.2,
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.contamination = contamination
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    estimator_: Any
    offset_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._estimator()).input_tags
        # If nothing is learned from empty cells, a row is the likelier the fewer values it has: no common threshold.
        tags.input_tags.allow_nan = getattr(self._estimator(), "missing", "unknown") == "value"
        return tags

    def _estimator(self) -> Any:
        return LBARN() if self.estimator is None else self.estimator

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: None = None, **fit_params: Any) -> LBARNOutlierDetector:
        """Fit the model on most of the rows, and set the threshold on the others.

        ``fit_params`` go to the model; those that have a value for every row are divided with the rows.
        """
        model, fit_params = clone(self._estimator()), self._fit_parameters(fit_params)
        if isinstance(model, Density) and getattr(model, "missing", "unknown") == "unknown":
            read_table(X, binarize=model.binarize).refuse_missing()  # better now than after a long fit
        new = X
        if not isinstance(model, FrozenEstimator):
            n = _num_samples(X)
            kept, held = (np.sort(rows) for rows in hold_out(n, self.validation_fraction, self.random_state))
            by_row = ("sample_weight",)
            own = {k: _safe_indexing(v, kept) if k in by_row and v is not None else v for k, v in fit_params.items()}
            model, new = model.fit(take_rows(X, kept), None, **own), take_rows(X, held)
        self.estimator_ = model
        self.offset_ = float(np.quantile(model.score_samples(new), self.contamination))
        return self

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(x) of every row, in nats."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.score_samples(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """``score_samples(X) - offset_``: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int_]:
        """-1 for outliers, 1 for all other rows."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    @property
    def n_features_in_(self) -> int:
        """The number of columns of the table given to ``fit``."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.n_features_in_
