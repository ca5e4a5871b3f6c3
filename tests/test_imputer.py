"""LBARNImputer is a scikit-learn transformer around the ``impute`` of a density."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from lbarn import LBARN, LBARNImputer
from lbarn._engine import codetree
from networks import assert_same_network, quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

NAN = np.nan

EXCUSED: dict[str, str] = {}  # check: reason; none is needed


@parametrize_with_checks(
    [
        LBARNImputer(quick(binarize=0.0, max_iter=8)),
        LBARNImputer(quick(binarize=0.0, max_iter=8), output="probability"),
    ],
    expected_failed_checks=lambda _: EXCUSED,
)
def test_scikit_learns_own_checks_pass(estimator: LBARNImputer, check: Any) -> None:
    check(estimator)


def holed(X: NDArray[Any], seed: int = 0, share: float = 0.3) -> NDArray[np.float64]:
    return np.where(np.random.default_rng(seed).random(X.shape) < share, NAN, X)


@pytest.mark.parametrize("output", ["mode", "sample", "probability"])
@pytest.mark.parametrize("missing_in_training", [False, True])
def test_it_fills_as_the_network_does(output: str, missing_in_training: bool) -> None:
    train = holed(rows(300, 6), share=0.1 if missing_in_training else 0.0)
    X = holed(rows(50, 6, seed=1))
    imputer = LBARNImputer(quick(), output=output, n_particles=50).fit(train)
    network = quick().fit(train)
    assert_same_network(imputer.network_, network)
    filled = imputer.transform(X)
    expected = network.impute(X, output=output, n_particles=50, random_state=network.seed_)
    np.testing.assert_array_equal(filled, expected)
    np.testing.assert_array_equal(imputer.transform(X), filled)
    assert not np.isnan(filled).any()
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])


def test_it_clones_its_estimator_which_stays_unfitted_and_lbarn_is_the_default() -> None:
    network = quick(order=[2, 1, 0, 3], selection="common", refit=True)
    imputer = LBARNImputer(network).fit(rows(200, 4))
    assert imputer.estimator is network
    assert not hasattr(network, "network_")
    assert_same_network(imputer.network_, quick(order=[2, 1, 0, 3], selection="common", refit=True).fit(rows(200, 4)))
    assert LBARNImputer().estimator is None
    assert imputer.get_params(deep=False).keys() == {"estimator", "output", "n_particles", "tolerance"}
    copy = clone(imputer)
    assert repr(copy) == repr(imputer)
    assert not hasattr(copy, "network_")


def test_parameters_reach_the_network() -> None:
    changed = {"max_leaf_nodes": 3, "order": [2, 1, 0, 3], "selection": "common", "refit": True, "n_jobs": 1}
    imputer = LBARNImputer(quick()).set_params(**{f"estimator__{name}": value for name, value in changed.items()})
    assert_same_network(imputer.fit(rows(200, 4)).network_, quick(**changed).fit(rows(200, 4)))


def test_without_an_estimator_it_learns_as_lbarn_does_by_default() -> None:
    network = LBARNImputer().fit(holed(rows(40, 3))).network_
    assert type(network) is LBARN
    assert network.get_params() == LBARN().get_params()


def test_an_ensemble_fills_too() -> None:
    X = holed(rows(60, 4, seed=1))
    imputer = LBARNImputer(quick_ensemble(), output="probability", n_particles=50).fit(rows(200, 4))
    ensemble = quick_ensemble().fit(rows(200, 4))
    expected = ensemble.impute(X, output="probability", n_particles=50, random_state=ensemble.seed_)
    np.testing.assert_array_equal(imputer.transform(X), expected)


def test_fit_takes_what_the_fit_of_the_network_takes() -> None:
    train, valid, weight = rows(200, 4), rows(80, 4, seed=1), np.arange(200)
    imputer = LBARNImputer(quick()).fit(train, X_val=valid, sample_weight=weight)
    assert_same_network(imputer.network_, quick().fit(train, X_val=valid, sample_weight=weight))


def test_a_warm_start_ends_where_one_longer_fit_does() -> None:
    imputer = LBARNImputer(quick(warm_start=True)).fit(rows(200, 4))
    imputer.set_params(estimator__max_iter=30).fit(rows(200, 4))
    assert_same_network(imputer.network_, quick(max_iter=30).fit(rows(200, 4)))


def test_names_go_through_and_set_output_makes_tables() -> None:
    names = list("abcd")
    frame = pd.DataFrame(holed(rows(200, 4)), columns=names, index=range(1000, 1200))
    imputer = LBARNImputer(quick()).fit(frame)
    assert imputer.get_feature_names_out().tolist() == names
    assert imputer.n_features_in_ == 4
    array = imputer.transform(frame)
    assert isinstance(array, np.ndarray)
    table = imputer.set_output(transform="pandas").transform(frame)
    assert table.columns.tolist() == names
    pd.testing.assert_index_equal(table.index, frame.index)
    np.testing.assert_array_equal(table, array)
    assert isinstance(imputer.set_output(transform="polars").transform(frame), pl.DataFrame)
    np.testing.assert_array_equal(imputer.set_output(transform="default").transform(frame[names[::-1]]), array)
    with pytest.raises(ValueError, match="X has no column 'b', which the model has"):
        imputer.transform(frame.drop(columns="b"))


def test_tables_of_mixed_types_become_one_array() -> None:
    frame = pd.DataFrame(rows(100, 3), columns=list("abc")).astype({"a": bool})
    filled = LBARNImputer(quick()).fit_transform(frame)
    assert filled.dtype == np.uint8
    np.testing.assert_array_equal(filled, frame.to_numpy(np.uint8))


def test_before_a_classifier_and_among_other_columns() -> None:
    X = rows(300, 6)
    y = X[:, 5] ^ X[:, 0]
    model = make_pipeline(LBARNImputer(quick()), LogisticRegression())
    assert cross_val_score(model, holed(X, share=0.1), y, cv=3).mean() > 0.5
    some = ColumnTransformer([("bits", LBARNImputer(quick()), [0, 1, 2])], remainder="passthrough")
    filled = some.fit_transform(np.column_stack([holed(X[:, :3]), np.linspace(0, 1, 300)]))
    assert filled.shape == (300, 4)
    assert not np.isnan(filled).any()


def test_missing_bits_are_filled_with_what_the_others_say() -> None:
    X = np.repeat(np.random.default_rng(0).integers(0, 2, (400, 3)), 3, axis=1)
    filled = LBARNImputer(quick()).fit(holed(X[:300], share=0.1)).transform(holed(X[300:], seed=1))
    assert (filled == X[300:]).mean() > 0.98


def hiding(n: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Five noisy views of one number, of which large ones are often empty, and all that there was."""
    rng = np.random.default_rng(seed)
    views = rng.normal(size=(n, 1)) + 0.5 * rng.normal(size=(n, 5))
    ranks = views.argsort(axis=0).argsort(axis=0) / n
    truth = pd.DataFrame(views.round(2), columns=list("abcde"))
    return truth.mask(rng.random(views.shape) < 0.7 * ranks), truth


def test_values_that_hide_themselves_are_told_by_the_other_gaps_of_the_row() -> None:
    holes, truth = hiding(600, 0)
    imputer = LBARNImputer(LBARN(max_iter=200, random_state=0), output="mean", n_particles=500).fit(holes)
    error = (imputer.transform(holes) - truth).mask(~holes.isna()).stack()
    by_means = (holes.mean() - truth).mask(~holes.isna()).stack()
    many = holes.isna().sum(axis=1) >= 4  # rows of which hardly anything but that is known
    filled = imputer.transform(holes)
    assert filled[many].mean().mean() > filled[~many].mean().mean() + 0.5
    assert np.sqrt(np.mean(error**2)) < 0.65 * np.sqrt(np.mean(by_means**2))


def test_gaps_are_learned_from_better_if_they_may_go_with_large_values(monkeypatch: pytest.MonkeyPatch) -> None:
    def score() -> float:
        fits = (LBARN(max_iter=200, random_state=0).fit(hiding(600, seed)[0]) for seed in range(3))
        return float(np.mean([model.score(hiding(400, seed + 10)[0]) for seed, model in enumerate(fits)]))

    either = score()
    monkeypatch.setattr(codetree, "_EITHER_SIDE", 0)  # an empty cell goes with the least values, whatever it means
    assert either > score() + 0.02


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"output": "average"}, "'output' parameter"),
        ({"n_particles": 0}, "'n_particles' parameter"),
        ({"estimator": 3}, "'estimator' parameter"),
    ],
)
def test_bad_parameters_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LBARNImputer(**wrong).fit(rows(50, 3))


def test_an_unfitted_imputer_says_so() -> None:
    with pytest.raises(NotFittedError):
        LBARNImputer().transform(rows(5, 3))
