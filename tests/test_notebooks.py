"""What a notebook shows: models, columns, conditional distributions, comparisons and progress, as HTML."""

from __future__ import annotations

import sys
import types
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
import sklearn

import lbarn
from lbarn import LBARN, LBARNEnsemble
from lbarn._training.progress import bar
from lbarn.baselines import IndependentColumns
from networks import quick, still_rising

pytestmark = still_rising
pd = pytest.importorskip("pandas")


def table(n: int = 300) -> Any:
    rng = np.random.default_rng(0)
    city = rng.choice(["<Bonn>", "Kiel", "Ulm"], n)
    rent = np.round(9 + 3 * (city == "<Bonn>") + rng.normal(0, 1, n), 2)
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D")
    return pd.DataFrame({"city": city, "rent": rent, "day": day, "late": rent > 11})


TABLE = table()


@pytest.fixture(scope="module")
def model() -> LBARN:
    return LBARN(random_state=0).fit(TABLE)


class Text(HTMLParser):
    """The text of a page whose tags are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def shown(thing: Any) -> str:
    bundle = getattr(thing, "_repr_mimebundle_", None)
    return Text(thing._repr_html_() if bundle is None else bundle()["text/html"]).text


def test_a_fitted_model_tells_what_it_is_how_good_and_how_to_go_on(model: LBARN) -> None:
    text = shown(model)
    assert "LBARN of 4 columns" in text
    assert "LBARN(random_state=0)" in text
    assert "nats per row ahead of independent columns" in text
    assert "2 decimals" in text or "0.01" in text
    assert "model.conditional(X, 'late')" in text
    assert model._repr_html_() == model._repr_mimebundle_()["text/html"]


def test_a_model_that_found_nothing_says_so() -> None:
    noise = np.random.default_rng(0).integers(0, 5, (60, 3))
    assert "no better than independent columns" in shown(LBARN(random_state=0, max_iter=2).fit(noise))


def test_how_good_is_close_to_what_independent_columns_leave(model: LBARN) -> None:
    fresh = TABLE.sample(frac=1.0, random_state=1)
    gain = model.score(fresh) - IndependentColumns().fit(TABLE).score(fresh)
    assert model._explained() == pytest.approx(gain, abs=0.5)


def test_a_model_that_is_not_fitted_is_shown_as_scikit_learn_does() -> None:
    assert "sk-" in LBARN()._repr_html_()


def test_scikit_learns_setting_for_plain_text_holds(model: LBARN) -> None:
    with sklearn.config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_an_ensemble_and_a_model_from_a_trimmed_file_say_what_they_know(model: LBARN, tmp_path: Any) -> None:
    assert "LBARNEnsemble of 4 columns" in shown(LBARNEnsemble(n_orders=2, max_iter=5, random_state=0).fit(TABLE))
    model.save(tmp_path / "small.lbarn", trim=True)
    assert "ahead" not in shown(lbarn.load(tmp_path / "small.lbarn"))


def test_columns_escape_what_is_in_them(model: LBARN) -> None:
    assert "<Bonn>, Kiel, Ulm" in shown(model.columns_)
    assert "<Bonn>" not in model.columns_._repr_html_()


@pytest.mark.parametrize(
    ("column", "told"), [("city", "likeliest"), ("rent", "median"), ("day", "2024-"), ("late", "True")]
)
def test_a_conditional_distribution_of_any_kind_is_a_table(model: LBARN, column: str, told: str) -> None:
    text = shown(model.conditional(TABLE, column))
    assert told in text
    assert "and 295 more rows" in text


def test_a_conditional_tells_the_mean_and_the_middle(model: LBARN) -> None:
    own = model.conditional(TABLE[:1], "rent")
    for value in (own.mean()[0], *own.quantile([0.05, 0.5, 0.95])[0]):
        assert f"{value:.6g}" in shown(own)


def test_between_agrees_with_draws_and_quantiles(model: LBARN) -> None:
    own = model.conditional(TABLE[:50], "rent")
    draws = np.array([own.sample(random_state=k) for k in range(400)])
    shares = ((draws >= 9.5) & (draws <= 11.0)).mean(axis=0)
    assert np.abs(own.between(9.5, 11.0) - shares).max() < 0.12
    np.testing.assert_allclose(own.between(-np.inf, np.inf), 1.0)
    assert (own.between(-np.inf, own.quantile(0.9).max()) >= 0.9 - 1e-9).all()
    with pytest.raises(ValueError, match="categorical"):
        model.conditional(TABLE[:1], "city").between(0, 1)


def test_a_comparison_is_a_table(model: LBARN) -> None:
    assert "real against real" in shown(lbarn.fidelity(TABLE, model.sample(200, random_state=0)))


class TestProgress:
    """In a notebook, for which a kernel stands in that keeps what it is asked to display."""

    @pytest.fixture
    def displayed(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        pictures: list[str] = []

        class Handle:
            def update(self, html: str) -> None:
                pictures.append(html)

        def display(html: str, display_id: bool) -> Handle:
            assert not pictures, "one display is updated"
            pictures.append(html)
            return Handle()

        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        shows = types.ModuleType("IPython.display")
        shows.HTML, shows.display = str, display
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        monkeypatch.setitem(sys.modules, "IPython.display", shows)
        return pictures

    def test_a_fit_ends_with_a_full_bar(self, displayed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        quick(verbose=1).fit(TABLE)
        assert "value='4' max='4'" in displayed[-1]
        assert "4/4 dimensions" in Text(displayed[-1]).text
        assert capsys.readouterr().err == ""

    def test_a_total_that_is_not_known_is_left_open(self, displayed: list[str]) -> None:
        with bar("rows") as advance:
            advance(3)
        assert "<progress></progress> 3 rows" in displayed[-1]

    def test_a_patient_bar_leaves_no_trace(self, displayed: list[str]) -> None:
        with bar("rows", 3, patience=0.0) as advance:
            advance(3)
        assert displayed[-1] == ""

    def test_a_short_job_shows_no_patient_bar(self, displayed: list[str]) -> None:
        with bar("rows", 3, patience=1000.0) as advance:
            advance(3)
        assert displayed == []
