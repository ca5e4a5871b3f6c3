"""The report on any table: its facts are those of the model and the rows, and its page opens anywhere, whatever the table holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

from browser import Browser
from lbarn import LBARN, LBARNEnsemble
from lbarn.report import write_report
from lbarn.report.tables.facts import Facts, collect
from lbarn.report.tables.fit import log_marginal_cells, pair_strength
from lbarn.report.tables.pairs import Boxes, HeatMap, Scatter
from lbarn.report.tables.rows import read_rows
from lbarn.report.words import labels
from networks import still_rising
from test_report import Page, minus

pytestmark = [still_rising, pytest.mark.filterwarnings("ignore:.*is left out")]

N, TRAIN = 600, 400
HOSTILE = [
    "<script>alert(1)</script>",
    "a & b",
    "\"quoted\" 'twice'",
    "=SUM(A1)",
    "שלום עולם",
    "line\nbreak \u202e turned",
    "",
    "X" * 200,
]


def people() -> pd.DataFrame:
    """Numbers, categories, dates and bits that depend on each other, with empty cells."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, N)
    town = np.where(age > 50, rng.choice(["Ulm", "Bonn"], N), rng.choice(["Kiel", "Bonn"], N))
    income = np.where(rng.random(N) < 0.5, 0, age * 100 + rng.integers(0, 500, N))
    frame = pd.DataFrame(
        {
            "age": age,
            "town": town,
            "income": income,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(age + rng.integers(0, 5, N), "D"),
            "retired": age >= 65,
            "height": rng.normal(170, 10, N),
            "id": [f"person {k}" for k in range(N)],
        }
    )
    return frame.mask(rng.random(frame.shape) < [0.2, 0, 0, 0, 0, 0, 0])


def hostile() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    level = rng.integers(0, len(HOSTILE), N)
    return pd.DataFrame(
        {
            "<img src=x onerror=alert(1)>": [HOSTILE[k] for k in level],
            "cost $x^ or $y": np.where(rng.random(N) < 0.7, level, rng.integers(0, 10, N)),
            "مرحبا بالعالم": rng.normal(size=N).round(1) + level,
            "N" * 120: rng.choice(["yes", "no"], N),
            "{{ 7 * 7 }}": level > 3,
        }
    )


def quick(**parameters: Any) -> LBARN:
    return LBARN(**{"max_leaf_nodes": 4, "learning_rate": 0.3, "max_iter": 20, "random_state": 0, **parameters})


@pytest.fixture(scope="module")
def model() -> LBARN:
    return quick().fit(people()[:TRAIN])


@pytest.fixture(scope="module")
def test_rows() -> pd.DataFrame:
    return people()[TRAIN:].reset_index(drop=True)


@pytest.fixture(scope="module")
def facts(model: LBARN, test_rows: pd.DataFrame) -> Facts:
    return collect(model, test_rows, 0)


@pytest.fixture(scope="module")
def pages(model: LBARN, test_rows: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    write_report(model, test_rows, folder / "people.html", title="People")
    write_report(
        quick().fit(hostile()[:TRAIN]), hostile()[TRAIN:], folder / "hostile.html", title="<u>Hostile</u> & more"
    )
    return {name: folder / f"{name}.html" for name in ("people", "hostile")}


class TestFacts:
    def test_scores_are_those_of_the_model_and_of_marginals(
        self, model: LBARN, test_rows: pd.DataFrame, facts: Facts
    ) -> None:
        assert facts.fit.score == pytest.approx(model.score(test_rows))
        rows = read_rows(model, test_rows)
        alone = rows.inside.sum(axis=1) + sum(
            log_marginal_cells(field.code)[rows.cells[:, j]] for j, field in enumerate(facts.fields)
        )
        assert facts.fit.independent == pytest.approx(alone.mean())
        assert facts.fit.gain == pytest.approx(facts.fit.score - facts.fit.independent)
        assert facts.fit.gains.sum() == pytest.approx(facts.fit.gain)  # columns add up to rows

    def test_marginals_are_distributions(self, model: LBARN) -> None:
        for code in model.codebook_.codes:
            assert np.exp(log_marginal_cells(code)).sum() == pytest.approx(1)

    def test_the_gain_on_held_out_rows_is_about_that_on_new_ones(self, facts: Facts) -> None:
        assert facts.fit.validated == pytest.approx(facts.fit.gain, abs=0.7)

    def test_what_a_column_gains_is_shared_out_among_its_predictors(self, model: LBARN, facts: Facts) -> None:
        strength = pair_strength(model.distribution.importance(), facts.fit.gains)
        shared = np.asarray(strength.sum(axis=1)).ravel()
        predicted = np.asarray(model.distribution.importance().sum(axis=1)).ravel() > 0
        np.testing.assert_allclose(shared[predicted], np.maximum(facts.fit.gains, 0)[predicted])

    def test_distributions_are_shares_of_the_rows(self, test_rows: pd.DataFrame, facts: Facts) -> None:
        found = {facts.fields[one.column].name: one for one in facts.distributions}
        assert set(found) == {"age", "town", "income", "since", "retired", "height"}
        assert found["age"].empty[0] == pytest.approx(test_rows["age"].isna().mean())
        assert found["age"].empty[1] == pytest.approx(0.2, abs=0.05)
        town = found["town"].bars
        assert town is not None
        shares = test_rows["town"].value_counts(normalize=True)
        assert {bar.level: bar.real for bar in town} == pytest.approx(shares.to_dict())
        income = found["income"].histogram
        assert income is not None
        assert income.spike is not None
        assert (income.spike.value, income.spike.real) == (0, pytest.approx((test_rows["income"] == 0).mean()))
        drawn = (income.real * np.diff(income.edges)).sum()  # up to the scale of the axis
        assert drawn == pytest.approx(1 - income.spike.real - income.outside, rel=0.1)

    def test_pairs_have_the_picture_of_their_kinds(self, facts: Facts) -> None:
        kinds = {}
        for pair in facts.dependencies.pictured:
            names = frozenset(facts.fields[j].name for j in (pair.first, pair.second))
            kinds[names] = type(pair.picture)
        assert kinds[frozenset({"age", "since"})] is Scatter
        assert kinds.get(frozenset({"age", "retired"}), Boxes) is Boxes
        assert kinds.get(frozenset({"town", "retired"}), HeatMap) is HeatMap
        strongest = facts.dependencies.pictured[0]
        assert {facts.fields[j].name for j in (strongest.first, strongest.second)} == {"age", "since"}
        assert strongest.association[0] > 0.4
        assert 0 <= facts.dependencies.associations.values.min() <= facts.dependencies.associations.values.max() <= 1

    def test_a_dependent_column_is_guessed_from_the_others(self, facts: Facts) -> None:
        guesses = {facts.fields[guess.column].name: guess for guess in facts.predictions.guesses}
        assert guesses["age"].error < guesses["age"].alone / 2
        assert guesses["height"].error == pytest.approx(guesses["height"].alone, rel=0.3)
        assert guesses["retired"].error < guesses["retired"].alone

    def test_numbers_are_even_over_the_tenths_of_their_predictions(self, facts: Facts) -> None:
        tenths = facts.predictions.tenths
        assert tenths is not None
        assert tenths.sum() == pytest.approx(tenths[0] * 10, rel=0.5)

    def test_strange_values_are_told_with_what_was_expected(self, model: LBARN, test_rows: pd.DataFrame) -> None:
        odd = test_rows.dropna().reset_index(drop=True)
        odd.loc[7, ["age", "town", "since", "retired"]] = [20, "Kiel", pd.Timestamp("2020-03-20"), False]
        odd.loc[9, "town"] = "Atlantis"
        odd.loc[11, "height"] = 400.0
        rows = {row.row: row for row in collect(model, odd, 0).strange.rows}
        assert {7, 9, 11} <= set(rows)
        clauses = {
            (number, field): reason.expected
            for number in (7, 9, 11)
            for reason in rows[number].reasons
            for field in [list(odd.columns)[reason.column]]
        }
        assert clauses[9, "town"] == "no training row had this level"
        assert clauses[11, "height"].startswith("training rows had 1")
        assert re.fullmatch(r"expected \S+ to \S+", clauses.get((7, "age")) or clauses[7, "since"])

    def test_samples_stand_beside_the_rows_most_like_them(self, test_rows: pd.DataFrame, facts: Facts) -> None:
        found = facts.samples
        town = next(j for j, field in enumerate(facts.fields) if field.name == "town")
        assert found.nearest[town] == test_rows["town"].iloc[found.nearest_numbers].tolist()
        assert found.made[town] == found.nearest[town]  # a level that differs costs much

    def test_rows_that_are_not_there_are_empty_not_blank(self, facts: Facts) -> None:
        age = facts.samples.made[0] + facts.samples.nearest[0]
        assert "" not in age


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(lambda f: f[["town", "retired"]], id="categories alone"),
        pytest.param(lambda f: f[["height", "income"]], id="numbers alone"),
        pytest.param(lambda f: f[["since"]], id="one column"),
        pytest.param(lambda f: f[["town"]], id="one column of levels"),
        pytest.param(lambda f: f.assign(same="same", three=3.0), id="constant columns"),
        pytest.param(
            lambda f: f.assign(town=pd.Categorical(f["town"], ["Kiel", "Ulm", "Bonn"], ordered=True)), id="order"
        ),
        pytest.param(lambda f: f[["retired", "id"]], id="bits, and a column that is left out"),
        pytest.param(lambda f: f[["age", "height"]].to_numpy(), id="without names"),
    ],
)
def test_any_table_will_do(frame: Any, tmp_path: Path) -> None:
    table = frame(people())
    write_report(quick().fit(table[:TRAIN]), table[TRAIN:], tmp_path / "report.html")
    text = Page(tmp_path / "report.html").text
    assert "What are the columns?" in text
    assert "nan" not in re.sub(r"\bNaN\b", "", text).lower().split()


@pytest.mark.parametrize("missing", ["value", "unknown"])
@pytest.mark.parametrize("kind", [LBARN, LBARNEnsemble])
def test_empty_cells_will_do(kind: Any, missing: str, tmp_path: Path) -> None:
    table = people().drop(columns="id")
    holes = table.mask(np.random.default_rng(1).random(table.shape) < 0.2)
    several = {"n_orders": 2} if kind is LBARNEnsemble else {}
    own = kind(max_leaf_nodes=4, learning_rate=0.3, max_iter=10, random_state=0, missing=missing, **several)
    own.fit(holes[:TRAIN])
    write_report(own, holes[TRAIN : TRAIN + 40], tmp_path / "report.html")
    text = re.sub(r"\s+", " ", Page(tmp_path / "report.html").text)
    assert re.search(r"Empty: 1\d(\.\d)?%|Empty: 2\d(\.\d)?%", text)
    assert ("a mixture of 2 networks" in text) == (kind is LBARNEnsemble)


def test_a_single_row_will_do(model: LBARN, test_rows: pd.DataFrame, tmp_path: Path) -> None:
    write_report(model, test_rows[:1], tmp_path / "report.html")
    assert "can hardly be told apart" in Page(tmp_path / "report.html").text


def test_names_in_pictures_stay_different() -> None:
    for name in (
        "sensor number {:03} on the roof",
        "number of the sensor: {:03}",
        "on the roof, {:03} of many sensors",
    ):
        assert len(set(labels([name.format(k) for k in range(20)]))) == 20
    assert labels(["short", "names"]) == ["short", "names"]


class TestPage:
    def test_the_headline_and_the_figures_are_the_models(
        self, model: LBARN, test_rows: pd.DataFrame, facts: Facts, pages: dict[str, Path]
    ) -> None:
        text = re.sub(r"\s+", " ", Page(pages["people"]).text)
        assert f"log-likelihood, nats per row {minus(model.score(test_rows), 2)} " in text
        assert f"gain over independent columns, nats per row {minus(facts.fit.gain, 2)} " in text
        assert f"a row {np.exp(facts.fit.gain):,.0f} times as likely" in text
        assert "Left out of the model: id" in text
        assert "Some columns hold numbers without a grid" in text

    @pytest.mark.parametrize("name", ["people", "hostile"])
    def test_is_complete_in_itself(self, name: str, pages: dict[str, Path]) -> None:
        page = Page(pages[name])
        for _, attributes in page.elements:
            for attribute in ("src", "srcset"):
                assert (attributes.get(attribute) or "data:image/svg+xml;base64,").startswith(
                    "data:image/svg+xml;base64,"
                )
            assert "href" not in attributes
            assert not any(attribute.startswith("on") for attribute in attributes)
        assert not page.all("script")
        assert not page.all("link")
        assert "url(" not in pages[name].read_text(encoding="utf-8")

    @pytest.mark.parametrize("name", ["people", "hostile"])
    def test_can_be_read_without_seeing(self, name: str, pages: dict[str, Path]) -> None:
        page = Page(pages[name])
        assert all(len(image["alt"] or "") > 15 for image in page.all("img"))
        assert all(len(image["aria-label"] or "") > 10 for image in page.all("svg"))
        assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
        drawn = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert drawn[0] == 1
        assert max(np.diff(drawn)) == 1  # no level is left out
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert [section["aria-labelledby"] for section in page.all("section")] == ids

    def test_names_and_levels_are_text_whatever_they_hold(self, pages: dict[str, Path]) -> None:
        page = Page(pages["hostile"])
        assert "<u>Hostile</u> & more" in page.text
        assert not page.all("u")
        assert {image["src"][:5] for image in page.all("img") if image["src"]} == {"data:"}
        for shown in (
            "<img src=x onerror=alert(1)>",
            "{{ 7 * 7 }}",
            "<script>alert(1)</script>",
            "שלום עולם",
            "(blank)",
        ):
            assert shown in page.text
        assert "\u202e" not in page.text
        assert "X" * 60 not in page.text
        assert "N" * 80 not in page.text

    @pytest.mark.parametrize("name", ["people", "hostile"])
    def test_minus_signs_are_true_ones(self, name: str, pages: dict[str, Path]) -> None:
        text = Page(pages[name]).text.partition("Parameters")[0]
        assert not re.search(r"(?<![\w<-])-\d", text)

    def test_the_same_arguments_give_the_same_bytes(
        self, model: LBARN, test_rows: pd.DataFrame, pages: dict[str, Path], tmp_path: Path
    ) -> None:
        model.save(tmp_path / "model.lbarn")
        write_report(LBARN.load(tmp_path / "model.lbarn"), test_rows, tmp_path / "again.html", title="People")
        assert (tmp_path / "again.html").read_bytes() == pages["people"].read_bytes()

    def test_images_are_of_bits(self, model: LBARN, test_rows: pd.DataFrame, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="image_shape goes with a table of 0 and 1"):
            write_report(model, test_rows, tmp_path / "report.html", image_shape=(1, 7))

    def test_a_table_without_a_single_value(self, model: LBARN, test_rows: pd.DataFrame, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="every value of X is missing"):
            write_report(model, test_rows.mask(test_rows.notna()), tmp_path / "report.html")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1300])
@pytest.mark.parametrize("name", ["people", "hostile"])
def test_a_browser_shows_it(name: str, width: int, dark: bool, browser: Browser, pages: dict[str, Path]) -> None:
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(pages[name].as_uri(), width=width, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    decoded = "Promise.all([...document.images].map(image => image.decode())).then(() => 'decoded')"
    assert browser.evaluate(decoded) == "decoded"
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    outside = "[...document.querySelectorAll('img, svg, .card, .bars, .boxes')].filter(own => own.getBoundingClientRect().right > innerWidth)"
    assert browser.evaluate(f"{outside}.length") == 0
    flat = "[...document.querySelectorAll('svg')].filter(own => own.getBoundingClientRect().height < 20).length"
    assert browser.evaluate(flat) == 0
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (np.mean([int(part) for part in re.findall(r"\d+", background)]) < 128) == dark
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
