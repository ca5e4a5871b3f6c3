"""Packed bits give back what went in, whatever the shape, type, layout and order."""

import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack

tables = hnp.arrays(
    np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=70), elements=st.integers(0, 1)
)


def random_table(n: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n, d), dtype=np.uint8)


def unpacked_columns(packed: PackedBits) -> np.ndarray:
    return np.unpackbits(packed.columns.view(np.uint8), axis=1, bitorder="little")


@given(tables)
def test_unpack_undoes_pack(X):
    packed = pack(X)
    assert (packed.n_rows, packed.n_columns) == X.shape
    np.testing.assert_array_equal(packed.unpack(), X)


@given(tables)
def test_columns_are_the_transpose_and_their_padding_is_zero(X):
    columns = unpacked_columns(pack(X))
    np.testing.assert_array_equal(columns[:, : len(X)], X.T)
    assert not columns[:, len(X) :].any()


@pytest.mark.parametrize("d", [1, 7, 8, 9, 255, 256, 257, 1000])
@pytest.mark.parametrize("n", [1, 63, 64, 65, 511, 512, 513, 1025])
def test_odd_sizes_survive_packing_and_transposing(n, d):
    X = random_table(n, d)
    packed = pack(X)
    assert packed.rows.shape == (n, -(-d // 256) * 32)  # rows are padded to 32 bytes
    assert packed.columns.shape == (d, -(-n // 512) * 8)  # columns to 64 bytes
    np.testing.assert_array_equal(packed.unpack(), X)
    np.testing.assert_array_equal(unpacked_columns(packed)[:, :n], X.T)
    np.testing.assert_array_equal(packed.column(d // 2), X[:, d // 2])


def test_padding_of_rows_is_zero():
    packed = pack(np.ones((9, 13), bool))
    assert not np.unpackbits(packed.rows, axis=1, bitorder="little")[:, 13:].any()


@pytest.mark.parametrize(
    "dtype", [bool, np.uint8, np.int8, np.int16, np.uint32, np.int64, np.float16, np.float32, np.float64]
)
@pytest.mark.parametrize("layout", ["C", "F"])
def test_every_type_and_layout_packs_to_the_same_bits(dtype, layout):
    X = random_table(37, 41)
    np.testing.assert_array_equal(pack(X.astype(dtype, order=layout)).rows, pack(X).rows)


def test_views_and_lists_pack_like_their_copies():
    X = random_table(40, 60)
    view = X[::-3, 5:50:2]
    np.testing.assert_array_equal(pack(view).unpack(), view)
    np.testing.assert_array_equal(pack(X.tolist()).rows, pack(X).rows)


@given(tables, st.randoms(use_true_random=False))
def test_order_says_which_column_goes_to_each_position(X, random):
    order = list(range(X.shape[1]))
    random.shuffle(order)
    np.testing.assert_array_equal(pack(X, order).unpack(), X[:, order])
    np.testing.assert_array_equal(pack(X, np.array(order, np.intp)).rows, pack(X[:, order]).rows)


def test_tables_too_long_to_pack_in_one_piece_are_packed_whole():
    X = random_table(30_001, 11)
    order = np.arange(11)[::-1]
    np.testing.assert_array_equal(pack(X, order).unpack(), X[:, order])
    np.testing.assert_array_equal(pack(X).permuted(order).rows, pack(X, order).rows)


@pytest.mark.parametrize("dtype", [bool, np.int64])
@pytest.mark.parametrize("ordered", [False, True])
def test_packing_makes_no_second_full_copy(dtype, ordered):
    X = np.zeros((100_000, 400), dtype)
    order = np.arange(400)[::-1] if ordered else None
    tracemalloc.start()
    try:
        packed = pack(X, order)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The result, and one piece of the table with its comparison.
    assert peak - packed.rows.nbytes < X.nbytes / 3


def test_pickling_leaves_the_columns_behind():
    packed = pack(random_table(1000, 300))
    assert packed.columns.any()
    data = pickle.dumps(packed)
    assert len(data) < packed.rows.nbytes + 1000
    again = pickle.loads(data)
    assert "columns" not in vars(again)
    assert "columns" in vars(packed)
    assert again.n_columns == 300
    np.testing.assert_array_equal(again.rows, packed.rows)
    np.testing.assert_array_equal(again.columns, packed.columns)


@given(tables, st.data())
def test_take_picks_rows_by_index(X, data):
    index = np.array(data.draw(st.lists(st.integers(0, len(X) - 1), max_size=90) if len(X) else st.just([])), np.intp)
    taken = pack(X).take(index)
    assert taken.rows.flags.c_contiguous
    np.testing.assert_array_equal(taken.unpack(), X[index])


def test_sum_of_two_tables_stacks_their_rows():
    X = random_table(130, 9)
    both = pack(X[:77]) + pack(X[77:])
    np.testing.assert_array_equal(both.unpack(), X)
    np.testing.assert_array_equal(both.columns, pack(X).columns)


@given(tables, st.randoms(use_true_random=False))
def test_permuting_columns_is_packing_in_that_order(X, random):
    order = list(range(X.shape[1]))
    random.shuffle(order)
    np.testing.assert_array_equal(pack(X).permuted(np.array(order, np.intp)).rows, pack(X, order).rows)


@given(tables)
def test_column_sums_count_the_ones(X):
    np.testing.assert_array_equal(pack(X).column_sums(), X.sum(axis=0))


def test_the_core_refuses_rows_of_another_stride():
    with pytest.raises(ValueError, match="multiple of 32"):
        _core.transpose(np.zeros((4, 33), np.uint8), 8)
    with pytest.raises(ValueError, match="fewer columns"):
        _core.transpose(np.zeros((4, 32), np.uint8), 257)
