"""The rows that a fit is given: read, weighed, packed, and divided into those to train on and those to validate on."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight

from lbarn._engine.rows import Group, TrainingData, TrainingRows
from lbarn._tables.codebook import Codebook
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import CategoricalCode
from lbarn._tables.column import Column
from lbarn._tables.kinds import Coding
from lbarn._tables.table import Table, TableFormat, read_table
from lbarn._training.groups import find_groups

__all__ = ["CodingParameters", "GivenRows", "checked_weights", "coded_rows", "hold_out"]

Weights = NDArray[np.float64] | None


class CodingParameters(Protocol):
    """What a model's parameters say about how tables are read; see :class:`lbarn.parameters.LearnerParameters`."""

    columns: dict[Any, str] | None
    max_cells: int
    missing: str
    binarize: float | None


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows, and rows to validate on if there are any; columns as they were given, each with its code."""

    train: TrainingRows
    valid: TrainingRows | None
    format: TableFormat
    book: Codebook
    groups: tuple[Group, ...] | None = None  # of binary columns, if they have been found already
    alone: bool = False  # each column of numbers, as if there were no other: no finer cells, no sums

    @classmethod
    def read(
        cls,
        parameters: CodingParameters,
        X: Any,
        X_val: Any = None,
        sample_weight: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        *,
        kinds: Mapping[Any, str] | None = None,
        alone: bool = False,
    ) -> GivenRows:
        """Codes are found on all rows. ``kinds`` of columns go before those that the parameters tell."""
        table = read_table(X, binarize=parameters.binarize)
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        if X_val is None:
            if sample_weight_val is not None:
                raise ValueError(
                    "sample_weight_val was given without X_val; weights of held-out rows are in sample_weight"
                )
            book = _codebook(parameters, kinds, alone, table, None, weight, None)
            return cls(coded_rows(CodedTable(table, book), weight), None, table.format, book, alone=alone)
        table_val = read_table(X_val, binarize=parameters.binarize).like(table.format, table.n_columns)
        weight_val = checked_weights(sample_weight_val, table_val.n_rows, "sample_weight_val")
        book = _codebook(parameters, kinds, alone, table, table_val, weight, weight_val)
        train, valid = CodedTable(table, book), CodedTable(table_val, book)
        return cls(coded_rows(train, weight), coded_rows(valid, weight_val), table.format, book, alone=alone)

    def take(self, rows: NDArray[np.intp], rows_val: NDArray[np.intp]) -> GivenRows:
        """Some of the rows, in the same codes; to validate on, some of those that are there for that."""
        valid = None if self.valid is None or not len(rows_val) else self.valid.take(rows_val)
        return replace(self, train=self.train.take(rows), valid=valid)

    @property
    def n_columns(self) -> int:
        return self.book.n_columns

    def column_number(self, label: Any) -> int:
        """The number among the modelled columns of one that is called by its name, or by its number among those given."""
        number = next(iter(self.format.numbered({label: None}, self.n_given, "groups")))
        if number in self.book.left_out:
            raise ValueError(f"groups: column {label!r} is left out ({self.book.left_out[number]})")
        return int(np.searchsorted(self.book.taken, number))

    def shared_levels(self) -> list[list[tuple[int, int]]]:
        """Of categories that several columns share, every level: (column, cell) wherever it has a cell of its own."""
        alike: dict[frozenset[str], list[int]] = {}
        for k, code in enumerate(self.book.codes):
            if isinstance(code, CategoricalCode):
                alike.setdefault(frozenset(code.levels), []).append(k)
        found = []
        for levels, columns in alike.items():
            for level in sorted(levels) if len(columns) > 1 else ():
                codes = [(k, self.book.codes[k]) for k in columns]
                cells = [(k, code.cell_of(level)) for k, code in codes if isinstance(code, CategoricalCode)]
                found.append([(k, cell) for k, cell in cells if cell is not None])
        return found

    @property
    def n_given(self) -> int:
        """Columns, with those that are left out."""
        return self.n_columns + len(self.book.left_out)

    def fingerprint(self) -> str:
        """Of the values and weights of all rows."""
        digest = hashlib.sha256()
        parts = [self.train.bits, self.train.missing]
        parts += [None, None] if self.valid is None else [self.valid.bits, self.valid.missing]
        for part in parts:
            digest.update(
                b"-" if part is None else f"{part.rows.shape} {part.n_columns}".encode() + part.rows.tobytes()
            )
        for rows in (self.train, self.valid):
            digest.update(b"-" if rows is None or rows.weight is None else rows.weight.tobytes())
        for rows in (self.train, self.valid):
            if rows is not None and rows.cells is not None:
                digest.update(f"{rows.cells.shape}".encode() + rows.cells.tobytes())
        if not self.book.is_binary:
            digest.update(self.book.fingerprint())
        return digest.hexdigest()

    def base_rates(self) -> NDArray[np.float64]:
        """The share of ones of every column, with half a row more on either side; missing values do not count.

        That of a column that is not binary is NaN.
        """
        rows = self.train if self.valid is None else self.train + self.valid
        if rows.cells is None:
            return np.array([_base_rate(rows, d) for d in range(self.n_columns)])
        rates = np.full(self.n_columns, np.nan)
        for d, code in enumerate(self.book.codes):
            if code.kind == "binary":
                zeros, ones = code.mass[-2:]
                rates[d] = (ones + 0.5) / (zeros + ones + 1)
        return rates

    def divided(self, validation_fraction: float, seed: int) -> GivenRows:
        """With a part held out to validate on, unless there are rows for that."""
        if self.valid is not None:
            return self
        kept, held = hold_out(self.train.n_rows, validation_fraction, [seed, 0], self.train.weight)
        return replace(self, train=self.train.take(np.sort(kept)), valid=self.train.take(np.sort(held)))

    def bag(self, number: int, validation_fraction: float, seed: int) -> GivenRows:
        """The same rows divided in many ways: 0 is what ``divided`` gives; in others, every row is held out once before any is again."""
        first = self.divided(validation_fraction, seed)
        if number == 0:
            return first
        assert first.valid is not None
        rows = first.train + first.valid
        n, n_valid = rows.n_rows, _n_held_out(rows.n_rows, validation_fraction)
        of_first, of_others = first.train.n_rows // n_valid, n // n_valid
        lap, block = (0, number - 1) if number <= of_first else divmod(number - 1 - of_first + of_others, of_others)
        shuffled = np.random.default_rng([seed, 2, lap]).permutation(first.train.n_rows if lap == 0 else n)
        held = np.sort(shuffled[block * n_valid : (block + 1) * n_valid])
        kept = np.setdiff1d(np.arange(n), held)
        _check_weights(rows.weight, kept, held)
        return replace(self, train=rows.take(kept), valid=rows.take(held))

    def filled(self, seed: int, groups: str | Sequence[Any] | None = None) -> TrainingData:
        """What to train on: a missing value reads as its column's most common one among the training rows."""
        data = self._filled(seed)
        found = find_groups(groups, data, self.column_number) if self.groups is None else self.groups
        return replace(data, groups=found)

    def _filled(self, seed: int) -> TrainingData:
        assert self.valid is not None
        layout = self.book.layout
        if self.train.cells is not None:
            self._warn_of(
                [j for j, code in enumerate(self.book.codes) if not code.mass[int(code.tree.missing) :].any()]
            )
            common = self.train.common_cells(layout)
            train, valid = (replace(rows, common=common) for rows in (self.train, self.valid))
            return TrainingData(layout, train, valid, seed)
        if self.train.missing is not None:
            n = self.train.bits.n_rows
            self._warn_of([j for j, count in enumerate(self.train.missing.column_sums()) if count == n])
        fill = self.train.common_values()
        return TrainingData(layout, self.train.filled(fill), self.valid.filled(fill), seed)

    def _warn_of(self, empty: list[int]) -> None:
        """Columns without values."""
        for j in empty[:3]:
            label = self.format.label(int(self.book.taken[j]))
            warnings.warn(f"{label} has no values: nothing can be learned about it", stacklevel=9)


def _codebook(
    parameters: CodingParameters,
    own_kinds: Mapping[Any, str] | None,
    alone: bool,
    table: Table,
    table_val: Table | None,
    weight: Weights,
    weight_val: Weights,
) -> Codebook:
    """What every column is, by all rows."""
    tables = [table] if table_val is None else [table, table_val]
    labels = [table.format.label(j) for j in range(table.n_columns)]
    kinds = table.format.numbered({**(parameters.columns or {}), **(own_kinds or {})}, table.n_columns)
    binary, missing = zip(*(own.is_binary() for own in tables)) if not kinds else ((False,), (False,))
    if all(binary) and not (any(missing) and parameters.missing == "value"):
        return Codebook.of_bits(labels)
    columns = (_whole_column(tables, j, read=kinds.get(j) != "drop") for j in range(table.n_columns))
    weights = None
    if weight is not None or weight_val is not None:
        ones = [np.ones(own.n_rows) for own in tables]
        weights = np.concatenate([one if own is None else own for one, own in zip(ones, (weight, weight_val))])
    how = Coding(max_cells=parameters.max_cells, missing=parameters.missing, alone=alone)
    return Codebook.fit(columns, labels, kinds, how, weights)


def _whole_column(tables: list[Table], j: int, *, read: bool) -> Column:
    """A column of all tables; one that is left out may hold anything, and is not read."""
    if not read:
        return Column.of_strings([])
    first, *more = (table.column(j) for table in tables)
    return sum(more, first)


def coded_rows(table: CodedTable, weight: Weights) -> TrainingRows:
    """All rows of a table, columns as they were given."""
    if table.book.is_binary:
        return TrainingRows(*table.table.pack(), weight)
    return TrainingRows.coded(np.concatenate([chunk.cells for chunk in table.chunks()]), weight)


def _base_rate(rows: TrainingRows, position: int) -> float:
    column, weight = rows.bits.column(position), rows.weight_for(position)
    if weight is None:
        return float((column.sum() + 0.5) / (len(column) + 1))
    scale = np.count_nonzero(weight) / max(weight.sum(), np.finfo(float).tiny)  # 1 on average
    return float((scale * (column @ weight) + 0.5) / (scale * weight.sum() + 1))


def checked_weights(weight: ArrayLike | None, n: int, name: str) -> Weights:
    """One weight per row, none negative, not all zero; None stays None."""
    if weight is None:
        return None
    checked = _check_sample_weight(weight, np.empty((n, 0)), dtype=np.float64, ensure_non_negative=True)
    if not checked.any():
        raise ValueError(f"{name} is zero for every row")
    with np.errstate(over="ignore"):
        return checked if np.isfinite(checked.sum()) else checked / checked.max()  # only their ratios matter


def hold_out(
    n: int, fraction: float, seed: int | list[int], weight: Weights = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of the rows to train on and of those to validate on, shuffled; neither may be without any weight."""
    n_valid = _n_held_out(n, fraction)
    shuffled = np.random.default_rng(seed).permutation(n)
    kept, held = shuffled[n_valid:], shuffled[:n_valid]
    _check_weights(weight, kept, held)
    return kept, held


def _n_held_out(n: int, fraction: float) -> int:
    """How many of ``n`` rows are held out."""
    n_valid = round(fraction * n)
    if not 0 < n_valid < n:
        raise ValueError(
            f"validation_fraction={fraction} of {n} sample(s) leaves {n_valid} to validate on and {n - n_valid} to train "
            "on, and at least 1 of each is needed; give more rows, or X_val"
        )
    return n_valid


def _check_weights(weight: Weights, kept: NDArray[np.intp], held: NDArray[np.intp]) -> None:
    if weight is not None and not (weight[kept].any() and weight[held].any()):
        raise ValueError(
            "sample_weight is zero for every row to train on, or for every row held out; weigh more rows, or give X_val"
        )
