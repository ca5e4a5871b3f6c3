"""The Bernoulli mixture is a distribution, is found by expectation maximisation, and its size by validation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lbarn.baselines import BernoulliMixture, IndependentBits
from networks import all_states, rows

X, TEST = rows(400, 8), rows(200, 8, seed=1)


def planted(n: int, seed: int) -> NDArray[np.uint8]:
    """Three clusters of 12 bits each, flipped with probability 0.1, in shares of 0.5, 0.3 and 0.2."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0] * 12, [1] * 12, [0, 1] * 6])
    return (centres[rng.choice(3, n, p=[0.5, 0.3, 0.2])] ^ (rng.random((n, 12)) < 0.1)).astype(np.uint8)


EXCUSED = {"check_estimators_nan_inf": "binarize= is a threshold, and an infinite value is above it; NaN is refused"}


@parametrize_with_checks(
    [BernoulliMixture(binarize=0.0, n_components=2, max_iter=5)], expected_failed_checks=lambda _: EXCUSED
)
def test_scikit_learns_own_checks_pass(estimator: BernoulliMixture, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("n_components", [1, 2, 5])
def test_the_probabilities_of_all_states_sum_to_one(n_components: int) -> None:
    model = BernoulliMixture(n_components=n_components).fit(X)
    assert np.exp(model.score_samples(all_states(8))).sum() == pytest.approx(1.0)


def test_scores_are_the_formula() -> None:
    model = BernoulliMixture(n_components=3).fit(X)
    p = np.where(TEST[:, None], model.means_, 1 - model.means_).prod(axis=2) @ model.weights_
    np.testing.assert_allclose(model.score_samples(TEST), np.log(p))
    assert model.score(TEST) == pytest.approx(np.log(p).mean())
    assert model.score(TEST, sample_weight=np.arange(200)) == pytest.approx(
        np.average(np.log(p), weights=np.arange(200))
    )


def test_planted_clusters_are_found() -> None:
    model = BernoulliMixture(n_components=3).fit(planted(3000, seed=0))
    by_weight = np.argsort(-model.weights_)
    np.testing.assert_allclose(model.weights_[by_weight], [0.5, 0.3, 0.2], atol=0.03)
    expected = np.array([[0.1] * 12, [0.9] * 12, [0.1, 0.9] * 6])
    np.testing.assert_allclose(model.means_[by_weight], expected, atol=0.05)


def test_no_step_lowers_the_training_likelihood() -> None:
    steps = [
        BernoulliMixture(n_components=4, n_init=1, max_iter=n, tol=-np.inf, pseudocount=1e-6)
        .fit(X, X_val=TEST)
        .score(X)
        for n in range(1, 30)
    ]
    assert (np.diff(steps) > -1e-5).all()
    assert steps[-1] > steps[0] + 0.01


def test_one_component_is_independent_bits() -> None:
    one = BernoulliMixture(n_components=1, pseudocount=1e-9).fit(X, X_val=TEST)
    np.testing.assert_allclose(one.score_samples(TEST), IndependentBits().fit(X).score_samples(TEST), atol=0.02)


def test_the_number_of_components_validates_best_among_those_tried() -> None:
    model = BernoulliMixture(n_components=(1, 2, 3, 6, 12, 24)).fit(planted(600, seed=0), X_val=planted(600, seed=1))
    tried = {result["n_components"]: result["valid_log_likelihood"] for result in model.search_results_}
    assert len(model.weights_) == max(tried, key=tried.__getitem__)
    assert list(tried) == [1, 2, 3, 6, 12, 24][: len(tried)]
    assert len(model.weights_) >= 3
    assert model.score(planted(600, seed=1)) == pytest.approx(max(tried.values()), abs=1e-4)


def test_samples_follow_the_distribution() -> None:
    model = BernoulliMixture(n_components=3).fit(planted(1000, seed=0))
    drawn = model.sample(20_000, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), model.weights_ @ model.means_, atol=0.02)
    assert model.score(drawn) == pytest.approx(model.score(planted(20_000, seed=1)), abs=0.1)
    np.testing.assert_array_equal(drawn, model.sample(20_000, random_state=0))


def test_jobs_change_nothing_and_a_seed_decides() -> None:
    one, two = (BernoulliMixture(n_components=4, n_jobs=n).fit(X).score_samples(TEST) for n in (1, 2))
    np.testing.assert_array_equal(one, two)
    other = BernoulliMixture(n_components=4, random_state=1).fit(X).score_samples(TEST)
    assert (one != other).any()


def test_it_holds_out_rows_and_gives_back_the_kind_of_table_it_had() -> None:
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model = clone(BernoulliMixture(n_components=2)).fit(frame)
    assert list(model.sample(2).columns) == list("abcdefgh")
    np.testing.assert_array_equal(model.score_samples(frame), BernoulliMixture(n_components=2).fit(X).score_samples(X))


def test_missing_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="column 1 is missing"):
        BernoulliMixture(n_components=2).fit([[0, 1], [1, np.nan]])


def test_without_a_fit_there_is_nothing_to_ask() -> None:
    with pytest.raises(NotFittedError):
        BernoulliMixture().score_samples(X)
    with pytest.raises(NotFittedError):
        BernoulliMixture().sample()
