"""Rows of any table: some of them as the same kind of table, all of them as complete bits, or those to hold out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn._tables.table import Table

__all__ = ["complete_bits", "complete_chunks", "hold_out", "stack_rows", "take_rows"]


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


def stack_rows(table: Table, below: Table) -> Any:
    """The rows of both in the kind of table that the first is; values are as they were, not yet compared with a threshold.

    Examples
    --------
    >>> from lbarn._tables.table import read_table
    >>> stack_rows(read_table([[0, 1]]), read_table([[1, 1]]))
    array([[0, 1],
           [1, 1]])
    """
    if table.is_sparse and below.is_sparse:
        return sp.vstack([table.source, below.source], format="csr")
    values = np.concatenate([table.raw(0, table.n_rows), below.raw(0, below.n_rows)])
    return table.kind.give(values, values.dtype)


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


def hold_out(
    n: int, fraction: float, seed: int, weight: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of the rows to train on and of those to validate on, each in order; neither may be without any weight."""
    n_valid = round(fraction * n)
    if not 0 < n_valid < n:
        raise ValueError(
            f"validation_fraction={fraction} of {n} sample(s) leaves {n_valid} to validate on and {n - n_valid} to train "
            "on, and at least 1 of each is needed; give more rows, or X_val"
        )
    shuffled = np.random.default_rng([seed, 0]).permutation(n)
    kept, held = np.sort(shuffled[n_valid:]), np.sort(shuffled[:n_valid])
    if weight is not None and not (weight[kept].any() and weight[held].any()):
        raise ValueError(
            "sample_weight is zero for every row to train on, or for every row held out; weigh more rows, or give X_val"
        )
    return kept, held
