"""What the simple models have in common with a network: tables, the hold-out, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lbarn._training.data import hold_out
from lbarn.baselines import BernoulliMixture, IndependentBits, LogisticNetwork, SingleTreeNetwork
from networks import all_states, rows

X, TEST = rows(200, 5), rows(60, 5, seed=1)
VALIDATED = [SingleTreeNetwork(max_leaf_nodes=8), BernoulliMixture(n_components=(2, 3)), LogisticNetwork()]
BASELINES = [IndependentBits(), *VALIDATED]


def name(model: Any) -> str:
    return type(model).__name__


@pytest.mark.parametrize("model", VALIDATED, ids=name)
@pytest.mark.parametrize(("n", "fraction"), [(1, 0.2), (2, 0.2), (10, 0.01), (10, 0.99)])
def test_a_hold_out_that_leaves_nothing_is_refused(model: Any, n: int, fraction: float) -> None:
    with pytest.raises(ValueError, match=rf"validation_fraction={fraction} of {n} sample.*give more rows, or X_val"):
        clone(model).set_params(validation_fraction=fraction).fit(X[:n])


@pytest.mark.parametrize("model", VALIDATED, ids=name)
def test_rows_are_held_out_by_the_seed(model: Any) -> None:
    kept, held = hold_out(len(X), 0.2, 3)
    by_itself = clone(model).set_params(random_state=3).fit(X).score_samples(TEST)
    by_hand = clone(model).set_params(random_state=3).fit(X[kept], X_val=X[held]).score_samples(TEST)
    np.testing.assert_array_equal(by_itself, by_hand)


@pytest.mark.parametrize("model", BASELINES, ids=name)
def test_the_probabilities_of_all_rows_sum_to_one(model: Any) -> None:
    assert np.exp(clone(model).fit(X).score_samples(all_states(5))).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("model", BASELINES, ids=name)
def test_columns_go_by_name(model: Any) -> None:
    names = list("abcde")
    frame, test = pd.DataFrame(X, columns=names), pd.DataFrame(TEST, columns=names)
    model = clone(model).fit(frame)
    expected = clone(model).fit(X).score_samples(TEST)
    np.testing.assert_array_equal(model.score_samples(test[names[::-1]]), expected)
    with pytest.warns(UserWarning, match="ignored: 'z'"):
        np.testing.assert_array_equal(model.score_samples(test.assign(z=0)), expected)
    with pytest.raises(ValueError, match="X has no column 'b'"):
        model.score_samples(test.drop(columns="b"))
    drawn = model.sample(7, random_state=0)
    assert list(drawn.columns) == names
    assert drawn.dtypes.tolist() == frame.dtypes.tolist()
    assert model.feature_names_in_.tolist() == names


@pytest.mark.parametrize("model", BASELINES, ids=name)
def test_without_a_fit_there_are_no_scores(model: Any) -> None:
    for use in (lambda model: model.score_samples(X), lambda model: model.sample(3)):
        with pytest.raises(NotFittedError):
            use(clone(model))


@pytest.mark.parametrize("model", VALIDATED, ids=name)
def test_missing_values_in_training_are_refused(model: Any) -> None:
    holes = X.astype(float)
    holes[7, 2] = np.nan
    with pytest.raises(ValueError, match=r"column 2 is missing .*row 7"):
        clone(model).fit(holes)
