"""Rows picked by number: their columns and their log-odds are those of the same rows taken out, on every SIMD path."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack, row_bytes
from lbarn._engine.trees import NO_LIMIT, Trees, log_likelihoods

COUNTS = [0, 1, 2, 6, 7, 63, 64, 65, 200, 448, 511, 512, 513, 1000]


def random_bits(n: int, d: int, seed: int = 0) -> PackedBits:
    return pack(np.random.default_rng(seed).integers(0, 2, (n, d), np.uint8))


def random_trees(d: int, n_trees: int, leaves: int, seed: int = 0, limit: int = NO_LIMIT) -> Trees:
    """Trees of 1 to ``leaves`` leaves that split on any of ``d`` columns."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, leaves, n_trees) if d else np.zeros(n_trees, np.intp)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    splits = np.zeros((offsets[-1], 2), np.uint16)
    for first, size in zip(offsets, sizes, strict=False):
        splits[first : first + size, 0] = rng.integers(0, np.arange(size) + 1)
    splits[:, 1] = rng.integers(0, max(d, 1), len(splits))
    values = rng.integers(-(2**20), 2**20, len(splits) + n_trees).astype(np.int32)
    return Trees(splits, np.zeros(len(splits), np.float32), values, offsets.astype(np.int64), limit)


def check(bits: PackedBits, index: np.ndarray, trees: Trees) -> None:
    taken = bits.take(index)
    ours = trees.log_odds_at(bits.rows, index)
    assert ours.dtype == np.int32
    np.testing.assert_array_equal(ours, trees.log_odds(taken.columns, taken.n_rows))
    np.testing.assert_array_equal(_core.take_columns(bits.rows, index, bits.n_columns), taken.columns)


@pytest.mark.parametrize("d", [1, 63, 64, 65, 255, 256, 257, 3000])
def test_any_number_of_rows_in_any_order_and_more_than_once(simd, d):
    bits, trees = random_bits(700, d), random_trees(d, 20, 16)
    rng = np.random.default_rng(d)
    for count in COUNTS:
        check(bits, rng.integers(0, 700, count).astype(np.int32), trees)
        check(bits, np.full(count, 699, np.int32), trees)


def test_log_odds_stop_at_the_limit(simd):
    bits = random_bits(300, 40)
    free, limited = random_trees(40, 30, 8), random_trees(40, 30, 8, limit=1 << 20)
    for count in (3, 300):
        index = np.arange(count, dtype=np.int32)
        check(bits, index, limited)
        assert np.abs(free.log_odds_at(bits.rows, index)).max() > 1 << 20
        assert np.abs(limited.log_odds_at(bits.rows, index)).max() == 1 << 20


@given(
    d=st.integers(0, 600),
    count=st.integers(0, 150),
    n_trees=st.integers(0, 9),
    leaves=st.sampled_from([1, 2, 3, 17, 70, 300]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_trees(simd, d, count, n_trees, leaves, seed):
    index = np.random.default_rng(seed).integers(0, 90, count).astype(np.int32)
    check(random_bits(90, d, seed), index, random_trees(d, n_trees, leaves, seed))


def test_trees_may_split_on_a_few_far_columns_alone(simd):
    bits = random_bits(100, 5000)
    trees = random_trees(3, 10, 6)
    for columns in ([0, 2500, 4999], [4999, 4998, 64], [7, 7, 7]):
        far = np.array(columns, np.uint16)[trees.splits[:, 1]]
        splits = np.stack([trees.splits[:, 0], far], axis=1)
        check(bits, np.arange(99, -1, -1, dtype=np.int32), Trees(splits, trees.gains, trees.values, trees.offsets))


def test_the_core_refuses_rows_and_columns_that_do_not_exist():
    bits, trees = random_bits(10, 30), random_trees(30, 5, 8)
    for index in ([-1], [10], [0, 1, 2**31 - 1], [0] * 20 + [-(2**31)]):
        wrong = np.array(index, np.int32)
        with pytest.raises(ValueError, match="no such row"):
            trees.log_odds_at(bits.rows, wrong)
        with pytest.raises(ValueError, match="no such row"):
            _core.take_columns(bits.rows, wrong, 30)
    wide = Trees(
        np.array([[0, 8 * row_bytes(30)]], np.uint16), np.zeros(1, np.float32), np.zeros(2, np.int32), np.array([0, 1])
    )
    with pytest.raises(ValueError, match="not there"):
        wide.log_odds_at(bits.rows, np.zeros(1, np.int32))
    with pytest.raises(ValueError, match="fewer columns"):
        _core.take_columns(bits.rows, np.zeros(1, np.int32), 257)
    with pytest.raises(ValueError, match="multiple of 32"):
        _core.take_columns(np.zeros((4, 33), np.uint8), np.zeros(1, np.int32), 8)
    with pytest.raises(ValueError, match="multiple of 32"):
        trees.log_odds_at(np.zeros((4, 33), np.uint8), np.zeros(1, np.int32))


def test_rows_at_nodes_of_a_column_are_evaluated_by_the_trees_of_their_node(simd):
    bits, rng = random_bits(700, 100), np.random.default_rng(0)
    nodes = [random_trees(100, 10, 8, seed=k) for k in range(3)]
    cores, none = [own.core for own in nodes], [None] * 3
    index, at = rng.permutation(700)[:500].astype(np.int32), rng.integers(-1, 3, 500).astype(np.int32)
    at[:70] = 2
    each = np.stack([np.zeros(500, np.int32), *(own.log_odds_at(bits.rows, index) for own in nodes)])
    found = _core.log_odds_by_node(cores, none, at, bits.rows, index)
    np.testing.assert_array_equal(found, each[at + 1, np.arange(500)])

    low, cut, high = np.array(
        [[0, 0, 2], [2, 1, 3], [4, 2, 4]], np.int32
    )  # cells 0 1 | 2 3; 4 and 65,535 reach no node
    cells = rng.choice([0, 1, 2, 3, 4, 65_535], 500).astype(np.uint16)
    expected = np.zeros(500, np.int64)
    for node, odds in enumerate(each[1:]):
        there = (cells >= low[node]) & (cells < high[node])
        for one in (0, 1):
            own = there & ((cells >= cut[node]) == one)
            expected[own] += log_likelihoods(odds, np.full(8, -one, np.int64).view(np.uint64))[own]
    found = _core.log_likelihoods_of_cells(cores, none, low, cut, high, cells, bits.rows, index)
    np.testing.assert_array_equal(found, expected)


def test_a_node_that_is_not_there_is_refused():
    bits, nodes = random_bits(5, 10), [random_trees(10, 2, 4).core]
    index, cells = np.arange(5, dtype=np.int32), np.zeros(5, np.uint16)
    low, cut, high = np.array([[0], [1], [2]], np.int32)
    for at, message in ((np.full(5, 1, np.int32), "no such node"), (np.zeros(4, np.int32), "one for every row")):
        with pytest.raises(ValueError, match=message):
            _core.log_odds_by_node(nodes, [None], at, bits.rows, index)
    with pytest.raises(ValueError, match="for every node"):
        _core.log_odds_by_node(nodes, [], np.zeros(5, np.int32), bits.rows, index)
    for a, b, c in ((low - 1, cut, high), (low, cut + 2, high), (low, cut, high + 70_000), (low[:0], cut, high)):
        with pytest.raises(ValueError, match=r"interval of cells|do not add up"):
            _core.log_likelihoods_of_cells(nodes, [None], a, b, c, cells, bits.rows, index)
