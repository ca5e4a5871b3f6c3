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
from lbarn._tables.table import read_like

__all__ = ["checked_bits", "checked_shape", "column_names", "find_column", "shortened"]

_LONGEST = 24  # letters of a name in a picture


def column_names(model: RowModel, shape: tuple[int, int] | None = None) -> list[str]:
    """The names in the table that the model was fitted on; else the pixels' rows and columns, or plain numbers."""
    check_is_fitted(model)
    if model.table_format_.names is None and shape is not None:
        return [f"{i}, {j}" for i in range(shape[0]) for j in range(shape[1])]
    return [str(name) for name in model.table_format_.labels(model.n_features_in_)]


def find_column(model: RowModel, column: str | int) -> int:
    """The number of a column that goes by this name, or this number."""
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
    check_is_fitted(model)
    return read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize).complete()


def shortened(name: str) -> str:
    """A name as matplotlib can draw it: short, printable, no formula."""
    plain = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(name.split())
    )
    if len(plain) > _LONGEST:
        plain = plain[: _LONGEST - 1] + "…"
    return plain.replace("$", r"\$")
