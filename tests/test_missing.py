"""Missing values: in training a row without its target is left out and a predictor reads as its column's common value;
a score is that of the values that are there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.model_selection import cross_val_score

from lbarn import LBARN
from lbarn.baselines import IndependentBits
from networks import all_states, assert_same_network, quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

D = 6
TRAIN, VALID = rows(400, D), rows(150, D, seed=1)
VARIANTS = [{}, {"splits": "exact"}, {"order": [3, 5, 0, 2, 4, 1]}, {"boosting": "gradient", "refit": True}]


def with_holes(X: NDArray[np.uint8], columns: list[int], seed: int = 0, share: float = 0.2) -> NDArray[np.float64]:
    """Values gone at random from some columns."""
    holed = X.astype(float)
    gone = np.random.default_rng(seed).random((len(X), len(columns))) < share
    holed[:, columns] = np.where(gone, np.nan, holed[:, columns])
    return holed


def filled(X: NDArray[np.float64], like: NDArray[np.float64]) -> NDArray[np.float64]:
    """Every hole replaced by the most common value of that column of ``like``; 0 on a tie."""
    common = [np.sum(column == 1) > np.sum(column == 0) for column in like.T]
    return np.where(np.isnan(X), common, X)


def assert_same_conditional(a: LBARN, b: LBARN, column: int) -> None:
    """The trees and curves of one column, bit for bit."""
    position = list(a.order_).index(column)
    assert list(b.order_).index(column) == position
    ours, theirs = a.run_.trees[position], b.run_.trees[position]
    for name in ("splits", "gains", "values", "offsets"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    np.testing.assert_array_equal(a.train_curve_[column], b.train_curve_[column])
    np.testing.assert_array_equal(a.valid_curve_[column], b.valid_curve_[column])
    assert a.n_trees_[column] == b.n_trees_[column]


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
def test_a_row_whose_target_is_missing_has_no_weight_in_that_conditional(parameters: dict) -> None:
    last = (parameters.get("order") or range(D))[-1]
    holed = with_holes(TRAIN, [last])
    model = quick(**parameters).fit(holed, X_val=VALID)
    present = ~np.isnan(holed[:, last])
    weighted = quick(**parameters).fit(TRAIN, X_val=VALID, sample_weight=present)
    assert_same_conditional(model, weighted, last)
    whole = quick(**parameters).fit(TRAIN, X_val=VALID)
    for other in set(range(D)) - {last}:
        assert_same_conditional(model, whole, other)


def test_a_row_whose_target_is_missing_is_as_good_as_dropped() -> None:
    holed = with_holes(TRAIN, [D - 1])
    present = ~np.isnan(holed[:, D - 1])
    model = quick(splits="exact").fit(holed, X_val=VALID)
    assert_same_conditional(model, quick(splits="exact").fit(TRAIN[present], X_val=VALID), D - 1)


@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
def test_missing_predictors_read_as_the_most_common_value_of_their_column(parameters: dict) -> None:
    first, *others = parameters.get("order") or range(D)
    holed = with_holes(TRAIN, [first], share=0.4)
    assert np.isnan(holed).any()
    model = quick(**parameters).fit(holed, X_val=VALID)
    by_hand = quick(**parameters).fit(filled(holed, holed), X_val=VALID)
    for column in others:
        assert_same_conditional(model, by_hand, column)


def test_a_tie_for_the_most_common_value_is_a_zero() -> None:
    tied = TRAIN[:, :2].astype(float)
    tied[:, 0] = np.resize([0.0, 1.0, np.nan, np.nan], len(tied))
    model = quick().fit(tied, X_val=VALID[:, :2])
    assert_same_conditional(model, quick().fit(np.nan_to_num(tied, nan=0.0), X_val=VALID[:, :2]), 1)


def test_validation_rows_are_filled_with_the_values_of_the_training_rows() -> None:
    train, valid = with_holes(TRAIN, [0, 2]), with_holes(VALID, [0, 2], seed=5)
    valid[:, 2] = np.where(np.isnan(valid[:, 2]), np.nan, 0.0)  # another most common value than in training
    train[:, 2] = np.where(np.isnan(train[:, 2]), np.nan, 1.0)
    model = quick().fit(train, X_val=valid)
    by_hand = quick().fit(filled(train, train), X_val=filled(valid, train))
    for column in (1, 3, 4, 5):
        assert_same_conditional(model, by_hand, column)


def test_validation_rows_without_the_target_do_not_count_in_its_curve() -> None:
    valid = with_holes(VALID, [D - 1])
    model = quick().fit(TRAIN, X_val=valid)
    seen = quick().fit(TRAIN, X_val=VALID[~np.isnan(valid[:, D - 1])])
    np.testing.assert_array_equal(model.valid_curve_[D - 1], seen.valid_curve_[D - 1])
    np.testing.assert_array_equal(model.valid_curve_[0], quick().fit(TRAIN, X_val=VALID).valid_curve_[0])


def test_weights_and_missing_targets_multiply() -> None:
    weight = np.random.default_rng(0).integers(0, 4, len(TRAIN)).astype(float)
    holed = with_holes(TRAIN, [D - 1])
    model = quick().fit(holed, X_val=VALID, sample_weight=weight)
    zeroed = quick().fit(TRAIN, X_val=VALID, sample_weight=weight * ~np.isnan(holed[:, D - 1]))
    assert_same_conditional(model, zeroed, D - 1)


def test_holes_survive_the_hold_out_and_any_number_of_jobs() -> None:
    holed = with_holes(TRAIN, [0, 2, 5])
    model = quick(n_jobs=2, order="random", refit=True).fit(holed)
    assert_same_network(model, quick(order="random", refit=True).fit(holed))
    assert model.score(VALID) > -D * np.log(2)


@pytest.mark.parametrize("refit", [False, True])
def test_a_column_that_is_missing_throughout_warns_and_stays_even_odds(refit: bool) -> None:
    holed = TRAIN.astype(float)
    holed[:, 3] = np.nan
    for X_val in (None, VALID, np.where(np.arange(D) == 3, np.nan, VALID)):
        with pytest.warns(UserWarning, match="column 3 has no values") as caught:
            model = quick(refit=refit).fit(holed, X_val=X_val)
        assert [warning.filename for warning in caught] == [__file__]
        np.testing.assert_allclose(model.surprise(VALID)[:, 3], np.log(2), atol=1e-8)
        assert not model.feature_importances_[:, 3].any(), "a constant predictor tells nothing"
        assert np.isfinite(model.score(VALID))


@pytest.mark.parametrize("missing", ["value", "unknown"])
def test_a_column_of_a_table_that_is_empty_throughout_warns_too(missing: str) -> None:
    table = pd.DataFrame({"number": np.arange(60.0) % 7, "empty": [None] * 60, "constant": "x"})
    with pytest.warns(UserWarning, match="has no values") as caught:
        model = LBARN(max_iter=3, missing=missing, random_state=0).fit(table)
    assert [(str(warning.message), warning.filename) for warning in caught] == [
        ("column 1 ('empty') has no values: nothing can be learned about it", __file__)
    ]
    assert model.sample(5, random_state=0)["empty"].isna().all()


def test_a_constant_column_does_not_warn() -> None:
    constant = TRAIN.copy()
    constant[:, 3] = 1
    assert np.isfinite(quick(max_iter=100).fit(constant).score(constant))


def test_every_value_missing_is_the_uniform_distribution() -> None:
    with pytest.warns(UserWarning, match="has no values"):
        model = quick().fit(np.full((20, 3), np.nan))
    np.testing.assert_allclose(model.score_samples([[0, 1, 0]]), -3 * np.log(2), atol=1e-8)


@pytest.mark.parametrize("use", ["surprise", "cumulative_score", "compress"])
def test_a_missing_value_where_all_are_needed_is_named_and_pointed_to_impute(use: str) -> None:
    names = [f"v{j}" for j in range(D)]
    frame = pd.DataFrame(VALID, columns=names).astype(float)
    model = quick().fit(pd.DataFrame(TRAIN, columns=names), X_val=frame)
    frame.iloc[9, 4] = np.nan
    with pytest.raises(ValueError, match=r"column 4 \('v4'\) is missing .*row 9.*impute.*score_samples"):
        getattr(model, use)(frame)


@pytest.mark.parametrize(
    "model",
    [quick(order=[3, 5, 0, 2, 4, 1]), quick_ensemble(), IndependentBits()],
    ids=lambda model: type(model).__name__,
)
def test_a_score_is_the_log_likelihood_of_the_values_that_are_there_and_says_so(model: Any) -> None:
    model.fit(TRAIN)
    states = all_states(D)
    p = np.exp(model.score_samples(states))
    X = with_holes(VALID[:60], list(range(D)), share=0.4)
    X[0], X[1] = np.nan, VALID[1]  # nothing is there, everything is
    expected = [np.log(p[((states == row) | np.isnan(row)).all(axis=1)].sum()) for row in X]
    with pytest.warns(UserWarning, match="their score is the log-likelihood of the values that are there") as caught:
        found = model.score_samples(X)
    assert [warning.filename for warning in caught] == [__file__]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(found, model.log_marginal(X), atol=1e-6)
    assert found[0] == pytest.approx(0)
    assert found[1] == model.score_samples(VALID[1:2])[0], "bit for bit"
    with pytest.warns(UserWarning, match="values that are there"):
        assert model.score(X) == pytest.approx(np.mean(expected), abs=1e-6)


@pytest.mark.filterwarnings("ignore:some rows have missing values")
def test_cross_validation_of_rows_with_gaps_gives_numbers() -> None:
    scores = cross_val_score(quick(), with_holes(TRAIN, list(range(D))), cv=3)
    assert np.isfinite(scores).all()
    assert (scores > -D * np.log(2)).all()


def test_refit_leaves_leaves_rows_without_target_out() -> None:
    holed = with_holes(VALID, [D - 1])
    present = ~np.isnan(holed[:, D - 1])
    left_out = quick().fit(TRAIN, X_val=VALID).refit_leaves(holed)
    weighted = quick().fit(TRAIN, X_val=VALID).refit_leaves(VALID, sample_weight=present)
    assert_same_conditional(left_out, weighted, D - 1)
