"""Any kind of table gives the same model, comes back from ``sample``, and is refused by column and value."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

import lbarn
from lbarn import LBARN, LBARNError, NotBinaryError
from lbarn._tables.table import TableFormat, read_table
from networks import assert_same_network, quick, rows, still_rising

pytestmark = still_rising

X = rows(300, 6)
NAMES = ["age", "b", "c", "d", "e", "f"]
FRAME = pd.DataFrame(X, columns=NAMES)
HOLES = np.random.default_rng(1).random(X.shape) < 0.1

ARRAYS = {
    "bool": X.astype(bool),
    "uint8": X,
    "int64": X.astype(np.int64),
    "float32": X.astype(np.float32),
    "float64": X.astype(np.float64),
    "big-endian": X.astype(">f8"),
    "objects": X.astype(object),
    "strided": np.repeat(np.asfortranarray(X), 2, axis=1)[:, ::2],
    "list": X.tolist(),
    "csr_array": sp.csr_array(X),
    "csc_array": sp.csc_array(X.astype(float)),
    "coo_array": sp.coo_array(X.astype(bool)),
    "csr_matrix": sp.csr_matrix(X),
    "csc_matrix": sp.csc_matrix(X),
    "coo_matrix": sp.coo_matrix(X),
}
TABLES = {
    "pandas": FRAME,
    "pandas bool": FRAME.astype(bool),
    "pandas nullable": FRAME.astype("Int64"),
    "pandas nullable bool": FRAME.astype("boolean"),
    "pandas arrow": FRAME.astype("int64[pyarrow]"),
    "pandas sparse": FRAME.astype(pd.SparseDtype(float)),
    "polars": pl.from_pandas(FRAME),
    "polars bool": pl.from_pandas(FRAME.astype(bool)),
    "pyarrow": pa.Table.from_pandas(FRAME),
    "pyarrow float": pa.Table.from_pandas(FRAME.astype(float)),
}
SORTS = {  # of the columns that come back, where it is not uint8
    "pandas bool": "bool",
    "pandas nullable": "int64",
    "pandas nullable bool": "bool",
    "pandas arrow": "int64",
    "pandas sparse": "float64",
    "polars bool": "bool",
    "pyarrow float": "float64",
}


@pytest.fixture(scope="module")
def reference() -> LBARN:
    return quick().fit(X)


@pytest.mark.parametrize("kind", [*ARRAYS, *TABLES])
def test_every_kind_of_table_gives_the_same_model_and_scores(kind: str, reference: LBARN) -> None:
    table = {**ARRAYS, **TABLES}[kind]
    model = quick().fit(table)
    assert_same_network(model, reference)
    np.testing.assert_array_equal(model.score_samples(table), reference.score_samples(X))


@pytest.mark.parametrize("kind", ["bool", "uint8", "int64", "float32", "big-endian"])
def test_sample_gives_back_the_dtype_of_an_array(kind: str, reference: LBARN) -> None:
    drawn = quick().fit(ARRAYS[kind]).sample(20, random_state=1)
    assert drawn.dtype == ARRAYS[kind].dtype
    np.testing.assert_array_equal(drawn, reference.sample(20, random_state=1))


@pytest.mark.parametrize("kind", TABLES)
def test_sample_gives_back_the_kind_of_table_its_names_and_sorts_of_column(
    kind: str, reference: LBARN, tmp_path
) -> None:
    table = TABLES[kind]
    model = quick().fit(table)
    model.save(tmp_path / "model")
    expected = reference.sample(20, random_state=1)
    for each in (model, LBARN.load(tmp_path / "model"), lbarn.load(tmp_path / "model")):
        drawn = each.sample(20, random_state=1)
        assert type(drawn) is type(table)
        assert list(drawn.schema.names if kind.startswith("pyarrow") else drawn.columns) == NAMES
        values = np.column_stack([np.asarray(drawn[name]) for name in NAMES])
        np.testing.assert_array_equal(values, expected)
        assert values.dtype == SORTS.get(kind, "uint8")
        assert each.score(drawn) == reference.score(expected)
        assert list(each.feature_names_in_) == NAMES


def test_columns_of_a_table_keep_their_own_types() -> None:
    mixed = pl.from_pandas(FRAME).with_columns(pl.col("b").cast(pl.Boolean), pl.col("c").cast(pl.Float32))
    drawn = quick().fit(mixed).sample(3)
    assert drawn.schema["b"] == pl.Boolean
    assert drawn.schema["c"].is_float()
    assert drawn.schema["d"].is_integer()


def test_a_pandas_table_without_names_counts_its_columns(tmp_path) -> None:
    numbered = pd.DataFrame(X)
    model = quick().fit(numbered)
    model.save(tmp_path / "model")
    for each in (model, LBARN.load(tmp_path / "model")):
        drawn = each.sample(5, random_state=0)
        assert list(drawn.columns) == list(range(6))
        assert each.score(drawn) == quick().fit(X).score(drawn.to_numpy())
        assert not hasattr(each, "feature_names_in_")


@pytest.mark.parametrize("labels", [[False, True], [0.5, 1.5], pd.to_datetime(["2020", "2021"])], ids=str)
def test_labels_that_are_no_names_come_back_as_text(labels: Any, tmp_path) -> None:
    quick().fit(pd.DataFrame(X[:, :2], columns=labels)).save(tmp_path / "model")
    assert list(LBARN.load(tmp_path / "model").sample(1).columns) == [str(label) for label in labels]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
class TestColumnsGoByName:
    def give(self, library: str, frame: pd.DataFrame) -> Any:
        return {"pandas": lambda: frame, "polars": lambda: pl.from_pandas(frame)}.get(
            library, lambda: pa.Table.from_pandas(frame)
        )()

    def test_another_order_is_put_right(self, library: str, reference: LBARN) -> None:
        model, turned = quick().fit(self.give(library, FRAME)), self.give(library, FRAME[NAMES[::-1]])
        np.testing.assert_array_equal(model.score_samples(turned), reference.score_samples(X))
        np.testing.assert_array_equal(model.surprise(turned), reference.surprise(X))
        assert model.compress(turned) == reference.compress(X)
        by_name = quick().fit(self.give(library, FRAME), X_val=turned)
        assert_same_network(by_name, quick().fit(X, X_val=X))

    def test_others_are_ignored_with_a_warning(self, library: str, reference: LBARN) -> None:
        model = quick().fit(self.give(library, FRAME))
        more = self.give(library, FRAME.assign(y="text", z=7)[["z", *NAMES, "y"]])
        with pytest.warns(UserWarning, match="columns that the model does not have are ignored: 'z', 'y'") as caught:
            np.testing.assert_array_equal(model.score_samples(more), reference.score_samples(X))
        assert [warning.filename for warning in caught] == [__file__]

    def test_those_that_are_not_there_are_named(self, library: str) -> None:
        model = quick().fit(self.give(library, FRAME))
        with pytest.raises(ValueError, match=r"X has no column 'b', 'd', which the model has$"):
            model.score(self.give(library, FRAME.drop(columns=["b", "d"])))
        with pytest.raises(
            ValueError, match="no column 'b', which the model has; the columns 'B' are not in the model"
        ):
            model.score(self.give(library, FRAME.rename(columns={"b": "B"})))

    def test_filled_rows_come_back_with_the_columns_of_the_model(self, library: str) -> None:
        model = quick().fit(self.give(library, FRAME))
        holes = self.give(library, FRAME.astype(float).mask(HOLES)[NAMES[::-1]])
        filled = model.impute(holes, output="mode")
        assert type(filled) is type(holes)
        found = np.column_stack([np.asarray(filled[name]) for name in NAMES])
        np.testing.assert_array_equal(found[~HOLES], X[~HOLES])


def test_a_lazy_table_is_asked_to_be_collected(reference: LBARN) -> None:
    lazy = pl.from_pandas(FRAME).lazy()
    for use in (quick().fit, reference.score_samples, lambda X: quick().fit(X.collect(), X_val=X)):
        with pytest.raises(TypeError, match=r"lazy table.*give X.collect\(\)"):
            use(lazy)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_another_value_is_named_with_its_column_and_row(library: str) -> None:
    wide = pd.DataFrame(np.zeros((50, 20), int), columns=[f"v{j}" for j in range(17)] + ["age", "x", "y"])
    wide.loc[31, "age"] = 3
    table = {"pandas": wide, "polars": pl.from_pandas(wide), "pyarrow": pa.Table.from_pandas(wide)}[library]
    message = r"column 17 \('age'\) holds 3 \(row 31, counted from 0\); LBARN takes 0 and 1 only \(set binarize= to threshold\)"
    with pytest.raises(NotBinaryError, match=message) as caught:
        quick().fit(wide.clip(0, 1)).score_samples(table)
    assert isinstance(caught.value, LBARNError)
    assert isinstance(caught.value, ValueError)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert (error.column, error.value, error.row) == ("column 17 ('age')", 3, 31)


@pytest.mark.parametrize("value", [3, -1, 0.5, np.inf, -np.inf, 256])
@pytest.mark.parametrize("make", [np.array, sp.csr_array, sp.csc_array])
def test_another_value_in_an_array_is_named(make: Any, value: float, reference: LBARN) -> None:
    wrong = X.astype(type(value) if isinstance(value, int) else float)
    wrong[7, 4] = value
    with pytest.raises(ValueError, match=rf"^column 4 holds {value} \(row 7, counted from 0\)"):
        reference.score_samples(make(wrong))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.array, sp.csr_array, pd.DataFrame, pl.DataFrame])
def test_an_infinite_number_in_training_data_is_named(make: Any, value: float) -> None:
    wrong = X.astype(float)
    wrong[7, 4] = value
    with pytest.raises(
        ValueError, match=rf"^column 4.* holds {value} \(Input X contains infinity, row 7, counted from 0\)"
    ):
        quick().fit(make(wrong))


def test_the_row_is_named_beyond_the_first_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbarn._tables.table._CHUNK_VALUES", 60)
    assert_same_network(quick().fit(FRAME), quick().fit(X))
    wrong = FRAME.astype(float)
    wrong.iloc[123, 2] = 7
    with pytest.raises(ValueError, match=r"column 2 \('c'\) holds 7.0 \(row 123, counted from 0\)"):
        quick().fit(FRAME).score_samples(wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (X[0], "Expected 2D array, got 1D array"),
        (FRAME["b"], "Expected 2D array, got 1D array"),
        (X[None], "Expected 2D array, got 3D array"),
        (3, "Expected 2D array, got 0D array"),
        (X[:0], r"Found array with 0 sample\(s\)"),
        (FRAME[:0], r"Found array with 0 sample\(s\)"),
        (X[:, :0], r"Found array with 0 feature\(s\)"),
        (sp.csr_array((0, 6)), r"Found array with 0 sample\(s\)"),
        (X + 0j, "Complex data not supported"),
        (sp.csr_array(X + 0j), "complex128"),
        (np.zeros((9, 2), "S1"), r"X is of type \|S1"),
        (FRAME.set_axis([*NAMES[:5], "b"], axis=1), "several columns named 'b'"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_no_table_is_refused_with_the_reason(wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        quick().fit(wrong)


@pytest.mark.parametrize("width", [5, 7])
def test_another_width_is_refused(width: int, reference: LBARN) -> None:
    wrong = rows(10, width)
    message = f"X has {width} features, but LBARN is expecting 6 features"
    for use in (
        reference.score_samples,
        reference.surprise,
        reference.refit_leaves,
        lambda X: reference.sample(given=X),
    ):
        with pytest.raises(ValueError, match=message):
            use(wrong)
    with pytest.raises(ValueError, match=message):
        quick().fit(X, X_val=wrong)


def test_binarize_takes_values_above_the_threshold_as_ones(reference: LBARN) -> None:
    noise = np.random.default_rng(0).uniform(0, 0.5, X.shape)
    grey = X * 128 + 127 + noise  # zeros in [127, 127.5), ones above 255
    model = quick(binarize=200.0).fit(grey)
    assert_same_network(model, reference)
    np.testing.assert_array_equal(model.score_samples(pd.DataFrame(grey)), reference.score_samples(X))
    at_threshold = np.where(X == 1, 3, 2)
    assert_same_network(quick(binarize=2).fit(at_threshold), reference)
    np.testing.assert_array_equal(np.unique(model.sample(50, random_state=0)), [0, 1])


@pytest.mark.parametrize(
    "table",
    [
        FRAME.astype("Int64").mask(HOLES),
        FRAME.astype("boolean").mask(HOLES),
        FRAME.astype(float).mask(HOLES),
        pl.from_pandas(FRAME.astype("Int64").mask(HOLES)),
        pl.from_pandas(FRAME.astype("boolean").mask(HOLES)),
        pa.Table.from_pandas(FRAME.astype("Int64").mask(HOLES)),
        np.ma.masked_array(X, HOLES),
        np.where(HOLES, None, X),
    ],
    ids=["Int64", "boolean", "float", "polars", "polars bool", "pyarrow", "masked array", "objects"],
)
def test_nulls_of_every_kind_are_missing_values(table: Any) -> None:
    assert_same_network(quick().fit(table), quick().fit(np.where(HOLES, np.nan, X)))


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_column_of_nulls_only_is_missing_throughout(kind: str) -> None:
    empty = {"pandas": FRAME.assign(c=None), "polars": pl.from_pandas(FRAME).with_columns(c=pl.lit(None))}
    empty["pyarrow"] = empty["polars"].to_arrow()
    expected = X.astype(float)
    expected[:, 2] = np.nan
    with pytest.warns(UserWarning, match="column 2"):
        assert_same_network(quick().fit(empty[kind]), quick().fit(expected))


def test_packed_data_is_what_is_kept() -> None:
    big = np.random.default_rng(0).integers(0, 2, (20_000, 196)).astype(float)
    alive = weakref.ref(big)
    gc.collect()
    tracemalloc.start()
    try:
        model = quick(max_leaf_nodes=2, max_iter=1).fit(big)
        kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < big.nbytes, "a copy of the table was made"
    assert kept < big.size / 2, "more than curves and trees is kept"
    del big
    assert alive() is None, "the model holds on to the table"
    assert model.n_trees_.shape == (196,)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_decimal_numbers_are_numbers(library: str) -> None:
    column = pa.array([0, 1, 1, 2], pa.decimal128(38, 10))
    table = pa.table({"a": column, "b": [0, 1, 0, 1]})
    table = pl.from_arrow(table) if library == "polars" else table
    np.testing.assert_array_equal(read_table(table[:3]).complete(), [[0, 0], [1, 1], [1, 0]])
    with pytest.raises(NotBinaryError, match=r"column 0 \('a'\) holds 2"):
        read_table(table).complete()


@pytest.mark.parametrize("dtype", [">i4", "float128", "int128"])
def test_a_format_that_no_table_has_is_refused(dtype: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        TableFormat.from_json({"library": "pyarrow", "names": ["a"], "dtypes": [dtype]}, 1)
