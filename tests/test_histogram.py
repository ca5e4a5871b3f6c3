"""The histogram's integers are NumPy's, on every SIMD path."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack

SIZES = [0, 1, 3, 4, 5, 7, 8, 9, 1023, 1024, 1025, 2047, 2048, 2049]
WIDTHS = [0, 1, 128, 255, 256, 257]
DIGITS = [1, 2, 4]


def random_bits(n: int, d: int, seed: int = 0) -> PackedBits:
    rng = np.random.default_rng(seed)
    packed = pack(np.zeros((n, d), bool))
    packed.rows[:] = rng.integers(0, 256, packed.rows.shape, np.uint8)
    packed.rows[:, -(-d // 8) :] = 0
    if d % 8:
        packed.rows[:, d // 8] &= (1 << d % 8) - 1
    return packed


def random_values(n: int, digits: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """g and h over the whole range of their digits: the top digit of g is signed, 6 bits of two's complement."""
    rng = np.random.default_rng(seed)
    top = 1 << (6 * digits - 1)
    return rng.integers(-top, top, n), rng.integers(0, 2 * top, n)


def planes_of(g: np.ndarray, h: np.ndarray, digits: int) -> np.ndarray:
    """Digits of 6 bits, least significant first: those of g in the low bytes, those of h in the high bytes."""
    planes = np.empty((digits, len(g)), np.uint16)
    for k in range(digits):
        g_digit = (g >> 6 * k) & (0xFF if k == digits - 1 else 63)
        planes[k] = g_digit | ((h >> 6 * k) & 63) << 8
    return planes


def check(packed: PackedBits, index: np.ndarray, g: np.ndarray, h: np.ndarray, digits: int) -> None:
    ours = _core.histogram(packed.rows, index.astype(np.uint32), planes_of(g, h, digits))
    expected = np.zeros((2, packed.n_columns))
    for some in np.array_split(index, 1 + len(index) * packed.n_columns // 4_000_000):
        # Products and sums are integers below 2^53: exact in float64.
        expected += np.stack([g[some], h[some]]).astype(float) @ packed.take(some).unpack().astype(float)
    for sums, reference in zip(ours, expected, strict=True):
        assert sums.shape == (8 * packed.rows.shape[1],)
        np.testing.assert_array_equal(sums[: packed.n_columns], reference)
        assert not sums[packed.n_columns :].any()


@pytest.mark.parametrize("digits", DIGITS)
@pytest.mark.parametrize("d", WIDTHS)
def test_sums_equal_numpys_for_every_number_of_rows(simd, d, digits):
    for n in SIZES:
        check(random_bits(n, d), np.arange(n), *random_values(n, digits), digits)


@pytest.mark.parametrize("digits", [1, 4])
@pytest.mark.parametrize("n", [5, 1025])
def test_sums_equal_numpys_for_five_thousand_columns(simd, n, digits):
    check(random_bits(n, 5000), np.arange(n), *random_values(n, digits), digits)


@pytest.mark.parametrize("digits", DIGITS)
def test_sums_equal_numpys_for_a_hundred_thousand_rows(simd, digits):
    n = 100_000
    packed, (g, h) = random_bits(n, 33), random_values(n, digits)
    check(packed, np.arange(n), g, h, digits)
    check(packed, np.flatnonzero(np.random.default_rng(2).random(n) < 1 / 3), g, h, digits)


@settings(max_examples=60)
@given(
    n=st.integers(0, 3000),
    d=st.sampled_from([1, 5, 129, 300]),
    digits=st.sampled_from(DIGITS),
    share=st.sampled_from([0.0, 0.01, 0.3, 0.5, 0.99, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_subset_of_rows_is_summed(simd, n, d, digits, share, seed):
    index = np.flatnonzero(np.random.default_rng(seed).random(n) < share)
    check(random_bits(n, d, seed), index, *random_values(n, digits, seed), digits)


@given(st.data())
def test_any_short_list_of_rows_is_summed(simd, data):
    n = data.draw(st.integers(1, 40))
    digits = data.draw(st.sampled_from(DIGITS))
    index = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))), np.intp)
    check(random_bits(n, 65, n), index, *random_values(n, digits, n), digits)


@pytest.mark.parametrize("digits", DIGITS)
@pytest.mark.parametrize("n", [5, 1024, 2049, 100_000])
def test_extreme_values_in_every_row_do_not_overflow(simd, n, digits):
    top = 1 << (6 * digits - 1)
    packed = pack(np.ones((n, 3), bool))
    for extreme in (-top, -top + 1, -1, 0, 1, top - 1):
        for h in (0, 2 * top - 1):
            check(packed, np.arange(n), np.full(n, extreme), np.full(n, h), digits)


def test_rows_that_are_not_listed_do_not_count(simd):
    g, h = random_values(3000, 4)
    index = np.arange(0, 3000, 7)
    others = np.setdiff1d(np.arange(3000), index)
    packed = random_bits(3000, 100)
    before = _core.histogram(packed.rows, index.astype(np.uint32), planes_of(g, h, 4))
    packed.rows[others] ^= 255
    g[others], h[others] = 0, 2**24 - 1
    after = _core.histogram(packed.rows, index.astype(np.uint32), planes_of(g, h, 4))
    np.testing.assert_array_equal(np.stack(before), np.stack(after))


def test_the_core_refuses_rows_that_do_not_exist_and_shapes_that_do_not_fit():
    rows, planes = np.zeros((4, 32), np.uint8), np.zeros((1, 4), np.uint16)
    with pytest.raises(ValueError, match="no such row"):
        _core.histogram(rows, np.array([4], np.uint32), planes)
    for digits in (np.zeros((10, 4), np.uint16), np.zeros((0, 4), np.uint16), np.zeros((1, 3), np.uint16)):
        with pytest.raises(ValueError, match="bad shapes"):
            _core.histogram(rows, np.zeros(1, np.uint32), digits)
