"""The tables that ``lbarn fit`` is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._tables.files import Rows, TableFile, open_table
from lbarn._tables.table import read_table
from lbarn.cli.data import about, tell_notes
from lbarn.errors import NotBinaryError, TableFileError

__all__ = ["TrainingTables"]


@dataclass(frozen=True)
class TrainingTables:
    """Rows to learn from and, if there are any, rows to validate on and weights."""

    table: TableFile
    rows: Rows
    table_val: TableFile | None
    rows_val: Rows | None
    weights: NDArray[np.float64] | None

    @classmethod
    def read(
        cls, data: str, valid: str | None, weights: str | None, *, header: bool | None, drop: Sequence[str]
    ) -> TrainingTables:
        with open_table(data, header=header, part="train", drop=drop) as table:
            tell_notes(table)
            rows = table.read()
        own_weights = None if weights is None else _weights(weights, rows.shape[0])
        if valid is None and data.startswith("dataset:") and "/" not in data:
            valid = f"{data}/valid"
        if valid is None:
            return cls(table, rows, None, None, own_weights)
        with open_table(
            valid, header=header, n_columns=table.n_columns, part="valid", columns=table.names
        ) as table_val:
            tell_notes(table_val)
            _check_columns(table_val, table)
            return cls(table, rows, table_val, table_val.read(), own_weights)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What is wrong with the rows is said of the file that they are from."""
        with about(self.table):
            try:
                yield
            except NotBinaryError as error:
                if self.table_val is None or _holds(self.rows, error):
                    raise
                with about(self.table_val):
                    raise


def _check_columns(table_val: TableFile, table: TableFile) -> None:
    if table.names is None or table_val.names is None:
        if table_val.n_columns != table.n_columns:
            raise TableFileError(
                f"{table_val.name}: has {table_val.n_columns} columns, and {table.name} has {table.n_columns}"
            )
        return
    known = set(table_val.names)
    absent = [name for name in table.names if name not in known]
    if absent:
        raise TableFileError(f"{table_val.name}: has no column {absent[0]!r}, which {table.name} has")


def _holds(rows: Rows, error: NotBinaryError) -> bool:
    """Whether the error is about these rows."""
    try:
        for _ in read_table(rows).chunks():
            pass
    except NotBinaryError as own:
        return str(own) == str(error)
    return False


def _weights(name: str, n_rows: int) -> NDArray[np.float64]:
    """One weight for every row, from a table of one column."""
    with open_table(name) as table:
        rows = table.read()
    if rows.shape != (n_rows, 1):
        raise TableFileError(
            f"{name}: holds {rows.shape[0]} x {rows.shape[1]} values; one is needed for each of {n_rows} rows"
        )
    column = rows.column(0).to_numpy() if isinstance(rows, pa.Table) else rows[:, 0]
    return np.asarray(column, np.float64)
