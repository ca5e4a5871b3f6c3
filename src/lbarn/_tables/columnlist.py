"""What a model has made of the columns of a table, for people and programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, overload

from lbarn._tables.codebook import Codebook
from lbarn._tables.codes import CategoricalCode, ContinuousCode, GridCode
from lbarn._tables.table import TableFormat

__all__ = ["ColumnInfo", "ColumnList"]


@dataclass(frozen=True)
class ColumnInfo:
    """What one column became."""

    name: Any
    kind: str
    """binary, categorical, ordered, continuous, datetime or left out."""
    values: str
    """Levels or range, or why it was left out."""
    levels: tuple[Any, ...] | None
    """Of categories, all of them."""
    resolution: str
    """From one value of the grid to the next."""
    n_cells: int
    share_missing: float
    measure: str
    """What its likelihood is of: mass, or density."""
    group: tuple[Any, ...] | None = None
    """Of a binary column, itself and those that exclude it."""


class ColumnList(Sequence[ColumnInfo]):
    """All columns; prints as a table."""

    def __init__(self, columns: Sequence[ColumnInfo]) -> None:
        self._columns = list(columns)

    @classmethod
    def of(cls, book: Codebook, table_format: TableFormat, groups: Sequence[Sequence[int]] = ()) -> ColumnList:
        """Of all columns that were given; ``groups`` are numbers of modelled ones."""
        labels = table_format.labels(book.n_columns + len(book.left_out))
        found: dict[int, ColumnInfo] = {
            j: ColumnInfo(labels[j], "left out", why, None, "", 0, float("nan"), "") for j, why in book.left_out.items()
        }
        group_of = {j: tuple(labels[k] for k in book.taken[list(own)]) for own in groups for j in book.taken[list(own)]}
        for j, code in zip(book.taken.tolist(), book.codes):
            levels: tuple[Any, ...] | None = None
            if isinstance(code, CategoricalCode):
                levels = code.levels
            elif code.plain.categories is not None:
                levels = code.plain.categories
            elif code.kind == "binary":
                levels = (False, True) if code.plain.sort == "boolean" else (0, 1)
            resolution = code.resolution if isinstance(code, GridCode) else ""
            n_cells = int(code.tree.present.sum())
            values = _told_levels(levels) if levels is not None else code.told_range()
            if isinstance(code, ContinuousCode):
                resolution = "none"
            found[j] = ColumnInfo(
                labels[j],
                code.kind,
                values,
                levels,
                resolution,
                n_cells,
                code.share_missing,
                code.measure,
                group_of.get(j),
            )
        return cls([found[j] for j in sorted(found)])

    @overload
    def __getitem__(self, key: int | str) -> ColumnInfo: ...
    @overload
    def __getitem__(self, key: slice) -> list[ColumnInfo]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            for own in self._columns:
                if own.name == key:
                    return own
            raise KeyError(key)
        return self._columns[key]

    def __len__(self) -> int:
        return len(self._columns)

    def to_dicts(self) -> list[dict[str, Any]]:
        """One record per column."""
        return [asdict(own) for own in self._columns]

    def to_sdmetrics(self) -> dict[str, Any]:
        """The metadata that SDMetrics wants of a table, without the columns that were left out.

        Examples
        --------
        >>> import numpy as np
        >>> from lbarn import LBARN
        >>> X = np.random.default_rng(0).integers(0, [2, 9], (200, 2))
        >>> LBARN(random_state=0).fit(X).columns_.to_sdmetrics()
        {'columns': {0: {'sdtype': 'categorical'}, 1: {'sdtype': 'numerical'}}}
        """
        modelled = (own for own in self._columns if own.kind != "left out")
        return {"columns": {own.name: {"sdtype": _sdtype(own)} for own in modelled}}

    def rows(self) -> list[tuple[str, ...]]:
        """The table as strings, a heading first."""
        rows: list[tuple[str, ...]] = [("column", "kind", "values", "step", "cells", "empty", "likelihood")]
        for own in self._columns:
            empty = "" if not own.share_missing > 0 else f"{own.share_missing:.1%}"
            cells = str(own.n_cells) if own.n_cells else ""
            values = own.values if own.group is None else f"{own.values}; one of {', '.join(map(str, own.group))}"
            rows.append((str(own.name), own.kind, values, own.resolution, cells, empty, own.measure))
        return rows

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, most: int | None = None, why: Mapping[Any, str] | None = None) -> list[str]:
        """The table for people: at most so many columns, and other reasons why some of them are left out."""
        rows = [tuple(_shortened(cell) for cell in row) for row in self.rows()[: None if most is None else most + 1]]
        for k, own in enumerate(self._columns[: len(rows) - 1], 1):
            if own.kind == "left out" and own.name in (why or {}):
                rows[k] = (*rows[k][:2], (why or {})[own.name], *rows[k][3:])
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        more = len(self) - len(rows) + 1
        return [*lines, f"and {more:,} more columns"] if more else lines

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self) -> str:
        """The table, for a web page."""
        head, *rows = self.rows()
        cells = "".join(f"<th style='text-align:left'>{escape(cell)}</th>" for cell in head)
        body = "".join(
            "<tr>" + "".join(f"<td style='text-align:left'>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _sdtype(column: ColumnInfo) -> str:
    if column.kind == "datetime":
        return "datetime"
    if column.levels == (False, True) and isinstance(column.levels[0], bool):
        return "boolean"
    return "numerical" if column.levels is None else "categorical"


def _shortened(text: str, most: int = 44) -> str:
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return text if len(text) <= most else text[: most - 1] + "\N{HORIZONTAL ELLIPSIS}"


def _told_levels(levels: Sequence[Any]) -> str:
    shown = ", ".join(map(str, levels[:4]))
    return shown if len(levels) <= 4 else f"{len(levels)} levels: {shown}, \N{HORIZONTAL ELLIPSIS}"
