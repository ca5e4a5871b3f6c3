"""Rows that repeat: a mixture of a network and of training rows as they are, exact in everything that is asked of it."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

import lbarn
from lbarn import LBARN, LBARNEnsemble, ModelFileError
from lbarn._engine.bits import pack
from lbarn._network.codec import Codec
from lbarn._network.repeats import Repeating, Repeats, _RepeatsCodec
from lbarn.errors import CompressedDataError
from networks import all_states, quick, quick_ensemble, still_rising
from test_cli import run

pytestmark = still_rising

D = 7


def families(n: int, n_columns: int = D, *, share: float = 0.4, parents: int = 6, seed: int = 0) -> NDArray[np.uint8]:
    """Independent bits, but a share of the rows are copies of a few ``parents``."""
    rng = np.random.default_rng(seed)
    known = np.random.default_rng(99).integers(0, 2, (parents, n_columns))
    return np.where(
        rng.random((n, 1)) < share, known[rng.integers(0, parents, n)], rng.integers(0, 2, (n, n_columns))
    ).astype(np.uint8)


def shares(rows: NDArray[Any], X: NDArray[Any], weight: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """The slow way: the share of X, by weight, that is equal to each row."""
    weight = np.ones(len(X)) if weight is None else weight
    return np.array([weight[(row == X).all(axis=1)].sum() for row in rows]) / weight.sum()


KINDS = {
    "network": partial(quick, max_iter=3, repeats=True, order=[3, 0, 6, 1, 5, 2, 4]),
    "ensemble": partial(quick_ensemble, max_iter=3, repeats=True),
}


@pytest.fixture(scope="module", params=KINDS)
def model(request: pytest.FixtureRequest) -> LBARN | LBARNEnsemble:
    return KINDS[request.param]().fit(families(600))


def without(model: LBARN | LBARNEnsemble) -> Any:
    """What is beside the rows that repeat."""
    assert isinstance(model.distribution, Repeating)
    return model.distribution.model


def test_a_row_is_new_or_one_of_the_training_rows() -> None:
    X, states = families(600), all_states(D)
    for name, make in KINDS.items():
        model = make().fit(X[:500], X_val=X[500:])
        share = model.repeats_.share
        assert 0.05 < share < 0.9
        expected = (1 - share) * np.exp(without(model).log_likelihood(states)) + share * shares(states, X[:500])
        np.testing.assert_allclose(np.exp(model.score_samples(states)), expected, rtol=1e-7, err_msg=name)
        assert expected.sum() == pytest.approx(1, abs=1e-7)


def test_the_share_is_the_one_that_makes_held_out_rows_likeliest() -> None:
    X = families(900)
    model = KINDS["network"]().fit(X[:500], X_val=X[500:])
    new, again = np.exp(model.network_.log_likelihood(X[500:])), shares(X[500:], X[:500])
    grid = np.linspace(0.001, 0.999, 999)
    best = grid[np.argmax([np.log((1 - s) * new + s * again).mean() for s in grid])]
    assert model.repeats_.share == pytest.approx(best, abs=0.003)
    gain = np.log((1 - best) * new + best * again).mean() - np.log(new).mean()
    assert model.repeats_.gain == pytest.approx(gain, abs=1e-3)


def test_the_values_of_a_row_follow_from_those_before_them() -> None:
    model = KINDS["network"]().fit(families(600))
    states = all_states(D)
    p = np.exp(model.score_samples(states))
    surprise, predictions = model.surprise(states), model.distribution.predictions(states)
    for k, j in enumerate(model.order_):
        before = [(states[:, model.order_[:k]] == row[model.order_[:k]]).all(axis=1) for row in states]
        total = np.array([p[own].sum() for own in before])
        one = np.array([p[own & (states[:, j] == 1)].sum() for own in before]) / total
        np.testing.assert_allclose(predictions[j][:, 1], one, rtol=1e-6)
        np.testing.assert_allclose(surprise[:, j], -np.log(np.where(states[:, j] == 1, one, 1 - one)), rtol=1e-6)
    X = families(50, seed=1)
    assert model.cumulative_score(X)[-1] == pytest.approx(model.score(X), rel=1e-9)


def test_what_is_missing_follows_from_what_is_there(model: LBARN | LBARNEnsemble) -> None:
    states, rng = all_states(D), np.random.default_rng(1)
    p = np.exp(model.score_samples(states))
    X = families(60, seed=2).astype(float)
    X[rng.random(X.shape) < 0.4] = np.nan
    agree = np.array([((states == row) | np.isnan(row)).all(axis=1) for row in X])
    np.testing.assert_allclose(np.exp(model.log_marginal(X)), agree @ p, rtol=1e-6)
    with pytest.warns(UserWarning, match="missing values"):
        np.testing.assert_allclose(np.exp(model.score_samples(X)), agree @ p, rtol=1e-6)
    expected = (agree * p) @ states / (agree @ p)[:, None]
    np.testing.assert_allclose(model.impute(X, output="probability"), expected, atol=1e-6)
    filled = model.impute(X, random_state=0)
    assert (np.isnan(X) | (filled == X)).all()


def test_draws_follow_the_conditional_distribution(model: LBARN | LBARNEnsemble) -> None:
    states, n = all_states(D), 4000
    p = np.exp(model.score_samples(states))
    given = np.full((1, D), np.nan)
    given[0, 2] = 1
    there = states[:, 2] == 1
    for drawn, expected in (
        (model.sample(n, random_state=0), p),
        (model.sample(n, given=given, random_state=0), np.where(there, p, 0) / p[there].sum()),
        (model.impute(given, n_draws=n, random_state=0)[:, 0], np.where(there, p, 0) / p[there].sum()),
    ):
        counts = np.bincount(drawn.astype(int) @ (1 << np.arange(D)[::-1]), minlength=2**D)
        kept = expected * n > 5
        assert not counts[expected == 0].any()
        observed = np.append(counts[kept], counts[~kept].sum())
        wanted = np.append(expected[kept], expected[~kept].sum()) * n
        some = wanted > 0
        assert chisquare(observed[some], wanted[some] * observed.sum() / wanted.sum()).pvalue > 1e-3


def test_what_was_kept_brings_back_the_rest() -> None:
    model = KINDS["network"]().fit(families(600))
    X = families(400, seed=9)
    restored = lbarn.synthesis.reconstruct(model, X, share=0.5, n_draws=20, random_state=0)
    kept = model.order_[:4]
    assert (restored[:, :, kept] == X[:, kept]).all()
    states = all_states(D)
    p = np.exp(model.score_samples(states))
    agree = np.array([(states[:, kept] == row[kept]).all(axis=1) for row in X])
    expected = (agree * p) @ states / (agree @ p)[:, None]
    assert np.abs(restored.mean(axis=(0, 1)) - expected.mean(axis=0)).max() < 0.03


def test_noise_is_taken_off(model: LBARN | LBARNEnsemble) -> None:
    states, flip = all_states(D), 0.15
    p = np.exp(model.score_samples(states))
    X = families(20, seed=3)
    wrong = (X[:, None] != states[None]).sum(axis=2)
    joint = p * flip**wrong * (1 - flip) ** (D - wrong)
    expected = joint @ states / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.denoise(X, flip=flip, output="probability"), expected, atol=1e-6)


@pytest.mark.parametrize("n", [1, 40, 3000])
def test_rows_take_what_they_are_worth_and_come_back(model: LBARN | LBARNEnsemble, n: int) -> None:
    Y = families(n, seed=4)
    packed = model.compress(Y)
    np.testing.assert_array_equal(model.decompress(packed), Y)
    assert len(packed) <= -1.01 * model.score_samples(Y).sum() / np.log(2) / 8 + 100


def test_rows_that_repeat_nothing_can_be_coded_as_if_they_did() -> None:
    """A decoder takes nothing for impossible, so an encoder may ask for it."""
    model = quick(max_iter=3, repeats=True).fit(families(300, 20))
    codec = _RepeatsCodec(model.repeats_, Codec(model.network_, None))
    rows = families(500, 20, seed=5)
    assert (codec.log_p(rows) < -(2**40)).sum() > 200
    coder = lbarn._core.Coder()
    codec.push(coder, rows, partial)
    np.testing.assert_array_equal(codec.pop(coder, len(rows), partial), rows)
    assert coder.is_empty


def test_data_of_another_model_is_refused() -> None:
    X = families(300)
    first, second = (KINDS["network"]().fit(X, X_val=X[k : k + 100]) for k in (0, 100))
    assert np.array_equal(*(own.network_.trees[0].values for own in (first, first)))
    with pytest.raises(CompressedDataError):
        second.decompress(first.compress(X))


def test_a_file_brings_them_back(model: LBARN | LBARNEnsemble, tmp_path: Path) -> None:
    Y = families(100, seed=6)
    model.save(tmp_path / "model", trim=True)
    for again in (lbarn.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.score_samples(Y), model.score_samples(Y))
        np.testing.assert_array_equal(again.decompress(model.compress(Y)), Y)
        assert (len(again.repeats_), again.repeats_.share) == (len(model.repeats_), model.repeats_.share)


@pytest.mark.parametrize("damage", ["order", "twice", "weight", "log_p", "padding"])
def test_rows_of_a_file_that_do_not_belong_together_are_refused(damage: str, tmp_path: Path) -> None:
    model = KINDS["network"]().fit(families(300))
    own = model.repeats_
    rows, weight, log_p = own.bits.rows.copy(), own.weight.copy(), own.log_p.copy()
    if damage == "order":
        rows[[0, 1]] = rows[[1, 0]]
    elif damage == "twice":
        rows[1] = rows[0]
    elif damage == "weight":
        weight[0] = -1.0
    elif damage == "log_p":
        log_p[0] -= 1 << 20
    else:
        rows[-1, 0] |= 128  # there is no eighth column
    model.repeats_ = Repeats(type(own.bits)(rows, D), weight, log_p, own.share, own.gain)
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="rows that repeat are damaged"):
        lbarn.load(tmp_path / "model")


# ---------------------------------------------------------------- whether to


def test_auto_keeps_rows_that_repeat_for_a_reason_and_no_others() -> None:
    assert len(LBARN(max_iter=100, random_state=0).fit(families(1500, 30, parents=300)).repeats_) > 5
    for seed in range(3):
        rng = np.random.default_rng(seed)
        chance = (rng.random((600, 6)) < 0.3).astype(int)  # there are only 64 different rows
        assert LBARN(max_iter=100, random_state=0).fit(chance).repeats_ is None
        assert LBARNEnsemble(max_iter=50, n_orders=2, random_state=0).fit(chance).repeats_ is None
    for never in (False, np.False_):
        model = LBARN(max_iter=10, random_state=0, repeats=never).fit(families(1500, 30, parents=300))
        assert model.repeats_ is None
    assert LBARN.paper(max_iter=5).repeats is False


def test_a_few_held_out_rows_tell_nothing() -> None:
    X = families(300)
    assert LBARN(max_iter=20, random_state=0).fit(X, X_val=X[:20]).repeats_ is None


def test_rows_that_all_repeat_make_no_warnings() -> None:
    X = np.random.default_rng(0).integers(0, 2, (5, 60))[np.random.default_rng(1).integers(0, 5, 300)]
    model = LBARN(max_iter=1, random_state=0).fit(X)
    assert 0.9 < model.repeats_.share < 1
    assert np.isfinite(model.surprise(X[:10])).all()


def test_rows_that_are_almost_copies_keep_it_from_false_certainty() -> None:
    """One that begins as a training row, and then differs, would have been called impossible."""
    X, rng = families(1500, 60, parents=300), np.random.default_rng(2)
    almost = np.where(rng.random(X.shape) < 0.01, 1 - X, X)
    assert LBARN(max_iter=50, random_state=0).fit(X).repeats_ is not None
    assert LBARN(max_iter=50, random_state=0).fit(almost).repeats_ is None
    assert LBARN(max_iter=50, random_state=0, repeats=True).fit(almost).repeats_.gain > 0.5


def test_the_command_line_says_that_rows_are_kept(tmp_path: Path) -> None:
    data, out = tmp_path / "rows.npy", tmp_path / "rows.lbarn"
    np.save(data, families(1500, 30, parents=300))
    said = run("fit", data, "-o", out, "--max-iter", "50", "--random-state", "0").stderr.decode()
    kept = lbarn.load(out).repeats_
    assert f"because rows repeat: {len(kept):,} rows are kept in the model" in said
    assert "--repeats no" in said
    said = run("inspect", out).stdout.decode()
    assert f"repeats         {len(kept):,} rows, {kept.share:.1%} of new ones" in said


def test_rows_that_repeat_are_likelier_with_them() -> None:
    X, test = families(1500, 30, parents=300), families(1000, 30, parents=300, seed=1)
    own, plain = (LBARN(max_iter=200, random_state=0, repeats=r).fit(X).score(test) for r in ("auto", False))
    assert own > plain + 0.5


def test_tables_of_other_kinds_keep_no_rows() -> None:
    table = pd.DataFrame({"a": [1, 2, 3, 4] * 50, "b": ["x", "y"] * 100})
    assert LBARN(max_iter=10, random_state=0).fit(table).repeats_ is None
    for repeats in (True, np.True_):
        with pytest.raises(ValueError, match="repeats=True is for tables of 0 and 1"):
            LBARN(max_iter=10, random_state=0, repeats=repeats).fit(table)


def test_rows_with_gaps_are_not_kept() -> None:
    X = families(500).astype(float)
    X[::5, 0] = np.nan
    kept = KINDS["network"](refit=True).fit(X).repeats_
    complete = X[~np.isnan(X).any(axis=1)].astype(np.uint8)
    assert kept.weight.sum() == len(complete)
    np.testing.assert_allclose(
        np.exp(kept.log_likelihood(all_states(D))), shares(all_states(D), complete), rtol=1e-8, atol=1e-12
    )


def test_weights_count() -> None:
    X, rng = families(500), np.random.default_rng(0)
    weight = rng.integers(0, 4, 500).astype(float)
    kept = KINDS["network"](refit=True).fit(X, sample_weight=weight).repeats_
    expected = shares(all_states(D), X, weight)
    np.testing.assert_allclose(np.exp(kept.log_likelihood(all_states(D))), expected, rtol=1e-8, atol=1e-12)


def test_a_selection_keeps_them_and_new_leaves_bring_new_ones() -> None:
    X, Y = families(500), families(400, seed=7)
    for make in (KINDS["network"], partial(quick_ensemble, repeats=True)):
        model = make().fit(X)
        before = model.repeats_
        assert model.select("common").repeats_ is before
        kept = model.refit_leaves(Y).repeats_
        np.testing.assert_allclose(
            np.exp(kept.log_likelihood(all_states(D))), shares(all_states(D), Y), rtol=1e-8, atol=1e-12
        )
        assert kept.share == before.share


def test_members_that_hold_out_other_rows_cannot_tell() -> None:
    X = families(500)
    assert LBARNEnsemble(bagging=True, n_orders=2, max_iter=20, random_state=0).fit(X).repeats_ is None
    with pytest.raises(ValueError, match="bagging=True"):
        LBARNEnsemble(bagging=True, repeats=True, n_orders=2, max_iter=20, random_state=0).fit(X)


def test_rows_are_found_whatever_bytes_they_are() -> None:
    """Bytes of zeros at the end of a row, or whole rows of them, are bytes like others."""
    rows = np.zeros((4, 20), np.uint8)
    rows[1, 0] = rows[2, 9] = rows[3, 19] = 1
    known = Repeats.of(pack(rows[:3]), np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(np.exp(known.log_likelihood(rows)), [1 / 6, 2 / 6, 3 / 6, 0], atol=1e-8)


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_the_answers_do_not_depend_on_the_jobs(model: LBARN | LBARNEnsemble, n_jobs: int) -> None:
    X = families(100, seed=8).astype(float)
    X[:, 1:4] = np.nan
    own = pickle.loads(pickle.dumps(model)).set_params(n_jobs=n_jobs)
    np.testing.assert_array_equal(own.sample(50, random_state=0), model.sample(50, random_state=0))
    np.testing.assert_array_equal(own.impute(X, random_state=0), model.impute(X, random_state=0))
    np.testing.assert_array_equal(own.surprise(families(30)), model.surprise(families(30)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_report_and_a_notebook_say_that_rows_are_kept(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    X = families(400)
    model = KINDS[kind]().fit(X)
    lbarn.report.write_report(model, X[:100], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"{len(model.repeats_):,} rows are kept as they are" in page
    assert f"one of {len(model.repeats_):,} rows that are kept" in model._repr_mimebundle_()["text/html"]
