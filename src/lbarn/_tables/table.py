"""Any binary table a user may hold, checked and packed; and arrays turned back into that kind of table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn._engine.bits import MAX_COLUMNS, MAX_ROWS, PackedBits

__all__ = ["Kind", "Table", "read_table"]

_CHUNK_VALUES = 4_000_000  # values looked at a time


@dataclass(frozen=True)
class Kind:
    """What sort of table came in, so that the same sort can be given back."""

    library: Any = "numpy"  # numpy, pandas, polars or pyarrow
    names: tuple[str | int, ...] | None = None  # pandas counts columns that were given no names
    dtypes: tuple[str, ...] = ("uint8",)  # one for arrays, one per column for tables

    def give(self, X: NDArray[Any], dtype: Any = None) -> Any:
        """The array in this kind of table; ``dtype`` replaces the columns' own, for what is not 0 and 1."""
        if self.library == "numpy" or self.names is None:
            return X.astype(dtype or self.dtypes[0], copy=False)
        columns: dict[Any, Any] = {
            name: X[:, j].astype(dtype or own) for j, (name, own) in enumerate(zip(self.names, self.dtypes))
        }
        try:
            return nw.from_dict(columns, backend=self.library).to_native()
        except ImportError as error:
            raise ImportError(
                f"the model was fitted on a {self.library} table and gives one back; pip install 'lbarn[tables]'"
            ) from error


@dataclass
class Table:
    """A checked view of the user's table. Values are read in chunks of rows; nothing is copied whole."""

    n_rows: int
    n_columns: int
    kind: Kind
    binarize: float | None
    source: Any = field(repr=False)

    def give(self, X: NDArray[Any], dtype: Any = None) -> Any:
        """An array of as many rows in the same kind of table, pandas' index included."""
        given = self.kind.give(X, dtype)
        if self.kind.library == "pandas":
            given.index = nw.maybe_get_index(self.source)
        return given

    def column_name(self, j: int) -> str:
        return f"column {j}" if self.kind.names is None else f"column {j} ({self.kind.names[j]!r})"

    def chunks(self) -> Iterator[tuple[int, NDArray[np.bool_], NDArray[np.bool_] | None]]:
        """(first row, values, missing or None) for successive chunks of rows."""
        step = max(1, _CHUNK_VALUES // max(1, self.n_columns))
        for start in range(0, self.n_rows, step):
            values, missing = self._checked(self.raw(start, min(start + step, self.n_rows)), start)
            yield start, values, missing

    def pack(
        self, order: NDArray[np.intp], rows: NDArray[np.intp] | None = None
    ) -> tuple[PackedBits, PackedBits | None]:
        """The bits in network order, and where they are missing (None: nowhere). ``rows`` picks rows, in any order."""
        n = self.n_rows if rows is None else len(rows)
        target = None if rows is None else np.full(self.n_rows, -1, np.intp)
        if rows is not None and target is not None:
            target[rows] = np.arange(n)
        width = -(-self.n_columns // 8)
        packed = np.zeros((n, -(-self.n_columns // 256) * 32), np.uint8)
        holes: NDArray[np.uint8] | None = None
        for start, values, missing in self.chunks():
            at = np.arange(start, start + len(values)) if target is None else target[start : start + len(values)]
            kept = at >= 0
            if not kept.any():
                continue
            chosen: slice | NDArray[np.bool_] = slice(None) if kept.all() else kept
            packed[at[chosen], :width] = np.packbits(values[chosen][:, order], axis=1, bitorder="little")
            if missing is not None:
                if holes is None:
                    holes = np.zeros_like(packed)
                holes[at[chosen], :width] = np.packbits(missing[chosen][:, order], axis=1, bitorder="little")
        return PackedBits(packed, self.n_columns), None if holes is None else PackedBits(holes, self.n_columns)

    @property
    def is_sparse(self) -> bool:
        return bool(sp.issparse(self.source))

    def raw(self, start: int, stop: int) -> NDArray[Any]:
        """These rows as they came."""
        if isinstance(self.source, np.ndarray):
            return self.source[start:stop]
        if self.is_sparse:
            return self.source[start:stop].toarray()
        rows = self.source[start:stop]
        return np.column_stack([_column_values(column, j) for j, column in enumerate(rows.iter_columns())])

    def _checked(self, X: NDArray[Any], start: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
        if X.dtype == bool:
            return X, None
        missing = np.isnan(X) if X.dtype.kind == "f" else None
        if missing is not None and not missing.any():
            missing = None
        if self.binarize is not None:
            with np.errstate(invalid="ignore"):
                return self.binarize < X, missing
        values = X == 1
        wrong = ~(values | (X == 0))
        if missing is not None:
            wrong &= ~missing
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"{self.column_name(j)} holds {X[i, j].item()!r} (row {start + i}); "
                "LBARN takes 0 and 1 only (set binarize= to threshold)"
            )
        return values, missing


def _column_values(column: nw.Series[Any], j: int) -> NDArray[Any]:
    if column.dtype == nw.Boolean:
        if column.null_count() == 0:
            return column.to_numpy().astype(bool)
        column = column.cast(nw.Float64)
    elif column.null_count() == len(column):
        return np.full(len(column), np.nan)  # tables have types of their own for columns without a single value
    elif column.dtype == nw.Unknown and (values := column.to_numpy()).dtype.kind in "biuf":
        return values  # the sparse columns of pandas
    elif not column.dtype.is_numeric():
        raise ValueError(
            f"column {j} ({column.name!r}) is of type {column.dtype}; LBARN takes numbers or booleans, 0 and 1"
        )
    elif column.null_count():
        column = column.cast(nw.Float64)
    return column.to_numpy()


def _frame_kind(frame: nw.DataFrame[Any]) -> Kind:
    names = {"modin": "pandas", "cudf": "pandas"}
    library = frame.implementation.name.lower()
    dtypes = tuple(
        "bool" if d == nw.Boolean else "uint8" if d.is_integer() else "float64" for d in frame.schema.values()
    )
    columns: list[Any] = frame.columns  # pandas has labels that are not strings
    labels = tuple(label if type(label) is int else str(label) for label in columns)
    return Kind(names.get(library, library), labels, dtypes)


def read_table(X: Any, *, binarize: float | None = None) -> Table:
    """Look at ``X`` without reading it all: NumPy, scipy.sparse, pandas, polars, pyarrow or nested lists."""
    if sp.issparse(X):
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead")
        X = X.tocsr()
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X is of type {X.dtype}; LBARN takes numbers or booleans, 0 and 1")
        return _sized(Table(X.shape[0], X.shape[1], Kind(dtypes=(str(X.dtype),)), binarize, X))
    frame = None if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return _sized(Table(len(frame), len(frame.columns), _frame_kind(frame), binarize, frame))
    array = np.ma.filled(X.astype(np.float64), np.nan) if np.ma.isMaskedArray(X) else np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: one row per observation, one column "
            "per variable (array.reshape(-1, 1) if there is one variable, array.reshape(1, -1) if there is one row)"
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: LBARN takes 0 and 1")
    if array.dtype.kind not in "biufO":
        raise ValueError(f"X is of type {array.dtype}; LBARN takes numbers or booleans, 0 and 1")
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise type(error)(f"X holds what is not a number; LBARN takes 0 and 1: {error}") from error
    return _sized(Table(array.shape[0], array.shape[1], Kind(dtypes=(str(array.dtype),)), binarize, array))


def _sized(table: Table) -> Table:
    n, d = table.n_rows, table.n_columns
    if n == 0:
        raise ValueError(f"Found array with 0 sample(s) (shape=({n}, {d})) while a minimum of 1 is required.")
    if d == 0:
        raise ValueError(f"Found array with 0 feature(s) (shape=({n}, {d})) while a minimum of 1 is required.")
    if n > MAX_ROWS or d > MAX_COLUMNS:
        raise ValueError(
            f"X has {n} rows and {d} columns; LBARN takes at most {MAX_ROWS} rows and {MAX_COLUMNS} columns"
        )
    return table
