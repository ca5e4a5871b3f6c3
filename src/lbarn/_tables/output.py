"""Tables written to files row by row, in the format that the ending of the name tells, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import shutil
import tempfile
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._tables.files import ending_of
from lbarn._tables.writing import writing_atomically

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
def csv_to(file: BinaryIO, names: Sequence[str] | None) -> Iterator[TableOutput]:
    """The same for a stream that takes CSV."""
    output = _CSVOutput(file, names)
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
    if isinstance(rows, np.ndarray):
        return rows
    frame = nw.from_native(rows, eager_only=True)
    array = np.column_stack([column.to_numpy() for column in frame.iter_columns()])
    return array.astype(np.uint8) if array.dtype == bool else array


class _CSVOutput(TableOutput):
    delimiter = ","
    _is_begun = False

    def write(self, rows: Any) -> None:
        from pyarrow import csv as pacsv

        self._begin()
        table = _arrow(rows, self._names)
        for j, field in enumerate(table.schema):
            if pa.types.is_boolean(field.type):
                table = table.set_column(j, field.name, table.column(j).cast(pa.uint8()))
        options = pacsv.WriteOptions(include_header=False, delimiter=self.delimiter)
        content = io.BytesIO()
        pacsv.write_csv(table, content, options)
        rest = content.getbuffer()
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
        csv.writer(head, delimiter=self.delimiter, lineterminator="\n").writerow(self._names)
        self._file.write(head.getvalue().encode())


class _ParquetOutput(TableOutput):
    _writer: Any = None

    def write(self, rows: Any) -> None:
        from pyarrow import parquet

        table = _arrow(rows, self._names)
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
