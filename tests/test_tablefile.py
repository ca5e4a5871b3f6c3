"""Tables in files: every format gives back what went in, messy files are read as meant, and the rest is refused with a reason."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from lbarn._tables import csvfile
from lbarn._tables.files import open_table
from lbarn._tables.output import csv_to, writing_table
from lbarn._tables.table import read_table
from lbarn.errors import TableFileError
from networks import rows

X = rows(20, 5)
NAMES = ("a", "b, quoted", "ü", "4", "")
BITS = arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(0, 1))
NAN = np.nan


def dense(values: Any) -> np.ndarray:
    table = read_table(values)
    return table.raw(0, table.n_rows)


def read(path: Path | str, **how: Any) -> tuple[np.ndarray, tuple[str, ...] | None, list[str]]:
    """Values, names and notes."""
    with open_table(str(path), **how) as table:
        return dense(table.read()), table.names, table.notes


def written(path: Path, values: Any, names: tuple[str, ...] | None = None) -> Path:
    with writing_table(str(path), names) as output:
        output.write(values)
    return path


ENDINGS = ["csv", "tsv", "txt", "csv.gz", "tsv.gz", "parquet", "npy", "npz", "libsvm", "svm"]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("n_rows", [7, 20])
def test_every_format_gives_back_what_went_in_part_by_part(ending: str, n_rows: int, tmp_path: Path) -> None:
    path = tmp_path / f"table.{ending}"
    with writing_table(str(path), NAMES) as output:
        for start in range(0, 20, n_rows):
            output.write(X[start : start + n_rows])
    values, names, _ = read(path, n_columns=5)
    np.testing.assert_array_equal(values, X)
    assert names == (None if ending in ("npy", "npz", "libsvm", "svm") else NAMES)
    with open_table(str(path), n_columns=5) as table:
        parts = [dense(part) for part in table.batches(6)]
    assert [len(part) for part in parts] == [6, 6, 6, 2]
    np.testing.assert_array_equal(np.concatenate(parts), X)
    assert list(tmp_path.iterdir()) == [path]


@given(BITS, st.booleans())
def test_bits_come_back_byte_for_byte(bits: np.ndarray, header: bool) -> None:
    names = tuple(f"c{j}" for j in range(bits.shape[1])) if header else None
    lines = [",".join(names)] if names else []
    text = "\n".join([*lines, *(",".join(map(str, row)) for row in bits.tolist()), ""])
    source = csvfile.CSVSource("x", io.BytesIO(text.encode()), header=header)
    assert source.names == names
    back = io.BytesIO()
    with csv_to(back, names) as output:
        for batch in source.batches(range(source.n_columns), [None] * source.n_columns):
            assert set(batch.schema.types) == {pa.uint8()}
            output.write(pa.Table.from_batches([batch]))
    assert back.getvalue().decode() == text


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", X)
    before = path.read_bytes()

    def fail() -> None:
        with writing_table(str(path), None) as output:
            output.write(X)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_numbers_are_written_with_all_their_digits(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((4, 3))
    np.testing.assert_array_equal(read(written(tmp_path / "p.csv", values))[0], values)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0,1,1\n1,0,1\n", None),
        ("a,b,c\n1,0,1\n", ("a", "b", "c")),
        ("\ufeffa,1,0\n1,0,1\n", ("a", "1", "0")),
        ("0,1,2\n1,0,1\n", ("0", "1", "2")),  # pandas counts
        (",nan,1\n1,0,1\n", None),
        ('"a\nb",c,d\n1,0,1\n', ("a\nb", "c", "d")),
    ],
)
def test_a_header_is_told_from_a_row(text: str, names: tuple[str, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    values, found, _ = read(path)
    assert found == names
    assert len(values) == (2 if names is None else 1)
    if names == ("0", "1", "2"):
        assert len(read(path, header=False)[0]) == 2


# what a file may look like, and the values that are meant
MESSY = {
    "missing and logical cells": (
        b'True, false ,\n"1",NA,nan\n\n0,0.5,1e0\n',
        [[1, 0, NAN], [1, NAN, NAN], [0, 0.5, 1]],
    ),
    "all words for missing": (b"a,b\n?,NA\nn/a,null\nNaN,\nNULL, na \nNone,<NA>\n0,1\n", [[NAN, NAN]] * 5 + [[0, 1]]),
    "semicolons": (b"0;1\n1;0\n", [[0, 1], [1, 0]]),
    "decimal commas": (b"a;b\n0,5;1,0\n1;0\n", [[0.5, 1], [1, 0]]),
    "tabs": (b"a\tb\n0\t1\n", [[0, 1]]),
    "single spaces": (b"0 1 1\n1 0 1\n", [[0, 1, 1], [1, 0, 1]]),
    "carriage returns": (b"a,b\r\n0,1\r\n1,0\r\n", [[0, 1], [1, 0]]),
    "old line ends": (b"a,b\r0,1\r1,0\r", [[0, 1], [1, 0]]),
    "no line end at the end": (b"0,1\n1,0", [[0, 1], [1, 0]]),
    "blank lines": (b"\n\na,b\n\n0,1\n\n\n1,0\n\n", [[0, 1], [1, 0]]),
    "quoted line break": (b'a,"b\nc"\n0,"1"\n1,"0\n"\n', [[0, 1], [1, 0]]),
    "byte order mark": (b"\xef\xbb\xbf0,1\n1,0\n", [[0, 1], [1, 0]]),
    "one column": (b"my age\n0\n1\n", [[0], [1]]),
    "numbers of other sizes": (b"300,1\n2,-1\n", [[300, 1], [2, -1]]),
    "ones with a fraction": (b"1.0,0.0\n0.0,1.0\n", [[1, 0], [0, 1]]),
}


@pytest.mark.parametrize("case", MESSY)
def test_messy_files_are_read_as_meant(case: str, tmp_path: Path) -> None:
    content, expected = MESSY[case]
    (tmp_path / "a.txt").write_bytes(content)
    np.testing.assert_array_equal(read(tmp_path / "a.txt")[0], expected)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    np.testing.assert_array_equal(read(tmp_path / "a.txt.gz")[0], expected)


def test_rows_do_not_depend_on_where_blocks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = np.random.default_rng(0).choice(["0", "1", "", "1.0", "true", '"0\n"', '"1"'], (300, 7))
    path = tmp_path / "a.csv"
    path.write_text("\n".join(map(",".join, cells.tolist())))
    expected, _, _ = read(path, header=False)
    words = {"": NAN, "true": 1, '"0\n"': 0, '"1"': 1}
    np.testing.assert_array_equal(expected, np.vectorize(lambda cell: float(words.get(cell, cell)))(cells))
    for size in (40, 100, 1000):
        monkeypatch.setattr(csvfile, "_BLOCK", (size, size))
        np.testing.assert_array_equal(read(path, header=False)[0], expected)
        with open_table(str(path), header=False) as table:
            np.testing.assert_array_equal(np.concatenate([dense(part) for part in table.batches(11)]), expected)


def test_names_may_be_in_latin_1_which_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("größe,b\n0,1\n".encode("latin-1"))
    _, names, notes = read(tmp_path / "a.csv")
    assert names == ("größe", "b")
    assert "Latin-1" in notes[0]
    (tmp_path / "a.csv").write_bytes("größe,b\n0,1\n".encode())
    assert read(tmp_path / "a.csv")[1:] == (("größe", "b"), [])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (",a,b\n0,0,1\n1,1,1\n2,0,0\n", ("a", "b")),
        ("Unnamed: 0,a,b\n17,0,1\n3,1,1\n2,0,0\n", ("a", "b")),  # a part of a table
        (",Unnamed: 0,a,b\n0,5,0,1\n1,6,1,1\n2,7,0,0\n", ("a", "b")),
        (",0,1,2\n0,0,1,1\n1,1,1,1\n", ("0", "1", "2")),
        (",a,b\n0,0,1\n1,1,1\n0,0,0\n", ("", "a", "b")),  # a column of bits that has no name
    ],
)
def test_what_pandas_writes_to_number_the_rows_is_left_out(text: str, names: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    values, found, notes = read(tmp_path / "a.csv")
    assert found == names
    assert values.shape[1] == len(names)
    assert len(notes) == (0 if "" in names else 1)
    assert all("numbers the rows" in note for note in notes)


def test_an_index_in_parquet_is_left_out(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [0, 1], "b": [1, 1]}, index=[5, 3]).to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[1] == ("a", "b")


def test_columns_are_chosen_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,a,b\nx,0,1\ny,1,1\n")
    assert read(path, drop=["id"])[1:] == (("a", "b"), [])
    values, names, notes = read(path, columns=["b", "a"])
    assert names == ("a", "b")
    np.testing.assert_array_equal(values, [[0, 1], [1, 1]])
    assert "'id' is left out" in notes[0]
    for wrong, why in ((["c"], "no column 'c'"), (["id", "a", "b"], "no columns are left")):
        with pytest.raises(TableFileError, match=why):
            read(path, drop=wrong)


BAD: list[tuple[str, bytes, str]] = [
    ("a.csv", b"", "is empty"),
    ("a.csv", b"\n\n", "is empty"),
    ("a.csv", b"a,b\n", "a header, but no rows"),
    ("a.csv", b"0,1\n0,1,0\n", r"row 1 \(counted from 0, there is no header\) has 3 cells, not 2"),
    ("a.csv", b"a,b\n0,1\n\n1\n", r"row 1 \(counted from 0, without the header\) has 1 cell, not 2"),
    ("a.csv", b"a,a\n0,1\n", "two columns are called 'a'"),
    ("a.csv", b'0,"1\n', "not CSV"),
    ("a.csv", bytes(range(256)), "is not text"),
    ("a.csv", "a,b\n0,1\n".encode("utf-16"), "UTF-16"),
    ("a.csv.gz", gzip.compress(b"a,b\n" + b"0,1\n" * 9999)[:-20], "damaged or cut off"),
    ("a.xlsx", b"", "save the sheet as CSV"),
    ("a.json", b"[]", "write it as Parquet or CSV"),
    ("a.zip", b"", "unpack it"),
    ("a.lbarn", b"", "comes before the data"),
    ("a", b"0,1\n", "no ending"),
    ("a.parquet", b"PAR1", "Parquet"),
    ("a.npy", b"", "damaged"),
    ("a.npz", b"PK\x03\x04junk", "damaged"),
    ("a.svm", b"0 1:x\n", "libsvm"),
    ("a.svm", b"0 9:1\n", "libsvm"),
    ("a.svm", b"0 99999999999999999999999:1\n", "libsvm"),
]


@pytest.mark.parametrize(("name", "content", "why"), BAD, ids=[f"{name} {why}" for name, _, why in BAD])
def test_what_is_no_table_is_refused(name: str, content: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TableFileError, match=why) as caught:
        read(tmp_path / name, n_columns=5)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ({"a": X, "b": X}, "call the table X"),
        ({"X": X[None]}, "shape"),
        ({"X": X[:0]}, "no values"),
        ({"X": np.array([["a"]])}, "not numbers"),
        ({"X": np.array([[None]])}, "damaged"),
    ],
)
def test_arrays_that_are_no_table_are_refused(content: dict[str, np.ndarray], why: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **content)
    with pytest.raises(TableFileError, match=why):
        read(tmp_path / "a.npz")


def test_a_libsvm_file_with_a_column_of_a_huge_number_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("0 1:1 2000000000:1\n")
    with pytest.raises(TableFileError, match=r"the table has the shape \(1, 2000000000\); lbarn takes at most"):
        read(tmp_path / "a.svm")


def test_a_small_file_cannot_ask_for_much_memory(tmp_path: Path) -> None:
    matrix = sp.csr_matrix((10, 5))
    sp.save_npz(tmp_path / "a.npz", matrix)
    np.testing.assert_array_equal(read(tmp_path / "a.npz")[0], np.zeros((10, 5)))
    with np.load(tmp_path / "a.npz") as content:
        parts = dict(content)
    np.savez(tmp_path / "a.npz", **{**parts, "shape": np.array([10, 2**40])})
    with pytest.raises(TableFileError, match="at most 30,000,000 rows"):
        read(tmp_path / "a.npz")
    np.savez_compressed(tmp_path / "b.npz", X=np.zeros((2, 70_000), np.uint8))
    with pytest.raises(TableFileError, match="65,535 columns"):
        read(tmp_path / "b.npz")


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_matrix, sp.bsr_matrix])
@pytest.mark.parametrize("index", [-1, 5, 2**31 - 1])
def test_a_sparse_matrix_with_values_outside_of_it_is_refused(make: Any, index: int, tmp_path: Path) -> None:
    matrix = make(np.eye(5))
    matrix.indices[2] = index
    sp.save_npz(tmp_path / "a.npz", matrix)
    with pytest.raises(TableFileError, match="damaged"):
        read(tmp_path / "a.npz")


def test_a_few_bytes_are_no_large_table(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "a.npz", sp.coo_matrix(([1], ([0], [0])), shape=(30_000_000, 65_535)))
    with pytest.raises(TableFileError, match=r"bytes cannot be a table of 30,000,000 rows and 65,535 columns"):
        open_table(str(tmp_path / "a.npz"))


@pytest.mark.parametrize(
    "remark", ["{", "[]", "null", '{"index_columns": 5}', '{"index_columns": [{"kind": "range"}, ["a"]]}']
)
def test_remarks_in_parquet_that_are_not_of_pandas_do_no_harm(remark: str, tmp_path: Path) -> None:
    table = pa.table({"a": [0, 1], "__index_level_0__": [1, 0]}).replace_schema_metadata({"pandas": remark})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet")[1] == ("a", "__index_level_0__")


def test_a_damaged_byte_of_a_parquet_file_is_harmless_or_one_clear_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", X, NAMES)
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        with suppress(TableFileError), open_table(str(path)) as table:
            table.read()


def test_a_cut_off_parquet_file_is_one_clear_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", X, NAMES)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(TableFileError, match="cannot be read as Parquet"):
        read(path)


def test_tens_of_thousands_of_columns_are_no_trouble(tmp_path: Path) -> None:
    bits = rows(30, 20_000)
    names = tuple(f"word {j}" for j in range(20_000))
    values, found, _ = read(written(tmp_path / "wide.csv", bits, names), columns=names[::-1])
    assert found == names
    np.testing.assert_array_equal(values, bits)


def test_columns_without_names_go_by_position_and_keep_their_gaps(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("0,1\n,1\n")
    with open_table(str(tmp_path / "a.csv")) as file:
        table = read_table(file.read())
    assert table.format.names is None
    assert table.format.library == "numpy"
    np.testing.assert_array_equal(table.raw(0, 2), [[0, 1], [NAN, 1]])


_READ = """
import resource, sys
from lbarn._tables.files import open_table
with open_table(sys.argv[1]) as table:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if sys.argv[2] == "all":
        kept = table.read()
    else:
        for part in table.batches(10_000):
            pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is counted in kilobytes")
@pytest.mark.parametrize("missing", [False, True])
def test_reading_takes_little_more_memory_than_the_bits_and_batches_take_none(missing: bool, tmp_path: Path) -> None:
    lines = b"0,1,1,0,0,1,1,0,1,1,0,0,1,0,1,1,1,0,0,1\n" * 4000
    if missing:
        lines = lines[:-40] + b",1,1,0,0,1,1,0,1,1,0,0,1,0,1,1,1,0,0,1\n"
    path = tmp_path / "big.csv"
    with open(path, "wb") as file:
        for _ in range(400):  # 64 MB, of which half are cells
            file.write(lines)
    cells = 4000 * 400 * 20

    def grown_by(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", _READ, path, how], capture_output=True, check=True)
        return 1024 * int(done.stdout)

    assert grown_by("all") < 2.5 * cells + 60e6
    assert grown_by("batches") < 60e6
