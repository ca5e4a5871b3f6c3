"""A codebook codes whole tables, comes back from its parts, and refuses parts that do not fit."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lbarn import LBARN
from lbarn._engine.bits import MAX_COLUMNS
from lbarn._tables.codebook import Codebook
from lbarn._tables.column import Column
from lbarn._tables.kinds import Coding
from lbarn._tables.table import read_table

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "bit": RNG.integers(0, 2, 120),
        "number": RNG.integers(0, 40, 120),
        "real": RNG.normal(size=120),
        "level": RNG.choice(["a", "b", "c"], 120),
        "name": [f"name {k}" for k in range(120)],
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 99, 120), unit="D"),
    }
)

pytestmark = pytest.mark.filterwarnings("ignore:column .* has no values")


def book_of(frame: Any, **how: Any) -> Codebook:
    table = read_table(frame)
    labels = [table.format.label(j) for j in range(table.n_columns)]
    return Codebook.fit(list(table.columns()), labels, {}, Coding(**how))


@pytest.fixture(scope="module")
def book() -> Codebook:
    with pytest.warns(UserWarning, match="'name'"):
        return book_of(FRAME, max_cells=16)


def test_columns_that_are_left_out_are_told_apart(book: Codebook) -> None:
    assert book.taken.tolist() == [0, 1, 2, 3, 5]
    assert dict(book.left_out) == {4: "every value is another string"}
    assert not book.is_binary


def test_a_table_is_coded_and_decoded(book: Codebook) -> None:
    columns = [read_table(FRAME).column(int(j)) for j in book.taken]
    cells, inside = book.encode(columns)
    assert cells.shape == inside.shape == (120, 5)
    again, _ = book.encode(book.decode(cells, np.random.default_rng(0)))
    np.testing.assert_array_equal(again, cells)


def test_a_codebook_comes_back_from_its_parts(book: Codebook) -> None:
    again = Codebook.from_parts(*book.to_parts())
    assert again.fingerprint() == book.fingerprint()
    assert again.left_out == book.left_out
    np.testing.assert_array_equal(again.taken, book.taken)


def test_another_codebook_has_another_fingerprint(book: Codebook) -> None:
    others = [FRAME.assign(level=FRAME["level"].str.upper()), FRAME.assign(number=FRAME["number"] + 1)]
    found = {book.fingerprint()}
    for frame in others:
        with pytest.warns(UserWarning, match="'name'"):
            found.add(book_of(frame, max_cells=16).fingerprint())
    assert len(found) == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["codes"].pop(),
        lambda header: header["codes"].reverse(),
        lambda header: header["codes"].clear(),
        lambda header: header["taken"].reverse(),
        lambda header: header["taken"].append(6),
        lambda header: header["taken"].__setitem__(0, 7),
        lambda header: header["left_out"].clear(),
        lambda header: header["left_out"].update({"1": "twice"}),
        lambda header: header["left_out"].update({"x": "no number"}),
        lambda header: header.pop("taken"),
        lambda header: header["codes"].__setitem__(0, None),
        lambda header: header["codes"][1].update(code="OtherCode"),
    ],
)
def test_parts_that_do_not_fit_are_refused(book: Codebook, change: Any) -> None:
    header, tensors = book.to_parts()
    header = copy.deepcopy(header)
    change(header)
    with pytest.raises((ValueError, KeyError, TypeError)):
        Codebook.from_parts(header, tensors)


@pytest.mark.parametrize(
    ("frame", "binary"),
    [
        (FRAME[["bit"]], True),
        (FRAME[["bit"]] == 1, True),
        (FRAME[["bit"]].astype(str), False),
        (FRAME[["bit"]].astype(float).mask(np.arange(120)[:, None] % 5 == 0), False),
        (FRAME[["bit"]].assign(empty=np.nan), False),
        (FRAME[["bit", "name"]], False),
    ],
    ids=["bits", "booleans", "strings", "with holes", "with an empty column", "with one left out"],
)
@pytest.mark.filterwarnings("ignore:column 1 .* is left out")
def test_only_a_table_of_plain_bits_needs_no_codes(frame: pd.DataFrame, binary: bool) -> None:
    model = LBARN(max_iter=3, random_state=0).fit(frame)
    assert model.codebook_.is_binary == binary
    taken = frame.drop(columns="name", errors="ignore")
    assert np.isfinite(model.score_samples(frame)).all()
    drawn = model.sample(10, random_state=0)
    assert drawn.dtypes.to_dict() == taken.dtypes.to_dict()
    pd.testing.assert_frame_equal(model.decompress(model.compress(frame)), taken)
    assert not model.impute(frame[:5], random_state=0)["bit"].isna().any()


def test_columns_with_too_many_bits_have_fewer_cells() -> None:
    wide = pd.DataFrame(RNG.normal(size=(600, 700)))
    book = book_of(wide, max_cells=256, min_rows=1.0)
    assert book.layout.n_bits <= MAX_COLUMNS


# ---------------------------------------------------------------------- finer cells


def parts_and_total(n: int, *, noise: float, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"net": rng.gamma(3, 30, n), "tip": rng.normal(60, 12, n), "alone": rng.normal(size=n)})
    return frame.assign(total=frame["net"] + frame["tip"] + rng.normal(0, noise, n))


def cells_of(frame: pd.DataFrame, **how: Any) -> dict[str, int]:
    return dict(zip(frame, (code.n_cells for code in book_of(frame, **how).codes), strict=True))


def dropped_first(frame: pd.DataFrame) -> Codebook:
    """With a column before it that is not read."""
    columns = [Column.of_strings([]), *read_table(frame).columns()]
    return Codebook.fit(columns, ["dropped", *frame], {0: "drop"}, Coding())


def test_numbers_that_others_tell_exactly_have_finer_cells() -> None:
    usual = cells_of(parts_and_total(800, noise=0.0)[["total", "alone"]])
    exact, close, loose = (cells_of(parts_and_total(800, noise=noise)) for noise in (0.01, 4.0, 60.0))
    assert exact["total"] > 3 * usual["total"]
    assert 1.5 * usual["total"] < close["total"] < 3 * usual["total"]
    assert loose["total"] == usual["total"]
    for own in (exact, close, loose):
        assert own["alone"] == usual["alone"]
    assert cells_of(parts_and_total(800, noise=0.01), alone=True)["total"] == usual["total"]
    assert cells_of(parts_and_total(800, noise=0.01).round(2))["total"] > 3 * usual["total"]  # on a grid


def test_there_are_no_more_cells_than_there_may_be() -> None:
    frame = parts_and_total(8_192, noise=0.01)
    assert cells_of(frame)["total"] == cells_of(frame[["total", "alone"]])["total"] > 200
    for own in (book_of(frame, alone=True), dropped_first(frame)):
        assert [code.n_cells for code in own.codes] == [code.n_cells for code in book_of(frame).codes]
    assert (
        cells_of(frame[:800], max_cells=16)["total"] == cells_of(frame[["total", "alone"]][:800], max_cells=16)["total"]
    )


def test_finer_cells_are_of_rows_that_have_weight_and_values() -> None:
    frame = parts_and_total(800, noise=0.01)
    frame["total"] = frame["total"].where(frame.index < 700)
    frame.loc[400:, "tip"] = 0.0  # where it has no weight, the total follows from nothing
    table = read_table(frame)
    labels = [table.format.label(j) for j in range(table.n_columns)]
    weight = np.where(np.arange(800) < 400, 2.0, 0.0)
    book = Codebook.fit(list(table.columns()), labels, {}, Coding(), weight)
    assert book.codes[3].n_cells > 0.9 * cells_of(frame[:400])["total"] > 30
    cells, _ = book.encode(list(table.columns()))
    again, _ = book.encode(book.decode(cells, np.random.default_rng(0)))
    np.testing.assert_array_equal(again, cells)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_finer_cells_are_the_same_in_any_unit(size: float) -> None:
    frame = parts_and_total(800, noise=0.01)
    assert cells_of(frame * size) == cells_of(frame)
