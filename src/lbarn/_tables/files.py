"""Tables in files: CSV with or without a header, Parquet, .npy, .npz and libsvm, read and written."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn._tables.table import Kind, Table, read_table
from lbarn._training.checkpoint import write_atomically
from lbarn.errors import TableFileError

__all__ = ["TableFile", "read", "to_csv", "write"]

_CELLS = {"0": 0.0, "1": 1.0, "": np.nan, "na": np.nan, "null": np.nan, "false": 0.0, "true": 1.0}
_COMMA, _NEWLINE, _ZERO = b",\n0"


@dataclass(frozen=True)
class TableFile:
    """What a file holds: an array (or sparse matrix) of numbers, NaN where a cell is missing, and the columns' names."""

    name: str
    values: Any
    names: tuple[str, ...] | None = None

    def check(self, binarize: float | None) -> NDArray[np.bool_]:
        """Which rows have missing cells; what is neither 0 nor 1 is an error that names file and column."""
        n, d = self.values.shape
        table = Table(n, d, Kind("numpy", self.names), binarize, self.values)
        incomplete = np.zeros(n, bool)
        try:
            for start, _, missing in table.chunks():
                if missing is not None:
                    incomplete[start : start + len(missing)] = missing.any(axis=1)
        except ValueError as error:
            mended = str(error).replace("set binarize= to", "lbarn fit --binarize sets a")
            raise TableFileError(f"{self.name}: {mended}") from error
        return incomplete


def read(
    name: str, *, header: bool | None = None, n_columns: int | None = None, default_part: str = "test"
) -> TableFile:
    """The table in a file, "-" being CSV from standard input, and "dataset:NAME" or "dataset:NAME/PART" a known one.

    Parameters
    ----------
    name : str
        Its ending tells the format: .parquet, .npy, .npz, .libsvm or .svm; anything else is CSV.
    header : bool, optional
        Whether the first line of a CSV file names the columns. By default it does if it holds anything but numbers, or
        just counts (0, 1, 2, ...), as pandas does for columns without names.
    n_columns : int, optional
        Of a libsvm file, which does not tell.
    default_part : {"train", "valid", "test"}
        Of a known data set, where its name tells none.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "votes.csv")
    >>> _ = path.write_text("tax,school\\n0,1\\n1,\\n")
    >>> table = read(str(path))
    >>> table.names
    ('tax', 'school')
    >>> table.values
    array([[ 0.,  1.],
           [ 1., nan]])
    """
    if name == "-":
        return _read_csv("standard input", sys.stdin.buffer.read(), header)
    if name.startswith("dataset:"):
        return _read_dataset(name, default_part)
    path = Path(name)
    try:
        if not path.exists():
            raise TableFileError(f"{name}: no such file")
        if path.is_dir():
            raise TableFileError(f"{name}: is a folder, not a table")
        ending = path.suffix.lower()
        if ending == ".parquet":
            table = _read_parquet(name)
        elif ending in (".npy", ".npz"):
            table = TableFile(name, _read_numpy(name))
        elif ending in (".libsvm", ".svm"):
            table = TableFile(name, _read_libsvm(name, n_columns))
        else:
            table = _read_csv(name, path.read_bytes(), header)
    except OSError as error:
        raise TableFileError(f"{name}: cannot be read ({error.strerror or error})") from error
    shape = table.values.shape
    if len(shape) != 2:
        raise TableFileError(f"{name}: holds an array of shape {shape}; a table has rows and columns")
    if 0 in shape:
        raise TableFileError(f"{name}: holds no values ({shape[0]} rows, {shape[1]} columns)")
    return table


def write(name: str, values: NDArray[Any], names: tuple[str, ...] | None = None) -> None:
    """Write a table to a file, whole or not at all, in the format that its ending tells: CSV where that is no other."""
    make = _WRITERS.get(Path(name).suffix.lower(), to_csv)
    write_atomically(Path(name), make(values, names))


# ---------------------------------------------------------------------- CSV


def _read_csv(name: str, content: bytes, header: bool | None) -> TableFile:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise TableFileError(f"{name}: is not text; other formats are told by their ending") from None
    try:
        first = next((row for row in csv.reader(io.StringIO(text), strict=True) if row), None)
    except csv.Error as error:
        raise TableFileError(f"{name}: is not CSV ({error})") from error
    if first is None:
        raise TableFileError(f"{name}: is empty")
    if header is None:
        header = not all(_is_number(cell) for cell in first) or _counts(first)
    names = tuple(first) if header else None
    if names is not None and len(set(names)) < len(names):
        twice = next(column for column in names if names.count(column) > 1)
        raise TableFileError(f"{name}: two columns are called {twice!r}")
    values: NDArray[Any] | None = _plain_bits(content, header)
    if values is None or values.shape[1] != len(first):
        values = _cells(name, text, header, len(first))
    if not len(values):
        raise TableFileError(f"{name}: has a header, but no rows")
    return TableFile(name, values, names)


def _plain_bits(content: bytes, header: bool) -> NDArray[np.uint8] | None:
    """The rows of a file that holds nothing but lines of 0,1,... after its header: no need to look at single cells."""
    start = content.find(b"\n") + 1 if header else 0
    width = content.find(b"\n", start) + 1 - start
    if width < 2 or (len(content) - start) % width:
        return None
    lines = np.frombuffer(content, np.uint8, offset=start).reshape(-1, width)
    bits = lines[:, ::2] - _ZERO
    separators = lines[:, 1::2]
    is_plain = (bits <= 1).all() and (separators[:, :-1] == _COMMA).all() and (separators[:, -1] == _NEWLINE).all()
    return bits if is_plain else None


def _cells(name: str, text: str, header: bool, n_columns: int) -> NDArray[np.float64]:
    reader = csv.reader(io.StringIO(text), strict=True)
    rows = []
    try:
        for row in reader:
            if not row:
                continue
            if len(row) != n_columns:
                raise TableFileError(
                    f"{name}: line {reader.line_num} has {len(row)} cells, the first one has {n_columns}"
                )
            if header:
                header = False
                continue
            rows.append(np.fromiter(map(_number, row), np.float64, n_columns))
    except csv.Error as error:
        raise TableFileError(f"{name}: line {reader.line_num} is not CSV ({error})") from error
    except _NotANumberError as error:
        raise TableFileError(
            f"{name}: line {reader.line_num} holds {str(error)[:40]!r}, which is not a number (cells are separated by commas)"
        ) from None
    return np.array(rows).reshape(-1, n_columns)


class _NotANumberError(Exception):
    """A cell that is not a number."""


def _number(cell: str) -> float:
    value = _CELLS.get(cell)
    if value is not None:
        return value
    word = cell.strip().lower()
    try:
        return _CELLS[word] if word in _CELLS else float(word)
    except ValueError:
        raise _NotANumberError(cell) from None


def _is_number(cell: str) -> bool:
    try:
        _number(cell)
    except _NotANumberError:
        return False
    return True


def _counts(cells: list[str]) -> bool:
    return len(cells) > 2 and cells == [str(j) for j in range(len(cells))]


def to_csv(values: NDArray[Any], names: tuple[str, ...] | None = None) -> bytes:
    """A table as CSV: plain 0 and 1, or as many digits as a number has; a header where there are names."""
    head = io.StringIO()
    if names is not None:
        csv.writer(head, lineterminator="\n").writerow(names)
    if values.dtype == np.uint8:
        lines = np.full((len(values), 2 * values.shape[1]), _COMMA, np.uint8)
        lines[:, ::2] = values + _ZERO
        lines[:, -1] = _NEWLINE
        return head.getvalue().encode() + lines.tobytes()
    body = "".join(",".join(map(repr, row)) + "\n" for row in values.tolist())
    return (head.getvalue() + body).encode()


# ---------------------------------------------------------------------- other formats


def _read_dataset(name: str, part: str) -> TableFile:
    from lbarn.datasets import load

    known, _, named_part = name.removeprefix("dataset:").partition("/")
    part = named_part or part
    if part not in ("train", "valid", "test"):
        raise TableFileError(f"{name}: the parts of a data set are train, valid and test, not {part!r}")
    values = getattr(load(known), part)
    return TableFile(name, values if sp.issparse(values) else np.asarray(values))


def _read_parquet(name: str) -> TableFile:
    parquet = _pyarrow_parquet(name)
    from pyarrow import ArrowException

    try:
        table = read_table(parquet.read_table(name))
        return TableFile(name, table.raw(0, table.n_rows), tuple(map(str, table.kind.names or ())))
    except (ArrowException, ValueError) as error:
        raise TableFileError(f"{name}: cannot be read as Parquet ({error})") from error


def _read_numpy(name: str) -> Any:
    try:
        with open(name, "rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                array = content
            elif {"format", "shape", "data"} <= set(content.files):
                return sp.load_npz(name).tocsr()
            elif len(content.files) == 1 or "X" in content.files:
                array = content["X" if "X" in content.files else content.files[0]]
            else:
                raise TableFileError(f"{name}: holds {', '.join(content.files) or 'nothing'}; call the table X")
    except (OSError, TableFileError):
        raise
    except Exception as error:  # a zip file fails in many ways
        raise TableFileError(f"{name}: damaged, or not a file of NumPy arrays") from error
    if array.dtype.kind not in "biuf":
        raise TableFileError(f"{name}: holds values of type {array.dtype}, not numbers")
    return array.reshape(-1, 1) if array.ndim == 1 else array


def _read_libsvm(name: str, n_columns: int | None) -> Any:
    from sklearn.datasets import load_svmlight_file

    try:
        return load_svmlight_file(name, n_features=n_columns)[0]
    except ValueError as error:
        raise TableFileError(f"{name}: cannot be read as libsvm ({str(error)[:100]})") from error


def _parquet(values: NDArray[Any], names: tuple[str, ...] | None) -> bytes:
    parquet = _pyarrow_parquet("a Parquet file")
    import pyarrow

    columns = names or tuple(map(str, range(values.shape[1])))
    file = io.BytesIO()
    parquet.write_table(pyarrow.table({column: values[:, j] for j, column in enumerate(columns)}), file)
    return file.getvalue()


def _pyarrow_parquet(name: str) -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{name}: pyarrow reads and writes Parquet; pip install 'lbarn[tables]'") from error
    return pyarrow.parquet


def _npy(values: NDArray[Any], names: tuple[str, ...] | None) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def _npz(values: NDArray[Any], names: tuple[str, ...] | None) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, X=values)
    return file.getvalue()


def _libsvm(values: NDArray[Any], names: tuple[str, ...] | None) -> bytes:
    from sklearn.datasets import dump_svmlight_file

    file = io.BytesIO()
    dump_svmlight_file(values.astype(np.float64), np.zeros(len(values), int), file, zero_based=False)
    return file.getvalue()


_WRITERS: dict[str, Callable[[NDArray[Any], tuple[str, ...] | None], bytes]] = {
    ".parquet": _parquet,
    ".npy": _npy,
    ".npz": _npz,
    ".libsvm": _libsvm,
    ".svm": _libsvm,
}
