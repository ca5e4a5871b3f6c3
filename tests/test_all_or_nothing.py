"""A fit leaves a whole model or nothing: interrupted or refused at any step, the model is what it was before, to the bit."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

import lbarn
from lbarn import LBARNClassifier, LBARNImputer, LBARNOutlierDetector, LBARNRegressor
from lbarn.baselines import BernoulliMixture, IndependentBits, IndependentColumns, LogisticNetwork, SingleTreeNetwork
from networks import quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

PACKAGE = str(Path(lbarn.__file__).parent)
MOST_INTERRUPTIONS = 40  # of one fit

BEFORE = pd.DataFrame(rows(60, 3), columns=list("abc"))
X, Y = pd.DataFrame(rows(80, 4, seed=1), columns=list("wxyz")), np.arange(80) % 2
LONG = {"order": "entropy-decreasing", "refit": True, "max_iter": 5}  # all the steps that there are

MODELS: dict[str, Any] = {
    "LBARN": quick(**LONG),
    "LBARN, auto": quick(max_leaf_nodes="auto", max_iter=2),
    "ensemble": quick_ensemble(n_orders=2, weights="em", max_iter=3, refit=True),
    "classifier": LBARNClassifier(quick(**LONG)),
    "discriminative classifier": LBARNClassifier(quick(**LONG), method="discriminative"),
    "classifier by ensembles": LBARNClassifier(quick_ensemble(n_orders=2, max_iter=2)),
    "regressor": LBARNRegressor(quick(**LONG)),
    "regressor by an ensemble": LBARNRegressor(quick_ensemble(n_orders=2, max_iter=2)),
    "imputer": LBARNImputer(quick(**LONG)),
    "detector": LBARNOutlierDetector(quick(**LONG)),
    "independent bits": IndependentBits(),
    "independent columns": IndependentColumns(),
    "single trees": SingleTreeNetwork(max_leaf_nodes=8),
    "mixture": BernoulliMixture(n_components=(2, 3), n_init=2, max_iter=5),
    "logistic network": LogisticNetwork(l2_regularization=(10, 1)),
}


def fit(model: Any, X: Any = X) -> Any:
    return model.fit(X, Y[: len(X)]) if isinstance(model, (LBARNClassifier, LBARNRegressor)) else model.fit(X)


def names_of_calls(task: Callable[[], Any], stop_at: int | None = None) -> list[str]:
    """The functions of lbarn that ``task`` calls, up to the one whose call is interrupted as by Ctrl-C."""
    names: list[str] = []

    def trace(frame: FrameType, event: str, _: Any) -> None:
        # A generator may be entered only to be closed, where Python drops exceptions.
        if frame.f_code.co_filename.startswith(PACKAGE) and not frame.f_code.co_flags & inspect.CO_GENERATOR:
            names.append(frame.f_code.co_name)
            if len(names) - 1 == stop_at:
                raise KeyboardInterrupt

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        task()
    finally:
        sys.settrace(before)
    return names


def interruptions(model: Any) -> list[int]:
    """Calls to interrupt a fit at: all of them, or as many as there is time for, the first and the last among them."""
    fit(copy.copy(model))  # what is found out once is known from now on
    twin = copy.copy(model)
    n = len(names_of_calls(lambda: fit(twin)))
    return np.unique(np.linspace(0, n - 1, MOST_INTERRUPTIONS).astype(int)).tolist()


def assert_left_alone(model: Any) -> None:
    """A fit changes nothing, wherever it is interrupted."""
    before = pickle.dumps(model)
    for k in interruptions(model):
        with pytest.raises(KeyboardInterrupt):
            names_of_calls(lambda: fit(model), stop_at=k)
        assert pickle.dumps(model) == before


@pytest.mark.parametrize("name", MODELS)
def test_a_first_fit_that_is_interrupted_leaves_an_unfitted_model(name: str) -> None:
    model = clone(MODELS[name])
    assert_left_alone(model)
    assert vars(model).keys() == model.get_params(deep=False).keys()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize("name", MODELS)
def test_a_second_fit_that_is_interrupted_leaves_the_model_that_was(name: str) -> None:
    model = fit(clone(MODELS[name]), BEFORE)
    assert_left_alone(model)
    assert model.n_features_in_ == 3
    if name != "detector":
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    answer = model.predict if hasattr(model, "predict") else getattr(model, "score_samples", None) or model.transform
    assert len(answer(BEFORE)) == 60
    assert fit(model).n_features_in_ == 4


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("LBARN", "score_samples"),
        ("classifier", "predict_joint_log_proba"),
        ("discriminative classifier", "predict_log_proba"),
        ("regressor", "predict"),
    ],
)
def test_a_continued_fit_that_is_interrupted_leaves_the_model_that_was(name: str, answer: str) -> None:
    prefix = "" if name == "LBARN" else "estimator__"
    model = fit(clone(MODELS[name]).set_params(**{f"{prefix}warm_start": True}))
    assert_left_alone(model.set_params(**{f"{prefix}max_iter": 9}))
    whole = clone(model).set_params(**{f"{prefix}warm_start": False})
    np.testing.assert_array_equal(getattr(fit(model), answer)(X), getattr(fit(whole), answer)(X))


def test_the_interruptions_meet_every_step() -> None:
    steps = {"read_table", "hold_out", "entropy_order", "train_network", "refitted", "select", "_remember", "_take"}
    assert steps <= set(names_of_calls(lambda: fit(clone(MODELS["LBARN"]))))
    assert {"best_weights", "_mix"} <= set(names_of_calls(lambda: fit(clone(MODELS["ensemble"]))))


@pytest.mark.parametrize("name", MODELS)
def test_a_second_fit_that_is_refused_leaves_the_model_that_was(name: str) -> None:
    model = fit(clone(MODELS[name]), BEFORE)
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="holds inf"):
        fit(model, np.where(X == 1, np.inf, X))
    assert pickle.dumps(model) == before


def test_a_detector_with_a_fitted_model_leaves_that_alone() -> None:
    network = quick().fit(BEFORE)
    before = pickle.dumps(network)
    detector = LBARNOutlierDetector(FrozenEstimator(network)).fit(BEFORE)
    with pytest.raises(ValueError, match="X has no column"):
        detector.fit(X)
    assert pickle.dumps(network) == before
    assert detector.n_features_in_ == 3
