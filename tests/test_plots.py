"""Displays hold what the model says, draw it as images or bars, and refuse what cannot be drawn."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

pytest.importorskip("matplotlib")
import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb

from lbarn import LBARN, plots
from lbarn.baselines import BernoulliMixture, IndependentBits
from lbarn.inspection import Calibration
from lbarn.plots.columns import shortened
from lbarn.plots.graph import strongest_pairs
from networks import quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

D, SHAPE = 12, (3, 4)
X, TEST = rows(300, D), rows(60, D, seed=1)
NAMES = [f"variable {'abcdefghijkl'[d]}" for d in range(D)]


@pytest.fixture(scope="module")
def model() -> LBARN:
    return quick(order="random").fit(X)


@pytest.fixture(scope="module")
def named() -> LBARN:
    return quick(order="random").fit(pd.DataFrame(X, columns=NAMES))


Draw = Callable[..., Any]

# One way to make each display of a model, with what else from_estimator is given.
DISPLAYS: dict[str, Draw] = {
    "samples": lambda model, **how: plots.SamplesDisplay.from_estimator(model, X, n_samples=3, **how),
    "trees": plots.TreeCountsDisplay.from_estimator,
    "importance": lambda model, **how: plots.ImportanceDisplay.from_estimator(model, 5, **how),
    "graph": lambda model, **how: plots.DependencyGraphDisplay.from_estimator(model, n_pairs=8, **how),
    "order": plots.OrderDisplay.from_estimator,
    "reconstruction": lambda model, **how: plots.ReconstructionDisplay.from_estimator(
        model, TEST[:2], share=0.5, **how
    ),
    "surprise": lambda model, **how: plots.SurpriseDisplay.from_estimator(model, TEST, 7, **how),
}
SEVERAL: dict[str, Draw] = {
    "calibration": lambda model, **how: plots.CalibrationDisplay.from_estimator(model, TEST, **how),
    "curves": plots.ValidationCurvesDisplay.from_estimator,
    "cumulative": lambda model, **how: plots.CumulativeScoreDisplay.from_estimator(model, TEST, **how),
}
ALL = DISPLAYS | SEVERAL


def texts(display: Any) -> list[str]:
    """All that is written in a picture."""
    display.figure_.canvas.draw()
    found = display.figure_.findobj(matplotlib.text.Text)
    return [text.get_text() for text in found if text.get_visible() and text.get_text()]


@pytest.mark.parametrize("name", ALL)
def test_draws_on_a_figure_of_its_own(name: str, model: LBARN) -> None:
    display = ALL[name](model)
    assert display.ax_.figure is display.figure_
    assert display.ax_.has_data() or display.ax_.patches
    display.figure_.canvas.draw()


@pytest.mark.parametrize("name", ALL)
def test_draws_where_it_is_told_to_and_again_elsewhere(name: str, model: LBARN) -> None:
    figure, axes = plt.subplots(1, 2)
    display = ALL[name](model, ax=axes[0])
    assert display.ax_ is axes[0]
    assert display.figure_ is figure
    assert display.plot(ax=axes[1]) is display
    assert display.ax_ is axes[1]


@pytest.mark.parametrize("name", DISPLAYS)
def test_pixels_are_drawn_as_an_image(name: str, model: LBARN) -> None:
    display = DISPLAYS[name](model, shape=SHAPE)
    assert display.shape == SHAPE
    assert display.ax_.images or name == "graph"


@pytest.mark.parametrize("name", ALL)
def test_a_dark_style_gives_a_dark_picture(name: str, model: LBARN) -> None:
    with plt.style.context("dark_background"):
        display = ALL[name](model, **({"shape": SHAPE} if name in DISPLAYS else {}))
        display.figure_.canvas.draw()
        pixels = np.asarray(display.figure_.canvas.buffer_rgba())[..., :3]
    assert pixels[0, 0].max() < 64  # what lies behind everything


@pytest.mark.parametrize("name", DISPLAYS)
@pytest.mark.parametrize("shape", [(3, 5), (12,), (3.0, 4.0), (-3, -4)])
def test_a_shape_that_does_not_fit_is_refused(name: str, shape: Any, model: LBARN) -> None:
    with pytest.raises(ValueError, match=r"has 15 pixels, but the model has 12 columns|two whole numbers above 0"):
        DISPLAYS[name](model, shape=shape)


@pytest.mark.parametrize("name", ALL)
def test_a_model_that_is_not_fitted_is_refused(name: str) -> None:
    with pytest.raises(NotFittedError):
        ALL[name](LBARN())


@pytest.mark.parametrize("name", ["samples", "reconstruction", "surprise"])
def test_missing_bits_are_refused(name: str, model: LBARN) -> None:
    holes = TEST.astype(float)
    holes[0, 2] = np.nan
    display = {"samples": plots.SamplesDisplay, "reconstruction": plots.ReconstructionDisplay}.get(
        name, plots.SurpriseDisplay
    )
    with pytest.raises(ValueError, match="column 2 is missing"):
        display.from_estimator(model, holes)


def test_without_matplotlib_it_is_said_what_to_install(model: LBARN, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'lbarn\[plots\]'"):
        plots.OrderDisplay.from_estimator(model)


class TestSamples:
    @pytest.mark.parametrize("density", [IndependentBits(), BernoulliMixture(n_components=3)], ids=str)
    def test_nearest_rows_differ_least(self, density: Any) -> None:
        display = plots.SamplesDisplay.from_estimator(density.fit(X), TEST, n_samples=9, random_state=3)
        np.testing.assert_array_equal(display.samples, density.sample(9, random_state=3))
        distance = (display.samples[:, None] != TEST[None]).sum(axis=2)
        np.testing.assert_array_equal((display.samples != display.nearest).sum(axis=1), distance.min(axis=1))

    def test_samples_are_drawn_as_they_are_whatever_the_threshold(self) -> None:
        model, grey = quick().fit(X), quick(binarize=7).fit(X * 10)
        display = plots.SamplesDisplay.from_estimator(grey, TEST * 10, random_state=0)
        expected = plots.SamplesDisplay.from_estimator(model, TEST, random_state=0)
        np.testing.assert_array_equal(display.samples, expected.samples)
        np.testing.assert_array_equal(display.nearest, expected.nearest)

    def test_of_a_table_with_names(self, named: LBARN) -> None:
        display = plots.SamplesDisplay.from_estimator(named, pd.DataFrame(X, columns=NAMES), n_samples=2)
        assert texts(display).count("nearest row") == 2

    def test_every_bit_is_drawn_in_its_place(self, model: LBARN) -> None:
        display = plots.SamplesDisplay.from_estimator(model, X, n_samples=3, shape=SHAPE)
        canvas = display.ax_.images[0].get_array()
        second = canvas[1 : 1 + SHAPE[0], 7 + 1 : 7 + 1 + SHAPE[1], 0]  # images are 4 wide, in a frame, with a gap
        np.testing.assert_array_equal(second < 0.5, display.samples[1].reshape(SHAPE))


class TestColumns:
    def test_numbers_of_trees_are_those_of_the_model(self, model: LBARN) -> None:
        display = plots.TreeCountsDisplay.from_estimator(model)
        assert [bar.get_width() for bar in display.ax_.patches] == model.n_trees_.tolist()
        image = plots.TreeCountsDisplay.from_estimator(model, shape=SHAPE).ax_.images[0].get_array()
        np.testing.assert_array_equal(image, model.n_trees_.reshape(SHAPE))

    def test_positions_are_those_of_the_order(self, model: LBARN) -> None:
        position = plots.OrderDisplay.from_estimator(model, shape=SHAPE).position
        assert position[model.order_].tolist() == list(range(1, D + 1))

    def test_names_are_written_where_there_are_some(self, named: LBARN) -> None:
        for display in (plots.TreeCountsDisplay, plots.OrderDisplay):
            assert set(NAMES) <= set(texts(display.from_estimator(named)))

    def test_many_columns_are_drawn_without_names(self) -> None:
        wide = IndependentBits().fit(rows(20, 90))
        display = plots.TreeCountsDisplay.from_estimator(wide)
        (outline,) = display.ax_.patches
        assert outline.get_data().values.tolist() == [1] * 90
        assert display.ax_.get_xlabel() == "column"


class TestImportance:
    def test_bars_are_the_strongest_predictors_by_name(self, named: LBARN) -> None:
        column = int(named.order_[-1])
        display = plots.ImportanceDisplay.from_estimator(named, NAMES[column], n_shown=3)
        importance = named.feature_importances_[column]
        strongest = np.argsort(-importance)[:3]
        labels = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert labels == [NAMES[j] for j in strongest]
        assert [bar.get_width() for bar in display.ax_.patches] == importance[strongest].tolist()

    def test_the_column_itself_is_framed(self, model: LBARN) -> None:
        (frame,) = plots.ImportanceDisplay.from_estimator(model, 6, shape=SHAPE).ax_.patches
        assert (frame.get_x(), frame.get_y()) == (1.5, 0.5)  # row 1, column 2

    def test_the_first_column_depends_on_none(self, model: LBARN) -> None:
        assert "no other column" in texts(plots.ImportanceDisplay.from_estimator(model, int(model.order_[0])))

    def test_an_unknown_column_is_refused_and_close_ones_are_named(self, named: LBARN, model: LBARN) -> None:
        with pytest.raises(ValueError, match="no column 'variable z'; close to it: 'variable"):
            plots.ImportanceDisplay.from_estimator(named, "variable z")
        with pytest.raises(ValueError, match="no column 'age'; there are 12, the first is 'variable a'"):
            plots.ImportanceDisplay.from_estimator(named, "age")
        for column in ("age", 12, -1):
            with pytest.raises(ValueError, match="go by their numbers, 0 to 11"):
                plots.ImportanceDisplay.from_estimator(model, column)


class TestGraph:
    def test_pairs_are_the_largest_importances(self, model: LBARN) -> None:
        importance = model.feature_importances_
        display = plots.DependencyGraphDisplay.from_estimator(model, n_pairs=5)
        assert display.strength.tolist() == sorted(importance.ravel(), reverse=True)[:5]
        assert [importance[i, j] for i, j in display.pairs] == display.strength.tolist()
        widths = [line.get_linewidth() for line in display.ax_.patches]
        assert len(widths) == 5
        assert widths == sorted(widths, reverse=True)

    def test_of_many_columns_the_importance_is_never_dense(self) -> None:
        n = 30_000  # of which a square would take 7 GB
        i, gain = np.arange(1, n), np.arange(1.0, n)
        pairs, strength = strongest_pairs(csr_array((gain, (i, i - 1)), shape=(n, n)), 2)
        assert pairs.tolist() == [[n - 1, n - 2], [n - 2, n - 3]]
        assert strength.tolist() == [n - 1, n - 2]

    def test_every_node_is_named_once(self, named: LBARN) -> None:
        display = plots.DependencyGraphDisplay.from_estimator(named, n_pairs=6)
        assert sorted(texts(display)) == sorted(NAMES[j] for j in np.unique(display.pairs))

    def test_it_is_said_where_nothing_depends_on_anything(self) -> None:
        display = plots.DependencyGraphDisplay.from_estimator(IndependentBits().fit(X))
        assert texts(display) == ["no column depends on another"]

    def test_a_number_of_pairs_that_makes_no_sense_is_refused(self, model: LBARN) -> None:
        with pytest.raises(ValueError, match="n_pairs must be a whole number"):
            plots.DependencyGraphDisplay.from_estimator(model, n_pairs=0)


class TestSeveralModels:
    def test_curves_are_sums_over_columns(self) -> None:
        models = [quick(max_leaf_nodes=J).fit(X) for J in (2, 4, 4)]
        display = plots.ValidationCurvesDisplay.from_estimator(models)
        assert list(display.curves) == ["J = 2", "J = 4", "J = 4 (2)"]
        np.testing.assert_allclose(display.curves["J = 2"], models[0].valid_curve_.sum(axis=0))
        assert f"J = 2: \N{MINUS SIGN}{-display.curves['J = 2'].max():.2f}" in texts(display)

    def test_labels_of_a_mapping_are_kept(self, model: LBARN) -> None:
        assert list(plots.ValidationCurvesDisplay.from_estimator({"mine": model}).curves) == ["mine"]

    def test_a_trimmed_model_has_no_curves(self, model: LBARN, tmp_path: Any) -> None:
        model.save(tmp_path / "model", trim=True)
        with pytest.raises(ValueError, match="'J = 4' has no curves"):
            plots.ValidationCurvesDisplay.from_estimator(LBARN.load(tmp_path / "model"))

    def test_scores_add_up_to_the_log_likelihood(self, model: LBARN) -> None:
        given = quick().fit(X)
        display = plots.CumulativeScoreDisplay.from_estimator([given, model], TEST)
        assert {label: score[-1] for label, score in display.scores.items()} == {
            "given": pytest.approx(given.score(TEST)),
            "random": pytest.approx(model.score(TEST)),
        }

    def test_no_model_at_all_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no model to draw"):
            plots.ValidationCurvesDisplay.from_estimator([])


class TestCalibration:
    def test_dots_are_the_groups_between_thresholds(self) -> None:
        lines = [Calibration(0.01, 5, 8, 2, 1000), Calibration(0.1, 55, 48, 7, 2000), Calibration(1.0, 55, 48, 7, 2000)]
        display = plots.CalibrationDisplay(lines).plot()
        dots = next(line for line in display.ax_.lines if line.get_marker() == "o")
        np.testing.assert_allclose(dots.get_xydata(), [[0.005, 0.008], [0.05, 0.04]])

    def test_what_never_occurred_is_drawn_at_the_end_of_its_interval(self) -> None:
        display = plots.CalibrationDisplay(
            [Calibration(0.01, 0.1, 0, 0.3, 100), Calibration(1.0, 30, 29, 5, 200)]
        ).plot()
        (end,) = next(line for line in display.ax_.lines if line.get_marker() == "v").get_xydata()
        assert end[0] == pytest.approx(0.001)
        assert 0.02 < end[1] < 0.04  # three in a hundred would be seen

    def test_axes_are_in_the_notation_of_probabilities(self, model: LBARN) -> None:
        written = texts(plots.CalibrationDisplay.from_estimator(model, TEST))
        assert {"100%", "10%"} <= set(written)

    def test_rows_with_holes_can_be_drawn(self, model: LBARN) -> None:
        holes = TEST.astype(float)
        holes[0, 2] = np.nan
        assert plots.CalibrationDisplay.from_estimator(model, holes).lines[-1].n_cells == TEST.size - 1


class TestReconstruction:
    def test_the_kept_bits_are_the_first_of_the_order(self, model: LBARN) -> None:
        display = plots.ReconstructionDisplay.from_estimator(model, TEST[:4], share=0.25, n_draws=2, shape=SHAPE)
        kept = model.order_[:3]
        assert sorted(np.flatnonzero(~np.isnan(display.kept[0]))) == sorted(kept)
        assert (display.reconstructions[:, :, kept] == TEST[:4][:, kept]).all()
        assert texts(display) == ["original", "kept", "drawn 1", "drawn 2"]


class TestSurprise:
    def test_bars_are_the_most_surprising_bits(self, named: LBARN) -> None:
        frame = pd.DataFrame(TEST, columns=NAMES)
        surprise = named.surprise(frame)[7]
        display = plots.SurpriseDisplay.from_estimator(named, frame, 7, n_shown=2)
        worst = np.argsort(-surprise)[:2]
        labels = [label.get_text() for label in display.ax_.get_yticklabels()]
        assert labels == [f"{NAMES[j]} = {TEST[7, j]}" for j in worst]
        assert [bar.get_width() for bar in display.ax_.patches] == surprise[worst].tolist()

    def test_the_row_is_drawn_beside_its_map(self, model: LBARN) -> None:
        surprise, row = plots.SurpriseDisplay.from_estimator(model, TEST, 7, shape=SHAPE).ax_.images
        np.testing.assert_array_equal(surprise.get_array(), model.surprise(TEST)[7].reshape(SHAPE))
        np.testing.assert_array_equal(row.get_array()[..., 0] < 0.5, TEST[7].reshape(SHAPE))

    @pytest.mark.parametrize("row", [60, -1])
    def test_a_row_that_is_not_there_is_refused(self, row: int, model: LBARN) -> None:
        with pytest.raises(ValueError, match=f"X has no row {row}; it has 60, 0 to 59"):
            plots.SurpriseDisplay.from_estimator(model, TEST, row)


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("age", "age"),
        ("a $x^ formula$", r"a \$x^ formula\$"),
        ("two\nlines", "two lines"),
        ("a bell \a", "a bell \N{REPLACEMENT CHARACTER}"),
        ("x" * 40, "x" * 23 + "…"),
    ],
)
def test_any_name_can_be_drawn(name: str, drawn: str) -> None:
    assert shortened(name) == drawn
    plt.figure().text(0, 0, shortened(name)).figure.canvas.draw()


@pytest.mark.parametrize("display", [plots.OrderDisplay, plots.TreeCountsDisplay])
def test_an_ensemble_has_no_single_order(display: Any) -> None:
    with pytest.raises(ValueError, match="has several networks; draw one of its members_"):
        display.from_estimator(quick_ensemble().fit(X))


def test_colours_are_those_of_the_style(model: LBARN) -> None:
    with matplotlib.rc_context({"axes.prop_cycle": matplotlib.cycler(color=["#ff0000"])}):
        bar = plots.TreeCountsDisplay.from_estimator(model).ax_.patches[0]
    assert bar.get_facecolor()[:3] == to_rgb("red")
