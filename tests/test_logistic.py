"""Probabilities and log-likelihoods of integer log-odds against float64, over all of int32."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbarn._engine.trees import LOG_ODDS_UNIT, UNIT, log_likelihoods, probabilities

LARGEST = 2**31 - 1  # training keeps log-odds within it, either way
ONE = 2**30


def grid() -> np.ndarray:
    """Every scale of log-odds, and the neighbourhoods of 0, of the reduction's steps and of the ends."""
    rng = np.random.default_rng(0)
    near = np.arange(-2000, 2000)
    steps = [near + round(k * np.log(2.0) / 2.0 / LOG_ODDS_UNIT) for k in range(130)]
    scales = np.exp(rng.uniform(0.0, np.log(LARGEST), 300_000)).astype(np.int64)
    positive = np.clip(np.concatenate([*steps, scales, LARGEST - np.arange(100)]), 0, LARGEST)
    return np.concatenate([-positive[::-1], positive]).astype(np.int32)


def minor(log_odds: np.ndarray) -> np.ndarray:
    """The probability of the less likely value."""
    return np.exp(-np.logaddexp(0.0, np.abs(log_odds * LOG_ODDS_UNIT)))


def all_targets(y: int, n: int) -> np.ndarray:
    return np.full(-(-n // 64), 2**64 - 1 if y else 0, np.uint64)


def test_probabilities_are_right_to_3e_7_on_either_side():
    log_odds = grid()
    p = probabilities(log_odds).astype(np.int64)
    assert p.min() == 0
    assert p.max() == ONE
    unlikely = np.where(log_odds < 0, p, ONE - p)
    exact = minor(log_odds) / UNIT
    assert (np.abs(unlikely - exact) <= 3e-7 * exact + 0.51).all()


def test_a_probability_and_that_of_the_opposite_log_odds_sum_to_one():
    log_odds = grid()
    assert (probabilities(log_odds).astype(np.int64) + probabilities(-log_odds) == ONE).all()
    assert probabilities(np.zeros(1, np.int32))[0] == ONE // 2


@pytest.mark.parametrize("y", [0, 1])
def test_log_likelihoods_are_right_to_4e_7(y):
    log_odds = grid()
    ours = log_likelihoods(log_odds, all_targets(y, len(log_odds)))
    exact = -np.logaddexp(0.0, (1 - 2 * y) * log_odds * LOG_ODDS_UNIT) / UNIT
    assert (ours <= 0).all()
    # log(1 + exp) is right to 3e-7, and the float32 that it is rounded in adds 2^-24.
    assert (np.abs(ours - exact) <= (3e-7 + 2.0**-24) * np.abs(exact) + 0.51).all()


def test_log_likelihoods_of_both_values_differ_by_the_log_odds_exactly():
    log_odds = grid()
    n = len(log_odds)
    difference = log_likelihoods(log_odds, all_targets(1, n)) - log_likelihoods(log_odds, all_targets(0, n))
    np.testing.assert_array_equal(difference, log_odds.astype(np.int64) << 10)


@given(st.lists(st.tuples(st.integers(-LARGEST, LARGEST), st.integers(0, 1)), max_size=200))
def test_each_row_is_scored_by_its_own_bit_of_the_target(rows):
    log_odds = np.array([f for f, _ in rows], np.int32)
    y = np.array([t for _, t in rows], np.uint8)
    target = np.packbits(np.pad(y, (0, -len(y) % 64)), bitorder="little").view(np.uint64)
    ours = log_likelihoods(log_odds, target)
    for t in (0, 1):
        np.testing.assert_array_equal(ours[y == t], log_likelihoods(log_odds, all_targets(t, len(y)))[y == t])


def test_a_target_of_too_few_bits_is_refused():
    with pytest.raises(ValueError, match="too few bits"):
        log_likelihoods(np.zeros(65, np.int32), np.zeros(1, np.uint64))
