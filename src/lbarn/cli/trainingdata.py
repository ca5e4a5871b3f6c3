"""The tables that ``lbarn fit`` is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._tables.codebook import Codebook
from lbarn._tables.coded import CodedChunk, CodedTable
from lbarn._tables.files import Rows, TableFile, open_table
from lbarn._tables.table import read_table, some
from lbarn._training.data import GivenRows, hold_out
from lbarn.cli.data import about, tell_notes
from lbarn.errors import TableFileError
from lbarn.parameters import LearnerParameters

__all__ = ["TrainingTables"]

Floats = NDArray[np.float64]
Label = str | int

_SORTS = {"categorical": "string", "binary": "number", "continuous": "number", "datetime": "time", "drop": "string"}
_FEW_ROWS = 20  # up to which 1, 2, 3, ... may be anything


@dataclass(frozen=True)
class TrainingTables:
    """Rows to learn from and, if there are any, rows to validate on and weights.

    ``kinds`` is what the user says of columns, and "drop" for those that merely count the rows (``counting``).
    """

    table: TableFile
    rows: Rows
    table_val: TableFile | None
    rows_val: Rows | None
    weights: Floats | None
    kinds: Mapping[Label, str]
    counting: Sequence[Label]

    @classmethod
    def read(
        cls,
        data: str,
        valid: str | None,
        weights: str | None,
        *,
        header: bool | None,
        drop: Sequence[str],
        kinds: Mapping[str, str],
    ) -> TrainingTables:
        sorts: dict[Label, str] = {name: _SORTS[kind] for name, kind in kinds.items() if kind in _SORTS}
        sorts |= {int(name): sort for name, sort in sorts.items() if str(name).isdecimal()}
        with open_table(data, header=header, part="train", drop=drop, sorts=sorts) as table:
            asked = _by_label(table, kinds)
            tell_notes(table)
            rows = table.read()
            tell_notes(table)
        counting = [label for label in _counting(rows) if label not in asked]
        found = {**asked, **dict.fromkeys(counting, "drop")}
        own_weights = None if weights is None else _weights(weights, rows.shape[0])
        if valid is None and data.startswith("dataset:") and "/" not in data:
            valid = f"{data}/valid"
        if valid is None:
            return cls(table, rows, None, None, own_weights, found, counting)
        with open_table(
            valid,
            header=header,
            n_columns=table.n_columns,
            part="valid",
            columns=table.names,
            sorts=_sorts_of(rows) if isinstance(rows, pa.Table) else {},
        ) as table_val:
            _check_columns(table_val, table)
            tell_notes(table_val)
            rows_val = table_val.read()
            tell_notes(table_val)
        return cls(table, rows, table_val, rows_val, own_weights, found, counting)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """What is wrong with the rows is said of the file that they are from."""
        with about(self.table):
            try:
                yield
            except ValueError as error:
                text = str(error).replace("X_val", "--valid").replace("validation_fraction=", "--validation-fraction ")
                raise type(error)(text) if type(error) is ValueError else error from error

    def given(self, parameters: LearnerParameters) -> GivenRows:
        """The rows as a fit sees them, each column with its code."""
        return GivenRows.read(parameters, self.rows, self.rows_val, self.weights)

    def held_out(
        self, book: Codebook, parameters: LearnerParameters, seed: int
    ) -> tuple[Iterator[CodedChunk], Floats | None]:
        """The rows that a fit with this seed validates on, coded, and their weights."""
        table = read_table(self.rows, binarize=parameters.binarize)
        if self.rows_val is not None:
            own = read_table(self.rows_val, binarize=parameters.binarize).like(table.format, table.n_columns)
            return CodedTable(own, book).chunks(), None
        _, held = hold_out(table.n_rows, parameters.validation_fraction, [seed, 0], self.weights)
        chosen = np.sort(held)
        return CodedTable(table.take(chosen), book).chunks(), None if self.weights is None else self.weights[chosen]


def _by_label(table: TableFile, kinds: Mapping[str, str]) -> dict[Label, str]:
    """Kinds by the labels of a table; a column that is not there is an error."""
    labels = [table.label(j) for j in range(table.n_columns)]
    known = {str(label): label for label in labels}
    for name in kinds:
        if name not in known:
            raise TableFileError(f"{table.name}: has no column {name!r}; its columns are {some(labels)}")
    return {known[name]: kind for name, kind in kinds.items()}


def _counting(rows: Rows) -> Iterator[Label]:
    """The named columns that count the rows from 0 or 1 on."""
    if not isinstance(rows, pa.Table) or rows.num_rows <= _FEW_ROWS or rows.schema.metadata:
        return
    for name, column in zip(rows.schema.names, rows.columns):
        if not pa.types.is_integer(column.type) or column.null_count:
            continue
        first = column[0].as_py()
        if first in (0, 1) and (np.asarray(column) == np.arange(rows.num_rows) + first).all():
            yield name


def _sorts_of(rows: pa.Table) -> dict[Label, str]:
    """What the columns of a table are, for another file of the same columns; by name and by number."""
    sorts: dict[Label, str] = {}
    for j, field in enumerate(rows.schema):
        is_text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        sorts[j] = sorts[field.name] = "string" if is_text else "number"
    return sorts


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


def _weights(name: str, n_rows: int) -> Floats:
    """One weight for every row, from a table of one column."""
    with open_table(name, sorts={0: "number"}) as table:
        rows = table.read()
    if rows.shape != (n_rows, 1):
        raise TableFileError(
            f"{name}: holds {rows.shape[0]} x {rows.shape[1]} values; one is needed for each of {n_rows} rows"
        )
    column = rows.column(0).to_numpy() if isinstance(rows, pa.Table) else rows[:, 0]
    try:
        return np.asarray(column, np.float64)
    except (ValueError, TypeError):
        raise TableFileError(f"{name}: holds something else than numbers") from None
