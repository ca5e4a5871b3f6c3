"""A trained network is a distribution: it sums to one, its samples follow it, and its parts add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from lbarn import LBARN
from networks import all_states, quick, rows, still_rising

pytestmark = still_rising

SHUFFLED = [4, 1, 5, 0, 3, 2]

parameters = st.fixed_dictionaries(
    {
        "max_leaf_nodes": st.sampled_from([2, 3, 8, 64]),
        "learning_rate": st.sampled_from([0.05, 0.3, 1.0]),
        "max_iter": st.integers(1, 25),
        "boosting": st.sampled_from(["newton", "gradient"]),
        "splits": st.sampled_from(["fast", "exact"]),
        "split_bits": st.integers(2, 6),
        "order": st.sampled_from(["given", "random", "entropy-decreasing", "entropy-increasing"]),
        "selection": st.sampled_from(["individual", "common", "linearized", "linearized-backward"]),
        "refit": st.booleans(),
        "l2_regularization": st.sampled_from([0.0, 1.0]),
        "min_gain": st.sampled_from([0.0, 0.01]),
        "random_state": st.integers(0, 2**31 - 1),
    }
)


def states_of(X: NDArray[Any]) -> NDArray[np.int64]:
    """The row of ``all_states`` that equals each row."""
    return X.astype(np.int64) @ (1 << np.arange(X.shape[1])[::-1])


@pytest.fixture(scope="module")
def model() -> LBARN:
    return quick(order=SHUFFLED, max_iter=40).fit(rows(600, 6))


@settings(max_examples=150)
@given(parameters, st.integers(1, 10), st.integers(5, 80))
def test_the_probabilities_of_all_states_sum_to_one(parameters: dict[str, Any], D: int, n: int) -> None:
    model = LBARN.paper(**parameters).fit(rows(n, D, seed=n))
    assert np.exp(model.score_samples(all_states(D))).sum() == pytest.approx(1.0, abs=1e-5)


def test_the_probabilities_of_4096_states_sum_to_one(simd: str) -> None:
    model = quick(max_leaf_nodes=16, max_iter=100, order="random").fit(rows(500, 12))
    assert np.exp(model.score_samples(all_states(12))).sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_sample_frequencies_match_the_probabilities(seed: int) -> None:
    model = quick(order="random", random_state=seed).fit(rows(300, 5, seed))
    n = 40_000
    expected = n * np.exp(model.score_samples(all_states(5)))
    counts = np.bincount(states_of(model.sample(n, random_state=seed)), minlength=32)
    rare = expected < 5  # pooled, as the test wants it
    counts = np.append(counts[~rare], counts[rare].sum() + 1e-9)
    expected = np.append(expected[~rare], expected[rare].sum() + 1e-9)
    assert chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


def test_sample_frequencies_given_a_prefix_match_the_conditional_probabilities(model: LBARN) -> None:
    known = np.full((1, 6), np.nan)
    known[0, SHUFFLED[:3]] = [1, 0, 1]
    n = 20_000
    drawn = model.sample(n, given=known, random_state=3)
    assert (drawn[:, SHUFFLED[:3]] == [1, 0, 1]).all()
    states = all_states(6)
    fitting = (states[:, SHUFFLED[:3]] == [1, 0, 1]).all(axis=1)
    p = np.exp(model.score_samples(states[fitting]))
    counts = np.bincount(states_of(drawn), minlength=64)[fitting]
    assert chisquare(counts, n * p / p.sum()).pvalue > 1e-3


@pytest.mark.parametrize("splits", ["fast", "exact"])
@pytest.mark.parametrize("hold_out", [True, False])
def test_permuting_columns_and_order_together_changes_nothing(splits: str, hold_out: bool) -> None:
    X, test = rows(400, 6), rows(200, 6, seed=2)
    X_val = None if hold_out else rows(100, 6, seed=1)
    p = np.array(SHUFFLED)
    by_order = quick(order=SHUFFLED, splits=splits).fit(X, X_val=X_val)
    by_columns = quick(splits=splits).fit(X[:, p], X_val=None if hold_out else X_val[:, p])
    np.testing.assert_array_equal(by_order.score_samples(test), by_columns.score_samples(test[:, p]))
    np.testing.assert_array_equal(by_order.n_trees_[p], by_columns.n_trees_)
    np.testing.assert_array_equal(by_order.valid_curve_[p], by_columns.valid_curve_)
    np.testing.assert_array_equal(by_order.surprise(test)[:, p], by_columns.surprise(test[:, p]))
    np.testing.assert_array_equal(by_order.feature_importances_[np.ix_(p, p)], by_columns.feature_importances_)
    drawn = by_order.sample(50, random_state=0)
    np.testing.assert_array_equal(drawn[:, p], by_columns.sample(50, random_state=0))


def test_surprises_are_in_the_columns_own_order_and_sum_to_the_score(model: LBARN) -> None:
    test = rows(100, 6, seed=5)
    surprise = model.surprise(test)
    assert surprise.shape == (100, 6)
    np.testing.assert_allclose(surprise.sum(axis=1), -model.score_samples(test), rtol=0, atol=1e-12)
    first = SHUFFLED[0]  # has no predictors: its surprise depends on its own value alone
    for value in (0, 1):
        assert np.ptp(surprise[test[:, first] == value, first]) == 0
    flipped = test.copy()
    flipped[:, SHUFFLED[3]] ^= 1
    before = SHUFFLED[:3]
    np.testing.assert_array_equal(model.surprise(flipped)[:, before], surprise[:, before])
    both = np.exp(-surprise[:, SHUFFLED[3]]) + np.exp(-model.surprise(flipped)[:, SHUFFLED[3]])
    np.testing.assert_allclose(both, 1.0, atol=1e-6)


def test_the_cumulative_score_follows_the_order_and_ends_at_the_score(model: LBARN) -> None:
    test = rows(100, 6, seed=5)
    cumulative = model.cumulative_score(test)
    np.testing.assert_allclose(cumulative, np.cumsum(-model.surprise(test).mean(axis=0)[SHUFFLED]), atol=1e-12)
    assert cumulative[-1] == pytest.approx(model.score(test), abs=1e-12)
    assert (np.diff(cumulative) < 0).all()


def test_the_score_is_the_weighted_mean(model: LBARN) -> None:
    test = rows(50, 6, seed=5)
    weight = np.arange(50.0)
    assert model.score(test) == pytest.approx(model.score_samples(test).mean())
    assert model.score(test, sample_weight=weight) == pytest.approx(
        np.average(model.score_samples(test), weights=weight)
    )
    with pytest.raises(ValueError, match="zero"):
        model.score(test, sample_weight=np.zeros(50))


def test_chunks_and_jobs_do_not_change_an_answer(model: LBARN, monkeypatch: pytest.MonkeyPatch) -> None:
    test = rows(1000, 6, seed=5)
    scores, surprise, cumulative = model.score_samples(test), model.surprise(test), model.cumulative_score(test)
    monkeypatch.setattr("lbarn._tables.table._CHUNK_VALUES", 6 * 130)
    for n_jobs in (1, 2, 16):
        model.set_params(n_jobs=n_jobs)
        np.testing.assert_array_equal(model.score_samples(test), scores)
        np.testing.assert_array_equal(model.surprise(test), surprise)
        np.testing.assert_array_equal(model.cumulative_score(test), cumulative)
    model.set_params(n_jobs=None)


def test_the_same_seed_draws_the_same_rows_with_any_number_of_jobs(model: LBARN) -> None:
    drawn = model.sample(10_000, random_state=7)
    for n_jobs in (1, 2):
        np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).sample(10_000, random_state=7), drawn)
    model.set_params(n_jobs=None)
    assert (model.sample(10_000, random_state=8) != drawn).any()
    rng = np.random.RandomState(7)
    np.testing.assert_array_equal(model.sample(10_000, random_state=rng), drawn)
    assert (model.sample(10_000, random_state=rng) != drawn).any(), "a RandomState moves on"


def test_given_may_fix_another_number_of_variables_in_every_row_and_rows_come_grouped(model: LBARN) -> None:
    values = rows(7, 6, seed=9)
    known = np.full((7, 6), np.nan)
    for i in range(7):  # none of the variables in row 0, all in row 6
        known[i, SHUFFLED[:i]] = values[i, SHUFFLED[:i]]
    drawn = model.sample(50, given=known, random_state=0).reshape(7, 50, 6)
    for i in range(7):
        assert (drawn[i][:, SHUFFLED[:i]] == values[i, SHUFFLED[:i]]).all()
        if i < 6:
            assert np.ptp(drawn[i][:, SHUFFLED[i]]) == 1, "the next variable is free"
    np.testing.assert_array_equal(drawn[6], np.tile(values[6], (50, 1)))


@pytest.mark.parametrize("pattern", [[0], [1, 0, 2], [3, 2], [4, 5, 0, 1, 2, 3]], ids=str)
def test_given_may_fix_any_pattern_of_variables(model: LBARN, pattern: list[int]) -> None:
    states, value = all_states(6), np.array([1, 0, 1, 1, 0, 1])
    known = np.full((1, 6), np.nan)
    known[0, pattern] = value[pattern]
    n = 20_000
    drawn, diagnostics = model.sample(n, given=known, random_state=3, return_diagnostics=True)
    assert diagnostics["effective_sample_size"].tolist() == [np.inf], "few enough are free to be enumerated"
    fitting = (states[:, pattern] == value[pattern]).all(axis=1)
    p = np.exp(model.score_samples(states[fitting]))
    counts = np.bincount(states_of(drawn), minlength=64)
    assert counts[fitting].sum() == n
    assert fitting.sum() == 1 or chisquare(counts[fitting], n * p / p.sum()).pvalue > 1e-3


def test_given_may_be_a_dict_or_a_table_of_some_columns() -> None:
    names = list("abcdef")
    model = quick(order=SHUFFLED).fit(pd.DataFrame(rows(200, 6), columns=names))
    known = pd.DataFrame(np.full((3, 6), np.nan), columns=names)
    known.loc[:, ["a", "e"]] = [[0, 1], [1, 1], [1, 0]]
    drawn = model.sample(4, given=known, random_state=0)
    some = known[["e", "a"]].astype(int)
    for fixed in (some, {"e": [1, 1, 0], "a": [0, 1, 1]}, {"a": some["a"], "e": some["e"].to_numpy()}):
        pd.testing.assert_frame_equal(model.sample(4, given=fixed, random_state=0), drawn)
    assert (model.sample(4, given={"e": 1, "a": 0}, random_state=0)[["a", "e"]] == [0, 1]).all(axis=None)
    numbered = quick(order=SHUFFLED).fit(rows(200, 6))
    np.testing.assert_array_equal(numbered.sample(4, given={4: [1, 1, 0], 0: [0, 1, 1]}, random_state=0), drawn)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z": 1}, r"given: there is no column 'z'; the columns are 'a', 'b'"),
        (pd.DataFrame({"a": [1], "z": [0]}), r"the model has no column 'z'"),
        (pd.DataFrame({"y": [1], "z": [0]}), r"has no column 'a'"),
        ({"a": [0, 1], "b": [0, 1, 1]}, "different lengths: 2, 3"),
        ({"a": "yes"}, r"column 0 \('a'\) holds 'yes'"),
        ({"b": 2}, r"column 1 \('b'\) holds 2"),
    ],
    ids=str,
)
def test_given_that_the_model_cannot_know_is_refused_by_name(given: Any, message: str) -> None:
    model = quick().fit(pd.DataFrame(rows(100, 6), columns=list("abcdef")))
    with pytest.raises(ValueError, match=message):
        model.sample(given=given)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, "3", None])
def test_a_number_of_samples_that_is_none_is_refused(model: LBARN, n_samples: Any) -> None:
    with pytest.raises(ValueError, match="n_samples must be a whole number of at least 1"):
        model.sample(n_samples)


def test_importances_are_the_summed_gains_of_the_selected_trees(model: LBARN) -> None:
    for method in ("common", "individual"):
        model.select(method)
        expected = np.zeros((6, 6))
        for d, trees in enumerate(model.run_.trees):
            for s in range(trees.offsets[model.n_trees_[SHUFFLED[d]]]):
                expected[SHUFFLED[d], SHUFFLED[trees.splits[s, 1]]] += trees.gains[s]
        np.testing.assert_allclose(model.feature_importances_, expected, rtol=1e-6)
    in_order = model.feature_importances_[np.ix_(SHUFFLED, SHUFFLED)]
    assert not np.triu(in_order).any(), "only earlier variables of the order are predictors"
    assert (in_order >= 0).all()
    assert (in_order[1:].sum(axis=1) > 0).all()


def test_importances_find_the_predictors_that_matter() -> None:
    X = np.random.default_rng(0).integers(0, 2, (1000, 5))
    X[:, 4] = X[:, 1] & X[:, 3]
    importances = quick().fit(X).feature_importances_
    assert set(np.argsort(importances[4])[-2:]) == {1, 3}
    assert importances[4].sum() > 10 * importances[:4].sum()


def test_one_column_is_a_bernoulli() -> None:
    X = (np.arange(1000) % 10 == 0).astype(int)[:, None]
    model = quick(max_iter=100).fit(X, X_val=X)
    np.testing.assert_allclose(np.exp(model.score_samples([[0], [1]])), [0.9, 0.1], atol=1e-3)
    assert model.feature_importances_.tolist() == [[0.0]]
