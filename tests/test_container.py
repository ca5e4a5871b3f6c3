"""The container of model files: safetensors to the byte, little memory, and an error for whatever else it is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save, save_file

from fit_process import DEADLINE
from lbarn import ModelFileError
from lbarn._network import container

TYPES = ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "?", ">i4", ">f8"]
HEADER = {"names": ["é", 'a "quoted" one', "\x00\n"], "rate": 0.02, "nothing": None}


def some_tensors() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = [(), (0,), (1,), (7,), (3, 2), (2, 0, 4)]
    return {f"{k}.{t}": (200 * rng.random(shape)).astype(t) for k, shape in enumerate(shapes) for t in TYPES}


def seal(text: str, **tensors: Any) -> bytes:
    """A file that holds ``text`` for a description, whatever that is."""
    return save(tensors, {"lbarn": text})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model"


# ---------------------------------------------------------------- the format


def test_a_file_is_to_the_byte_what_the_safetensors_library_writes(path: Path) -> None:
    tensors = some_tensors()
    container.write(path, "Kind", HEADER, tensors)
    length = int.from_bytes(path.read_bytes()[:8], "little")
    text = json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]["lbarn"]
    native = {name: np.ascontiguousarray(array, array.dtype.newbyteorder("=")) for name, array in tensors.items()}
    assert path.read_bytes() == save(native, {"lbarn": text})


def test_what_was_written_is_read_here_and_by_the_safetensors_library(path: Path) -> None:
    tensors = some_tensors()
    container.write(path, "Kind", HEADER, tensors)
    kind, header, read = container.read(path)
    assert kind == "Kind"
    assert header == {**HEADER, "version": 1}
    for other in (read, load_file(path)):
        assert other.keys() == tensors.keys()
        for name, array in tensors.items():
            np.testing.assert_array_equal(other[name], np.atleast_1d(array))
    container.write(path.with_name("again"), kind, HEADER, read)
    assert path.with_name("again").read_bytes() == path.read_bytes()


def test_an_array_in_pieces_is_written_as_the_array(path: Path) -> None:
    whole = np.arange(60, dtype=">u2").reshape(20, 3)
    container.write(path, "Kind", HEADER, {"a": whole, "b": np.arange(3)})
    pieces = container.Pieces([whole[:0], whole[:7], whole[7:8], whole[8:]])
    np.testing.assert_array_equal(np.asarray(pieces), whole)
    container.write(path.with_name("pieces"), "Kind", HEADER, {"a": pieces, "b": np.arange(3)})
    assert path.with_name("pieces").read_bytes() == path.read_bytes()
    for other in (np.zeros((2, 2), ">u2"), np.zeros((2, 3), np.int64)):
        with pytest.raises(ValueError, match="one type and shape"):
            container.Pieces([whole, other])


def test_a_damaged_file_is_said_to_be_damaged_whatever_was_made_of_it(path: Path) -> None:
    container.write(path, "Kind", HEADER, {"a": np.arange(1000)})
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))

    def read(error: Exception | None) -> None:
        with container.reading(path):
            if error:
                raise error

    for error in (None, KeyError("nonsense"), ModelFileError("a split names a leaf that does not exist")):
        with pytest.raises(ModelFileError, match="its checksum does not match"):
            read(error)
    path.write_bytes(content)
    with pytest.raises(KeyError, match="nonsense"):
        read(KeyError("nonsense"))


def test_a_pipe_can_take_a_model() -> None:
    code = "import numpy as np; from lbarn._network import container\n"
    code += "container.write('/dev/stdout', 'Kind', {}, {'a': np.arange(5)})"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=DEADLINE)
    assert process.stdout[-40:] == np.arange(5).tobytes()


# ---------------------------------------------------------------- memory, and files that change


def test_writing_and_reading_hold_the_arrays_once(path: Path) -> None:
    tensors = {name: np.zeros(1_000_000) for name in "abcdefgh"}  # 64 MB
    tracemalloc.start()
    try:
        container.write(path, "Kind", {}, tensors)
        assert tracemalloc.get_traced_memory()[1] < 1e6
        pieces = {"a": container.Pieces(list(tensors.values()))}
        tracemalloc.reset_peak()
        container.write(path, "Kind", {}, pieces)
        assert tracemalloc.get_traced_memory()[1] < 1e6
        tensors.clear()
        pieces.clear()
        tracemalloc.reset_peak()
        container.read(path)
        assert tracemalloc.get_traced_memory()[1] < 65e6
    finally:
        tracemalloc.stop()


LOAD_AND_LOAD = """
import sys
from lbarn import ModelFileError
from lbarn._network import container
whole = 0
for _ in range(300):
    try:
        container.read(sys.argv[1])
        whole += 1
    except ModelFileError as error:
        assert "damaged" in str(error), error
"""


def test_a_file_that_is_copied_over_while_it_is_read_is_damaged_and_no_more(path: Path) -> None:
    container.write(path, "Kind", {}, {"a": np.zeros(300_000)})
    content = path.read_bytes()
    reader = subprocess.Popen([sys.executable, "-c", LOAD_AND_LOAD, str(path)])
    while reader.poll() is None:
        path.write_bytes(content)  # as cp does: shortened to nothing, then filled
    assert reader.returncode == 0


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="what was read is counted in /proc")
@pytest.mark.parametrize("text", [None, '{"kind": "LBARN", "version": 2}'], ids=["foreign", "another version"])
def test_a_huge_file_that_is_not_ours_is_refused_by_its_header(path: Path, text: str | None) -> None:
    head: dict[str, Any] = {} if text is None else {"__metadata__": {"lbarn": text}}
    head["weights"] = {"dtype": "F32", "shape": [2**30], "data_offsets": [0, 2**32]}
    encoded = json.dumps(head).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded)
    os.truncate(path, 8 + len(encoded) + 2**32)

    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    before = bytes_read()
    with pytest.raises(ModelFileError, match="not a model of lbarn" if text is None else "of version 2"):
        container.read(path)
    assert bytes_read() - before < 1e6


# ---------------------------------------------------------------- crafted headers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "5",
        "null",
        "[" * 100_000,
        '{"a":' * 100_000,
        "NaN",
        '{"kind": "LBARN", "version": 1, "rate": NaN}',
        '{"kind": "LBARN", "version": 1, "rate": -Infinity}',
        '{"kind": "LBARN", "version": 1, "rate": 1e999}',
        '{"kind": "LBARN", "version": 1, "seed": ' + "9" * 10_000 + "}",
        '{"kind": "LBARN", "version": 1, "version": 1}',
        '{"kind": "LBARN", "version": 1, "parameters": {"a": 1, "a": 2}}',
        '{"kind": 5, "version": 1}',
        '{"kind": null, "version": 1}',
        '{"version": 1}',
        '{"kind": "LBARN", "version": true}',
        '{"kind": "LBARN", "version": 1.0}',
        '{"kind": "LBARN", "version": [1]}',
        '{"kind": "LBARN", "version": 1}',
        '{"kind": "LBARN", "version": 1, "checksum": 5}',
        '{"kind": "LBARN", "version": 1, "checksum": {"a": []}}',
    ],
    ids=lambda text: text[:60],
)
def test_a_description_that_is_not_ours_is_refused(path: Path, text: str) -> None:
    path.write_bytes(seal(text, a=np.zeros(3)))
    with pytest.raises(ModelFileError, match=r"damaged|of version"):
        container.read(path)


def entry(dtype: Any = "U8", shape: Any = (3,), offsets: Any = (0, 3), **more: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"a": entry(offsets=[0, 2])},
        {"a": entry(offsets=[0, 4])},
        {"a": entry(offsets=[1, 4])},
        {"a": entry(offsets=[3, 0])},
        {"a": entry(offsets=[-3, 0])},
        {"a": entry(offsets=[0, 3, 3])},
        {"a": entry(offsets=3)},
        {"a": entry(offsets=[0.0, 3.0])},
        {"a": entry(offsets=[False, 3])},
        {"a": entry(offsets=[0, 2**64])},
        {"a": entry(shape=[-1, -3])},
        {"a": entry(shape=[True, 3])},
        {"a": entry(shape=[3.0])},
        {"a": entry(shape=3)},
        {"a": entry(shape=["3"])},
        {"a": entry(shape=[1] * 100 + [3])},
        {"a": entry(shape=[2**62, 2**62])},
        {"a": entry(), "b": entry(shape=[0, 2**62, 2**62], offsets=[3, 3])},
        {"a": entry(), "b": entry()},
        {"a": entry(dtype="BF16", shape=[1], offsets=[0, 2])},
        {"a": entry(dtype=None)},
        {"a": entry(dtype=["U8"])},
        {"a": entry(more=1)},
        {"a": []},
        {"a": None},
        {"a": {}},
        {"__metadata__": {"lbarn": 5}, "a": entry()},
        {"__metadata__": [], "a": entry()},
    ],
    ids=str,
)
def test_a_header_that_does_not_describe_the_file_is_refused(path: Path, entries: dict[str, Any]) -> None:
    text = json.dumps({"kind": "LBARN", "version": 1})
    encoded = json.dumps({"__metadata__": {"lbarn": text}, **entries}).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + b"abc")
    with pytest.raises(ModelFileError, match=r"damaged|too large|not a model of lbarn"):
        container.read(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8,
        b"\xff" * 8,
        (2).to_bytes(8, "little") + b"[]",
        (4).to_bytes(8, "little") + b"\xff\xfe{}",
        (2**40).to_bytes(8, "little") + b"{}",
        (100_000).to_bytes(8, "little") + b"[" * 100_000,
    ],
    ids=["empty", "no header", "ones", "a list", "not text", "longer than the file", "deep"],
)
def test_what_is_no_safetensors_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged or not a model file"):
        container.read(path)


def test_a_foreign_safetensors_file_is_refused(path: Path) -> None:
    for metadata in (None, {"format": "pt"}):
        save_file({"weights": np.zeros(3)}, path, metadata)
        with pytest.raises(ModelFileError, match="not a model of lbarn"):
            container.read(path)
