"""Plain columns as a table of the library that the user's table came from, with its types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lbarn._tables.column import Column

__all__ = ["as_array", "as_table", "is_known_dtype"]

_PANDAS = re.compile(
    r"bool|boolean|U?[iI]nt\d\d?|uint\d\d?|[fF]loat\d\d?|str|string|string\[\w+\]|large_string\[pyarrow\]|object|category"
    r"|datetime64\[[\w/+:, -]{1,64}\]|timedelta64\[\w{1,2}\]|[\w\[\], ./+:()=-]{1,80}\[pyarrow\]"
)


def is_known_dtype(name: str) -> bool:
    """Whether this is how pandas calls a type of column that lbarn takes."""
    return _PANDAS.fullmatch(name) is not None


def as_table(library: Any, names: Sequence[Any], columns: Sequence[Column], dtypes: Sequence[str]) -> Any:
    """A table of pandas, polars or pyarrow."""
    try:
        if library == "pandas":
            import pandas as pd

            frame = pd.DataFrame(
                {k: _pandas(column, dtype) for k, (column, dtype) in enumerate(zip(columns, dtypes))}, copy=False
            )
            frame.columns = pd.Index(list(names))
            return frame
        if library == "polars":
            import polars as pl

            return pl.DataFrame([_polars(name, column) for name, column in zip(names, columns)])
    except ImportError as error:
        raise ImportError(
            f"the model was fitted on a {library} table and gives one back; pip install 'lbarn[tables]'"
        ) from error
    return pa.table([_dictionary(column) for column in columns], names=list(names))


def _levels(column: Column) -> list[str]:
    """The categories of a column, and behind them what else it holds."""
    known = list(column.categories or ())
    return known + sorted({text for text in pc.unique(column.texts()).to_pylist() if text is not None} - set(known))


def _dictionary(column: Column) -> pa.Array:
    """Categories as Arrow has them."""
    array = column.arrow()
    if column.categories is None:
        return array
    levels = pa.array(_levels(column), pa.string())
    index = pc.index_in(column.texts(), value_set=levels, skip_nulls=True)
    return pa.DictionaryArray.from_arrays(index, levels.cast(column.type), ordered=column.ordered)


def _polars(name: Any, column: Column) -> Any:
    import polars as pl

    series = pl.Series(str(name), pl.from_arrow(column.arrow()))
    if column.categories is None:
        return series
    return series.cast(pl.Enum(_levels(column)) if column.ordered else pl.Categorical)


def _pandas(column: Column, dtype: str) -> Any:
    import pandas as pd

    if column.categories is not None:
        texts = pa.array(_levels(column), pa.string())
        index = pc.index_in(column.texts(), value_set=texts, skip_nulls=True).fill_null(-1)
        levels = pd.Index(texts.cast(column.type).to_pandas())
        return pd.Series(pd.Categorical.from_codes(np.asarray(index), levels, ordered=column.ordered))
    array = column.arrow()
    if dtype.endswith("[pyarrow]") and not dtype.startswith("string["):
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))).astype(dtype)
    if re.fullmatch(r"U?Int\d\d?", dtype) and column.missing.any():
        values = column.values.astype(np.int64)
        return pd.Series(pd.arrays.IntegerArray(values, column.missing.copy())).astype(dtype)
    series = array.to_pandas()
    if dtype == "object" or series.dtype == dtype:
        return series.astype(dtype)
    if column.missing.any() and re.fullmatch(r"u?int\d\d?|bool", dtype):
        return series.astype(np.float64)  # NumPy's whole numbers have no missing value
    return series.astype(dtype)


def as_array(columns: Sequence[Column], dtype: str) -> Any:
    """A NumPy array."""
    if dtype == "object" or (np.dtype(dtype).kind in "biuf" and any(c.sort in ("string", "time") for c in columns)):
        return np.array([_objects(column) for column in columns], dtype=object).T.copy()
    if np.dtype(dtype).kind in "US":
        return np.array([column.texts().to_pylist() for column in columns]).T.copy()
    values = np.column_stack([_array(column) for column in columns])
    missing = np.column_stack([column.missing for column in columns])
    if missing.any():
        values = np.where(missing, np.nan, values)
    kind = np.dtype(dtype)
    return values.astype(kind if kind.kind == "f" or not missing.any() else np.float64)


def _array(column: Column) -> NDArray[Any]:
    if isinstance(column.values, np.ndarray):
        return column.values
    return np.asarray(column.arrow().to_numpy(zero_copy_only=False))


def _objects(column: Column) -> list[Any]:
    return [None if gone else value for gone, value in zip(column.missing, column.arrow().to_pylist())]
