"""Rows compressed under a mixture come back as they were, and take what the mixture says they must."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lbarn
from conftest import chosen_path
from lbarn import CompressedDataError, LBARNEnsemble, _core
from lbarn._engine.bits import MAX_ROWS
from lbarn._network import codec
from lbarn._network.bitsback import MixtureCodec
from mutations import mutate_bytes
from networks import quick_ensemble, rows, still_rising
from test_codec import CHECKSUM, STREAM_AT, claiming, network_by_hand, questions, sealed

pytestmark = still_rising

ORDERS = [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4], [2, 4, 0, 5, 1, 3]]
X, TEST = rows(500, 6), rows(200, 6, seed=1)


def entropy_bytes(model: LBARNEnsemble, Y: NDArray[np.uint8]) -> float:
    return -model.score_samples(Y).sum() / np.log(2) / 8


def mixture_by_hand(members: list[list[int]], weights: list[float]) -> MixtureCodec:
    """Members that give every column the same log-odds (in units of 2^-20) in every row."""
    return MixtureCodec([network_by_hand(log_odds) for log_odds in members], np.array(weights), None)


@pytest.fixture(scope="module")
def model() -> LBARNEnsemble:
    return quick_ensemble(orders=ORDERS, weights="em").fit(X)


@pytest.fixture(scope="module")
def wide() -> LBARNEnsemble:
    return quick_ensemble(n_orders=8, max_iter=20).fit(rows(1000, 24))


# ---------------------------------------------------------------- any rows


@st.composite
def ensembles(draw: st.DrawFn) -> LBARNEnsemble:
    n_columns = draw(st.integers(1, 9))
    ensemble = quick_ensemble(
        n_orders=draw(st.integers(1, 5)),
        weights=draw(st.sampled_from(["equal", "em"])),
        max_iter=draw(st.integers(1, 6)),
        learning_rate=draw(st.sampled_from([0.1, 1.0])),
        random_state=draw(st.integers(0, 99)),
    )
    return ensemble.fit(rows(draw(st.integers(10, 100)), n_columns, seed=draw(st.integers(0, 99))))


@settings(max_examples=40)
@given(ensemble=ensembles(), data=st.data())
def test_any_rows_come_back_under_any_ensemble_any_path_and_after_loading(
    ensemble: LBARNEnsemble, data: st.DataObject, tmp_path: Path
) -> None:
    n = data.draw(st.sampled_from([1, 2, 15, 16, 17, 63, 64, 65, 300]))
    seed, density = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    Y = (np.random.default_rng(seed).random((n, ensemble.n_features_in_)) < density).astype(np.uint8)
    ensemble.save(tmp_path / "model", trim=data.draw(st.booleans()))
    loaded = lbarn.load(tmp_path / "model")
    packed = {}
    for path in _core.simd_paths():
        with chosen_path(path):
            packed[path] = ensemble.compress(Y)
    assert len(set(packed.values())) == 1
    for path in _core.simd_paths():
        with chosen_path(path):
            np.testing.assert_array_equal(loaded.decompress(packed["portable"]), Y)


@settings(max_examples=100)
@given(st.data())
def test_rows_that_all_members_hold_impossible_come_back(data: st.DataObject) -> None:
    K, D = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 12))
    log_odds = st.lists(st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-(2**22), 2**22), min_size=D, max_size=D)
    weights = data.draw(st.lists(st.sampled_from([1e-300, 1e-9, 0.1, 1.0]), min_size=K, max_size=K))
    mixture = mixture_by_hand([data.draw(log_odds) for _ in range(K)], weights)
    Y = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 2, (data.draw(st.integers(1, 100)), D))
    np.testing.assert_array_equal(mixture.decompress(mixture.compress([Y])), Y)


def test_large_groups_are_joined_again(monkeypatch: pytest.MonkeyPatch) -> None:
    Y = rows(9000, 3, seed=2)
    ensemble = quick_ensemble(n_orders=2, max_iter=3).fit(Y[:500])
    np.testing.assert_array_equal(ensemble.decompress(ensemble.compress(Y)), Y)
    monkeypatch.setattr(codec, "_GROUP_BITS", 1)  # groups of 4096 rows
    sizes = ensemble.distribution.codec().sizes_of(9000)
    assert sizes == [16, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 808]
    np.testing.assert_array_equal(ensemble.decompress(ensemble.compress(Y)), Y)


# ---------------------------------------------------------------- size


@pytest.mark.parametrize("n", [1, 30, 5000])
def test_the_size_is_the_mixtures_entropy(wide: LBARNEnsemble, n: int) -> None:
    Y = rows(n, 24, seed=2)
    size, entropy = len(wide.compress(Y)), entropy_bytes(wide, Y)
    assert entropy <= size <= 1.005 * entropy + 100
    if n == 5000:
        assert size < min(len(member.compress(Y)) for member in wide.members_)


def test_bits_come_back_where_the_members_agree() -> None:
    """With eight equal members a number would cost three bits a row; it costs nothing but in the first group."""
    Y = np.random.default_rng(0).integers(0, 2, (1000, 8))
    one, eight = mixture_by_hand([[0] * 8], [1.0]), mixture_by_hand([[0] * 8] * 8, [1 / 8] * 8)
    first_group = 16 * 3 / 8  # bytes
    assert len(eight.compress([Y])) <= len(one.compress([Y])) + first_group + 4


def test_from_an_empty_stack_comes_the_likeliest_member() -> None:
    ones, zeros = [30 << 20] * 40, [-30 << 20] * 40
    mixture = mixture_by_hand([ones, zeros], [0.5, 0.5])
    Y = np.zeros((16, 40), np.uint8)
    assert len(mixture.compress([Y])) <= STREAM_AT + CHECKSUM + 8  # under the other member it takes 1,920 bytes


def test_the_posterior_is_that_of_bayes(model: LBARNEnsemble) -> None:
    mixture = model.distribution
    each = [network.log_likelihood(TEST == 1) for network in mixture.networks]
    joint = np.stack(each, axis=1) + np.log(mixture.weights)
    expected = np.exp(joint - joint.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    ranked, weights = model.distribution.codec().posterior(TEST)
    assert (weights.sum(axis=1) == 2**24).all()
    assert (np.diff(weights, axis=1) <= 0).all()
    np.testing.assert_allclose(weights / 2**24, np.take_along_axis(expected, ranked, axis=1), atol=1e-5)


# ---------------------------------------------------------------- the same bytes, and no other rows


def test_the_bytes_do_not_depend_on_the_jobs(wide: LBARNEnsemble) -> None:
    Y = rows(700, 24, seed=2)
    once = wide.compress(Y)
    try:
        assert wide.set_params(n_jobs=2).compress(Y) == once
        np.testing.assert_array_equal(wide.decompress(once), Y)
    finally:
        wide.set_params(n_jobs=None)


def test_damaged_data_is_refused(model: LBARNEnsemble) -> None:
    data = model.compress(TEST)
    rng = random.Random(0)
    for _ in range(500):
        changed = mutate_bytes(data, rng)
        if changed != data:
            with pytest.raises(CompressedDataError):
                model.decompress(changed)
    for size in range(0, len(data), 7):
        with pytest.raises(CompressedDataError):
            model.decompress(data[:size])


def test_other_bits_in_a_container_with_a_right_checksum_are_never_other_rows(model: LBARNEnsemble) -> None:
    content = model.compress(TEST)[:-CHECKSUM]
    rng = random.Random(0)
    for _ in range(100):
        stream = mutate_bytes(content[STREAM_AT:], rng)
        if stream != content[STREAM_AT:]:
            with pytest.raises(CompressedDataError, match="damaged"):
                model.decompress(sealed(content[:STREAM_AT] + stream))


def test_data_of_another_model_is_refused(model: LBARNEnsemble) -> None:
    data = model.compress(TEST)
    equal = quick_ensemble(orders=ORDERS).fit(X)  # the same members, other weights
    for wrong in (equal, model.members_[0], quick_ensemble(orders=ORDERS[::-1], weights="em").fit(X)):
        with pytest.raises(CompressedDataError, match="another model"):
            wrong.decompress(data)
    with pytest.raises(CompressedDataError, match="another model"):
        model.decompress(model.members_[0].compress(TEST))


def test_the_format_is_what_it_was() -> None:
    """Bytes written by an earlier version must stay readable: a change here needs a new version number."""
    mixture = mixture_by_hand([[0, 3 << 20, -(2 << 20)], [1 << 20, -(1 << 20), 0], [0, 0, 0]], [0.5, 0.3, 0.2])
    Y = np.random.default_rng(0).integers(0, 2, (70, 3)).astype(np.uint8)
    data = bytes.fromhex(FIRST_VERSION)
    assert mixture.compress([Y]) == data
    np.testing.assert_array_equal(mixture.decompress(data), Y)


FIRST_VERSION = (
    "4c4241524e7a0100d03a0e43d1c2ff1671ae01a86aaa42214600000000000000f5b540715ee5dbacfe7b07c62e1b0704"
    "de8e6fc5dff3b832163307245864572d167d2974af58a2d0d19e85e6a8d7935b680300004561cecbf9f01696"
)


# ---------------------------------------------------------------- how much is decoded


@pytest.mark.parametrize("stream", [b"", b"abc\0", b"some words of it"])
def test_a_claim_of_millions_of_rows_in_a_few_bytes_is_refused_without_decoding_them(
    stream: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixture = mixture_by_hand([[-1 << 20] * 8, [1 << 20] * 8], [0.5, 0.5])
    asked = questions(monkeypatch)
    with pytest.raises(CompressedDataError, match="damaged"):
        mixture.decompress(claiming(mixture, MAX_ROWS, stream=stream))
    assert sum(asked) <= 4 * 8 * 65_536, "rows times columns"


@pytest.mark.parametrize("likeliest", [0, 1])
def test_zeros_at_the_beginning_come_back(likeliest: int) -> None:
    """Whether an empty stack stays empty depends on the rank of the first member for a row of zeros."""
    members = [[-1 << 20] * 5, [1 << 20] * 5]
    mixture = mixture_by_hand(members if likeliest == 0 else members[::-1], [0.5, 0.5])
    Y = np.zeros((3000, 5), np.uint8)
    data = mixture.compress([Y])
    assert (len(data) == STREAM_AT + CHECKSUM) == (likeliest == 0)
    np.testing.assert_array_equal(mixture.decompress(data), Y)
    Y[2000:] = rows(1000, 5)
    np.testing.assert_array_equal(mixture.decompress(mixture.compress([Y])), Y)


def test_rows_come_back_in_chunks_and_no_more_than_the_caller_takes(wide: LBARNEnsemble) -> None:
    Y = rows(9000, 24, seed=3)
    coder = wide.distribution.codec()
    data = coder.compress([Y])
    chunks = list(coder.decompress_chunks(data, max_rows=9000))
    assert max(map(len, chunks)) <= 4096
    np.testing.assert_array_equal(np.concatenate(chunks), Y)
    with pytest.raises(CompressedDataError, match="claims to hold 9,000 rows, more than max_rows=8,999"):
        coder.decompress_chunks(data, max_rows=8999)
