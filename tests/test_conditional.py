"""A conditional is the same bits on every SIMD path and however it was reached: at once, resumed, or evaluated."""

from __future__ import annotations

import sys
import threading
from dataclasses import replace

import numpy as np
import pytest

import oracle
from lbarn import _core
from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import LOG_ODDS_UNIT, NO_LIMIT, UNIT, log_likelihoods

POSITION = 30
VARIANTS = {
    "exact": Boosting(splits="exact"),
    **{f"fast{bits}": Boosting(split_bits=bits) for bits in range(2, 7)},
    "gradient": Boosting(boosting="gradient"),
    "exact gradient": Boosting(boosting="gradient", splits="exact"),
    "regularised": Boosting(min_gain=0.5, l2_regularization=1.0),
    "some features": Boosting(max_features=0.4),
    "from the base rate": Boosting(init="prior"),
    "from a logistic regression": Boosting(init="linear"),
    "l1": Boosting(l1_regularization=0.5),
    "capped": Boosting(cap=True, max_leaf_nodes=64, l1_regularization=0.1, l2_regularization=0.1),
    "stumps": Boosting(max_leaf_nodes=2),
    "no split": Boosting(max_leaf_nodes=1),
}
VARIANTS = {name: replace(how, max_iter=12, learning_rate=0.2) for name, how in VARIANTS.items()}


def table(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, POSITION + 1))
    X[:, POSITION] = (X[:, 1] & X[:, 7] | X[:, 20] & ~X[:, 3] | (rng.random(n) < 0.1)) & (rng.random(n) < 0.9)
    return X


TRAIN, VALID = pack(table(1501, 0)), pack(table(613, 1))
UNEQUAL = np.random.default_rng(2).uniform(0.0, 3.0, TRAIN.n_rows)


def train(how: Boosting, **options) -> Conditional:
    return Conditional.train(TRAIN, VALID, POSITION, how, **options)


def arrays(c: Conditional) -> list[np.ndarray]:
    return [c.trees.splits, c.trees.gains, c.trees.values, c.trees.offsets, c.train_curve, c.valid_curve]


def assert_same_bits(some: list[np.ndarray], others: list[np.ndarray]) -> None:
    for a, b in zip(some, others, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("weight", [None, UNEQUAL], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("how", VARIANTS.values(), ids=VARIANTS)
def test_leaves_curves_and_scores_are_the_same_bits_on_all_paths(simd, on_portable, how, weight):
    def everything() -> list[np.ndarray]:
        c = train(how, weight=weight, seed=3)
        again = c.refit(VALID, how)
        return [
            *arrays(c),
            again.trees.values,
            oracle.log_odds(c, VALID),
            oracle.log_odds(again, TRAIN, 5),
            c.curve(VALID),
        ]

    assert_same_bits(everything(), on_portable(everything))


@pytest.mark.parametrize("splits", ["exact", "fast"])
def test_trees_of_a_thousand_leaves_are_the_same_bits_and_route_every_row(simd, on_portable, splits):
    rng = np.random.default_rng(4)
    bits = pack(rng.integers(0, 2, (6000, 15)))
    how = Boosting(max_leaf_nodes=1000, learning_rate=0.5, max_iter=3, splits=splits)

    def run() -> Conditional:
        return Conditional.train(bits, bits, 14, how)

    c = run()
    assert_same_bits(arrays(c), arrays(on_portable(run)))
    assert (np.diff(c.trees.offsets) == 999).all()
    X = bits.unpack().astype(float)
    log_odds = np.zeros(len(X))
    for t in range(3):
        leaf = oracle.assign(X, oracle.splits_of(c.trees, t))
        assert np.unique(leaf).size == 1000  # no split leaves a side empty
        log_odds += oracle.values_of(c.trees, t)[leaf]
        np.testing.assert_array_equal(oracle.log_odds(c, bits, t + 1) * LOG_ODDS_UNIT, log_odds)
    np.testing.assert_array_equal(c.valid_curve, c.train_curve)


@pytest.mark.parametrize("name", ["dna", "nips"])
def test_real_columns_are_the_same_bits_on_all_paths(simd, on_portable, shared_data, name):
    data = shared_data(name)
    how = Boosting(max_leaf_nodes=16, max_iter=10)

    def run() -> list[np.ndarray]:
        c = Conditional.train(data.train, data.valid, data.train.n_columns - 1, how)
        return [*arrays(c), oracle.log_odds(c, data.test), c.curve(data.test)]

    assert_same_bits(run(), on_portable(run))


@pytest.mark.parametrize("weight", [None, UNEQUAL], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("name", ["exact", "fast4", "gradient"])
@pytest.mark.parametrize("first", [0, 1, 7, 12])
def test_more_rounds_give_what_one_longer_run_gives(name, weight, first):
    how = VARIANTS[name]
    begun = train(replace(how, max_iter=first), weight=weight, seed=5)
    assert len(begun.trees) == first
    extended = begun.extend(TRAIN, VALID, how, weight=weight, seed=5)
    assert_same_bits(arrays(extended), arrays(train(how, weight=weight, seed=5)))


@pytest.mark.parametrize("init", ["prior", "linear"])
@pytest.mark.parametrize("first", [1, 40, 75, 120, 299])
def test_more_rounds_give_what_one_longer_run_gives_in_and_after_the_start(init, first):
    how = replace(VARIANTS["fast4"], init=init, max_iter=300)
    whole = train(how)
    extended = train(replace(how, max_iter=first)).extend(TRAIN, VALID, how)
    assert_same_bits(arrays(extended), arrays(whole))
    assert extended.n_start == whole.n_start


def test_a_linear_start_is_of_stumps_up_to_their_best_on_validation():
    how = Boosting(max_leaf_nodes=8, learning_rate=0.05, max_iter=300, init="linear")
    stumps = train(replace(how, init="half", max_leaf_nodes=2, learning_rate=0.5))
    c = train(how)
    sizes = np.diff(c.trees.offsets)
    assert 5 < c.n_start < 250
    assert c.n_start == stumps.valid_curve[: c.n_start + 50].argmax()
    assert_same_bits([c.head(c.n_start).trees.values], [stumps.trees.head(c.n_start).values])
    assert (sizes[: c.n_start] == 1).all()
    assert sizes[c.n_start :].mean() > 6
    assert c.valid_curve.max() > stumps.valid_curve.max()


def test_a_linear_start_may_have_a_rate_of_its_own():
    how = Boosting(max_leaf_nodes=8, learning_rate=0.05, max_iter=300, init="linear", init_rate=0.1)
    stumps = train(replace(how, init="half", max_leaf_nodes=2, learning_rate=0.1))
    c = train(how)
    assert c.n_start > 5
    assert_same_bits([c.head(c.n_start).trees.values], [stumps.trees.head(c.n_start).values])
    renewed = c.refit(TRAIN, how)
    assert_same_bits([renewed.trees.values], [c.trees.values])


@pytest.mark.parametrize("init", ["prior", "linear"])
def test_a_start_leaves_rounds_for_trees_where_there_are_few(init):
    c = train(Boosting(max_leaf_nodes=8, learning_rate=0.1, max_iter=40, init=init))
    assert len(c.trees) == 40
    assert c.n_start < 30
    assert np.diff(c.trees.offsets)[c.n_start :].mean() > 6


def test_a_start_is_never_longer_than_two_hundred_rounds():
    slow = Boosting(max_leaf_nodes=8, learning_rate=0.0005, max_iter=300, init="linear")
    assert train(slow).n_start == 200
    assert train(replace(slow, max_iter=150)).n_start == 150


def test_a_start_at_the_prior_is_the_base_rate():
    c = train(Boosting(max_iter=200, init="prior")).head(30)
    assert not len(c.head(c.n_start).trees.splits)
    rate = TRAIN.column(POSITION).mean()
    start = oracle.log_odds(c, TRAIN, c.n_start)[0] * LOG_ODDS_UNIT
    assert start == pytest.approx(np.log(rate / (1 - rate)), abs=0.02)


def test_trees_already_there_are_never_changed_by_more_rounds():
    begun = train(replace(VARIANTS["exact"], max_iter=5))
    before = [a.copy() for a in arrays(begun)]
    longer = begun.extend(TRAIN, VALID, VARIANTS["exact"])
    assert_same_bits(arrays(begun), before)
    assert_same_bits(arrays(begun)[:4], arrays(replace(longer, trees=longer.trees.head(5)))[:4])


@pytest.mark.parametrize("weight", [None, UNEQUAL], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("how", VARIANTS.values(), ids=VARIANTS)
def test_curves_of_training_are_those_of_evaluation(how, weight):
    valid_weight = None if weight is None else weight[: VALID.n_rows]
    c = train(how, weight=weight, valid_weight=valid_weight)
    assert len(c.train_curve) == len(c.valid_curve) == len(c.trees) + 1
    assert_same_bits([c.curve(TRAIN, weight), c.curve(VALID, valid_weight)], [c.train_curve, c.valid_curve])
    assert c.train_curve[0] == pytest.approx(-np.log(2.0), abs=1e-7)


def test_a_curve_is_the_mean_of_the_rows_log_likelihoods():
    c = train(VARIANTS["fast6"])
    for t in range(len(c.trees) + 1):
        scores = log_likelihoods(oracle.log_odds(c, VALID, t), VALID.columns[POSITION])
        assert scores.sum() * UNIT / VALID.n_rows == c.valid_curve[t]


def test_a_weighted_curve_is_the_weighted_mean_of_the_rows_log_likelihoods():
    c = train(VARIANTS["fast6"], weight=UNEQUAL)
    scores = log_likelihoods(oracle.log_odds(c, TRAIN), TRAIN.columns[POSITION]) * UNIT
    assert c.train_curve[-1] == pytest.approx(np.average(scores, weights=UNEQUAL), abs=1e-7)


@pytest.mark.parametrize("n", [1, 63, 64, 511, 512, 513, 613])
def test_log_odds_are_integer_sums_of_the_leaves_on_the_rows_path(simd, n):
    c = train(VARIANTS["fast6"])
    bits = PackedBits(VALID.rows[:n], VALID.n_columns)
    X = bits.unpack().astype(float)
    expected = np.zeros(n)
    for t in range(len(c.trees) + 1):
        log_odds = oracle.log_odds(c, bits, t)
        assert log_odds.dtype == np.int32
        np.testing.assert_array_equal(log_odds * LOG_ODDS_UNIT, expected)
        if t < len(c.trees):
            expected += oracle.values_of(c.trees, t)[oracle.assign(X, oracle.splits_of(c.trees, t))]
    np.testing.assert_array_equal(oracle.log_odds(c, bits), oracle.log_odds(c, bits, len(c.trees)))
    np.testing.assert_array_equal(c.trees.head(4).log_odds(bits.columns, bits.n_rows), oracle.log_odds(c, bits, 4))


def test_columns_at_and_after_the_position_are_not_looked_at():
    X = TRAIN.unpack()
    c = train(VARIANTS["exact"])
    assert c.trees.splits[:, 1].max() < POSITION
    X = np.column_stack([X, X[:, POSITION], 1 - X[:, POSITION]])
    more = Conditional.train(pack(X), pack(X), POSITION, VARIANTS["exact"])
    assert_same_bits(arrays(more)[:4], arrays(c)[:4])
    X[:, POSITION:] ^= 1
    np.testing.assert_array_equal(oracle.log_odds(more, pack(X)), oracle.log_odds(more, TRAIN))


@pytest.mark.parametrize("weight", [None, UNEQUAL], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("how", VARIANTS.values(), ids=VARIANTS)
def test_refit_on_the_same_rows_gives_the_same_leaves(how, weight):
    c = train(how, weight=weight)
    again = c.refit(TRAIN, how, weight=weight)
    assert_same_bits([again.trees.values, again.trees.splits], [c.trees.values, c.trees.splits])


@pytest.mark.parametrize("weighted", [False, True])
def test_refit_on_other_rows_gives_the_oracles_leaf_updates(weighted):
    how = replace(VARIANTS["fast6"], l2_regularization=0.5)
    c = train(how)
    other = table(333, 6).astype(float)
    weight = np.random.default_rng(7).uniform(0.1, 2.0, 333) if weighted else None
    trees = [oracle.splits_of(c.trees, t) for t in range(len(c.trees))]
    expected = oracle.refit(other, other[:, POSITION], trees, how, weight)
    again = c.refit(pack(other), how, weight=weight)
    assert again.trees.splits is c.trees.splits
    np.testing.assert_allclose(again.trees.values * LOG_ODDS_UNIT, np.concatenate(expected), rtol=0, atol=2.0**-18)


def test_a_leaf_that_meets_no_row_in_a_refit_gets_zero():
    c = train(VARIANTS["exact"])
    ones = pack(np.ones((5, POSITION + 1)))
    again = c.refit(ones, VARIANTS["exact"])
    for t in range(len(c.trees)):
        values = oracle.values_of(again.trees, t)
        met = oracle.assign(ones.unpack(), oracle.splits_of(c.trees, t))[0]
        assert values[met] > 0
        assert not np.delete(values, met).any()


# Few enough rows and rounds enough that the cap is reached.
FEW, OTHERS = pack(table(40, 8)), pack(table(60, 9))
CAPPED = Boosting(max_leaf_nodes=8, learning_rate=0.5, max_iter=60, cap=True)


def limit_of(n: int) -> int:
    return round(np.log(2 * (n + 1) - 1) / LOG_ODDS_UNIT)


@pytest.mark.parametrize("weight", [None, UNEQUAL[:40]], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("init", ["half", "linear"])
def test_a_cap_that_is_reached_gives_the_same_bits_on_all_paths_resumed_and_refitted(simd, on_portable, init, weight):
    how = replace(CAPPED, init=init)

    def run() -> Conditional:
        return Conditional.train(FEW, OTHERS, POSITION, how, weight=weight)

    c = run()
    assert np.abs(oracle.log_odds(c, FEW)).max() == c.trees.limit == limit_of(40)
    assert_same_bits(arrays(c), arrays(on_portable(run)))
    begun = Conditional.train(FEW, OTHERS, POSITION, replace(how, max_iter=25), weight=weight)
    assert_same_bits(arrays(begun.extend(FEW, OTHERS, how, weight=weight)), arrays(c))
    assert_same_bits([c.refit(FEW, how, weight=weight).trees.values], [c.trees.values])


def test_capped_log_odds_are_the_sums_of_the_leaves_cut_off_at_the_limit(simd):
    c = Conditional.train(FEW, OTHERS, POSITION, CAPPED)
    for t in (0, 5, 60):
        head = c.trees.head(t)
        sums = replace(head, limit=NO_LIMIT).log_odds(OTHERS.columns, OTHERS.n_rows)
        capped = head.log_odds(OTHERS.columns, OTHERS.n_rows)
        np.testing.assert_array_equal(capped, np.clip(sums, -c.trees.limit, c.trees.limit))
        scores = log_likelihoods(capped, OTHERS.columns[POSITION])
        assert scores.sum() * UNIT / OTHERS.n_rows == c.valid_curve[t]
    np.testing.assert_array_equal(c.curve(OTHERS), c.valid_curve)


def test_the_limit_counts_the_rows_with_weight_that_a_model_was_trained_or_refitted_on():
    weight = np.r_[np.zeros(15), np.full(25, 3.0)]
    c = Conditional.train(FEW, OTHERS, POSITION, CAPPED, weight=weight)
    assert c.trees.limit == limit_of(25)
    assert c.head(3).trees.limit == limit_of(25)
    assert c.refit(OTHERS, CAPPED).trees.limit == limit_of(60)
    assert c.refit(OTHERS, replace(CAPPED, cap=False)).trees.limit == NO_LIMIT
    assert Conditional.train(FEW, OTHERS, POSITION, replace(CAPPED, cap=False)).trees.limit == NO_LIMIT


def test_a_cap_that_is_not_reached_changes_nothing():
    how = VARIANTS["fast6"]
    bounded = train(replace(how, cap=True))
    assert_same_bits(arrays(bounded), arrays(train(how)))
    assert bounded.trees.limit == limit_of(TRAIN.n_rows)


def test_refit_on_other_rows_gives_the_oracles_capped_leaf_updates():
    how = replace(CAPPED, l1_regularization=0.2, max_iter=25)
    c = Conditional.train(FEW, OTHERS, POSITION, how)
    other = OTHERS.unpack().astype(float)
    trees = [oracle.splits_of(c.trees, t) for t in range(len(c.trees))]
    expected = oracle.refit(other, other[:, POSITION], trees, how)
    again = c.refit(OTHERS, how)
    np.testing.assert_allclose(again.trees.values * LOG_ODDS_UNIT, np.concatenate(expected), rtol=0, atol=2.0**-16)


@pytest.mark.parametrize("patience", [1, 3, 10])
def test_training_stops_when_validation_has_not_improved_for_so_many_rounds(patience):
    how = Boosting(max_leaf_nodes=32, learning_rate=0.5, max_iter=200)
    endless = train(how)
    stopped = train(replace(how, n_iter_no_change=patience))
    n = len(stopped.trees)
    assert 0 < n < 200
    assert n == np.argmax(stopped.valid_curve) + patience
    assert_same_bits(arrays(stopped)[4:], [endless.train_curve[: n + 1], endless.valid_curve[: n + 1]])
    assert_same_bits([stopped.trees.values], [endless.trees.head(n).values])
    resumed = train(replace(how, max_iter=n - 1)).extend(TRAIN, VALID, replace(how, n_iter_no_change=patience))
    assert_same_bits(arrays(resumed), arrays(stopped))
    assert_same_bits(arrays(stopped.extend(TRAIN, VALID, replace(how, n_iter_no_change=patience))), arrays(stopped))


def test_the_gil_is_released_and_a_cancel_flag_stops_training():
    cancel, training = _core.CancelFlag(), threading.Event()

    def stop_it() -> None:
        training.wait()
        cancel.set()

    other = threading.Thread(target=stop_it)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)  # from here on threads take turns only where the GIL is released
    try:
        other.start()
        training.set()
        with pytest.raises(_core.Cancelled):
            Conditional.train(TRAIN, VALID, POSITION, Boosting(max_iter=20_000), cancel=cancel)
    finally:
        sys.setswitchinterval(interval)
    other.join()
    assert cancel.is_set()


def test_a_cancel_flag_already_set_stops_training_and_refit_before_the_first_tree():
    cancel = _core.CancelFlag()
    assert not cancel.is_set()
    c = train(VARIANTS["fast6"], cancel=cancel)
    cancel.set()
    with pytest.raises(_core.Cancelled):
        train(VARIANTS["fast6"], cancel=cancel)
    with pytest.raises(_core.Cancelled):
        c.extend(TRAIN, VALID, replace(VARIANTS["fast6"], max_iter=20), cancel=cancel)
    with pytest.raises(_core.Cancelled):
        c.refit(TRAIN, VARIANTS["fast6"], cancel=cancel)


def test_the_core_refuses_rows_that_do_not_fit():
    with pytest.raises(ValueError, match="one value per row"):
        train(VARIANTS["fast6"], weight=np.ones(7))
    with pytest.raises(ValueError, match="no such column"):
        Conditional.train(TRAIN, VALID, POSITION + 1, VARIANTS["fast6"])
    with pytest.raises(ValueError, match="number of words"):
        train(VARIANTS["fast6"]).trees.log_odds(TRAIN.columns, TRAIN.n_rows + 5000)


def test_the_core_refuses_parameters_that_it_cannot_work_with():
    for wrong in (0, 65_536):
        with pytest.raises(ValueError, match="max_leaf_nodes"):
            train(Boosting(max_leaf_nodes=wrong))
    for wrong in (1, 7):
        with pytest.raises(ValueError, match="split_bits"):
            train(Boosting(split_bits=wrong))
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match="l1_regularization"):
            train(Boosting(l1_regularization=wrong))


def test_training_is_not_continued_from_curves_of_another_length():
    c = train(VARIANTS["fast6"])
    for some in (0, 1, len(c.trees)):
        for broken in (replace(c, train_curve=c.train_curve[:some]), replace(c, valid_curve=c.valid_curve[:some])):
            with pytest.raises(ValueError, match="one value more than there are trees"):
                broken.extend(TRAIN, VALID, replace(VARIANTS["fast6"], max_iter=20))
