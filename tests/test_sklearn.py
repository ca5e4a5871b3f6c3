"""LBARN behaves as scikit-learn's estimators do."""

from __future__ import annotations

import io
import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from lbarn import LBARN
from networks import assert_same_network, quick, rows, still_rising

pytestmark = still_rising

X, TEST = rows(300, 5), rows(100, 5, seed=1)

EXCUSED: dict[str, str] = {}  # check: reason; none is needed


@parametrize_with_checks([quick(binarize=0.0, max_iter=8)], expected_failed_checks=lambda _: EXCUSED)
def test_scikit_learns_own_checks_pass(estimator: LBARN, check: Any) -> None:
    check(estimator)


def test_clone_keeps_every_parameter_and_nothing_learned() -> None:
    changed = {
        "max_leaf_nodes": "auto",
        "learning_rate": 0.5,
        "max_iter": 7,
        "selection": "common",
        "pooling": 30.0,
        "order": [4, 3, 2, 1, 0],
        "init": "prior",
        "init_rate": 0.2,
        "boosting": "gradient",
        "splits": "exact",
        "split_bits": 3,
        "min_gain": 0.5,
        "l2_regularization": 1.0,
        "l1_regularization": 0.5,
        "groups": [[0, 1]],
        "counts": True,
        "image_shape": (1, 5),
        "neighbours": False,
        "repeats": False,
        "cap": True,
        "sharpen": False,
        "merge_rows": False,
        "max_features": 0.5,
        "refit": True,
        "n_iter_no_change": None,
        "validation_fraction": 0.4,
        "binarize": 0.5,
        "columns": {0: "binary"},
        "max_cells": 16,
        "missing": "unknown",
        "warm_start": True,
        "n_jobs": 1,
        "random_state": 5,
        "verbose": 0,
    }
    assert changed.keys() == LBARN().get_params().keys()
    model = LBARN(**changed).fit(X)
    copy = clone(model)
    assert copy.get_params() == changed
    assert not [name for name in vars(copy) if name.endswith("_")]
    with pytest.raises(NotFittedError):
        copy.score(X)
    assert_same_network(copy.fit(X), model)


def test_repr_shows_what_was_set() -> None:
    assert repr(LBARN(max_leaf_nodes=8, n_jobs=2)) == "LBARN(max_leaf_nodes=8, n_jobs=2)"


def test_set_params_takes_effect_at_the_next_fit() -> None:
    model = quick().fit(X)
    assert model.set_params(max_leaf_nodes=2, selection="common") is model
    assert_same_network(model.fit(X), quick(max_leaf_nodes=2, selection="common").fit(X))
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        model.set_params(depth=3)


@pytest.mark.parametrize("use", ["score_samples", "score", "surprise", "cumulative_score", "refit_leaves"])
def test_an_unfitted_network_says_so(use: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(LBARN(), use)(X)


def test_without_a_fit_there_is_nothing_to_sample_select_or_save(tmp_path) -> None:
    for use in (LBARN().sample, lambda: LBARN().select("common"), lambda: LBARN().save(tmp_path / "model")):
        with pytest.raises(NotFittedError):
            use()
    assert not hasattr(LBARN(), "feature_importances_")


@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("how", ["pickle", "joblib"])
def test_a_pickled_network_gives_the_same_answers_and_goes_on(how: str, refit: bool) -> None:
    model = quick(order="random", warm_start=True, refit=refit).fit(X)
    if how == "pickle":
        copy = pickle.loads(pickle.dumps(model))
    else:
        file = io.BytesIO()
        joblib.dump(model, file)
        file.seek(0)
        copy = joblib.load(file)
    assert_same_network(copy, model)
    np.testing.assert_array_equal(copy.score_samples(TEST), model.score_samples(TEST))
    np.testing.assert_array_equal(copy.sample(20, random_state=0), model.sample(20, random_state=0))
    np.testing.assert_array_equal(copy.select("common").n_trees_, model.select("common").n_trees_)
    assert_same_network(copy.set_params(max_iter=30).fit(X), quick(order="random", max_iter=30, refit=refit).fit(X))


def test_grid_search_picks_the_number_of_leaves_that_scores_best() -> None:
    Y = np.random.default_rng(0).integers(0, 2, (400, 4))
    Y[:, 3] = Y[:, 0] ^ Y[:, 1]  # more than stumps can do
    search = GridSearchCV(quick(), {"max_leaf_nodes": [2, 4]}, cv=3).fit(Y)
    assert search.best_params_ == {"max_leaf_nodes": 4}
    assert search.best_score_ == pytest.approx(cross_val_score(quick(max_leaf_nodes=4), Y, cv=3).mean())
    assert search.score(Y) == search.best_estimator_.score(Y)


def test_the_last_step_of_a_pipeline_is_a_network() -> None:
    grey = X * 0.6 + 0.2
    pipeline = make_pipeline(Binarizer(threshold=0.5), quick()).fit(grey)
    assert_same_network(pipeline[-1], quick().fit(X))
    np.testing.assert_array_equal(pipeline.score_samples(grey), quick().fit(X).score_samples(X))
    assert pipeline.set_params(lbarn__max_iter=5).fit(grey)[-1].train_curve_.shape == (5, 6)


def test_a_table_with_names_keeps_them_through_a_pipeline() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcde"))
    pipeline = make_pipeline(Binarizer().set_output(transform="pandas"), quick()).fit(frame)
    assert list(pipeline[-1].sample(2).columns) == list("abcde")


class Recorder:
    """A callback that counts; it is handed on by meta-estimators."""

    max_propagation_depth = None

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.events.append(("setup", context.estimator_name, context.task_name))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.events.append(("begin", context.estimator_name, context.task_name))

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        self.events.append(("end", context.estimator_name, context.task_name))

    def teardown(self, estimator: Any, context: Any) -> None:
        self.events.append(("teardown", context.estimator_name, context.task_name))


class TestCallbacks:
    @pytest.fixture(autouse=True)
    def callback(self) -> Any:
        return pytest.importorskip("sklearn.callback", reason="this version of scikit-learn has no callbacks")

    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_get_one_event_per_dimension(self, n_jobs: int) -> None:
        recorder = Recorder()
        model = quick(n_jobs=n_jobs).set_callbacks(recorder).fit(X)
        dimension = [("begin", "LBARN", "dimension"), ("end", "LBARN", "dimension")]
        around = [(event, "LBARN", "fit") for event in ("setup", "begin", "end", "teardown")]
        assert recorder.events == around[:2] + dimension * 5 + around[2:]
        assert_same_network(model, quick().fit(X))

    def test_get_every_training_of_a_search(self) -> None:
        recorder = Recorder()
        quick(max_leaf_nodes="auto").set_callbacks(recorder).fit(X)
        assert recorder.events.count(("end", "LBARN", "dimension")) == 7 * 5

    def test_are_torn_down_when_a_fit_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any, **__: Any) -> None:
            raise RuntimeError("no luck")

        monkeypatch.setattr("lbarn._training.run.train_network", fail)
        recorder = Recorder()
        with pytest.raises(RuntimeError, match="no luck"):
            quick().set_callbacks(recorder).fit(X)
        assert recorder.events[-1] == ("teardown", "LBARN", "fit")

    def test_are_handed_on_by_a_grid_search(self) -> None:
        recorder = Recorder()
        search = GridSearchCV(quick(), {"max_leaf_nodes": [2, 4]}, cv=3)
        if not hasattr(search, "set_callbacks"):
            pytest.skip("this version's GridSearchCV takes no callbacks")
        search.set_callbacks(recorder).fit(X)
        assert recorder.events.count(("end", "LBARN", "dimension")) == (2 * 3 + 1) * 5

    def test_scikit_learns_progress_bar_runs(self, callback: Any, capsys: pytest.CaptureFixture[str]) -> None:
        quick().set_callbacks(callback.ProgressBar()).fit(X)
        assert "LBARN" in capsys.readouterr().out


def test_verbose_shows_a_bar_with_all_dimensions_on_the_error_stream(capsys: pytest.CaptureFixture[str]) -> None:
    model = quick(verbose=1).fit(X)
    streams = capsys.readouterr()
    assert "5/5" in streams.err
    assert not streams.out
    assert_same_network(model, quick().fit(X))
