"""The least likely rows are found and explained; the detector draws its line where it was told to."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import lbarn
from lbarn import LBARN, LBARNOutlierDetector
from lbarn._training.data import hold_out
from lbarn.anomalies import Anomaly, SurprisingValue, explain
from lbarn.baselines import BernoulliMixture, IndependentBits
from networks import quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

X, TEST = rows(400, 7), rows(150, 7, seed=1)


class TestExplain:
    @pytest.mark.parametrize("order", ["given", "random", "entropy-decreasing"])
    def test_the_least_likely_rows_and_their_most_surprising_bits(self, order: str) -> None:
        model = quick(order=order).fit(X)
        scores, surprise = model.score_samples(TEST), model.surprise(TEST)
        found = explain(model, TEST, n_rows=6, n_values=3)
        assert [anomaly.row for anomaly in found] == np.argsort(scores, kind="stable")[:6].tolist()
        for anomaly in found:
            assert anomaly.log_likelihood == scores[anomaly.row]
            nats = surprise[anomaly.row]
            assert [bit.column for bit in anomaly.values] == np.argsort(-nats, kind="stable")[:3].tolist()
            for bit in anomaly.values:
                assert bit.value == TEST[anomaly.row, bit.column]
                assert bit.surprise == nats[bit.column]
                assert bit.probability == pytest.approx(np.exp(-bit.surprise))
                assert bit.base_rate == pytest.approx((X[:, bit.column] == bit.value).mean(), abs=2 / len(X))

    def test_all_bits_add_up_to_the_log_likelihood(self) -> None:
        for anomaly in explain(quick().fit(X), TEST, n_rows=5, n_values=7):
            assert -sum(bit.surprise for bit in anomaly.values) == pytest.approx(anomaly.log_likelihood, abs=1e-6)

    def test_one_flipped_bit_is_named(self) -> None:
        copies = np.repeat(np.random.default_rng(0).integers(0, 2, (300, 1)), 5, axis=1)
        model = quick(max_iter=60).fit(copies)
        copies[17, 4] ^= 1
        (anomaly,) = explain(model, copies, n_rows=1, n_values=1)
        assert (anomaly.row, anomaly.values[0].column, anomaly.values[0].value) == (17, 4, copies[17, 4])
        assert anomaly.values[0].probability < 0.05

    def test_columns_go_by_their_names(self) -> None:
        names = list("abcdefg")
        frame = pd.DataFrame(TEST, columns=names)
        model = quick().fit(pd.DataFrame(X, columns=names))
        by_number = explain(quick().fit(X), TEST)
        for named, anomaly in zip(explain(model, frame), by_number, strict=True):
            assert [names.index(bit.column) for bit in named.values] == [bit.column for bit in anomaly.values]

    @pytest.mark.parametrize("give", [sp.csr_matrix, lambda X: X.tolist(), lambda X: X.astype(bool)])
    def test_any_table_will_do(self, give: Any) -> None:
        model = quick().fit(X)
        assert explain(model, give(TEST)) == explain(model, TEST)

    def test_values_are_those_after_the_threshold(self) -> None:
        model = quick(binarize=0.5).fit(X * 0.8)
        assert explain(model, TEST * 0.8) == explain(quick().fit(X), TEST)

    def test_of_a_loaded_or_refitted_network(self, tmp_path: Path) -> None:
        model = quick(order="random").fit(X).refit_leaves(TEST)
        model.save(tmp_path / "model", trim=True)
        assert explain(lbarn.load(tmp_path / "model"), TEST) == explain(model, TEST)

    def test_of_fewer_rows_and_columns_than_asked_for(self) -> None:
        found = explain(quick().fit(X), TEST[:3], n_rows=10, n_values=20)
        assert [len(anomaly.values) for anomaly in found] == [7, 7, 7]

    def test_records_are_plain_and_fit_a_table(self) -> None:
        (anomaly,) = explain(quick().fit(X), TEST, n_rows=1, n_values=2)
        assert isinstance(anomaly, Anomaly)
        assert isinstance(anomaly.values[0], SurprisingValue)
        assert list(pd.DataFrame(anomaly.values).columns) == list(SurprisingValue._fields)
        json.dumps(anomaly)

    @pytest.mark.parametrize("wrong", [{"n_rows": 0}, {"n_values": 0}, {"n_rows": 2.5}])
    def test_numbers_that_make_no_sense_are_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be a whole number"):
            explain(quick().fit(X), TEST, **wrong)

    def test_former_names_work_and_say_until_when(self) -> None:
        until = "it will be removed in version 0.4, not before 2027-07-01"
        with pytest.warns(FutureWarning, match=f"n_bits is deprecated: use n_values; {until}") as told:
            (anomaly,) = explain(quick().fit(X), TEST, n_rows=1, n_bits=2)
        assert told[0].filename == __file__
        with pytest.warns(FutureWarning, match="Anomaly.bits is deprecated"):
            assert anomaly.bits == anomaly.values
        with pytest.warns(FutureWarning, match="SurprisingBit is deprecated"):
            assert lbarn.anomalies.SurprisingBit is SurprisingValue

    def test_missing_bits_are_refused(self) -> None:
        holes = TEST.astype(float)
        holes[3, 2] = np.nan
        with pytest.raises(ValueError, match="column 2 is missing"):
            explain(quick().fit(X), holes)

    def test_columns_go_by_name_wherever_they_are_and_others_are_ignored_with_one_warning(self) -> None:
        names = list("abcdefg")
        frame = pd.DataFrame(TEST, columns=names)
        model = quick().fit(pd.DataFrame(X, columns=names))
        expected = explain(model, frame)
        assert explain(model, frame[names[::-1]]) == expected
        with pytest.warns(UserWarning, match="columns that the model does not have are ignored: 'z'") as caught:
            assert explain(model, frame.assign(z=1)) == expected
        assert len(caught) == 1

    def test_base_rates_are_kept_in_the_file_and_count_values_that_are_there(self, tmp_path: Path) -> None:
        holes = np.where(np.random.default_rng(0).random(X.shape) < 0.3, np.nan, X)
        weight = np.random.default_rng(1).random(len(X))
        for model in (quick().fit(holes, sample_weight=weight), quick_ensemble().fit(holes, sample_weight=weight)):
            expected = [np.average(v[~np.isnan(v)], weights=weight[~np.isnan(v)]) for v in holes.T]
            np.testing.assert_allclose(model.base_rates_, expected, atol=2 / len(X))
            model.save(tmp_path / "model")
            np.testing.assert_array_equal(lbarn.load(tmp_path / "model").base_rates_, model.base_rates_)

    def test_without_a_fit_there_is_nothing_to_explain(self) -> None:
        with pytest.raises(NotFittedError):
            explain(quick(), TEST)


EXCUSED = {"check_estimators_nan_inf": "binarize= is a threshold, and an infinite value is above it; NaN is refused"}


@parametrize_with_checks(
    [LBARNOutlierDetector(quick(binarize=0.0, max_iter=8))], expected_failed_checks=lambda _: EXCUSED
)
def test_scikit_learns_own_checks_pass(estimator: LBARNOutlierDetector, check: Any) -> None:
    check(estimator)


class TestDetector:
    @pytest.mark.parametrize("contamination", [0.01, 0.1, 0.5])
    def test_draws_the_line_where_as_many_held_out_rows_are_outliers_as_it_was_told(self, contamination: float) -> None:
        bits = rows(1000, 12)
        detector = LBARNOutlierDetector(quick(), contamination=contamination).fit(bits)
        kept, held = hold_out(1000, 0.2, 0)
        network = quick().fit(bits[np.sort(kept)])
        scores = detector.score_samples(bits)
        np.testing.assert_array_equal(scores, network.score_samples(bits))
        assert detector.offset_ == np.quantile(scores[held], contamination)
        outliers = detector.predict(bits) == -1
        assert outliers[held].mean() == pytest.approx(contamination, abs=0.005)
        assert scores[outliers].max() < detector.offset_ <= scores[~outliers].min()
        np.testing.assert_array_equal(detector.decision_function(bits), scores - detector.offset_)
        np.testing.assert_array_equal(detector.fit_predict(bits), np.where(outliers, -1, 1))

    @pytest.mark.parametrize("contamination", [0.01, 0.05])
    def test_calls_as_many_new_rows_outliers_as_it_was_told(self, contamination: float) -> None:
        """Of a network that knows its training rows too well: on those, far fewer are outliers."""
        bits, fresh = rows(5000, 12), rows(20_000, 12, seed=1)
        model = LBARNOutlierDetector(quick(max_leaf_nodes=64, max_iter=60), contamination=contamination)
        detector = model.fit(bits)
        deviation = np.sqrt(contamination * (1 - contamination) / 1000)  # of the share below a quantile of 1000 rows
        assert (detector.predict(fresh) == -1).mean() == pytest.approx(contamination, abs=3 * deviation)

    def test_which_rows_are_held_out_follows_from_its_parameters(self) -> None:
        detector = LBARNOutlierDetector(quick(), validation_fraction=0.4, random_state=7).fit(X)
        kept, held = hold_out(400, 0.4, 7)
        network = quick().fit(X[np.sort(kept)])
        np.testing.assert_array_equal(detector.score_samples(TEST), network.score_samples(TEST))
        assert detector.offset_ == np.quantile(network.score_samples(X[held]), 0.1)
        assert detector.n_features_in_ == 7
        with pytest.raises(ValueError, match=r"validation_fraction=0.2 of 2 sample\(s\)"):
            LBARNOutlierDetector(quick()).fit(X[:2])

    def test_the_network_is_left_as_it_was_and_lbarn_is_the_default(self) -> None:
        network = quick()
        assert type(LBARNOutlierDetector(network).fit(X).estimator_) is LBARN
        assert not hasattr(network, "order_")
        assert LBARNOutlierDetector().estimator is None
        assert type(LBARNOutlierDetector().set_params(contamination=0.2).fit(X[:40]).estimator_) is LBARN

    def test_a_fitted_network_is_not_fitted_again(self) -> None:
        network = quick().fit(X)
        detector = LBARNOutlierDetector(FrozenEstimator(network), contamination=0.1).fit(TEST)
        np.testing.assert_array_equal(detector.score_samples(TEST), network.score_samples(TEST))
        assert detector.offset_ == np.quantile(network.score_samples(TEST), 0.1)

    @pytest.mark.parametrize("model", [IndependentBits(), BernoulliMixture(n_components=3)], ids=str)
    def test_any_density_will_do(self, model: Any) -> None:
        assert set(LBARNOutlierDetector(model).fit(X).predict(TEST)) == {-1, 1}

    def test_what_fit_is_given_goes_to_the_network(self) -> None:
        weight = np.arange(400.0)
        detector = LBARNOutlierDetector(quick()).fit(X, X_val=TEST, sample_weight=weight)
        kept = np.sort(hold_out(400, 0.2, 0)[0])
        network = quick().fit(X[kept], X_val=TEST, sample_weight=weight[kept])
        np.testing.assert_array_equal(detector.score_samples(TEST), network.score_samples(TEST))

    def test_parameters_of_the_network_can_be_searched(self) -> None:
        strange = np.random.default_rng(0).integers(0, 2, (150, 7))

        def auc(detector: LBARNOutlierDetector, X: Any) -> float:
            both = np.concatenate([X, strange])
            return roc_auc_score(np.arange(len(both)) < len(X), detector.score_samples(both))

        grid = {"estimator__max_leaf_nodes": [2, 4]}
        search = GridSearchCV(LBARNOutlierDetector(quick()), grid, scoring=lambda d, X, y=None: auc(d, X), cv=2).fit(X)
        assert search.best_score_ > 0.6

    def test_names_of_columns_are_checked(self) -> None:
        frame = pd.DataFrame(X, columns=list("abcdefg"))
        detector = LBARNOutlierDetector(quick()).fit(frame)
        with pytest.raises(ValueError, match="X has no column 'a'"):
            detector.predict(frame.rename(columns={"a": "z"}))

    @pytest.mark.parametrize("contamination", [0.0, 0.6, -0.1, "auto"])
    def test_a_contamination_that_is_no_share_is_refused(self, contamination: Any) -> None:
        with pytest.raises(ValueError, match="'contamination' parameter"):
            LBARNOutlierDetector(quick(), contamination=contamination).fit(X)

    def test_missing_bits_are_refused_before_the_fit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        holes = X.astype(float)
        holes[3, 2] = np.nan
        monkeypatch.setattr(LBARN, "fit", lambda *_, **__: pytest.fail("it was fitted"))
        with pytest.raises(ValueError, match="column 2 is missing"):
            LBARNOutlierDetector(quick()).fit(holes)

    def test_without_a_fit_there_are_no_scores(self) -> None:
        with pytest.raises(NotFittedError):
            LBARNOutlierDetector().predict(X)


class TestBenchmark:
    def test_runs_and_writes_what_it_measured(self, run_benchmark: Callable[..., str], tmp_path: Path) -> None:
        printed = run_benchmark("bench_anomalies.py", "--smoke", "--results", tmp_path / "results.json")
        results = json.loads((tmp_path / "results.json").read_text())
        assert results.keys() == {"flipped", "permuted", "nines"}
        for task in results.values():
            assert task["title"] in printed
            assert set(task["models"]) == {"LBARN", "Bernoulli mixture", "IsolationForest", "LocalOutlierFactor"}
            assert all(0.5 < model["AUC"] <= 1 for model in task["models"].values())

    def test_the_page_shows_the_results_that_are_committed(self) -> None:
        from bench_anomalies import PAGE, RESULTS, table

        assert table(json.loads(RESULTS.read_text())) in PAGE.read_text()
