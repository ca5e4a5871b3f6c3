"""Groups: binary columns that exclude each other are one category, wherever they stand."""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import lbarn
from lbarn import LBARN, LBARNEnsemble
from lbarn._training.data import GivenRows
from repeated_fits import assert_the_same_however_fitted

FEW = {"max_iter": 40, "random_state": 0}


def one_hot(n: int, sizes: tuple[int, ...] = (3, 4), *, seed: int = 0, noise: int = 2) -> np.ndarray[Any, Any]:
    """Categories that depend on each other, one column for each level, and a few bits; columns shuffled."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, sizes[0], n)
    parts = [np.eye(sizes[0], dtype=int)[first]]
    for size in sizes[1:]:
        level = np.where(rng.random(n) < 0.7, first % size, rng.integers(0, size, n))
        parts.append(np.eye(size, dtype=int)[level])
    parts.append(rng.integers(0, 2, (n, noise)))
    X = np.hstack(parts)
    return X[:, np.random.default_rng(1).permutation(X.shape[1])]


def groups_of(X: Any, groups: Any = "auto") -> list[tuple[int, ...]]:
    own = LBARN(groups=groups)
    data = GivenRows.read(own, X).divided(0.2, 0).filled(0, groups)
    return sorted(group.columns for group in data.groups)


def all_rows(D: int) -> np.ndarray[Any, Any]:
    return np.array(list(product([0, 1], repeat=D)))


def test_one_hot_columns_are_found_wherever_they_are() -> None:
    X = one_hot(1000, (3, 5, 4), noise=3)
    expected = []
    place = np.argsort(np.random.default_rng(1).permutation(X.shape[1]))
    for first, size in ((0, 3), (3, 5), (8, 4)):
        expected.append(tuple(sorted(place[first : first + size].tolist())))
    assert groups_of(X) == sorted(expected)


def test_at_most_one_is_found_too() -> None:
    X = np.delete(
        one_hot(1000, (4, 4), noise=2)[:, np.argsort(np.random.default_rng(1).permutation(10))], [3, 7], axis=1
    )
    assert groups_of(X) == [(0, 1, 2), (3, 4, 5)]
    model = LBARN(**FEW).fit(X)
    assert model.network_.groups == ((0, 1, 2), (3, 4, 5))


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_chance_makes_no_groups(share: float) -> None:
    """Rare ones exclude each other by chance all the time; that is no rule."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = (rng.random((int(rng.integers(20, 400)), 40)) < share).astype(int)
        assert groups_of(X) == []


def test_rows_that_break_a_rule_in_the_validation_rows_count() -> None:
    X = one_hot(1000, (3,), noise=0)
    broken = X.copy()
    broken[-1] = 1
    own = LBARN()
    rows = GivenRows.read(own, X, X_val=broken)
    assert rows.filled(0, "auto").groups == ()
    assert len(GivenRows.read(own, X, X_val=X).filled(0, "auto").groups) == 1


def test_the_user_says_which() -> None:
    frame = pd.DataFrame(one_hot(300, (3,), noise=2), columns=list("abcde"))
    own = sorted(np.argsort(np.random.default_rng(1).permutation(5))[:3].tolist())
    names = [frame.columns[j] for j in own]
    model = LBARN(groups=[names], **FEW).fit(frame)
    assert model.network_.groups == (tuple(own),)
    assert model.columns_[names[0]].group == tuple(names)
    assert f"one of {', '.join(names)}" in repr(model.columns_)
    assert LBARN(groups=own, **FEW).fit(frame.to_numpy()).network_.groups == (tuple(own),)
    assert LBARN(groups=None, **FEW).fit(frame).network_.groups == ()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([["a", "x"]], "no column 'x'"),
        ([["a"]], "at least two"),
        ([["a", "b"], ["b", "c"]], "named twice"),
        ([["a", "size"]], "'size' is not binary"),
        ("all", "groups"),
    ],
)
def test_wrong_groups_are_refused(groups: Any, message: str) -> None:
    frame = pd.DataFrame(one_hot(60, (3,), noise=0), columns=list("abc"))
    frame["size"] = np.arange(60) % 7
    with pytest.raises(ValueError, match=message):
        LBARN(groups=groups, **FEW).fit(frame)


def test_a_rule_that_rows_break_is_held_as_often_as_they_do() -> None:
    rng = np.random.default_rng(0)
    X = np.eye(3, dtype=int)[rng.integers(0, 3, 2000)]
    X[:100] = [1, 1, 0]
    rng.shuffle(X)
    model = LBARN(groups=[[0, 1, 2]], **FEW).fit(X)
    share = np.exp(model.score_samples(np.array([[1, 1, 0]])))[0]
    assert 0.01 < share < 0.1


def test_probabilities_sum_to_one_and_no_row_is_impossible() -> None:
    X = one_hot(500, (3, 4), noise=2)
    model = LBARN(**FEW).fit(X)
    assert len(model.network_.groups) == 2
    log_p = model.score_samples(all_rows(9))
    assert np.isfinite(log_p).all()
    assert np.exp(log_p).sum() == pytest.approx(1, abs=1e-6)
    legal = (all_rows(9)[:, list(model.network_.groups[0])].sum(axis=1) == 1) & (
        all_rows(9)[:, list(model.network_.groups[1])].sum(axis=1) == 1
    )
    assert np.exp(log_p[legal]).sum() > 0.998


@pytest.mark.parametrize("order", ["given", "random", "entropy-decreasing"])
def test_it_is_better_in_any_order(order: str) -> None:
    X, test = one_hot(600, (6, 6, 6), noise=2), one_hot(600, (6, 6, 6), noise=2, seed=7)
    own = {"order": order, "random_state": 0, "max_iter": 150, "counts": False}
    with_groups, without = LBARN(**own).fit(X), LBARN(groups=None, **own).fit(X)
    assert len(with_groups.network_.groups) == 3
    assert with_groups.score(test) > without.score(test)


def test_everything_else_works_with_groups(tmp_path: Path) -> None:
    X = one_hot(400, (3, 4), noise=2)
    model = LBARN(**FEW).fit(X)
    model.save(tmp_path / "m.lbarn")
    loaded = lbarn.load(tmp_path / "m.lbarn")
    odd = np.vstack([X[:50], np.ones((1, 9), int), np.zeros((1, 9), int)])
    assert (loaded.score_samples(odd) == model.score_samples(odd)).all()
    assert loaded.network_.groups == model.network_.groups
    assert (loaded.select("individual").n_trees_ == model.n_trees_).all()
    model.save(tmp_path / "t.lbarn", trim=True)
    assert (lbarn.load(tmp_path / "t.lbarn").score_samples(odd) == model.score_samples(odd)).all()
    assert (loaded.decompress(model.compress(odd)) == odd).all()
    drawn = model.sample(500, random_state=0)
    for columns in model.network_.groups:
        assert (drawn[:, list(columns)].sum(axis=1) == 1).mean() > 0.99
    assert model.surprise(X[:20]).sum(axis=1) == pytest.approx(-model.score_samples(X[:20]))
    assert model.feature_importances_.shape == (9, 9)


def test_gaps_are_filled_as_enumeration_says() -> None:
    X = one_hot(400, (3, 4), noise=2)
    model = LBARN(**FEW).fit(X)
    holes = X[:5].astype(float)
    group = list(model.network_.groups[0])
    holes[:, group] = np.nan
    holes[3:, 8] = np.nan
    every, log_p = all_rows(9), model.score_samples(all_rows(9))
    filled = model.impute(holes, output="probability")
    for row, own, marginal in zip(holes, filled, model.log_marginal(holes)):
        agrees = ((every == row) | np.isnan(row)).all(axis=1)
        p = np.exp(log_p[agrees])
        assert marginal == pytest.approx(np.log(p.sum()), abs=1e-6)
        gone = np.isnan(row)
        assert own[gone] == pytest.approx((p @ every[agrees] / p.sum())[gone], abs=1e-6)


def test_the_same_for_any_number_of_jobs_continued_and_resumed(tmp_path: Path) -> None:
    X = one_hot(400, (3, 4), noise=2)
    one, resumed = assert_the_same_however_fitted(X, tmp_path, FEW)
    files = [tmp_path / "one", tmp_path / "resumed"]
    for own, path in zip((one, resumed), files):
        own.save(path)
    assert files[0].read_bytes() == files[1].read_bytes()


def test_an_ensemble_has_them_in_every_order() -> None:
    X = one_hot(400, (3, 4), noise=2)
    model = LBARNEnsemble(n_orders=2, orders="random", **FEW).fit(X)
    assert all(sorted(own.network_.groups) == sorted(model.members_[0].network_.groups) for own in model.members_)
    assert np.exp(model.score_samples(all_rows(9))).sum() == pytest.approx(1, abs=1e-6)


def test_binary_columns_of_a_mixed_table_are_grouped() -> None:
    bits = one_hot(500, (4,), noise=1)
    frame = pd.DataFrame(bits, columns=list("abcde")).assign(size=np.arange(500) % 9)
    model = LBARN(**FEW).fit(frame)
    assert len(model.network_.groups) == 1
    assert len(model.network_.groups[0]) == 4
    drawn = model.sample(300, random_state=0)
    assert (drawn.iloc[:, list(model.network_.groups[0])].sum(axis=1) == 1).mean() > 0.99


def test_missing_values_do_not_hide_a_group() -> None:
    X = one_hot(600, (4,), noise=1).astype(float)
    X[np.random.default_rng(3).random(X.shape) < 0.05] = np.nan
    model = LBARN(missing="unknown", **FEW).fit(X)
    assert len(model.network_.groups) == 1
    assert np.isfinite(model.log_marginal(X)).all()


def test_the_paper_knows_no_groups() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LBARN.paper(max_iter=5, random_state=0).fit(one_hot(400))
    assert model.network_.groups == ()


def test_a_random_order_keeps_groups_together() -> None:
    X = one_hot(1000, (3, 4))
    groups = groups_of(X)
    for seed in range(5):
        model = LBARN(order="random", max_iter=2, random_state=seed).fit(X)
        place = np.argsort(model.order_)
        for group in groups:
            assert np.ptp(place[list(group)]) == len(group) - 1
