"""Tables in files: CSV, Parquet, .npy, .npz, libsvm and known data sets, opened as values that give their rows in batches."""

from __future__ import annotations

import math
import stat
import sys
import zipfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn._engine.bits import MAX_COLUMNS, MAX_ROWS
from lbarn._tables.column import AS_DIGITS
from lbarn._tables.csvfile import CSVSource
from lbarn._tables.table import UNNAMED
from lbarn.errors import TableFileError

__all__ = ["CSV_ENDINGS", "Rows", "TableFile", "ending_of", "open_table"]

Rows: TypeAlias = "pa.Table | NDArray[Any] | sp.csr_matrix"

CSV_ENDINGS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz")
_ENDINGS = "CSV (.csv, .tsv, .txt, also with .gz), .parquet, .npy, .npz, .libsvm or .svm"
_ROOM = 1 << 30  # bytes that any sparse matrix may take, a bit a cell
_SPARSEST = 1000  # and beyond: times the bytes that it is kept in
_GROUP = 1 << 26  # bytes of batches that are joined: thousands of columns in many small pieces take room


class TableFile(ABC):
    """A table that is read once, in batches or as a whole.

    Attributes
    ----------
    name : str
        As the user knows it.
    names : tuple of str, or None
        Those of the columns, if the file has any.
    n_columns : int
    notes : list of str
        What the user should know about how it was read.
    ignored : list of str
        The columns that are left out because others were asked for.
    """

    def __init__(self, name: str, names: tuple[str, ...] | None, n_columns: int) -> None:
        self.name = name
        self.names = names
        self.n_columns = n_columns
        self.notes: list[str] = []
        self.ignored: list[str] = []

    @abstractmethod
    def batches(self, n_rows: int) -> Iterator[Rows]:
        """The rows, in order, so many at a time. Memory does not grow with their number (but for .npz and libsvm)."""

    @abstractmethod
    def read(self) -> Rows:
        """All rows."""

    def expected_rows(self) -> int | None:
        """How many rows there are, roughly; None if nobody knows before the end."""
        return None

    def row(self, i: int) -> str:
        """Which row is meant, in words."""
        return f"row {i} (counted from 0)"

    def label(self, j: int) -> str | int:
        """A column's name, or its number."""
        return j if self.names is None else self.names[j]

    def __enter__(self) -> TableFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027 (there may be nothing to close)
        """No more rows are wanted."""


def open_table(
    name: str,
    *,
    header: bool | None = None,
    n_columns: int | None = None,
    part: str = "test",
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    sorts: Mapping[str | int, str] | None = None,
    others: bool = False,
) -> TableFile:
    """Open a file, "-" (CSV from standard input), or a known data set: "dataset:NAME", "dataset:NAME/PART".

    Parameters
    ----------
    name : str
        Its ending tells the format: .csv, .tsv, .txt (also .gz), .parquet, .npy, .npz, .libsvm or .svm.
    header : bool, optional
        Whether CSV begins with the names of the columns. By default it does if its first line holds anything but
        numbers, or just counts (0, 1, 2, ...), as pandas does for columns without names.
    n_columns : int, optional
        Of a libsvm file, which does not tell.
    part : {"train", "valid", "test"}
        Of a known data set, unless its name tells.
    columns : sequence of str, optional
        If the file has names, columns with other ones are left out, with a note.
    drop : sequence of str
        The columns to leave out.
    sorts : mapping, optional
        What the columns of CSV are, by name (or number, if the file has no names): "number", "string", "time" or "cell" (text as
        it stands there). Others are what all of their cells can be: 0 and 1, true and false, numbers, or else strings.
    others : bool
        Read other columns than ``columns``, too; those of CSV as text.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "votes.csv")
    >>> _ = path.write_text("tax,school\\n0,1\\n1,\\n")
    >>> with open_table(str(path)) as table:
    ...     table.names
    ...     table.read().to_pydict()
    ('tax', 'school')
    {'tax': [False, True], 'school': [True, None]}
    """
    wanted = _Wanted(columns, tuple(drop), sorts or {}, others)
    if name == "-":
        return _CSV("standard input", sys.stdin.buffer, wanted, header, None)
    if name.startswith("dataset:"):
        return _Array(name, _dataset(name, part), wanted)
    path = Path(name)
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise TableFileError(f"{name}: is a folder, not a table")
        ending = ending_of(name)
        if ending == ".parquet":
            return _Parquet(name, wanted)
        if ending in (".npy", ".npz"):
            return _Array(name, _numpy(name, ending), wanted)
        if ending in (".libsvm", ".svm"):
            return _Array(name, _libsvm(name, n_columns), wanted)
        with ExitStack() as stack:
            file = stack.enter_context(open(path, "rb"))
            table = _CSV(name, file, wanted, header, "\t" if ".tsv" in ending else None, path)
            stack.pop_all()  # the table closes it
            return table
    except FileNotFoundError:
        raise TableFileError(f"{name}: no such file") from None
    except OSError as error:
        raise TableFileError(f"{name}: cannot be read ({error.strerror or error})") from error


def ending_of(name: str, *, written: bool = False) -> str:
    """The ending that tells the format; none of a device or a pipe, which is CSV. Any other ending is an error.

    ``written`` is for tables that are to be written: no advice on how to turn them into another format.
    """
    path = Path(name)
    endings = [own.lower() for own in path.suffixes[-2:]]
    ending = "".join(endings) if endings[1:] == [".gz"] else endings[-1] if endings else ""
    if ending in (*CSV_ENDINGS, ".parquet", ".npy", ".npz", ".libsvm", ".svm"):
        return ending
    if path.is_relative_to("/dev") or (path.exists() and not path.is_file()):  # /dev/stdout may lead to a file
        return ""
    by_name = f"name it by its format: {_ENDINGS}"
    advice = by_name if written else _ADVICE.get(ending, by_name)
    what = (
        f"lbarn knows no tables with the ending {ending}" if ending else "the name has no ending that tells its format"
    )
    raise TableFileError(f"{name}: {what}; {advice}")


_ADVICE = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as CSV"),
    **dict.fromkeys((".feather", ".arrow", ".json", ".jsonl", ".pkl", ".pickle", ".h5"), "write it as Parquet or CSV"),
    **dict.fromkeys((".zip", ".bz2", ".xz", ".zst"), "unpack it, or compress CSV by gzip"),
    ".lbarn": "it looks like a model, which comes before the data",
}


class _Wanted:
    """Which columns the caller wants."""

    def __init__(
        self, columns: Sequence[str] | None, drop: tuple[str, ...], sorts: Mapping[str | int, str], others: bool
    ) -> None:
        self.columns = None if columns is None else frozenset(columns)
        self.drop = drop
        self.others = others
        self._sorts = sorts

    def sort(self, label: str | int) -> str | None:
        """What a column of CSV is; None if that is to be found out."""
        is_other = self.others and self.columns is not None and label not in self.columns
        return self._sorts.get(label, "cell" if is_other and isinstance(label, str) else None)

    def positions(
        self, table: TableFile, names: tuple[str, ...] | None, n_columns: int, index: Sequence[int]
    ) -> list[int]:
        """Of the columns to read. What is left out unasked is noted."""
        if names is None:
            if self.drop:
                raise TableFileError(f"{table.name}: has no names of columns: there is no {self.drop[0]!r} to drop")
            return list(range(n_columns))
        known = set(names)
        for name in self.drop:
            if name not in known:
                raise TableFileError(f"{table.name}: has no column {name!r} to drop")
        left_out = set(self.drop)
        if self.others:
            return [j for j, name in enumerate(names) if name not in left_out]
        numbering = {names[j] for j in index} - (self.columns or set()) - left_out
        if numbering:
            table.notes.append(f"{table.name}: the first column, which numbers the rows, is left out")
        left_out |= numbering
        if self.columns is not None and self.columns & known:
            table.ignored = extra = [name for name in names if name not in self.columns and name not in left_out]
            if extra:
                table.notes.append(
                    f"{table.name}: {_listed(extra)} left out: the model does not know {'it' if len(extra) == 1 else 'them'}"
                )
            left_out |= set(extra)
        found = [j for j, name in enumerate(names) if name not in left_out]
        if not found:
            raise TableFileError(f"{table.name}: no columns are left")
        return found


def _listed(names: list[str]) -> str:
    some = ", ".join(repr(name) for name in names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"column {some} is" if len(names) == 1 else f"columns {some} are"


# ---------------------------------------------------------------------- tables of Arrow


class _Arrow(TableFile):
    """A file that gives record batches of any size."""

    @abstractmethod
    def _record_batches(self) -> Iterator[pa.RecordBatch]: ...

    def batches(self, n_rows: int) -> Iterator[Rows]:
        waiting: list[pa.RecordBatch] = []
        n = 0
        for batch in self._record_batches():
            waiting.append(batch)
            n += batch.num_rows
            while n >= n_rows:
                table = _joined(waiting)
                yield self._labelled(table[:n_rows])
                waiting, n = table[n_rows:].to_batches(), n - n_rows
        if n:
            yield self._labelled(_joined(waiting))

    def read(self) -> Rows:
        """All rows, columns of 0 and 1 a bit a cell."""
        groups: list[pa.Table] = []
        group: list[pa.RecordBatch] = []
        size = 0
        for batch in self._record_batches():
            group.append(_compact(batch))
            size += batch.nbytes
            if size > _GROUP:
                groups.append(_joined(group).combine_chunks())
                group, size = [], 0
        if group:
            groups.append(_joined(group).combine_chunks())
        table = _joined(groups)
        if not all(kind == pa.bool_() for kind in table.schema.types):
            table = _with_types(table, [pa.uint8() if kind == pa.uint8() else None for kind in batch.schema.types])
        return self._labelled(table)

    def _labelled(self, table: pa.Table) -> pa.Table:
        if self.names is None:
            return table.replace_schema_metadata(UNNAMED)
        return table.rename_columns(list(self.names)).replace_schema_metadata(None)


def _compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [
        column.cast(pa.bool_()) if column.type == pa.uint8() and not (pc.max(column).as_py() or 0) > 1 else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _joined(parts: Sequence[pa.RecordBatch | pa.Table]) -> pa.Table:
    tables = [part if isinstance(part, pa.Table) else pa.Table.from_batches([part]) for part in parts]
    kinds = [set(types) for types in zip(*(table.schema.types for table in tables))]
    if any(len(kind) > 1 and pa.bool_() in kind for kind in kinds):  # Arrow makes no numbers of these by itself
        numbers = [pa.uint8() if len(kind) > 1 and pa.bool_() in kind else None for kind in kinds]
        tables = [_with_types(table, numbers) for table in tables]
    if any(len(kind) > 1 and pa.string() in kind for kind in kinds):  # nor strings of numbers
        strings = [pa.string() if pa.string() in kind else None for kind in kinds]
        tables = [_with_types(table, strings, booleans_only=False) for table in tables]
    return pa.concat_tables(tables, promote_options="permissive")


def _with_types(table: pa.Table, types: Sequence[pa.DataType | None], *, booleans_only: bool = True) -> pa.Table:
    """The table with other types for columns of booleans, or for all that have one here."""
    columns = [
        column.cast(wanted) if wanted is not None and (column.type == pa.bool_() or not booleans_only) else column
        for column, wanted in zip(table.columns, types)
    ]
    return pa.Table.from_arrays(columns, names=table.schema.names)


class _CSV(_Arrow):
    def __init__(
        self,
        name: str,
        stream: Any,
        wanted: _Wanted,
        header: bool | None,
        delimiter: str | None,
        path: Path | None = None,
    ) -> None:
        self._source = source = CSVSource(name, stream, header=header, delimiter=delimiter)
        super().__init__(name, source.names, source.n_columns)
        self.notes = source.notes
        self._positions = wanted.positions(self, source.names, source.n_columns, range(source.index))
        self.n_columns = len(self._positions)
        if source.names is not None:
            self.names = tuple(source.names[j] for j in self._positions)
        self._wanted = wanted
        self._path = path

    def _sorts(self) -> list[str | None]:
        return [self._wanted.sort(self.label(k)) for k in range(self.n_columns)]

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        return self._source.batches(self._positions, self._sorts())

    def read(self) -> Rows:
        """All rows; of a table that is 0 and 1 throughout a bit a cell."""
        found = self._source.read(self._positions, self._sorts())
        columns = [own.values for own in found]
        if not all(kind.type == pa.bool_() for kind in columns):
            columns = [own.values.cast(pa.uint8()) if own.digits else own.values for own in found]
        fields = [
            pa.field(str(k), own.type, metadata=AS_DIGITS if found[k].as_digits and own.type == pa.float64() else None)
            for k, own in enumerate(columns)
        ]
        return self._labelled(pa.Table.from_arrays(columns, schema=pa.schema(fields)))

    def expected_rows(self) -> int | None:
        if self._path is None or not self._path.is_file() or self._path.suffix == ".gz":
            return None
        with open(self._path, "rb") as file:
            lines = sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))
        return max(1, lines - (self.names is not None))

    def row(self, i: int) -> str:
        return self._source.row(i)

    def close(self) -> None:
        self._source.close()


class _Parquet(_Arrow):
    def __init__(self, name: str, wanted: _Wanted) -> None:
        from pyarrow import parquet

        try:
            self._file = parquet.ParquetFile(name)
            schema = self._file.schema_arrow
            names = tuple(schema.names)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise self._damaged(name, error) from error
        super().__init__(name, names, len(names))
        counts = Counter(names)
        if len(counts) < len(names):
            twice = next(own for own in names if counts[own] > 1)
            raise TableFileError(f"{name}: two columns are called {twice!r}")
        numbering = _numbering(schema)
        index = [j for j, own in enumerate(names) if own in numbering and own.startswith("__index_level_")]
        self._columns = [names[j] for j in wanted.positions(self, names, len(names), index)]
        self.names = tuple(self._columns)
        self.n_columns = len(self._columns)
        if self._file.metadata.num_rows == 0:
            raise TableFileError(f"{name}: holds no values (0 rows, {len(names)} columns)")

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        rows = max(1, 4_000_000 // self.n_columns)
        missing = self._file.metadata.num_rows
        try:
            for batch in self._file.iter_batches(batch_size=rows, columns=self._columns, use_threads=False):
                missing -= batch.num_rows
                yield batch
        except (pa.ArrowException, OSError) as error:  # a damaged page is an OSError
            raise self._damaged(self.name, error) from error
        if missing:
            raise TableFileError(f"{self.name}: damaged: it does not hold as many rows as it says")

    @staticmethod
    def _damaged(name: str, error: Exception) -> TableFileError:
        return TableFileError(f"{name}: cannot be read as Parquet ({str(error)[:100]})")

    def expected_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def close(self) -> None:
        self._file.close()


def _numbering(schema: pa.Schema) -> set[str]:
    """The columns in which pandas has numbered the rows; none if its remarks are not what it writes."""
    try:
        return {own for own in schema.pandas_metadata["index_columns"] if isinstance(own, str)}
    except (ValueError, TypeError, KeyError):
        return set()


# ---------------------------------------------------------------------- arrays and sparse matrices


class _Array(TableFile):
    def __init__(self, name: str, values: Any, wanted: _Wanted) -> None:
        if len(values.shape) != 2:
            raise TableFileError(f"{name}: holds an array of shape {values.shape}; a table has rows and columns")
        if 0 in values.shape:
            raise TableFileError(f"{name}: holds no values ({values.shape[0]} rows, {values.shape[1]} columns)")
        _check_size(name, values.shape)
        super().__init__(name, None, values.shape[1])
        wanted.positions(self, None, self.n_columns, ())
        self._values = values

    def batches(self, n_rows: int) -> Iterator[Rows]:
        for start in range(0, self._values.shape[0], n_rows):
            yield self._values[start : start + n_rows]

    def read(self) -> Rows:
        return self._values

    def expected_rows(self) -> int:
        return int(self._values.shape[0])


def _dataset(name: str, part: str) -> Any:
    from lbarn.datasets import load

    known, _, named_part = name.removeprefix("dataset:").partition("/")
    part = named_part or part
    if part not in ("train", "valid", "test"):
        raise TableFileError(f"{name}: the parts of a data set are train, valid and test, not {part!r}")
    values = getattr(load(known), part)
    return values if sp.issparse(values) else np.asarray(values)


def _numpy(name: str, ending: str) -> Any:
    try:
        array = np.load(name, mmap_mode="r", allow_pickle=False) if ending == ".npy" else _from_zip(name)
    except (OSError, TableFileError):
        raise
    except Exception as error:  # a zip file fails in many ways
        raise TableFileError(f"{name}: damaged, or not a file of NumPy arrays") from error
    if not sp.issparse(array) and array.dtype.kind not in "biuf":
        raise TableFileError(f"{name}: holds values of type {array.dtype}, not numbers")
    return array.reshape(-1, 1) if array.ndim == 1 else array


def _from_zip(name: str) -> Any:
    with zipfile.ZipFile(name) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
        shapes = {member.removesuffix(".npy"): _shape(archive, member) for member in archive.namelist()}
    with np.load(name, allow_pickle=False) as content:
        if {"format", "shape", "data"} <= shapes.keys():
            claimed = tuple(content["shape"].tolist())
            _check_size(name, claimed)
            for own, shape in shapes.items():
                _check_size(name, shape, f"the array {own!r} of its sparse matrix")
            if math.prod(claimed) // 8 > max(_ROOM, _SPARSEST * n_bytes):
                raise TableFileError(
                    f"{name}: {n_bytes:,} bytes cannot be a table of {claimed[0]:,} rows and {claimed[1]:,} columns"
                )
            matrix = sp.load_npz(name)
            if matrix.format in ("csr", "csc", "bsr"):
                matrix.check_format(full_check=True)  # loading does not: it would end outside of the arrays
            return matrix.tocsr()
        if len(shapes) != 1 and "X" not in shapes:
            raise TableFileError(f"{name}: holds {', '.join(shapes) or 'nothing'}; call the table X")
        member = "X" if "X" in shapes else next(iter(shapes))
        _check_size(name, shapes[member])
        return content[member]


def _shape(archive: zipfile.ZipFile, member: str) -> tuple[int, ...]:
    """Of an array that has not been unpacked: a small file may claim to hold a large one."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        return tuple(read(file)[0])


def _check_size(name: str, shape: tuple[int, ...], what: str = "the table") -> None:
    is_table = len(shape) == 2
    limit = (MAX_ROWS, MAX_COLUMNS) if is_table else (MAX_ROWS * 64,)
    if any(size > most for size, most in zip(shape, limit)):
        raise TableFileError(
            f"{name}: {what} has the shape {shape}; lbarn takes at most {MAX_ROWS:,} rows and {MAX_COLUMNS:,} columns"
        )


def _libsvm(name: str, n_columns: int | None) -> Any:
    from sklearn.datasets import load_svmlight_file

    try:
        return load_svmlight_file(name, n_features=n_columns)[0]
    except (ValueError, OverflowError) as error:
        raise TableFileError(f"{name}: cannot be read as libsvm ({str(error)[:100]})") from error
