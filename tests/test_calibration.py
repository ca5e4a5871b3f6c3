"""Calibration counts what occurred against what was predicted, cell by cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from conftest import Dataset
from lbarn import LBARN, inspection
from lbarn._models.calibration import THRESHOLDS, CalibrationTally, Cells
from lbarn.baselines import IndependentBits
from lbarn.inspection import calibration
from networks import quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

X, TEST = rows(300, 6), rows(120, 6, seed=1)
HOLES = np.where(np.random.default_rng(0).random(TEST.shape) < 0.15, np.nan, TEST)


def by_definition(model: Any, table: Any, t: float) -> tuple[float, int, int]:
    """Expected, observed and number of cells: flip every bit, and see which of the two values is the rarer one."""
    expected, observed, n_cells = 0.0, 0, 0
    for d in range(table.shape[1]):
        flipped = table.copy()
        flipped[:, d] ^= 1
        p, other = (np.exp(-model.surprise(each)[:, d]) for each in (table, flipped))
        np.testing.assert_allclose(p + other, 1, atol=1e-6)
        q = np.minimum(p, other)
        expected += q[q < t].sum()
        observed += int((p < other)[q < t].sum())
        n_cells += int((q < t).sum())
    return expected, observed, n_cells


@pytest.mark.parametrize("order", ["given", "random"])
def test_counts_are_those_of_the_definition(order: str) -> None:
    model = quick(order=order, max_iter=60).fit(X)
    thresholds = (0.305, 0.413, 0.487)
    found = calibration(model, TEST, thresholds=thresholds)
    assert [line.threshold for line in found] == list(thresholds)
    for line in found:
        expected, observed, n_cells = by_definition(model, TEST, line.threshold)
        assert line.expected == pytest.approx(expected, rel=1e-5)
        assert (line.observed, line.n_cells) == (observed, n_cells)
        assert 0 < line.standard_error < np.sqrt(line.expected)


def test_the_last_default_threshold_takes_all_cells() -> None:
    assert calibration(quick().fit(X), TEST)[-1].n_cells == TEST.size


def test_a_model_that_has_made_the_rows_is_calibrated() -> None:
    model = quick(max_iter=60).fit(X)
    for line in calibration(model, model.sample(20_000, random_state=0)):
        assert abs(line.observed - line.expected) <= 4 * line.standard_error + 1


def test_rows_with_holes_are_calibrated_too_for_a_model_that_has_made_them() -> None:
    model = quick(order="random", max_iter=60).fit(X)
    made = model.sample(4000, random_state=0).astype(float)
    made[np.random.default_rng(0).random(made.shape) < 0.3] = np.nan
    found = calibration(model, made)
    assert found[-1].n_cells == (~np.isnan(made)).sum()
    for line in found:
        assert abs(line.observed - line.expected) <= 4 * line.standard_error + 1


def test_a_model_that_is_too_certain_is_found_out() -> None:
    zeros = np.zeros((5000, 1), int)
    surprised = zeros.copy()
    surprised[:40] = 1
    (line,) = calibration(IndependentBits().fit(zeros), surprised, thresholds=[0.001])
    assert line.expected == pytest.approx(0.5, rel=0.01)
    assert line.observed == 40


@pytest.mark.parametrize(
    "name", ["digits", "mushrooms", "nips", "dna", "adult", "connect4", "ocr_letters", "web", "mnist"]
)
def test_no_parameters_at_all_give_as_many_rare_values_as_expected(
    name: str, shared_data: Callable[[str], Dataset]
) -> None:
    """On rows shuffled first: those that Web and NIPS have for tests are of another time than those for training.

    Of a value that occurred in k of n training rows, the count in n others varies twice as much as one whose rate is known.
    """
    if name == "digits":
        table = (load_digits().data >= 8).astype(np.uint8)
    else:
        table = np.concatenate([part.unpack() for part in shared_data(name)])
    shuffled = table[np.random.default_rng(0).permutation(len(table))[:2400], :: -(-table.shape[1] // 128)]
    known, new = np.array_split(shuffled, 2)
    model = LBARN(random_state=0, n_jobs=2).fit(known)
    for line in calibration(model, new, thresholds=[1e-4, 0.001, 0.01]):
        assert abs(line.observed - line.expected) <= 3 * np.sqrt(2) * line.standard_error + 1


def test_fair_coins_have_no_rarer_value_and_half_of_the_cells_count() -> None:
    bits = np.array([[True], [False], [False], [True]])
    tally = CalibrationTally((0.6,))
    tally.add(Cells(bits, np.ones_like(bits), np.full(bits.shape, np.log(2)), 1.0))
    (line,) = tally.result()
    assert (line.expected, line.observed, line.n_cells) == (pytest.approx(2), 2, 4)


def test_the_cells_of_an_ensemble_are_those_of_its_members_by_weight() -> None:
    ensemble = quick_ensemble().fit(X)
    each = np.array([calibration(member, TEST) for member in ensemble.members_])
    each[:, :, 3] **= 2  # errors add up as variances
    mean = np.tensordot(ensemble.weights_, each, axes=1)
    mean[:, 0], mean[:, 3] = THRESHOLDS, np.sqrt(mean[:, 3])
    np.testing.assert_allclose(np.array(calibration(ensemble, TEST)), mean, atol=1e-9)


def test_a_threshold_of_the_model_changes_nothing() -> None:
    assert calibration(quick(binarize=7).fit(X * 10), TEST * 10) == calibration(quick().fit(X), TEST)


def test_the_same_seed_gives_the_same_counts() -> None:
    model = quick().fit(X)
    assert calibration(model, HOLES) == calibration(model, HOLES)


@pytest.mark.parametrize("thresholds", [[], [0.1, 0.1], [0.0, 0.1], [0.5, 0.1]])
def test_thresholds_that_make_no_sense_are_refused(thresholds: list[float]) -> None:
    with pytest.raises(ValueError, match="thresholds must be increasing numbers above 0"):
        calibration(quick().fit(X), TEST, thresholds=thresholds)


def test_a_deep_tree_can_be_printed() -> None:
    node: dict[str, Any] = {"value": 0.5}
    for column in range(3000):
        node = {"column": column, "one": node, "zero": {"value": -0.5}}
    lines = list(inspection.tree_lines(node))
    assert len(lines) == 6000
    assert lines[0] == "2999 = 1"
    assert lines[1] == "    2998 = 1"
    assert lines[-1] == "2999 = 0: -0.5000"
