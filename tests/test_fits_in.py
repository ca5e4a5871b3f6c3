"""lbarn among other libraries: scikit-learn's tools around it, tables from DuckDB, metadata for SDMetrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import make_column_transformer
from sklearn.inspection import partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from lbarn import LBARN, LBARNImputer, LBARNOutlierDetector, LBARNRegressor
from networks import assert_same_network, quick, rows, still_rising

pytestmark = still_rising
pd = pytest.importorskip("pandas")


def mixed(n: int = 300, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    city = rng.choice(["Bonn", "Kiel", "Ulm"], n)
    rooms = rng.integers(1, 6, n)
    rent = np.round(4 * rooms + 3.0 * (city == "Bonn") + rng.normal(0, 0.5, n), 1)
    return pd.DataFrame({"city": city, "rooms": rooms, "rent": rent, "late": rent > 12})


TABLE = mixed()


@pytest.fixture(scope="module")
def model() -> LBARN:
    return quick().fit(TABLE)


class TestPredictor:
    def test_of_a_category_is_a_classifier_that_agrees_with_the_conditional(self, model: LBARN) -> None:
        city = model.predictor("city")
        assert is_classifier(city)
        own = model.conditional(TABLE, "city")
        assert city.classes_.tolist() == own.levels.tolist() == ["Bonn", "Kiel", "Ulm"]
        others = TABLE.drop(columns="city")
        np.testing.assert_array_equal(city.predict_proba(others), own.probability)
        assert city.predict(others).tolist() == own.mode().tolist()
        assert city.score(others, TABLE["city"]) == accuracy_score(TABLE["city"], own.mode())

    def test_of_a_boolean_has_booleans_for_classes(self, model: LBARN) -> None:
        late = model.predictor("late")
        assert late.classes_.tolist() == [False, True]
        assert late.score(TABLE.drop(columns="late"), TABLE["late"]) > 0.9

    def test_of_a_number_is_a_regressor_that_agrees_with_the_conditional(self, model: LBARN) -> None:
        rent = model.predictor("rent")
        assert is_regressor(rent)
        own = model.conditional(TABLE, "rent")
        others = TABLE.drop(columns="rent")
        np.testing.assert_array_equal(rent.predict(others), own.mean())
        np.testing.assert_array_equal(rent.predict_quantile(others, [0.1, 0.9]), own.quantile([0.1, 0.9]))
        assert rent.score(others, TABLE["rent"]) == r2_score(TABLE["rent"], own.mean())

    def test_knows_the_other_columns(self, model: LBARN) -> None:
        rent = model.predictor("rent")
        assert rent.feature_names_in_.tolist() == ["city", "rooms", "late"]
        assert rent.n_features_in_ == 3
        assert not hasattr(quick().fit(rows(100, 3)).predictor(1), "feature_names_in_")

    def test_takes_arrays_without_the_column(self) -> None:
        X = rows(200, 4)
        network = quick().fit(X)
        own = network.predictor(1)
        np.testing.assert_array_equal(own.predict_proba(np.delete(X, 1, axis=1)), network.conditional(X, 1).probability)

    def test_goes_through_scikit_learns_inspection(self, model: LBARN) -> None:
        others, rent = TABLE.drop(columns="rent").astype({"rooms": float})[:60], TABLE["rent"][:60]
        predictor = model.predictor("rent")
        found = permutation_importance(predictor, others, rent, n_repeats=2, random_state=0)
        assert found.importances_mean.argmax() == 1  # the rooms
        depends = partial_dependence(predictor, others, ["rooms"], grid_resolution=5)
        assert (np.diff(depends["average"][0]) > 0).all()

    def test_is_fitted_and_stays_so(self, model: LBARN) -> None:
        predictor = model.predictor("rent")
        assert predictor.fit(TABLE[:3]) is predictor
        assert clone(predictor).model is model

    def test_of_a_column_that_is_not_there_is_refused(self, model: LBARN) -> None:
        with pytest.raises(ValueError, match="no column 'price'"):
            model.predictor("price")


class TestTransforming:
    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_set_output_makes_the_filled_table_one_of_another_library(self, library: str) -> None:
        module = pytest.importorskip(library)
        gaps = TABLE.copy()
        gaps.loc[::7, "city"] = None
        imputer = LBARNImputer(quick(missing="unknown")).set_output(transform=library)
        filled = imputer.fit_transform(gaps)
        assert isinstance(filled, module.DataFrame)
        assert list(filled.columns) == list(TABLE.columns)
        assert set(filled["city"]) == {"Bonn", "Kiel", "Ulm"}

    def test_a_column_transformer_fills_some_columns(self) -> None:
        gaps = TABLE.astype({"rooms": float})
        gaps.loc[::5, "rooms"] = np.nan
        some = make_column_transformer(
            (LBARNImputer(quick(missing="unknown")), ["rooms", "rent"]), (OneHotEncoder(sparse_output=False), ["city"])
        )
        pipeline = make_pipeline(some, LogisticRegression()).fit(gaps[["rooms", "rent", "city"]], gaps["late"])
        assert pipeline.score(gaps[["rooms", "rent", "city"]], gaps["late"]) > 0.9
        names = some.fit(gaps).get_feature_names_out().tolist()
        assert names[:2] == ["lbarnimputer__rooms", "lbarnimputer__rent"]


class TestWeightsAreRouted:
    X = rows(200, 4)
    WEIGHT = np.tile([1.0, 0.0], 100)

    def test_to_the_fits_and_scores_of_cross_validate(self) -> None:
        with sklearn.config_context(enable_metadata_routing=True):
            model = quick().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
            found = cross_validate(model, self.X, cv=2, params={"sample_weight": self.WEIGHT})
        first, second = slice(100), slice(100, None)
        own = quick().fit(self.X[second], sample_weight=self.WEIGHT[second])
        assert found["test_score"][0] == own.score(self.X[first], sample_weight=self.WEIGHT[first])

    def test_through_a_pipeline_to_the_model_of_an_imputer(self) -> None:
        with sklearn.config_context(enable_metadata_routing=True):
            network = quick().set_fit_request(sample_weight=True)
            pipeline = make_pipeline(LBARNImputer(network), LogisticRegression().set_fit_request(sample_weight=False))
            pipeline.fit(self.X, self.X[:, 0], sample_weight=self.WEIGHT)
        assert_same_network(pipeline[0].network_, quick().fit(self.X, sample_weight=self.WEIGHT))

    def test_to_the_model_of_a_detector(self) -> None:
        with sklearn.config_context(enable_metadata_routing=True):
            network = quick().set_fit_request(sample_weight=True)
            routed = LBARNOutlierDetector(network).fit(self.X, sample_weight=self.WEIGHT)
        plain = LBARNOutlierDetector(quick()).fit(self.X, sample_weight=self.WEIGHT)
        assert_same_network(routed.estimator_, plain.estimator_)

    def test_to_a_regressor_in_a_search(self) -> None:
        y = self.X @ [1, 2, 4, 8] + 0.5
        with sklearn.config_context(enable_metadata_routing=True):
            model = LBARNRegressor(quick()).set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
            search = GridSearchCV(model, {"estimator__max_leaf_nodes": [2]}, cv=2)
            search.fit(self.X, y, sample_weight=self.WEIGHT)
        own = LBARNRegressor(quick(max_leaf_nodes=2)).fit(self.X, y, sample_weight=self.WEIGHT)
        assert_same_network(search.best_estimator_.network_, own.network_)

    def test_only_if_they_are_asked_for(self) -> None:
        with (
            sklearn.config_context(enable_metadata_routing=True),
            pytest.raises(ValueError, match="sample_weight"),
        ):
            LBARNImputer(quick()).fit(self.X, sample_weight=self.WEIGHT)


def test_what_duckdb_finds_goes_in_as_it_is(model: LBARN) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.connect().register("homes", TABLE).sql("select * from homes")
    own = quick().fit(found)
    assert own.score(found) == model.score(TABLE)
    assert own.sample(3).column_names == list(TABLE.columns)
    assert LBARNOutlierDetector(quick()).fit(found).predict(found).shape == (len(TABLE),)


def test_any_arrow_stream_is_a_table(model: LBARN) -> None:
    pa = pytest.importorskip("pyarrow")
    batches = pa.table({name: TABLE[name].to_numpy() for name in TABLE}).to_reader()
    assert model.score_samples(batches).tolist() == model.score_samples(TABLE).tolist()


def test_the_metadata_for_sdmetrics_tells_what_every_column_is() -> None:
    table = TABLE.assign(
        day=pd.date_range("2024-01-01", periods=len(TABLE)), key=[f"id-{k}" for k in range(len(TABLE))]
    )
    with pytest.warns(UserWarning, match="key"):
        model = quick().fit(table)
    found = model.columns_.to_sdmetrics()
    kinds = {"city": "categorical", "rooms": "numerical", "rent": "numerical", "late": "boolean", "day": "datetime"}
    assert found == {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}


def test_sdmetrics_accepts_the_metadata(model: LBARN) -> None:
    reports = pytest.importorskip("sdmetrics.reports")
    report, drawn = reports.QualityReport(), model.sample(300, random_state=0)
    metadata = {"tables": {"homes": model.columns_.to_sdmetrics()}}
    report.generate({"homes": TABLE}, {"homes": drawn}, metadata, verbose=False)
    assert report.get_score() > 0.8
