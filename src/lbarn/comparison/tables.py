"""Tables of any library as columns of Arrow, matched with each other by name or by position."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn._tables.table import UNNAMED

__all__ = ["Columns", "match", "read_columns"]


@dataclass(frozen=True)
class Columns:
    """A table, a column at a time. ``title`` is what the user calls it; ``names`` is None if columns are only numbered."""

    title: str
    names: tuple[str, ...] | None
    arrays: tuple[pa.Array, ...]

    @property
    def n_rows(self) -> int:
        return len(self.arrays[0])

    def labels(self) -> tuple[str, ...]:
        return self.names or tuple(str(j) for j in range(len(self.arrays)))

    def take(self, rows: NDArray[np.intp]) -> Columns:
        chosen = pa.array(rows)
        return replace(self, arrays=tuple(array.take(chosen) for array in self.arrays))


def read_columns(X: Any, title: str) -> Columns:
    """pandas, polars, pyarrow, NumPy, scipy.sparse or nested lists; ``title`` is for error messages.

    Examples
    --------
    >>> read_columns(np.array([[1, 2], [3, 4]]), "real").labels()
    ('0', '1')
    """
    if sp.issparse(X):
        X = X.toarray()
    frame = None if isinstance(X, np.ndarray) else nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"{title} is a lazy table, which has not been computed yet; give its collect()")
    if isinstance(frame, nw.DataFrame):
        return _sized(title, _names(frame, title), [_of_series(column) for column in frame.iter_columns()])
    array = np.ma.filled(X.astype(np.float64), np.nan) if np.ma.isMaskedArray(X) else np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"{title}: expected a table of rows and columns, got an array of {array.ndim} dimensions")
    if array.dtype.kind == "c":
        raise ValueError(f"{title}: complex numbers cannot be compared")
    return _sized(title, None, [_of_array(array[:, j]) for j in range(array.shape[1])])


def match(real: Columns, other: Columns) -> Columns:
    """``other`` with the columns of ``real`` in their order; others than those are an error."""
    if real.names is None or other.names is None:
        if len(other.arrays) != len(real.arrays):
            raise ValueError(f"{other.title} has {len(other.arrays)} columns, but {real.title} has {len(real.arrays)}")
        return replace(other, names=real.names)
    place = {name: j for j, name in enumerate(other.names)}
    absent = [name for name in real.names if name not in place]
    known = set(real.names)
    extra = [name for name in other.names if name not in known]
    if absent or extra:
        wrong = [f"has no column {_some(absent)}, which {real.title} has"] if absent else []
        wrong += [f"has {_some(extra)}, which {real.title} does not have"] if extra else []
        raise ValueError(f"{other.title} {', and '.join(wrong)}")
    return Columns(other.title, real.names, tuple(other.arrays[place[name]] for name in real.names))


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _names(frame: nw.DataFrame[Any], title: str) -> tuple[str, ...] | None:
    if frame.implementation.is_pyarrow() and frame.to_native().schema.metadata == UNNAMED:
        return None
    names = tuple(map(str, frame.columns))
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{title}: two columns are called {twice[0]!r}")
    return names


def _sized(title: str, names: tuple[str, ...] | None, arrays: Sequence[pa.Array]) -> Columns:
    if not arrays:
        raise ValueError(f"{title} has no columns")
    return Columns(title, names, tuple(arrays))


def _of_series(column: nw.Series[Any]) -> pa.Array:
    if column.dtype in (nw.Object, nw.Unknown):  # cells of several types, or the sparse columns of pandas
        return _of_array(column.to_numpy())
    array = column.to_arrow()
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _of_array(cells: NDArray[Any]) -> pa.Array:
    try:
        return pa.array(np.ascontiguousarray(cells), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return pa.array([None if _is_missing(cell) else str(cell) for cell in cells.tolist()], pa.string())


def _is_missing(cell: Any) -> bool:
    return cell is None or cell != cell or str(cell) == "<NA>"
