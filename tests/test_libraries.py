"""The library, types, categories, decimals, zones, index and missing markers that went in come back from every method."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lbarn
from lbarn import LBARN

N = 80
RNG = np.random.default_rng(0)
WHOLE, REAL = RNG.integers(0, 9, N), RNG.normal(size=N)
TEXT = RNG.choice(["a", "b", "c"], N)
TIMES = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 99, N), unit="h")
GAPS = np.arange(N) % 8 == 3
pytestmark = [
    pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising"),
    pytest.mark.filterwarnings("ignore:some rows have missing values"),
]


def with_gaps(values: Any) -> list[Any]:
    return [None if gap else value for gap, value in zip(GAPS, list(values))]


INDEX = pd.Index([f"row {k}" for k in range(N)], name="id")
PANDAS = pd.DataFrame(
    {
        "int8": WHOLE.astype(np.int8),
        "uint16": WHOLE.astype(np.uint16),
        "float32": REAL.astype(np.float32),
        "float64": pd.Series(with_gaps(np.round(REAL, 2)), dtype="float64"),
        "bool": WHOLE > 4,
        "Int64": pd.array(with_gaps(WHOLE), dtype="Int64"),
        "Float64": pd.array(with_gaps(REAL), dtype="Float64"),
        "boolean": pd.array(with_gaps(WHOLE > 4), dtype="boolean"),
        "int64[pyarrow]": pd.array(with_gaps(WHOLE), dtype="int64[pyarrow]"),
        "double[pyarrow]": pd.array(with_gaps(REAL), dtype="double[pyarrow]"),
        "string[pyarrow]": pd.array(with_gaps(TEXT), dtype="string[pyarrow]"),
        "str": pd.Series(with_gaps(TEXT), dtype="str"),
        "object": pd.Series(with_gaps(TEXT), dtype=object),
        "category": pd.Categorical(with_gaps(TEXT), ["c", "b", "a", "never"]),
        "ordered": pd.Categorical(with_gaps(TEXT), ["c", "b", "a", "never"], ordered=True),
        "numbers as categories": pd.Categorical(with_gaps(WHOLE), range(10)),
        "datetime": TIMES,
        "datetime with a zone": pd.Series(TIMES).dt.tz_localize("UTC").dt.tz_convert("America/New_York").mask(GAPS),
        "timedelta": pd.Series(TIMES - TIMES[0]).mask(GAPS),
        "decimal": [Decimal(int(k)) / 4 for k in WHOLE],
    },
)
POLARS = pl.DataFrame(
    {
        "int": pl.Series(with_gaps(WHOLE), dtype=pl.Int16),
        "unsigned": pl.Series(WHOLE, dtype=pl.UInt8),
        "real": with_gaps(REAL),
        "float32": pl.Series(REAL, dtype=pl.Float32),
        "bool": with_gaps((WHOLE > 4).tolist()),
        "text": with_gaps(TEXT.tolist()),
        "enum": pl.Series(with_gaps(TEXT.tolist()), dtype=pl.Enum(["c", "b", "a", "never"])),
        "category": pl.Series(with_gaps(TEXT.tolist()), dtype=pl.Categorical),
        "date": pl.Series(with_gaps([dt.date(2020, 1, 1 + int(k)) for k in WHOLE])),
        "datetime": pl.Series(with_gaps(TIMES.to_pydatetime().tolist())).dt.replace_time_zone("Europe/Berlin"),
        "time": pl.Series(with_gaps([dt.time(int(k)) for k in WHOLE])),
        "duration": pl.Series(with_gaps([dt.timedelta(minutes=int(k)) for k in WHOLE])),
        "decimal": pl.Series(with_gaps([Decimal(int(k)) / 4 for k in WHOLE]), dtype=pl.Decimal(10, 2)),
    }
)
TABLES: dict[str, Any] = {
    "pandas": PANDAS.set_index(INDEX),
    "polars": POLARS,
    "pyarrow": POLARS.drop("enum", "category")
    .to_arrow()
    .append_column("level", pa.array(with_gaps(TEXT.tolist())).dictionary_encode()),
    "floats": np.column_stack([REAL, np.where(GAPS, np.nan, WHOLE)]),
    "float32": np.column_stack([REAL, WHOLE]).astype(np.float32),
    "ints": np.column_stack([WHOLE, WHOLE[::-1]]),
    "objects": np.column_stack([np.array(with_gaps(TEXT.tolist()), object), np.array(WHOLE.tolist(), object)]),
    "strings": np.column_stack([TEXT, WHOLE.astype(str)]),
}


@pytest.fixture(scope="module", params=TABLES)
def fitted(request: pytest.FixtureRequest) -> tuple[str, Any, LBARN]:
    table = TABLES[request.param]
    return request.param, table, LBARN(max_iter=2, max_leaf_nodes=3, random_state=0, max_cells=16).fit(table)


def assert_like(found: Any, table: Any) -> None:
    assert type(found) is type(table)
    if isinstance(table, pd.DataFrame):
        different = {
            name: (found[name].dtype, table[name].dtype) for name in table if found[name].dtype != table[name].dtype
        }
        assert not different
    elif isinstance(table, pl.DataFrame):
        assert found.schema == table.schema
    elif isinstance(table, pa.Table):
        assert found.schema.names == table.schema.names
        assert [str(kind) for kind in found.schema.types] == [str(kind) for kind in table.schema.types]
    else:
        assert found.dtype.kind == table.dtype.kind
        assert found.dtype == table.dtype or table.dtype.kind == "U"


def test_samples_are_like_the_table(fitted: Any) -> None:
    _, table, model = fitted
    drawn = model.sample(60, random_state=0)
    assert_like(drawn, table)
    assert np.isfinite(model.score_samples(drawn)).all()
    assert_like(model.sample(3, given=drawn[:2], random_state=0), table)


def test_filled_tables_are_like_the_table_and_keep_what_was_there(fitted: Any) -> None:
    _, table, model = fitted
    outputs = ("sample", "mode", "mean", "median")
    for output in outputs:
        filled = model.impute(table, output=output, random_state=0)
        assert_like(filled, table)
        assert n_missing(filled) == 0
        if isinstance(table, pd.DataFrame):
            pd.testing.assert_index_equal(filled.index, table.index)
            there = table.notna()
            assert (
                (filled.astype(object).where(there, None) == table.astype(object).where(there, None))
                .where(there, True)
                .all(axis=None)
            )


def n_missing(table: Any) -> int:
    if isinstance(table, np.ndarray):
        return int(pd.isna(table).sum())
    return sum(column.null_count() for column in nw.from_native(table, eager_only=True).iter_columns())


def test_missing_markers_come_back(fitted: Any) -> None:
    name, table, model = fitted
    if n_missing(table) == 0:
        return
    drawn = model.sample(300, random_state=0)
    assert n_missing(drawn) > 0, "what was missing is learned and drawn"
    if name == "pandas":
        for column in table:
            markers = [{type(value) for value in frame[column][frame[column].isna()]} for frame in (drawn, table)]
            assert not markers[0] or markers[0] == markers[1], column


def test_compressed_tables_come_back(fitted: Any) -> None:
    name, table, model = fitted
    back = model.decompress(model.compress(table))
    assert_like(back, table)
    if name == "pandas":
        pd.testing.assert_frame_equal(back, table.reset_index(drop=True))
    elif isinstance(table, np.ndarray):
        assert all(a == b or (pd.isna(a) and pd.isna(b)) for a, b in zip(back.ravel().tolist(), table.ravel().tolist()))
    else:
        assert back.equals(table)


def test_files_give_tables_of_the_same_sort(fitted: Any, tmp_path: Any) -> None:
    _, table, model = fitted
    model.save(tmp_path / "model.lbarn")
    again = lbarn.load(tmp_path / "model.lbarn")
    drawn = again.sample(20, random_state=0)
    assert_like(drawn, table)
    np.testing.assert_array_equal(again.score_samples(table), model.score_samples(table))


def test_all_methods_take_the_table(fitted: Any) -> None:
    _, table, model = fitted
    n = N
    assert model.surprise(table).shape == (n, model.codebook_.n_columns)
    np.testing.assert_allclose(-model.surprise(table).sum(axis=1), model.score_samples(table), atol=1e-8)
    assert np.isfinite(model.log_marginal(table)).all()
    assert np.isfinite(model.cumulative_score(table)).all()
    labels = list(model.table_format_.labels(model.n_features_in_))
    for label in labels[:4]:
        ahead = model.conditional(table, label)
        np.testing.assert_allclose(ahead.probability.sum(axis=1), 1.0)
        assert len(ahead.mode()) == n


def test_columns_go_by_name_and_those_left_out_may_be_absent() -> None:
    frame = PANDAS[["int8", "category", "datetime"]].assign(name=[f"name {k}" for k in range(N)])
    with pytest.warns(UserWarning, match="'name'.* is left out"):
        model = LBARN(max_iter=2, random_state=0).fit(frame)
    scores = model.score_samples(frame)
    np.testing.assert_array_equal(model.score_samples(frame[frame.columns[::-1]]), scores)
    np.testing.assert_array_equal(model.score_samples(frame.drop(columns="name")), scores)
    with pytest.warns(UserWarning, match="columns that the model does not have are ignored: 'more'"):
        np.testing.assert_array_equal(model.score_samples(frame.assign(more=1)), scores)
    with pytest.raises(ValueError, match="X has no column 'category'"):
        model.score_samples(frame.drop(columns="category"))
    assert list(model.sample(2).columns) == ["int8", "category", "datetime"]
