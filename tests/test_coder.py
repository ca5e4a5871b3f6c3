"""The coder of the core leaves the same words as constriction's, to the last bit, and gives back what went in."""

from __future__ import annotations

from typing import Any

import constriction
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.trees import boundaries, probabilities

model = constriction.stream.model
LOG_ODDS = st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-(2**23), 2**23)
WEIGHTS = st.floats(1e-9, 1e9) | st.sampled_from([0.0, 1.0, 0.5])
DIGIT = 20  # bits


def used(seed: int) -> tuple[_core.Coder, Any]:
    """Two coders with the same words on them, of which there are any number."""
    rng = np.random.default_rng(seed)
    words = rng.integers(1, 2**32, rng.integers(0, 9)).astype(np.uint32)
    return _core.Coder.of(words), constriction.stream.stack.AnsCoder(words)


def assert_same(own: _core.Coder, other: Any) -> None:
    np.testing.assert_array_equal(own.words(), other.get_compressed())
    assert own.n_words == other.num_words()
    assert own.n_bits == other.num_valid_bits()
    assert own.is_empty == other.is_empty()
    np.testing.assert_array_equal(_core.Coder.of(own.words()).words(), own.words())


def bit_weights(log_odds: NDArray[np.int32]) -> NDArray[np.float64]:
    """Of a 0 and a 1, whole numbers that sum to 2^24."""
    ones = np.clip((probabilities(log_odds).astype(np.int64) + 32) >> 6, 1, 2**24 - 1)
    return np.stack([2**24 - ones, ones], axis=1).astype(np.float64)


@settings(max_examples=200)
@given(st.lists(st.tuples(LOG_ODDS, st.booleans()), max_size=200), st.integers(0, 9))
def test_bits(coded: list[tuple[int, bool]], seed: int) -> None:
    log_odds = np.array([odds for odds, _ in coded], np.int32)
    bits = np.array([bit for _, bit in coded], np.uint8)
    own, other = used(seed)
    before = own.words()
    own.push_bits(boundaries(log_odds) << np.uint32(1) | bits)
    if coded:
        other.encode_reverse(bits.astype(np.int32), model.Categorical(perfect=False), bit_weights(log_odds))
    assert_same(own, other)
    at = own.clone().descend(boundaries(log_odds), np.zeros(len(bits), np.int32), np.array([[~0, ~1]], np.int32))
    np.testing.assert_array_equal(~at, bits)
    np.testing.assert_array_equal(own.pop_bits(boundaries(log_odds)), bits)
    np.testing.assert_array_equal(own.words(), before)


@settings(max_examples=100)
@given(st.lists(LOG_ODDS, min_size=1, max_size=200), st.integers(0, 99))
def test_bits_that_nobody_has_pushed(log_odds: list[int], seed: int) -> None:
    odds = np.array(log_odds, np.int32)
    own, other = used(seed)
    bits = own.pop_bits(boundaries(odds))
    np.testing.assert_array_equal(bits, other.decode(model.Categorical(perfect=False), bit_weights(odds)))
    assert_same(own, other)


def test_rows_at_an_end_have_no_bit() -> None:
    coder, at = _core.Coder(), np.array([0, -3, 1, -1], np.int32)
    coder.push_bits(np.array([9 << 1 | 1, 0, 5 << 1, 0], np.uint32))
    next_at = coder.descend(np.array([9, 7, 5, 7], np.uint32), at, np.array([[1, ~4], [~5, ~6]], np.int32))
    np.testing.assert_array_equal(next_at, [~4, -3, ~5, -1])
    assert coder.is_empty


@settings(max_examples=200)
@given(st.data())
def test_symbols(data: Any) -> None:
    n, k = data.draw(st.integers(1, 30)), data.draw(st.integers(2, 9))
    weights = np.array(data.draw(st.lists(st.lists(WEIGHTS, min_size=k, max_size=k), min_size=n, max_size=n)))
    weights[:, data.draw(st.integers(0, k - 1))] += 1.0
    symbols = np.array(data.draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n)), np.uint16)
    own, other = used(data.draw(st.integers(0, 9)))
    before = own.words()
    own.push_symbols(symbols, weights)
    other.encode_reverse(symbols.astype(np.int32), model.Categorical(perfect=False), weights)
    assert_same(own, other)
    np.testing.assert_array_equal(own.pop_symbols(weights), symbols)
    np.testing.assert_array_equal(own.words(), before)


def pushed_by_cell(other: Any, cells: Any, symbols: Any, offsets: Any, laws: list[tuple[Any, int]]) -> None:
    """Cell after cell: the symbols of all rows, then the digits of those that have the last one, the highest first."""
    for cell in reversed(range(len(laws))):
        chances, n_last = laws[cell]
        rows = np.flatnonzero(cells == cell)
        last = rows[symbols[rows] == len(chances) - 1]
        n_digits = -(-(n_last - 1).bit_length() // DIGIT)
        for digit in range(n_digits):
            part = offsets[last] >> np.uint64(digit * DIGIT) & np.uint64(2**DIGIT - 1)
            size = 1 + ((n_last - 1) >> digit * DIGIT if digit == n_digits - 1 else 2**DIGIT - 1)
            if len(last):
                other.encode_reverse(part.astype(np.int32), model.Uniform(size))
        if len(chances) > 1 and len(rows):
            alike = (chances == chances[0]).all()
            law = model.Uniform(len(chances)) if alike else model.Categorical(chances, perfect=False)
            other.encode_reverse(symbols[rows].astype(np.int32), law)


@settings(max_examples=200)
@given(st.data())
def test_values_inside_cells(data: Any) -> None:
    sizes = st.integers(1, 5) | st.integers(2**20 - 1, 2**20 + 2) | st.integers(1, 2**64 - 1)
    chances = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5) | st.integers(1, 5).map(lambda n: [0.5] * n)
    laws = data.draw(st.lists(st.tuples(chances.map(np.array), sizes), min_size=1, max_size=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    cells = rng.integers(0, len(laws), data.draw(st.integers(0, 60))).astype(np.uint16)
    symbols = np.array([rng.integers(0, len(laws[cell][0])) for cell in cells], np.int64)
    is_last = [symbol == len(laws[cell][0]) - 1 for cell, symbol in zip(cells, symbols)]
    offsets = np.array([int(rng.random() * laws[c][1]) if last else 0 for c, last in zip(cells, is_last)], np.uint64)
    offsets = np.minimum(offsets, np.array([laws[cell][1] - 1 for cell in cells], np.uint64))
    own, other = used(data.draw(st.integers(0, 9)))
    before = own.words()
    starts = np.cumsum([0, *(len(chances) for chances, _ in laws)])
    n_last = np.array([n for _, n in laws], np.uint64)
    core = _core.CellSymbols.of(np.concatenate([chances for chances, _ in laws]), starts, n_last)
    own.push_inside(core, cells, symbols, offsets)
    pushed_by_cell(other, cells, symbols, offsets, laws)
    assert_same(own, other)
    for found, expected in zip(own.pop_inside(core, cells), (symbols, offsets)):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(own.words(), before)


def test_zeros_leave_an_empty_stack_empty() -> None:
    coder = _core.Coder()
    assert not coder.pop_bits(boundaries(np.arange(-50, 50, dtype=np.int32) << 18)).any()
    assert coder.is_empty


def test_what_makes_no_sense_is_refused() -> None:
    coder = _core.Coder()
    law = _core.CellSymbols.of(np.ones(2), np.array([0, 2]), np.array([3], np.uint64))
    one, two, three = (np.array([k], np.int64) for k in (1, 2, 3))
    cell, no_offset = np.zeros(1, np.uint16), np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match="last word"):
        _core.Coder.of(np.array([5, 0], np.uint32))
    for boundary in (0, 2**24, 2**32 - 1):
        with pytest.raises(ValueError, match="boundaries"):
            coder.pop_bits(np.array([boundary], np.uint32))
    with pytest.raises(ValueError, match="coded"):
        coder.push_bits(np.array([2**25], np.uint32))
    with pytest.raises(ValueError, match="no such node"):
        coder.descend(np.ones(1, np.uint32), np.ones(1, np.int32), np.zeros((1, 2), np.int32))
    for weights in ([[-1.0, 2.0]], [[np.nan, 1.0]], [[np.inf, 1.0]], [[0.0, 0.0]]):
        with pytest.raises(ValueError, match="weights"):
            coder.pop_symbols(np.array(weights))
    with pytest.raises(ValueError, match="no such symbol"):
        coder.push_symbols(np.array([2], np.uint16), np.ones((1, 2)))
    with pytest.raises(ValueError, match="add up"):
        _core.CellSymbols.of(np.ones(2), np.array([0, 3]), np.ones(1, np.uint64))
    with pytest.raises(ValueError, match="without a value"):
        _core.CellSymbols.of(np.ones(1), np.array([0, 1]), np.zeros(1, np.uint64))
    with pytest.raises(ValueError, match="no such cell"):
        coder.push_inside(law, cell + np.uint16(1), one, no_offset)
    for symbol, offset in ((two, no_offset), (-one, no_offset), (one, three.astype(np.uint64))):
        with pytest.raises(ValueError, match="does not have"):
            coder.push_inside(law, cell, symbol, offset)
    assert coder.is_empty


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=12), max_size=20))
def test_strings_have_their_lengths_before_them(texts: list[str]) -> None:
    written = [text.encode() for text in texts]
    begin = np.cumsum([0, *map(len, written)]).astype(np.int32)
    letters = np.frombuffer(b"".join(written), np.uint8)
    assert _core.with_lengths(begin, letters).decode() == "".join(f"{len(text)}:{text}" for text in texts)


def test_strings_that_are_not_there_are_refused() -> None:
    for begin in ([], [0, 4], [-1, 2], [2, 1]):
        with pytest.raises(ValueError, match="begin"):
            _core.with_lengths(np.array(begin, np.int32), np.zeros(3, np.uint8))
