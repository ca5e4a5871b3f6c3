"""What the columns of a model are called, which one is meant, and how they make an image."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import RowModel
from lbarn._tables.coded import CodedTable
from lbarn._tables.table import read_like

__all__ = ["check_bits", "checked_bits", "checked_shape", "column_names", "find_column", "shortened", "shown_row"]

_LONGEST = 24  # letters of a name in a picture


def column_names(model: RowModel, shape: tuple[int, int] | None = None) -> list[str]:
    """The names of the modelled columns in the table that the model was fitted on; else the pixels' rows and columns, or plain
    numbers."""
    check_is_fitted(model)
    if model.table_format_.names is None and shape is not None:
        return [f"{i}, {j}" for i in range(shape[0]) for j in range(shape[1])]
    labels = model.table_format_.labels(model.n_features_in_)
    return [str(labels[j]) for j in model.codebook_.taken.tolist()]


def find_column(model: RowModel, column: str | int) -> int:
    """The number, among those modelled, of a column that goes by this name, or this number."""
    number, book = _column_number(model, column), model.codebook_
    if number in book.left_out:
        raise ValueError(f"column {column!r} was left out of the model ({book.left_out[number]})")
    return int(np.searchsorted(book.taken, number))


def _column_number(model: RowModel, column: str | int) -> int:
    check_is_fitted(model)
    names, n = model.table_format_.names, model.n_features_in_
    if names is not None and column in names:
        return int(names.index(column))
    if isinstance(column, Integral) and 0 <= int(column) < n:
        return int(column)
    if isinstance(column, str) and names is not None:
        close = get_close_matches(column, [str(name) for name in names], n=3)
        hint = (
            f"; close to it: {', '.join(map(repr, close))}" if close else f"; there are {n}, the first is {names[0]!r}"
        )
        raise ValueError(f"the model has no column {column!r}{hint}")
    raise ValueError(f"the model has no column {column!r}; its {n} columns go by their numbers, 0 to {n - 1}")


def checked_shape(shape: Sequence[int] | None, n_columns: int) -> tuple[int, int] | None:
    """Rows and columns of the image that a row of the table makes."""
    if shape is None:
        return None
    sides = tuple(shape)
    if len(sides) != 2 or not all(isinstance(side, Integral) and side > 0 for side in sides):
        raise ValueError(f"shape must be two whole numbers above 0, the rows and columns of an image; got {shape!r}")
    height, width = int(sides[0]), int(sides[1])
    if height * width != n_columns:
        raise ValueError(
            f"an image of {height} x {width} has {height * width} pixels, but the model has {n_columns} columns"
        )
    return height, width


def checked_bits(model: RowModel, X: Any) -> NDArray[np.bool_]:
    """The rows of ``X``, checked as the model checks them; a missing bit is an error."""
    check_bits(model)
    return read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize).complete()


def shown_row(model: RowModel, X: Any) -> NDArray[np.object_]:
    """The values of the only row of ``X``, as they are shown."""
    book = model.codebook_
    table = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize, optional=book.left_out)
    columns = CodedTable(table, book).columns()
    row = np.empty(book.n_columns, object)
    row[:] = [_shown(code.shown(column)[0]) for code, column in zip(book.codes, columns)]
    return row


def _shown(value: Any) -> Any:
    return "empty" if value is None else f"{value:.6g}" if isinstance(value, float) else value


def check_bits(model: RowModel) -> None:
    """Refuse a model of other columns than bits, which cannot be drawn as such."""
    check_is_fitted(model)
    if not model.codebook_.is_binary:
        kinds = sorted({code.kind for code in model.codebook_.codes if not code.tree.is_binary})
        raise ValueError(f"this picture is of binary columns; the model has others ({', '.join(kinds)})")


def shortened(name: str) -> str:
    """A name as matplotlib can draw it: short, printable, no formula."""
    plain = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(name.split())
    )
    if len(plain) > _LONGEST:
        plain = plain[: _LONGEST - 1] + "…"
    return plain.replace("$", r"\$")
