"""What is compressed comes back to the last bit, whatever the table, or the data is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lbarn
from lbarn import LBARN, CompressedDataError
from lbarn._engine.trees import boundaries

FEW = {"max_iter": 2, "max_leaf_nodes": 3, "learning_rate": 0.3, "random_state": 0}
ODD = [0.0, -0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1e300, -1e300, 0.1, 1 / 3, 2.0**53, np.nan]
pytestmark = [
    pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising"),
    pytest.mark.filterwarnings("ignore:column .* has no values"),
]


def assert_comes_back(model: LBARN, frame: pd.DataFrame) -> None:
    back = model.decompress(model.compress(frame))
    pd.testing.assert_frame_equal(back, frame)
    for name in frame:
        if frame[name].dtype.kind == "f":
            one, other = frame[name].to_numpy(), back[name].to_numpy()
            whole = np.dtype(f"i{one.dtype.itemsize}")
            assert ((one.view(whole) == other.view(whole)) | np.isnan(one)).all(), "negative zero and subnormals too"


FLOATS = st.one_of(st.sampled_from(ODD), st.floats(allow_infinity=False), st.integers(-9, 9).map(float))
WORDS = ["a", "b", "", " ", "\N{GRINNING FACE}", "007", "1e3", "nan"]
TEXTS = st.one_of(st.sampled_from(WORDS), st.text(st.characters(codec="utf-8"), max_size=4), st.none())
TIMES = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
COLUMNS: dict[str, tuple[Any, Any]] = {  # values, and the type of pandas
    "float": (FLOATS, "float64"),
    "single": (st.floats(allow_infinity=False, width=32), "float32"),
    "grid": (st.one_of(st.integers(-300, 300).map(lambda k: k / 100), st.none()), "float64"),
    "int": (st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1)), "int64"),
    "nullable": (st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.none()), "Int64"),
    "unsigned": (st.integers(0, 2**63 - 1), "uint64"),
    "text": (TEXTS, "str"),
    "objects": (TEXTS, object),
    "written": (st.one_of(st.integers(0, 99).map(str), st.sampled_from(["7", "7.0", "+7", " 7"])), "str"),
    "money": (st.one_of(st.integers(0, 999).map(lambda k: f"{k / 100:.2f}"), st.none()), "str"),
    "repr": (st.integers(0, 999).map(lambda k: repr(k / 4)), "str"),
    "bool": (st.booleans(), "bool"),
    "maybe": (st.sampled_from([True, False, None]), "boolean"),
    "level": (st.sampled_from(["x", "y", None]), pd.CategoricalDtype(["y", "x", "never"])),
    "rank": (st.sampled_from(["x", "y", None]), pd.CategoricalDtype(["y", "x", "never"], ordered=True)),
    "time": (st.one_of(TIMES, st.none()), "datetime64[us]"),
    "zone": (TIMES, pd.DatetimeTZDtype("us", "Asia/Tokyo")),
    "duration": (st.timedeltas(dt.timedelta(days=-9), dt.timedelta(days=99)), "timedelta64[us]"),
}


@settings(max_examples=60)
@given(st.data())
def test_the_table_that_a_model_was_fitted_on_comes_back(data: Any) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=3, unique=True))
    rows = data.draw(st.lists(st.tuples(*(COLUMNS[name][0] for name in names)), min_size=3, max_size=30))
    frame = pd.DataFrame(
        {name: pd.Series([row[k] for row in rows], dtype=COLUMNS[name][1]) for k, name in enumerate(names)}
    )
    max_cells = data.draw(st.sampled_from([2, 8, 256]))
    assert_comes_back(LBARN(**FEW, max_cells=max_cells, columns=_kept(frame)).fit(frame), frame)


def _kept(frame: pd.DataFrame) -> dict[str, str]:
    """Strings that all differ would be left out."""
    texts = ("text", "objects", "written", "money", "repr")
    return {
        name: "categorical" for name in frame if name in texts and frame[name].nunique() == frame[name].count() > 20
    }


def train(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "real": rng.normal(size=n),
            "grid": np.round(rng.normal(size=n), 2),
            "int": rng.integers(0, 30, n),
            "text": rng.choice(["a", "b", "c"], n),
            "level": pd.Categorical(rng.choice(["x", "y"], n), ["x", "y", "never"]),
            "rank": pd.Categorical(rng.choice(["lo", "mid"], n), ["lo", "mid", "hi"], ordered=True),
            "time": pd.Timestamp("2020-01-01", tz="Europe/Berlin") + pd.to_timedelta(rng.integers(0, 999, n), unit="h"),
            "written": rng.integers(0, 30, n).astype(str),
            "day": [str(dt.date(2020, 1, 1 + int(k))) for k in rng.integers(0, 28, n)],
        }
    )


@pytest.fixture(scope="module")
def model() -> LBARN:
    return LBARN(**FEW, max_cells=8).fit(train())


def test_other_rows_than_those_that_were_learned_come_back(model: LBARN) -> None:
    odd = train(12)
    odd["real"] = [*ODD[:-1], -1.7e308, 42.0]
    odd["grid"] = [0.005, -0.0, 1e300, 5e-324, 0.01, 99.99, -99.99, 1 / 3, 0.0, 1.0, 2.0, 1e-9]
    odd["int"] = [2**63 - 1, -(2**63), 2**53 + 1, 0, 1, 2, -1, 10**18, 5, 6, 7, 8]
    odd["text"] = ["new", "", "\N{GRINNING FACE}", "a", "007", " a", "A", "b", "c", "\x00", "\n", "ä"]
    odd["written"] = ["007", "7", "+7", "7.0", "1e2", "99999", "3", "4", "5", "6", "7", " 8"]
    odd["day"] = ["2020-01-05", "1999-12-31", "2021-02-28", *["2020-01-01"] * 9]
    odd["rank"] = pd.Categorical(["hi", *["lo", "mid"] * 5, "lo"], ["lo", "mid", "hi"], ordered=True)
    odd["level"] = pd.Categorical(["never", *["x", "y"] * 5, "x"], ["x", "y", "never"])
    odd["time"] = (
        pd.to_datetime(["1970-01-01 00:00:00.000001", *["2200-01-01 00:00:00.000000"] * 11])
        .as_unit("us")
        .tz_localize("Europe/Berlin")
    )
    if odd["time"].dtype != train()["time"].dtype:
        odd["time"] = odd["time"].astype(train()["time"].dtype)
    assert_comes_back(model, odd)


def test_levels_that_the_categories_do_not_have_come_back_behind_them(model: LBARN) -> None:
    odd = train(4)
    odd["level"] = pd.Categorical(["x", "newer", "new", "y"], ["x", "y", "never", "new", "newer"])
    assert_comes_back(model, odd)


def test_tables_one_after_the_other_come_back_as_one(model: LBARN) -> None:
    frame = train()
    parts = iter([frame[:50], frame[50:51], frame[51:]])
    pd.testing.assert_frame_equal(model.decompress(model.compress(parts)), frame)


def test_compression_is_about_as_short_as_the_model_says() -> None:
    frame = train(2000)[["grid", "int", "text", "level"]]
    model = LBARN(**FEW).fit(frame)
    bytes_expected = -model.score_samples(frame).sum() / np.log(2) / 8
    assert bytes_expected < len(model.compress(frame)) < 1.02 * bytes_expected + 400


def test_other_libraries_come_back() -> None:
    polars = pl.DataFrame(
        {
            "money": pl.Series([Decimal("1.10"), None, Decimal("-7.25"), Decimal("0.05")] * 9, dtype=pl.Decimal(12, 2)),
            "day": [dt.date(2020, 1, 1), None, dt.date(1969, 12, 31), dt.date(2020, 2, 29)] * 9,
            "rank": pl.Series(["lo", "hi", None, "lo"] * 9, dtype=pl.Enum(["lo", "mid", "hi"])),
            "level": pl.Series(["lo", "hi", None, "lo"] * 9, dtype=pl.Categorical),
            "small": pl.Series([1, None, -128, 127] * 9, dtype=pl.Int8),
            "when": pl.Series([dt.datetime(2020, 1, 1, 3), None] * 18).dt.replace_time_zone("Europe/Berlin"),
        }
    )
    model = LBARN(**FEW).fit(polars)
    back = model.decompress(model.compress(polars))
    assert back.equals(polars)
    assert back.schema == polars.schema
    arrow = polars.drop("level", "rank").to_arrow()
    model = LBARN(**FEW).fit(arrow)
    assert model.decompress(model.compress(arrow)).equals(arrow)
    array = np.random.default_rng(0).normal(size=(40, 3))
    array[3, 1], array[4, 1] = np.nan, -0.0
    model = LBARN(**FEW).fit(array)
    back = model.decompress(model.compress(array))
    np.testing.assert_array_equal(back, array)
    assert np.signbit(back[4, 1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pd.Series([1, "a", 2.5] * 10, dtype=object), "mixes types of values"),
        (pd.Series([2**64 - 1, 2**63, 5] * 10, dtype="uint64"), "neither a double nor a 64-bit integer"),
    ],
    ids=["objects of several types", "huge unsigned numbers"],
)
def test_what_cannot_come_back_is_refused(values: Any, message: str) -> None:
    frame = pd.DataFrame({"x": values})
    model = LBARN(**FEW).fit(frame)
    with pytest.raises(ValueError, match=message):
        model.compress(frame)


def test_values_that_the_type_of_the_model_cannot_hold_are_refused() -> None:
    model = LBARN(**FEW).fit(pd.DataFrame({"x": np.arange(30).astype(np.float32)}))
    assert_comes_back(model, pd.DataFrame({"x": np.array([0.5, 7.0], np.float32)}))
    for values in (np.array([0.1]), np.array([2**53 + 1])):
        with pytest.raises(ValueError, match=r"column 0 \('x'\) is of type .*cannot hold"):
            model.compress(pd.DataFrame({"x": values}))


# ---------------------------------------------------------------------- damaged data


def test_every_flipped_byte_is_noticed(model: LBARN) -> None:
    data = model.compress(train(3))
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 1 << at % 8
        with pytest.raises(CompressedDataError):
            model.decompress(bytes(damaged))
    for length in range(len(data)):
        with pytest.raises(CompressedDataError):
            model.decompress(data[:length])
    with pytest.raises(CompressedDataError):
        model.decompress(data + b"\0")


def test_another_model_is_noticed_if_only_its_codes_differ() -> None:
    """Trees that are the same, and levels that are not."""
    frame = train()[["text"]]
    one, other = LBARN(**FEW).fit(frame), LBARN(**FEW).fit(frame.replace({"a": "x"}).replace({"x": "aa"}))
    assert one.distribution.fingerprint() == other.distribution.fingerprint()
    with pytest.raises(CompressedDataError, match="another model"):
        other.decompress(one.compress(frame))


def test_more_rows_than_the_caller_takes_are_refused(model: LBARN) -> None:
    data = model.compress(train(9))
    assert len(model.decompress(data, max_rows=9)) == 9
    with pytest.raises(CompressedDataError, match="9 rows, more than max_rows=8"):
        model.decompress(data, max_rows=8)


def recorded(n: int) -> pa.Table:
    """Rows of every kind of column, the same everywhere; the last ones have what the first 200 do not."""
    k = np.arange(n)
    mixed_up = k * 7919 % 1009
    return pa.table(
        {
            "level": [f"level {m % 5}" if m % 50 else f"rare {m // 50}" for m in mixed_up.tolist()],
            "gaps": [None if m % 9 == 0 else "ä" * (m % 4) for m in mixed_up.tolist()],
            "heaped": pa.array(np.where(mixed_up % 3 == 0, 40, mixed_up % 90)),
            "wide": pa.array((mixed_up - 500) * 2**50 + k),
            "cents": pa.array(mixed_up / 100),
            "real": pa.array((mixed_up - 500) / 7 * np.where(k % 11 == 0, 0.0, 1.0)),
            "day": pa.array((18_000 + mixed_up).astype(np.int32)).cast(pa.date32()),
            "written": [f"{m % 60}" if i < 230 else f"0{m % 60}" for i, m in enumerate(mixed_up.tolist())],
            "yes": pa.array(mixed_up % 3 == 1),
        }
    )


def test_bytes_of_an_earlier_version_are_read_and_written_again() -> None:
    """They were written by another coder. A change here needs a new version number."""
    folder = Path(__file__).parent / "golden"
    model, data = lbarn.load(folder / "table.trimmed.lbarn"), (folder / "table.lbz").read_bytes()
    assert model.decompress(data).equals(recorded(260))
    assert model.compress(recorded(260)) == data


def test_the_bits_of_a_cell_are_coded_under_the_log_odds_of_their_nodes(model: LBARN) -> None:
    network = model.network_
    layout, nodes = network.ordered_layout, network.nodes
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, column.n_cells, 30) for column in layout.columns], axis=1).astype(np.uint16)
    rows, index = layout.pack(cells).rows, np.arange(30, dtype=np.int32)
    for k, tree in enumerate(layout.columns):
        expected = np.zeros((tree.n_levels, 30), np.uint32)
        for i, cell in enumerate(cells[:, k]):
            at, level = 0 if tree.n_nodes else ~0, 0
            while at >= 0:
                bit = int(cell >= tree.cut[at])
                (boundary,) = boundaries(nodes.at(k, at).log_odds_at(rows, index[i : i + 1]))
                expected[level, i] = 2 * boundary + bit
                at, level = int(tree.children[at, bit]), level + 1
        np.testing.assert_array_equal(nodes.coded(k, cells[:, k], rows, index), expected)
