"""Boosting agrees with the oracle: splits, leaves, gains and whole runs, with weights, penalties, and on gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import oracle
from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import LOG_ODDS_UNIT, UNIT


@dataclass
class Problem:
    X: np.ndarray
    y: np.ndarray
    how: Boosting
    weight: np.ndarray | None = None

    @property
    def bits(self) -> PackedBits:
        return pack(np.column_stack([self.X, self.y]))

    def train(self, **options) -> Conditional:
        d = self.X.shape[1]
        return Conditional.train(self.bits, pack(np.zeros((0, d + 1))), d, self.how, weight=self.weight, **options)


def random_problem(seed: int, **how) -> Problem:
    """Up to 250 rows and 20 predictors, some of them constant or equal, and a noisy target; all options in turn."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 250)), int(rng.integers(1, 20))
    X = (rng.random((n, d)) < rng.choice([0.0, 0.05, 0.3, 0.5, 0.9], d)).astype(float)
    X[:, rng.integers(d)] = X[:, rng.integers(d)]
    logit = (X - 0.5) @ rng.normal(0.0, 2.0, d) + rng.normal()
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(float)
    options = {
        "max_leaf_nodes": int(rng.integers(2, 17)),
        "learning_rate": float(rng.choice([0.02, 0.1, 0.3, 1.0])),
        "max_iter": 8,
        "splits": "exact",
        "boosting": str(rng.choice(["newton", "newton", "gradient"])),
        "l2_regularization": float(rng.choice([0.0, 0.0, 0.7])),
        "min_gain": float(rng.choice([0.0, 0.0, 0.3711])),  # a number that no ratio of small counts is equal to
    }
    weights = [None, None, rng.integers(1, 4, n).astype(float), rng.uniform(0.1, 3.0, n) * rng.integers(0, 2, n)]
    weight = weights[seed % 4]
    if weight is not None and not weight.any():
        weight = None
    return Problem(X, y, Boosting(**{**options, **how}), weight)


def gradients_before(problem: Problem, conditional: Conditional, t: int) -> tuple[np.ndarray, ...]:
    """The oracle's g, h and weights at the log-odds that the core has after t trees."""
    log_odds = oracle.log_odds(conditional, problem.bits, t) * LOG_ODDS_UNIT
    weight = oracle.mean_one(problem.weight, len(problem.y))
    return *oracle.gradients(problem.y, log_odds, weight), weight


def check_splits(problem: Problem, conditional: Conditional, t: int) -> None:
    """Every split is a best one, and growth ends only at J leaves or where no gain is left."""
    g, h, weight = gradients_before(problem, conditional, t)
    kept, how = weight > 0, problem.how
    split_h = oracle.split_hessian(h, weight, how)[kept]
    tree = oracle.GrowingTree(problem.X[kept], g[kept], split_h, how.l2_regularization)
    for choice in oracle.splits_of(conditional.trees, t):
        assert tree.shortfall(choice) <= 1e-5
        assert tree.gains[choice] >= how.min_gain - 1e-5 * max(tree.objectives[choice[0]], 1e-7)
        tree.split(*choice)
    leaves = len(tree.gains)
    assert leaves <= how.max_leaf_nodes
    if leaves < how.max_leaf_nodes:
        best = tree.best()
        scale = max(tree.objectives[best[0]], tree.gains[best], 1e-7)
        assert tree.gains[best] <= how.min_gain + 1e-5 * scale


def check_leaves(problem: Problem, conditional: Conditional, t: int) -> None:
    """Every leaf is eq:leaf_update of the true g and h."""
    g, h, weight = gradients_before(problem, conditional, t)
    splits = oracle.splits_of(conditional.trees, t)
    leaf, n_leaves = oracle.assign(problem.X, splits), len(splits) + 1
    expected = oracle.leaf_updates(leaf, n_leaves, g, h, problem.how)
    # g and h of a row are rounded to 2^-30, times at most twice the largest weight. That shows where the hessian of a
    # whole leaf is itself of that size: nu dG / H + |leaf| dH / H.
    H = np.maximum(np.bincount(leaf, h, n_leaves), UNIT)
    rounding = UNIT * (1.0 if problem.weight is None else 2.0 * weight.max()) * np.bincount(leaf, weight > 0, n_leaves)
    tolerance = 2.0**-19 + (problem.how.learning_rate + np.abs(expected)) * rounding / H
    assert (np.abs(oracle.values_of(conditional.trees, t) - expected) <= tolerance).all()


@pytest.mark.parametrize("seed", range(400))
def test_tree_by_tree_every_split_is_best_and_every_leaf_agrees(seed):
    problem = random_problem(seed)
    conditional = problem.train()
    assert len(conditional.trees) == problem.how.max_iter
    for t in range(problem.how.max_iter):
        check_splits(problem, conditional, t)
        check_leaves(problem, conditional, t)


@pytest.mark.parametrize("seed", range(1000, 1150))
def test_whole_runs_reach_the_oracles_training_log_likelihood(seed):
    problem = random_problem(seed, max_iter=20)
    conditional = problem.train()
    ties = [oracle.splits_of(conditional.trees, t) for t in range(20)]
    run = oracle.boost(problem.X, problem.y, problem.how, problem.weight, ties)
    np.testing.assert_allclose(conditional.train_curve, run.curve, rtol=0, atol=1e-4)


@pytest.mark.parametrize("seed", range(2000, 2060))
def test_leaves_of_fast_splits_come_from_the_true_gradients(seed):
    problem = random_problem(seed, splits="fast", split_bits=2 + seed % 5)
    conditional = problem.train()
    for t in range(problem.how.max_iter):
        check_leaves(problem, conditional, t)


@pytest.mark.parametrize("boosting", ["newton", "gradient"])
def test_splits_and_leaves_of_a_dna_column_agree_with_the_oracle(shared_data, boosting):
    table = shared_data("dna").train.unpack().astype(float)
    problem = Problem(table[:, :100], table[:, 100], Boosting(splits="exact", boosting=boosting, max_iter=5))
    conditional = problem.train()
    for t in range(problem.how.max_iter):
        check_splits(problem, conditional, t)
        check_leaves(problem, conditional, t)


@pytest.mark.parametrize("seed", range(3000, 3060))
def test_importance_is_the_summed_gain_from_true_sums(seed):
    problem = random_problem(seed, boosting="newton")
    conditional = problem.train()
    d = problem.X.shape[1]
    expected, tolerance = np.zeros(d), np.full(d, 1e-12)
    for t in range(problem.how.max_iter):
        assert (np.abs(oracle.importance(conditional, t) - expected) <= tolerance).all()
        g, h, _ = gradients_before(problem, conditional, t)
        tree = oracle.GrowingTree(problem.X, g, h, problem.how.l2_regularization)
        for leaf, position in oracle.splits_of(conditional.trees, t):
            expected[position] += tree.gains[leaf, position]
            # A gain is a difference of objectives, kept as float32.
            tolerance[position] += 1e-6 * (tree.objectives[leaf] + tree.gains[leaf, position]) + 1e-7
            tree.split(leaf, position)
    assert (np.abs(oracle.importance(conditional) - expected) <= tolerance).all()


def planted(n: int = 3000, d: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, d)).astype(float)
    logit = 3.0 * X[:, 0] - 4.0 * X[:, 1] * X[:, 2] + 2.0 * X[:, 3] * (1 - X[:, 4]) - 0.5
    return X, (rng.random(n) < 1.0 / (1.0 + np.exp(-logit))).astype(float)


def test_no_split_gains_less_than_min_gain():
    X, y = planted()
    how = Boosting(max_leaf_nodes=32, learning_rate=0.3, max_iter=10, splits="exact")
    free = Problem(X, y, how).train().trees
    limited = Problem(X, y, replace(how, min_gain=5.0)).train().trees
    assert free.gains.min() < 5.0 < limited.gains.min()
    assert 0 < len(limited.splits) < len(free.splits)
    assert len(Problem(X, y, replace(how, min_gain=1e9)).train().trees.splits) == 0


def test_min_gain_of_fast_splits_is_in_the_same_units():
    X, y = planted()
    how = Boosting(max_leaf_nodes=32, learning_rate=0.3, max_iter=1, min_gain=20.0)
    fast, exact = Problem(X, y, how).train().trees, Problem(X, y, replace(how, splits="exact")).train().trees
    assert len(exact.splits) > 2
    assert abs(len(fast.splits) - len(exact.splits)) <= 2
    assert fast.gains.min() > 10.0  # the true gain differs from the one seen by rounding noise


def test_l2_shrinks_the_leaf_of_every_node():
    X, y = planted()
    for l2 in (0.0, 1.0, 100.0):
        how = Boosting(max_leaf_nodes=2, learning_rate=1.0, max_iter=1, splits="exact", l2_regularization=l2)
        values = oracle.values_of(Problem(X, y, how).train().trees, 0)
        rows = [X[:, 0] == 0, X[:, 0] == 1]
        expected = [np.sum(y[r] - 0.5) / (0.25 * r.sum() + l2) for r in rows]
        np.testing.assert_allclose(values, expected, rtol=0, atol=2.0**-19)


@pytest.mark.parametrize("boosting", ["newton", "gradient"])
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_integer_weights_are_repeated_rows(boosting, l2):
    X, y = planted(400)
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    again = np.repeat(np.arange(len(y)), weight.astype(int))
    how = Boosting(
        max_leaf_nodes=8, learning_rate=0.3, max_iter=15, splits="exact", boosting=boosting, l2_regularization=l2
    )
    weighted = Problem(X, y, how, weight).train()
    # Weights have mean 1, so the penalty of the repeated rows is larger by their mean.
    repeated = Problem(X[again], y[again], replace(how, l2_regularization=l2 * weight.mean())).train()
    np.testing.assert_allclose(weighted.train_curve, repeated.train_curve, rtol=0, atol=1e-6)
    bits = Problem(X, y, how).bits
    np.testing.assert_allclose(
        oracle.log_odds(weighted, bits), oracle.log_odds(repeated, bits), rtol=0, atol=2.0**-15 / LOG_ODDS_UNIT
    )
    np.testing.assert_allclose(
        oracle.importance(weighted), oracle.importance(repeated) / weight.mean(), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("unequal", [False, True])
def test_rows_of_weight_zero_are_dropped(unequal):
    X, y = planted(700)
    rng = np.random.default_rng(2)
    weight = rng.integers(0, 2, len(y)) * (rng.uniform(0.5, 2.0, len(y)) if unequal else 1.0)
    kept = weight > 0
    how = Boosting(max_leaf_nodes=8, learning_rate=0.3, max_iter=10, splits="exact")
    whole, part = Problem(X, y, how, weight).train(), Problem(X[kept], y[kept], how, weight[kept]).train()
    np.testing.assert_array_equal(whole.trees.splits, part.trees.splits)
    np.testing.assert_array_equal(whole.trees.values, part.trees.values)
    np.testing.assert_array_equal(whole.train_curve, part.train_curve)


CERTAINTY = [{"l1_regularization": 0.5}, {"cap": True}, {"l1_regularization": 2.5, "cap": True}]


@pytest.mark.parametrize("certainty", CERTAINTY, ids=str)
@pytest.mark.parametrize("seed", range(4000, 4030))
def test_penalised_leaves_and_capped_log_odds_agree_with_the_oracle_tree_by_tree(seed, certainty):
    problem = random_problem(seed, max_iter=12, learning_rate=1.0, **certainty)
    conditional = problem.train()
    for t in range(problem.how.max_iter):
        check_splits(problem, conditional, t)
        check_leaves(problem, conditional, t)


@pytest.mark.parametrize("seed", range(5000, 5030))
def test_whole_runs_with_capped_log_odds_reach_the_oracles_curve(seed):
    # Not with a penalty of leaves: there it matters whether rows that are alike are split once more for a gain of nothing.
    problem = random_problem(seed, max_iter=30, learning_rate=0.3, cap=True)
    conditional = problem.train()
    ties = [oracle.splits_of(conditional.trees, t) for t in range(30)]
    run = oracle.boost(problem.X, problem.y, problem.how, problem.weight, ties)
    np.testing.assert_allclose(conditional.train_curve, run.curve, rtol=0, atol=1e-4)


def test_a_leaf_stops_moving_once_as_many_contrary_rows_are_expected_as_the_penalty_takes_for_chance():
    X, y = np.zeros((400, 1)), np.zeros(400)
    how = Boosting(max_leaf_nodes=2, learning_rate=0.5, max_iter=200, splits="exact", l1_regularization=0.5)
    conditional = Problem(X, y, how).train()
    log_odds = conditional.trees.values.sum() * LOG_ODDS_UNIT
    assert 400 / (1 + np.exp(-log_odds)) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize("splits", ["exact", "fast"])
def test_only_ratios_of_weights_count(splits):
    X, y = planted(700)
    how = Boosting(max_leaf_nodes=8, learning_rate=0.3, max_iter=10, splits=splits)
    weight = np.random.default_rng(3).uniform(0.1, 2.0, len(y))
    for weights in ([None, np.ones(len(y)), np.full(len(y), 0.3)], [weight, 1024 * weight, weight / 1024]):
        runs = [Problem(X, y, how, w).train() for w in weights]
        for run in runs[1:]:
            np.testing.assert_array_equal(run.trees.values, runs[0].trees.values)
            np.testing.assert_array_equal(run.train_curve, runs[0].train_curve)


@pytest.mark.parametrize("split_bits", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_fast_splits_learn_what_exact_splits_learn(split_bits, weighted):
    X, y = planted()
    weight = np.random.default_rng(4).uniform(0.01, 2.0, len(y)) if weighted else None
    how = Boosting(max_leaf_nodes=8, learning_rate=0.3, max_iter=20, split_bits=split_bits)
    fast, exact = Problem(X, y, how, weight).train(), Problem(X, y, replace(how, splits="exact"), weight).train()
    assert exact.train_curve[-1] > exact.train_curve[0] + 0.1
    assert abs(fast.train_curve[-1] - exact.train_curve[-1]) < 0.02
    assert set(np.argsort(oracle.importance(fast))[-3:]) == {0, 1, 2}


def test_the_seed_decides_fast_splits_and_leaves_exact_ones_alone():
    X, y = planted(500)
    fast = Problem(X, y, Boosting(max_leaf_nodes=16, max_iter=10, split_bits=3))
    same, again, other = (fast.train(seed=s).trees for s in (1, 1, 2))
    np.testing.assert_array_equal(same.splits, again.splits)
    assert same.splits.shape != other.splits.shape or (same.splits != other.splits).any()
    exact = Problem(X, y, Boosting(max_leaf_nodes=16, max_iter=10, splits="exact"))
    np.testing.assert_array_equal(exact.train(seed=1).trees.values, exact.train(seed=2).trees.values)


@pytest.mark.parametrize("splits", ["fast", "exact"])
def test_a_tree_may_split_on_a_random_share_of_the_features(splits: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (2000, 41))
    X[:, 40] = np.where(rng.random(2000) < 0.9, X[:, 5], X[:, 40])
    bits = pack(X)
    how = Boosting(max_leaf_nodes=2, learning_rate=0.001, max_iter=400, splits=splits, max_features=0.3)
    features = Conditional.train(bits, bits, 40, how, seed=1).trees.splits[:, 1]
    assert len(features) == 400
    assert np.mean(features == 5) == pytest.approx(0.3, abs=0.06)  # the best one, whenever it may be split on
    other = Conditional.train(bits, bits, 40, how, seed=2).trees.splits[:, 1]
    assert (features != other).any()
    everything = Conditional.train(bits, bits, 40, replace(how, max_features=1.0), seed=1).trees.splits[:, 1]
    assert (everything == 5).all()
