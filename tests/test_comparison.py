"""Simple models are fitted on one half of the rows and compared on the other, whatever the rows look like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from lbarn.baselines import IndependentBits, SingleTreeNetwork
from lbarn.report.comparison import COINS, INDEPENDENT, Comparison, Rows, without_threshold
from networks import quick, rows, still_rising

pytestmark = still_rising

D = 6
X, TEST = rows(300, D), rows(81, D, seed=1)
HOLES = np.where(np.random.default_rng(0).random(TEST.shape) < 0.1, np.nan, TEST)


def compare(model: Any, X: Any) -> Comparison:
    return Comparison(without_threshold(model), Rows.of(model, X, 0), 0)


def test_scores_are_those_of_models_fitted_on_the_other_half() -> None:
    model = quick().fit(X)
    comparison = compare(model, TEST)
    fit, rest = comparison.halves
    assert sorted([*fit, *rest]) == list(range(81))
    assert abs(len(fit) - len(rest)) == 1
    scores = comparison.scores
    assert scores[comparison.own_name] == pytest.approx(model.score(TEST[rest]))
    assert scores[INDEPENDENT] == pytest.approx(IndependentBits().fit(TEST[fit]).score(TEST[rest]))
    assert scores["one tree per column"] == pytest.approx(SingleTreeNetwork().fit(TEST[fit]).score(TEST[rest]))
    assert scores[COINS] == pytest.approx(-D * np.log(2))
    assert list(scores.values()) == sorted(scores.values(), reverse=True)


def test_only_values_that_are_there_count() -> None:
    model = quick().fit(X)
    comparison = compare(model, HOLES)
    fit, rest = comparison.halves
    table = HOLES[rest]
    assert set(comparison.scores) == {comparison.own_name, COINS, INDEPENDENT}
    np.testing.assert_allclose(comparison.row_scores[comparison.own_name], model.log_marginal(table), atol=1e-6)
    alone = IndependentBits().fit(HOLES[fit]).log_marginal(table)
    np.testing.assert_allclose(comparison.row_scores[INDEPENDENT], alone, atol=1e-4)
    present = comparison.rows.bits[~comparison.rows.missing]
    np.testing.assert_array_equal(present, HOLES[~np.isnan(HOLES)])


@pytest.mark.parametrize("table", [TEST, HOLES], ids=["complete", "missing"])
def test_a_threshold_changes_nothing(table: Any) -> None:
    plain, grey = compare(quick().fit(X), table), compare(quick(binarize=7).fit(X * 10), table * 10)
    assert grey.scores == plain.scores
    np.testing.assert_array_equal(grey.rows.bits, plain.rows.bits)


def test_names_are_kept_and_too_few_rows_are_not_divided() -> None:
    names = list("abcdef")
    comparison = compare(quick().fit(pd.DataFrame(X, columns=names)), pd.DataFrame(TEST[:9], columns=names))
    assert list(comparison.rows.table.columns) == names
    assert [len(half) for half in comparison.halves] == [0, 9]
    assert set(comparison.scores) == {comparison.own_name, COINS}


def test_of_a_long_table_the_chosen_rows_go_by_their_numbers() -> None:
    many = rows(5200, D)
    chosen = Rows.of(quick().fit(X), many, 0)
    assert chosen.n_given == 5200
    assert len(chosen) == 5000
    np.testing.assert_array_equal(chosen.bits, many[chosen.numbers])
    holes = many.astype(float)
    holes[0, 0] = np.nan
    assert len(Rows.of(quick().fit(X), holes, 0)) == 400
