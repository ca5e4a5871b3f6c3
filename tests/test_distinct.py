"""Equal rows are learned from once, as if each were there by itself."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

import lbarn._engine.bits as bits_module
from lbarn import LBARN, _core
from lbarn._engine.bits import PackedBits, PickedRows, pack
from lbarn._engine.conditional import Boosting, Conditional

Table = NDArray[np.uint8]


@pytest.fixture(autouse=True)
def however_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are merged here that are too few for it otherwise."""
    monkeypatch.setattr(bits_module, "_FEWEST", 0)


def few_distinct(n: int, seed: int = 0) -> Table:
    """Rows of 11 bits, of which about 60 differ, some of them far more often than others."""
    rng = np.random.default_rng(seed)
    kinds = np.random.default_rng(99).integers(0, 2, (60, 11), np.uint8)
    return kinds[np.minimum(rng.geometric(0.06, n), 60) - 1]


def once(bits: PackedBits, n_columns: int) -> PickedRows:
    index, count = bits.distinct(np.arange(bits.n_rows, dtype=np.int32), n_columns)
    assert count is not None
    return bits.pick(index, n_columns, count)


@pytest.mark.parametrize("n_columns", [1, 5, 11])
def test_distinct_rows_are_those_of_numpy(n_columns: int) -> None:
    X = few_distinct(3000)
    index, count = pack(X).distinct(np.arange(3000, dtype=np.int32), n_columns)
    kinds, first, counts = np.unique(X[:, :n_columns], axis=0, return_index=True, return_counts=True)
    assert sorted(index) == sorted(first)
    by_first = dict(zip(first.tolist(), counts.tolist()))
    assert [by_first[i] for i in index.tolist()] == count.tolist()  # type: ignore[union-attr]
    assert len(kinds) == len(index)


def test_columns_beyond_a_word_and_behind_the_prefix_count_as_they_should() -> None:
    rng = np.random.default_rng(0)
    X = np.zeros((600, 300), np.uint8)
    X[:, 130] = rng.integers(0, 2, 600)
    X[:, 131:] = rng.integers(0, 2, (600, 169))
    everyone = np.arange(600, dtype=np.int32)
    assert len(pack(X).distinct(everyone, 130)[0]) == 1
    assert len(pack(X).distinct(everyone, 131)[0]) == 2
    index, count = pack(X).distinct(everyone, 300)
    assert count is None
    np.testing.assert_array_equal(index, everyone)


@pytest.mark.parametrize(("n_distinct", "noticed"), [(2048, True), (5000, True), (100_000, False)])
def test_a_look_at_few_rows_tells_whether_many_are_equal(n_distinct: int, noticed: bool) -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(0, 2, (n_distinct, 40), np.uint8)
    bits = pack(kinds[rng.integers(0, n_distinct, 16_384)])
    assert (bits.distinct(np.arange(16_384, dtype=np.int32), 40)[1] is not None) == noticed


def test_only_the_rows_asked_for_are_looked_at() -> None:
    bits = pack(few_distinct(1000))
    some = np.arange(0, 1000, 2, dtype=np.int32)
    index, count = bits.distinct(some, 11)
    assert set(index) <= set(some)
    assert count is not None
    assert count.sum() == 500


def test_the_core_refuses_rows_and_counts_that_do_not_fit() -> None:
    bits = pack(few_distinct(100))
    with pytest.raises(ValueError, match="no such row"):
        _core.distinct_rows(bits.rows, np.array([100], np.int32), 11, 5)
    with pytest.raises(ValueError, match="fewer"):
        _core.distinct_rows(bits.rows, np.array([0], np.int32), 100_000, 5)
    with pytest.raises(ValueError, match="one per row, and no weights"):
        _core.WeightedRows(bits.columns, 100, np.ones(100), None, np.ones(100, np.uint32))


@pytest.mark.parametrize("boosting", ["newton", "gradient"])
@pytest.mark.parametrize("certainty", [{}, {"l1_regularization": 0.5, "l2_regularization": 0.3, "cap": True}])
def test_exact_splits_give_the_same_bits(boosting: str, certainty: dict[str, float]) -> None:
    train, valid = pack(few_distinct(4000)), pack(few_distinct(1500, seed=1))
    how = Boosting(8, 0.2, 30, boosting=boosting, splits="exact", **certainty)
    for position in (1, 6, 10):
        each = Conditional.train(train, valid, position, how)
        both = Conditional.train(once(train, position + 1), once(valid, position + 1), position, how)
        for name in ("splits", "values", "offsets"):
            np.testing.assert_array_equal(getattr(both.trees, name), getattr(each.trees, name))
        assert both.trees.limit == each.trees.limit
        np.testing.assert_array_equal(both.train_curve, each.train_curve)
        np.testing.assert_array_equal(both.valid_curve, each.valid_curve)
        again = both.refit(once(train + valid, position + 1), how)
        np.testing.assert_array_equal(again.trees.values, each.refit(train + valid, how).trees.values)
        np.testing.assert_array_equal(again.curve(once(train, position + 1)), again.curve(train))


def test_counts_of_millions_lose_nothing() -> None:
    """A row that stands for many: its sums are those of so many rows, to the last bit."""
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.uint8)
    count = np.array([16_000_000, 3, 5, 1_000_001], np.uint32)
    bits = pack(X)
    rows = PickedRows(bits.columns, 4, count)
    trained = Conditional.train(rows, rows, 1, Boosting(2, 1.0, 1, splits="exact"))
    g = {0: (3 - 16_000_000) / 2, 1: (1_000_001 - 5) / 2}
    h = {0: 16_000_003 / 4, 1: 1_000_006 / 4}
    np.testing.assert_allclose(trained.trees.values / 2**20, [g[0] / h[0], g[1] / h[1]], atol=1e-6)


def test_rounded_splits_learn_as_well() -> None:
    X, new = few_distinct(6000), few_distinct(4000, seed=1)
    once_fitted = LBARN(random_state=0).fit(X)
    with patch.object(PackedBits, "distinct", lambda self, rows, n_columns: (rows, None)):
        each = LBARN(random_state=0).fit(X)
    assert once_fitted.score(new) == pytest.approx(each.score(new), abs=0.01)


def test_networks_of_exact_splits_are_the_same_with_groups_counts_and_gaps() -> None:
    X = few_distinct(2000).astype(float)
    X[:, :4] = np.eye(4)[np.random.default_rng(1).integers(0, 4, 2000)]
    for table, missing in ((X, "value"), (np.where(X[:, [3]] + np.arange(11) == 12, np.nan, X), "unknown")):
        how = {"splits": "exact", "max_iter": 15, "missing": missing, "counts": True, "random_state": 0}
        fitted = LBARN(**how).fit(table)
        with patch.object(PackedBits, "distinct", lambda self, rows, n_columns: (rows, None)):
            assert LBARN(**how).fit(table).network_.fingerprint() == fitted.network_.fingerprint()


@pytest.mark.parametrize("split_bits", [2, 3, 4, 6])
@pytest.mark.parametrize("counted", [True, False])
def test_every_path_gives_the_same_bits(simd: str, split_bits: int, counted: bool) -> None:
    """Also where all rows are scanned in order, and where digits are small enough to be added up as bytes."""
    X = np.random.default_rng(5).integers(0, 2, (700, 150), np.uint8)
    X[:, 149] = X[:, 3] ^ (X[:, 7] & X[:, 90])
    bits = pack(few_distinct(3000) if counted else X)
    position = bits.n_columns - 1
    rows = once(bits, position + 1) if counted else bits
    how = Boosting(12, 0.2, 15, split_bits=split_bits)
    found = Conditional.train(rows, rows, position, how)
    _core.choose_simd_path("portable")  # the fixture puts it back
    expected = Conditional.train(rows, rows, position, how)
    np.testing.assert_array_equal(found.trees.splits, expected.trees.splits)
    np.testing.assert_array_equal(found.trees.values, expected.trees.values)
    np.testing.assert_array_equal(found.valid_curve, expected.valid_curve)
