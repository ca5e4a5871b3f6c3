"""Weighted sums: columns of numbers are predicted from what others come to together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lbarn
from lbarn import LBARN, LBARNClassifier, LBARNEnsemble, LBARNRegressor
from lbarn._engine.bits import pack
from lbarn._engine.codetree import CodeTree, Layout
from lbarn._engine.counts import Counts, WeightedSum
from lbarn._engine.sums import Sums
from lbarn._network.lookahead import UNSET, likely_causes
from lbarn._network.modelfile import pack_trees, unpack_trees
from lbarn.baselines import IndependentColumns
from lbarn.errors import ModelFileError
from lbarn.inspection import describe_column
from repeated_fits import assert_the_same_however_fitted
from test_gather import random_trees

FEW = {"max_iter": 60, "random_state": 0, "counts": True}


def bills(n: int, *, seed: int = 0) -> pd.DataFrame:
    """What is to pay follows from the other columns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"net": rng.gamma(2, 30, n).round(1), "tip": rng.normal(12, 3, n).round(1)})
    frame["discount"] = rng.integers(0, 20, n)
    frame["total"] = (frame["net"] + frame["tip"] - frame["discount"]).round(1)
    return frame


def dice(n: int, *, seed: int = 0) -> pd.DataFrame:
    """Few enough values to go through all rows there are."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.integers(0, 5, (n, 3)), columns=["a", "b", "c"])
    return frame.assign(total=frame["a"] - frame["b"] + 2 * frame["c"])


def ordered(n_cells: int) -> CodeTree:
    nodes, ranges = [], [(0, n_cells)]
    while ranges:
        low, high = ranges.pop()
        if high - low > 1:
            nodes.append((low, (low + high) // 2, high))
            ranges += [((low + high) // 2, high), (low, (low + high) // 2)]
    return CodeTree.of(n_cells, nodes, ordered=True)


# ---------------------------------------------------------------------- the arithmetic


def weighted(rng: np.random.Generator, n_bits: int, n_terms: int) -> WeightedSum:
    positions = np.sort(rng.permutation(n_bits)[:n_terms])
    weights = rng.integers(-600, 600, n_terms).astype(np.int16)
    weights[:2] = -20_000, 20_000  # with all others, within 16 bits
    return WeightedSum(positions, weights, -int(np.minimum(weights, 0).sum()))


@pytest.mark.parametrize("n", [1, 4, 5, 64, 65, 512, 700])
def test_sums_are_what_they_say_and_trees_see_them_as_columns(simd: str, n: int) -> None:
    rng = np.random.default_rng(n)
    X = rng.integers(0, 2, (n, 400))
    own = [weighted(rng, 300, size) for size in (2, 20, 70)]
    values = np.stack([w.begins + X[:, w.positions] @ w.weights.astype(np.int64) for w in own], axis=1)
    assert values.min() >= 0
    values = np.hstack([values, X[:, 100:180].sum(axis=1, keepdims=True)])
    which = np.repeat(np.arange(4), 5).astype(np.uint16)
    at_least = np.sort(rng.choice(values.ravel(), 20)).astype(np.uint16)
    counts = Counts.of(300, [*own, np.arange(100, 180)], which, at_least)
    bits = pack(X)
    assert (counts.values(bits.rows) == values).all()
    for c, w in enumerate(own):
        positions, weights = counts.weights(c)
        assert (positions == w.positions[w.weights != 0]).all()
        assert (weights == w.weights[w.weights != 0]).all()
        assert counts.is_sum(c)
    index = np.arange(n, dtype=np.int32)
    trained = np.unpackbits(
        counts.to_train(bits.rows, index).columns.view(np.uint8), axis=1, count=n, bitorder="little"
    )
    np.testing.assert_array_equal(trained[300:320].T, values[:, which] >= at_least)
    counting = replace(random_trees(320, 40, 16, seed=n), counts=counts)
    expected = replace(counting, counts=None).log_odds(
        pack(np.hstack([X[:, :300], values[:, which] >= at_least])).columns, n
    )
    np.testing.assert_array_equal(counting.log_odds(bits.columns, n), expected)
    np.testing.assert_array_equal(counting.log_odds_at(bits.rows, index), expected)


def test_a_sum_that_leaves_its_range_is_refused() -> None:
    for weights, begins in (([-5], 4), ([32_000, 32_000], 1_536)):
        positions = np.arange(len(weights))
        inside = WeightedSum(positions, np.array(weights, np.int16), 5 if weights[0] < 0 else 1_535)
        Counts.of(9, [inside]).check()
        with pytest.raises(ValueError, match="leaves its range"):
            Counts.of(9, [inside._replace(begins=begins)]).check()
    nobody = replace(Counts.of(9, [inside]), first=np.array([0, 0], np.uint32))
    with pytest.raises(ValueError, match="do not add up"):
        nobody.check()


def test_the_same_sums_at_a_later_position_and_several_together() -> None:
    rng = np.random.default_rng(0)
    rows = pack(rng.integers(0, 2, (50, 700))).rows
    one, other = (Counts.of(250, [weighted(rng, 250, 30), np.arange(100)]) for _ in range(2))
    later = one.at(600)
    later.check()
    assert (later.values(rows) == one.values(rows)).all()
    both, (first, second) = Counts.together([one, other])
    both.check()
    assert both.n_counts == 3  # the ones among the same bits once
    assert (both.values(rows)[:, first] == one.values(rows)).all()
    assert (both.values(rows)[:, second] == other.values(rows)).all()


# ---------------------------------------------------------------------- which sums


def found(columns: list[Any], *, weight: Any = None) -> tuple[Sums | None, Layout]:
    """The sums of columns of whole numbers from 0 on, each of which is a cell."""
    cells = np.stack([np.asarray(own) for own in columns]).astype(np.uint16)
    layout = Layout(tuple(ordered(int(own.max()) + 1) for own in cells))
    numbers = [np.arange(tree.n_cells, dtype=float) for tree in layout.columns]
    return Sums.of(layout, cells, weight, numbers), layout


def test_a_column_that_is_a_sum_is_found_with_its_weights() -> None:
    rng = np.random.default_rng(0)
    a, b, noise = rng.integers(0, 20, (3, 3_000))
    c = 3 * a - 2 * b + 38
    sums, layout = found([a, noise, b, c])
    assert sums is not None
    (own, *_) = sums.before(3, layout)
    rows = layout.pack(np.stack([a, noise, b, c], axis=1).astype(np.uint16)).rows
    (values,) = Counts.of(int(layout.first_bit[3]), [own]).values(rows).T
    assert np.corrcoef(values, c)[0, 1] > 0.9999
    used = {int(layout.bit_column[position]) for position in own.positions}
    assert used == {0, 2}
    assert sums.before(1, layout) == []
    order = np.array([2, 3, 0, 1])
    turned, turned_layout = sums.permuted(order), layout.permuted(order)
    (own, *_) = turned.before(2, turned_layout)  # a from b and c
    rows = turned_layout.pack(np.stack([b, c, a, noise], axis=1).astype(np.uint16)).rows
    (values,) = Counts.of(int(turned_layout.first_bit[2]), [own]).values(rows).T
    assert np.corrcoef(values, a)[0, 1] > 0.999


def test_with_many_rows_only_what_trees_cannot_tell_as_well() -> None:
    rng = np.random.default_rng(0)
    for n, there in ((500, True), (20_000, False)):
        a, b = rng.integers(0, 30, (2, n))
        sums, layout = found([a, b, np.maximum(a + b + rng.normal(15, 5, n).round(), 0)])
        assert sums is not None
        assert bool(sums.before(2, layout)) == there


def test_nothing_is_summed_in_noise_and_constants() -> None:
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 30, (6, 400))
    sums, layout = found([*noise, np.zeros(400)])
    assert sums is not None
    assert not any(sums.before(k, layout) for k in range(7))
    assert found([*noise[:2], np.zeros(400)])[0] is None


def test_rows_without_weight_say_nothing() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 20, (2, 600))
    c, weight = a + b, np.ones(600)
    c[300:], weight[300:] = rng.integers(0, 39, 300), 0.0
    sums, layout = found([a, b, c], weight=weight)
    fewer, _ = found([a[:300], b[:300], c[:300]])
    assert sums is not None
    assert fewer is not None
    assert sums.n_rows == 300
    for own, other in zip(sums.before(2, layout), fewer.before(2, layout), strict=True):
        assert (own.weights == other.weights).all()


def test_numbers_of_any_size_are_compared() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 20, (2, 600))
    cells = np.stack([a, b, a + b]).astype(np.uint16)
    layout = Layout((ordered(20), ordered(20), ordered(39)))
    usual = Sums.of(layout, cells, None, [np.arange(20.0), np.arange(20.0), np.arange(39.0)])
    for size in (1e-300, 1e300):
        sums = Sums.of(layout, cells, None, [size * np.arange(20.0), size * np.arange(20.0), size * np.arange(39.0)])
        assert usual is not None
        assert sums is not None
        for own, other in zip(sums.before(2, layout), usual.before(2, layout), strict=True):
            assert (own.weights == other.weights).all()


def test_a_nominal_column_is_in_no_sum() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 500))
    layout = Layout((ordered(4), CodeTree.of(4, [(0, 2, 4), (0, 1, 2), (2, 3, 4)]), ordered(7)))
    cells = np.stack([a, b, a + b]).astype(np.uint16)
    assert Sums.of(layout, cells, None, [np.arange(4.0), np.arange(4.0), np.arange(7.0)]) is None


# ---------------------------------------------------------------------- what they are good for


def test_a_total_is_learned() -> None:
    train, test = bills(800), bills(2_000, seed=1)
    plain, auto, summing = (LBARN(counts=c, random_state=0).fit(train) for c in (False, "auto", True))
    assert auto.score(test) > plain.score(test) + 0.4
    assert auto.network_.fingerprint() == summing.network_.fingerprint()
    assert auto.network_.has_counts
    gains = auto.feature_importances_[-1, :-1]
    assert gains[0] > gains[1] > 0
    drawn = auto.sample(2_000, random_state=0)
    off, off_plain = (
        (own["net"] + own["tip"] - own["discount"] - own["total"]).abs().median()
        for own in (drawn, plain.sample(2_000, random_state=0))
    )
    assert off < 0.7 * off_plain


def test_independent_columns_are_learned_as_before() -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(500, 5)).round(2), columns=list("abcde"))
    own = {"random_state": 0, "max_iter": 60}
    with_, without = (LBARN(counts=c, **own).fit(frame) for c in (True, False))
    assert with_.network_.fingerprint() == without.network_.fingerprint()
    assert not with_.network_.has_counts


def test_a_regression_on_a_slope_is_better_for_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = X @ np.linspace(-2, 2, 8) + rng.normal(0, 0.5, 400)
    new = rng.normal(size=(1_000, 8))
    truth = new @ np.linspace(-2, 2, 8)
    off = {
        c: np.sqrt(np.mean((LBARNRegressor(LBARN(counts=c, random_state=0)).fit(X, y).predict(new) - truth) ** 2))
        for c in ("auto", False)
    }
    assert off["auto"] < 0.6 * off[False]


@pytest.mark.parametrize("method", ["generative", "discriminative"])
def test_a_classifier_takes_each_column_alone(method: str) -> None:
    frame = bills(400)
    y = np.where(frame["net"] > 50, "large", "small")
    fitted = LBARNClassifier(LBARN(max_iter=5, random_state=0, counts=True), method=method).fit(frame, y)
    model = fitted.networks_[0] if method == "generative" else fitted.network_
    assert not model.network_.has_counts
    own = LBARN(max_iter=5, random_state=0).fit(frame)
    cells, cells_alone = (found.codebook_.codes[3].n_cells for found in (own, model))
    assert cells > 2 * cells_alone
    assert cells_alone == IndependentColumns().fit(frame).codebook_.codes[3].n_cells


def test_empty_cells_weigh_what_is_usual() -> None:
    frame = bills(800)
    rng = np.random.default_rng(0)
    holes = frame.mask(rng.random(frame.shape) < 0.1)
    plain, summing = (LBARN(counts=c, random_state=0).fit(holes) for c in (False, True))
    assert summing.network_.has_counts
    assert summing.score(frame) > plain.score(frame)
    assert np.isfinite(summing.score_samples(holes)).all()
    assert not summing.impute(holes[:20]).isna().any(axis=None)


# ---------------------------------------------------------------------- everything else works


def test_probabilities_sum_to_one_and_gaps_are_filled_as_enumeration_says() -> None:
    model = LBARN(**FEW).fit(dice(400))
    assert model.network_.has_counts
    every = pd.DataFrame(list(product(range(5), range(5), range(5), range(-4, 13))), columns=["a", "b", "c", "total"])
    log_p = model.score_samples(every)
    p = np.exp(log_p)
    assert 0.98 < p.sum() < 1  # the rest is outside of what was seen
    holes = dice(6, seed=3).astype("float")
    holes.loc[:2, "b"] = np.nan
    holes.loc[1:, "total"] = np.nan
    marginal = model.log_marginal(holes)
    draws = model.impute(holes, n_draws=4_000, random_state=0)
    for i in range(len(holes)):
        row = holes.iloc[i]
        agrees = ((every == row) | row.isna()).all(axis=1).to_numpy()
        assert marginal[i] == pytest.approx(np.log(p[agrees].sum()), abs=0.02)
        for name in holes.columns[row.isna()]:
            chances = pd.Series(p[agrees] / p[agrees].sum()).groupby(every.loc[agrees, name].to_numpy()).sum()
            shares = pd.Series([draw[name].iloc[i] for draw in draws]).value_counts(normalize=True)
            assert (chances - shares.reindex(chances.index).fillna(0)).abs().max() < 0.03


def test_the_total_tells_of_its_parts() -> None:
    """Later evidence: a sum that came out, and what is added is not known."""
    model = LBARN(random_state=0).fit(dice(1_500))
    holes = pd.DataFrame({"a": [4.0, 4.0], "b": [np.nan, 0.0], "c": [4.0, np.nan], "total": [8.0, 12.0]})
    filled = model.impute(holes, output="mode")
    assert filled["b"].iloc[0] == 4
    assert filled["c"].iloc[1] == 4


def test_files_codes_and_rows_one_by_one(tmp_path: Path) -> None:
    frame = bills(500)
    model = LBARN(**FEW).fit(frame)
    model.save(tmp_path / "m.lbarn")
    loaded = lbarn.load(tmp_path / "m.lbarn")
    assert loaded.network_.fingerprint() == model.network_.fingerprint()
    assert (loaded.score_samples(frame) == model.score_samples(frame)).all()
    assert loaded.sample(10, random_state=3).equals(model.sample(10, random_state=3))
    pd.testing.assert_frame_equal(loaded.decompress(model.compress(frame)), frame)
    one_by_one = np.concatenate([model.score_samples(frame[i : i + 1]) for i in range(20)])
    assert (one_by_one == model.score_samples(frame)[:20]).all()
    assert model.surprise(frame[:20]).sum(axis=1) == pytest.approx(-model.score_samples(frame[:20]))
    told = str(describe_column(loaded, "total"))
    assert "a weighted sum of net, tip, discount" in told


def test_a_file_has_the_masks_of_a_column_once() -> None:
    network = LBARN(**FEW).fit(bills(500)).network_
    tensors = {name: np.asarray(array) for name, array in pack_trees(network.trees).items()}
    n_summing = sum(trees.counts is not None for trees in network.trees)
    assert (tensors["count_sizes"][:, 0] == -1).sum() > 0.7 * n_summing
    again = unpack_trees(tensors, network.ordered_layout.node_position)
    for own, other in zip(network.trees, again, strict=True):
        assert (own.counts is None) == (other.counts is None)
        if own.counts is not None and other.counts is not None:
            for name in ("position", "masks", "first", "base", "which", "at_least"):
                assert np.array_equal(getattr(own.counts, name), getattr(other.counts, name))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("count_first", lambda a: a[:-1]),
        ("count_first", lambda a: a + 1),
        ("count_first", lambda a: a[::-1].copy()),
        ("count_first", lambda a: np.zeros_like(a)),
        ("count_first", lambda a: a.astype(np.int64)),
        ("count_base", lambda a: a[1:]),
        ("count_base", lambda a: a + 40_000),
        ("count_sizes", lambda a: np.where(a == -1, -2, a)),
        ("count_sizes", lambda a: np.where(a >= 16, -1, a)),
        ("count_masks", lambda a: ~a),
        ("count_which", lambda a: a + 100),
    ],
)
def test_damaged_sums_are_refused(name: str, change: Any) -> None:
    network = LBARN(**FEW).fit(bills(400)).network_
    tensors = {name: np.asarray(array) for name, array in pack_trees(network.trees).items()}
    with pytest.raises(ModelFileError):
        unpack_trees({**tensors, name: change(tensors[name])}, network.ordered_layout.node_position)


def test_the_same_for_any_number_of_jobs_continued_resumed_and_on_every_path(
    tmp_path: Path, simd: str, on_portable: Callable[[Callable[[], Any]], Any]
) -> None:
    frame = bills(300)
    one, _ = assert_the_same_however_fitted(frame, tmp_path, FEW)
    portable = on_portable(lambda: LBARN(**FEW).fit(frame))
    assert portable.network_.fingerprint() == one.network_.fingerprint()
    assert (portable.score_samples(frame) == one.score_samples(frame)).all()


def test_averaged_networks_have_the_sums_of_each() -> None:
    frame = bills(500)
    model = LBARNEnsemble(n_orders=1, n_bags=3, orders=[range(4)], **FEW).fit(frame)
    (own,) = model.members_
    summing = [trees.counts for trees in own.network_.trees if trees.counts is not None]
    assert max(counts.n_counts for counts in summing) > 2
    pd.testing.assert_frame_equal(model.decompress(model.compress(frame[:100])), frame[:100])
    plain = LBARNEnsemble(n_orders=1, n_bags=3, orders=[range(4)], **{**FEW, "counts": False}).fit(frame)
    new = bills(1_000, seed=1)
    assert model.score(new) > plain.score(new)


def test_causes_are_looked_for_among_the_columns_before() -> None:
    """The features of a column's later nodes come behind its own bits."""
    counts = Counts.of(10, [np.arange(8)], np.zeros(3, np.uint16), np.array([2, 4, 6], np.uint16))
    trees = replace(random_trees(13, 20, 8), counts=counts)
    causes = likely_causes(trees, True, np.full(8, UNSET, np.int8))
    assert causes.shape[1] == 8
