"""``"auto"``: what is chosen validates best, was not trained in vain, and is the fit with those values given."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import Trees
from lbarn._training.auto import LEAF_GRID, RATE_LADDER, Columns, in_sequence, search
from lbarn._training.curves import selected, validated
from networks import assert_same_network, quick, rows, still_rising

pytestmark = still_rising

FEW, MANY = rows(400, 7), rows(300, 24)


def test_leaves_are_the_best_of_the_grid_on_the_validation_rows() -> None:
    model = quick(max_leaf_nodes="auto", max_iter=60).fit(FEW)
    table = {row["max_leaf_nodes"]: row for row in model.search_results_}
    assert tuple(table) == LEAF_GRID
    for J, row in table.items():
        fixed = quick(max_leaf_nodes=J, max_iter=60).fit(FEW)
        assert row["n_dimensions"] == 7
        assert row["learning_rate"] == 0.3
        assert row["valid_log_likelihood"] == pytest.approx(fixed.valid_curve_.max(axis=1).sum(), abs=1e-12)
    assert model.max_leaf_nodes_ == max(table, key=lambda J: table[J]["valid_log_likelihood"])
    assert model.max_leaf_nodes == "auto"


@pytest.mark.parametrize("X", [FEW, MANY], ids=["few columns", "many"])
def test_auto_each_gives_every_column_the_leaves_that_validate_best_for_it(X: np.ndarray) -> None:
    model = quick(max_leaf_nodes="auto-each", max_iter=40).fit(X)
    fixed = {J: quick(max_leaf_nodes=J, max_iter=40).fit(X) for J in LEAF_GRID}
    best = np.array([fixed[J].valid_curve_.max(axis=1) for J in LEAF_GRID])
    np.testing.assert_array_equal(model.valid_curve_.max(axis=1), best.max(axis=0))
    chosen = best.argmax(axis=0)
    assert len(set(chosen)) > 1
    for d, c in enumerate(chosen):
        np.testing.assert_array_equal(model.valid_curve_[d], fixed[LEAF_GRID[c]].valid_curve_[d])
    assert model.max_leaf_nodes_ == LEAF_GRID[chosen.max()]
    for c, J in enumerate(LEAF_GRID):
        told = [row for row in model.search_results_ if row["max_leaf_nodes"] == J]
        assert sum(row["n_dimensions"] for row in told) == X.shape[1]
        assert sum(row["valid_log_likelihood"] for row in told) == pytest.approx(best[c].sum(), abs=1e-12)


def test_auto_each_continues_with_the_leaves_of_every_column() -> None:
    model = quick(max_leaf_nodes="auto-each", max_iter=20, warm_start=True).fit(MANY)
    curves = model.valid_curve_
    leaves = dict(model.run_.leaves)
    model.set_params(max_iter=50).fit(MANY)
    np.testing.assert_array_equal(model.valid_curve_[:, :21], curves)
    for d, J in leaves.items():
        fixed = quick(max_leaf_nodes=J, max_iter=50).fit(MANY)
        np.testing.assert_array_equal(model.valid_curve_[d], fixed.valid_curve_[d])


def test_auto_each_raises_the_learning_rate_as_auto_does() -> None:
    model = quick(max_leaf_nodes="auto-each", learning_rate="auto", max_iter=20).fit(FEW)
    assert model.learning_rate_ in RATE_LADDER[1:]
    assert model.search_results_[-1]["learning_rate"] == model.learning_rate_


@pytest.mark.parametrize("selection", ["individual", "common", "linearized"])
def test_the_chosen_model_is_the_one_fitted_with_those_values(selection: str) -> None:
    how = {"selection": selection, "refit": True, "max_iter": 15, "order": "random"}
    model = quick(max_leaf_nodes="auto", learning_rate="auto", **how).fit(MANY)
    fixed = quick(max_leaf_nodes=model.max_leaf_nodes_, learning_rate=model.learning_rate_, **how).fit(MANY)
    assert_same_network(model, fixed)
    assert not hasattr(fixed, "search_results_")


def test_an_interaction_asks_for_more_than_stumps() -> None:
    X = np.random.default_rng(0).integers(0, 2, (600, 4))
    X[:, 3] = X[:, 0] ^ X[:, 1]
    model = quick(max_leaf_nodes="auto", max_iter=60).fit(X)
    assert model.max_leaf_nodes_ >= 4
    assert model.score(X) > -3 * np.log(2) - 0.05


def test_hopeless_candidates_are_dropped_on_a_part_of_the_dimensions() -> None:
    model = quick(max_leaf_nodes="auto").fit(MANY)
    table = model.search_results_
    dimensions = [row["n_dimensions"] for row in table]
    assert dimensions == [3] * 7 + [6] * 4 + [12] * 2 + [24]
    assert table[-1]["max_leaf_nodes"] == model.max_leaf_nodes_
    first = sorted(table[:7], key=lambda row: row["valid_log_likelihood"], reverse=True)
    assert {row["max_leaf_nodes"] for row in table[7:11]} == {row["max_leaf_nodes"] for row in first[:4]}


def test_the_learning_rate_is_raised_while_validation_still_improves() -> None:
    short = quick(learning_rate="auto", max_iter=20).fit(FEW)
    tried = [row["learning_rate"] for row in short.search_results_]
    assert tried == list(RATE_LADDER[: len(tried)])
    assert short.learning_rate_ == tried[-1] > 0.02
    long = quick(learning_rate="auto", max_iter=1000).fit(FEW)
    assert long.learning_rate_ == 0.02
    assert long.learning_rate == "auto"


def test_jobs_do_not_change_the_choice() -> None:
    one = quick(max_leaf_nodes="auto").fit(MANY)
    two = quick(max_leaf_nodes="auto", n_jobs=2).fit(MANY)
    assert one.search_results_ == two.search_results_
    assert_same_network(one, two)


def test_a_fit_without_search_leaves_no_table_of_an_earlier_one() -> None:
    model = quick(max_leaf_nodes="auto").fit(FEW).set_params(max_leaf_nodes=4).fit(FEW)
    assert not hasattr(model, "search_results_")


@pytest.mark.parametrize("selection", ["individual", "linearized"])
def test_the_order_in_which_dimensions_finish_does_not_matter(selection: str) -> None:
    def run(seed: int) -> tuple[Any, ...]:
        shuffle = random.Random(seed).shuffle

        def train(positions: Sequence[int], how: Boosting) -> Columns:
            done = list(positions)
            shuffle(done)
            trained = {}
            for position in done:
                rng = np.random.default_rng([position, how.max_leaf_nodes])
                train_curve, valid_curve = np.cumsum(rng.normal(0.01, 0.02, (2, 21)), axis=1)
                curves = train_curve, valid_curve
                trained[position] = (
                    Conditional(position, replace(Trees.empty(), offsets=np.zeros(21, np.int64)), *curves),
                )
            return trained

        def judge(columns: Columns) -> float:
            own = in_sequence(columns)
            return validated(own, selected(selection, own, np.zeros(len(own), np.intp), 100.0, 100.0))

        how, _, tried = search(range(24), Boosting(max_iter=20), LEAF_GRID, (0.1,), judge, train)
        return how, tried

    assert all(run(seed) == run(0) for seed in range(1, 6))
