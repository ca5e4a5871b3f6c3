"""The logistic network is a distribution, its regressions are scikit-learn's, and its strength validates best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from lbarn.baselines import IndependentBits, LogisticNetwork
from lbarn.baselines.logistic_network import _INTERCEPT_PENALTY
from networks import all_states, rows

X, TEST = rows(400, 8), rows(200, 8, seed=1)

EXCUSED = {"check_estimators_nan_inf": "binarize= is a threshold, and an infinite value is above it; NaN is refused"}


@parametrize_with_checks(
    [LogisticNetwork(binarize=0.0, l2_regularization=1.0)], expected_failed_checks=lambda _: EXCUSED
)
def test_scikit_learns_own_checks_pass(estimator: LogisticNetwork, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("strength", [0.01, 1.0, 100.0])
def test_the_probabilities_of_all_states_sum_to_one(strength: float) -> None:
    model = LogisticNetwork(l2_regularization=strength).fit(X)
    assert np.exp(model.score_samples(all_states(8))).sum() == pytest.approx(1.0)


def wide(n: int, seed: int) -> NDArray[np.uint8]:
    """More columns than are solved at once, a few of them rare, one always 0 and one always 1."""
    X = rows(n, 75, seed=seed)
    X[:, 10] &= X[:, 0] & X[:, 4]
    X[:, 20], X[:, 30] = 0, 1
    return X


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("strength", [0.1, 5.0])
def test_every_regression_is_scikit_learns(strength: float, weighted: bool) -> None:
    X = wide(300, seed=0)
    weight = np.random.default_rng(0).integers(0, 4, len(X)) / 1.0 if weighted else None
    model = LogisticNetwork(l2_regularization=strength, tol=1e-9).fit(X, X_val=X, sample_weight=weight)
    scaled = None if weight is None else weight / weight[weight > 0].mean()
    constant = np.full((len(X), 1), np.sqrt(strength / _INTERCEPT_PENALTY))  # a column's weight is its share of penalty
    for d in (1, 5, 10, 40, 63, 64, 74):
        oracle = LogisticRegression(C=1 / strength, fit_intercept=False, tol=1e-8, max_iter=10_000)
        oracle.fit(np.hstack([constant, X[:, :d]]), X[:, d], sample_weight=scaled)
        np.testing.assert_allclose(model.coef_[d, :d], oracle.coef_[0, 1:], atol=2e-3)
        np.testing.assert_allclose(model.intercept_[d], oracle.coef_[0, 0] * constant[0, 0], atol=2e-3)


def test_columns_are_regressed_on_those_before_them_only() -> None:
    assert not np.triu(LogisticNetwork().fit(X).coef_).any()


def test_scores_are_the_formula() -> None:
    model = LogisticNetwork(l2_regularization=1.0).fit(X)
    p = 1 / (1 + np.exp(-(model.intercept_ + TEST @ model.coef_.T)))
    scores = np.log(np.where(TEST, p, 1 - p)).sum(axis=1)
    np.testing.assert_allclose(model.score_samples(TEST), scores)
    assert model.score(TEST) == pytest.approx(scores.mean())
    assert model.score(TEST, sample_weight=np.arange(200)) == pytest.approx(np.average(scores, weights=np.arange(200)))


def test_the_strength_validates_best_among_those_tried() -> None:
    model = LogisticNetwork().fit(X, X_val=TEST)
    tried = {result["l2_regularization"]: result["valid_log_likelihood"] for result in model.search_results_}
    assert model.l2_regularization_ == max(tried, key=tried.__getitem__)
    assert list(tried) == list(model.l2_regularization)[: len(tried)]
    assert 0.01 < model.l2_regularization_ < 1000
    assert model.score(TEST) == pytest.approx(max(tried.values()))


def test_strengths_are_tried_from_the_strongest() -> None:
    tried = LogisticNetwork(l2_regularization=[1, 100, 10]).fit(X).search_results_
    assert [result["l2_regularization"] for result in tried] == [100, 10, 1][: len(tried)]


def test_an_endless_penalty_leaves_independent_bits() -> None:
    strong = LogisticNetwork(l2_regularization=1e9).fit(X, X_val=TEST)
    np.testing.assert_allclose(strong.score_samples(TEST), IndependentBits().fit(X).score_samples(TEST), atol=0.02)


def test_a_column_that_never_varied_leaves_room_for_surprise() -> None:
    model = LogisticNetwork(l2_regularization=0.003).fit(wide(300, seed=0))
    surprised = TEST[:1].repeat(10, axis=1)[:, :75].copy()
    surprised[:, 20], surprised[:, 30] = 1, 0
    assert np.isfinite(model.score(surprised))


def test_a_weight_counts_as_so_many_rows_and_none_as_absent() -> None:
    weight = np.arange(len(X)) % 3
    weighted = LogisticNetwork(l2_regularization=1.0, tol=1e-9).fit(X, X_val=TEST, sample_weight=weight)
    mean = weight[weight > 0].mean()  # weights are scaled to 1 on average; the penalties are not
    repeated = LogisticNetwork(l2_regularization=mean, tol=1e-9).fit(X.repeat(weight, axis=0), X_val=TEST)
    np.testing.assert_allclose(weighted.score_samples(TEST), repeated.score_samples(TEST), atol=0.01)


def test_validation_weights_count_in_the_choice() -> None:
    first = np.arange(len(TEST)) < 50
    weighted = LogisticNetwork().fit(X, X_val=TEST, sample_weight_val=first)
    alone = LogisticNetwork().fit(X, X_val=TEST[:50])
    assert weighted.search_results_ == [
        {name: pytest.approx(value) for name, value in result.items()} for result in alone.search_results_
    ]


def test_samples_follow_the_distribution() -> None:
    model = LogisticNetwork().fit(X)
    drawn = model.sample(20_000, random_state=0)
    states, counts = np.unique(drawn @ (1 << np.arange(8)[::-1]), return_counts=True)
    expected = np.exp(model.score_samples(all_states(8)))
    np.testing.assert_allclose(counts / 20_000, expected[states], atol=0.01)
    np.testing.assert_array_equal(drawn, model.sample(20_000, random_state=0))


def test_jobs_change_nothing_and_a_seed_decides() -> None:
    data = wide(200, seed=0)
    one, two = (LogisticNetwork(n_jobs=n).fit(data).score_samples(data) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert (one != LogisticNetwork(random_state=1).fit(data).score_samples(data)).any()


def test_it_holds_out_rows_and_gives_back_the_kind_of_table_it_had() -> None:
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = clone(LogisticNetwork()).fit(frame)
    assert list(model.sample(2).columns) == list("abcdefgh")
    np.testing.assert_array_equal(model.score_samples(frame), LogisticNetwork().fit(X).score_samples(X))


def test_missing_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="column 1 is missing"):
        LogisticNetwork().fit([[0, 1], [1, np.nan]])


@pytest.mark.parametrize("strength", [0.0, -1.0, np.nan, np.inf, [], [1.0, 0.0]])
def test_a_strength_is_above_zero_and_finite(strength: Any) -> None:
    with pytest.raises(ValueError, match="l2_regularization must be above 0"):
        LogisticNetwork(l2_regularization=strength).fit(X)


def test_without_a_fit_there_is_nothing_to_ask() -> None:
    with pytest.raises(NotFittedError):
        LogisticNetwork().score_samples(X)
    with pytest.raises(NotFittedError):
        LogisticNetwork().sample()


def test_the_published_figure_is_met(shared_data: Any) -> None:
    """Goessling 2017, Table 1, FVSBN on DNA: -83.64, with a standard error of 0.32."""
    train, valid, test = (bits.unpack() for bits in shared_data("dna"))
    assert LogisticNetwork().fit(train, X_val=valid).score(test) > -83.64
