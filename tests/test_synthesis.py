"""The fidelity summary tells good synthetic rows from bad ones, and reconstruction keeps what it should."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from lbarn import LBARN, fidelity
from lbarn.baselines import IndependentBits
from lbarn.synthesis import reconstruct
from networks import quick, rows, still_rising

pytestmark = still_rising

TRAIN, HOLDOUT, MORE = rows(600, 8), rows(400, 8, seed=1), rows(400, 8, seed=2)


# ---------------------------------------------------------------------- fidelity


def test_other_real_rows_are_as_good_as_real_ones() -> None:
    found = fidelity(HOLDOUT, MORE, train=TRAIN)
    assert found.marginal_difference_max < 0.1
    assert found.marginal_difference_mean < found.marginal_difference_max
    assert found.correlation_difference_mean < 0.06
    assert found.correlation_agreement > 0.9
    assert 0.4 < found.two_sample_auc < 0.6
    assert found.nearest_synthetic == pytest.approx(found.nearest_holdout, abs=0.1)


def test_a_network_is_closer_than_independent_bits() -> None:
    network = fidelity(HOLDOUT, quick(max_iter=60).fit(TRAIN).sample(400, random_state=0))
    independent = fidelity(HOLDOUT, IndependentBits().fit(TRAIN).sample(400, random_state=0))
    assert network.correlation_difference_mean < independent.correlation_difference_mean / 2
    assert network.correlation_agreement > 0.8 > abs(independent.correlation_agreement)
    assert network.two_sample_auc < 0.6
    assert independent.two_sample_auc > 0.65
    assert network.nearer_to_training is None
    assert "nearer to training" not in str(network)


def test_the_figures_are_what_numpy_says() -> None:
    found = fidelity(HOLDOUT, MORE)
    difference = np.abs(HOLDOUT.mean(axis=0) - MORE.mean(axis=0))
    assert found.marginal_difference_max == pytest.approx(difference.max())
    assert found.marginal_difference_mean == pytest.approx(difference.mean())
    pairs = np.triu_indices(8, 1)
    a, b = np.corrcoef(HOLDOUT.T)[pairs], np.corrcoef(MORE.T)[pairs]
    assert found.correlation_difference_mean == pytest.approx(np.abs(a - b).mean())
    assert found.correlation_agreement == pytest.approx(np.corrcoef(a, b)[0, 1])


def test_rows_learned_by_heart_show() -> None:
    rng = np.random.default_rng(0)
    train, holdout = rng.integers(0, 2, (300, 30)), rng.integers(0, 2, (200, 30))
    copies = train[rng.integers(0, 300, 200)]
    copies[:20, 0] ^= 1
    found = fidelity(holdout, copies, train=train)
    assert found.copied_synthetic == pytest.approx(0.9)
    assert found.nearest_synthetic == pytest.approx(0.1)
    assert found.copied_holdout == 0
    brute = (holdout[:, None] != train[None]).sum(axis=2).min(axis=1)
    assert found.nearest_holdout == pytest.approx(brute.mean())


def test_every_kind_of_table_gives_the_same_figures() -> None:
    names = [f"v{j}" for j in range(8)]
    real, made, train = (pd.DataFrame(X, columns=names) for X in (HOLDOUT, MORE, TRAIN))
    expected = fidelity(real, made, train=train)
    assert fidelity(real, pl.from_pandas(made), train=sp.csr_array(TRAIN)) == expected
    assert fidelity(real.astype(bool), made.astype(float), train=train.to_numpy().tolist()) == expected
    numbered = fidelity(HOLDOUT, MORE, train=TRAIN)
    assert replace(numbered, columns=expected.columns, pairs=expected.pairs, target="v7") == expected


def test_the_same_seed_gives_the_same_figures_and_long_tables_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_CLASSIFIER_ROWS", "_CLASSIFIER_CELLS", "_NEIGHBOUR_ROWS"):
        monkeypatch.setattr(f"lbarn.comparison.fidelity.{limit}", 100)
    first = fidelity(HOLDOUT, MORE, train=TRAIN, random_state=3)
    assert fidelity(HOLDOUT, MORE, train=TRAIN, random_state=3) == first
    assert fidelity(HOLDOUT, MORE, train=TRAIN, random_state=4) != first


def test_columns_that_never_vary_do_not_disturb() -> None:
    real, made = HOLDOUT.copy(), MORE.copy()
    real[:, 2] = 1
    made[:, 5] = 0
    found = fidelity(real, made)
    assert all(np.isfinite(value) for value in asdict(found).values() if isinstance(value, float))
    assert found.marginal_difference_max == pytest.approx(max(1 - made[:, 2].mean(), real[:, 5].mean()))
    lonely = fidelity(HOLDOUT[:, :1], MORE[:, :1])
    assert lonely.correlation_difference_mean == 0
    assert np.isnan(lonely.correlation_agreement)


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (dict(synthetic=MORE[:, 1:]), "synthetic has 7 columns, but real_holdout has 8"),
        (dict(train=TRAIN[:, 1:]), "train has 7 columns, but real_holdout has 8"),
        (dict(synthetic=MORE[:4]), "synthetic has 4 rows; at least 10"),
        (dict(synthetic=MORE[0]), "synthetic: expected a table of rows and columns"),
        (dict(train=np.where(TRAIN[:, :] >= 0, np.nan, 0)), "train: column '0' is empty in every row"),
    ],
)
def test_tables_that_do_not_fit_are_refused_by_name(tables: dict[str, Any], message: str) -> None:
    given = {"real_holdout": HOLDOUT, "synthetic": MORE, "train": TRAIN, **tables}
    with pytest.raises(ValueError, match=message):
        fidelity(**given)


# ---------------------------------------------------------------------- synthetic tables


def test_samples_are_a_table_with_the_names_and_types_of_the_training_table() -> None:
    train = pd.DataFrame(TRAIN, columns=list("abcdefgh")).astype({"a": bool, "b": float})
    made = quick(order="random").fit(train).sample(50, random_state=0)
    assert isinstance(made, pd.DataFrame)
    assert made.columns.tolist() == train.columns.tolist()
    assert made.dtypes.tolist() == train.dtypes.tolist()
    assert isinstance(quick().fit(pl.from_pandas(train)).sample(5, random_state=0), pl.DataFrame)


# ---------------------------------------------------------------------- reconstruction


@pytest.fixture(scope="module")
def model() -> LBARN:
    return quick(order="entropy-decreasing").fit(TRAIN)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_the_first_variables_of_the_order_are_kept(model: LBARN, share: float) -> None:
    restored = reconstruct(model, HOLDOUT, share=share, n_draws=4, random_state=0)
    assert restored.shape == (4, *HOLDOUT.shape)
    n_kept = round(share * 8)
    kept, drawn = model.order_[:n_kept], model.order_[n_kept:]
    assert (restored[:, :, kept] == HOLDOUT[:, kept]).all()
    if n_kept < 8:
        assert (restored[0][:, drawn] != restored[1][:, drawn]).any()
        assert (restored[:, :, drawn] != HOLDOUT[:, drawn]).any()


def test_reconstructions_are_draws_given_what_was_kept(model: LBARN) -> None:
    row = np.repeat(HOLDOUT[:1], 4000, axis=0)
    restored = reconstruct(model, row, share=0.5, n_draws=2, random_state=0).reshape(-1, 8)
    known = HOLDOUT[:1].astype(float)
    known[:, model.order_[4:]] = np.nan
    np.testing.assert_allclose(restored.mean(axis=0), model.impute(known, output="probability")[0], rtol=0, atol=0.03)


def test_reconstruction_takes_the_tables_that_the_model_takes() -> None:
    names = list("abcdefgh")
    by_name = quick(binarize=5.0).fit(pd.DataFrame(TRAIN * 10, columns=names))
    restored = reconstruct(by_name, pd.DataFrame(HOLDOUT * 10, columns=names), share=0.5, random_state=0)
    np.testing.assert_array_equal(restored, reconstruct(quick().fit(TRAIN), HOLDOUT, share=0.5, random_state=0))
    for n_jobs in (1, 2):
        again = reconstruct(
            by_name.set_params(n_jobs=n_jobs), pd.DataFrame(HOLDOUT * 10, columns=names), share=0.5, random_state=0
        )
        np.testing.assert_array_equal(again, restored)


def test_what_cannot_be_reconstructed_is_refused(model: LBARN) -> None:
    for share in (-0.1, 1.1, np.nan, "0.1"):
        with pytest.raises(ValueError, match="share must be a number from 0 to 1"):
            reconstruct(model, HOLDOUT, share=share)
    for n_draws in (0, 1.5):
        with pytest.raises(ValueError, match="n_draws must be a whole number of at least 1"):
            reconstruct(model, HOLDOUT, n_draws=n_draws)
    with pytest.raises(ValueError, match="X has 7 features"):
        reconstruct(model, HOLDOUT[:, 1:])
    with pytest.raises(ValueError, match="is missing"):
        reconstruct(model, np.where(HOLDOUT == 1, np.nan, 0))
