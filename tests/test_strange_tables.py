"""Strange tables have the right result, or one clear error that names the column and how to mend it."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lbarn
from lbarn import LBARN

N = 60
RNG = np.random.default_rng(0)
OTHER = np.arange(N) % 5
FEW = {"max_iter": 2, "max_leaf_nodes": 3, "random_state": 0}
pytestmark = [
    pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising"),
    pytest.mark.filterwarnings("ignore:some rows have missing values"),
    pytest.mark.filterwarnings("ignore:column .* has no values"),
]


class Size(enum.Enum):
    SMALL = 1
    LARGE = 2


def beside(values: Any) -> pd.DataFrame:
    return pd.DataFrame({"x": values, "other": OTHER})


def objects(*values: Any) -> pd.Series:
    return pd.Series([values[k % len(values)] for k in range(N)], dtype=object)


FINE: dict[str, Any] = {
    "three rows": pd.DataFrame({"x": [1.5, 2, 3], "y": ["a", "b", "c"]}),
    "one column": pd.DataFrame({"x": RNG.normal(size=N)}),
    "one column of one value": pd.DataFrame({"x": ["a"] * N}),
    "one empty column": pd.DataFrame({"x": [None] * N}),
    "nothing but constants": pd.DataFrame({"x": [3] * N, "s": ["a"] * N, "r": [1.5] * N, "b": [True] * N}),
    **{
        f"an empty column of {dtype}": beside(pd.Series([None] * N, dtype=dtype))
        for dtype in (
            "object",
            "float64",
            "Int64",
            "UInt8",
            "boolean",
            "str",
            "category",
            "datetime64[us]",
            "timedelta64[s]",
        )
    },
    "booleans and None": beside(objects(True, None, False)),
    "thousands of levels": pd.DataFrame({"x": [f"level {k % 3000}" for k in range(6000)], "y": np.arange(6000) % 5}),
    "thousands of unused levels": beside(pd.Categorical(["c1", "c2"] * 30, [f"c{k}" for k in range(5000)])),
    "thousands of ordered levels": beside(
        pd.Categorical([f"c{7 * k}" for k in range(N)], [f"c{k}" for k in range(3000)], ordered=True)
    ),
    "the ends of int64": beside(np.array([2**63 - 1, -(2**63), 0] * 20)),
    "near 2**62": beside(np.array([2**62 - k for k in range(N)])),
    "near 2**61": beside(np.array([2**61 - 1 - k for k in range(N)])),
    "near -2**61": beside(np.array([1 - 2**61 + k for k in range(N)])),
    "unsigned": beside(np.arange(N).astype(np.uint64)),
    "durations": beside(pd.to_timedelta(np.arange(N), unit="min")),
    "Decimal": beside([Decimal(k) / 100 for k in range(N)]),
    "Decimal and None": beside(objects(Decimal("1.10"), None, Decimal("2.25"))),
    "times of day": beside([dt.time(k % 24, k) for k in range(N)]),
    "days far away": beside([dt.date(1, 1, 1), dt.date(9999, 12, 31)] * 30),
    "seconds far away": beside(np.array(["0001-01-01", "9999-12-31"] * 30, dtype="M8[s]")),
    "long strings": beside([("a" if k % 2 else "b") * 100_000 for k in range(N)]),
    "zeros in strings": beside(["\x00", "a\x00b", "a"] * 20),
    "NaN among objects": beside(objects("a", np.nan, "b")),
    "NA among objects": beside(objects("a", pd.NA, "b")),
    "NaT among objects": beside(objects(pd.Timestamp("2020-01-01"), pd.NaT)),
    "small floats": beside(RNG.normal(size=N) * 1e-310),
    "large floats": beside(RNG.uniform(-1.7, 1.7, size=N) * 1e308),
    "half floats": beside(RNG.normal(size=N).astype(np.float16)),
    "categories that are dates": beside(pd.Categorical(pd.to_datetime(["2020-01-01", "2020-01-02"] * 30))),
    "categories that are floats": beside(pd.Categorical([0.1, 0.25] * 30)),
    "categories that are booleans": beside(pd.Categorical([True, False] * 30)),
    "the same number as a name and its string": pd.DataFrame({1: OTHER, "1": OTHER[::-1]}),
    "an empty name": pd.DataFrame({"": OTHER, "b": OTHER + 1}),
    "an index of two levels": beside(OTHER).set_index(pd.MultiIndex.from_arrays([OTHER, np.arange(N)])),
    "a null column of polars": pl.DataFrame({"x": [None] * N, "y": OTHER}),
    "a null column of Arrow": pa.table({"x": pa.nulls(N), "y": OTHER}),
    "levels of Arrow that are numbers": pa.table({"x": pa.array([1, 2] * 30).dictionary_encode(), "y": OTHER}),
    "levels of Arrow that are days": pa.table({"x": pa.array([dt.date(2020, 1, 1), None] * 30).dictionary_encode()}),
    "views of strings": pa.table({"x": pa.array(["a", "b"] * 30, pa.string_view()), "y": OTHER}),
    "several chunks": pa.table({"x": pa.chunked_array([[1, 2] * 15, [3, 4] * 15]), "y": OTHER}),
    "an array of days": np.array([["2020-01-01", "NaT"], ["2020-01-03", "2021-01-01"]] * 30, dtype="M8[D]"),
    "an array of hours": np.array([[3, 4], [5, 99]] * 30).astype("M8[h]"),
    "an array of durations": np.array([[3, 4], [5, 99]] * 30).astype("m8[m]"),
    "an array of objects": np.array([[1, "a", None], [2, "b", 3.5]] * 30, dtype=object),
    "an array of objects with NaN": np.array([["a", np.nan], ["b", "c"]] * 30, dtype=object),
    "nested lists": [[1, 2.5], [2, 3.5]] * 30,
}


@pytest.mark.parametrize("name", FINE)
def test_a_strange_table_is_learned_and_comes_back(name: str, tmp_path: Path) -> None:
    table = FINE[name]
    model = LBARN(**FEW).fit(table)
    assert np.isfinite(model.score_samples(table)).all()
    drawn = model.sample(30, random_state=0)
    assert np.isfinite(model.score_samples(drawn)).all()
    if isinstance(table, pd.DataFrame):
        assert drawn.dtypes.to_dict() == table.dtypes.to_dict()
    assert np.isfinite(model.log_marginal(table)).all()
    assert len(model.impute(table, random_state=0)) == len(table)
    assert len(lbarn.explain(model, table, n_rows=2)) == 2
    assert str(model.columns_[0].name) in repr(model.columns_)
    model.save(tmp_path / "model.lbarn")
    again = lbarn.load(tmp_path / "model.lbarn")
    back = again.decompress(model.compress(table))
    if isinstance(table, pd.DataFrame):
        pd.testing.assert_frame_equal(back, table.reset_index(drop=True))
    elif isinstance(table, pl.DataFrame):
        assert back.equals(table, null_equal=True)
    elif isinstance(table, pa.Table):
        assert back.to_pydict() == table.to_pydict()
    else:
        assert [*map(repr, back.ravel().tolist())] == [*map(repr, np.asarray(table).ravel().tolist())]


LOSSY: dict[str, Any] = {
    "numbers and strings": beside(objects(1, "a", 2.5, None)),
    "numbers and booleans": beside(objects(1, True, 2.5)),
    "days and strings": beside(objects(dt.date(2020, 1, 1), "x")),
    "numbers beyond int64": beside(np.array([2**64 - 1 - k for k in range(N)], np.uint64)),
    "long decimals": beside([Decimal(k) / 7 for k in range(N)]),
    "fractions": beside(objects(Fraction(1, 3), Fraction(2, 3))),
    "periods": beside(pd.period_range("2020-01", periods=12, freq="M").repeat(5)),
    "members of an enum": beside(objects(Size.SMALL, Size.LARGE)),
}


@pytest.mark.parametrize("name", LOSSY)
def test_what_has_to_be_read_with_loss_is_learned_but_not_compressed(name: str) -> None:
    table = LOSSY[name]
    model = LBARN(**FEW).fit(table)
    assert np.isfinite(model.score_samples(table)).all()
    assert np.isfinite(model.score_samples(model.sample(20, random_state=0))).all()
    with pytest.raises(ValueError, match=r"column 0 \('x'\) cannot be compressed without loss"):
        model.compress(table)


TYPE = r"column 0 \('x'\) is of type .*; LBARN takes numbers, .*or leave it out with columns={...: 'drop'}"
HOLDS = r"column 0 \('x'\) holds .*or leave the column out with columns={...: 'drop'}"
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "no rows": (beside(OTHER)[:0], ValueError, r"0 sample\(s\)"),
    "one row": (beside(OTHER)[:1], ValueError, "give more rows, or X_val"),
    "no columns": (pd.DataFrame(index=range(5)), ValueError, r"0 feature\(s\)"),
    "lists": (beside(objects([1, 2])), ValueError, TYPE),
    "lists of several lengths": (beside(objects([1], [], [1, 2])), ValueError, TYPE),
    "dicts": (beside(objects({"a": 1})), ValueError, TYPE),
    "bytes": (beside(objects(b"a", b"b")), ValueError, TYPE),
    "identifiers": (
        beside([uuid.UUID(int=k % 3) for k in range(N)]),
        ValueError,
        r"column 0 \('x'\) (is of type|holds)",
    ),
    "complex numbers": (beside(RNG.normal(size=N) + 1j), ValueError, TYPE),
    "lists among strings": (beside(objects("a", ["b"])), TypeError, HOLDS),
    "intervals": (beside(pd.cut(RNG.normal(size=N), 3)), ValueError, "turn them into strings"),
    "infinity": (beside([np.inf] + [1.5] * (N - 1)), ValueError, r"column 0 \('x'\) holds inf .*use a finite number"),
    "infinite Decimal": (
        beside(objects(Decimal("Infinity"), Decimal(1))),
        ValueError,
        r"\('x'\) holds .*use a finite number",
    ),
    "surrogates": (beside(objects("\ud800", "a")), ValueError, r"\('x'\) holds .*not valid Unicode; mend the string"),
    "names that are there twice": (
        beside(OTHER).set_axis(["a", "a"], axis=1),
        ValueError,
        "columns named 'a'; give every",
    ),
    "the same in Arrow": (
        pa.Table.from_arrays([pa.array(OTHER)] * 2, ["a", "a"]),
        ValueError,
        "columns named 'a'; give every",
    ),
    "structs": (pl.DataFrame({"x": [{"a": 1}] * N, "y": OTHER}), ValueError, TYPE),
    "lists of polars": (pl.DataFrame({"x": [[1, 2]] * N, "y": OTHER}), ValueError, TYPE),
    "128 bits": (pl.DataFrame({"x": pl.Series(range(N), dtype=pl.Int128)}), ValueError, "Int128; cast it to 64-bit"),
    "a lazy table": (pl.DataFrame({"x": OTHER}).lazy(), TypeError, r"give X.collect\(\)"),
    "nested columns of Arrow": (pa.table({"x": pa.array([[1]] * N), "y": OTHER}), ValueError, TYPE),
    "an array of bytes": (np.array([[b"a", b"b"]] * N), ValueError, "X is of type"),
    "a dict": ({"a": [1, 2]}, TypeError, r"X is a dict; pandas.DataFrame\(X\)"),
    "records": ([{"a": 1}, {"a": 2}], TypeError, r"X is a list of dicts; pandas.DataFrame\(X\)"),
    "a file name": ("table.csv", TypeError, "read the file first"),
    "None": (None, TypeError, "X is None"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learned_is_refused_with_the_reason(name: str) -> None:
    table, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        LBARN(**FEW).fit(table)


@pytest.mark.parametrize(
    "values", [objects([1, 2]), objects({"a": 1}), objects(b"a"), RNG.normal(size=N) + 1j], ids=repr
)
def test_a_column_that_is_left_out_may_hold_anything(values: Any) -> None:
    frame = beside(values)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "validation log-likelihood")
        model = LBARN(**FEW, columns={"x": "drop"}).fit(frame, X_val=frame[:9])
        scores = model.score_samples(frame)
    np.testing.assert_array_equal(model.score_samples(frame[["other"]]), scores)
    assert list(model.sample(3).columns) == ["other"]


@pytest.mark.parametrize(
    "weight",
    [np.arange(N) % 2, np.where(np.arange(N) < 9, 1e300, 0), np.full(N, 1e-300)],
    ids=["0 and 1", "1e300", "1e-300"],
)
def test_weights_may_be_zero_or_of_any_size(weight: Any) -> None:
    frame = pd.DataFrame({"x": RNG.normal(size=N), "s": RNG.choice(["a", "b"], N), "k": OTHER, "e": [None] * N})
    model = LBARN(**FEW).fit(frame, sample_weight=weight)
    assert np.isfinite(model.score_samples(frame)).all()
    same = LBARN(**FEW).fit(frame, sample_weight=weight / weight.max())
    np.testing.assert_allclose(model.score_samples(frame), same.score_samples(frame))


SCORED: dict[str, tuple[str, Any]] = {  # column, and a value of another type that it takes
    "a number as a string": ("number", "7"),
    "a number between grid points": ("number", 7.5),
    "a boolean for a number": ("number", True),
    "a number beyond 64 bits": ("number", 10**30),
    "a level that is a number": ("level", 3),
    "a level that is a day": ("level", dt.date(2020, 1, 1)),
    "a day as a string": ("time", "2020-02-03"),
    "a day for a point in time": ("time", dt.date(2020, 1, 1)),
    "a point in time with a zone": ("time", pd.Timestamp("2020-01-01", tz="UTC")),
    "a boolean as a string": ("flag", "True"),
    "a boolean as a number": ("flag", 1.0),
    "a rank as a number": ("rank", 3),
    **{f"nothing for a {name}": (name, None) for name in ("number", "level", "time", "flag", "rank")},
}
MIXED = pd.DataFrame(
    {
        "number": RNG.integers(0, 30, N),
        "level": RNG.choice(list("abc"), N),
        "time": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 99, N), "h"),
        "flag": RNG.random(N) < 0.4,
        "rank": pd.Categorical(RNG.choice(["lo", "hi"], N), ["lo", "mid", "hi"], ordered=True),
    }
)


@pytest.fixture(scope="module")
def model() -> LBARN:
    return LBARN(**FEW).fit(MIXED)


@pytest.mark.parametrize("name", SCORED)
def test_values_of_another_type_have_a_score(model: LBARN, name: str) -> None:
    column, value = SCORED[name]
    table = MIXED[:4].assign(**{column: pd.Series([value] * 4, dtype=object)})
    assert np.isfinite(model.score_samples(table)).all()
    assert np.isfinite(model.log_marginal(table)).all()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("number", "x", r"column 0 \('number'\) holds 'x' \(row 0.*it was numbers"),
        ("number", dt.date(2020, 1, 1), r"column 0 \('number'\) holds dates; it was numbers"),
        ("time", 3, r"column 2 \('time'\) holds numbers; it was timestamp"),
        ("time", "x", r"column 2 \('time'\) cannot be read as timestamp.*'x'"),
        ("time", dt.timedelta(1), r"column 2 \('time'\) cannot be read as timestamp"),
        ("flag", "yes", r"column 3 \('flag'\) holds 'yes' \(row 0.*it was booleans"),
        ("flag", 2, r"column 3 \('flag'\) holds 2"),
        ("level", [1], r"column 1 \('level'\) is of type list"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(model: LBARN, column: str, value: Any, message: str) -> None:
    table = MIXED[:4].assign(**{column: pd.Series([value] * 4, dtype=object)})
    with pytest.raises(ValueError, match=message):
        model.score_samples(table)
