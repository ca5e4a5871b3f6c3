"""All that is built on a network works on a table of columns of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

import lbarn
from lbarn import LBARN, LBARNClassifier, LBARNImputer, LBARNOutlierDetector, ModelFileError, explain
from lbarn._training.data import hold_out
from lbarn.baselines import IndependentBits, IndependentColumns
from lbarn.inspection import calibration, column_lines, describe, describe_column, lines
from mixed import brief, brief_ensemble, people
from networks import rows, still_rising

pytestmark = still_rising

X, TEST = people(500), people(150, seed=1)


@pytest.fixture(scope="module")
def model() -> LBARN:
    return brief(max_iter=60).fit(X)


# ---------------------------------------------------------------------- training


def same(model: LBARN, other: LBARN) -> None:
    np.testing.assert_array_equal(model.score_samples(TEST), other.score_samples(TEST))


def warm_start(_: Path) -> None:
    same(brief(max_iter=8, warm_start=True).fit(X).set_params(max_iter=25).fit(X), brief().fit(X))


def warm_start_of_a_search(_: Path) -> None:
    begun = brief(max_iter=8, warm_start=True, max_leaf_nodes="auto-each").fit(X)
    assert begun.set_params(max_iter=16).fit(X).score(TEST) > -100


def checkpoint(folder: Path) -> None:
    for _ in range(2):
        same(brief(order="entropy-decreasing").fit(X, checkpoint=folder), brief(order="entropy-decreasing").fit(X))
    assert len(list(folder.iterdir())) == X.shape[1] + 2


def selections(_: Path) -> None:
    whole = brief(n_iter_no_change=None).fit(X)
    for method in ("individual", "common", "linearized", "linearized-backward"):
        own = brief(n_iter_no_change=None, selection=method).fit(X)
        same(whole.select(method), own)
        assert own.score(TEST) > -60


def refit_leaves(_: Path) -> None:
    own = brief().fit(X)
    before = own.score(TEST)
    assert own.refit_leaves(TEST).score(TEST) > before


def cumulative_score(_: Path) -> None:
    for order in ("given", "random"):
        own = brief(order=order).fit(X)
        found = own.cumulative_score(TEST)
        assert found[-1] == pytest.approx(own.score(TEST))
        alone = brief().fit(X.iloc[:, own.order_[:1]])
        if order == "given":
            assert found[0] == pytest.approx(alone.score(TEST.iloc[:, :1]), abs=0.2)


def orders(_: Path) -> None:
    constant = X.assign(nothing=7)
    for order in ("random", "entropy-decreasing", "entropy-increasing"):
        own = brief(order=order, max_iter=10).fit(constant)
        assert sorted(own.order_) == list(range(8))
        assert own.score(TEST.assign(nothing=7)) > -60
    assert own.order_[0] == 7  # which has no entropy
    assert brief(order="entropy-decreasing").fit(constant[["nothing"]]).order_.tolist() == [0]


def leaves(_: Path) -> None:
    for how in ("auto", "auto-each"):
        own = brief(max_leaf_nodes=how, max_iter=10).fit(X)
        assert len(own.search_results_) >= 7
        assert own.score(TEST) > -60


def weights(_: Path) -> None:
    weight = np.where(X.town == "Bonn", 2.0, 0.0)
    own = brief().fit(X, sample_weight=weight)
    assert (own.sample(200, random_state=0).town == "Bonn").mean() > 0.97
    same(own, brief().fit(X, sample_weight=3 * weight))


def processes(_: Path) -> None:
    with joblib.parallel_config("loky", n_jobs=2):
        own = brief(max_iter=6).fit(X)
    same(own, brief(max_iter=6).fit(X))


def dask(_: Path) -> None:
    distributed = pytest.importorskip("distributed")
    local = distributed.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0")
    with local, joblib.parallel_config("dask"):
        own = brief(max_iter=6).fit(X)
    same(own, brief(max_iter=6).fit(X))


def tuning(_: Path) -> None:
    own = lbarn.tune(X, minutes=0.04, random_state=0, verbose=0, columns={"works": "drop"}, missing="unknown")
    assert own.trials_[0]["n_dimensions"] == 6
    assert own.codebook_.left_out
    assert own.missing == "unknown"
    assert own.score(TEST) > -60


def ensembles(_: Path) -> None:
    own = brief_ensemble(weights="em", n_bags=1).fit(X)
    assert own.score(TEST) > np.mean([member.score(TEST) for member in own.members_]) - 1e-9
    assert own.select("individual").refit_leaves(X).score(TEST) > -60


USES: list[Callable[[Path], None]] = [
    *(
        warm_start,
        warm_start_of_a_search,
        checkpoint,
        selections,
        refit_leaves,
        cumulative_score,
        orders,
        leaves,
        weights,
    ),
    *(processes, dask, tuning, ensembles),
]


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
@pytest.mark.filterwarnings("ignore:some rows have missing values")
def test_training_of_a_table(use: Callable[[Path], None], tmp_path: Path) -> None:
    use(tmp_path)


def test_numbers_of_trees_are_judged_on_the_rows_that_reach_a_node() -> None:
    """As on a table of bits, where that is all of them: two equal levels of a category are as good as a bit."""
    from lbarn._engine.codetree import Layout
    from lbarn._models.tuningtrials import cross_validated
    from lbarn._training.data import GivenRows
    from lbarn._training.run import boosting, train_network

    bits = rows(400, 4)
    how = boosting(brief(max_leaf_nodes=4, max_features=1.0), n_iter_no_change=None)
    judged = []
    for own in (brief(), brief(columns={0: "ordered"})):
        data = GivenRows.read(own, bits).divided(0.25, 0).filled(0).in_order(np.arange(4))
        trained = train_network(range(4), how, data)
        conditionals = [conditional for k in range(4) for conditional in trained[k]]
        judged.append(cross_validated(conditionals, data.layout, data.valid))
        assert isinstance(data.layout, Layout)
    assert judged[1] == pytest.approx(judged[0], abs=0.03)


# ---------------------------------------------------------------------- classification


TOWNS, TOWNS_TEST = X.town.fillna("nowhere"), TEST.town.fillna("nowhere")
PLAIN, PLAIN_TEST = X.drop(columns="town"), TEST.drop(columns="town")

EXCUSED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "rows are held out one by one: a row repeated is partly held out, a row of weight 2 is held out or not",
)


@parametrize_with_checks(
    [LBARNClassifier(brief(max_iter=10), method="discriminative"), LBARNClassifier(brief(max_iter=5))],
    expected_failed_checks=lambda _: EXCUSED,
)
def test_scikit_learns_own_checks_of_classifiers_pass(estimator: LBARNClassifier, check: Any) -> None:
    check(estimator)


class TestClassifier:
    @pytest.mark.parametrize("method", ["generative", "discriminative"])
    @pytest.mark.parametrize("estimator", [brief(), brief_ensemble()], ids=["network", "ensemble"])
    def test_probabilities_of_any_table(self, method: str, estimator: Any, tmp_path: Path) -> None:
        model = LBARNClassifier(estimator, method=method).fit(PLAIN, TOWNS)
        assert list(model.classes_) == ["Aachen", "Bonn", "Celle", "nowhere"]
        found = model.predict_proba(PLAIN_TEST)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.predict(PLAIN_TEST), model.classes_[found.argmax(axis=1)])
        likely = np.mean(np.log(found[np.arange(150), np.searchsorted(model.classes_, TOWNS_TEST)]))
        assert likely > np.mean(np.log(TOWNS.value_counts(normalize=True)[TOWNS_TEST])) + 0.05
        for trim in (False, True):
            model.save(tmp_path / "model", trim=trim)
            copy = lbarn.load(tmp_path / "model")
            assert copy.method == method
            np.testing.assert_array_equal(copy.predict_proba(PLAIN_TEST), found)

    def test_classes_share_their_codes(self) -> None:
        model = LBARNClassifier(brief()).fit(PLAIN, TOWNS)
        first = model.networks_[0].codebook_
        assert all(network.codebook_ is first for network in model.networks_)
        joint = np.stack([network.score_samples(PLAIN_TEST) for network in model.networks_], axis=1)
        expected = joint + np.log(model.class_prior_)
        np.testing.assert_allclose(model.predict_joint_log_proba(PLAIN_TEST), expected)

    def test_a_class_of_few_rows_has_independent_columns(self, tmp_path: Path) -> None:
        own = TOWNS.where(TOWNS.index > 3, "few")
        model = LBARNClassifier(brief()).fit(PLAIN, own)
        few = model.networks_[list(model.classes_).index("few")]
        assert type(few) is IndependentColumns
        assert np.isfinite(model.predict_log_proba(PLAIN_TEST)).all()
        model.save(tmp_path / "model")
        found = lbarn.load(tmp_path / "model").predict_proba(PLAIN_TEST)
        np.testing.assert_array_equal(found, model.predict_proba(PLAIN_TEST))

    def test_it_sees_what_columns_say_together(self) -> None:
        rng = np.random.default_rng(0)
        A = rng.normal(size=(900, 3)).round(2)
        y = np.where(A[:, 0] * A[:, 2] > 0, "same", "other")
        for method in ("generative", "discriminative"):
            model = LBARNClassifier(brief(max_iter=100, learning_rate=0.1), method=method).fit(A[:600], y[:600])
            assert model.score(A[600:], y[600:]) > 0.85

    @pytest.mark.parametrize("method", ["generative", "discriminative"])
    @pytest.mark.parametrize("missing", ["value", "unknown"])
    @pytest.mark.filterwarnings("ignore:some rows have missing values")
    def test_rows_with_empty_cells(self, method: str, missing: str) -> None:
        model = LBARNClassifier(brief(missing=missing), method=method).fit(PLAIN, TOWNS)
        holes = PLAIN_TEST.assign(age=np.nan, income=np.nan)
        found = model.predict_proba(holes)
        assert np.isfinite(found).all()
        if method == "generative":
            joint = np.stack([network.score_samples(holes) for network in model.networks_], axis=1)
            expected = joint + np.log(model.class_prior_)
            np.testing.assert_allclose(model.predict_joint_log_proba(holes), expected)

    @pytest.mark.parametrize("give", [lambda y: y, lambda y: y.to_numpy(str), lambda y: y.str.len().to_numpy()])
    def test_labels_are_given_back_as_they_came(self, give: Any) -> None:
        y = give(TOWNS)
        for table in (PLAIN, PLAIN[["age", "hours"]].to_numpy(), pl.from_pandas(PLAIN)):
            model = LBARNClassifier(brief(), method="discriminative").fit(table, y)
            assert set(model.predict(table)) <= set(np.asarray(y))
            assert model.predict(table).dtype == model.classes_.dtype

    def test_a_discriminative_model_trains_the_classes_alone(self) -> None:
        model = LBARNClassifier(brief(), method="discriminative").fit(PLAIN, TOWNS)
        *others, own = model.network_.n_trees_
        assert not any(others)
        assert own > 0
        assert model.network_.columns_["town"].levels == ("Aachen", "Bonn", "Celle", "nowhere")
        assert not hasattr(model, "networks_")
        with pytest.raises(ValueError, match=r"no P\(x \| c\)"):
            model.predict_joint_log_proba(PLAIN)
        again = model.set_params(method="generative").fit(PLAIN, TOWNS)
        assert hasattr(again, "networks_")
        assert not hasattr(again, "network_")

    def test_rows_of_weight_0_and_rows_to_validate_on(self) -> None:
        weight = np.where(TOWNS == "nowhere", 0.0, 1.0)
        for method in ("generative", "discriminative"):
            model = LBARNClassifier(brief(max_iter=5), method=method).fit(PLAIN, TOWNS, sample_weight=weight)
            assert list(model.classes_) == ["Aachen", "Bonn", "Celle"]
            own = LBARNClassifier(brief(max_iter=5), method=method)
            own.fit(PLAIN, TOWNS, X_val=PLAIN_TEST, y_val=TOWNS_TEST)
            assert np.isfinite(own.predict_log_proba(PLAIN_TEST)).all()

    def test_a_discriminative_fit_goes_on(self, tmp_path: Path) -> None:
        expected = LBARNClassifier(brief(), method="discriminative").fit(PLAIN, TOWNS).predict_proba(PLAIN)
        warm = LBARNClassifier(brief(max_iter=5, warm_start=True), method="discriminative").fit(PLAIN, TOWNS)
        warm.set_params(estimator__max_iter=25).fit(PLAIN, TOWNS)
        np.testing.assert_array_equal(warm.predict_proba(PLAIN), expected)
        for _ in range(2):
            own = LBARNClassifier(brief(), method="discriminative").fit(PLAIN, TOWNS, checkpoint=tmp_path)
            np.testing.assert_array_equal(own.predict_proba(PLAIN), expected)

    def test_another_method_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'method' parameter of LBARNClassifier"):
            LBARNClassifier(method="both").fit(PLAIN, TOWNS)

    def test_a_file_whose_classes_have_other_codes_is_refused(self, tmp_path: Path) -> None:
        from lbarn._network import container, modelfile

        model = LBARNClassifier(brief(max_iter=2)).fit(PLAIN, TOWNS)
        model.networks_[1] = brief(max_iter=2).fit(PLAIN[:300])
        _, header, arrays = modelfile.to_parts(model, False)
        container.write(tmp_path / "model", "LBARNClassifier", header, arrays)
        with pytest.raises(ModelFileError, match="have different columns"):
            lbarn.load(tmp_path / "model")

    def test_a_file_with_other_classes_than_its_network_is_refused(self, tmp_path: Path) -> None:
        from lbarn._network import container, modelfile

        model = LBARNClassifier(brief(max_iter=2), method="discriminative").fit(PLAIN, TOWNS)
        _, header, arrays = modelfile.to_parts(model, False)
        header["classes"]["labels"][1] = "Berlin"
        container.write(tmp_path / "model", "LBARNClassifier", header, arrays)
        with pytest.raises(ModelFileError, match="does not know all classes"):
            lbarn.load(tmp_path / "model")


# ---------------------------------------------------------------------- imputation


class TestImputer:
    @pytest.mark.parametrize("output", ["mode", "sample", "mean", "median"])
    @pytest.mark.parametrize("give", [lambda X: X, pl.from_pandas], ids=["pandas", "polars"])
    def test_fills_every_empty_cell_and_changes_no_other(self, output: str, give: Any) -> None:
        imputer = LBARNImputer(brief(), output=output).fit(give(X))
        given = TEST[:40].assign(hours=TEST.hours.where(TEST.hours != 40))
        filled = imputer.transform(give(given))
        assert type(filled) is type(give(given))
        filled = filled if output is None or isinstance(filled, pd.DataFrame) else filled.to_pandas()
        assert not filled.isna().any().any()
        for name in given:
            known = given[name].notna().to_numpy()
            assert (filled[name].to_numpy()[known] == given[name].to_numpy()[known]).all()
        assert imputer.get_feature_names_out().tolist() == list(X.columns)

    def test_of_an_array_of_numbers(self) -> None:
        array = X[["age", "income", "hours"]].to_numpy(float)
        filled = LBARNImputer(brief(), output="mean").fit_transform(array)
        known = ~np.isnan(array)
        np.testing.assert_array_equal(filled[known], array[known])
        assert np.isfinite(filled).all()

    def test_columns_that_are_left_out(self) -> None:
        own = X.assign(name=[f"p{i}" for i in range(len(X))])
        with pytest.warns(UserWarning, match="is left out"):
            imputer = LBARNImputer(brief(max_iter=5)).set_output(transform="pandas").fit(own)
        assert list(imputer.transform(own).columns) == list(X.columns)

    def test_probabilities_are_of_bits(self) -> None:
        with pytest.raises(ValueError, match="is for tables of 0 and 1"):
            LBARNImputer(brief(max_iter=2), output="probability").fit(X)
        bits = rows(300, 4).astype(float)
        holes = np.where(np.random.default_rng(0).random(bits.shape) < 0.2, np.nan, bits)
        found = LBARNImputer(brief(), output="probability").fit_transform(holes)
        known = ~np.isnan(holes)
        np.testing.assert_array_equal(found[known], bits[known])
        assert ((found > 0) & (found < 1))[~known].all()


# ---------------------------------------------------------------------- anomalies


class TestDetector:
    def test_draws_the_line_on_rows_it_has_not_learned_from(self) -> None:
        detector = LBARNOutlierDetector(brief(), contamination=0.1).fit(X)
        kept, held = hold_out(len(X), 0.2, 0)
        network = brief().fit(X.iloc[np.sort(kept)])
        assert detector.offset_ == np.quantile(network.score_samples(X.iloc[np.sort(held)]), 0.1)
        strange = TEST.assign(hours=99, works=0)
        assert (detector.predict(strange) == -1).all()
        assert (detector.predict(TEST) == -1).mean() < 0.3

    def test_empty_cells_are_values_or_refused(self) -> None:
        LBARNOutlierDetector(brief(max_iter=2)).fit(X)
        with pytest.raises(ValueError, match=r"column 1 \('town'\) is missing"):
            LBARNOutlierDetector(brief(max_iter=2, missing="unknown")).fit(X)

    def test_of_a_fitted_network(self, model: LBARN) -> None:
        detector = LBARNOutlierDetector(FrozenEstimator(model)).fit(TEST)
        assert detector.offset_ == np.quantile(model.score_samples(TEST), 0.1)


def reasons(model: Any, row: pd.DataFrame) -> dict[str, Any]:
    (anomaly,) = explain(model, row, n_rows=1, n_values=20)
    json.dumps(anomaly)
    return {bit.column: bit for bit in anomaly.values}


class TestExplain:
    def test_the_least_likely_rows_come_first_with_values_in_excess_of_what_is_typical(self, model: LBARN) -> None:
        found = explain(model, TEST, n_rows=5, n_values=7)
        scores, surprise = model.score_samples(TEST), model.surprise(TEST)
        assert [one.row for one in found] == np.argsort(scores)[:5].tolist()
        for one in found:
            assert one.log_likelihood == pytest.approx(scores[one.row])
            for bit in one.values:
                assert bit.surprise == pytest.approx(surprise[one.row, X.columns.get_loc(bit.column)])
            assert [bit.excess for bit in one.values] == sorted((bit.excess for bit in one.values), reverse=True)

    def test_excess_is_0_on_average(self, model: LBARN) -> None:
        drawn = model.sample(1500, random_state=0)
        found = explain(model, drawn, n_rows=1500, n_values=7)
        for name in X.columns:
            excess = [bit.excess for one in found for bit in one.values if bit.column == name]
            assert np.mean(excess) == pytest.approx(0.0, abs=4 * np.std(excess) / np.sqrt(1500) + 0.01), name

    def test_a_number_has_a_range(self, model: LBARN) -> None:
        row = pd.DataFrame(TEST[TEST.works == 1][:1]).assign(hours=58)
        bit = reasons(model, row)["hours"]
        low, high = (float(q) for q in model.conditional(row, "hours").quantile([0.05, 0.95])[0])
        assert (bit.value, bit.probability) == (58, pytest.approx(np.exp(-bit.surprise)))
        assert bit.reason.startswith("hours is 58; expected ")
        strange = reasons(model, row.assign(hours=99))["hours"]
        told = [float(end) for end in strange.expected.split(" to ")]
        assert len(told) == 2
        assert told[0] < told[1] <= max(high, 59)
        assert low >= 0
        assert strange.reason == f"hours is 99; expected {strange.expected}"

    def test_a_heavy_value_is_named_if_the_number_is_in_the_range(self, model: LBARN) -> None:
        bit = reasons(model, TEST[TEST.works == 1][:1].assign(hours=39))["hours"]
        assert bit.expected.startswith("40 (")

    def test_levels_have_probabilities(self, model: LBARN) -> None:
        bits = reasons(model, TEST[:1].assign(town="Mars"))
        assert bits["town"].value == "Mars"
        assert bits["town"].expected.startswith("Aachen (")
        assert bits["town"].base_rate == 0.0
        known = reasons(model, TEST[:1].assign(town="Celle"))["town"]
        assert known.base_rate == pytest.approx((X.town == "Celle").mean())

    def test_booleans_bits_dates_and_densities(self, model: LBARN) -> None:
        row = TEST[:1].assign(age=30, retired=True, works=1, since=pd.Timestamp("2040-01-01"), income=1e7)
        bits = reasons(model, row)
        assert bits["retired"].reason.startswith("retired is True; expected False (")
        assert bits["works"].value == 1
        assert bits["since"].reason.startswith("since is 2040-01-01; expected 202")
        assert bits["income"].reason.startswith("income is 10000000; expected ")
        assert bits["income"].probability is None
        assert bits["income"].base_rate is None

    def test_what_is_empty(self, model: LBARN) -> None:
        bit = reasons(model, TEST[:1].assign(town=None))["town"]
        assert bit.value is None
        assert bit.reason.startswith("town is empty; expected a value (9")
        mostly = X.assign(town=X.town.where(X.index % 20 == 0))
        there = reasons(brief().fit(mostly), TEST[:1].assign(town="Bonn"))["town"]
        assert there.expected.startswith("nothing (")

    def test_of_an_ensemble_and_of_strings(self) -> None:
        ensemble = brief_ensemble().fit(X)
        assert "hours" in reasons(ensemble, TEST[:1].assign(hours=99))
        texts = X.astype(str).where(X.notna(), None)
        bits = reasons(brief().fit(texts), texts[:1].assign(hours="99"))
        assert bits["hours"].value == 99

    def test_columns_that_are_left_out_are_not_told(self) -> None:
        own = X.assign(name=[f"p{i}" for i in range(len(X))])
        with pytest.warns(UserWarning, match="is left out"):
            found = explain(brief(max_iter=5).fit(own), own, n_rows=1, n_values=20)
        assert sorted(bit.column for bit in found[0].values) == sorted(X.columns)


# ---------------------------------------------------------------------- inspection and baselines


class TestInspection:
    def test_a_column_is_told_in_its_own_terms(self, model: LBARN) -> None:
        json.dumps([describe(model), *(describe_column(model, name) for name in X.columns)])
        hours = describe_column(model, "hours", n_trees=1)
        assert (hours["kind"], hours["position"]) == ("ordered", 3)
        assert hours["distribution"]["quantiles"]["50%"] == 40
        assert hours["predictors"][0]["column"] in ("retired", "age")
        assert sum(one["share"] for one in describe_column(model, "hours")["predictors"]) == pytest.approx(1.0)
        text = "\n".join(column_lines(hours))
        assert "retired = 1" in text or "age >= " in text
        assert "log-odds of 'hours >= " in text
        town = describe_column(model, "town")
        assert town["distribution"]["shares"]["Aachen"] == pytest.approx(
            (X.town == "Aachen").sum() / X.town.notna().sum()
        )
        assert town["share_missing"] == pytest.approx(X.town.isna().mean())

    def test_the_kinds_of_columns_are_counted(self, model: LBARN) -> None:
        found = describe(model)
        assert found["kinds"] == {"ordered": 2, "categorical": 1, "binary": 2, "continuous": 1, "datetime": 1}
        assert any(line.startswith("kinds           2 ordered, 1 categorical") for line in lines(found))

    def test_a_column_that_is_left_out_says_so(self) -> None:
        own = brief(max_iter=2, columns={"town": "drop"}).fit(X)
        assert list(column_lines(describe_column(own, "town"))) == ["column town is left out: as asked"]
        assert describe_column(own, "retired")["position"] == 1

    def test_of_models_with_a_target(self) -> None:
        regressor = lbarn.LBARNRegressor(brief(max_iter=5)).fit(X.drop(columns="hours"), X.hours)
        classifier = LBARNClassifier(brief_ensemble(max_iter=3), method="discriminative").fit(PLAIN, TOWNS)
        for own, target in ((regressor, "hours"), (classifier, "town")):
            found = describe(own)
            assert found["target"] == target
            assert found["columns"] == 7
            list(lines(found))
            list(column_lines(describe_column(own, target)))
        generative = describe(LBARNClassifier(brief(max_iter=3)).fit(PLAIN, TOWNS))
        assert "target" not in generative
        assert len(generative["classes"]) == 4

    def test_calibration_says_that_it_needs_bits(self, model: LBARN) -> None:
        with pytest.raises(ValueError, match=r"calibration is of binary columns; the model has others \(categorical, "):
            calibration(model, TEST)


class TestPlots:
    @pytest.fixture(autouse=True)
    def plots(self) -> Any:
        pytest.importorskip("matplotlib").use("agg")
        from lbarn import plots

        return plots

    def test_what_can_be_drawn_of_a_table(self, plots: Any, model: LBARN) -> None:
        importance = plots.ImportanceDisplay.from_estimator(model, "hours")
        assert importance.names[int(importance.importance.argmax())] in ("retired", "age")
        surprise = plots.SurpriseDisplay.from_estimator(model, TEST.assign(hours=99), 2)
        assert "hours = 99" in [label.get_text() for label in surprise.ax_.get_yticklabels()]
        for display in (
            plots.TreeCountsDisplay.from_estimator(model),
            plots.OrderDisplay.from_estimator(model),
            plots.DependencyGraphDisplay.from_estimator(model),
            plots.ValidationCurvesDisplay.from_estimator(model),
            plots.CumulativeScoreDisplay.from_estimator(model, TEST),
        ):
            display.figure_.canvas.draw()

    def test_columns_that_are_left_out_are_no_trouble(self, plots: Any) -> None:
        own = brief(max_iter=10, columns={"age": "drop"}).fit(X)
        display = plots.ImportanceDisplay.from_estimator(own, "works")
        assert display.names == list(X.columns[1:])
        assert display.names[display.column] == "works"
        with pytest.raises(ValueError, match="column 'age' was left out of the model"):
            plots.ImportanceDisplay.from_estimator(own, "age")

    def test_what_is_of_bits_says_so(self, plots: Any, model: LBARN) -> None:
        for draw in (plots.SamplesDisplay.from_estimator, plots.ReconstructionDisplay.from_estimator):
            with pytest.raises(ValueError, match="this picture is of binary columns; the model has others"):
                draw(model, TEST)


class TestIndependentColumns:
    def test_is_what_columns_are_without_each_other(self, tmp_path: Path) -> None:
        own = IndependentColumns().fit(X)
        each = []
        for name in X.columns:
            alone = IndependentColumns().fit(X[[name]])
            # Among other columns, a number that was 0 and 1 may be another one later.
            beyond = 0.5 / (len(X) + 1) if alone.codebook_.is_binary and X[name].dtype != bool else 0.0
            each.append(alone.score_samples(TEST[[name]]) + np.log1p(-beyond))
        np.testing.assert_allclose(own.score_samples(TEST), np.sum(each, axis=0), atol=1e-9)
        assert own.score(TEST) < brief(max_iter=60).fit(X).score(TEST) - 1
        drawn = own.sample(3000, random_state=0)
        assert list(drawn.columns) == list(X.columns)
        for name in ("town", "works", "retired"):
            for value, share in X[name].value_counts(normalize=True, dropna=False).items():
                found = drawn[name].isna() if pd.isna(value) else drawn[name] == value
                assert found.mean() == pytest.approx(share, abs=0.04)
        own.save(tmp_path / "model")
        copy = lbarn.load(tmp_path / "model")
        np.testing.assert_array_equal(copy.score_samples(TEST), own.score_samples(TEST))
        np.testing.assert_array_equal(copy.surprise(TEST), own.surprise(TEST))

    def test_of_bits_is_independent_bits(self) -> None:
        bits = rows(200, 6)
        weight = np.random.default_rng(0).random(200)
        for given in ({}, {"sample_weight": weight}):
            expected = IndependentBits().fit(bits, **given).score_samples(bits)
            np.testing.assert_allclose(IndependentColumns().fit(bits, **given).score_samples(bits), expected, atol=1e-8)

    def test_other_settings_are_as_for_a_network(self) -> None:
        own = IndependentColumns(columns={"age": "categorical", "town": "drop"}, max_cells=8, missing="unknown").fit(X)
        assert own.columns_["age"].kind == "categorical"
        assert own.columns_["town"].kind == "left out"
        assert own.columns_["income"].share_missing > 0
        assert not own.codebook_.codes[3].missing


def test_parameters_with_columns_by_number_come_back_from_a_file(tmp_path: Path) -> None:
    array = X[["age", "hours"]].to_numpy()
    own = brief(max_iter=2, columns={0: "categorical"}).fit(array)
    own.save(tmp_path / "model")
    copy = lbarn.load(tmp_path / "model")
    assert copy.columns == {0: "categorical"}
    np.testing.assert_array_equal(copy.fit(array).score_samples(array), own.score_samples(array))


def test_objects_that_are_no_values_are_refused() -> None:
    array = np.array([[1, "a"], [2, {"b": 1}]], dtype=object)
    with pytest.raises(TypeError, match=r"column 1 holds \{'b': 1\} \(row 1"):
        brief().fit(array)
