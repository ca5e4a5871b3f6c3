"""Networks of one order that hold out other rows, averaged: the log-odds of the average are the mean of theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import lbarn
from lbarn import LBARN, LBARNEnsemble
from lbarn._engine.bits import pack
from lbarn._network import modelfile
from lbarn._network.shorttrees import short_values
from lbarn._training.averaging import averaged
from lbarn._training.data import GivenRows
from mixed import people
from networks import all_states, assert_same_network, quick_ensemble, rows, still_rising

pytestmark = still_rising

D = 12
X, TEST = rows(600, D), rows(200, D, seed=1)
ORDERS = [np.arange(D), np.arange(D)[::-1]]


def networks(n: int, **parameters: Any) -> list[LBARN]:
    own = {"max_leaf_nodes": 4, "max_iter": 20, "learning_rate": 0.2, **parameters}
    return [LBARN(random_state=k, **own).fit(X) for k in range(n)]


def average(models: list[LBARN]) -> LBARN:
    counts = [np.array([len(trees) for trees in own.network_.trees]) for own in models]
    run = averaged([own.run_ for own in models], counts)
    all_trees = np.array([len(trees) for trees in run.trees])
    first = models[0]
    return LBARN().restored(run, "individual", all_trees, first.table_format_, first.base_rates_, first.codebook_)


def log_odds(model: LBARN) -> list[NDArray[np.float64]]:
    """Of every column, for the rows of TEST."""
    bits = pack(TEST)
    return [trees.log_odds(bits.columns, len(TEST)) / 2.0**20 for trees in model.network_.trees]


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_log_odds_are_the_mean(n: int, counts: bool) -> None:
    models = networks(n, counts=counts, cap=False, sharpen=False)
    each = [log_odds(own) for own in models]
    for d, own in enumerate(log_odds(average(models))):
        np.testing.assert_allclose(own, np.mean([odds[d] for odds in each], axis=0), atol=1e-4)


def test_the_average_of_one_is_the_same_network() -> None:
    (model,) = networks(1)
    np.testing.assert_array_equal(average([model]).score_samples(TEST), model.score_samples(TEST))


def test_leaves_renewed_on_the_same_rows_stay_about_the_same() -> None:
    model = average(networks(2, refit=True, cap=False, sharpen=False, l1_regularization=0.0))
    before = model.score(TEST)
    assert model.refit_leaves(X).score(TEST) == pytest.approx(before, abs=0.02)


def test_importances_are_the_mean() -> None:
    models = networks(2)
    expected = np.mean([own.feature_importances_ for own in models], axis=0)
    np.testing.assert_allclose(average(models).feature_importances_, expected, rtol=1e-3)


# ---------------------------------------------------------------- in ensembles


@pytest.fixture(scope="module")
def model() -> LBARNEnsemble:
    return quick_ensemble(orders=ORDERS, n_bags=3, refit=True).fit(X)


def test_one_member_for_every_order(model: LBARNEnsemble) -> None:
    np.testing.assert_array_equal([own.order_ for own in model.members_], ORDERS)
    one = quick_ensemble(orders=ORDERS, refit=True).fit(X)
    for averages, own in zip(model.members_, one.members_):
        assert averages.n_trees_.sum() > 2 * own.n_trees_.sum()
    assert model.score(TEST) > one.score(TEST)


def test_the_probabilities_of_all_states_sum_to_one() -> None:
    short = quick_ensemble(n_bags=2).fit(X[:, :8])
    assert np.exp(short.score_samples(all_states(8))).sum() == pytest.approx(1)


def test_the_number_of_jobs_changes_nothing(model: LBARNEnsemble) -> None:
    other = quick_ensemble(orders=ORDERS, n_bags=3, refit=True, n_jobs=2).fit(X)
    for a, b in zip(model.members_, other.members_):
        assert_same_network(a, b)


def test_a_file_keeps_it_bit_for_bit(model: LBARNEnsemble, tmp_path: Path) -> None:
    model.save(tmp_path / "a.lbarn")
    loaded = lbarn.load(tmp_path / "a.lbarn")
    np.testing.assert_array_equal(loaded.score_samples(TEST), model.score_samples(TEST))
    packed = model.compress(TEST)
    np.testing.assert_array_equal(loaded.decompress(packed), TEST)
    loaded.save(tmp_path / "b.lbarn")
    assert (tmp_path / "a.lbarn").read_bytes() == (tmp_path / "b.lbarn").read_bytes()


def test_its_file_takes_seven_bytes_a_split(model: LBARNEnsemble, tmp_path: Path) -> None:
    model.save(tmp_path / "a.lbarn")
    loaded = lbarn.load(tmp_path / "a.lbarn")
    for a, b in zip(loaded.members_, model.members_):
        assert_same_network(a, b)
        np.testing.assert_array_equal(a.feature_importances_, b.feature_importances_)
        stored = modelfile.to_parts(a, trim=False)[2]
        n_splits = sum(len(trees.splits) for trees in a.network_.trees)
        names = ("short_leaves", "short_positions", "short_gains")
        assert sum(stored[name].nbytes for name in names) == 5 * n_splits
        assert stored["short_values"].nbytes == 2 * (n_splits + int(a.n_trees_.sum()))


@pytest.mark.parametrize("largest", [1.0, 32767.4, 32768.0, 1e6, 2.0**30])
def test_leaf_values_are_rounded_to_16_bits(largest: float) -> None:
    values = np.random.default_rng(0).normal(size=1000)
    values *= largest / np.abs(values).max()
    short = short_values(values)
    assert np.abs(short - values).max() <= max(0.5, largest / 2**15)
    np.testing.assert_array_equal(short_values(short.astype(float)), short)


def test_it_cannot_select_again(model: LBARNEnsemble) -> None:
    with pytest.raises(ValueError, match="cannot select again"):
        model.select("common")


def test_weights_are_found_on_the_rows_that_each_network_held_out() -> None:
    good = np.arange(D)
    model = quick_ensemble(orders=[good, good[::-1]], n_bags=5, weights="em").fit(X)
    assert model.weights_.sum() == pytest.approx(1)
    assert (model.weights_ > 0).all()


def test_a_table_of_any_columns_is_averaged_too() -> None:
    frame = people(300)
    few = {"max_iter": 20, "learning_rate": 0.2, "random_state": 0}
    model = LBARNEnsemble(n_orders=2, orders="random", n_bags=3, **few).fit(frame)
    assert model.score(frame) > np.mean([own.score(frame) for own in model.members_])
    assert isinstance(model.sample(5, random_state=0), pd.DataFrame)


def test_a_checkpoint_gives_the_same_model(model: LBARNEnsemble, tmp_path: Path) -> None:
    parameters = {"orders": ORDERS, "n_bags": 3, "refit": True}
    for _ in range(2):
        again = quick_ensemble(**parameters).fit(X, checkpoint=tmp_path / "c")
        for a, b in zip(model.members_, again.members_):
            assert_same_network(a, b)
    assert {own.name for own in (tmp_path / "c").iterdir() if own.is_dir()} == {
        f"member-{k}{b}" for k in range(2) for b in ("", "-1", "-2")
    }


# ---------------------------------------------------------------- which rows are held out


def test_every_row_is_held_out_once_before_any_is_again() -> None:
    numbered = np.array([[n >> k & 1 for k in range(10)] for n in range(600)], np.uint8)
    given = GivenRows.read(LBARN(), numbered)

    def held(bag: int) -> list[int]:
        valid = given.bag(bag, 0.2, 7)
        assert valid.valid is not None
        assert valid.train.n_rows + valid.valid.n_rows == 600
        return (valid.valid.bits.unpack() @ (1 << np.arange(10))).tolist()

    assert sorted(n for b in range(5) for n in held(b)) == list(range(600))
    assert sorted(n for b in range(5, 10) for n in held(b)) == list(range(600))
    assert sorted(held(0)) != sorted(held(5))


def test_rows_to_validate_on_are_those_of_the_first_bag() -> None:
    given = GivenRows.read(LBARN(), X, TEST)
    first, second = given.bag(0, 0.2, 0), given.bag(1, 0.2, 0)
    assert first.valid is not None
    assert second.valid is not None
    assert (first.train.n_rows, first.valid.n_rows) == (600, 200)
    assert (second.train.n_rows, second.valid.n_rows) == (640, 160)


# ---------------------------------------------------------------- whether other orders help


def chain(n: int, seed: int = 0) -> NDArray[np.uint8]:
    """Easy to predict forwards: every column is a function of those before it that is hard to invert."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 2, (n, 8))
    pairs = [(first[:, i] & first[:, j]) ^ first[:, (i + j) % 8] for i in range(8) for j in range(i)]
    return np.concatenate([first, np.stack(pairs, axis=1)], axis=1).astype(np.uint8)


def test_an_order_that_is_much_better_is_kept() -> None:
    parameters = {"max_iter": 100, "learning_rate": 0.3, "random_state": 0, "counts": False, "groups": None}
    model = LBARNEnsemble(n_orders=3, n_bags=1, **parameters).fit(chain(400))
    assert [own.order_.tolist() for own in model.members_] == [list(range(36))]
    other = LBARNEnsemble(n_orders=3, n_bags=1, orders="random", **parameters).fit(chain(400))
    test = chain(1000, seed=1)
    assert model.score(test) > other.score(test)


def test_orders_that_are_as_good_are_mixed() -> None:
    model = LBARNEnsemble(n_orders=3, n_bags=1, max_iter=50, learning_rate=0.2, random_state=0).fit(X)
    assert len(model.members_) == 3
    np.testing.assert_array_equal(model.members_[0].order_, np.arange(D))
    assert model.valid_log_likelihood_ == pytest.approx(model.score(TEST), abs=0.3)


def test_images_are_read_in_scans() -> None:
    model = LBARNEnsemble(n_orders=2, n_bags=1, image_shape=(3, 4), max_iter=5, random_state=0).fit(X)
    np.testing.assert_array_equal(model.members_[1].order_[:3], [0, 4, 8])


def test_after_the_deadline_there_is_one_network() -> None:
    model = LBARNEnsemble(max_iter=5, random_state=0).fit_rows(GivenRows.read(LBARN(), X), deadline=0.0)
    assert len(model.members_) == 1
    assert np.isfinite(model.score(TEST))
