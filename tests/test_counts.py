"""Counts: how many ones there were so far, for trees that cannot count."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lbarn
from lbarn import LBARN, LBARNEnsemble
from lbarn._engine.bits import pack
from lbarn._engine.counts import Counts
from repeated_fits import assert_the_same_however_fitted
from test_gather import random_trees

FEW = {"max_iter": 60, "random_state": 0, "counts": True}


def majority(n: int, D: int = 12, *, seed: int = 0) -> np.ndarray[Any, Any]:
    """Bits, the last of which says whether half of the others are 1."""
    X = np.random.default_rng(seed).integers(0, 2, (n, D))
    X[:, -1] = X[:, :-1].sum(axis=1) > (D - 1) / 2
    return X


def test_counts_are_what_they_say() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (700, 200))
    kinds = [np.arange(150), np.arange(100, 150), np.array([3, 70, 149])]
    which, at_least = np.array([0, 0, 1, 2], np.uint16), np.array([70, 80, 25, 2], np.uint16)
    counts = Counts.of(150, kinds, which, at_least)
    rows = pack(X).rows
    values = np.stack([X[:, own].sum(axis=1) for own in kinds], axis=1)
    assert (counts.values(rows) == values).all()
    index = rng.permutation(700)[:333].astype(np.int32)
    trained = counts.to_train(rows, index)
    found = np.unpackbits(trained.columns.view(np.uint8), axis=1, count=333, bitorder="little").T
    assert (found[:, :150] == X[index, :150]).all()
    assert (found[:, 150:154] == (values[index][:, which] >= at_least)).all()
    assert (found[:, 154] == X[index, 150]).all()


@pytest.mark.parametrize("n", [1, 4, 5, 64, 65, 512, 700])
def test_trees_that_count_are_evaluated_as_if_the_counts_were_columns(simd: str, n: int) -> None:
    rng = np.random.default_rng(n)
    X = rng.integers(0, 2, (n, 400))
    kinds = [np.arange(300), np.arange(200, 300), np.array([3, 70, 149]), np.arange(0, 300, 2), np.array([5])]
    which = np.repeat(np.arange(5), 4).astype(np.uint16)
    at_least = np.array([140, 150, 160, 301, 45, 50, 64, 128, 1, 2, 3, 4, 70, 75, 80, 0, 0, 1, 2, 65_535], np.uint16)
    counts = Counts.of(300, kinds, which, at_least)
    trees = random_trees(320, 40, 16, seed=n)
    counting = replace(trees, counts=counts, closers=np.array([7, 299], np.uint16), closed=-5)
    values = np.stack([X[:, own].sum(axis=1) for own in kinds], axis=1)
    wide = pack(np.hstack([X[:, :300], values[:, which] >= at_least]))
    expected = replace(counting, counts=None).log_odds(wide.columns, n)
    bits = pack(X)
    np.testing.assert_array_equal(counting.log_odds(bits.columns, n), expected)
    np.testing.assert_array_equal(counting.log_odds_at(bits.rows, np.arange(n, dtype=np.int32)), expected)


def test_what_is_counted_must_be_there() -> None:
    bits, one = pack(np.ones((5, 40), int)), np.ones(1, np.uint16)
    counts = Counts.of(300, [np.arange(300)], np.zeros(1, np.uint16), one)
    counting = replace(random_trees(301, 3, 4), counts=counts)
    for evaluate in (
        lambda: counting.log_odds(bits.columns, 5),
        lambda: counting.log_odds_at(bits.rows, np.arange(5, dtype=np.int32)),
    ):
        with pytest.raises(ValueError, match=r"not there|longer than the rows"):
            evaluate()
    with pytest.raises(ValueError, match="come later in the order"):
        replace(counts, position=20).core  # noqa: B018


def test_a_majority_is_learned() -> None:
    X, test = majority(1500), majority(2000, seed=1)
    own = {"random_state": 0, "max_iter": 200}
    plain, counting, auto = (LBARN(counts=c, **own).fit(X) for c in (False, True, "auto"))
    assert counting.score(test) > plain.score(test) + 0.05
    assert auto.network_.has_counts
    assert auto.network_.fingerprint() == counting.network_.fingerprint()


def test_noise_is_not_counted_for_long() -> None:
    X, new = np.split(np.random.default_rng(0).integers(0, 2, (1400, 30)), [400])
    auto, plain = LBARN(random_state=0).fit(X), LBARN(random_state=0, counts=False).fit(X)
    assert auto.score(new) > plain.score(new) - 0.15


def test_levels_of_groups_and_of_columns_are_counted() -> None:
    """The last column is the level that was most common among the others."""
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 3, (1500, 9))
    levels[:, -1] = [np.bincount(row, minlength=3).argmax() for row in levels[:, :-1]]
    frame = pd.DataFrame(np.array(["a", "b", "c"])[levels], columns=list("abcdefghi"))
    bits = np.hstack([np.eye(3, dtype=int)[level] for level in levels.T])
    for table in (frame, bits):
        counting = LBARN(counts=True, random_state=0).fit(table[:1000])
        plain = LBARN(counts=False, random_state=0).fit(table[:1000])
        assert counting.score(table[1000:]) > plain.score(table[1000:]) + 0.1


def test_probabilities_sum_to_one() -> None:
    model = LBARN(**FEW).fit(majority(300, 10))
    assert model.network_.has_counts
    every = np.array(list(product([0, 1], repeat=10)))
    assert np.exp(model.score_samples(every)).sum() == pytest.approx(1, abs=1e-6)


def test_everything_else_works_with_counts(tmp_path: Path) -> None:
    X = majority(600)
    model = LBARN(**FEW).fit(X)
    model.save(tmp_path / "m.lbarn")
    loaded = lbarn.load(tmp_path / "m.lbarn")
    assert (loaded.score_samples(X) == model.score_samples(X)).all()
    assert loaded.network_.fingerprint() == model.network_.fingerprint()
    assert (loaded.decompress(model.compress(X)) == X).all()
    assert model.surprise(X[:20]).sum(axis=1) == pytest.approx(-model.score_samples(X[:20]))
    one_by_one = np.concatenate([model.score_samples(X[i : i + 1]) for i in range(20)])
    assert (one_by_one == model.score_samples(X)[:20]).all()
    drawn = model.sample(3000, random_state=1)
    assert drawn.dtype == X.dtype
    agrees = (drawn[:, :-1].sum(axis=1) > 5.5) == drawn[:, -1]
    assert agrees.mean() > 0.9
    assert model.feature_importances_[-1, :-1].min() > 0
    assert (loaded.sample(10, random_state=3) == model.sample(10, random_state=3)).all()


def test_gaps_are_filled_as_enumeration_says() -> None:
    model = LBARN(**FEW).fit(majority(400, 10))
    every = np.array(list(product([0, 1], repeat=10)))
    log_p = model.score_samples(every)
    holes = majority(4, 10, seed=5).astype(float)
    holes[:, [1, 4, 9]] = np.nan
    filled = model.impute(holes, output="probability")
    for row, own, marginal in zip(holes, filled, model.log_marginal(holes)):
        agrees = ((every == row) | np.isnan(row)).all(axis=1)
        p = np.exp(log_p[agrees])
        assert marginal == pytest.approx(np.log(p.sum()), abs=1e-6)
        assert own[np.isnan(row)] == pytest.approx((p @ every[agrees] / p.sum())[np.isnan(row)], abs=1e-6)


def test_more_gaps_than_can_be_enumerated() -> None:
    X = majority(600, 24)
    model = LBARN(**FEW).fit(X)
    holes = X[:3].astype(float)
    holes[:, :16] = np.nan
    draws = model.impute(holes, n_draws=200, random_state=0)
    assert (draws[:, :, 16:] == X[:3, 16:]).all()
    right = (draws[:, :, :-1].sum(axis=2) > 11.5) == draws[:, :, -1]
    assert right.mean() > 0.85


def test_the_same_for_any_number_of_jobs_continued_and_resumed(tmp_path: Path) -> None:
    assert_the_same_however_fitted(majority(400), tmp_path, FEW)


def test_an_ensemble_counts() -> None:
    X = majority(500)
    model = LBARNEnsemble(n_orders=2, orders="random", **FEW).fit(X)
    assert all(own.network_.has_counts for own in model.members_)
    assert (model.decompress(model.compress(X[:100])) == X[:100]).all()


def test_damaged_counts_are_refused(tmp_path: Path) -> None:
    from lbarn._network.modelfile import pack_trees, unpack_trees
    from lbarn.errors import ModelFileError

    network = LBARN(**FEW).fit(majority(300)).network_
    tensors = {name: np.asarray(array) for name, array in pack_trees(network.trees).items()}
    positions = network.ordered_layout.node_position
    assert unpack_trees(tensors, positions)[-1].counts is not None
    for name, change in (
        ("count_which", lambda a: a + 100),
        ("count_masks", lambda a: ~a),
        ("count_sizes", lambda a: a + 1),
        ("count_masks", lambda a: a[:-1]),
        ("count_which", lambda a: a.astype(np.int64)),
    ):
        with pytest.raises(ModelFileError):
            unpack_trees({**tensors, name: change(tensors[name])}, positions)
