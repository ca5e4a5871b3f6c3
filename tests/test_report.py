"""The report is one page that opens anywhere, tells what is so, and is written whole or not at all."""

from __future__ import annotations

import base64
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

import lbarn
from browser import Browser
from lbarn import LBARN, LBARNClassifier, LBARNEnsemble
from lbarn._models.density import Density
from lbarn.anomalies import explain
from lbarn.baselines import BernoulliMixture, IndependentBits
from lbarn.inspection import calibration
from lbarn.plots.numbers import chance
from lbarn.report import write_report
from networks import quick, rows, still_rising

pytestmark = still_rising

D, SHAPE = 12, (3, 4)
X, TEST = rows(300, D), rows(80, D, seed=1)
NAMES = [
    "<script>alert(1)</script>",
    "a & b",
    'quoted "',
    "cost $x^ or $y",
    "a_name_of_many_words_joined_by_underlines_until_it_is_long",
    "X" * 80,
    "temperature °C",
    *(f"column {d}" for d in range(7, D)),
]


@pytest.fixture(scope="module")
def model() -> LBARN:
    return quick(order="random", refit=True).fit(X)


@pytest.fixture(scope="module")
def pages(model: LBARN, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of images; and of a table with names and missing values."""
    folder = tmp_path_factory.mktemp("reports")
    write_report(model, TEST, folder / "images.html", title="Images", image_shape=SHAPE)
    holes = TEST.astype(float)
    holes[np.random.default_rng(0).random(holes.shape) < 0.1] = np.nan
    named = quick().fit(pd.DataFrame(X, columns=NAMES))
    write_report(named, pd.DataFrame(holes, columns=NAMES), folder / "names.html", title="<i>Names</i> & more")
    return {"images": folder / "images.html", "names": folder / "names.html"}


def minus(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


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

    def handle_endtag(self, tag: str) -> None:
        self.text += " "

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


class TestPage:
    @pytest.mark.parametrize("name", ["images", "names"])
    def test_is_complete_in_itself(self, name: str, pages: dict[str, Path]) -> None:
        page = Page(pages[name])
        for _, attributes in page.elements:
            for attribute in ("src", "srcset", "href"):
                assert (attributes.get(attribute) or "data:").startswith("data:image/svg+xml;base64,") or (
                    attribute not in attributes
                )
        assert not page.all("script")
        assert not page.all("link")
        assert "url(" not in pages[name].read_text(encoding="utf-8")

    @pytest.mark.parametrize("name", ["images", "names"])
    def test_can_be_read_without_seeing(self, name: str, pages: dict[str, Path]) -> None:
        page = Page(pages[name])
        assert page.all("html") == [{"lang": "en"}]
        assert all(len(image["alt"] or "") > 15 for image in page.all("img"))
        assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
        levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert max(np.diff(levels)) == 1  # no level is left out
        ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
        assert [section["aria-labelledby"] for section in page.all("section")] == ids

    def test_names_are_text_whatever_they_hold(self, pages: dict[str, Path]) -> None:
        page = Page(pages["names"])
        assert not page.all("i")
        assert "<i>Names</i> & more" in page.text
        assert all(name in page.text for name in NAMES)

    def test_tells_what_the_data_is(self, pages: dict[str, Path]) -> None:
        images, names = (re.sub(r"\s+", " ", Page(pages[name]).text) for name in ("images", "names"))
        assert f"share of ones {100 * TEST.mean():.1f}%" in images
        assert "missing values none" in images
        assert re.search(r"missing values (9|10|11)(\.\d)?%", names)

    def test_names_the_strangest_row_and_the_strongest_dependency(self, model: LBARN, pages: dict[str, Path]) -> None:
        text = Page(pages["images"]).text
        scores = model.score_samples(TEST)
        assert f"Row {scores.argmin()}: log p = {minus(scores.min(), 1)}" in text
        strongest = np.unravel_index(model.feature_importances_.argmax(), (D, D))
        first, second = (f"pixel {j // 4}, {j % 4}" for j in strongest)
        table = text.partition("is explained by")[2]
        assert 0 <= table.index(first) < table.index(second)

    def test_the_headline_is_the_score_and_simple_models_come_from_the_training_rows(
        self, model: LBARN, pages: dict[str, Path]
    ) -> None:
        text = re.sub(r"\s+", " ", Page(pages["images"]).text)
        assert "All 80 rows" in text
        assert f"log-likelihood, nats per row {minus(model.score(TEST), 2)} " in text
        expected = {
            "this model (LBARN)": model.score(TEST),
            "independent columns": IndependentBits().fit(X).score(TEST),
            "fair coins": -D * np.log(2),
        }
        for name, nats in expected.items():
            assert f"{name} {minus(nats, 2)} {-nats / np.log(2):.2f}" in text
        assert re.search(r"This model is better than independent columns by [\d.]+ nats per row \(standard error", text)
        assert "honest only if it was not fitted on the rows of this report" in text

    @pytest.mark.parametrize("name", ["images", "names"])
    def test_minus_signs_are_true_ones(self, name: str, pages: dict[str, Path]) -> None:
        assert not re.search(r"(?<![\w<-])-\d", Page(pages[name]).text.partition("Parameters")[0])

    @pytest.mark.parametrize("name", ["images", "names"])
    def test_all_text_in_pictures_is_of_one_size(self, name: str, pages: dict[str, Path]) -> None:
        sizes = set()
        for image in Page(pages[name]).all("img"):
            picture = base64.b64decode((image["src"] or "").partition(",")[2]).decode()
            sizes |= set(re.findall(r"font(?:-size)?: ([\d.]+px)", picture))
        assert sizes == {"10px"}

    def test_rare_values_are_counted(self, model: LBARN, pages: dict[str, Path]) -> None:
        text = re.sub(r"\s+", " ", Page(pages["images"]).text)
        every = calibration(model, TEST)[-1]
        assert f"any {TEST.size:,} {every.expected:,.0f} {every.observed:,.0f}" in text

    def test_base_rates_stand_beside_strange_values(self, model: LBARN, pages: dict[str, Path]) -> None:
        (strange,) = explain(model, TEST, n_rows=1, n_values=1)
        bit = strange.values[0]
        assert bit.base_rate is not None
        column = int(bit.column)
        text = re.sub(r"\s+", " ", Page(pages["images"]).text)
        value = f"pixel {column // 4}, {column % 4} is {bit.value}"
        assert re.search(rf"{value} \S+ (\S+ \S+ )?{re.escape(chance(bit.base_rate))}", text)

    def test_samples_of_a_table_with_names_are_a_table(self, pages: dict[str, Path]) -> None:
        page = Page(pages["names"])
        assert [one.get("class") for one in page.all("table")].count("samples") == 1
        assert not any("samples and the rows" in (image["alt"] or "") for image in page.all("img"))
        assert any("samples and the rows" in (image["alt"] or "") for image in Page(pages["images"]).all("img"))

    def test_a_model_without_base_rates_says_so(self, tmp_path: Path) -> None:
        model = quick().fit(X)
        model.base_rates_ = None  # as in files of version 0.1
        write_report(model, TEST, tmp_path / "report.html")
        text = Page(tmp_path / "report.html").text
        assert "no independent columns to compare with" in text
        assert "base rate" not in text
        assert "explained by other columns" not in text

    def test_the_same_arguments_give_the_same_bytes(self, model: LBARN, pages: dict[str, Path], tmp_path: Path) -> None:
        model.save(tmp_path / "model")
        loaded = lbarn.load(tmp_path / "model")
        write_report(loaded, TEST, tmp_path / "again.html", title="Images", image_shape=list(SHAPE))
        assert (tmp_path / "again.html").read_bytes() == pages["images"].read_bytes()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["images", "names"])
def test_a_browser_shows_it(name: str, width: int, dark: bool, browser: Browser, pages: dict[str, Path]) -> None:
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(pages[name].as_uri(), width=width, dark=dark)
    browser.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert (
        browser.evaluate("Promise.all([...document.images].map(image => image.decode())).then(() => 'decoded')")
        == "decoded"
    )
    assert browser.evaluate("document.images.length") == (13 if name == "images" else 8)
    assert browser.evaluate("[...document.images].filter(image => image.naturalWidth === 0).length") == 0
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    wide = "[...document.images].filter(image => image.getBoundingClientRect().right > innerWidth).length"
    assert browser.evaluate(wide) == 0
    chosen = "[...document.images].every(image => image.currentSrc === {})"
    other = "image.parentNode.querySelector('source').srcset" if dark else "image.src"
    assert browser.evaluate(chosen.format(other)) is True
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (np.mean([int(part) for part in re.findall(r"\d+", background)]) < 128) == dark
    assert browser.complaints == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.parametrize(
    ("density", "kind"),
    [
        (IndependentBits(), "one of the simple models"),
        (BernoulliMixture(n_components=3), "one of the simple models"),
        (
            LBARNEnsemble(n_orders=2, orders="random", max_leaf_nodes=2, max_iter=5, random_state=0),
            "a mixture of 2 networks",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_density_will_do(density: Any, kind: str, tmp_path: Path) -> None:
    write_report(density.fit(X), TEST[:12], tmp_path / "report.html")
    text = Page(tmp_path / "report.html").text
    assert kind in text
    assert ("Which rows are strange" in text) == isinstance(density, Density)
    assert ("Are its probabilities right" in text) == isinstance(density, Density)


def test_of_a_long_table_some_rows_are_chosen_and_a_trimmed_model_has_no_curves(tmp_path: Path) -> None:
    bits = rows(5100, 3)
    quick().fit(bits[:200]).save(tmp_path / "model", trim=True)
    write_report(lbarn.load(tmp_path / "model"), bits, tmp_path / "report.html")
    text = re.sub(r"\s+", " ", Page(tmp_path / "report.html").text)
    assert "rows 5,100" in text
    assert "compared with each other on 5,000 rows" in text
    assert "The model was trimmed" in text
    assert "A model of 3 binary columns" in text


class TestRefusals:
    def test_a_classifier_holds_several_densities(self, tmp_path: Path) -> None:
        classifier = LBARNClassifier(quick(max_iter=5)).fit(X, X[:, 0])
        with pytest.raises(ValueError, match="not about a LBARNClassifier; write one for each of its networks_"):
            write_report(classifier, TEST, tmp_path / "report.html")

    def test_an_unfitted_model(self, tmp_path: Path) -> None:
        with pytest.raises(NotFittedError):
            write_report(LBARN(), TEST, tmp_path / "report.html")

    def test_a_folder_that_is_not_there(self, model: LBARN, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="is not a folder"):
            write_report(model, TEST, tmp_path / "nowhere" / "report.html")

    def test_missing_values_where_the_model_cannot_fill_them(self, tmp_path: Path) -> None:
        mixture = BernoulliMixture(n_components=2).fit(X)
        with pytest.raises(ValueError, match="which BernoulliMixture cannot fill"):
            write_report(mixture, np.where(X[0] == TEST, TEST, np.nan), tmp_path / "report.html")

    def test_a_table_without_a_single_value(self, model: LBARN, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="every value of X is missing"):
            write_report(model, np.full((30, D), np.nan), tmp_path / "report.html")

    def test_whatever_is_wrong_an_older_report_stays(self, model: LBARN, tmp_path: Path) -> None:
        (tmp_path / "report.html").write_text("old")
        with pytest.raises(ValueError, match="an image of 5 x 5 has 25 pixels, but the model has 12 columns"):
            write_report(model, TEST, tmp_path / "report.html", image_shape=(5, 5))
        with pytest.raises(ValueError, match="11 features"):
            write_report(model, TEST[:, 1:], tmp_path / "report.html")
        assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("report.html", "old")]

    @pytest.mark.parametrize("absent", ["jinja2", "matplotlib.figure"])
    def test_without_the_extra_it_is_said_what_to_install(
        self, absent: str, model: LBARN, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, absent, None)
        with pytest.raises(ImportError, match=r"pip install 'lbarn\[plots\]'"):
            write_report(model, TEST, tmp_path / "report.html")
