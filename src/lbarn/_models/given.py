"""What is known of rows: tables with gaps, or a dict of values, ranges and sets."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._engine.codetree import UNKNOWN, Cells
from lbarn._network.network import Given
from lbarn._tables.codebook import Codebook
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import CategoricalCode, ColumnCode, ContinuousCode, GridCode
from lbarn._tables.column import Column, plain_array
from lbarn._tables.table import TableFormat, read_table

__all__ = ["Evidence", "merged"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Range:
    low: float
    high: float


Condition = _Range | Column  # the values of a set, each once


@dataclass(frozen=True, eq=False)
class Evidence:
    """Values of rows that are known, by modelled column, and conditions on columns that hold for all rows."""

    book: Codebook
    n_rows: int
    values: dict[int, Column]  # in plain form; what is missing there is not known
    cells: NDArray[np.uint16]
    inside: Floats  # log-likelihood of known values inside their cells, by row
    conditions: dict[int, Condition] = field(default_factory=dict)

    @classmethod
    def of_table(cls, table: CodedTable) -> Evidence:
        """A table with gaps: an empty cell is not known, also if it could be a value."""
        return cls._of(table.book, table.n_rows, dict(enumerate(table.columns())))

    @classmethod
    def _of(cls, book: Codebook, n_rows: int, columns: dict[int, Column]) -> Evidence:
        cells = np.full((n_rows, book.n_columns), UNKNOWN, np.uint16)
        inside = np.zeros(n_rows)
        values = {}
        for j, column in columns.items():
            code = book.codes[j]
            if column.missing.all():  # a column that is not there is of no type
                column = code.plain.blank(n_rows)
            found, log_p = code.encode(column)
            cells[:, j] = np.where(column.missing, UNKNOWN, found)
            inside += np.where(column.missing, 0.0, log_p)
            values[j] = code.as_plain(column)
        return cls(book, n_rows, values, cells, inside)

    @classmethod
    def read(cls, given: Any, table_format: TableFormat, book: Codebook, binarize: float | None) -> Evidence:
        """A table with gaps, a table of some of the columns, or a dict from columns to a value, a list of values, a slice
        (a range, both ends included) or a set."""
        n_columns = book.n_columns + len(book.left_out)
        if not isinstance(given, Mapping):
            table = read_table(given, binarize=binarize).like(table_format, n_columns, partial=True)
            own = cls.of_table(CodedTable(table, book))
            own.check_levels()
            return own
        numbers = table_format.numbered(given, n_columns, "given")
        place = {int(j): k for k, j in enumerate(book.taken)}
        for label, j in zip(given, numbers):
            if j not in place:
                raise ValueError(f"given: column {label!r} was left out of the model ({book.left_out[j]})")
        conditions: dict[int, Condition] = {}
        lists: dict[int, Any] = {}
        for (label, value), j in zip(given.items(), numbers):
            k = place[j]
            if isinstance(value, (slice, AbstractSet)):
                conditions[k] = _condition(book.codes[k], value, label)
            else:
                lists[k] = value
        lengths = {len(value) for value in lists.values() if _is_list(value)}
        if len(lengths) > 1:
            raise ValueError(f"the values in given are of different lengths: {', '.join(map(str, sorted(lengths)))}")
        n_rows = lengths.pop() if lengths else 1
        columns = {}
        for k, value in lists.items():
            column = _column(value, n_rows, book.codes[k].label)
            if binarize is not None and column.sort in ("number", "boolean"):
                column = replace(column, sort="number", values=(column.values > binarize).astype(np.int64))
            columns[k] = column
        own = replace(cls._of(book, n_rows, columns), conditions=conditions)
        own.check_levels()
        return own

    def check_levels(self) -> None:
        """Refuse a level that the model does not know, or a number outside of its range: nothing could be learned about them."""
        for j, column in self.values.items():
            code = self.book.codes[j]
            if isinstance(code, (GridCode, ContinuousCode)):
                outside = ~code.tree.drawn[np.where(column.missing, 0, self.cells[:, j])] & ~column.missing
                if outside.any():
                    value = column.texts()[int(np.flatnonzero(outside)[0])].as_py()
                    raise ValueError(f"given: {code.label} is {code.told_range()}; {value} has probability 0")
            if isinstance(code, CategoricalCode):
                wrong = (code.level_codes(column) < 0) & ~column.missing
                if wrong.any():
                    value = column.values[int(np.flatnonzero(wrong)[0])].as_py()
                    raise ValueError(f"given: {code.label} has no level {value!r}; its levels are {_some(code.levels)}")

    def given(self, *, present: bool) -> Given:
        """For a distribution. Unknown values are ``present``, or may be missing values too."""
        likelihood = {}
        for j, condition in self.conditions.items():
            share = self.shares(j)
            likelihood[j] = np.where(self.book.codes[j].tree.present, share, 0.0)
            if not likelihood[j].any():
                raise ValueError(f"given: no value of {self.book.codes[j].label} is in {_told(condition)}")
        unknown = self.cells == UNKNOWN
        return Given(self.cells, unknown, likelihood, present)

    def shares(self, j: int) -> Floats:
        """The share of every cell's mass that meets the condition on a column."""
        code, condition = self.book.codes[j], self.conditions[j]
        if isinstance(condition, _Range):
            assert isinstance(code, (GridCode, ContinuousCode))
            return code.share_between(condition.low, condition.high)
        return code.share_of(condition)

    def decoded(self, j: int, cells: NDArray[Any], rng: np.random.Generator) -> Column:
        """Values of a column in these cells that meet the condition on it."""
        code = self.book.codes[j]
        condition = self.conditions.get(j)
        if condition is None:
            return code.decode(cells, rng)
        if isinstance(condition, _Range):
            assert isinstance(code, (GridCode, ContinuousCode))
            values = code.inside_between(cells.astype(np.intp), condition.low, condition.high, rng)
        else:
            values = code.inside_set(cells.astype(np.intp), condition, rng)
        return code.plain.with_values(values, np.zeros(len(cells), np.bool_))

    def completed(self, draws: Cells, rng: np.random.Generator, repeat: int = 1) -> list[Column]:
        """Rows of cells as values, with what was known as it came; every row of evidence stands for ``repeat`` of them."""
        columns = []
        rows = np.repeat(np.arange(self.n_rows), repeat)
        for j in range(self.book.n_columns):
            drawn = self.decoded(j, draws[:, j], rng)
            known = self.values.get(j)
            columns.append(drawn if known is None else merged(known.take(rows), drawn))
        return columns


def merged(known: Column, drawn: Column) -> Column:
    """What is known, and where that is missing what was drawn; both in plain form."""
    if not known.missing.any():
        return known
    if isinstance(known.values, np.ndarray):
        values: Any = np.where(known.missing, drawn.values, known.values)
    else:
        values = pc.if_else(pa.array(known.missing), drawn.values, known.values)
    return replace(known, values=values, missing=known.missing & drawn.missing)


def _is_list(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return True
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _column(value: Any, n_rows: int, label: str) -> Column:
    if _is_list(value):
        return _listed(value, label)
    return _listed([value] * n_rows, label)


def _listed(values: Any, label: str) -> Column:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        values = values.to_pylist()
    elif hasattr(values, "to_list"):
        values = values.to_list()
    array = np.empty(len(values), object)
    array[:] = list(values)
    return plain_array(array, label)


def _condition(code: ColumnCode, value: slice | AbstractSet[Any], label: Any) -> Condition:
    if isinstance(value, AbstractSet):
        if not value:
            raise ValueError(f"given: the set for column {label!r} is empty")
        values = _listed(list(value), code.label)
        places = {text: k for k, text in enumerate(values.texts().to_pylist())}
        if None in places:
            raise ValueError(
                f"given: the set for column {label!r} holds an empty value; leave the column out for any value"
            )
        for text, k in sorted(places.items()):
            if not code.share_of(values.take(np.array([k])))[code.tree.present].any():
                known = f"it is {code.told_range()}"
                if isinstance(code, CategoricalCode):
                    known = f"its levels are {_some(code.levels)}"
                raise ValueError(f"given: {code.label} does not have the value {text!r}; {known}")
        return values.take(np.array([places[text] for text in sorted(places)]))
    if not isinstance(code, (GridCode, ContinuousCode)):
        raise ValueError(
            f"given: column {label!r} is {code.kind}; a range goes with numbers and dates only: give a set of levels"
        )
    if value.step is not None:
        raise ValueError(
            f"given: column {label!r} has a range with a step; slice(low, high) takes both ends and no step"
        )
    ends = [
        infinite if end is None else float(code.number(_listed([end], code.label))[0])
        for end, infinite in ((value.start, -np.inf), (value.stop, np.inf))
    ]
    if not ends[0] <= ends[1]:
        raise ValueError(f"given: the range of column {label!r} is empty: {value.start!r} to {value.stop!r}")
    return _Range(*ends)


def _told(condition: Condition) -> str:
    if isinstance(condition, _Range):
        return f"{condition.low:g} to {condition.high:g}"
    return _some(condition.texts().to_pylist())


def _some(names: Any, most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
