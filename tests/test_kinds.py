"""What every column becomes: detected from type and values, or as the user says."""

from __future__ import annotations

import datetime as dt
import warnings
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lbarn import LBARN

N = 60
RNG = np.random.default_rng(0)
DAYS = [str(dt.date(2020, 1, 1) + dt.timedelta(days=k % 40)) for k in range(N)]

pytestmark = pytest.mark.filterwarnings("ignore:column .* has no values")


def fit(column: Any, kind: str | None = None, **parameters: Any) -> LBARN:
    """A model of one column, and of one that is not 0 and 1 beside it."""
    frame = pd.DataFrame({"x": column, "other": np.arange(N) % 5})
    columns = None if kind is None else {"x": kind}
    return LBARN(max_iter=2, random_state=0, columns=columns, **parameters).fit(frame)


DETECTED: dict[str, tuple[Any, str, str]] = {  # name: values, kind, step
    "whole numbers": (np.arange(N) % 17 - 3, "ordered", "1"),
    "a handful of whole numbers": (np.arange(N) % 3, "ordered", "1"),
    "whole numbers as floats": (np.arange(N) % 17 * 1.0, "ordered", "1"),
    "decimals": (np.arange(N) % 17 / 100, "ordered", "0.01"),
    "float32 without a grid": (RNG.normal(size=N).astype(np.float32), "continuous", "none"),
    "real numbers": (RNG.normal(size=N), "continuous", "none"),
    "0 and 1": (np.arange(N) % 2, "binary", ""),
    "0.0 and 1.0": (np.arange(N) % 2 * 1.0, "binary", ""),
    "booleans": (np.arange(N) % 2 == 0, "binary", ""),
    "0 and 1 as strings": ((np.arange(N) % 2).astype(str), "binary", ""),
    "numbers as strings": ((np.arange(N) % 7).astype(str), "ordered", "1"),
    "decimals as strings": ((np.arange(N) % 7 / 4).astype(str), "ordered", "0.01"),
    "short decimals as strings": ([f"{k % 7 / 4:g}" for k in range(N)], "ordered", "0.01"),
    "money as strings": ([f"{k % 7 / 4:.2f}" for k in range(N)], "ordered", "0.01"),
    "codes with zeros in front": ([f"{k % 7:03d}" for k in range(N)], "categorical", ""),
    "strings": (["red", "green", "blue"] * 20, "categorical", ""),
    "days as strings": (DAYS, "datetime", "day"),
    "points in time as strings": ([f"{day} 12:00:00" for day in DAYS], "datetime", "day"),
    "points in time": (pd.to_datetime(DAYS) + pd.to_timedelta(np.arange(N) % 24, unit="h"), "datetime", "hour"),
    "with a zone": (pd.to_datetime(DAYS).tz_localize("Europe/Berlin"), "datetime", "day"),
    "over a change of the clock": (pd.date_range("2020-03-01", periods=N, tz="Europe/Berlin"), "datetime", "hour"),
    "durations": (pd.to_timedelta(np.arange(N) % 24, unit="min"), "datetime", "minute"),
    "dates": ([dt.date(2020, 1, 1 + k % 20) for k in range(N)], "datetime", "day"),
    "categories": (pd.Categorical(["b", "a"] * 30), "categorical", ""),
    "ordered categories": (pd.Categorical(["b", "a"] * 30, ["b", "a", "c"], ordered=True), "ordered", "level"),
    "categories that are numbers": (pd.Categorical(np.arange(N) % 3), "categorical", ""),
    "one value": (np.full(N, 7), "ordered", "1"),
    "one string": (["same"] * N, "categorical", ""),
    "nothing": (np.full(N, np.nan), "categorical", ""),
    "nothing, as objects": ([None] * N, "categorical", ""),
    "objects of several types": ([1, "a", 2.5] * 20, "categorical", ""),
    "nullable integers": (pd.array([1, 2, None] * 20, "Int64"), "ordered", "1"),
    "numbers near the end of 64 bits": (np.array([2**63 - 1, -(2**63), 5] * 20), "continuous", "none"),
}


@pytest.mark.parametrize("name", DETECTED)
def test_a_kind_is_detected(name: str) -> None:
    values, kind, step = DETECTED[name]
    model = fit(values)
    column = model.columns_["x"]
    assert (column.kind, column.resolution) == (kind, step)
    assert column.measure == ("density" if kind == "continuous" else "mass")
    assert np.isfinite(model.score_samples(pd.DataFrame({"x": values, "other": np.arange(N) % 5}))).all()
    assert f">{kind}<" in model.columns_._repr_html_()
    assert model.columns_.to_dicts()[0]["kind"] == kind


def as_arrow(frame: pl.DataFrame) -> pa.Table:
    """With the ordered type of an Enum, which older versions of polars do not give it."""
    table = frame.to_arrow()
    levels = pa.array(frame["enum"].dtype.categories)
    enum = pa.DictionaryArray.from_arrays(frame["enum"].to_physical().to_arrow(), levels, ordered=True)
    return table.set_column(0, "enum", enum)


@pytest.mark.parametrize("library", [lambda frame: frame, as_arrow], ids=["polars", "arrow"])
def test_types_of_other_libraries_are_detected(library: Any) -> None:
    frame = pl.DataFrame(
        {
            "enum": pl.Series(["lo", "hi"] * 30, dtype=pl.Enum(["lo", "mid", "hi"])),
            "category": pl.Series(["lo", "hi"] * 30, dtype=pl.Categorical),
            "day": [dt.date(2020, 1, 1 + k % 20) for k in range(N)],
            "money": pl.Series(np.arange(N) % 13 / 100).cast(pl.Decimal(12, 2)),
            "clock": [dt.time(k % 24) for k in range(N)],
            "null": pl.Series([None] * N),
        }
    )
    found = LBARN(max_iter=2).fit(library(frame)).columns_
    assert [column.kind for column in found] == [
        "ordered",
        "categorical",
        "datetime",
        "ordered",
        "datetime",
        "categorical",
    ]
    assert found["enum"].levels == ("lo", "mid", "hi")
    assert found["money"].resolution == "0.01"


def test_strings_that_all_differ_are_left_out_and_named() -> None:
    with pytest.warns(
        UserWarning, match=r"column 0 \('x'\) is left out: every value is another string; columns="
    ) as told:
        model = fit([f"name {k}" for k in range(N)])
    assert len(told) == 1
    assert told[0].filename == __file__
    assert model.columns_["x"].kind == "left out"
    assert model.codebook_.n_columns == 1
    assert list(model.sample(3).columns) == ["other"]
    kept = fit([f"name {k}" for k in range(N)], "categorical")
    assert kept.columns_["x"].kind == "categorical"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(["a"] * N, "drop").columns_["x"].values == "as asked"


@pytest.mark.filterwarnings("ignore:column 0 .* is left out")
def test_a_table_with_nothing_left_is_refused() -> None:
    with pytest.raises(ValueError, match="no column is left to be modelled"):
        LBARN().fit(pd.DataFrame({"x": [f"name {k}" for k in range(N)]}))


def test_five_thousand_categories() -> None:
    n = 6000
    values = [f"level {k % 5000}" for k in range(n)]
    frame = pd.DataFrame({"x": values, "y": np.arange(n) % 7})
    model = LBARN(max_iter=2, random_state=0).fit(frame)
    found = model.columns_["x"]
    assert len(found.levels or ()) == 5000
    assert found.n_cells <= 257
    assert np.isfinite(model.score_samples(frame[:50])).all()
    p = model.conditional(frame[:2], "x").probability
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.shape == (2, 5000)
    assert set(model.sample(100, random_state=0)["x"]) <= set(values)


OVERRIDDEN: list[tuple[Any, str]] = [
    (np.arange(N) % 2, "ordered"),
    (np.arange(N) % 2, "categorical"),
    (np.arange(N) % 2, "continuous"),
    (np.arange(N) % 2 == 1, "categorical"),
    (np.arange(N) % 9, "categorical"),
    (np.arange(N) % 9, "continuous"),
    (np.arange(N) % 9 / 8, "categorical"),
    ([f"{k % 7:03d}" for k in range(N)], "ordered"),
    ([f"{k % 20}.0{k % 2}" for k in range(N)], "ordered"),
    (["red", "green", "blue"] * 20, "ordered"),
    (pd.Categorical(["b", "a"] * 30), "ordered"),
    (pd.Categorical(["b", "a"] * 30, ordered=True), "categorical"),
    (pd.to_datetime(DAYS), "categorical"),
    (DAYS, "categorical"),
    (pd.to_timedelta(np.arange(N) % 9, unit="min"), "categorical"),
    ([dt.time(k % 9, 30, k % 2) for k in range(N)], "categorical"),
    ([dt.date(2020, 1, 1 + k % 9) for k in range(N)], "categorical"),
    (DAYS, "datetime"),
]


@pytest.mark.parametrize(("values", "kind"), OVERRIDDEN, ids=[f"{k}-{kind}" for k, (_, kind) in enumerate(OVERRIDDEN)])
def test_the_user_says_what_a_column_is(values: Any, kind: str) -> None:
    model = fit(values, kind)
    assert model.columns_["x"].kind == kind
    frame = pd.DataFrame({"x": values, "other": np.arange(N) % 5})
    drawn = model.sample(20, random_state=0)
    assert drawn.dtypes.to_dict() == frame.dtypes.to_dict()
    assert set(drawn["x"]) <= set(frame["x"]) or kind == "continuous"
    assert np.isfinite(model.score_samples(drawn)).all()
    pd.testing.assert_frame_equal(model.decompress(model.compress(frame)), frame)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (np.arange(N), "binary", r"column 0 \('x'\) cannot be 'binary': it holds 2, not 0 and 1 only"),
        (["a", "b"] * 30, "binary", r"cannot be 'binary': it holds 'a', not 0 and 1"),
        (["a", "b"] * 30, "continuous", r"cannot be 'continuous': it holds 'a', not numbers"),
        (["a", "b"] * 30, "datetime", r"cannot be 'datetime': it holds 'a', not dates"),
        (np.arange(N), "datetime", "holds numbers, not dates"),
        (pd.to_datetime(DAYS), "continuous", "holds dates; it can be 'datetime' or 'categorical', not 'continuous'"),
        (pd.Categorical(["b", "a"] * 30), "continuous", "holds categories"),
        (RNG.normal(size=N), "ordered", "numbers that are on no grid; it can be 'continuous', not 'ordered'"),
        (np.arange(N), "numeric", "cannot be 'numeric'; the kinds are binary, categorical, ordered"),
    ],
    ids=str,
)
def test_a_kind_that_a_column_cannot_have_is_refused(values: Any, kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit(values, kind)


def test_a_column_that_is_not_there_cannot_have_a_kind() -> None:
    with pytest.raises(ValueError, match=r"columns: there is no column 'z'; the columns are 'x', 'other'"):
        LBARN(columns={"z": "ordered"}).fit(pd.DataFrame({"x": np.arange(N), "other": np.arange(N)}))


def test_columns_of_an_array_go_by_number() -> None:
    model = LBARN(max_iter=2, columns={1: "categorical"}).fit(np.column_stack([np.arange(N), np.arange(N) % 4]))
    assert [column.kind for column in model.columns_] == ["ordered", "categorical"]
    drawn = model.sample(30, random_state=0)
    assert drawn.dtype == np.int64
    assert set(drawn[:, 1]) <= {0, 1, 2, 3}


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused_by_name(value: float) -> None:
    values = RNG.normal(size=N)
    values[9] = value
    with pytest.raises(ValueError, match=rf"column 0 \('x'\) holds {value} \(Input X contains infinity, row 9"):
        fit(values)


def test_constant_columns_cost_nothing() -> None:
    frame = pd.DataFrame({"x": np.full(N, 7), "s": ["same"] * N, "y": np.arange(N) % 5})
    model = LBARN(max_iter=20, random_state=0).fit(frame)
    assert model.n_trees_[:2].tolist() == [0, 0]
    assert (model.surprise(frame)[:, :2] < 0.05).all()
    drawn = model.sample(50)
    assert (drawn["x"] == 7).all()
    assert (drawn["s"] == "same").all()


def test_categories_that_cannot_be_written_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"column 0 \('x'\) has categories of type .*turn them into strings"):
        fit(pd.cut(RNG.normal(size=N), 3))
