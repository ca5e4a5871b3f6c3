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
from lbarn import LBARN, LBARNClassifier, LBARNEnsemble, LBARNImputer, LBARNOutlierDetector, LBARNRegressor

N = 80
RNG = np.random.default_rng(0)
WHOLE, REAL = RNG.integers(0, 9, N), RNG.normal(size=N)
TEXT = RNG.choice(["a", "b", "c"], N)
TIMES = pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 99, N), unit="h")
GAPS = np.arange(N) % 8 == 3
pytestmark = [
    pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising"),
    pytest.mark.filterwarnings("ignore:some rows have missing values"),
    pytest.mark.filterwarnings("ignore:column .* has no values"),
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
        "string[python]": pd.array(with_gaps(TEXT), dtype="string[python]"),
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


FEW = {"max_iter": 2, "max_leaf_nodes": 3, "random_state": 0, "max_cells": 16}


@pytest.fixture(scope="module", params=TABLES)
def fitted(request: pytest.FixtureRequest) -> tuple[Any, LBARN]:
    table = TABLES[request.param]
    return table, LBARN(**FEW).fit(table)


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


def n_missing(table: Any) -> int:
    if isinstance(table, np.ndarray):
        return int(pd.isna(table).sum())
    return sum(column.null_count() for column in nw.from_native(table, eager_only=True).iter_columns())


def labels_of(model: LBARN) -> list[Any]:
    return list(model.table_format_.labels(model.n_features_in_))


def first_rows(table: Any, n: int) -> Any:
    return table.slice(0, n) if isinstance(table, pa.Table) else table[:n]


def objects(table: Any) -> pd.DataFrame:
    """The values of any table as Python has them, None where one is missing."""
    if isinstance(table, np.ndarray):
        frame = pd.DataFrame(table.astype(object))
    else:
        frame = (
            table
            if isinstance(table, pd.DataFrame)
            else pd.DataFrame(nw.from_native(table).to_dict(as_series=False), dtype=object)
        )
    frame = frame.reset_index(drop=True).astype(object)
    return frame.where(frame.notna(), None)


# Every method, of a table and a model of it. --------------------------------------------------------------------------


def scores(table: Any, model: LBARN, _: Any) -> None:
    assert np.isfinite(model.score_samples(table)).all()
    assert model.score(table) == pytest.approx(model.score_samples(table).mean())
    assert np.isfinite(model.cumulative_score(table)).all()
    assert np.isfinite(model.log_marginal(table)).all()


def surprise(table: Any, model: LBARN, _: Any) -> None:
    found = model.surprise(table)
    assert found.shape == (N, model.n_features_in_)
    np.testing.assert_allclose(-found.sum(axis=1), model.score_samples(table), atol=1e-8)


def sample(table: Any, model: LBARN, _: Any) -> None:
    drawn = model.sample(N, random_state=0)
    assert_like(drawn, table)
    assert len(drawn) == N
    assert np.isfinite(model.score_samples(drawn)).all()
    assert not n_missing(table) or n_missing(drawn) > 0, "what was missing is learned and drawn"


def sample_given(table: Any, model: LBARN, _: Any) -> None:
    rows = first_rows(model.impute(table, output="mode"), 2)
    assert_like(model.sample(3, given=rows, random_state=0), table)
    known = objects(rows)
    for k, label in enumerate(labels_of(model)):
        drawn = model.sample(4, given={label: known.iloc[0, k]}, random_state=0)
        assert_like(drawn, table)
        assert (objects(drawn).iloc[:, k] == known.iloc[0, k]).all(), label
        both = known.iloc[:2, k].tolist()
        drawn = model.sample(2, given={label: both}, random_state=0)
        assert objects(drawn).iloc[:, k].tolist() == [both[0], both[0], both[1], both[1]], label
        drawn = model.sample(4, given={label: set(both)}, random_state=0)
        assert set(objects(drawn).iloc[:, k]) <= set(both), label
        if model.columns_[k].kind in ("ordered", "datetime") and not isinstance(both[0], str):
            drawn = model.sample(4, given={label: slice(min(both), max(both))}, random_state=0)
            assert objects(drawn).iloc[:, k].between(min(both), max(both)).all(), label


def impute(table: Any, model: LBARN, _: Any) -> None:
    known = objects(table)
    for output in ("sample", "mode", "mean", "median"):
        filled = model.impute(table, output=output, random_state=0)
        assert_like(filled, table)
        assert n_missing(filled) == 0
        if isinstance(table, pd.DataFrame):
            pd.testing.assert_index_equal(filled.index, table.index)
        assert (objects(filled) == known).where(known.notna(), True).all(axis=None)


def impute_probability(table: Any, model: LBARN, _: Any) -> None:
    known = objects(table)
    holed = [label for k, label in enumerate(labels_of(model)) if known.iloc[:, k].isna().any()]
    found = model.impute(table, output="probability", random_state=0)
    assert list(found) == holed
    for k, label in enumerate(labels_of(model)):
        if label in holed:
            np.testing.assert_allclose(found[label][known.iloc[:, k].isna()].sum(axis=1), 1.0)


def conditional(table: Any, model: LBARN, _: Any) -> None:
    for label in labels_of(model):
        ahead = model.conditional(table, label)
        np.testing.assert_allclose(ahead.probability.sum(axis=1), 1.0)
        assert ahead.probability.shape == (N, len(ahead.levels))
        assert len(ahead.mode()) == N
        assert len(ahead.sample(0)) == N


def compress(table: Any, model: LBARN, _: Any) -> None:
    back = model.decompress(model.compress(table))
    assert_like(back, table)
    if isinstance(table, pd.DataFrame):
        pd.testing.assert_frame_equal(back, table.reset_index(drop=True))
        markers = [
            {name: {type(value) for value in frame[name][frame[name].isna()]} for name in frame}
            for frame in (back, table)
        ]
        assert markers[0] == markers[1]
    elif isinstance(table, np.ndarray):
        assert [*map(repr, back.ravel().tolist())] == [*map(repr, table.ravel().tolist())]
    else:
        assert back.equals(table)


def importances(table: Any, model: LBARN, _: Any) -> None:
    d = model.n_features_in_
    assert model.feature_importances_.shape == (d, d)
    assert np.isfinite(model.feature_importances_).all()


def files(table: Any, model: LBARN, folder: Any) -> None:
    model.save(folder / "model.lbarn")
    again = lbarn.load(folder / "model.lbarn")
    assert_like(again.sample(20, random_state=0), table)
    np.testing.assert_array_equal(again.score_samples(table), model.score_samples(table))
    assert again.compress(table) == model.compress(table)


def ensemble(table: Any, _: LBARN, folder: Any) -> None:
    own = LBARNEnsemble(n_orders=2, **FEW).fit(table)
    assert_like(own.sample(5, random_state=0), table)
    assert np.isfinite(own.score_samples(table)).all()
    assert n_missing(own.impute(first_rows(table, 9), random_state=0)) == 0
    assert_like(own.decompress(own.compress(table)), table)


def imputer(table: Any, model: LBARN, _: Any) -> None:
    filled = LBARNImputer(LBARN(**FEW)).fit_transform(table)
    assert n_missing(filled) == 0
    assert_like(filled, table)


def outliers(table: Any, model: LBARN, _: Any) -> None:
    detector = LBARNOutlierDetector(LBARN(**FEW), contamination=0.1).fit(table)
    assert set(detector.predict(table)) == {1, -1}
    for strange in lbarn.explain(model, table, n_rows=4):
        assert all(f"{own.column} is " in own.reason and "expected" in own.reason for own in strange.values)


def classifier(table: Any, _: LBARN, folder: Any) -> None:
    y = np.where(WHOLE > 4, "many", "few")
    for method in ("generative", "discriminative"):
        own = LBARNClassifier(LBARN(**FEW), method=method).fit(table, y)
        p = own.predict_proba(table)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert set(own.predict(table)) <= {"few", "many"}
        own.save(folder / "classifier.lbarn")
        np.testing.assert_array_equal(lbarn.load(folder / "classifier.lbarn").predict_proba(table), p)


def regressor(table: Any, _: LBARN, folder: Any) -> None:
    own = LBARNRegressor(LBARN(**FEW)).fit(table, REAL)
    assert np.isfinite(own.predict(table)).all()
    assert np.isfinite(own.log_prob(table, REAL)).all()
    assert (np.diff(own.predict_quantile(table, [0.1, 0.5, 0.9]), axis=1) >= 0).all()


METHODS = [
    scores,
    surprise,
    sample,
    sample_given,
    impute,
    impute_probability,
    conditional,
    compress,
    importances,
    files,
]
METHODS += [ensemble, imputer, outliers, classifier, regressor]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_every_method_takes_and_gives_the_table(fitted: Any, method: Any, tmp_path: Any) -> None:
    method(*fitted, tmp_path)


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
