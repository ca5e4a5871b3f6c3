"""Compressed rows come back as they were, take what the model says they must, and never come back wrong."""

import hashlib
import random
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import lbarn
from conftest import ROOT, chosen_path
from lbarn import LBARN, CompressedDataError, _core
from lbarn._engine.bits import MAX_ROWS
from lbarn._engine.codetree import Layout
from lbarn._engine.trees import Trees, boundaries
from lbarn._network import codec
from lbarn._network.codec import Codec
from lbarn._network.network import Network
from lbarn._tables import table
from lbarn.baselines import IndependentBits, SingleTreeNetwork
from mutations import mutate_bytes
from networks import quick, rows, still_rising

pytestmark = still_rising

CHECKSUM = 8  # bytes at the end
ROWS_AT, STREAM_AT = 24, 48


def entropy_bytes(model, X):
    return -model.score_samples(X).sum() / np.log(2) / 8


def by_hand(log_odds):
    """A codec that gives every position the same log-odds (in units of 2^-20) in every row."""
    return Codec(network_by_hand(log_odds), None)


def network_by_hand(log_odds):
    no_splits, no_gains = np.zeros((0, 2), np.uint16), np.zeros(0, np.float32)
    leaves = [Trees(no_splits, no_gains, np.array([v], np.int32), np.zeros(2, np.int64)) for v in log_odds]
    return Network(np.arange(len(leaves)), tuple(leaves), Layout.binary(len(leaves)))


def sealed(content):
    """With a right checksum at the end."""
    return content + hashlib.blake2b(content, digest_size=CHECKSUM).digest()


@pytest.fixture(scope="module")
def model():
    return quick(order="random").fit(rows(400, 9))


@st.composite
def networks(draw):
    n_columns = draw(st.integers(1, 12))
    order = draw(st.sampled_from(["given", "random", "entropy-decreasing"]) | st.permutations(range(n_columns)))
    network = quick(
        order=order,
        boosting=draw(st.sampled_from(["newton", "gradient"])),
        splits=draw(st.sampled_from(["fast", "exact"])),
        selection=draw(st.sampled_from(["individual", "common", "linearized"])),
        max_leaf_nodes=draw(st.sampled_from([2, 5, 16])),
        learning_rate=draw(st.sampled_from([0.1, 1.0])),
        max_iter=draw(st.integers(1, 12)),
        refit=draw(st.booleans()),
        random_state=draw(st.integers(0, 99)),
    )
    network.fit(rows(draw(st.integers(10, 300)), n_columns, seed=draw(st.integers(0, 99))))
    if draw(st.booleans()):
        network.refit_leaves(rows(draw(st.integers(1, 300)), n_columns, seed=100))
    return network


@settings(max_examples=150)
@given(network=networks(), data=st.data())
def test_any_rows_come_back_under_any_network_any_path_and_after_loading(network, data, tmp_path):
    n, d = data.draw(st.integers(1, 200)), network.n_features_in_
    seed, density = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    X = (np.random.default_rng(seed).random((n, d)) < density).astype(np.uint8)
    network.save(tmp_path / "model", trim=data.draw(st.booleans()))
    loaded = lbarn.load(tmp_path / "model")
    packed = {}
    for path in _core.simd_paths():
        with chosen_path(path):
            packed[path] = network.compress(X)
    assert len(set(packed.values())) == 1
    for path in _core.simd_paths():
        with chosen_path(path):
            np.testing.assert_array_equal(loaded.decompress(packed["portable"]), X)


@settings(max_examples=100)
@given(
    st.lists(st.integers(-(2**31) + 1, 2**31 - 1) | st.integers(-(2**25), 2**25), min_size=1, max_size=70), st.data()
)
def test_rows_that_the_model_holds_impossible_come_back(log_odds, data):
    coder = by_hand(log_odds)
    n = data.draw(st.integers(1, 30))
    X = np.array(
        data.draw(
            st.lists(
                st.lists(st.integers(0, 1), min_size=len(log_odds), max_size=len(log_odds)), min_size=n, max_size=n
            )
        )
    )
    np.testing.assert_array_equal(coder.decompress(coder.compress([X])), X)


@pytest.mark.parametrize("n", [1, 7, 8, 63, 64, 65, 4095, 4096, 4097, 65_535, 65_536, 65_537, 140_000])
def test_blocks_and_groups_of_rows_are_joined_again(n):
    X = rows(n, 3, seed=n)
    network = quick(max_iter=3, order=[2, 0, 1]).fit(X if n > 9 else rows(10, 3))
    np.testing.assert_array_equal(network.decompress(network.compress(X)), X)


def test_the_bytes_depend_on_neither_the_jobs_nor_how_rows_are_read_and_evaluated(monkeypatch):
    X = rows(70_000, 5)
    network = quick(max_iter=5).fit(X[:1000])
    once = network.compress(X)
    network.set_params(n_jobs=3)
    assert network.compress(X) == once
    np.testing.assert_array_equal(network.decompress(once), X)
    monkeypatch.setattr(table, "_CHUNK_VALUES", 12_345)
    monkeypatch.setattr(codec, "BLOCK_ROWS", 1024)
    assert network.compress(X) == once
    np.testing.assert_array_equal(network.decompress(once), X)


def test_wide_tables_are_coded_in_smaller_groups(monkeypatch):
    X = rows(10_000, 6)
    network = quick(max_iter=5).fit(X[:1000])
    monkeypatch.setattr(codec, "_GROUP_BITS", 6 * 4096)
    assert by_hand([0] * 6).group_rows == 4096
    np.testing.assert_array_equal(network.decompress(network.compress(X)), X)
    monkeypatch.setattr(codec, "_GROUP_BITS", 6)
    assert by_hand([0] * 6).group_rows == 4096


# ---------------------------------------------------------------------- size


@pytest.mark.parametrize("n", [1, 30, 3000, 70_000])
def test_the_size_is_the_entropy(n):
    X = rows(n, 30, seed=1)
    network = quick(max_iter=40).fit(rows(3000, 30))
    size, entropy = len(network.compress(X)), entropy_bytes(network, X)
    assert entropy <= size <= 1.005 * entropy + 100


def test_the_size_is_the_entropy_where_there_is_next_to_none():
    """Nothing is paid per bit or per group of rows: here a row has a thousandth of a bit."""
    X = np.zeros((200_000, 40), np.uint8)
    X[::20_000, 3] = 1
    network = IndependentBits().fit(X)
    size, entropy = len(network.compress(X)), entropy_bytes(network, X)
    assert entropy < 40
    assert size <= 1.005 * entropy + 100


def test_the_size_is_the_entropy_on_real_data(shared_data):
    data = shared_data("mushrooms")
    network = quick(max_iter=30).fit(data.train.unpack(), X_val=data.valid.unpack())
    X = data.test.unpack()
    size, entropy = len(network.compress(X)), entropy_bytes(network, X)
    assert entropy <= size <= 1.005 * entropy + 100


def test_a_bit_of_probability_one_half_takes_one_bit():
    coder = by_hand([0] * 64)
    size = len(coder.compress([np.random.default_rng(0).integers(0, 2, (1000, 64))]))
    assert 8000 <= size <= 8000 + 64


# ---------------------------------------------------------------------- which model


def test_the_fingerprint_is_that_of_the_distribution(tmp_path):
    X = rows(400, 9)
    network = quick(order="random", max_iter=40).fit(X)
    network.save(tmp_path / "whole")
    network.save(tmp_path / "trimmed", trim=True)
    own = network.distribution.fingerprint()
    assert lbarn.load(tmp_path / "whole").distribution.fingerprint() == own
    assert lbarn.load(tmp_path / "trimmed").distribution.fingerprint() == own
    assert quick(order="random", max_iter=40, n_jobs=2).fit(X).distribution.fingerprint() == own


@pytest.mark.parametrize(
    "change",
    [
        lambda network: network.refit_leaves(rows(300, 9, seed=5)),
        lambda network: network.select("common"),
        lambda network: quick(order="random", random_state=1).fit(rows(400, 9)),
        lambda network: quick(order="random").fit(rows(400, 8)),
        lambda network: IndependentBits().fit(rows(400, 9)),
    ],
    ids=["refit", "selection", "order", "width", "kind"],
)
def test_another_model_is_refused(change):
    network = quick(order="random", n_iter_no_change=None).fit(rows(400, 9))
    data = network.compress(rows(20, 9))
    counts = network.n_trees_.copy()
    other = change(network)
    assert other is not network or other.selection_ != "common" or (other.n_trees_ != counts).any()
    with pytest.raises(CompressedDataError, match="compressed with another model"):
        other.decompress(data)


@pytest.mark.parametrize("network", [IndependentBits(), SingleTreeNetwork(max_leaf_nodes=8)])
def test_every_network_compresses(network):
    X = rows(500, 7)
    np.testing.assert_array_equal(network.fit(X).decompress(network.compress(X)), X)


def test_the_format_is_what_it_was():
    """Bytes written by an earlier version must stay readable: a change here needs a new version number."""
    coder = by_hand([0, 3 << 20, -(2 << 20), 500_000, -(2**31) + 1])
    X = np.array([[1, 1, 0, 0, 0], [0, 1, 0, 1, 0], [1, 1, 1, 1, 0], [0, 0, 0, 1, 0]], np.uint8)
    data = bytes.fromhex(FIRST_VERSION)
    assert coder.compress([X]) == data
    np.testing.assert_array_equal(coder.decompress(data), X)


FIRST_VERSION = (
    "4c4241524e7a0100c09965f02dd0b02f8d4593163bc62d5d04000000000000007553e457448dc02185b0aa54ecd69557"
    "1c56ee524a0000007ce2597c4978a888"
)


# ---------------------------------------------------------------------- damage


def test_damaged_data_is_refused(model):
    X = rows(150, 9, seed=3)
    data = model.compress(X)
    rng = random.Random(0)
    for _ in range(10_000):
        changed = mutate_bytes(data, rng)
        if changed != data:
            with pytest.raises(CompressedDataError):
                model.decompress(changed)


def test_every_truncation_and_every_flipped_bit_is_refused(model):
    data = model.compress(rows(20, 9, seed=3))
    for size in range(len(data)):
        with pytest.raises(CompressedDataError):
            model.decompress(data[:size])
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CompressedDataError):
            model.decompress(bytes(changed))


def test_other_bits_in_a_container_with_a_right_checksum_are_never_other_rows(model):
    content = model.compress(rows(150, 9, seed=3))[:-CHECKSUM]
    rng = random.Random(0)
    for _ in range(1000):
        stream = mutate_bytes(content[STREAM_AT:], rng)
        if stream != content[STREAM_AT:]:
            with pytest.raises(CompressedDataError, match="damaged"):
                model.decompress(sealed(content[:STREAM_AT] + stream))


@pytest.mark.parametrize("n", [0, 1, 149, 151, 152, 5000, MAX_ROWS + 1, 2**63, 2**64 - 1])
def test_another_number_of_rows_in_a_container_with_a_right_checksum_is_refused(model, n):
    content = model.compress(rows(150, 9, seed=3))[:-CHECKSUM]
    with pytest.raises(CompressedDataError, match="damaged"):
        model.decompress(sealed(content[:ROWS_AT] + struct.pack("<Q", n) + content[ROWS_AT + 8 :]))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"LBA", "truncated"),
        (b"LBARNz" + bytes(40), "truncated"),
        (b"LBARNz\x02" + bytes(100), "of version 2; this lbarn reads version 1"),
        (b"LBARNz\x01\x00" + bytes(100), "checksum does not match"),
        (b"PK\x03\x04" + bytes(100), "not data that lbarn has compressed"),
    ],
)
def test_the_reason_is_told(model, data, reason):
    with pytest.raises(CompressedDataError, match=reason):
        model.decompress(data)


def test_what_is_not_bytes_is_refused(model):
    for data in ("text", 17, None, [1, 2]):
        with pytest.raises(TypeError, match="bytes-like"):
            model.decompress(data)


# ---------------------------------------------------------------------- how much is decoded


def claiming(coder, n, checksum=bytes(16), stream=b""):
    """A container of ``n`` rows with a right checksum of its bytes."""
    return sealed(struct.pack("<6sH16sQ16s", b"LBARNz", 1, coder.fingerprint, n, checksum) + stream)


def questions(monkeypatch):
    """A list that grows by the number of rows whenever codecs ask a model for probabilities."""
    asked = []

    def ask(log_odds):
        asked.append(len(log_odds))
        return boundaries(log_odds)

    monkeypatch.setattr(codec, "boundaries", ask)
    return asked


@pytest.mark.parametrize("stream", [b"", b"abc\0", b"some words of it"])
def test_a_claim_of_millions_of_rows_in_a_few_bytes_is_refused_without_decoding_them(stream, monkeypatch):
    asked = questions(monkeypatch)
    coder = by_hand([0, 1 << 20, -(1 << 20), 0, 0, 0, 0, 1 << 19])
    tracemalloc.start()
    try:
        with pytest.raises(CompressedDataError, match="damaged"):
            coder.decompress(claiming(coder, MAX_ROWS, stream=stream))
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert sum(asked) <= 4 * 8 * 65_536, "rows times columns"


def test_zeros_at_the_beginning_take_no_bytes_and_no_evaluation(monkeypatch):
    coder = by_hand([1 << 20] * 5)
    X = np.zeros((200_000, 5), np.uint8)
    data = coder.compress([X])
    assert len(data) == STREAM_AT + CHECKSUM
    asked = questions(monkeypatch)
    np.testing.assert_array_equal(coder.decompress(data), X)
    assert sum(asked) <= 2 * 65_536, "one position of a group"
    X[150_000:, ::2] = 1
    np.testing.assert_array_equal(coder.decompress(coder.compress([X])), X)


def test_more_rows_than_the_caller_takes_are_refused_before_they_are_decoded(monkeypatch):
    coder = by_hand([0] * 3)
    X = rows(1000, 3)
    data = coder.compress([X])
    asked = questions(monkeypatch)
    for decompress in (coder.decompress, coder.decompress_chunks):
        with pytest.raises(CompressedDataError, match="claims to hold 1,000 rows, more than max_rows=999"):
            decompress(data, max_rows=999)
    assert not asked
    np.testing.assert_array_equal(coder.decompress(data, max_rows=1000), X)


@pytest.mark.parametrize("n", [1, 4096, 70_000, 140_000])
def test_chunks_are_the_rows_in_order(n):
    network = quick(max_iter=3, order=[2, 0, 1]).fit(rows(1000, 3)).distribution
    X = rows(n, 3, seed=n)
    chunks = list(network.codec().decompress_chunks(network.codec().compress([X])))
    assert max(map(len, chunks)) <= 4096
    np.testing.assert_array_equal(np.concatenate(chunks), X)


def test_chunks_take_the_memory_of_packed_rows():
    coder = by_hand([0] * 64)
    X = np.random.default_rng(0).integers(0, 2, (65_536, 64), np.uint8)
    data = coder.compress(np.array_split(X, 10))
    assert peak_of_chunks(coder, data) < 0.6 * X.nbytes  # packed rows, their copy for the checksum, and a chunk


def peak_of_chunks(coder, data):
    tracemalloc.start()
    try:
        for _ in coder.decompress_chunks(data):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_damaged_data_is_refused_before_the_first_chunk():
    coder = by_hand([0] * 5)
    content = coder.compress([rows(100, 5)])[:-CHECKSUM]
    with pytest.raises(CompressedDataError, match="damaged"):
        coder.decompress_chunks(sealed(content[:-1] + bytes([content[-1] ^ 1])))


# ---------------------------------------------------------------------- tables


def test_anything_that_holds_bytes_is_read(model):
    X = rows(5, 9)
    data = model.compress(X)
    for held in (bytearray(data), memoryview(data), np.frombuffer(data, np.uint8)):
        np.testing.assert_array_equal(model.decompress(held), X)


def test_the_kind_of_table_that_the_model_was_fitted_on_is_given_back():
    frame = pd.DataFrame(rows(200, 4), columns=list("abcd")).astype({"b": bool})
    network = quick(order="random").fit(frame)
    pd.testing.assert_frame_equal(network.decompress(network.compress(frame)), frame)


def test_grey_values_come_back_as_the_bits_that_they_were_read_as():
    X = np.random.default_rng(0).random((100, 4))
    network = quick(binarize=0.4).fit(X)
    np.testing.assert_array_equal(network.decompress(network.compress(X)), X > 0.4)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((3, 8)), "features"),
        (np.zeros((0, 9)), r"0 sample\(s\)"),
        (np.full((3, 9), 2), "takes 0 and 1 only"),
    ],
)
def test_what_cannot_be_scored_cannot_be_compressed(model, X, message):
    with pytest.raises(ValueError, match=message):
        model.score_samples(X)
    with pytest.raises(ValueError, match=message):
        model.compress(X)


def test_what_is_missing_cannot_be_compressed(model):
    with pytest.raises(ValueError, match="is missing"):
        model.compress(np.full((3, 9), np.nan))


def test_a_model_without_fit_is_refused():
    with pytest.raises(NotFittedError):
        LBARN().compress(rows(3, 3))
    with pytest.raises(NotFittedError):
        LBARN().decompress(b"")


# ---------------------------------------------------------------------- benchmark


def test_the_benchmark_runs(tmp_path: Path):
    script = ROOT / "benchmarks" / "bench_compression.py"
    done = subprocess.run(
        [sys.executable, script, "--smoke", "--results", tmp_path / "compression.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "| smoke |" in done.stdout
    assert (tmp_path / "compression.json").exists()
