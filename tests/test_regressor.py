"""The regressor has the whole distribution of a number given any table, and behaves as scikit-learn's regressors do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.integrate import trapezoid
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import lbarn
from lbarn import LBARN, LBARNRegressor, ModelFileError
from lbarn.baselines import IndependentColumns
from mixed import brief, brief_ensemble, people
from networks import still_rising

pytestmark = still_rising

TRAIN, TEST = people(900), people(300, seed=1)
X, Y = TRAIN.drop(columns="hours"), TRAIN["hours"]
X_TEST, Y_TEST = TEST.drop(columns="hours"), TEST["hours"]


@pytest.fixture(scope="module")
def model() -> LBARNRegressor:
    return LBARNRegressor(brief(max_iter=60)).fit(X, Y)


EXCUSED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "rows are held out one by one: a row repeated is partly held out, a row of weight 2 is held out or not",
)


@parametrize_with_checks(
    [LBARNRegressor(brief(max_iter=10)), LBARNRegressor(brief_ensemble(max_iter=5))],
    expected_failed_checks=lambda _: EXCUSED,
)
def test_scikit_learns_own_checks_pass(estimator: LBARNRegressor, check: Any) -> None:
    check(estimator)


class TestDistribution:
    def test_the_mass_of_all_values_sums_to_one_and_has_the_mean_that_is_predicted(self, model: LBARNRegressor) -> None:
        values = np.arange(0, 60)
        log_p = np.stack([model.log_prob(X_TEST[:20], np.full(20, value)) for value in values], axis=1)
        np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1.0, atol=5e-3)  # the rest is outside the range
        np.testing.assert_allclose(np.exp(log_p) @ values, model.predict(X_TEST[:20]), atol=0.3)

    def test_a_density_integrates_to_one(self) -> None:
        own = X.drop(columns="income")[X.income.notna()], X.income[X.income.notna()].sample(frac=1, random_state=0)
        model = LBARNRegressor(brief(columns={"income": "continuous"})).fit(*own)
        assert model.network_.columns_["income"].measure == "density"
        grid = np.linspace(own[1].min(), own[1].max(), 20_001)
        density = np.exp(model.conditional(pd.concat([own[0][:1]] * len(grid))).log_prob(grid))
        assert trapezoid(density, grid) == pytest.approx(1.0, abs=0.01)

    def test_quantiles_are_of_the_distribution(self, model: LBARNRegressor) -> None:
        low, middle, high = model.predict_quantile(X_TEST, [0.1, 0.5, 0.9]).T
        assert (low <= middle).all()
        assert (middle <= high).all()
        inside = np.mean((low <= Y_TEST) & (high >= Y_TEST))
        assert inside == pytest.approx(0.85, abs=0.12)
        np.testing.assert_array_equal(model.predict_quantile(X_TEST), middle)
        np.testing.assert_array_equal(model.conditional(X_TEST).quantile(0.9), high)

    def test_what_the_other_columns_say_counts(self, model: LBARNRegressor) -> None:
        alone = IndependentColumns().fit(pd.DataFrame({"hours": Y}))
        assert model.log_prob(X_TEST, Y_TEST).mean() > alone.score(pd.DataFrame({"hours": Y_TEST})) + 0.5
        assert model.predict(X_TEST[~X_TEST.works.astype(bool)]).max() < 5

    def test_values_outside_the_range_are_possible(self, model: LBARNRegressor) -> None:
        far = model.log_prob(X_TEST[:4], np.array([-5, 99, 10_000, 38]))
        assert np.isfinite(far).all()
        assert (far[:3] < far[3]).all()

    def test_only_the_last_column_is_trained(self, model: LBARNRegressor) -> None:
        *others, own = model.network_.n_trees_
        assert not any(others)
        assert own > 0
        assert list(model.network_.table_format_.names) == [*X.columns, "hours"]
        joint = brief().fit(pd.concat([X, Y], axis=1)).conditional(X_TEST, "hours").mean()
        assert np.corrcoef(joint, model.predict(X_TEST))[0, 1] > 0.95

    def test_the_columns_that_are_not_trained_are_on_their_own(self, model: LBARNRegressor) -> None:
        alone, joint = IndependentColumns().fit(X), pd.concat([X_TEST, Y_TEST], axis=1)
        expected = alone.score_samples(X_TEST) + model.log_prob(X_TEST, Y_TEST)
        np.testing.assert_allclose(model.network_.score_samples(joint), expected, atol=1e-3)


def test_it_is_nearly_as_good_as_boosted_trees_that_know_the_mean_only() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(1300, 4))
    b = np.sin(2 * A[:, 0]) + A[:, 1] * (A[:, 2] > 0) + rng.normal(0, 0.3, 1300)
    model = LBARNRegressor(LBARN(max_iter=60, learning_rate=0.1, random_state=0)).fit(A[:1000], b[:1000])
    rival = GradientBoostingRegressor(random_state=0).fit(A[:1000], b[:1000])
    assert model.score(A[1000:], b[1000:]) > rival.score(A[1000:], b[1000:]) - 0.1
    assert model.score(A[1000:], b[1000:]) == r2_score(b[1000:], model.predict(A[1000:]))


class TestTables:
    @pytest.mark.parametrize("give", [pl.from_pandas, lambda X: X.convert_dtypes(), lambda X: X.to_numpy(object)])
    def test_any_table_will_do(self, give: Any, model: LBARNRegressor) -> None:
        own = X.assign(since=X.since.astype(str))
        expected = LBARNRegressor(brief()).fit(own, Y).predict(own[:50])
        found = LBARNRegressor(brief()).fit(give(own), Y.to_numpy()).predict(give(own[:50]))
        np.testing.assert_allclose(found, expected)

    def test_sparse_rows(self) -> None:
        A = (np.random.default_rng(0).random((300, 6)) < 0.3) * 2.0
        b = A[:, 0] + A[:, 1]
        found = LBARNRegressor(brief()).fit(sp.csr_matrix(A), b).predict(sp.csr_matrix(A))
        np.testing.assert_array_equal(found, LBARNRegressor(brief()).fit(A, b).predict(A))

    def test_columns_go_by_name_and_the_target_may_be_among_them(self, model: LBARNRegressor) -> None:
        expected = model.predict(X_TEST)
        np.testing.assert_array_equal(model.predict(X_TEST[X_TEST.columns[::-1]]), expected)
        with pytest.warns(UserWarning, match="ignored: 'hours'"):
            np.testing.assert_array_equal(model.predict(TEST), expected)
        with pytest.raises(ValueError, match="X has no column 'age'"):
            model.predict(X_TEST.drop(columns="age"))
        assert list(model.feature_names_in_) == list(X.columns)
        assert model.n_features_in_ == len(X.columns)

    def test_the_target_has_a_name_of_its_own(self) -> None:
        own = X.rename(columns={"age": "hours", "works": "y"})
        assert LBARNRegressor(brief(max_iter=2)).fit(own, Y).network_.columns_[-1].name == "hours_"
        assert LBARNRegressor(brief(max_iter=2)).fit(own, Y.to_numpy()).network_.columns_[-1].name == "y_"
        assert LBARNRegressor(brief(max_iter=2)).fit(X, Y.tolist()).network_.columns_[-1].name == "y"

    def test_columns_that_are_left_out_stay_out(self) -> None:
        own = X.assign(name=[f"p{i}" for i in range(len(X))])
        with pytest.warns(UserWarning, match=r"\('name'\) is left out"):
            model = LBARNRegressor(brief()).fit(own, Y)
        expected = LBARNRegressor(brief()).fit(X, Y).predict(X_TEST)
        np.testing.assert_array_equal(model.predict(X_TEST.assign(name="anybody")), expected)
        np.testing.assert_array_equal(model.predict(X_TEST), expected)
        with pytest.warns(UserWarning, match="is left out"):
            array = LBARNRegressor(brief()).fit(own[["age", "name"]].to_numpy(object), Y)
        np.testing.assert_array_equal(
            array.predict(own[["age", "name"]][:9].to_numpy(object)), array.predict(own[["age"]][:9].to_numpy(object))
        )

    @pytest.mark.parametrize("missing", ["value", "unknown"])
    def test_empty_cells(self, missing: str) -> None:
        model = LBARNRegressor(brief(missing=missing)).fit(X, Y)
        assert np.isfinite(model.predict(X_TEST.assign(town=None))).all()
        age = model.network_.codebook_.codes[0]  # which has no empty cells in training
        common = age.peaks[1].values[age.mass.argmax()]
        expected = model.predict(X_TEST.assign(age=common))
        np.testing.assert_array_equal(model.predict(X_TEST.assign(age=np.nan)), expected)

    def test_a_target_of_zeros_and_ones_is_still_a_number(self) -> None:
        bits = np.random.default_rng(0).integers(0, 2, (300, 3))
        model = LBARNRegressor(brief()).fit(bits[:, :2], bits[:, 0])
        np.testing.assert_allclose(model.predict([[0, 1], [1, 0]]), [0, 1], atol=0.1)
        assert np.isfinite(model.log_prob([[0, 1]], [7])).all()

    def test_what_the_target_is_can_be_said(self) -> None:
        assert LBARNRegressor(brief()).fit(X, Y).network_.columns_["hours"].kind == "ordered"
        own = LBARNRegressor(brief(columns={"hours": "continuous", "age": "categorical"})).fit(X, Y)
        assert own.network_.columns_["hours"].kind == "continuous"
        assert own.network_.columns_["age"].kind == "categorical"
        with pytest.raises(ValueError, match="'ordered' or 'continuous', not 'categorical'"):
            LBARNRegressor(brief(columns={"hours": "categorical"})).fit(X, Y)

    def test_a_target_that_never_changes(self) -> None:
        model = LBARNRegressor(brief()).fit(X, np.full(len(X), 3.5))
        np.testing.assert_allclose(model.predict(X_TEST), 3.5)


class TestFits:
    def test_sample_weights(self) -> None:
        weight = np.where(X.town == "Bonn", 1.0, 0.0)
        model = LBARNRegressor(brief()).fit(X, np.where(X.town == "Bonn", 10, 20), sample_weight=weight)
        np.testing.assert_allclose(model.predict(X_TEST), 10, atol=0.5)

    def test_rows_to_validate_on(self) -> None:
        model = LBARNRegressor(brief()).fit(X, Y, X_val=X_TEST, y_val=Y_TEST)
        assert model.network_.run_.n_valid == len(X_TEST)
        with pytest.raises(ValueError, match="X_val and y_val go together; y_val is missing"):
            LBARNRegressor(brief()).fit(X, Y, X_val=X_TEST)

    def test_an_ensemble_averages_its_members(self) -> None:
        model = LBARNRegressor(brief_ensemble(bagging=True)).fit(X, Y)
        members = [
            LBARNRegressor().restored(type(_target(model))(member)).conditional(X_TEST).probability
            for member in model.network_.members_
        ]
        np.testing.assert_allclose(model.conditional(X_TEST).probability, np.mean(members, axis=0), atol=1e-9)

    def test_a_fit_goes_on(self, tmp_path: Path) -> None:
        expected = LBARNRegressor(brief(max_iter=20)).fit(X, Y).predict(X_TEST)
        warm = LBARNRegressor(brief(max_iter=8, warm_start=True)).fit(X, Y)
        warm.set_params(estimator__max_iter=20).fit(X, Y)
        np.testing.assert_array_equal(warm.predict(X_TEST), expected)
        for _ in range(2):
            again = LBARNRegressor(brief(max_iter=20)).fit(X, Y, checkpoint=tmp_path)
            np.testing.assert_array_equal(again.predict(X_TEST), expected)

    @pytest.mark.parametrize("leaves", ["auto", "auto-each"])
    def test_leaves_are_found_for_the_target(self, leaves: str) -> None:
        model = LBARNRegressor(brief(max_leaf_nodes=leaves)).fit(X, Y)
        assert {tried["n_dimensions"] for tried in model.network_.search_results_} == {1}

    def test_the_estimator_is_left_as_it_was_and_its_order_does_not_matter(self) -> None:
        estimator = brief(order="random")
        model = LBARNRegressor(estimator).fit(X, Y)
        assert not hasattr(estimator, "network_")
        np.testing.assert_array_equal(model.predict(X_TEST), LBARNRegressor(brief()).fit(X, Y).predict(X_TEST))
        assert clone(model).estimator.order == "random"

    def test_parameters_can_be_searched(self) -> None:
        search = GridSearchCV(LBARNRegressor(brief()), {"estimator__max_iter": [1, 25]}, cv=2).fit(X, Y)
        assert search.best_params_ == {"estimator__max_iter": 25}
        assert search.best_score_ > DummyRegressor().fit(X, Y).score(X_TEST, Y_TEST) + 0.2

    @pytest.mark.parametrize(
        ("y", "message"),
        [
            (None, "requires y"),
            (Y[:-1], "inconsistent numbers"),
            (["a"] * len(X), "could not convert|numbers"),
            (np.where(np.arange(len(X)) == 3, np.nan, Y), "NaN"),
            (np.where(np.arange(len(X)) == 3, np.inf, Y), "infinity"),
        ],
    )
    def test_of_what_cannot_be_learned_from(self, y: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            LBARNRegressor(brief()).fit(X, y)

    def test_a_fit_that_is_refused_leaves_the_model_that_was(self) -> None:
        model = LBARNRegressor(brief(max_iter=5)).fit(X, Y)
        before = model.predict(X_TEST)
        with pytest.raises(ValueError, match="holds inf"):
            model.fit(X.assign(income=np.inf), Y)
        np.testing.assert_array_equal(model.predict(X_TEST), before)

    def test_without_a_fit_there_is_nothing_to_predict(self) -> None:
        with pytest.raises(NotFittedError):
            LBARNRegressor().predict(X)


def _target(model: LBARNRegressor) -> Any:
    from lbarn._models.target import TargetNetwork

    return TargetNetwork(model.network_)


class TestFiles:
    @pytest.mark.parametrize("trim", [False, True])
    @pytest.mark.parametrize("estimator", [None, brief(), brief_ensemble()], ids=["none", "network", "ensemble"])
    def test_a_file_gives_the_same_answers(self, tmp_path: Path, estimator: Any, trim: bool) -> None:
        model = LBARNRegressor(estimator).fit(X[:200], Y[:200])
        model.save(tmp_path / "model", trim=trim)
        for copy in (lbarn.load(tmp_path / "model"), LBARNRegressor.load(tmp_path / "model")):
            assert isinstance(copy, LBARNRegressor)
            assert repr(copy.estimator) == repr(estimator)
            np.testing.assert_array_equal(copy.predict(X_TEST), model.predict(X_TEST))
            np.testing.assert_array_equal(copy.log_prob(X_TEST, Y_TEST), model.log_prob(X_TEST, Y_TEST))
            assert list(copy.feature_names_in_) == list(X.columns)

    def test_a_network_whose_last_column_is_no_number_is_refused(self, tmp_path: Path) -> None:
        from lbarn._network import container, modelfile

        model = LBARNRegressor(brief(max_iter=2)).fit(X, Y)
        for other, message in (
            (brief(max_iter=2, order="random").fit(TRAIN), "not the last one"),
            (brief(max_iter=2).fit(TRAIN), "not of numbers"),
        ):
            kind, part, arrays = modelfile.to_parts(other, False)
            header = modelfile.to_parts(model, False)[1] | {"network": {"kind": kind, **part}}
            container.write(tmp_path / "model", "LBARNRegressor", header, arrays)
            with pytest.raises(ModelFileError, match=message):
                lbarn.load(tmp_path / "model")
