"""Trees are chosen on a column's own validation rows and on what all columns say together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from lbarn import LBARN
from lbarn._training.curves import with_peers

RNG = np.random.default_rng(0)
TOPIC = RNG.normal(size=(1300, 3))
BITS = (TOPIC @ RNG.normal(size=(3, 40)) + 1.5 * RNG.normal(size=(1300, 40)) > 0.7).astype(np.uint8)
TRAIN, VALID, TEST = BITS[:250], BITS[250:300], BITS[300:]
QUICK: dict[str, Any] = {"max_iter": 60, "learning_rate": 0.2, "n_iter_no_change": None, "random_state": 0}


def test_a_curve_is_joined_by_the_mean_of_its_peers() -> None:
    valid = np.array([[-1.0, -0.5, -0.7], [-1.0, -0.9, -0.1], [-2.0, -1.0, -3.0]])
    joined = with_peers(valid, np.ones(3), np.array([0, 0, 1]), n_valid=50.0, pooling=100.0)
    mean = (valid[0] + valid[1]) / 2
    np.testing.assert_allclose(joined, [50 * valid[0] + 100 * mean, 50 * valid[1] + 100 * mean, 150 * valid[2]])


def test_a_node_that_few_rows_reach_listens_to_the_others() -> None:
    valid = np.array([[0.9 * -1.0, 0.9 * -0.5], [0.01 * -0.4, 0.01 * -0.6]])  # by share of the rows
    joined = with_peers(valid, np.array([0.9, 0.01]), np.zeros(2, np.intp), n_valid=100.0, pooling=100.0)
    assert joined.argmax(axis=1).tolist() == [1, 1]


def test_few_validation_rows_choose_better_with_advice() -> None:
    alone, advised = (LBARN(pooling=own, **QUICK).fit(TRAIN, X_val=VALID) for own in (0.0, 100.0))
    assert advised.score(TEST) > alone.score(TEST) + 0.1
    assert np.ptp(advised.n_trees_) < np.ptp(alone.n_trees_)


def test_the_limits_are_each_by_itself_and_all_alike() -> None:
    model = LBARN(pooling=1e12, refit=False, **QUICK).fit(TRAIN, X_val=VALID)
    assert len(np.unique(model.n_trees_)) == 1
    assert model.n_trees_[0] == model.valid_curve_.sum(axis=0).argmax()
    alone = LBARN(pooling=0, refit=False, **QUICK).fit(TRAIN, X_val=VALID)
    np.testing.assert_array_equal(alone.n_trees_, alone.valid_curve_.argmax(axis=1))


def test_it_may_change_without_training_again() -> None:
    model = LBARN(pooling=0, warm_start=True, **QUICK).fit(TRAIN, X_val=VALID)
    again = model.set_params(pooling=100.0).fit(TRAIN, X_val=VALID)
    other = LBARN(pooling=100.0, **QUICK).fit(TRAIN, X_val=VALID)
    np.testing.assert_array_equal(again.n_trees_, other.n_trees_)
    np.testing.assert_array_equal(again.score_samples(TEST), other.score_samples(TEST))


@pytest.mark.parametrize("pooling", [0.0, 100.0])
def test_a_file_remembers_it(pooling: float, tmp_path: Any) -> None:
    from lbarn import load

    model = LBARN(pooling=pooling, **QUICK).fit(TRAIN, X_val=VALID)
    model.save(tmp_path / "model.lbarn")
    opened = load(tmp_path / "model.lbarn")
    np.testing.assert_array_equal(opened.select("individual").n_trees_, model.n_trees_)


def test_leaves_for_each_column_are_advised_too() -> None:
    each = {own: LBARN(max_leaf_nodes="auto-each", pooling=own, **QUICK).fit(TRAIN, X_val=VALID) for own in (0.0, 1e12)}
    assert len(set(each[0.0].run_.leaves.values())) > 1
    assert len(set(each[1e12].run_.leaves.values())) == 1


def test_nodes_of_a_table_listen_to_their_column() -> None:
    numbers = TOPIC[:600, 0] * 10
    table = pd.DataFrame(
        {"a": numbers.round(1), "b": (numbers + 3 * RNG.normal(size=600)).round(1), "c": BITS[:600, 0]}
    )
    alone, alike = (LBARN(pooling=own, max_iter=30, random_state=0).fit(table) for own in (0.0, 1e12))
    peers = alike.run_.layout.peers
    counts = [alike.run_.select("individual")[peers == k] for k in np.unique(peers)]
    learned = [~np.array([own.constant for own in alike.run_.conditionals])[peers == k] for k in np.unique(peers)]
    lengths = np.array([len(own.trees) for own in alike.run_.conditionals])
    for own, used, k in zip(counts, learned, np.unique(peers)):
        most = lengths[peers == k][used]
        assert len(np.unique(own[used][own[used] < most])) <= 1
    assert not np.array_equal(alone.run_.select("individual"), alike.run_.select("individual"))
