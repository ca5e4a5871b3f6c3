"""``tune`` chooses by validation rows alone, keeps to its time, and gives the network that its parameters give."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import lbarn
from lbarn import LBARN, LBARNEnsemble
from lbarn._engine.bits import pack
from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingRows
from lbarn._models import members, tuning, tuningtrials
from networks import assert_same_network, rows, still_rising

pytestmark = still_rising

X, VALID, TEST = rows(400, 10), rows(150, 10, seed=1), rows(300, 10, seed=2)
BRIEF = {"minutes": 0.05, "random_state": 0, "verbose": 0}


@pytest.fixture(scope="module", autouse=True)
def clock() -> Iterator[None]:
    """Time passes by a hundredth of a second whenever somebody looks: the same trials on every machine."""
    now = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        for module in (tuning, tuningtrials, members):
            patch.setattr(module, "monotonic", lambda: 0.01 * next(now))
        yield


@pytest.fixture(scope="module")
def tuned() -> LBARN:
    return lbarn.tune(X, VALID, **BRIEF)


def test_the_network_is_the_one_that_its_parameters_give(tuned: LBARN) -> None:
    assert tuned.refit
    again = LBARN(**tuned.get_params()).fit(X, X_val=VALID)
    assert_same_network(tuned, again)
    assert tuned.selection_ == tuned.selection


def test_the_parameters_are_those_of_the_best_trial(tuned: LBARN) -> None:
    last = [trial for trial in tuned.trials_ if trial["n_dimensions"] == tuned.trials_[-1]["n_dimensions"]]
    best = max(last, key=lambda trial: trial["valid_log_likelihood"])
    for name in tuningtrials.GRID:
        assert getattr(tuned, name) == best[name]
    slower = min(tuned.max_iter / tuningtrials.ROUNDS, 5)
    assert tuned.learning_rate == pytest.approx(best["learning_rate"] / slower)
    assert tuned.n_iter_no_change == pytest.approx(2.5 / tuned.learning_rate, abs=1)
    names = (*tuningtrials.GRID, "n_dimensions")
    assert len({tuple(trial[name] for name in names) for trial in tuned.trials_}) == len(tuned.trials_) > 5


def test_with_more_time_it_goes_on_with_more_columns() -> None:
    model = lbarn.tune(rows(300, 40), **BRIEF | {"minutes": 0.5})
    seen = [trial["n_dimensions"] for trial in model.trials_]
    assert seen == sorted(seen)
    assert seen[-1] == 40


def test_it_is_better_than_the_settings_of_the_paper(tuned: LBARN) -> None:
    default = LBARN.paper(max_iter=200, learning_rate=0.1, refit=True, random_state=0).fit(X, X_val=VALID)
    assert tuned.score(TEST) > default.score(TEST)


def test_on_validation_rows_it_is_no_worse_than_the_defaults(tuned: LBARN) -> None:
    default = LBARN(random_state=0).fit(X, X_val=VALID)
    valid = TrainingRows(pack(VALID))
    own, plain = (
        tuningtrials.cross_validated(model.run_.conditionals, model.run_.layout, valid) for model in (tuned, default)
    )
    assert own >= plain


def test_if_nothing_is_better_it_gives_the_network_of_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    # the network that it chooses has hardly begun to learn
    monkeypatch.setattr(tuning, "_affordable_rounds", lambda *_: 1)
    model = lbarn.tune(X, VALID, **BRIEF)
    assert_same_network(model, LBARN(random_state=0).fit(X, X_val=VALID))
    assert len(model.trials_) > 5
    assert_same_network(model, LBARN(**model.get_params()).fit(X, X_val=VALID))


def test_it_takes_the_order_that_validates_best(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows(300, 10)
    table[:, 9] = np.random.default_rng(3).random(300) < 0.97  # the last column, which is known by its ones
    judge, seen = tuningtrials.cross_validated, []

    def early(conditionals: list[Conditional], layout: Layout, valid: TrainingRows, n_jobs: int | None) -> float:
        place = max(range(10), key=lambda k: valid.bits.column(k).mean())
        seen.append(place)
        return judge(conditionals, layout, valid, n_jobs) - 100 * place

    for module in (tuning, tuningtrials):
        monkeypatch.setattr(module, "cross_validated", early)
    model = lbarn.tune(table, **BRIEF | {"minutes": 0.2})
    assert isinstance(model.order, list)
    assert model.order.index(9) == min(seen) < 9
    assert len({*seen}) > 2
    monkeypatch.undo()
    assert_same_network(model, LBARN(**model.get_params()).fit(table))


def test_the_order_is_the_given_one_if_there_is_no_time_to_compare() -> None:
    assert lbarn.tune(rows(2000, 60), **BRIEF | {"minutes": 1e-4}).order == "given"


def test_the_search_begins_at_the_defaults(tuned: LBARN) -> None:
    wide = rows(300, 40)
    default = LBARN(random_state=0).fit(wide)
    first = lbarn.tune(wide, **BRIEF).trials_[0]
    assert first["max_leaf_nodes"] == default.max_leaf_nodes_
    assert tuned.trials_[0]["max_leaf_nodes"] is None  # few columns: as many leaves as go with the rows
    assert {trial["max_leaf_nodes"] for trial in tuned.trials_[1:3]} <= {None, 4, 8}
    for name in tuningtrials.GRID.keys() - {"max_leaf_nodes"}:
        assert first[name] == getattr(default, name)


def test_no_trial_begins_and_no_round_is_added_when_the_time_is_up() -> None:
    model = lbarn.tune(rows(2000, 60), **BRIEF | {"minutes": 1e-4})
    assert len(model.trials_) == 1
    assert model.trials_[0]["n_dimensions"] == 8
    assert model.max_iter == tuningtrials.ROUNDS // 2  # the least
    assert model.learning_rate == 2 * model.trials_[0]["learning_rate"]


def test_even_without_time_it_is_hardly_worse_than_the_defaults() -> None:
    many = rows(2000, 60)
    hurried = lbarn.tune(many[:1200], many[1200:1600], **BRIEF | {"minutes": 1e-4})
    default = LBARN(random_state=0).fit(many[:1200], X_val=many[1200:1600])
    independent = np.where(many[1600:], many[:1600].mean(axis=0), 1 - many[:1600].mean(axis=0))
    gain = default.score(many[1600:]) - np.log(independent).sum(axis=1).mean()
    assert hurried.score(many[1600:]) > default.score(many[1600:]) - 0.1 * gain


def test_a_trial_is_given_up_when_the_time_is_up() -> None:
    few, more = (lbarn.tune(rows(200, 40), **BRIEF | {"minutes": minutes}).trials_ for minutes in (0.05, 0.2))
    assert 1 <= len(few) < len(more)


def test_time_that_the_network_leaves_goes_into_more_trials_and_another_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wide, valid = rows(300, 40), rows(150, 40, seed=1)
    more = lbarn.tune(wide, valid, **BRIEF)
    monkeypatch.setattr(tuning, "_SET_ASIDE", float("inf"))
    once = lbarn.tune(wide, valid, **BRIEF)
    timeless = [[{**trial, "seconds": None} for trial in model.trials_] for model in (once, more)]
    assert timeless[0] == timeless[1][: len(timeless[0])]
    assert len(timeless[0]) < len(timeless[1])
    own, other = (
        tuningtrials.cross_validated(
            model.run_.conditionals, model.run_.layout, TrainingRows(pack(valid[:, model.order_]))
        )
        for model in (more, once)
    )
    assert own > other
    assert_same_network(more, LBARN(**more.get_params()).fit(wide, X_val=valid))


def test_thorough_goes_on_with_settings_that_fast_has_not_tried(tuned: LBARN) -> None:
    pytest.importorskip("optuna")
    thorough = lbarn.tune(X, VALID, **BRIEF | {"effort": "thorough", "minutes": 0.1})
    assert len(thorough.trials_) > len(tuned.trials_)
    seen = [tuple(trial[name] for name in (*tuningtrials.GRID, "n_dimensions")) for trial in thorough.trials_]
    assert len(set(seen)) == len(seen)


def test_without_optuna_thorough_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"pip install 'lbarn\[tune\]'; or use effort='fast'"):
        lbarn.tune(X, **BRIEF, effort="thorough")


def test_rows_are_held_out_as_the_network_does() -> None:
    model = lbarn.tune(X, **BRIEF, validation_fraction=0.3, sample_weight=np.linspace(0.5, 2, len(X)))
    again = LBARN(**model.get_params()).fit(X, sample_weight=np.linspace(0.5, 2, len(X)))
    assert_same_network(model, again)


def test_any_table_missing_values_and_grey_values_are_taken() -> None:
    assert lbarn.tune(sp.csr_matrix(X), sp.csr_matrix(VALID), **BRIEF).score(TEST) < 0
    holes = X.astype(float)
    holes[::7, 3] = np.nan
    assert lbarn.tune(holes, **BRIEF, missing="unknown").score(TEST) < 0
    assert lbarn.tune(X * 9.0, **BRIEF, binarize=4.5).score(TEST * 9.0) < 0


def test_one_column_is_enough() -> None:
    assert lbarn.tune(X[:, :1], **BRIEF).n_features_in_ == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"minutes": 0}, "minutes must be a number above 0; got 0"),
        ({"minutes": float("nan")}, "minutes must be a number above 0"),
        ({"minutes": "5"}, "minutes must be a number above 0; got '5'"),
        ({"effort": "much"}, "effort must be 'fast' or 'thorough'; got 'much'"),
        ({"validation_fraction": 2.0}, "'validation_fraction' parameter of LBARN must be"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lbarn.tune(X, **BRIEF | wrong)


def test_trials_are_saved_with_the_model(tuned: LBARN, tmp_path: Any) -> None:
    tuned.save(tmp_path / "m.lbarn")
    timeless = [{name: trial[name] for name in trial if name != "seconds"} for trial in tuned.trials_]
    assert LBARN.load(tmp_path / "m.lbarn").trials_ == timeless
    assert not hasattr(LBARN(**tuned.get_params()).fit(X), "trials_")


def test_trials_are_shown_in_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    model = lbarn.tune(X, **BRIEF | {"verbose": 1})
    shown = capfd.readouterr().err
    assert "features" in shown
    assert f"{model.trials_[-1]['valid_log_likelihood']:.3f}" in shown


def test_numbers_of_trees_are_judged_on_rows_that_did_not_choose_them() -> None:
    rng = np.random.default_rng(0)
    train, valid = (rng.integers(0, 2, (n, 12)) for n in (60, 50))  # nothing to learn: fewest trees are best
    how = Boosting(max_leaf_nodes=4, learning_rate=0.3, max_iter=30)
    packed = pack(train), pack(valid)
    trained = [Conditional.train(*packed, d, how) for d in range(12)]
    judged = tuningtrials.cross_validated(trained, Layout.binary(12), TrainingRows(packed[1]))
    expected = 0.0
    for fold in range(5):
        kept = np.arange(50) % 5 != fold
        curves = [np.array([c.curve(pack(valid[part])) for c in trained]) for part in (kept, ~kept)]
        n = (40 * curves[0] + 100 * curves[0].mean(axis=0)).argmax(axis=1)
        expected += curves[1][np.arange(12), n].sum() / 5
    assert judged == pytest.approx(expected, abs=1e-9)
    optimistic = sum(c.valid_curve.max() for c in trained)
    assert expected < optimistic - 0.05


# ---------------------------------------------------------------- ensembles


def test_an_ensemble_has_the_parameters_of_the_best_trial(tmp_path: Any) -> None:
    model = lbarn.tune(X, VALID, ensemble=2, **BRIEF)
    assert isinstance(model, LBARNEnsemble)
    assert 1 <= len(model.members_) <= 2
    best = max(model.trials_, key=lambda trial: (trial["n_dimensions"], trial["valid_log_likelihood"]))
    assert {name: getattr(model, name) for name in tuningtrials.GRID} == {
        name: best[name] for name in tuningtrials.GRID
    }
    assert model.score(TEST) > lbarn.tune(X, VALID, **BRIEF).score(TEST) - 0.05
    model.save(tmp_path / "m.lbarn")
    loaded = lbarn.load(tmp_path / "m.lbarn")
    assert [{**trial, "seconds": None} for trial in loaded.trials_] == [
        {**trial, "seconds": None} for trial in model.trials_
    ]


@pytest.mark.parametrize("wrong", [0, 1.5, True])
def test_a_wrong_number_of_orders_is_named(wrong: Any) -> None:
    with pytest.raises(ValueError, match="ensemble must be a whole number"):
        lbarn.tune(rows(100, 4), minutes=1, ensemble=wrong)
