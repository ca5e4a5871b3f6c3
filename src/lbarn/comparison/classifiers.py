"""What boosted trees make of synthetic rows: can they be told from real ones, and can they replace them for training?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lbarn.comparison.encoding import Floats, Schema

__all__ = ["Classifier", "Target", "TwoSample", "check_classifier", "find_target", "trained_score", "two_sample"]

Classifier = Literal["scikit-learn", "xgboost"]

_FOLDS = 3
_MOST_LEVELS = 255  # of a category; the rarest are taken together
_MOST_CLASSES = 20  # of a target; likewise
_FEW_INTEGERS = 10  # different whole numbers that are classes of a target rather than numbers


@dataclass(frozen=True)
class TwoSample:
    """How well a classifier tells the rows of two tables apart, on rows that it has not seen."""

    auc: float
    c2st: float
    """1 - 2 max(AUC - 1/2, 0), the mean over three folds: 1 if it cannot, 0 if it always can."""


def check_classifier(classifier: str) -> None:
    """An error if it is not a known one, or not installed."""
    if classifier not in ("scikit-learn", "xgboost"):
        raise ValueError(f"classifier must be 'scikit-learn' or 'xgboost'; got {classifier!r}")
    if classifier == "xgboost":
        try:
            import xgboost  # noqa: F401
        except ImportError as error:
            raise ImportError("classifier='xgboost' needs it; pip install xgboost") from error


def two_sample(schema: Schema, real: Floats, other: Floats, classifier: Classifier, seed: int) -> TwoSample:
    """Three stratified folds, as in the detection metrics of SDMetrics."""
    from sklearn.metrics import roc_auc_score  # not needed by those who only import lbarn
    from sklearn.model_selection import StratifiedKFold

    discrete = schema.discrete
    X = _features(np.concatenate([real, other]), discrete)
    is_other = np.repeat([0, 1], [len(real), len(other)])
    areas = []
    for train, test in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(X, is_other):
        with _one_thread():
            judge = _judge(classifier, discrete, seed).fit(X[train], is_other[train])
            areas.append(roc_auc_score(is_other[test], judge.predict_proba(X[test])[:, 1]))
    return TwoSample(float(np.mean(areas)), float(np.mean([1 - 2 * max(area - 0.5, 0) for area in areas])))


def _judge(classifier: Classifier, discrete: NDArray[np.bool_], seed: int) -> Any:
    if classifier == "xgboost":
        from xgboost import XGBClassifier

        kinds = ["c" if own else "q" for own in discrete]
        return XGBClassifier(eval_metric="logloss", enable_categorical=True, feature_types=kinds, random_state=0)
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(categorical_features=_given(discrete), random_state=seed)


def _given(discrete: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
    return discrete if discrete.any() else None


def _features(X: Floats, discrete: NDArray[np.bool_]) -> Floats:
    return np.where(discrete, np.minimum(X, _MOST_LEVELS - 1), X)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Threads bring little on tables of this size, and cost ten times the time if other programs keep the cores busy."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="openmp"):
        yield


# ---------------------------------------------------------------------- trained on synthetic, tested on real rows


@dataclass(frozen=True)
class Target:
    """The column that is predicted from the others: by its classes (AUC), or as a number (R2)."""

    column: int
    name: str
    classes: tuple[float, ...] | None

    @property
    def measure(self) -> str:
        return "R2" if self.classes is None else "AUC"


def find_target(schema: Schema, real: Floats, name: str | None) -> Target | str:
    """The column of this name, or the last one; or why that one cannot be predicted."""
    if name is not None and name not in schema.names:
        raise ValueError(f"there is no column {name!r} to be the target; the last ones are {_last(schema.names)}")
    if len(schema.names) == 1:
        return "there is only one column, so none can be predicted from the others"
    j = len(schema.names) - 1 if name is None else schema.names.index(name)
    known = real[~np.isnan(real[:, j]), j]
    values, counts = np.unique(known, return_counts=True)
    if len(values) < 2:
        return f"the target {schema.names[j]!r} has only one value, so there is nothing to predict"
    is_few = len(values) <= _FEW_INTEGERS and (values == np.round(values)).all() and schema.kinds[j] == "number"
    if schema.levels[j] is None and not is_few:
        return Target(j, schema.names[j], None)
    return Target(j, schema.names[j], tuple(values[np.argsort(-counts, kind="stable")].tolist()))


def _last(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[-5:]))


def trained_score(schema: Schema, target: Target, train: Floats, test: Floats, seed: int) -> float:
    """Of boosted trees trained on ``train`` and tested on ``test``; AUC of each class against the others, weighted by
    how frequent it is, or R2."""
    from sklearn.metrics import r2_score

    j = target.column
    discrete = np.delete(schema.discrete, j)
    train, test = (table[~np.isnan(table[:, j])] for table in (train, test))
    X_train, X_test = (_features(np.delete(table, j, axis=1), discrete) for table in (train, test))
    if target.classes is None:
        return float(r2_score(test[:, j], _predicted(discrete, X_train, train[:, j], X_test, seed)))
    y_train, y_test = (_classes(table[:, j], target.classes) for table in (train, test))
    return _weighted_auc(y_test, _class_probabilities(discrete, X_train, y_train, X_test, seed))


def _predicted(discrete: NDArray[np.bool_], X: Floats, y: Floats, X_test: Floats, seed: int) -> Floats:
    from sklearn.ensemble import HistGradientBoostingRegressor

    with _one_thread():
        model = HistGradientBoostingRegressor(categorical_features=_given(discrete), random_state=seed)
        return np.asarray(model.fit(X, y).predict(X_test))


def _class_probabilities(
    discrete: NDArray[np.bool_], X: Floats, y: NDArray[np.intp], X_test: Floats, seed: int
) -> Floats:
    """A column for each class; a class that is not trained on has none of the probability."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    found = np.zeros((len(X_test), _MOST_CLASSES + 1))
    present = np.unique(y)
    if len(present) == 1:
        found[:, present] = 1
        return found
    early = "auto" if np.bincount(y)[present].min() > 1 else False  # it would hold out some of every class
    with _one_thread():
        model = HistGradientBoostingClassifier(
            categorical_features=_given(discrete), early_stopping=early, random_state=seed
        )
        found[:, present] = model.fit(X, y).predict_proba(X_test)
    return found


def _classes(values: Floats, classes: tuple[float, ...]) -> NDArray[np.intp]:
    """The number of each value's class; rare and unknown ones share the last."""
    found = np.full(len(values), _MOST_CLASSES)
    for k, value in enumerate(classes[:_MOST_CLASSES]):
        found[values == value] = k
    return found


def _weighted_auc(y: NDArray[np.intp], probability: Floats) -> float:
    from sklearn.metrics import roc_auc_score

    counts = np.bincount(y, minlength=_MOST_CLASSES + 1)
    present = [k for k in range(len(counts)) if 0 < counts[k] < len(y)]
    if not present:
        return float("nan")
    areas = [roc_auc_score(y == k, probability[:, k]) for k in present]
    return float(np.average(areas, weights=counts[present]))
