"""Certainty is stretched as far as rows that chose nothing confirm, and no further."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lbarn
from lbarn import LBARN
from lbarn._engine.bits import pack
from lbarn._engine.trees import KNEES, LOG_ODDS_UNIT, NO_LIMIT, NO_STRETCH, Stretch, Trees
from lbarn._training.stretch import _likeliest

SIZES = (np.arange(513) + 0.5) / 16


def constant(log_odds: float, stretch: Stretch, limit: int = NO_LIMIT) -> Trees:
    trees = Trees.constant(log_odds)
    return Trees(trees.splits, trees.gains, trees.values, trees.offsets, limit, stretch=stretch)


def stretched(size: np.ndarray, stretch: Stretch) -> np.ndarray:
    """By definition: the slope between two knees is their stretch."""
    slopes = np.array([8, *stretch]) / 8
    knees = np.array([0.0, *KNEES, np.inf])
    parts = np.clip(size[:, None], knees[:-1], knees[1:]) - knees[:-1]
    return (parts * slopes).sum(axis=1)


def rules(n: int, seed: int = 0) -> np.ndarray:
    """Twelve bits of chance, and twelve that follow from them."""
    bits = np.random.default_rng(seed).integers(0, 2, (n, 12))
    return np.concatenate([bits, bits ^ np.roll(bits, 1, axis=1)], axis=1)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("log_odds", [0.0, 2.9, 3.1, 4.0, 5.5, 6.5, 7.5, 20.0])
def test_log_odds_are_stretched_beyond_the_knees_alike_by_columns_and_by_rows(log_odds: float, sign: int) -> None:
    how = 10, 16, 9, 32, 8, 11
    trees = constant(sign * log_odds, how)
    rows = pack(np.zeros((70, 1)))
    for index in (np.arange(70, dtype=np.int32), np.arange(3, dtype=np.int32)):
        found = trees.log_odds_at(rows.rows, index) * LOG_ODDS_UNIT
        np.testing.assert_allclose(found, sign * stretched(np.array([log_odds]), how)[0], atol=1e-5)
    np.testing.assert_array_equal(trees.log_odds(rows.columns, 70)[:70], trees.log_odds_at(rows.rows, index)[0])


def test_the_limit_comes_first_and_sums_do_not_overflow() -> None:
    rows, one = pack(np.zeros((1, 1))).rows, np.zeros(1, np.int32)
    limited = constant(100.0, (16,) * 6, limit=11 << 19)
    assert limited.log_odds_at(rows, one)[0] * LOG_ODDS_UNIT == pytest.approx(3 + 2 * 2.5, abs=1e-5)
    assert constant(2040.0, (32,) * 6).log_odds_at(rows, one)[0] == 2**31 - 1


@pytest.mark.parametrize("stretch", [(7, 8, 8, 8, 8, 8), (8, 8, 8, 8, 8, 33)])
def test_the_core_refuses_other_stretches(stretch: Stretch) -> None:
    with pytest.raises(ValueError, match="stretch of the log-odds is out of range"):
        constant(1.0, stretch).core  # noqa: B018


def test_nothing_is_stretched_without_rows_or_without_need() -> None:
    nobody = np.zeros_like(SIZES)
    assert _likeliest(nobody, nobody) == NO_STRETCH
    calibrated = np.full_like(SIZES, 10_000.0)
    assert _likeliest(calibrated, calibrated / (1 + np.exp(SIZES))) == NO_STRETCH


def test_too_little_certainty_is_found() -> None:
    everyone = np.where(SIZES < 8, 100_000.0, 0.0)
    for truth in ((12,) * 6, (8, 8, 24, 8, 8, 8)):
        wrong = everyone / (1 + np.exp(stretched(SIZES, truth)))
        found = np.array(_likeliest(everyone, wrong))
        assert (np.abs(found[:4] - truth[:4]) <= 2).all()


def test_beyond_the_last_exception_one_more_is_reckoned_with() -> None:
    """However many rows agree, they are expected to have had one exception: no more, and no less."""
    everyone = np.zeros_like(SIZES)
    everyone[(SIZES > 5) & (SIZES < 8)] = 2_000.0
    found = _likeliest(everyone, np.zeros_like(SIZES))
    expected = (everyone / (1 + np.exp(stretched(SIZES, found)))).sum()
    assert 0.8 < expected < 1.2 < (everyone / (1 + np.exp(SIZES))).sum()


def test_few_rows_that_agree_are_no_evidence() -> None:
    everyone = np.zeros_like(SIZES)
    everyone[int(KNEES[0] * 16) + 8] = 12.0
    assert _likeliest(everyone, np.zeros_like(SIZES)) == NO_STRETCH


def test_rules_are_believed_more_firmly_by_all_columns_together() -> None:
    X, new = rules(1500), rules(4000, seed=1)
    sharp, plain = (LBARN(random_state=0, sharpen=own).fit(X) for own in (True, False))
    assert sharp.run_.stretch != NO_STRETCH
    assert plain.run_.stretch == NO_STRETCH
    assert sharp.score(new) > plain.score(new)


def test_the_network_keeps_its_certainty_in_files_and_selections(tmp_path: Path) -> None:
    X = rules(600)
    model = LBARN(random_state=0).fit(X)
    assert model.run_.stretch != NO_STRETCH
    for trim in (False, True):
        model.save(tmp_path / "model.lbarn", trim=trim)
        again = lbarn.load(tmp_path / "model.lbarn")
        np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
        assert again.network_.fingerprint() == model.network_.fingerprint()
    score = model.score(X)
    assert model.select("individual").score(X) == score
    packed = model.compress(X)
    np.testing.assert_array_equal(model.decompress(packed), X)
    other = LBARN(random_state=0, sharpen=False).fit(X)
    assert other.network_.fingerprint() != model.network_.fingerprint()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_it_does_not_depend_on_jobs(n_jobs: int) -> None:
    assert (
        LBARN(random_state=0, n_jobs=n_jobs).fit(rules(600)).run_.stretch
        == LBARN(random_state=0).fit(rules(600)).run_.stretch
    )
