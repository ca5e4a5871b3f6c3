"""Anomalies: the least likely rows, what is strange about each, and an outlier detector."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context, clone
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import BinaryDensity
from lbarn._models.lbarn import LBARN
from lbarn._tables.rows import complete_chunks, take_rows
from lbarn._tables.table import read_table

__all__ = ["Anomaly", "LBARNOutlierDetector", "SurprisingBit", "explain"]


class SurprisingBit(NamedTuple):
    """A bit of a row, and what the model thought of it given the columns before it in the order."""

    column: str | int  # its name, or its number where neither the table nor the model has names
    value: int
    surprise: float  # -log p(value), in nats
    probability: float  # p(value)


class Anomaly(NamedTuple):
    """An unlikely row and its most surprising bits."""

    row: int
    log_likelihood: float
    bits: list[SurprisingBit]


def explain(model: BinaryDensity, X: Any, *, n_rows: int = 10, n_bits: int = 5) -> list[Anomaly]:
    """The ``n_rows`` least likely rows of ``X``, least likely first, each with its ``n_bits`` most surprising bits.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (300, 1)), 3, axis=1)
    >>> X[7] = [0, 1, 0]
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.2, random_state=0).fit(X[10:])
    >>> [(strange.row, strange.bits[0].column, strange.bits[0].value) for strange in explain(model, X, n_rows=1)]
    [(7, 1, 1)]
    """
    for name, value in (("n_rows", n_rows), ("n_bits", n_bits)):
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
    scores = model.score_samples(X)
    rows = np.argsort(scores, kind="stable")[:n_rows]
    chosen = take_rows(X, rows)
    table = read_table(chosen, binarize=model.binarize)
    values = np.concatenate([bits for _, bits in complete_chunks(table)])
    names = table.kind.names or model._kind.names or range(table.n_columns)
    surprise = model.surprise(chosen)
    anomalies = []
    for row, bits, nats in zip(rows, values, surprise):
        columns = np.argsort(-nats, kind="stable")[:n_bits]
        found = [SurprisingBit(names[j], int(bits[j]), float(nats[j]), float(np.exp(-nats[j]))) for j in columns]
        anomalies.append(Anomaly(int(row), float(scores[row]), found))
    return anomalies


class LBARNOutlierDetector(OutlierMixin, BaseEstimator):
    """Calls a row an outlier where the model gives it a low log-likelihood.

    Parameters
    ----------
    estimator : density estimator, default=None
        What learns the distribution; None is ``LBARN()``. A model that is already fitted goes in as
        ``sklearn.frozen.FrozenEstimator(model)``.
    contamination : float, default=0.1
        Share of the rows given to ``fit`` that are to be called outliers, above 0 and at most 0.5.

    Attributes
    ----------
    estimator_ : the fitted model
    offset_ : float
        The log-likelihood below which a row is an outlier. It is a quantile over the rows that ``fit`` was given, which
        the model has learned from: set it by rows that it has not seen to have as many false alarms as planned.

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
    }

    def __init__(self, estimator: Any = None, *, contamination: float = 0.1) -> None:
        self.estimator = estimator
        self.contamination = contamination

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._estimator()).input_tags
        tags.input_tags.allow_nan = False  # the fewer bits a row has, the likelier it is: no common threshold
        return tags

    def _estimator(self) -> Any:
        return LBARN() if self.estimator is None else self.estimator

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: None = None, **fit_params: Any) -> LBARNOutlierDetector:
        """Fit the model, to which ``fit_params`` go, and set the threshold."""
        model = clone(self._estimator())
        if isinstance(model, BinaryDensity):
            for _ in complete_chunks(read_table(X, binarize=model.binarize)):
                pass  # better refused now than after a long fit
        self.estimator_ = model.fit(X, y, **fit_params)
        self.offset_ = float(np.quantile(self.score_samples(X), self.contamination))
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
        check_is_fitted(self, "estimator_")
        return self.estimator_.n_features_in_
