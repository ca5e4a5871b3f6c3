"""Tables in files: every format gives back what went in, and what is no table is refused with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lbarn._tables import files as tablefile
from lbarn._training.checkpoint import write_atomically
from lbarn.cli.openedmodel import aligned, read_weights
from lbarn.errors import TableFileError
from networks import rows

X = rows(20, 5)
NAMES = ("a", "b, quoted", "ü", "4", "")

BITS = arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(0, 1))


def dense(table: tablefile.TableFile) -> np.ndarray:
    return table.values.toarray() if sp.issparse(table.values) else table.values


@pytest.mark.parametrize("ending", ["csv", "txt", "parquet", "npy", "npz", "libsvm", "svm"])
def test_every_format_gives_back_what_went_in(ending: str, tmp_path: Path) -> None:
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    path = str(tmp_path / f"table.{ending}")
    tablefile.write(path, X, NAMES)
    table = tablefile.read(path, n_columns=5)
    np.testing.assert_array_equal(dense(table), X)
    assert table.names == (NAMES if ending in ("csv", "txt", "parquet") else None)


@given(BITS, st.booleans())
def test_plain_and_careful_reading_of_csv_agree(bits: np.ndarray, header: bool) -> None:
    names = tuple(f"c{j}" for j in range(bits.shape[1])) if header else None
    content = tablefile.to_csv(bits, names)
    plain = tablefile._read_csv("x", content, None)
    careful = tablefile._read_csv("x", content.replace(b"\n", b"\r\n"), None)
    assert plain.values.dtype == np.uint8
    np.testing.assert_array_equal(plain.values, bits)
    np.testing.assert_array_equal(careful.values, bits)
    assert plain.names == careful.names == names


def test_numbers_are_written_with_all_their_digits(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((4, 3))
    tablefile.write(str(tmp_path / "p.csv"), values)
    np.testing.assert_array_equal(tablefile.read(str(tmp_path / "p.csv")).values, values)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0,1,1\n1,0,1\n", None),
        ("a,b,c\n1,0,1\n", ("a", "b", "c")),
        ("\ufeffa,1,0\n1,0,1\n", ("a", "1", "0")),
        ("0,1,2\n1,0,1\n", ("0", "1", "2")),  # pandas counts
        (",nan,1\n1,0,1\n", None),
    ],
)
def test_a_header_is_told_from_a_row(text: str, names: tuple[str, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    table = tablefile.read(str(path))
    assert table.names == names
    assert len(table.values) == (2 if names is None else 1)
    if names == ("0", "1", "2"):
        assert len(tablefile.read(str(path), header=False).values) == 2


def test_missing_and_logical_cells_are_read() -> None:
    table = tablefile._read_csv("x", b'True, false ,\n"1",NA,nan\n\n0,0.5,1e0\n', None)
    np.testing.assert_array_equal(table.values, [[1, 0, np.nan], [1, np.nan, np.nan], [0, 0.5, 1]])
    assert table.check(0.4).tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.csv", b"\n\n", "is empty"),
        ("a.csv", b"0,1\n0,1,0\n", "line 2 has 3 cells"),
        ("a.csv", b"0;1\n1;0\n", "separated by commas"),
        ("a.csv", b'0,"1\n', "not CSV"),
        ("a.npy", b"", "damaged"),
        ("a.npz", b"PK\x03\x04junk", "damaged"),
        ("a.svm", b"0 1:x\n", "libsvm"),
        ("a.svm", b"0 9:1\n", "libsvm"),
    ],
)
def test_what_is_no_table_is_refused(name: str, content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableFileError, match=why) as caught:
        tablefile.read(str(tmp_path / name), n_columns=5)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "why"),
    [
        ({"a": X, "b": X}, "call the table X"),
        ({"X": X[None]}, "shape"),
        ({"X": X[:0]}, "no values"),
        ({"X": np.array([["a"]])}, "not numbers"),
        ({"X": np.array([[None]])}, "damaged"),
    ],
)
def test_arrays_that_are_no_table_are_refused(arrays: dict[str, np.ndarray], why: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(TableFileError, match=why):
        tablefile.read(str(tmp_path / "a.npz"))


def test_columns_are_found_by_name_or_position() -> None:
    table = tablefile.TableFile("t.csv", X, ("a", "b", "c", "d", "e"))
    np.testing.assert_array_equal(aligned(table, ("e", "d", "c", "b", "a"), 5).values, X[:, ::-1])
    assert aligned(table, None, 5) is table
    with pytest.raises(TableFileError, match="no column 'e' in the model"):
        aligned(table, ("a", "b", "c", "d"), 4)
    with pytest.raises(TableFileError, match="has no column 'f'"):
        aligned(table, ("a", "b", "c", "d", "e", "f"), 6)
    with pytest.raises(TableFileError, match="5 columns, and 6 are needed"):
        aligned(table, None, 6)


def test_weights_are_one_a_row(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.arange(3))
    assert read_weights(str(tmp_path / "w.npy"), 3).tolist() == [0, 1, 2]
    with pytest.raises(TableFileError, match="each of 4 rows"):
        read_weights(str(tmp_path / "w.npy"), 4)


def test_writing_keeps_links_and_devices(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    write_atomically(Path("/dev/null"), b"gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_atomically(tmp_path, b"")
