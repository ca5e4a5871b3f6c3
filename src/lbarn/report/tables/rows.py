"""Rows as a model of a table reads them, and their values as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lbarn._engine.codetree import UNKNOWN, Cells
from lbarn._models.density import Density
from lbarn._network.conditioning import Effort
from lbarn._network.network import Given
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import BinaryCode, CategoricalCode, ColumnCode, ContinuousCode, GridCode
from lbarn._tables.column import Column
from lbarn._tables.table import read_like, take_rows
from lbarn.plots.numbers import number

__all__ = ["Field", "Rows", "completed_cells", "read_rows", "told", "told_number"]

Floats = NDArray[np.float64]

_FEW = 12  # values of a number that are shown one by one
_GROUPED = 10_000  # from here on, thousands are set apart: years are not
_EFFORT = Effort(200)  # to draw what is unknown


@dataclass(frozen=True, eq=False)
class Field:
    """A modelled column: what it is called, and its code."""

    number: int  # among those given
    name: str
    label: Any  # as the model knows it
    code: ColumnCode

    @property
    def numeric(self) -> GridCode | ContinuousCode | None:
        """The code, if values have a place on a line."""
        return self.code if isinstance(self.code, (GridCode, ContinuousCode)) else None

    @cached_property
    def levels(self) -> list[str] | None:
        """The values, if they are shown one by one: categories, 0 and 1, or a few numbers."""
        code = self.code
        if isinstance(code, CategoricalCode):
            return list(code.levels)
        if isinstance(code, BinaryCode):
            return ["False", "True"] if code.plain.sort == "boolean" else ["0", "1"]
        if isinstance(code, GridCode):
            if code.plain.sort == "string":
                return list(code.plain.categories or ())
            if code.plain.sort == "number" and len(self._ticks) <= _FEW:
                return [told_number(value, code) for value in code.grid.values(self._ticks).tolist()]
        return None

    @property
    def is_ordered(self) -> bool:
        """Whether levels have an order of their own."""
        return not isinstance(self.code, CategoricalCode)

    @cached_property
    def _ticks(self) -> NDArray[np.int64]:
        assert isinstance(self.code, GridCode)
        starts = self.code.law.starts
        return np.arange(starts[0], min(starts[-1], starts[0] + _FEW + 1))

    def level_numbers(self, column: Column) -> NDArray[np.int64]:
        """Which of ``levels`` every value is: -1 for one that is none of them, -2 for an empty cell."""
        code = self.code
        if isinstance(code, CategoricalCode):
            found = code.level_codes(column)
        elif isinstance(code, BinaryCode):
            found = code.conform(column).values.astype(np.int64)
        else:
            assert isinstance(code, GridCode)
            values = code.conform(column).values
            found = values if code.plain.sort == "string" else code.grid.ticks(values) - self._ticks[0]
            found = np.where((found < 0) | (found >= len(self.levels or ())), -1, found)
        return np.where(column.missing, -2, found)

    def numbers(self, column: Column) -> Floats:
        """The values as numbers, NaN where empty."""
        assert self.numeric is not None
        return self.numeric.number(column)

    def told_range(self) -> str:
        """The range of the training rows."""
        assert self.numeric is not None
        low, high = self.numeric.ends
        inner = np.flatnonzero(self.code.tree.present)
        ends = self.numeric.column(np.array([low[inner[0]], high[inner[-1]]]))
        return " to ".join(str(text) for text in self.texts(ends))

    def texts(self, column: Column) -> list[str | None]:
        """The values as people read them, None where there is none."""
        if self.numeric is not None and self.code.plain.sort == "number":
            values = self.numbers(column).tolist()
            return [None if np.isnan(value) else told_number(value, self.code) for value in values]
        if isinstance(self.code, BinaryCode):
            numbers = self.level_numbers(column).tolist()
            return [None if k < 0 else (self.levels or [])[k] for k in numbers]
        if isinstance(self.code, CategoricalCode) or self.code.plain.sort == "string":
            return column.texts().to_pylist()
        plain = self.code.as_plain(column).arrow().to_pylist()
        return [None if value is None else told(value, self.code) for value in plain]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows: the columns as they came, and the cells that their values are in."""

    numbers: NDArray[np.intp]
    columns: list[Column]
    cells: Cells
    inside: Floats  # log-likelihood of every value in its cell

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def unknown(self) -> NDArray[np.bool_]:
        """Where a cell is empty and that is no value of its own."""
        return self.cells == UNKNOWN

    def take(self, rows: NDArray[np.intp]) -> Rows:
        return Rows(
            self.numbers[rows], [column.take(rows) for column in self.columns], self.cells[rows], self.inside[rows]
        )


def read_rows(model: Density, X: Any, numbers: NDArray[np.intp] | None = None) -> Rows:
    """The rows of ``X`` with these numbers, or all of them."""
    chosen = X if numbers is None else take_rows(X, numbers)
    book = model.codebook_
    table = read_like(
        chosen, model.table_format_, model.n_features_in_, binarize=model.binarize, optional=book.left_out
    )
    columns = list(CodedTable(table, book).columns())
    cells, inside = book.encode(columns)
    return Rows(np.arange(table.n_rows) if numbers is None else numbers, columns, cells, inside)


def completed_cells(model: Density, rows: Rows, seed: int) -> Cells:
    """The cells, with what is unknown drawn given the rest of its row."""
    incomplete = np.flatnonzero(rows.unknown.any(axis=1))
    if not len(incomplete):
        return rows.cells
    cells = rows.cells.copy()
    given = Given(cells[incomplete], rows.unknown[incomplete])
    ((_, answer),) = model.distribution.condition(
        [(0, given)], check_random_state(seed), effort=_EFFORT, n_jobs=model.n_jobs
    )
    cells[incomplete] = answer.draws[0]
    return cells


def told_number(value: float, code: ColumnCode) -> str:
    """A number as exactly as its column has it."""
    if isinstance(code, GridCode):
        decimals = code.grid.decimals
        text = number(value, decimals)
        whole, _, rest = text.partition(".")
        if decimals > 1:  # 19.00 is 19, and 7.2500 is 7.25, but 12.50 stays
            text = f"{whole}.{rest.rstrip('0') if decimals > 2 else rest}" if rest.strip("0") else whole
    else:
        digits = 3 if value == 0 else max(0, 3 - int(np.floor(np.log10(abs(value)))))
        text = number(value, min(digits, 9))
        if "." in text:
            text = text.rstrip("0").rstrip(".")
    return text if abs(value) >= _GROUPED else text.replace(",", "")


def told(value: Any, code: ColumnCode) -> str:
    """A value of any kind as people read it."""
    if isinstance(value, datetime):
        midnight = value.time() == time(0)
        return (
            value.date().isoformat() if midnight else value.isoformat(" ", "minutes" if not value.second else "seconds")
        )
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, (int, float, np.integer, np.floating)):
        return told_number(float(value), code)
    return str(value).removesuffix(" 00:00:00")
