"""Any two tables are compared: by SDMetrics' definitions, whatever their types, and copies are found."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_wine

from browser import Browser
from lbarn import fidelity
from lbarn.comparison.copies import Space, copied_share, repeated_share
from lbarn.comparison.encoding import encode
from lbarn.comparison.kinds import column_kinds
from lbarn.comparison.likeness import pairs_of, shapes, trends
from lbarn.comparison.tables import read_columns
from lbarn.report import write_comparison
from lbarn.synthesis import Fidelity
from networks import quick, rows, still_rising

pytestmark = still_rising

HOSTILE = ("<script>alert(1)</script>", "quoted \" & '", "emoji 🦊", "\x1b[2J\u202eescape", "X" * 90)


def mixed(n: int, seed: int = 0) -> pd.DataFrame:
    """Columns of every kind that depend on each other, some cells empty."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    colour = np.array(["red", "green", "blue", None], object)[
        np.digitize(size + rng.normal(0, 0.3, n), [-0.7, 0.2, 1.5])
    ]
    return pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, size),
            "count": rng.poisson(np.exp(0.5 * size)),
            "price": np.round(20 + 3 * size + rng.normal(size=n), 2),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.floor(100 + 30 * size), unit="D"),
            "is big": size > 0.5,
            "colour": colour,
        }
    )


def shuffled(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Every column as it was, and none with anything to do with another."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: table[name].to_numpy()[rng.permutation(len(table))] for name in table})


TRAIN, HOLDOUT, MORE = mixed(900), mixed(700, seed=1), mixed(800, seed=2)


@pytest.fixture(scope="module")
def fresh() -> Fidelity:
    return fidelity(HOLDOUT, MORE, train=TRAIN)


def wine() -> pd.DataFrame:
    table = load_wine(as_frame=True).frame
    thirds = pd.cut(table["alcohol"], 3, labels=False)
    return table.assign(strong=np.array(["weak", "medium", "strong"], dtype=object)[thirds])


# ---------------------------------------------------------------------- what the figures tell


def test_a_table_is_as_itself() -> None:
    found = fidelity(HOLDOUT, HOLDOUT)
    assert found.shape == found.trend == found.missing == 1
    assert all(column.shape == 1 for column in found.columns)
    assert found.copied_synthetic == 1
    assert found.nearest_synthetic == pytest.approx(0, abs=1e-12)
    assert found.correlation_difference_mean == 0


def test_other_real_rows_are_nearly_as_good_as_real_against_real(fresh: Fidelity) -> None:
    expected = fresh.real_against_real
    assert fresh.shape == pytest.approx(expected.shape, abs=0.02)
    assert fresh.trend == pytest.approx(expected.trend, abs=0.02)
    assert fresh.c2st > 0.8
    assert expected.c2st > 0.8
    assert fresh.trained_on_synthetic == pytest.approx(fresh.trained_on_real, abs=0.05)
    assert fresh.nearer_to_training == pytest.approx(0.5, abs=0.06)
    assert expected.nearer_to_training == pytest.approx(0.5, abs=0.06)
    assert fresh.nearest_synthetic == pytest.approx(fresh.nearest_holdout, rel=0.2)
    assert fresh.neighbour_ratio_synthetic == pytest.approx(fresh.neighbour_ratio_holdout, abs=0.05)
    assert max(fresh.copied_synthetic, fresh.copied_holdout) < 0.01


def test_shuffled_columns_lose_all_but_their_shapes(fresh: Fidelity) -> None:
    found = fidelity(HOLDOUT, shuffled(MORE), train=TRAIN)
    assert [column.shape for column in found.columns] == [column.shape for column in fresh.columns]
    assert found.missing == fresh.missing
    assert found.trend < fresh.trend - 0.1
    assert found.c2st < 0.2
    assert found.two_sample_auc > 0.9
    assert found.trained_on_synthetic < fresh.trained_on_synthetic - 0.2
    assert found.nearest_synthetic > 1.5 * found.nearest_holdout


def test_copies_are_found_whatever_their_columns() -> None:
    copies = pd.concat([TRAIN.iloc[:300], MORE.iloc[:100]])
    found = fidelity(HOLDOUT, copies, train=TRAIN)
    assert found.copied_synthetic == pytest.approx(0.75, abs=0.01)
    assert found.copied_holdout < 0.01
    assert found.nearer_to_training > 0.8
    assert found.nearest_synthetic < 0.3 * found.nearest_holdout
    assert found.neighbour_ratio_synthetic < 0.5 * found.neighbour_ratio_holdout
    alone = fidelity(TRAIN, copies)
    assert alone.copied_synthetic == pytest.approx(0.75, abs=0.01)
    assert alone.nearer_to_training is None


def test_rows_that_are_nearly_copies_are_near() -> None:
    rng = np.random.default_rng(0)
    train, holdout = rng.normal(size=(400, 6)), rng.normal(size=(200, 6))
    made = train[:300] + rng.normal(0, 0.01, (300, 6))
    found = fidelity(holdout, made, train=train)
    assert found.copied_synthetic == 0
    assert found.nearer_to_training > 0.95
    assert found.nearest_synthetic < 0.1 * found.nearest_holdout


def test_the_likelihood_gap_is_that_of_the_model() -> None:
    train, holdout, made = rows(300, 6), rows(200, 6, seed=1), rows(200, 6, seed=2)
    model = quick().fit(train)
    found = fidelity(holdout, made, train=train, model=model)
    assert found.likelihood_gap == pytest.approx(model.score(train) - model.score(holdout))
    assert abs(found.real_against_real.likelihood_gap or 0) < 1
    assert "likelihood_gap" in {one.key for one in found.figures}
    with pytest.raises(ValueError, match="needs both training rows and held-out rows"):
        fidelity(holdout, made, model=model)
    with pytest.raises(ValueError, match="the model cannot score these rows"):
        fidelity(mixed(50), mixed(50, 1), train=mixed(60, 2), model=model)


def test_targets_are_classes_or_numbers() -> None:
    assert fidelity(HOLDOUT, MORE).measure == "AUC"
    priced = fidelity(HOLDOUT, MORE, target="price")
    assert (priced.target, priced.measure) == ("price", "R2")
    assert 0.5 < priced.trained_on_synthetic < 1
    assert fidelity(HOLDOUT, MORE, target="day").measure == "R2"
    assert fidelity(HOLDOUT, MORE, target="is big").measure == "AUC"
    table = wine()
    found = fidelity(table.iloc[::2], table.iloc[1::2], target="target")  # 0, 1, 2 are classes
    assert found.measure == "AUC"
    assert found.trained_on_synthetic > 0.9


def test_a_class_that_was_never_generated_costs() -> None:
    one_class = HOLDOUT.assign(colour="red")
    assert fidelity(HOLDOUT, one_class).trained_on_synthetic == pytest.approx(0.5)
    few = MORE[MORE["colour"] != "blue"]
    assert fidelity(HOLDOUT, few).trained_on_synthetic < fidelity(HOLDOUT, MORE).trained_on_synthetic


def test_a_constant_last_column_is_no_target_but_a_note() -> None:
    real, made = HOLDOUT.assign(z=1), MORE.assign(z=1)
    found = fidelity(real, made)
    assert found.target is None
    assert found.trained_on_synthetic is None
    assert any("has only one value" in note for note in found.notes)
    with pytest.raises(ValueError, match="'z' has only one value"):
        fidelity(real, made, target="z")


def test_xgboost_judges_if_asked_for() -> None:
    pytest.importorskip("xgboost", reason="xgboost is not installed")
    found = fidelity(HOLDOUT, shuffled(MORE), classifier="xgboost")
    assert found.c2st < 0.2
    with pytest.raises(ValueError, match="classifier must be"):
        fidelity(HOLDOUT, MORE, classifier="guess")  # type: ignore[arg-type]


# ---------------------------------------------------------------------- against SDMetrics


def test_wine_has_the_figures_that_sdmetrics_gave() -> None:
    """Recorded with SDMetrics 0.32.0, which cannot be installed beside pandas 3."""
    table = wine()
    found = fidelity(table.iloc[::2], table.iloc[1::2])
    by_name = {column.name: column.shape for column in found.columns}
    assert by_name["alcohol"] == pytest.approx(0.898876404494382)  # KSComplement
    assert by_name["target"] == pytest.approx(0.9887640449438202)
    assert by_name["strong"] == pytest.approx(0.9101123595505618)  # TVComplement
    assert found.shape == pytest.approx(0.9086142322097379)
    contingency = [pair.trend for pair in found.pairs if pair.second == "strong"]
    assert np.mean(contingency) == pytest.approx(0.7584269662921347)  # ContingencySimilarity
    assert found.trend == pytest.approx(0.9310089877512984)  # with CorrelationSimilarity of the other pairs


def _encoded(real: pd.DataFrame, made: pd.DataFrame) -> Any:
    return encode([read_columns(real, "real"), read_columns(made, "synthetic")])


@pytest.mark.parametrize("tables", [(HOLDOUT, MORE), (HOLDOUT, shuffled(MORE)), (wine().iloc[::2], wine().iloc[1::2])])
def test_shape_and_trend_are_those_of_sdmetrics(tables: tuple[pd.DataFrame, pd.DataFrame]) -> None:
    pytest.importorskip("sdmetrics", reason="sdmetrics is not installed (it needs pandas below 3)")
    from sdmetrics.column_pairs import ContingencySimilarity, CorrelationSimilarity
    from sdmetrics.single_column import KSComplement, TVComplement

    schema, (real, made) = _encoded(*tables)
    for name, discrete, own in zip(schema.names, schema.discrete, shapes(schema, real, made)):
        metric = TVComplement if discrete else KSComplement
        assert own == pytest.approx(metric.compute(tables[0][name], tables[1][name])), name
    pairs = pairs_of(len(schema.names), 1000, np.random.default_rng(0))
    for (i, j), own in zip(pairs, trends(schema, real, made, pairs)):
        both = [schema.names[i], schema.names[j]]
        numbers = [name for name, k in zip(both, (i, j)) if not schema.discrete[k]]
        a, b = (table[both].assign(**{"day": _days(table)} if "day" in both else {}) for table in tables)
        if len(numbers) == 2:
            expected = CorrelationSimilarity.compute(a, b)
        else:
            expected = ContingencySimilarity.compute(a.copy(), b.copy(), continuous_column_names=numbers)
        assert own == pytest.approx(expected), both


def _days(table: pd.DataFrame) -> Any:
    return (table["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)


def test_empty_cells_count_as_a_level_of_pairs_and_not_in_shapes() -> None:
    real = pd.DataFrame({"a": ["x", "x", "y", None], "b": ["u", "v", "u", None]})
    made = pd.DataFrame({"a": ["x", "y", None, None], "b": ["u", "u", None, "v"]})
    schema, (first, second) = _encoded(real, made)
    assert shapes(schema, first, second) == pytest.approx([1 - 1 / 6, 1.0])
    # pairs: xu xv yu -- against xu yu -- -v, a quarter each
    assert trends(schema, first, second, np.array([[0, 1]])) == pytest.approx([0.75])


# ---------------------------------------------------------------------- kinds and tables


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 2, 3], "number"),
        ([0, 1, None], "boolean"),
        ([True, False, True], "boolean"),
        (["True", "false", ""], "boolean"),
        (["1.5", " 2", None], "number"),
        (["12", "n/a", "abc"], "category"),
        ([Decimal("1.10"), Decimal("2.20"), None], "number"),
        ([date(2024, 1, 1), date(2024, 2, 29), None], "datetime"),
        ([datetime(2024, 1, 1, tzinfo=timezone.utc), datetime(2024, 2, 29, tzinfo=timezone.utc), None], "datetime"),
        ([time(1), time(2, 30), None], "number"),
        ([timedelta(days=1), timedelta(days=2), None], "number"),
        (["2024-01-31", "2024-02-29 12:00:00", None], "datetime"),
        (["2024-01-31T10:00:00Z", "2024-02-29T12:00:00Z", None], "datetime"),
        (["31.01.2024", "29.02.2024", None], "datetime"),
        (["12/31/2024", "01/02/2024", None], "datetime"),
        (["31/12/2024", "01/02/2024", None], "datetime"),
        (["x", "2024-02-29", None], "category"),
        (["07030", "10001", None], "category"),
        (["1e400", "5", None], "number"),
    ],
)
def test_kinds_follow_from_types_and_from_what_strings_can_be_read_as(cells: list[Any], kind: str) -> None:
    table = pa.table({"a": pa.array(cells)})
    assert column_kinds(read_columns(table, "real")) == (kind,)
    assert column_kinds(read_columns(table.to_pandas(), "real")) == (kind,)


def test_categories_of_numbers_stay_categories_and_levels_have_one_spelling() -> None:
    real = pd.DataFrame({"zip": pd.Categorical([1, 2, 2, 3])})
    made = pd.DataFrame({"zip": [1.0, 2.0, np.nan, 7.0]})
    schema, (first, second) = _encoded(real, made)
    assert schema.kinds == ("category",)
    assert schema.levels == (("2", "1", "3", "7"),)
    np.testing.assert_array_equal(first[:, 0], [1, 0, 0, 2])
    np.testing.assert_array_equal(second[:, 0], [1, 0, np.nan, 3])


def test_every_library_gives_the_same_figures(fresh: Fidelity) -> None:
    texts = MORE.astype({"price": str, "count": str})
    assert fidelity(HOLDOUT, MORE[MORE.columns[::-1]], train=TRAIN) == fresh  # by name
    assert (
        fidelity(pl.from_pandas(HOLDOUT), pa.Table.from_pandas(MORE), train=TRAIN.astype({"colour": "category"}))
        == fresh
    )
    assert fidelity(HOLDOUT, texts, train=TRAIN.assign(day=TRAIN["day"].astype(str))) == fresh
    assert fidelity(HOLDOUT, MORE.to_numpy(), train=TRAIN.to_numpy().tolist()) == fresh  # by position


def test_columns_without_names_are_numbered() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    found = fidelity(X[:100], X[100:])
    assert [column.name for column in found.columns] == ["0", "1", "2"]
    assert found.target == "2"
    assert fidelity(np.ma.masked_greater(X[:100], 2), X[100:]).missing < 1
    with pytest.raises(TypeError, match="real_holdout is a lazy table"):
        fidelity(pl.from_pandas(HOLDOUT).lazy(), MORE)


def test_a_single_column_has_a_shape_and_no_trend() -> None:
    found = fidelity(HOLDOUT[["price"]], MORE[["price"]])
    assert found.trend is None
    assert found.target is None
    assert "trend" not in {one.key for one in found.figures}
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["trend"] is None


def test_many_levels_and_many_columns_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lbarn.comparison.fidelity._TREND_PAIRS", 10)
    rng = np.random.default_rng(0)
    real, made = (
        pd.DataFrame(
            {"id": [f"p{k}" for k in rng.integers(0, 5000, 600)], **{f"x{j}": rng.normal(size=600) for j in range(8)}}
        )
        for _ in range(2)
    )
    found = fidelity(real, made, target="id")
    assert len(found.pairs) == 10
    assert any("10 of 36 pairs" in note for note in found.notes)
    assert found.c2st > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda table: table.rename(columns={"price": "cost"}),
            "synthetic has no column 'price', which real_holdout has, and has 'cost', which real_holdout does not have",
        ),
        (lambda table: table.drop(columns=["size", "day"]), "synthetic has no column 'size', 'day'"),
        (lambda table: table.assign(x=1, y=2), "synthetic has 'x', 'y', which real_holdout does not have"),
        (lambda table: table.head(9), "synthetic has 9 rows; at least 10"),
        (lambda table: table.assign(colour=None), "synthetic: column 'colour' is empty in every row"),
        (
            lambda table: table.assign(price="cheap"),
            "synthetic: column 'price' holds 'cheap', but numbers in real_holdout",
        ),
        (lambda table: table.assign(day="soon"), "synthetic: column 'day' holds 'soon', but dates in real_holdout"),
        (lambda table: table.assign(size=np.inf), "synthetic: column 'size' holds an infinite number"),
        (lambda table: table.to_numpy()[:, 1:], "synthetic has 5 columns, but real_holdout has 6"),
    ],
)
def test_tables_that_do_not_match_are_refused_by_name(change: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        fidelity(HOLDOUT, change(MORE))


def test_a_target_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no column 'colr' to be the target; the last ones are .*'colour'"):
        fidelity(HOLDOUT, MORE, target="colr")


# ---------------------------------------------------------------------- neighbours


def test_distances_are_sums_of_ranks_and_levels() -> None:
    table = TRAIN.head(120).assign(many=[f"m{k % 80}" for k in range(120)])
    schema, (X,) = encode([read_columns(table, "real")])
    found = Space(schema, X).neighbours(X[:30], X, np.arange(30))
    for i in range(30):
        distances = np.sort([_distance(schema, X, X[i], other) for k, other in enumerate(X) if k != i])
        assert found.first[i] == pytest.approx(distances[0], abs=1e-6)
        assert found.second[i] == pytest.approx(distances[1], abs=1e-6)


def _distance(schema: Any, X: Any, a: Any, b: Any) -> float:
    total = 0.0
    for j, discrete in enumerate(schema.discrete):
        if np.isnan(a[j]) or np.isnan(b[j]):
            total += np.isnan(a[j]) != np.isnan(b[j])
        elif discrete:
            total += a[j] != b[j]
        else:
            column = X[~np.isnan(X[:, j]), j]
            ranks = [(np.mean(column < value) + np.mean(column <= value)) / 2 for value in (a[j], b[j])]
            total += abs(ranks[0] - ranks[1])
    return total


def test_copies_are_equal_in_every_cell_empty_ones_too() -> None:
    known = np.array([[1.0, np.nan], [2.0, 0.0], [2.0, -0.0]])
    assert copied_share(np.array([[1.0, -np.nan], [2.0, 0.0], [1.0, 0.0]]), known) == pytest.approx(2 / 3)
    assert repeated_share(known) == pytest.approx(2 / 3)


# ---------------------------------------------------------------------- how it is told


def test_the_table_has_every_figure_with_its_meaning(fresh: Fidelity) -> None:
    text = str(fresh)
    assert text.startswith("800 synthetic, 700 held-out and 900 training rows of 6 columns\n")
    for one in fresh.figures:
        assert re.search(
            rf"^  {re.escape(one.title)} +{re.escape(one.text(one.value))} +{re.escape(one.text(one.real))}  {one.good}$",
            text,
            re.M,
        )
        assert one.meaning[1:] in " ".join(text.split())
        assert re.search(r"^[A-Z].*\.$", one.meaning)
    assert max(map(len, text.splitlines())) <= 100
    assert "columns that differ most" in text


def test_everything_is_in_the_dictionary_and_nothing_can_be_changed(fresh: Fidelity) -> None:
    content = json.loads(json.dumps(fresh.to_dict(), allow_nan=False))
    assert content["c2st"] == fresh.c2st
    assert content["figures"]["shape"]["real"] == fresh.real_against_real.shape
    assert [column["name"] for column in content["columns"]] == list(HOLDOUT)
    assert len(content["pairs"]) == 15
    with pytest.raises(FrozenInstanceError):
        fresh.c2st = 1.0  # type: ignore[misc]


@pytest.fixture(scope="module")
def hostile() -> Fidelity:
    names = dict(zip(HOLDOUT, HOSTILE))
    real, made = (table.replace({"colour": {"red": HOSTILE[0]}}).rename(columns=names) for table in (HOLDOUT, MORE))
    return fidelity(real, made, target=HOSTILE[0])


def test_names_do_not_steer_a_terminal_nor_a_notebook(hostile: Fidelity) -> None:
    assert str(hostile).isprintable() or all(line.isprintable() for line in str(hostile).splitlines())
    html = hostile._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;" in html


class Page(HTMLParser):
    """Elements, and the text between them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def pages(fresh: Fidelity, hostile: Fidelity, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("jinja2")
    folder = tmp_path_factory.mktemp("comparisons")
    found = {"fresh": folder / "fresh.html", "hostile": folder / "hostile.html"}
    write_comparison(fresh, found["fresh"])
    write_comparison(hostile, found["hostile"], title="<i>Names</i> \x1b & more")
    return found


@pytest.mark.parametrize("name", ["fresh", "hostile"])
def test_the_page_is_complete_in_itself_and_readable_without_seeing(name: str, pages: dict[str, Path]) -> None:
    page = Page(pages[name])
    assert not {"script", "link", "img", "iframe", "a"} & {tag for tag, _ in page.elements}
    assert not any({"src", "href", "srcset"} & attributes.keys() for _, attributes in page.elements)
    assert "url(" not in pages[name].read_text(encoding="utf-8")
    assert page.all("html") == [{"lang": "en"}]
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert all(len(picture["aria-label"] or "") > 15 for picture in page.all("svg"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert [section["aria-labelledby"] for section in page.all("section")] == ids


def test_the_page_shows_every_figure(fresh: Fidelity, pages: dict[str, Path]) -> None:
    text = Page(pages["fresh"]).text
    for one in fresh.figures:
        assert one.meaning in text
        assert one.text(one.value) in text
    assert all(column.name in text for column in fresh.columns)


def test_names_and_levels_are_text_on_the_page(pages: dict[str, Path]) -> None:
    page = Page(pages["hostile"])
    assert not page.all("i")
    assert "<i>Names</i> \\x1b & more" in page.text
    assert all(name in page.text for name in HOSTILE if name.isprintable())
    assert "\\x1b[2J\\u202eescape" in page.text
    assert "\x1b" not in page.text


def test_the_same_comparison_gives_the_same_bytes(fresh: Fidelity, pages: dict[str, Path], tmp_path: Path) -> None:
    write_comparison(fresh, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == pages["fresh"].read_bytes()
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        write_comparison(fresh, tmp_path / "nowhere" / "page.html")


def test_a_page_of_one_column(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    write_comparison(fidelity(HOLDOUT[["price"]], MORE[["price"]]), tmp_path / "one.html")
    assert "Pairs of columns" not in (tmp_path / "one.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["fresh", "hostile"])
def test_a_browser_shows_it_on_any_screen(
    name: str, width: int, dark: bool, pages: dict[str, Path], browser: Browser
) -> None:
    url = pages[name].as_uri()
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(url, width=width, dark=dark)
    assert browser.complaints == []
    assert browser.requests == [url]
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    beyond = (
        "[...document.querySelectorAll('td, th, p, h3, dd, dt')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    )
    assert browser.evaluate(beyond) == 0
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(17, 21, 27)") is dark


# ---------------------------------------------------------------------- a real table


def test_real_rows_of_adult_are_like_real_rows(shared_folder: Path) -> None:
    paths = [shared_folder / "tables" / f"adult-{part}.csv.gz" for part in ("train", "test")]
    if not all(path.exists() for path in paths):
        pytest.skip(f"{paths[0]} is absent")
    train, test = (pd.read_csv(path, na_values="?").sample(3000, random_state=0) for path in paths)
    other = pd.read_csv(paths[1], na_values="?").drop(test.index).sample(3000, random_state=1)
    found = fidelity(test, other, train=train)
    assert found.shape > 0.97
    assert found.c2st > 0.9
    assert found.trained_on_synthetic > 0.88
    assert found.nearer_to_training == pytest.approx(0.5, abs=0.03)
    bad = fidelity(test, shuffled(other), train=train)
    assert bad.shape == found.shape
    assert bad.c2st < 0.1
