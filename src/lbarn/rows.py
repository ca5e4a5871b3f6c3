"""Rows of any table: some of them as the same kind of table, or all of them as complete bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn.table import Table

__all__ = ["complete_bits", "complete_chunks", "take_rows"]


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """The rows of ``X`` with these numbers, in this order, in the same kind of table.

    Examples
    --------
    >>> import numpy as np
    >>> take_rows([[0, 1], [1, 1], [0, 0]], np.array([2, 0]))
    array([[0, 0],
           [0, 1]])
    """
    if sp.issparse(X):
        return X.tocsr()[rows]
    if isinstance(X, np.ndarray):
        return X[rows]
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    return frame[rows, :].to_native() if isinstance(frame, nw.DataFrame) else np.asarray(X)[rows]


def complete_chunks(table: Table) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """(first row, bits) for successive chunks of rows; a missing bit is an error."""
    for start, values, missing in table.chunks():
        if missing is not None:
            i, j = np.argwhere(missing)[0]
            raise ValueError(
                f"{table.column_name(j)} is missing (Input X contains NaN, row {start + i}); complete rows are needed "
                "here: LBARN.impute fills them"
            )
        yield start, values


def complete_bits(table: Table) -> NDArray[np.float32]:
    """All rows, 0 and 1 as matrix products want them; a missing bit is an error."""
    bits = np.empty((table.n_rows, table.n_columns), np.float32)
    for start, values in complete_chunks(table):
        bits[start : start + len(values)] = values
    return bits
