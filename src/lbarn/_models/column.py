"""One column of a fitted model as something that predicts, for the tools of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import get_tags

from lbarn._models.predicted import ConditionalDistribution

if TYPE_CHECKING:
    from lbarn._models.density import Density

__all__ = ["ColumnClassifier", "ColumnRegressor"]


class _ColumnPredictor(BaseEstimator):
    """Of a model that is fitted, and stays as it is: ``fit`` does nothing, and a clone is the same."""

    def __init__(self, model: Density, column: Any) -> None:
        self.model = model
        self.column = column

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.model).input_tags
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Any:
        return self

    def fit(self, X: Any, y: Any = None) -> Any:
        """Nothing: the model is fitted."""
        return self

    @property
    def n_features_in_(self) -> int:
        """The number of the other columns."""
        return self.model.n_features_in_ - 1

    def __getattr__(self, name: str) -> Any:
        # Not a property: scikit-learn looks whether it is there, and columns may have no names.
        if name == "feature_names_in_":
            names = self.model.feature_names_in_
            return names[names != self.column]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def conditional(self, X: Any) -> ConditionalDistribution:
        """The distribution of the column in every row, given the others; what it holds in ``X``, if it is there, is ignored."""
        return self.model.conditional(X, self.column)


class ColumnClassifier(ClassifierMixin, _ColumnPredictor):
    """Predicts a column of categories or of 0 and 1; see ``LBARN.predictor``."""

    classes_: NDArray[Any]

    def with_classes(self, levels: NDArray[Any]) -> ColumnClassifier:
        """The same; these are the levels of the column."""
        self.classes_ = np.array(levels.tolist())
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """P(level | the other columns) of every row, in the order of ``classes_``."""
        return self.conditional(X).probability

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest level of every row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class ColumnRegressor(RegressorMixin, _ColumnPredictor):
    """Predicts a column of numbers or dates; see ``LBARN.predictor``."""

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean of every row."""
        return self.conditional(X).mean()

    def predict_quantile(self, X: Any, q: float | ArrayLike = 0.5) -> NDArray[Any]:
        """The value up to which a share ``q`` of the distribution is: (n,), or (n, len(q)) for several shares."""
        return self.conditional(X).quantile(q)
