"""The facts of a report are those of the model and the rows, whatever the rows look like."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import normalized_mutual_info_score

pytest.importorskip("matplotlib")

from lbarn.anomalies import explain
from lbarn.baselines import BernoulliMixture, IndependentBits
from lbarn.inspection import calibration
from lbarn.report.bits.facts import COINS, INDEPENDENT, Facts, Folded, collect, fold_pairs, folded_columns
from networks import quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

D = 6
X, TEST = rows(300, D), rows(81, D, seed=1)
HOLES = np.where(np.random.default_rng(0).random(TEST.shape) < 0.1, np.nan, TEST)


def about(model: Any, table: Any) -> Facts:
    return collect(model, table, None, 0)


class TestFit:
    @pytest.mark.parametrize("make", [quick, quick_ensemble, IndependentBits, BernoulliMixture])
    def test_the_headline_is_the_score_of_all_rows(self, make: Any) -> None:
        model = make().fit(X)
        assert about(model, TEST).fit.scores[type(model).__name__] == model.score(TEST)

    def test_independent_columns_are_those_of_the_training_rows(self) -> None:
        scores = about(quick().fit(X), TEST).fit.scores
        assert scores[INDEPENDENT] == pytest.approx(IndependentBits().fit(X).score(TEST), abs=1e-5)
        assert scores[COINS] == pytest.approx(-D * np.log(2))
        assert list(scores.values()) == sorted(scores.values(), reverse=True)

    def test_of_rows_with_holes_the_values_that_are_there_count(self) -> None:
        model = quick().fit(X)
        found = about(model, HOLES)
        there = ~np.isnan(HOLES)
        assert found.fit.scores["LBARN"] == pytest.approx(model.log_marginal(HOLES, random_state=0).mean(), abs=1e-6)
        assert found.fit.scores[INDEPENDENT] == pytest.approx(
            IndependentBits().fit(X).log_marginal(HOLES, random_state=0).mean(), abs=1e-5
        )
        assert found.fit.scores[COINS] == pytest.approx(-there.sum(axis=1).mean() * np.log(2))
        assert found.share_missing == pytest.approx(1 - there.mean())
        assert found.share_of_ones == pytest.approx(HOLES[there].mean())

    def test_a_model_without_base_rates_is_compared_with_coins_alone(self) -> None:
        model = quick().fit(X)
        model.base_rates_ = None  # as in files of version 0.1
        found = about(model, TEST)
        assert set(found.fit.scores) == {"LBARN", COINS}
        assert found.columns.explained is None
        assert found.strange is not None
        assert {cell.base_rate for one in found.strange.explanations for cell in one.cells} == {None}

    def test_the_gain_is_over_the_best_of_the_others_row_by_row(self) -> None:
        model = quick().fit(X)
        test = TEST[TEST[:, 0] == 0]  # where a fair coin is no match for the base rate
        difference = model.score_samples(test) - IndependentBits().fit(X).score_samples(test)
        fit = about(model, test).fit
        assert fit.gain == pytest.approx(difference.mean(), abs=1e-5)
        assert fit.gain_error == pytest.approx(difference.std(ddof=1) / np.sqrt(len(test)), abs=1e-5)

    def test_what_was_validated_is_what_the_selected_model_had(self) -> None:
        model = quick(refit=False).fit(X[:200], X_val=X[200:])
        found = about(model, TEST)
        assert found.fit.validated == pytest.approx(model.score(X[200:]))
        assert found.training.curves is not None
        held_out, selected = found.training.curves["held-out rows"], found.training.curves["selected model"]
        assert selected[0] == held_out[0]
        assert selected[-1] >= held_out.max()


@pytest.mark.parametrize("table", [TEST, HOLES], ids=["complete", "missing"])
def test_a_threshold_changes_nothing(table: Any) -> None:
    plain, grey = about(quick().fit(X), table), about(quick(binarize=7).fit(X * 10), table * 10)
    assert grey.fit == plain.fit
    assert grey.calibration == plain.calibration
    np.testing.assert_array_equal(grey.samples.nearest, plain.samples.nearest)


def test_calibration_is_that_of_all_rows() -> None:
    model, many = quick().fit(X), rows(5200, D)
    found = about(model, many)
    assert found.calibration == calibration(model, many)
    assert (found.n_rows, found.n_compared) == (5200, 5000)


def test_columns_are_explained_as_far_as_their_surprise_is_below_that_of_their_rate() -> None:
    model, alone = quick().fit(X), IndependentBits().fit(X)
    columns = about(model, TEST).columns
    np.testing.assert_allclose(columns.ones, TEST.mean(axis=0))
    share = 1 - model.surprise(TEST).sum(axis=0) / alone.surprise(TEST).sum(axis=0)
    assert columns.explained is not None
    np.testing.assert_allclose(columns.explained, np.maximum(share, 0), atol=1e-5)
    constant = TEST.copy()
    constant[:, 2] = 0
    explained = about(model, constant).columns.explained
    assert explained is not None
    assert np.isnan(explained).tolist() == [d == 2 for d in range(D)]


class TestDependencies:
    def test_information_is_the_normalised_one(self) -> None:
        found = about(quick().fit(X), TEST).dependencies
        assert found is not None
        for one in found.strongest:
            a, b = TEST[:, one.column], TEST[:, one.predictor]
            assert one.information == pytest.approx(normalized_mutual_info_score(a, b))
            assert one.equal == (a == b).mean()

    def test_copies_and_opposites_count_once(self) -> None:
        x, y = np.random.default_rng(0).integers(0, 2, (2, 400))
        y[:300] = x[:300]
        bits = np.stack([x, 1 - x, x, y, 1 - y], axis=1)
        found = about(quick(max_iter=40).fit(bits[::2]), bits[1::2]).dependencies
        assert found is not None
        assert found.folded == [Folded(0, (2,), (1,)), Folded(3, (), (4,))]
        ((column, predictor, share),) = [(one.column, one.predictor, one.share) for one in found.strongest]
        assert (column, predictor, share) == (3, 0, pytest.approx(1))

    def test_columns_that_are_hardly_ever_1_may_agree_by_accident(self) -> None:
        bits = np.zeros((50, 3), bool)
        bits[:4, :2] = True
        assert folded_columns(bits, np.ones_like(bits)) == []
        bits[4, :2] = True
        assert folded_columns(bits, np.ones_like(bits)) == [Folded(0, (1,), ())]

    def test_columns_with_other_holes_are_not_the_same(self) -> None:
        bits = np.repeat(np.arange(40)[:, None] % 2 == 0, 2, axis=1)
        known = np.ones_like(bits)
        known[3, 1] = False
        assert folded_columns(bits, known) == []

    def test_folding_keeps_the_sum_over_pairs_that_stay(self) -> None:
        rng = np.random.default_rng(0)
        importance = np.tril(rng.random((8, 8)), -1)
        folded = fold_pairs(csr_array(importance), [Folded(1, (4,), (6,))]).toarray()
        inside = importance[4, 1] + importance[6, 1] + importance[6, 4]
        assert folded.sum() == pytest.approx(importance.sum() - inside)
        assert not folded[[4, 6]].any()
        assert not folded[:, [4, 6]].any()
        assert not (folded * folded.T).any()  # one direction per pair
        assert fold_pairs(csr_array(importance), []).toarray().tolist() == importance.tolist()


class TestSamples:
    def test_frequencies_are_those_of_samples_and_rows(self) -> None:
        model = quick().fit(X)
        found = about(model, TEST).samples
        drawn = model.sample(found.n_drawn, random_state=0)
        np.testing.assert_allclose(found.marginals, [TEST.mean(axis=0), drawn.mean(axis=0)])
        pairs = np.triu_indices(D, 1)
        np.testing.assert_allclose(
            found.correlations, [np.corrcoef(each.T)[pairs] for each in (TEST, drawn)], atol=1e-12
        )
        np.testing.assert_array_equal(found.shown, drawn[: len(found.shown)])
        np.testing.assert_array_equal(found.nearest, TEST[found.nearest_numbers])

    def test_correlations_of_rows_with_holes_are_those_of_complete_pairs(self) -> None:
        found = about(quick().fit(X), HOLES).samples
        expected = pd.DataFrame(HOLES).corr().to_numpy()[np.triu_indices(D, 1)]
        np.testing.assert_allclose(found.correlations[0], expected, atol=1e-12)
        np.testing.assert_allclose(found.marginals[0], np.nanmean(HOLES, axis=0))

    def test_of_many_columns_some_are_compared(self) -> None:
        wide = rows(60, 700)
        found = about(IndependentBits().fit(wide), wide).samples
        assert found.marginals.shape == (2, 600)
        assert found.correlations.shape[1] <= 600


class TestStrange:
    def test_rows_with_the_same_reason_are_explained_together(self) -> None:
        copies = np.repeat(np.random.default_rng(0).integers(0, 2, (400, 1)), 4, axis=1)
        model = quick(max_iter=60).fit(copies[:300])
        test = copies[300:].copy()
        test[[5, 17, 40], 3] = 1 - test[[5, 17, 40], 3]
        found = about(model, test).strange
        assert found is not None
        np.testing.assert_array_equal(found.scores, model.score_samples(test))
        reasons = {frozenset((cell.column, cell.value) for cell in one.cells): one for one in found.explanations}
        assert len(reasons) == len(found.explanations)
        rows_of = {value: reasons[frozenset({(3, value)})] for value in set(test[[5, 17, 40], 3].tolist())}
        assert sorted(row for one in rows_of.values() for row in one.rows) == [5, 17, 40]
        for value, one in rows_of.items():
            p = np.exp(-model.surprise(test)[one.rows, 3])
            assert (one.cells[0].lowest, one.cells[0].highest) == pytest.approx((p.min(), p.max()))
            assert model.base_rates_ is not None
            rate = model.base_rates_[3]
            assert one.cells[0].base_rate == pytest.approx(rate if value else 1 - rate)
            assert one.scores == model.score_samples(test)[one.rows].tolist()

    def test_a_reason_is_half_of_the_surprise_or_five_values(self) -> None:
        found = about(quick().fit(rows(300, 12)), rows(80, 12, seed=1)).strange
        assert found is not None
        for one in found.explanations:
            nats = np.sort(one.surprise)[::-1]
            n = len(one.cells)
            assert n == 5 or nats[:n].sum() >= nats.sum() / 2
            assert nats[: n - 1].sum() < nats.sum() / 2

    def test_a_missing_value_is_never_strange(self) -> None:
        found = about(quick().fit(X), HOLES).strange
        assert found is not None
        for one in found.explanations:
            assert all(HOLES[one.rows[0], cell.column] == cell.value for cell in one.cells)


def test_explain_names_the_share_of_training_rows_that_have_a_value() -> None:
    model = quick().fit(X)
    assert model.base_rates_ is not None
    for anomaly in explain(model, TEST, n_rows=5, n_values=D):
        for bit in anomaly.values:
            share = (X[:, int(bit.column)] == bit.value).sum()
            assert bit.base_rate == pytest.approx((share + 0.5) / (len(X) + 1))
    model.base_rates_ = None  # as in files of version 0.1
    assert {bit.base_rate for bit in explain(model, TEST, n_rows=1)[0].values} == {None}


def test_wide_tables_need_no_square_of_their_columns() -> None:
    n_columns = 3000
    X = rows(80, n_columns)
    model = IndependentBits().fit(X)
    about(model, X[:2])  # what is imported and cached once
    tracemalloc.start()
    found = about(model, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.dependencies is not None
    assert peak < 8 * n_columns**2 / 2


def test_everything_missing_is_nothing_to_report_on() -> None:
    with pytest.raises(ValueError, match="every value of X is missing"):
        about(quick().fit(X), np.full((30, D), np.nan))
