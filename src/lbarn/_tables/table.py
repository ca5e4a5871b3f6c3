"""Any table a user may hold, checked, in chunks of rows; and rows turned back into that kind of table."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace
from os import PathLike
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn._engine.bits import MAX_COLUMNS, MAX_ROWS, PackedBits, pack
from lbarn._tables.column import AS_DIGITS, Column, arrow_type, as_column, plain_array
from lbarn._tables.giving import as_array, as_table, is_known_dtype, objects_name
from lbarn.errors import NotBinaryError

__all__ = ["UNNAMED", "Table", "TableFormat", "read_like", "read_table", "some", "take_rows"]

UNNAMED = {b"lbarn": b"columns without names"}  # metadata of an Arrow table whose names only count its columns
_CHUNK_VALUES = 4_000_000  # values looked at together

_ARRAYS = re.compile(
    r"bool|u?int\d+|float\d+|>[iuf]\d|<U\d{1,4}|(datetime|timedelta)64\[\w{1,2}\]|object(\[nan\]|\[NaT\]|\[NA\])?"
)

Bits = NDArray[np.bool_]
Label = str | int  # pandas counts columns that were given no names


@dataclass(frozen=True)
class TableFormat:
    """What sort of table came in, so that the same sort can be given back."""

    library: Any = "numpy"  # numpy, pandas, polars or pyarrow
    names: tuple[Label, ...] | None = None
    dtypes: tuple[str, ...] = ("uint8",)  # one for arrays, one per column for tables, as pandas calls them
    as_digits: tuple[int, ...] = ()  # columns of floats whose whole numbers came as 22, not as 22.0, in a file of text

    def give(self, X: NDArray[Any], dtype: Any = None) -> Any:
        """The array in this sort of table; ``dtype`` replaces the columns' own, for what is not 0 and 1."""
        if self.library == "numpy" or self.names is None:
            return X.astype(dtype or self.dtypes[0], copy=False)
        own_types = [str(np.dtype(dtype))] * len(self.names) if dtype else self.dtypes
        columns = [_numbers(X[:, j], own) for j, own in enumerate(own_types)]
        return as_table(self.library, self.names, columns, own_types)

    def give_columns(self, columns: Sequence[Column], taken: NDArray[np.intp]) -> Any:
        """Plain columns in this sort of table; ``taken`` are their numbers among all columns."""
        if self.names is None and self.library != "pyarrow":
            return as_array(columns, self.dtypes[0])
        names = list(map(str, range(len(columns)))) if self.names is None else [self.names[j] for j in taken]
        dtypes = [""] * len(columns) if self.names is None else [self.dtypes[j] for j in taken]
        given = as_table(self.library, names, columns, dtypes)
        if self.library != "pyarrow":
            return given
        fields = [
            own.with_metadata(AS_DIGITS) if j in self.as_digits and pa.types.is_floating(own.type) else own
            for j, own in zip(taken.tolist(), given.schema)
        ]
        return given.cast(pa.schema(fields, UNNAMED if self.names is None else None))

    def label(self, j: int) -> str:
        """A column as messages call it."""
        return f"column {j}" if self.names is None else f"column {j} ({self.names[j]!r})"

    def labels(self, n_columns: int) -> Sequence[Label]:
        """The columns' names, or their numbers if they have none."""
        return range(n_columns) if self.names is None else self.names

    def numbered(self, by_label: Mapping[Any, Any], n_columns: int, what: str = "columns") -> dict[int, Any]:
        """What is given by name (or number), by number."""
        labels = {label: j for j, label in enumerate(self.labels(n_columns))}
        unknown = [label for label in by_label if label not in labels]
        if unknown:
            raise ValueError(f"{what}: there is no column {some(unknown)}; the columns are {some(list(labels))}")
        return {labels[label]: value for label, value in by_label.items()}

    @property
    def feature_names(self) -> NDArray[np.object_] | None:
        """The names as scikit-learn keeps them: strings only."""
        if self.names is None or not all(isinstance(name, str) for name in self.names):
            return None
        return np.array(self.names, dtype=object)

    def without_last(self) -> TableFormat:
        """Of a table without its last column."""
        return self if self.names is None else replace(self, names=self.names[:-1], dtypes=self.dtypes[:-1])

    def to_json(self) -> dict[str, Any]:
        content = asdict(self)
        if not self.as_digits:
            del content["as_digits"]
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any], n_columns: int) -> TableFormat:
        """The format in a model file; what makes no sense is a ValueError."""
        library, names = content["library"], content["names"]
        as_digits = tuple(content.get("as_digits", ()))
        own = cls(library, None if names is None else tuple(names), tuple(content["dtypes"]), as_digits)
        if not all(type(j) is int and 0 <= j < n_columns for j in as_digits):
            raise ValueError("columns of whole numbers do not fit the number of columns")
        if library not in ("numpy", "pandas", "polars", "pyarrow"):
            raise ValueError(f"unknown kind of table {library!r}")
        for dtype in own.dtypes:
            if library == "numpy":
                if not _ARRAYS.fullmatch(dtype):
                    raise ValueError(f"{dtype!r} is not a type of an array of values")
                np.dtype("O" if dtype.startswith("object") else dtype)  # refuses sizes that do not exist
            elif not is_known_dtype(dtype):
                raise ValueError(f"{dtype!r} is not a type of column that lbarn knows")
        if len(own.dtypes) != (1 if own.names is None else n_columns):
            raise ValueError("column types do not fit the number of columns")
        if own.names is not None:
            if len(own.names) != n_columns or len(set(own.names)) != n_columns:
                raise ValueError("column names do not fit the number of columns")
            for name in own.names:
                if isinstance(name, str):
                    name.encode()  # refuses what is not text
                elif type(name) is not int or library != "pandas":
                    raise ValueError(f"{name!r} is not the name of a column")
        return own


@dataclass(frozen=True)
class Table:
    """A checked view of the user's table. Values are read in chunks of rows; nothing is copied whole."""

    n_rows: int
    n_columns: int
    format: TableFormat
    binarize: float | None
    source: Any = field(repr=False)
    taken: NDArray[np.intp] | None = None  # the source's columns in another order, -1 for one that it does not have
    last: Column | None = None  # one more column, after those of the source

    def give(self, X: NDArray[Any], dtype: Any = None) -> Any:
        """An array of as many rows in the same sort of table, pandas' index included."""
        return self.with_index(self.format.give(X, dtype))

    def with_index(self, given: Any) -> Any:
        """A table of as many rows with the index of this one, if there is such a thing."""
        if self.format.library == "pandas":
            given.index = nw.maybe_get_index(self.source)
        return given

    def column(self, j: int, rows: slice = slice(None)) -> Column:
        """The values of a column, thresholded if the model does that."""
        label = self.format.label(j)
        if self.last is not None and j == self.n_columns - 1:
            return self.last.take(rows)
        k = j if self.taken is None else int(self.taken[j])
        if k < 0:
            n = len(range(*rows.indices(self.n_rows)))
            return Column("number", np.zeros(n), np.ones(n, np.bool_), pa.float64())
        if isinstance(self.source, nw.DataFrame):
            column = as_column(self.source[:, k][rows], label)  # rows first would cut all columns of a wide table
        elif sp.issparse(self.source):
            column = plain_array(self.source[rows][:, [k]].toarray()[:, 0], label)
        else:
            column = plain_array(self.source[rows, k], label)
        if self.binarize is None:
            return column
        if column.sort not in ("number", "boolean"):
            raise ValueError(f"{label} holds {column.sort}s; binarize= takes numbers only")
        return replace(column, sort="number", values=(column.values > self.binarize).astype(np.int64))

    def columns(self, rows: slice = slice(None)) -> Iterator[Column]:
        return (self.column(j, rows) for j in range(self.n_columns))

    def is_binary(self) -> tuple[bool, bool]:
        """Whether all values are 0, 1 or missing, and whether some are missing."""
        if self.last is not None:
            return False, False
        if isinstance(self.source, np.ndarray) and self.source.dtype.kind not in "biuf":
            return False, False
        if isinstance(self.source, nw.DataFrame) and not all(map(_may_be_binary, self.source.iter_columns())):
            return False, False
        some = False
        try:
            for _, _, missing in self.chunks():
                some = some or missing is not None
        except NotBinaryError:
            return False, False
        return True, some

    def chunks(self) -> Iterator[tuple[int, Bits, Bits | None]]:
        """(first row, values, missing or None) for successive chunks of rows."""
        step = max(1, _CHUNK_VALUES // max(1, self.n_columns))
        for start in range(0, self.n_rows, step):
            values, missing = self._checked(self.raw(start, min(start + step, self.n_rows)), start)
            yield start, values, missing

    def complete_chunks(self) -> Iterator[tuple[int, Bits]]:
        """(first row, values) for successive chunks of rows; a missing value is an error."""
        for start, values, missing in self.chunks():
            if missing is not None:
                i, j = np.argwhere(missing)[0]
                raise self._missing(j, start + i)
            yield start, values

    def refuse_missing(self) -> None:
        """Raise an error if any value is missing."""
        for j, column in enumerate(self.columns()):
            if column.missing.any():
                raise self._missing(j, int(column.missing.argmax()))

    def _missing(self, j: int, row: int) -> ValueError:
        return ValueError(
            f"{self.format.label(j)} is missing (Input X contains NaN, row {row}, counted from 0); complete rows are needed "
            "here: impute fills them, score_samples scores what is there"
        )

    def complete(self) -> Bits:
        """All rows at once; a missing value is an error."""
        return np.concatenate([values for _, values in self.complete_chunks()])

    def all_rows(self) -> tuple[Bits, Bits | None]:
        """All values at once, and where they are missing (None: nowhere)."""
        chunks = list(self.chunks())
        values = np.concatenate([values for _, values, _ in chunks])
        if all(missing is None for _, _, missing in chunks):
            return values, None
        holes = [np.zeros_like(values) if missing is None else missing for _, values, missing in chunks]
        return values, np.concatenate(holes)

    def pack(self) -> tuple[PackedBits, PackedBits | None]:
        """The bits, columns as they are, and where they are missing (None: nowhere)."""
        parts, holes = [], []
        for _, values, missing in self.chunks():
            parts.append(pack(values))
            holes.append(None if missing is None else pack(missing))
        if all(hole is None for hole in holes):
            return PackedBits.concatenate(parts), None
        missing_parts = [
            hole or PackedBits(np.zeros_like(part.rows), part.n_columns) for part, hole in zip(parts, holes)
        ]
        return PackedBits.concatenate(parts), PackedBits.concatenate(missing_parts)

    def take(self, rows: NDArray[np.intp]) -> Table:
        """The rows with these numbers, in this order."""
        last = None if self.last is None else self.last.take(rows)
        return replace(self, n_rows=len(rows), source=self.source[rows, :], last=last)

    def with_last(self, name: Label, column: Column, dtype: str) -> Table:
        """The same with one more column, of a type that pandas calls so; where columns have no names it has none."""
        names, dtypes = self.format.names, self.format.dtypes
        own = self.format if names is None else replace(self.format, names=(*names, name), dtypes=(*dtypes, dtype))
        return replace(self, n_columns=self.n_columns + 1, format=own, last=column)

    def stacked(self, below: Table) -> Any:
        """The rows of both in the sort of table that this one is, as they came."""
        if sp.issparse(self.source) and sp.issparse(below.source):
            return sp.vstack([self.source, below.source], format="csr")
        values = np.concatenate([self.raw(0, self.n_rows), below.raw(0, below.n_rows)])
        return self.format.give(values, values.dtype)

    def raw(self, start: int, stop: int) -> NDArray[Any]:
        """These rows as they came."""
        rows = self.source[start:stop]
        if isinstance(rows, np.ndarray):
            if rows.dtype.kind in "OU":
                raise ValueError("X holds strings or other objects; this model takes 0 and 1")
            return rows
        if sp.issparse(rows):
            return rows.toarray()
        labels = self.format.labels(self.n_columns)
        wanted = range(self.n_columns) if self.taken is None else self.taken.tolist()
        absent = np.full(len(rows), np.nan)
        own = list(rows.iter_columns())  # one at a time is slow if there are thousands
        return np.column_stack(
            [absent if k < 0 else _column_values(own[k], labels[j], j) for j, k in enumerate(wanted)]
        )

    def _checked(self, X: NDArray[Any], start: int) -> tuple[Bits, Bits | None]:
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
            raise NotBinaryError(self.format.label(j), X[i, j].item(), start + int(i))
        return values, missing

    def like(
        self, model: TableFormat, n_columns: int, *, partial: bool = False, optional: Collection[int] = ()
    ) -> Table:
        """The same rows with the columns of a model: by name if both have names, otherwise by position.

        Columns that the model does not have are left out with a warning. Those that are missing here are an error, unless they
        are ``optional``, or the table is ``partial``: then they have no values.
        """
        own, wanted = self.format.names, model.names
        if own is None or wanted is None or own == wanted:
            if self.n_columns != n_columns and self.n_columns == n_columns - len(optional):
                taken = np.full(n_columns, -1)
                taken[[j for j in range(n_columns) if j not in optional]] = np.arange(self.n_columns)
                own_format = replace(self.format, as_digits=model.as_digits)
                return replace(self, n_columns=n_columns, format=own_format, taken=taken)
            if self.n_columns != n_columns:
                raise ValueError(
                    f"X has {self.n_columns} features, but LBARN is expecting {n_columns} features as input"
                )
            return replace(self, format=replace(self.format, as_digits=model.as_digits))
        place = {name: k for k, name in enumerate(own)}
        absent = [name for j, name in enumerate(wanted) if name not in place and j not in optional]
        extra = [name for name in own if name not in set(wanted)]
        if absent and (not partial or len(absent) == len(wanted)):
            also = f"; the columns {some(extra)} are not in the model" if extra else ""
            raise ValueError(f"X has no column {some(absent)}, which the model has{also}")
        if extra and partial:
            raise ValueError(f"the model has no column {some(extra)}; its columns are {some(wanted)}")
        if extra:
            warnings.warn(f"columns that the model does not have are ignored: {some(extra)}", stacklevel=5)
        taken = np.array([place.get(name, -1) for name in wanted])
        dtypes = tuple("float64" if k < 0 else self.format.dtypes[k] for k in taken)
        own_format = replace(self.format, names=wanted, dtypes=dtypes, as_digits=model.as_digits)
        return replace(self, n_columns=n_columns, format=own_format, taken=taken)


def some(names: Sequence[Any], most: int = 5) -> str:
    """A few names, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _may_be_binary(column: nw.Series[Any]) -> bool:
    if column.dtype in (nw.Int128, nw.UInt128):  # which NumPy does not have
        return False
    return column.dtype == nw.Boolean or column.dtype.is_numeric() or column.null_count() == len(column)


def _column_values(column: nw.Series[Any], label: Label, j: int) -> NDArray[Any]:
    if column.dtype == nw.Boolean:
        if column.null_count() == 0:
            return column.to_numpy().astype(bool)
        column = column.cast(nw.Float64)
    elif column.null_count() == len(column):
        return np.full(len(column), np.nan)  # tables have types of their own for columns without a single value
    elif column.dtype == nw.Unknown and (values := column.to_numpy()).dtype.kind in "biuf":
        return values  # the sparse columns of pandas
    elif not column.dtype.is_numeric():
        raise ValueError(f"column {j} ({label!r}) is of type {column.dtype}; LBARN takes numbers or booleans, 0 and 1")
    elif column.null_count() or column.dtype.is_decimal():
        column = column.cast(nw.Float64)
    return column.to_numpy()


def _frame_format(frame: nw.DataFrame[Any]) -> TableFormat:
    as_digits: tuple[int, ...] = ()
    if frame.implementation.is_pyarrow():
        schema = frame.to_native().schema
        as_digits = tuple(j for j, own in enumerate(schema) if (own.metadata or {}).items() >= AS_DIGITS.items())
        if schema.metadata == UNNAMED:
            is_bits = all(kind == pa.bool_() for kind in schema.types)
            return TableFormat() if is_bits else TableFormat("pyarrow", None, ("uint8",), as_digits)
    names = {"modin": "pandas", "cudf": "pandas"}
    library = frame.implementation.name.lower()
    columns: list[Any] = frame.columns  # pandas has labels that are not strings
    labels = tuple(label if type(label) is int else str(label) for label in columns)
    own = names.get(library, library)
    if own == "pandas":
        native = frame.to_native()
        dtypes = tuple(_pandas_name(dtype, native, j) for j, dtype in enumerate(native.dtypes))
    else:
        dtypes = tuple(map(_numpy_name, frame.schema.values()))
    return TableFormat(own, labels, dtypes, as_digits)


def _pandas_name(dtype: Any, frame: Any, j: int) -> str:
    name = str(dtype)
    if name == "object":
        column = frame.iloc[:, j]
        return objects_name(column[column.isna()].iloc[:1].to_numpy())
    if name == "string":  # which does not tell how pandas stores them
        name = f"string[{dtype.storage}]"
    return name if is_known_dtype(name) else "float64" if getattr(dtype, "kind", "") in "biuf" else "object"


def _numpy_name(dtype: Any) -> str:
    """The type of NumPy that is nearest; tables of Arrow and polars have types of their own."""
    if dtype == nw.Boolean:
        return "bool"
    if not dtype.is_numeric():
        return "object"
    return str(dtype).lower() if dtype.is_integer() and "128" not in str(dtype) else "float64"


def _numbers(values: NDArray[Any], dtype: str) -> Column:
    """0 and 1, or other numbers, as a column of a type that NumPy, pandas or Arrow calls so."""
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), np.bool_)
    if dtype in ("bool", "boolean", "bool[pyarrow]"):
        return Column("boolean", np.where(missing, 0, values).astype(np.int64), missing, pa.bool_())
    name = dtype.lower().removesuffix("[pyarrow]")
    kind = {"float64": pa.float64(), "float32": pa.float32(), "float16": pa.float16(), "double": pa.float64()}.get(name)
    if kind is None:
        kind = arrow_type(name) if re.fullmatch(r"u?int\d+", name) else pa.float64()
    return Column("number", values.astype(np.int64 if pa.types.is_integer(kind) else np.float64), missing, kind)


def read_table(X: Any, *, binarize: float | None = None) -> Table:
    """Look at ``X`` without reading it all: NumPy, scipy.sparse, pandas, polars, Arrow or nested lists; or a Table."""
    if isinstance(X, Table):
        return X
    if sp.issparse(X):
        if X.ndim != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D array instead")
        X = X.tocsr()
        if X.dtype.kind not in "biuf":
            raise ValueError(f"X is of type {X.dtype}; LBARN takes numbers or booleans")
        return _sized(Table(X.shape[0], X.shape[1], TableFormat(dtypes=(str(X.dtype),)), binarize, X))
    frame = None if isinstance(X, np.ndarray) else _frame(X)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("X is a lazy table, which has not been computed yet; give X.collect()")
    if isinstance(frame, nw.DataFrame):
        return _sized(Table(len(frame), len(frame.columns), _frame_format(frame), binarize, frame))
    array = np.ma.filled(X.astype(np.float64), np.nan) if np.ma.isMaskedArray(X) else np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data: one row per observation, one column "
            "per variable (array.reshape(-1, 1) if there is one variable, array.reshape(1, -1) if there is one row)"
        )
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: LBARN takes real numbers")
    if array.dtype.kind not in "biufOUMm" or array.dtype in ("M8", "m8"):
        raise ValueError(f"X is of type {array.dtype}; LBARN takes numbers, booleans, strings and dates")
    if array.dtype.kind == "O":
        with nullcontext() if binarize is not None else suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    dtype = objects_name(array) if array.dtype.kind == "O" else str(array.dtype)
    return _sized(Table(array.shape[0], array.shape[1], TableFormat(dtypes=(dtype,)), binarize, array))


def _frame(X: Any) -> Any:
    """A table of any library as narwhals has it; anything else as it is, unless it is certainly no table."""
    if X is None or isinstance(X, (str, bytes, PathLike)):
        raise TypeError(f"X is {X!r}, not a table; read the file first, for example with pandas.read_csv")
    is_records = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping)
    if isinstance(X, Mapping) or is_records:
        raise TypeError(f"X is a {'list of dicts' if is_records else 'dict'}; pandas.DataFrame(X) makes a table of it")
    if isinstance(X, pa.Table):
        _check_names(X.schema.names)
        if any(map(pa.types.is_string_view, X.schema.types)):  # which cannot be taken by row
            own = [pa.field(f.name, pa.string()) if pa.types.is_string_view(f.type) else f for f in X.schema]
            X = X.cast(pa.schema(own, X.schema.metadata))
        return nw.from_native(X)
    if type(X).__module__.partition(".")[0] in ("pandas", "modin", "cudf") and hasattr(X, "columns"):
        _check_names(list(X.columns))
    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame) and hasattr(X, "__arrow_c_stream__"):  # of DuckDB, say
        return _frame(pa.table(X))
    return frame


def _check_names(names: Sequence[Any]) -> None:
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise ValueError(f"X has several columns named {some(twice)}; give every column a name of its own")


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


def read_like(
    X: Any, model: TableFormat, n_columns: int, *, binarize: float | None = None, optional: Collection[int] = ()
) -> Table:
    """``X`` with the columns of a model (see :meth:`Table.like`)."""
    return read_table(X, binarize=binarize).like(model, n_columns, optional=optional)


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    """The rows of ``X`` with these numbers, in this order, in the same sort of table.

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
    frame = _frame(X)
    return frame[rows, :].to_native() if isinstance(frame, nw.DataFrame) else np.asarray(X)[rows]
