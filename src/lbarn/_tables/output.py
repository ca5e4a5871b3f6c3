"""Tables written to files row by row, in the format that the ending of the name tells, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import re
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._tables.column import AS_DIGITS
from lbarn._tables.files import ending_of
from lbarn._tables.writing import writing_atomically
from lbarn.errors import TableFileError

__all__ = ["TableOutput", "csv_to", "writing_table"]


class TableOutput(ABC):
    """Takes rows, some at a time: a NumPy array or any frame."""

    def __init__(self, file: BinaryIO, names: Sequence[str] | None) -> None:
        self._file = file
        self._names = names

    @abstractmethod
    def write(self, rows: Any) -> None:
        """Append rows, of the same columns each time."""

    def close(self) -> None:  # noqa: B027 (there may be nothing left to do)
        """No more rows come."""


@contextmanager
def writing_table(name: str, names: Sequence[str] | None) -> Iterator[TableOutput]:
    """Where a table goes that appears at ``name`` when the block is left without an error.

    Examples
    --------
    >>> import pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp(), "votes.csv")
    >>> with writing_table(str(path), ("tax", "school")) as output:
    ...     output.write(np.array([[0, 1]], np.uint8))
    >>> path.read_text()
    'tax,school\\n0,1\\n'
    """
    ending = ending_of(name, written=True)
    with writing_atomically(name) as file, _compressed(file, ending) as stream:
        output = _OUTPUTS.get(ending, _CSVOutput)(stream, names)
        if isinstance(output, _CSVOutput) and ".tsv" in ending:
            output.delimiter = "\t"
        yield output
        output.close()


@contextmanager
def csv_to(
    file: BinaryIO, names: Sequence[str] | None, shown: Callable[[str], str] | None = None
) -> Iterator[TableOutput]:
    """The same for a stream that takes CSV; ``shown`` makes strings fit to be shown."""
    output = _CSVOutput(file, names)
    output.shown = shown
    yield output
    output.close()


@contextmanager
def _compressed(file: BinaryIO, ending: str) -> Iterator[Any]:
    if ending.endswith(".gz"):
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
            yield compressed
    else:
        yield file


def _arrow(rows: Any, names: Sequence[str] | None) -> pa.Table:
    if isinstance(rows, np.ndarray):
        columns = [pa.array(column) for column in np.ascontiguousarray(rows.T)]
        return pa.Table.from_arrays(columns, names=list(names or map(str, range(len(columns)))))
    table = rows if isinstance(rows, pa.Table) else nw.from_native(rows, eager_only=True).to_arrow()
    return table if names is None else table.rename_columns(list(names))


def _array(rows: Any) -> NDArray[Any]:
    """Rows of numbers; anything else is an error."""
    if isinstance(rows, np.ndarray):
        array = rows
    else:
        frame = nw.from_native(rows, eager_only=True)
        array = np.column_stack([column.to_numpy() for column in frame.iter_columns()])
        for name, kind in frame.schema.items():
            if not (kind.is_numeric() or kind == nw.Boolean):
                raise TableFileError(f"column {name!r} is not of numbers: write the rows to .csv or .parquet")
    if array.dtype.kind not in "biuf":
        array = array.astype(np.float64)
    return array.astype(np.uint8) if array.dtype == bool else array


class _CSVOutput(TableOutput):
    delimiter = ","
    shown: Callable[[str], str] | None = None  # what becomes of strings before they are written
    _is_begun = False

    def write(self, rows: Any) -> None:
        self._begin()
        rest = memoryview(_csv(_arrow(rows, self._names), self.delimiter, self.shown))
        while rest:  # an unbuffered stream (python -u) may take a part only, and not say so
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """pyarrow would put every name in quotes."""
        if self._is_begun or self._names is None:
            return
        self._is_begun = True
        head = io.StringIO()
        names = self._names if self.shown is None else [self.shown(name) for name in self._names]
        csv.writer(head, delimiter=self.delimiter, lineterminator="\n").writerow(names)
        self._file.write(head.getvalue().encode())


def _csv(table: pa.Table, delimiter: str, shown: Callable[[str], str] | None) -> bytes:
    """Rows as lines: no quotes where none are needed, nothing for a missing cell, numbers as Python writes them."""
    from pyarrow import csv as pacsv

    types = table.schema.types
    if all(pa.types.is_boolean(kind) for kind in types):  # 0 and 1, a bit a cell
        table, types = table.cast(pa.schema([(name, pa.uint8()) for name in table.schema.names])), [pa.uint8()]
    if all(pa.types.is_integer(kind) for kind in types) and table.num_columns > 1:
        content = io.BytesIO()
        pacsv.write_csv(table, content, pacsv.WriteOptions(include_header=False, delimiter=delimiter))
        return content.getvalue()
    empty = '""' if table.num_columns == 1 else ""  # a blank line would be no row
    columns = [
        _cells(column.combine_chunks(), delimiter, shown, own.metadata == AS_DIGITS).fill_null(empty)
        for own, column in zip(table.schema, table.columns)
    ]
    lines = columns[0] if len(columns) == 1 else pc.binary_join_element_wise(*columns, delimiter)
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _cells(column: Any, delimiter: str, shown: Callable[[str], str] | None, as_digits: bool) -> pa.Array:
    """The values of a column as they stand in CSV, null where they are missing; ``as_digits`` writes 22 for 22.0."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    kind = column.type
    if pa.types.is_floating(kind):
        values = column.to_numpy(zero_copy_only=False)  # NumPy writes no more digits than the type has
        written = list(map(repr, values.tolist()) if kind == pa.float64() else map(str, values))
        if as_digits:
            written = [text.removesuffix(".0") for text in written]
        return pa.array(written, pa.string(), mask=np.isnan(values))
    if pa.types.is_boolean(kind):
        return pc.if_else(column, "True", "False")
    texts = column.cast(pa.string())
    if pa.types.is_integer(kind):
        return texts
    if shown is not None:
        texts = pa.array([None if text is None else shown(text) for text in texts.to_pylist()], pa.string())
    special = pc.match_substring_regex(texts, f'["\r\n{re.escape(delimiter)}]|^\\s|\\s$')
    if not pc.any(special).as_py():
        return texts
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(texts, '"', '""'), '"', "")
    return pc.if_else(special, quoted, texts)


class _ParquetOutput(TableOutput):
    _writer: Any = None

    def write(self, rows: Any) -> None:
        from pyarrow import parquet

        table = _arrow(rows, self._names)
        table = table.cast(pa.schema([own.remove_metadata() for own in table.schema]))  # what is ours, about CSV
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, table.schema)
        self._writer.write_table(table.cast(self._writer.schema))

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _NpyOutput(TableOutput):
    """NumPy leaves room in the header for the number of rows to grow."""

    _n_rows = 0
    _header: dict[str, Any] | None = None

    def write(self, rows: Any) -> None:
        array = _array(rows)
        if self._header is None:
            self._header = np.lib.format.header_data_from_array_1_0(array[:0]) | {"fortran_order": False}
            np.lib.format.write_array_header_1_0(self._file, self._header)
        self._file.write(np.ascontiguousarray(array.astype(self._header["descr"], copy=False)).tobytes())
        self._n_rows += len(array)

    def close(self) -> None:
        if self._header is not None:
            self._file.seek(0)
            shape = (self._n_rows, *self._header["shape"][1:])
            np.lib.format.write_array_header_1_0(self._file, self._header | {"shape": shape})
            self._file.seek(0, io.SEEK_END)


class _NpzOutput(TableOutput):
    def __init__(self, file: BinaryIO, names: Sequence[str] | None) -> None:
        super().__init__(file, names)
        self._unpacked = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        self._array = _NpyOutput(self._unpacked, names)

    def write(self, rows: Any) -> None:
        self._array.write(rows)

    def close(self) -> None:
        self._array.close()
        self._unpacked.seek(0)
        with (
            zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("X.npy", "w", force_zip64=True) as member,
        ):
            shutil.copyfileobj(self._unpacked, member, 1 << 20)
        self._unpacked.close()


class _LibsvmOutput(TableOutput):
    def write(self, rows: Any) -> None:
        from sklearn.datasets import dump_svmlight_file

        array = _array(rows)
        dump_svmlight_file(array.astype(np.float64), np.zeros(len(array), int), self._file, zero_based=False)


_OUTPUTS: dict[str, type[TableOutput]] = {
    ".parquet": _ParquetOutput,
    ".npy": _NpyOutput,
    ".npz": _NpzOutput,
    ".libsvm": _LibsvmOutput,
    ".svm": _LibsvmOutput,
}
