"""What ``fit`` and its options promise: selections, warm starts, early stops, refits, weights, seeds and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from lbarn import LBARN
from lbarn._training.selection import SELECTIONS
from networks import assert_same_network, quick, rows, still_rising, tensors

X, VALID, TEST = rows(400, 7), rows(120, 7, seed=1), rows(200, 7, seed=2)
VARIANTS = [
    {"init": "linear"},
    {},
    {"order": "random", "split_bits": 2},
    {"order": "entropy-decreasing"},
    {"boosting": "gradient", "max_leaf_nodes": 2},
    {"splits": "exact", "max_leaf_nodes": 16},
    {"min_gain": 0.1, "l2_regularization": 2.0},
    {"l1_regularization": 0.5, "cap": True},
]


@still_rising
class TestSelect:
    @pytest.mark.parametrize("method", SELECTIONS)
    def test_equals_a_fresh_fit_and_never_sets_the_parameter(self, method: str) -> None:
        model = quick(max_iter=60).fit(X)
        assert model.select(method) is model
        assert model.selection == "individual"
        assert model.selection_ == method
        fresh = quick(max_iter=60, selection=method).fit(X)
        assert_same_network(model, fresh)
        assert model.score(TEST) == fresh.score(TEST)

    def test_can_go_back_and_forth(self) -> None:
        model = quick(max_iter=60).fit(X)
        before, score = model.n_trees_.copy(), model.score(TEST)
        assert (model.select("common").n_trees_ != before).any()
        assert model.score(TEST) != score
        np.testing.assert_array_equal(model.select("individual").n_trees_, before)
        assert model.score(TEST) == score

    def test_another_name_is_refused(self) -> None:
        with pytest.raises(ValueError, match="selection must be one of individual, common"):
            quick().fit(X).select("best")

    def test_curves_and_numbers_of_trees_are_in_the_columns_own_order(self) -> None:
        model = quick(order="random", max_iter=30).fit(X, X_val=VALID)
        assert model.n_trees_.shape == (7,)
        assert model.train_curve_.shape == model.valid_curve_.shape == (7, 31)
        np.testing.assert_array_equal(model.n_trees_, model.valid_curve_.argmax(axis=1))
        np.testing.assert_allclose(model.train_curve_[:, 0], -np.log(2), atol=1e-8)
        best = model.valid_curve_.max(axis=1)
        np.testing.assert_allclose(-model.surprise(VALID).mean(axis=0), best, atol=1e-8)


@still_rising
class TestWarmStart:
    @pytest.mark.parametrize("refit", [False, True])
    @pytest.mark.parametrize("parameters", VARIANTS, ids=str)
    def test_continued_equals_one_run_bit_for_bit(self, parameters: dict[str, Any], refit: bool) -> None:
        whole = quick(max_iter=30, refit=refit, **parameters).fit(X)
        model = quick(max_iter=10, refit=refit, warm_start=True, **parameters).fit(X)
        model.set_params(max_iter=17).fit(X)
        assert_same_network(model.set_params(max_iter=30).fit(X), whole)
        assert_same_network(model.fit(X), whole)

    def test_the_seed_is_kept_where_none_was_given(self) -> None:
        model = quick(max_iter=10, warm_start=True, random_state=None).fit(X)
        seed = model.seed_
        model.set_params(max_iter=20).fit(X)
        assert model.seed_ == seed
        assert np.isfinite(model.score(TEST))

    def test_selection_and_refit_may_change_on_the_way(self) -> None:
        model = quick(max_iter=10, warm_start=True, refit=True).fit(X).select("common")
        model.set_params(max_iter=30, selection="linearized", refit=False).fit(X)
        assert_same_network(model, quick(max_iter=30, selection="linearized").fit(X))

    def test_an_automatic_choice_is_kept(self) -> None:
        model = quick(max_leaf_nodes="auto", max_iter=10, warm_start=True).fit(X)
        chosen, table = model.max_leaf_nodes_, model.search_results_
        model.set_params(max_iter=30).fit(X)
        assert (model.max_leaf_nodes_, model.search_results_) == (chosen, table)
        assert_same_network(model, quick(max_leaf_nodes=chosen, max_iter=30).fit(X))

    @pytest.mark.parametrize(
        "others",
        [{"X": TEST}, {"X": X, "X_val": VALID}, {"X": X, "sample_weight": np.arange(400.0)}, {"X": X[:, :6]}],
        ids=["rows", "X_val", "weights", "columns"],
    )
    def test_other_data_is_refused(self, others: dict[str, Any]) -> None:
        model = quick(warm_start=True).fit(X)
        with pytest.raises(ValueError, match="continues on the same data; these are others"):
            model.set_params(max_iter=30).fit(**others)

    @pytest.mark.parametrize(
        "change", [{"learning_rate": 0.1}, {"order": "random"}, {"split_bits": 3}, {"max_leaf_nodes": 8}], ids=str
    )
    def test_other_parameters_are_refused_by_name(self, change: dict[str, Any]) -> None:
        model = quick(warm_start=True).fit(X)
        with pytest.raises(ValueError, match=f"but {next(iter(change))} changed: set warm_start=False"):
            model.set_params(max_iter=30, **change).fit(X)

    def test_fewer_rounds_are_refused(self) -> None:
        model = quick(warm_start=True).fit(X)
        with pytest.raises(ValueError, match="max_iter=5 is less than the 20 rounds already trained"):
            model.set_params(max_iter=5).fit(X)

    def test_without_it_every_fit_begins_anew(self) -> None:
        model = quick().fit(TEST)
        assert_same_network(model.fit(X), quick().fit(X))


class TestEarlyStop:
    def test_is_the_long_run_cut_with_its_curve_held_flat(self) -> None:
        whole = quick(max_iter=200).fit(X)
        model = quick(max_iter=200, n_iter_no_change=5).fit(X)
        assert model.valid_curve_.shape == (7, 201)
        for column in range(7):
            curve = model.valid_curve_[column]
            trained = len(model.run_.trees[column])
            best = int(curve.argmax())
            assert trained == min(best + 5, 200)
            np.testing.assert_array_equal(curve[: trained + 1], whole.valid_curve_[column, : trained + 1])
            assert (curve[trained:] == curve[trained]).all()
            assert model.n_trees_[column] == best
        assert any(len(trees) < 200 for trees in model.run_.trees)

    def test_a_patience_longer_than_the_run_changes_nothing(self) -> None:
        assert_same_network(quick(max_iter=60, n_iter_no_change=60).fit(X), quick(max_iter=60).fit(X))

    @still_rising
    def test_continues_bit_for_bit(self) -> None:
        model = quick(max_iter=10, n_iter_no_change=5, warm_start=True).fit(X)
        whole = quick(max_iter=100, n_iter_no_change=5).fit(X)
        assert_same_network(model.set_params(max_iter=100).fit(X), whole)

    @pytest.mark.parametrize("method", sorted(set(SELECTIONS) - {"individual"}))
    def test_is_refused_with_selections_that_need_whole_curves(self, method: str) -> None:
        message = f"n_iter_no_change works with selection='individual' only, not '{method}'"
        with pytest.raises(ValueError, match=message):
            quick(n_iter_no_change=5, selection=method).fit(X)
        with pytest.raises(ValueError, match=message):
            quick(n_iter_no_change=5).fit(X).select(method)


@still_rising
class TestRefit:
    @pytest.mark.parametrize("parameters", VARIANTS, ids=str)
    def test_equals_refit_leaves_on_training_and_validation_rows(self, parameters: dict[str, Any]) -> None:
        at_once = quick(refit=True, **parameters).fit(X, X_val=VALID)
        model = quick(**parameters).fit(X, X_val=VALID)
        score = model.score(TEST)
        assert model.refit_leaves(np.concatenate([X, VALID])) is model
        assert_same_network(model, at_once)
        assert model.score(TEST) != score

    def test_keeps_splits_curves_and_selection_and_can_select_again(self) -> None:
        plain, model = quick(max_iter=60).fit(X, X_val=VALID), quick(max_iter=60, refit=True).fit(X, X_val=VALID)
        for name, tensor in tensors(plain).items():
            assert (tensors(model)[name] == tensor).all() == (name != "values"), name
        common = quick(max_iter=60, refit=True, selection="common").fit(X, X_val=VALID)
        assert_same_network(model.select("common"), common)

    def test_on_the_training_rows_finds_the_same_leaves(self) -> None:
        model = quick().fit(X, X_val=VALID)
        assert_same_network(quick().fit(X, X_val=VALID).refit_leaves(X), model)

    def test_a_leaf_that_meets_no_row_gets_zero(self) -> None:
        model = quick(max_leaf_nodes=2).fit(X, X_val=VALID).refit_leaves(np.zeros((10, 7), int))
        for trees in model.run_.trees[1:]:
            leaves = trees.values.reshape(-1, 2)  # rows with a 0 at the split, rows with a 1
            assert not leaves[:, 1].any()
            assert (leaves[:5, 0] < 0).all()


@still_rising
class TestWeights:
    def weights(self, n: int, seed: int) -> NDArray[np.int64]:
        return np.random.default_rng(seed).integers(0, 4, n)

    @pytest.mark.parametrize("parameters", [{}, {"boosting": "gradient"}, {"refit": True, "order": "random"}], ids=str)
    def test_integer_weights_equal_repeated_rows(self, parameters: dict[str, Any]) -> None:
        w, w_val = self.weights(len(X), 0), self.weights(len(VALID), 1)
        how = {"splits": "exact", "max_iter": 40, **parameters}
        weighted = quick(**how).fit(X, X_val=VALID, sample_weight=w, sample_weight_val=w_val)
        repeated = quick(**how).fit(np.repeat(X, w, axis=0), X_val=np.repeat(VALID, w_val, axis=0))
        np.testing.assert_allclose(weighted.train_curve_, repeated.train_curve_, rtol=0, atol=1e-5)
        np.testing.assert_allclose(weighted.valid_curve_, repeated.valid_curve_, rtol=0, atol=1e-5)
        as_many = weighted.run_.network(repeated.n_trees_[repeated.order_])  # a tie may fall either way
        np.testing.assert_allclose(as_many.log_likelihood(TEST == 1), repeated.score_samples(TEST), rtol=0, atol=1e-4)

    def test_only_their_proportions_count(self) -> None:
        w = 0.5 + self.weights(len(X), 0)
        one, many = quick().fit(X, sample_weight=w), quick().fit(X, sample_weight=w * 1024)
        assert_same_network(one, many)
        assert_same_network(quick().fit(X, sample_weight=np.full(len(X), 7.0)), quick().fit(X))

    def test_of_held_out_rows_are_used_in_validation(self) -> None:
        w = 0.5 + self.weights(len(X), 0)
        model = quick().fit(X, sample_weight=w)
        shuffled = np.random.default_rng([model.seed_, 0]).permutation(len(X))
        valid, train = np.sort(shuffled[:80]), np.sort(shuffled[80:])
        split = quick().fit(X[train], X_val=X[valid], sample_weight=w[train], sample_weight_val=w[valid])
        assert_same_network(model, split)

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            ({"sample_weight": np.ones(3)}, "sample_weight.shape"),
            ({"sample_weight": -np.ones(400)}, "[Nn]egative"),
            ({"sample_weight": np.zeros(400)}, "zero"),
            ({"sample_weight": np.full(400, np.nan)}, "NaN"),
            ({"sample_weight_val": np.ones(80)}, "without X_val"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_that_make_no_sense_are_refused(self, weights: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            quick().fit(X, **weights)


@still_rising
@pytest.mark.parametrize("parameters", VARIANTS, ids=str)
def test_jobs_and_simd_paths_do_not_change_the_model(simd: str, parameters: dict[str, Any], on_portable: Any) -> None:
    one = on_portable(lambda: quick(**parameters).fit(X))
    assert_same_network(quick(n_jobs=2, **parameters).fit(X), one)


@still_rising
def test_every_kind_of_random_state_seeds_the_fit() -> None:
    by_number = quick(random_state=3, order="random").fit(X)
    rng = np.random.RandomState(3)
    assert_same_network(quick(random_state=rng, order="random").fit(X), by_number)
    assert quick(random_state=rng).fit(X).seed_ != by_number.seed_, "a RandomState moves on"
    unseeded = [quick(random_state=None).fit(X).seed_ for _ in range(3)]
    assert len(set(unseeded)) == 3
    assert (quick(random_state=4, order="random").fit(X).order_ != by_number.order_).any()


@pytest.mark.parametrize("order", [[0, 1, 2], [0, 1, 2, 3, 4, 5, 5], list(range(1, 8))], ids=str)
def test_an_order_that_is_no_permutation_is_refused(order: list[int]) -> None:
    with pytest.raises(ValueError, match=r"or a permutation of 0\.\.6"):
        quick(order=order).fit(X)


@pytest.mark.parametrize(("n", "fraction"), [(1, 0.2), (2, 0.2), (10, 0.01), (10, 0.99)])
def test_a_hold_out_that_leaves_nothing_is_refused(n: int, fraction: float) -> None:
    with pytest.raises(ValueError, match=rf"validation_fraction={fraction} of {n} sample.*give more rows, or X_val"):
        quick(validation_fraction=fraction).fit(X[:n])


@still_rising
def test_one_row_is_enough_where_there_are_validation_rows() -> None:
    assert np.isfinite(quick().fit(X[:1], X_val=VALID[:1]).score(TEST))


def test_a_curve_that_still_rises_warns_and_names_the_remedy() -> None:
    message = "still rising at max_iter=5; raise max_iter .*warm_start=True.*learning_rate='auto'"
    with pytest.warns(ConvergenceWarning, match=message) as caught:
        quick(max_iter=5, learning_rate=0.02).fit(X)
    assert caught[0].filename == __file__
    quick(max_iter=100).fit(X)  # does not warn


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_leaf_nodes": 1},
        {"max_leaf_nodes": "many"},
        {"learning_rate": 0},
        {"learning_rate": 1.5},
        {"max_iter": 0},
        {"selection": "best"},
        {"order": "reverse"},
        {"boosting": "ada"},
        {"splits": "slow"},
        {"split_bits": 7},
        {"min_gain": -1.0},
        {"l2_regularization": -1.0},
        {"init": "zero"},
        {"l1_regularization": -1.0},
        {"cap": 2},
        {"max_features": 0.0},
        {"max_features": 1.5},
        {"n_iter_no_change": 0},
        {"validation_fraction": 1.0},
        {"n_jobs": 1.5},
    ],
    ids=str,
)
def test_parameters_out_of_range_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"The '{next(iter(wrong))}' parameter of LBARN must be"):
        LBARN.paper(**wrong).fit(X)
