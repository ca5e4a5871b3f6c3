"""Data at the edges gives sane models: finite, and as good as the data allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracle
from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import LOG_ODDS_UNIT, UNIT, probabilities

MAX_LEAF = 8 << 20
MAX_LOG_ODDS = 2**31 - 1


@pytest.fixture(params=["exact", "fast", "gradient"])
def how(request: pytest.FixtureRequest, simd: str) -> Boosting:
    common = Boosting(max_leaf_nodes=4, learning_rate=0.3, max_iter=30)
    if request.param == "gradient":
        return replace(common, boosting="gradient")
    return replace(common, splits=request.param)


def train(bits: PackedBits, how: Boosting, **options) -> Conditional:
    """The last column from those before it, and whatever came out is sane."""
    c = Conditional.train(bits, bits, bits.n_columns - 1, how, **options)
    assert len(c.trees) == how.max_iter
    for curve in (c.train_curve, c.valid_curve):
        assert np.isfinite(curve).all()
        assert (curve <= 0.0).all()
    assert np.isfinite(c.trees.gains).all()
    assert (c.trees.gains >= 0.0).all()
    assert np.abs(c.trees.values).max(initial=0) <= MAX_LEAF
    assert reach(c) <= MAX_LOG_ODDS
    assert np.abs(oracle.log_odds(c, bits).astype(np.int64)).max(initial=0) <= reach(c)
    return c


def reach(c: Conditional) -> int:
    """The sum over trees of the largest leaf: no row's log-odds can be larger."""
    starts = c.trees.offsets[:-1] + np.arange(len(c.trees))
    return int(np.maximum.reduceat(np.abs(c.trees.values.astype(np.int64)), starts).sum())


def random_columns(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n, d))


@pytest.mark.parametrize("y", [0, 1])
def test_a_constant_target_is_learned_without_splits_that_gain_nothing(how, y):
    X = random_columns(500, 6)
    X[:, 5] = y
    c = train(pack(X), how)
    assert (np.diff(c.train_curve) >= 0.0).all()
    assert c.train_curve[-1] > -1e-3
    assert (np.sign(oracle.log_odds(c, pack(X))) == 2 * y - 1).all()


def test_constant_columns_are_never_split_on(how):
    X = random_columns(500, 8)
    X[:, [0, 3]] = 0, 1
    X[:, 7] = X[:, 2] ^ X[:, 4]
    used = np.unique(train(pack(X), how).trees.splits[:, 1])
    assert not np.isin(used, [0, 3]).any()
    assert np.isin([2, 4], used).all()


def test_with_constant_columns_alone_the_base_rate_is_learned(how):
    X = np.ones((400, 4), int)
    X[:100, 3] = 0
    c = train(pack(X), replace(how, max_iter=200))
    assert len(c.trees.splits) == 0
    np.testing.assert_allclose(probabilities(oracle.log_odds(c, pack(X))) * UNIT, 0.75, atol=1e-4)


def test_of_equal_and_of_opposite_columns_the_lowest_position_wins(how):
    X = random_columns(777, 12)
    X[:, 11] = X[:, 1] & X[:, 2] | X[:, 3] & (np.random.default_rng(1).random(777) < 0.7)
    alone = train(pack(X[:, [0, 1, 2, 3, 4, 11]]), how)
    X[:, 5:10] = X[:, :5]
    X[:, 10] = 1 - X[:, 1]
    repeated = train(pack(X), how)
    assert np.isin([1, 2, 3], repeated.trees.splits[:, 1]).all()
    assert repeated.trees.splits[:, 1].max() < 5
    if how.splits == "exact":  # the random numbers of the others depend on the target's position
        np.testing.assert_array_equal(repeated.trees.splits, alone.trees.splits)
        np.testing.assert_array_equal(repeated.trees.values, alone.trees.values)


def test_position_0_learns_the_base_rate(how):
    y = np.arange(1000) % 5 == 0
    c = train(pack(y[:, None]), replace(how, max_iter=200))
    assert c.position == 0
    assert len(c.trees.splits) == 0
    assert oracle.importance(c).shape == (0,)
    np.testing.assert_allclose(probabilities(oracle.log_odds(c, pack(y[:, None]))) * UNIT, 0.2, atol=1e-4)
    assert c.train_curve[-1] == pytest.approx(0.2 * np.log(0.2) + 0.8 * np.log(0.8), abs=1e-6)


@pytest.mark.parametrize("y", [0, 1])
def test_one_row_is_learned(how, y):
    c = train(pack(np.array([[1, 0, 1, y]])), how)
    assert len(c.trees.splits) == 0
    assert c.train_curve[-1] > -1e-3


def test_no_rows_leave_the_model_at_one_half(how):
    c = train(pack(np.zeros((0, 4))), how)
    assert not c.trees.values.any()
    assert (oracle.log_odds(c, pack(random_columns(10, 4))) == 0).all()


@pytest.mark.parametrize("n", [1, 20, 1300])
def test_a_cap_leaves_a_value_never_seen_the_share_that_the_rows_allow(how, n):
    c = train(pack(np.zeros((n, 3))), replace(how, max_iter=300, cap=True))
    p = probabilities(oracle.log_odds(c, pack(random_columns(50, 3)))) * UNIT
    np.testing.assert_allclose(p, 1.0 / (2.0 * (n + 1.0)), rtol=1e-6)
    assert c.train_curve[-1] == pytest.approx(np.log1p(-1.0 / (2.0 * (n + 1.0))), rel=1e-5)


def test_one_contrary_row_cannot_make_a_capped_model_certain(how):
    X = random_columns(1300, 12)
    X[:, 11] = 0
    X[7, 11] = 1
    c = train(pack(X), replace(how, max_iter=500, cap=True))
    p = probabilities(oracle.log_odds(c, pack(random_columns(4000, 12, seed=1)))) * UNIT
    assert p.min() >= (1.0 - 1e-6) / 2602.0
    assert p.max() <= 1.0 - (1.0 - 1e-6) / 2602.0


def test_no_rows_and_a_cap_leave_the_model_at_one_half(how):
    c = train(pack(np.zeros((0, 4))), replace(how, cap=True))
    assert c.trees.limit > 0
    assert (oracle.log_odds(c, pack(random_columns(10, 4))) == 0).all()


def test_two_equal_rows_with_different_targets_stay_at_one_half(how):
    bits = pack(np.array([[1, 0, 1], [1, 0, 0]]))
    c = train(bits, how)
    assert (oracle.log_odds(c, bits) == 0).all()
    np.testing.assert_allclose(c.train_curve, -np.log(2.0), atol=1e-7)


def test_weights_that_are_all_zero_leave_the_model_at_one_half(how):
    bits = pack(random_columns(100, 5))
    c = train(bits, how, weight=np.zeros(100))
    assert not c.trees.values.any()
    assert (c.train_curve == 0.0).all()


def test_one_row_with_weight_is_all_there_is(how):
    X = random_columns(100, 5)
    weight = np.zeros(100)
    weight[17] = 3.0
    c = train(pack(X), how, weight=weight)
    assert c.train_curve[-1] > -1e-3
    assert len(c.trees.splits) == 0


def test_of_weights_a_million_apart_the_heavy_rows_rule_and_the_light_ones_break_ties(how):
    X = random_columns(2000, 6)
    heavy = np.arange(2000) < 1000
    X[heavy, 5] = X[heavy, 0]
    X[~heavy, 5] = 1 - X[~heavy, 0]
    c = train(pack(X), replace(how, max_iter=100), weight=np.where(heavy, 1.0, 1e-6))
    p = probabilities(oracle.log_odds(c, pack(X))) * UNIT
    assert (np.abs(p - X[:, 0]) < 1e-3).all()
    assert c.train_curve[-1] > -1e-3


def test_one_row_a_million_times_heavier_than_all_others_is_fitted_first(how):
    X = random_columns(1000, 12)
    weight = np.ones(1000)
    weight[123] = 1e6 * 1000
    c = train(pack(X), replace(how, max_iter=100), weight=weight)
    p = probabilities(oracle.log_odds(c, pack(X)))[123] * UNIT
    assert abs(p - X[123, 11]) < 1e-3


@pytest.mark.parametrize("learning_rate", [0.02, 1.0])
def test_a_separable_target_survives_five_thousand_rounds(how, learning_rate):
    X = random_columns(200, 5)
    X[:, 4] = X[:, 0] & X[:, 1]
    c = train(pack(X), replace(how, max_iter=5000, learning_rate=learning_rate))
    assert c.train_curve[-1] > -1e-6
    assert (np.diff(c.train_curve) >= -1e-8).all()
    p = probabilities(oracle.log_odds(c, pack(X))) * UNIT
    np.testing.assert_allclose(p, X[:, 4], atol=1e-6)


@pytest.mark.parametrize("splits", ["exact", "fast"])
def test_one_contrary_row_among_a_million_leaves_the_log_odds_finite(splits):
    bits = pack(np.ones((1_000_000, 3), bool))
    bits.rows[:, 0] = 0b100 | np.arange(1_000_000) % 4  # two predictors, and a target of 1
    bits.rows[77_777, 0] &= 0b011
    c = train(bits, Boosting(max_leaf_nodes=4, learning_rate=1.0, max_iter=20, splits=splits))
    p = probabilities(oracle.log_odds(c, bits)) * UNIT
    assert (p > 1.0 - 1e-5).all()
    quarter = 1.0 / 250_000  # of the rows that look like the contrary one
    best = (quarter * np.log(quarter) + (1.0 - quarter) * np.log1p(-quarter)) / 4.0
    assert c.train_curve[-1] == pytest.approx(best, abs=1e-8)


def test_leaves_are_clipped_and_log_odds_never_outgrow_31_bits(simd):
    """A step far too long throws the log-odds to and fro, by 8 each time, until the sum of the leaves is full."""
    X = random_columns(300, 4)
    bits = pack(X)
    wild = Boosting(max_leaf_nodes=4, learning_rate=1e4, max_iter=600, splits="exact")
    c = train(bits, wild)
    assert np.abs(c.trees.values).max() == MAX_LEAF
    assert MAX_LOG_ODDS - MAX_LEAF < reach(c) <= MAX_LOG_ODDS
    assert not c.trees.values[-4:].any()
    assert np.isfinite(c.curve(bits)).all()
    resumed = train(bits, replace(wild, max_iter=100)).extend(bits, bits, wild)
    np.testing.assert_array_equal(resumed.trees.values, c.trees.values)
    assert reach(c.refit(bits, wild)) <= MAX_LOG_ODDS
    assert reach(c.refit(pack(random_columns(50, 4, seed=9)), wild)) <= MAX_LOG_ODDS


def test_a_learning_rate_of_zero_learns_nothing(how):
    bits = pack(random_columns(100, 5))
    c = train(bits, replace(how, learning_rate=0.0))
    assert (oracle.log_odds(c, bits) * LOG_ODDS_UNIT == 0.0).all()


def test_more_leaves_than_rows_give_at_most_a_leaf_per_row(how):
    X = random_columns(20, 9)
    c = train(pack(X), replace(how, max_leaf_nodes=65_535))
    assert np.diff(c.trees.offsets).max() < 20


@pytest.mark.parametrize("scale", [1e-320, 1e306])
def test_weights_at_the_ends_of_the_float_range_act_as_their_ratios(scale: float) -> None:
    X = np.random.default_rng(0).integers(0, 2, (100, 5))
    bits = pack(X)
    how = Boosting(max_iter=3, learning_rate=0.5)
    small = np.arange(1, 101, dtype=float)
    plain, scaled = (Conditional.train(bits, bits, 4, how, weight=w) for w in (small, scale * small))
    np.testing.assert_allclose(scaled.train_curve, plain.train_curve, atol=1e-5)
