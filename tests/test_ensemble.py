"""An ensemble is the mixture of its members: in its probabilities, its samples and its answers."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import chisquare
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import lbarn
from fit_process import DEADLINE, finished_dimensions, linked_rows, model_bytes, start, wait_until
from lbarn import LBARN, CheckpointError, LBARNEnsemble, ModelFileError
from lbarn._engine.rows import Group
from lbarn._network.mixture import best_weights
from lbarn._training import run
from lbarn._training.data import GivenRows
from lbarn._training.order import grids, read_as_grid, scans
from lbarn.anomalies import explain
from mutations import mutate_meaning, put_together, take_apart
from networks import all_states, assert_same_network, rows, still_rising
from networks import quick_ensemble as quick
from test_autoregressive import states_of

pytestmark = still_rising

D = 6
X, TEST = rows(500, D), rows(200, D, seed=1)
STATES = all_states(D)
ORDERS = [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [2, 4, 0, 5, 1, 3]]


def by_enumeration(model: LBARNEnsemble) -> NDArray[np.float64]:
    """p of every state: the members' probabilities, weighed and added."""
    return sum(w * np.exp(member.score_samples(STATES)) for w, member in zip(model.weights_, model.members_))


def assert_same_ensemble(a: LBARNEnsemble, b: LBARNEnsemble) -> None:
    np.testing.assert_array_equal(a.weights_, b.weights_)
    assert len(a.members_) == len(b.members_)
    for left, right in zip(a.members_, b.members_):
        assert_same_network(left, right)


@pytest.fixture(scope="module")
def model() -> LBARNEnsemble:
    """Members with unequal weights that differ in what they think of a row."""
    return quick(orders=ORDERS, weights="em").fit(X)


# ---------------------------------------------------------------- scikit-learn


@parametrize_with_checks([quick(n_orders=2, binarize=0.0, max_iter=5, weights="em")])
def test_scikit_learns_own_checks_pass(estimator: LBARNEnsemble, check: Any) -> None:
    check(estimator)


def test_the_parameters_are_those_of_a_network_but_the_order_and_the_warm_start() -> None:
    own = {"n_orders", "n_bags", "orders", "weights", "bagging"}
    network = LBARN().get_params()
    assert LBARNEnsemble().get_params().keys() - own == network.keys() - {"order", "warm_start"}
    assert {name: LBARNEnsemble().get_params()[name] for name in network.keys() - {"order", "warm_start"}} == {
        name: value for name, value in network.items() if name not in ("order", "warm_start")
    }


def test_clone_keeps_every_parameter_and_nothing_learned() -> None:
    model = quick(orders=ORDERS, weights="em", image_shape=(2, 3), refit=True).fit(X)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.score(X)
    assert_same_ensemble(copy.fit(X), model)


def test_every_parameter_reaches_the_members() -> None:
    others = {
        "max_leaf_nodes": 5,
        "learning_rate": 0.2,
        "max_iter": 7,
        "selection": "common",
        "pooling": 30.0,
        "init": "linear",
        "init_rate": 0.3,
        "boosting": "gradient",
        "splits": "exact",
        "split_bits": 3,
        "min_gain": 0.01,
        "l2_regularization": 1.0,
        "l1_regularization": 0.5,
        "cap": True,
        "sharpen": False,
        "merge_rows": False,
        "max_features": 0.5,
        "refit": True,
        "n_iter_no_change": None,
        "validation_fraction": 0.3,
        "binarize": 0.5,
        "columns": {0: "binary"},
        "max_cells": 16,
        "missing": "unknown",
        "groups": None,
        "counts": False,
        "image_shape": (2, 3),
        "neighbours": False,
        "repeats": False,
        "n_jobs": 1,
        "verbose": 0,
    }
    assert others.keys() == LBARN().get_params().keys() - {"order", "warm_start", "random_state"}
    for member in LBARNEnsemble(n_orders=2, random_state=0, **others).fit(X).members_:
        assert {name: member.get_params()[name] for name in others} == others


def test_bagged_members_are_networks_that_hold_out_other_rows() -> None:
    model = quick(bagging=True, refit=True).fit(X, X_val=TEST)
    both = np.concatenate([X, TEST])
    for member in model.members_:
        own = clone(member).set_params(random_state=member.random_state, n_jobs=None)
        assert_same_network(own.fit(both), member)
    assert len({member.random_state for member in model.members_}) == len(model.members_)
    np.testing.assert_array_equal(model.weights_, 1 / len(model.members_))


def test_bagging_weighs_rows_without_a_weight_as_one() -> None:
    weight = np.linspace(0.1, 2.0, len(X))
    model = quick(bagging=True).fit(X, X_val=TEST, sample_weight=weight)
    weights = np.concatenate([weight, np.ones(len(TEST))])
    expected = quick(bagging=True).fit(np.concatenate([X, TEST]), sample_weight=weights)
    assert_same_ensemble(model, expected)


TABLES = {
    "array": np.asarray,
    "pandas": lambda values: pd.DataFrame(values, columns=list("abcdef")),
    "polars": lambda values: pytest.importorskip("polars").DataFrame(values, schema=list("abcdef")),
    "polars of floats": lambda values: pytest.importorskip("polars").DataFrame(values * 1.0, schema=list("abcdef")),
    "sparse": sp.csr_matrix,
    "list": lambda values: values.tolist(),
}


@pytest.mark.filterwarnings("ignore:X (does not have valid|has) feature names")
@pytest.mark.parametrize("below", TABLES)
@pytest.mark.parametrize("kind", TABLES)
def test_bagging_takes_any_two_kinds_of_tables_and_gives_back_the_first(kind: str, below: str) -> None:
    table = TABLES[kind](X)
    model = quick(bagging=True).fit(table, X_val=TABLES[below](TEST))
    assert model.score(TABLES[kind](TEST)) == quick(bagging=True).fit(X, X_val=TEST).score(TEST)
    expected = LBARN.paper(max_iter=1).fit(table).table_format_
    assert model.table_format_ == expected
    assert all(member.table_format_ == expected for member in model.members_)


def test_a_member_whose_hold_out_weighs_nothing_is_refused() -> None:
    weight = np.zeros(len(X))
    weight[0] = 1.0
    with pytest.raises(ValueError, match="zero for every row to train on, or for every row held out"):
        quick(bagging=True).fit(X, sample_weight=weight)


def test_bagging_leaves_no_rows_for_em() -> None:
    with pytest.raises(ValueError, match="bagging=True there are none; set weights='equal'"):
        quick(bagging=True, weights="em").fit(X)


@pytest.mark.parametrize(
    "use", ["score_samples", "score", "surprise", "refit_leaves", "impute", "log_marginal", "compress"]
)
def test_without_a_fit_there_is_nothing_to_use(use: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(LBARNEnsemble(), use)(X)


def test_a_curve_that_still_rises_is_told_once_for_all_members() -> None:
    with pytest.warns(ConvergenceWarning, match="still rising at max_iter=5 in 3 of 3 members") as told:
        quick(max_iter=5, learning_rate=0.05).fit(X)
    assert len(told) == 1
    assert told[0].filename == __file__


# ---------------------------------------------------------------- orders and members


def test_random_orders_are_different_and_those_of_fewer_members_come_first() -> None:
    three, two = quick(n_orders=3).fit(X), quick(n_orders=2).fit(X)
    assert len({tuple(member.order_) for member in three.members_}) == 3
    for a, b in zip(three.members_, two.members_):
        assert_same_network(a, b)
    other = quick(n_orders=2, random_state=1).fit(X)
    assert [tuple(m.order_) for m in other.members_] != [tuple(m.order_) for m in two.members_]


def test_scans_read_an_image_in_eight_ways() -> None:
    read = ["".join("abcdef"[pixel] for pixel in order) for order in scans(2, 3)]
    assert read == ["abcdef", "adbecf", "fedcba", "fcebda", "cbafed", "daebfc", "defabc", "cfbead"]
    model = quick(orders="scans", image_shape=(2, 3), n_orders=5, max_iter=2).fit(X)
    for member, order in zip(model.members_, scans(2, 3), strict=False):
        np.testing.assert_array_equal(member.order_, order)
    assert len(model.members_) == 5


def boards(n: int, seed: int = 0) -> NDArray[np.uint8]:
    """Five columns of four squares with six discs, dropped into them in turns: written column by column, from below."""
    rng = np.random.default_rng(seed)
    squares, height, each = np.zeros((n, 5, 4, 2), np.uint8), np.zeros((n, 5), int), np.arange(n)
    for move in range(6):
        column = np.where(height < 4, rng.random((n, 5)), -1).argmax(axis=1)
        squares[each, column, height[each, column], move % 2] = 1
        height[each, column] += 1
    return squares.reshape(n, -1)


BY_DEFAULT = {"n_bags": 1, "n_orders": 3, "max_iter": 60, "learning_rate": 0.3, "random_state": 0}


def test_columns_that_were_written_from_a_grid_are_also_read_otherwise(tmp_path: Path) -> None:
    X, test = boards(3000), boards(3000, seed=1)
    model = LBARNEnsemble(**BY_DEFAULT).fit(X, checkpoint=tmp_path)
    first = model.members_[0]
    groups = GivenRows.read(first, X).divided(0.2, 0).filled(0, "auto").groups
    read = [scan.tolist() for size in grids(40, groups) for scan in read_as_grid(size, 40, groups)]
    np.testing.assert_array_equal(first.order_, np.arange(40))
    assert len(model.members_) > 1
    assert all(member.order_.tolist() in read for member in model.members_)
    assert model.score(test) > LBARNEnsemble(**BY_DEFAULT | {"n_orders": 1, "n_bags": 3}).fit(X).score(test)
    assert any(folder.name.startswith("reading") for folder in tmp_path.iterdir())
    assert_same_ensemble(LBARNEnsemble(**BY_DEFAULT).fit(X, checkpoint=tmp_path), model)
    assert_same_ensemble(LBARNEnsemble(**BY_DEFAULT).fit(X), model)


def test_readings_that_do_not_pay_are_not_taken() -> None:
    steps = np.random.default_rng(0).integers(-1, 2, (1000, 5))
    height = np.clip(2 + np.cumsum(steps, axis=1), 0, 4)
    X = (np.arange(4) < height[:, :, None]).reshape(-1, 20).astype(np.uint8)
    model = LBARNEnsemble(**BY_DEFAULT).fit(X)
    assert len(model.members_) == 1
    np.testing.assert_array_equal(model.members_[0].order_, np.arange(20))


def test_the_squarest_grids_come_first_and_a_group_is_one_square() -> None:
    assert grids(12) == [(3, 4), (4, 3), (2, 6), (6, 2)]
    assert grids(7) == grids(3) == grids(1) == []
    pairs = [Group((2 * k, 2 * k + 1), False, -5.0) for k in range(4)]
    assert grids(8, pairs) == [(2, 2)]
    assert read_as_grid((2, 2), 8, pairs)[1].tolist() == [0, 1, 4, 5, 2, 3, 6, 7]
    assert [own.tolist() for own in read_as_grid((2, 3), 6)] == [own.tolist() for own in scans(2, 3)]


def test_given_orders_are_used_as_many_as_there_are() -> None:
    model = quick(orders=np.array(ORDERS), n_orders=8).fit(X)
    np.testing.assert_array_equal([member.order_ for member in model.members_], ORDERS)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"orders": "scans"}, "needs image_shape"),
        ({"orders": "scans", "image_shape": (3, 3)}, r"image_shape=\(3, 3\) has 9 pixels, but X has 6 columns"),
        ({"orders": "scans", "image_shape": (6,)}, "two whole numbers"),
        ({"orders": "scans", "image_shape": (-2, -3)}, "two whole numbers"),
        ({"orders": "scans", "image_shape": (2.0, 3.0)}, "two whole numbers"),
        ({"orders": "scans", "image_shape": (2, 3), "n_orders": 9}, "8 scans of an image, not n_orders=9"),
        ({"orders": []}, "orders is empty"),
        ({"orders": [ORDERS[0], [0, 1, 2, 3, 4, 4]]}, r"orders\[1\] must be a permutation of 0..5"),
        ({"orders": [[0, 1, 2]]}, r"orders\[0\] must be a permutation"),
        ({"orders": "rows"}, "'orders' parameter"),
        ({"n_orders": 0}, "'n_orders' parameter"),
        ({"weights": "best"}, "'weights' parameter"),
    ],
)
def test_what_cannot_be_an_order_is_refused_by_name(parameters: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        quick(**parameters).fit(X, checkpoint=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_all_members_hold_out_the_same_rows() -> None:
    """The column that both orders have first has no predictors: its curves depend on the rows alone."""
    model = quick(orders=[[3, 0, 1, 2, 4, 5], [3, 5, 4, 2, 1, 0]], max_iter=3).fit(X)
    first, second = model.members_
    np.testing.assert_array_equal(first.valid_curve_[3], second.valid_curve_[3])
    np.testing.assert_array_equal(first.train_curve_[3], second.train_curve_[3])


def test_a_member_is_the_network_that_the_same_rows_and_order_give() -> None:
    model = quick(orders=ORDERS).fit(
        X, X_val=TEST, sample_weight=np.arange(1, 501), sample_weight_val=np.arange(1, 201)
    )
    for member in model.members_:
        alone = LBARN(**member.get_params())
        alone.fit(X, X_val=TEST, sample_weight=np.arange(1, 501), sample_weight_val=np.arange(1, 201))
        assert_same_network(member, alone)


def test_weights_that_leave_nothing_to_hold_out_are_refused() -> None:
    with pytest.raises(ValueError, match="zero for every row to train on, or for every row held out"):
        quick().fit(X, sample_weight=np.eye(1, 500)[0])


def test_refit_uses_training_and_validation_rows() -> None:
    refitted, plain = quick(orders=ORDERS, refit=True).fit(X), quick(orders=ORDERS).fit(X)
    assert_same_ensemble(plain.refit_leaves(X), refitted)


def test_the_number_of_jobs_changes_nothing() -> None:
    one, two = quick(n_jobs=1, weights="em").fit(X), quick(n_jobs=2, weights="em").fit(X)
    assert_same_ensemble(one, two)
    np.testing.assert_array_equal(one.sample(9, random_state=0), two.sample(9, random_state=0))


# ---------------------------------------------------------------- a distribution


@pytest.mark.parametrize(
    "parameters", [{}, {"weights": "em"}, {"n_orders": 1}, {"orders": ORDERS, "refit": True}], ids=str
)
def test_the_probabilities_of_all_states_sum_to_one(parameters: dict[str, Any]) -> None:
    model = quick(**parameters).fit(X)
    p = np.exp(model.score_samples(STATES))
    assert p.sum() == pytest.approx(1.0, abs=1e-5)
    np.testing.assert_allclose(p, by_enumeration(model), rtol=1e-9)


def test_the_score_is_above_the_members_mean() -> None:
    """Of logarithms, that of the mean is at least the mean."""
    model = quick().fit(X)
    assert model.score(TEST) > np.mean([member.score(TEST) for member in model.members_])
    weight = np.arange(200)
    assert model.score(TEST, sample_weight=weight) == pytest.approx(
        np.average(model.score_samples(TEST), weights=weight)
    )


def assert_drawn_from(draws: NDArray[Any], p: NDArray[np.float64]) -> None:
    counts = np.bincount(states_of(draws), minlength=len(p))
    assert not counts[p == 0].any()
    expected = len(draws) * p / p.sum()
    rare = expected < 5  # pooled, as the test wants it
    counts = np.append(counts[~rare], counts[rare].sum() + 1e-9)
    expected = np.append(expected[~rare], expected[rare].sum() + 1e-9)
    assert chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


def test_sample_frequencies_match_the_probabilities(model: LBARNEnsemble) -> None:
    draws = model.sample(40_000, random_state=0)
    assert_drawn_from(draws, by_enumeration(model))
    np.testing.assert_array_equal(draws, model.sample(40_000, random_state=0))
    assert (draws != model.sample(40_000, random_state=1)).any()


def test_samples_given_any_bits_match_the_conditional_probabilities(model: LBARNEnsemble) -> None:
    known = np.full((2, D), np.nan)
    known[0, [1, 4]] = [1, 0]
    draws = model.sample(20_000, given=known, random_state=0)
    assert draws.shape == (40_000, D)
    p = by_enumeration(model)
    assert_drawn_from(draws[:20_000], np.where((STATES[:, [1, 4]] == [1, 0]).all(axis=1), p, 0))
    assert_drawn_from(draws[20_000:], p)


def test_surprises_are_the_members_weighted_by_what_the_row_says_of_them(model: LBARNEnsemble) -> None:
    joint = np.log(model.weights_) + np.stack([member.score_samples(TEST) for member in model.members_], axis=1)
    share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
    expected = np.einsum("nk,knd->nd", share, [member.surprise(TEST) for member in model.members_])
    surprise = model.surprise(TEST)
    np.testing.assert_allclose(surprise, expected, rtol=1e-9)
    divergence = (share * np.log(share / model.weights_)).sum(axis=1)
    np.testing.assert_allclose(surprise.sum(axis=1) + divergence, -model.score_samples(TEST), rtol=1e-9)


def test_importance_is_the_weighted_mean(model: LBARNEnsemble) -> None:
    expected = sum(w * member.feature_importances_ for w, member in zip(model.weights_, model.members_))
    np.testing.assert_allclose(model.feature_importances_, expected)


def test_anomalies_are_explained(model: LBARNEnsemble) -> None:
    (strange,) = explain(model, TEST, n_rows=1)
    assert strange.row == model.score_samples(TEST).argmin()


# ---------------------------------------------------------------- weights


def test_equal_weights_are_equal() -> None:
    np.testing.assert_array_equal(quick(n_orders=4).fit(X).weights_, [0.25] * 4)


@pytest.mark.parametrize("weight", [None, np.arange(200.0)], ids=["rows alike", "rows weighed"])
def test_weights_by_em_are_at_least_as_good_on_validation_rows_and_cannot_be_bettered(weight: Any) -> None:
    model = quick(weights="em", orders=ORDERS).fit(X, X_val=TEST, sample_weight_val=weight)
    equal = quick(orders=ORDERS).fit(X, X_val=TEST, sample_weight_val=weight)
    best = model.score(TEST, sample_weight=weight)
    assert best >= equal.score(TEST, sample_weight=weight)
    assert model.weights_.sum() == pytest.approx(1)
    for k in range(3):
        model.weights_ = 0.99 * model.weights_ + 0.01 * np.eye(3)[k]
        assert model.score(TEST, sample_weight=weight) < best + 1e-6


def test_em_gives_the_one_good_member_all_the_weight_and_never_none_to_another() -> None:
    log_p = np.array([[-1.0, -2000.0, -3.0], [-1.0, -2000.0, -2.0]])
    weights = best_weights(log_p)
    assert weights[0] > 0.999
    assert (weights > 0).all()


def test_em_looks_at_the_members_before_their_refit() -> None:
    before, after = quick(weights="em").fit(X), quick(weights="em", refit=True).fit(X)
    np.testing.assert_array_equal(before.weights_, after.weights_)


def test_em_leaves_missing_validation_bits_out() -> None:
    gaps = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = quick(weights="em", orders=ORDERS).fit(gaps[:300], X_val=gaps[300:])
    log_p = [member.valid_curve_[np.arange(D), member.n_trees_] for member in model.members_]
    assert model.weights_[np.argmax(np.sum(log_p, axis=1))] > 1 / 3
    none = quick(weights="em", orders=ORDERS).fit(X, X_val=np.full((5, D), np.nan))
    np.testing.assert_allclose(none.weights_, 1 / 3)


def test_select_goes_to_all_members_and_weighs_them_again(tmp_path: Path) -> None:
    model = quick(weights="em", orders=ORDERS).fit(X)
    fresh = quick(weights="em", orders=ORDERS, selection="common").fit(X)
    model.save(tmp_path / "model")
    loaded = lbarn.load(tmp_path / "model").select("common")
    np.testing.assert_array_equal(loaded.weights_, model.weights_)  # it has no validation rows
    assert model.select("common") is model
    assert_same_ensemble(model, fresh)
    np.testing.assert_array_equal([m.n_trees_ for m in loaded.members_], [m.n_trees_ for m in fresh.members_])


# ---------------------------------------------------------------- part of a row


@pytest.fixture(scope="module")
def gaps() -> NDArray[np.float64]:
    return np.where(np.random.default_rng(3).random((40, D)) < 0.5, np.nan, TEST[:40])


def fitting(row: NDArray[np.float64]) -> NDArray[np.bool_]:
    return (np.isnan(row) | (row == STATES)).all(axis=1)


def test_the_marginal_is_the_sum_over_all_that_is_missing(model: LBARNEnsemble, gaps: NDArray[np.float64]) -> None:
    p = by_enumeration(model)
    expected = [np.log(p[fitting(row)].sum()) for row in gaps]
    np.testing.assert_allclose(model.log_marginal(gaps), expected, atol=1e-5)
    np.testing.assert_allclose(model.log_marginal(TEST), model.score_samples(TEST), atol=1e-5)


def test_imputed_probabilities_are_those_of_the_mixture(model: LBARNEnsemble, gaps: NDArray[np.float64]) -> None:
    p = by_enumeration(model)
    expected = np.array([p[fitting(row)] @ STATES[fitting(row)] / p[fitting(row)].sum() for row in gaps])
    probability, diagnostics = model.impute(gaps, output="probability", return_diagnostics=True)
    np.testing.assert_allclose(probability, expected, atol=1e-5)
    np.testing.assert_array_equal(model.impute(gaps, output="mode"), probability >= 0.5)
    assert set(diagnostics["method"]) <= {"complete", "enumeration"}
    assert np.isinf(diagnostics["effective_sample_size"]).all()


def test_imputed_draws_follow_the_mixture(model: LBARNEnsemble) -> None:
    row = np.array([[np.nan, 1, np.nan, np.nan, 0, np.nan]])
    draws = model.impute(row, n_draws=20_000, random_state=0)
    assert draws.shape == (20_000, 1, D)
    assert_drawn_from(draws[:, 0], np.where(fitting(row[0]), by_enumeration(model), 0))


def test_denoised_probabilities_are_those_of_the_mixture(model: LBARNEnsemble) -> None:
    p, flip = by_enumeration(model), 0.1
    different = (TEST[:20, None] != STATES).sum(axis=2)
    posterior = p * flip**different * (1 - flip) ** (D - different)
    expected = posterior @ STATES / posterior.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.denoise(TEST[:20], flip=flip, output="probability"), expected, atol=1e-5)
    np.testing.assert_array_equal(model.denoise(TEST[:20], flip=flip), expected >= 0.5)


def test_more_gaps_than_can_be_enumerated_are_estimated_and_said_to_be() -> None:
    """Of a single bit seen, the marginal is known from draws; a prefix of one order is none of another's."""
    wide = rows(400, 16)
    model = quick(orders=[np.arange(16), np.arange(16)[::-1]], max_iter=8).fit(wide)
    row = np.full((1, 16), np.nan)
    row[0, 0] = 1
    _, diagnostics = model.impute(row, return_diagnostics=True, random_state=0)
    assert diagnostics["method"].tolist() == ["monte-carlo"]
    assert 10 < diagnostics["effective_sample_size"][0] < np.inf
    drawn = model.sample(20_000, random_state=0)
    assert np.exp(model.log_marginal(row, random_state=0))[0] == pytest.approx(drawn[:, 0].mean(), abs=0.02)
    _, free = model.impute(np.full((1, 16), np.nan), return_diagnostics=True, random_state=0)
    assert free["method"].tolist() == ["prefix"]


def test_rows_read_in_chunks_are_answered_alike(model: LBARNEnsemble, monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = np.where(np.random.default_rng(0).random(TEST.shape) < 0.3, np.nan, TEST)
    uses = (
        lambda: model.score_samples(TEST),
        lambda: model.surprise(TEST),
        lambda: model.log_marginal(gaps),
        lambda: model.impute(gaps, output="probability"),
        lambda: np.frombuffer(model.compress(TEST), np.uint8),
    )
    whole = [use() for use in uses]
    monkeypatch.setattr("lbarn._tables.table._CHUNK_VALUES", 100)
    for use, expected in zip(uses, whole):
        np.testing.assert_allclose(use(), expected, rtol=1e-12)


# ---------------------------------------------------------------- tables


def test_tables_come_back_as_the_kind_that_was_given() -> None:
    frame = pd.DataFrame(X, columns=list("abcdef")).astype({"b": bool})
    model = quick(n_orders=2).fit(frame)
    assert list(model.feature_names_in_) == list("abcdef")
    assert model.n_features_in_ == D
    assert model.sample(3).dtypes.to_list() == frame.dtypes.to_list()
    pd.testing.assert_frame_equal(model.decompress(model.compress(frame)), frame)
    assert list(model.impute(frame[:3].astype(float)).columns) == list("abcdef")
    with pytest.raises(ValueError, match="X has no column 'a'"):
        model.score(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("use", ["surprise", "compress"])
def test_complete_rows_are_asked_for(use: str, model: LBARNEnsemble) -> None:
    with pytest.raises(ValueError, match="column 2 is missing"):
        getattr(model, use)([[0, 1, np.nan, 0, 0, 0]])


# ---------------------------------------------------------------- files


@pytest.mark.parametrize("trim", [False, True])
@pytest.mark.parametrize("parameters", [{"orders": ORDERS}, {"orders": "scans", "image_shape": (2, 3)}, {}], ids=str)
def test_a_loaded_ensemble_gives_the_same_answers_bit_for_bit(
    parameters: dict[str, Any], trim: bool, tmp_path: Path
) -> None:
    model = quick(weights="em", random_state=np.random.RandomState(3), **parameters).fit(X)
    model.save(tmp_path / "model", trim=trim)
    gaps = np.where(np.random.default_rng(0).random((20, D)) < 0.3, np.nan, TEST[:20])
    for copy in (LBARNEnsemble.load(tmp_path / "model"), lbarn.load(tmp_path / "model")):
        assert type(copy) is LBARNEnsemble
        np.testing.assert_array_equal(copy.weights_, model.weights_)
        np.testing.assert_array_equal(copy.score_samples(TEST), model.score_samples(TEST))
        np.testing.assert_array_equal(copy.sample(50, random_state=0), model.sample(50, random_state=0))
        np.testing.assert_array_equal(copy.impute(gaps, random_state=0), model.impute(gaps, random_state=0))
        np.testing.assert_array_equal(copy.feature_importances_, model.feature_importances_)
        copy.save(tmp_path / "copy", trim=trim)
        assert (tmp_path / "copy").read_bytes() == (tmp_path / "model").read_bytes()
        assert len(clone(copy).fit(X).members_) == len(model.members_)


def test_each_load_names_the_kind_it_was_given(model: LBARNEnsemble, tmp_path: Path) -> None:
    model.save(tmp_path / "ensemble")
    model.members_[0].save(tmp_path / "network")
    with pytest.raises(ModelFileError, match="kind 'LBARN', not LBARNEnsemble"):
        LBARNEnsemble.load(tmp_path / "network")
    with pytest.raises(ModelFileError, match="kind 'LBARNEnsemble', not LBARN"):
        LBARN.load(tmp_path / "ensemble")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, t: c["members"].pop(), "'weights' is float64"),
        (lambda c, t: c["members"].__setitem__(0, 5), "does not make sense"),
        (lambda c, t: c.pop("seed"), "does not make sense"),
        (lambda c, t: c["parameters"].update(colour="red"), "unknown parameters: colour"),
        (lambda c, t: c["parameters"].update(n_orders=-1), "does not make sense"),
        (lambda c, t: c["parameters"].update(orders=[["a"]]), "not of numbers"),
        (lambda c, t: t.pop("weights"), "'weights' is missing"),
        (lambda c, t: t["weights"].__imul__(2), "not a distribution"),
        (lambda c, t: t["weights"].__setitem__(0, np.nan), "not a distribution"),
        (lambda c, t: t["1.order"].__setitem__(0, 3), "not a permutation"),
        (lambda c, t: c["members"][1]["columns"].update(dtypes=["bool"]), "do not have the same columns"),
    ],
)
def test_what_does_not_make_sense_is_refused(change: Any, message: str, model: LBARNEnsemble, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    content, tensors = take_apart((tmp_path / "model").read_bytes())
    tensors = {name: array.copy() for name, array in tensors.items()}
    change(content, tensors)
    (tmp_path / "model").write_bytes(put_together(content, tensors))
    with pytest.raises(ModelFileError, match=message):
        lbarn.load(tmp_path / "model")


def test_a_changed_file_is_refused_or_is_a_model(model: LBARNEnsemble, tmp_path: Path) -> None:
    path = tmp_path / "model"
    model.save(path, trim=True)
    file, rng = path.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(300):
        path.write_bytes(mutate_meaning(file, rng))
        try:
            changed = lbarn.load(path)
        except ModelFileError:
            refused += 1
        else:
            assert np.isfinite(changed.score_samples(TEST[:, : changed.n_features_in_])).all()
    assert refused > 100


# ---------------------------------------------------------------- checkpoints

SHORT: dict[str, Any] = {"n_orders": 3, "max_leaf_nodes": 4, "learning_rate": 0.1, "max_iter": 6, "random_state": 3}


def test_a_killed_fit_continues_to_the_same_model_file(tmp_path: Path) -> None:
    shape = (3000, 16)
    changed = {"max_leaf_nodes": 16, "max_iter": 100, "weights": "em"}
    parameters = LBARNEnsemble.paper(**SHORT | changed).get_params()
    checkpoint, file = tmp_path / "checkpoint", tmp_path / "model"
    finished: dict[str, int] = {}
    for goal in (7, 37):
        process = start(shape, parameters, estimator="LBARNEnsemble", checkpoint=checkpoint)
        wait_until(lambda: len(finished_dimensions(checkpoint)) >= goal, f"{goal} finished dimensions")  # noqa: B023
        process.kill()
        assert process.wait() == -signal.SIGKILL
        now = finished_dimensions(checkpoint)
        assert finished.items() <= now.items()  # nothing was lost, and nothing was trained again
        finished = now
    assert {Path(name).parts[0] for name in finished} == {"member-0", "member-1", "member-2"}
    last = start(shape, parameters, estimator="LBARNEnsemble", checkpoint=checkpoint, model=file)
    assert last.wait(DEADLINE) == 0
    assert finished.items() <= finished_dimensions(checkpoint).items()
    assert file.read_bytes() == model_bytes(LBARNEnsemble(**parameters).fit(linked_rows(*shape)))


@pytest.mark.parametrize("source", [None, np.random.RandomState()], ids=["None", "RandomState"])
def test_a_fit_without_a_seed_keeps_the_one_it_drew(
    source: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = SHORT | {"random_state": source}
    first = LBARNEnsemble.paper(**parameters).fit(X, checkpoint=tmp_path)
    monkeypatch.setattr(run, "_train", None)
    assert_same_ensemble(LBARNEnsemble.paper(**parameters).fit(X, checkpoint=tmp_path), first)


@pytest.mark.parametrize(
    ("parameters", "data", "message"),
    [
        ({"n_orders": 4}, X, "n_orders differ"),
        ({"orders": ORDERS}, X, "orders differ"),
        ({"random_state": 4}, X, "random_state differ"),
        ({}, TEST, "data differ"),
    ],
    ids=["n_orders", "orders", "seed", "data"],
)
def test_a_checkpoint_of_another_fit_is_refused(
    parameters: dict[str, Any], data: Any, message: str, tmp_path: Path
) -> None:
    LBARNEnsemble.paper(**SHORT).fit(X, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=message):
        LBARNEnsemble.paper(**(SHORT | parameters)).fit(data, checkpoint=tmp_path)


# ---------------------------------------------------------------- real data


def test_scans_of_digits_beat_every_one_of_them() -> None:
    images = (load_digits().data >= 8).astype(np.uint8)
    model = quick(orders="scans", image_shape=(8, 8), n_orders=4, learning_rate=0.2).fit(images[:900])
    assert model.score(images[900:]) > max(member.score(images[900:]) for member in model.members_)
