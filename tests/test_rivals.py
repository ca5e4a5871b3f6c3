"""The neural rivals are distributions, exactly; they learn; and they keep to their budget."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch", reason="PyTorch is absent; only the benchmarks' neural rivals need it")

import torch

from networks import all_states, rows
from rivals import NAMES, Rival, eonade, fit_rival, made, nade, training
from rivals.eonade import EoNADE
from rivals.made import MADE
from rivals.nade import NADE

STATES = torch.as_tensor(all_states(6), dtype=torch.float32)
X, VALID = rows(500, 6), rows(200, 6, seed=1)

BUILD: dict[str, Any] = {
    "NADE": NADE,
    "EoNADE": partial(EoNADE, n_orders=3),
    "MADE": partial(MADE, n_layers=1, mask_sampling=False),
    "MADE, 2 layers": partial(MADE, n_layers=2, mask_sampling=False),
    "MADE, 2 layers, 5 masks": partial(MADE, n_layers=2, mask_sampling=True, n_masks=5),
}


@pytest.fixture(params=BUILD)
def model(request: pytest.FixtureRequest) -> Any:
    """With parameters far from where they start, so that nothing is near zero by chance."""
    torch.manual_seed(0)
    model = BUILD[request.param](STATES, 16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


def test_the_probabilities_of_all_states_sum_to_one(model: Any) -> None:
    with torch.no_grad():
        assert float(model.log_likelihood(STATES).double().exp().sum()) == pytest.approx(1.0, abs=1e-5)


def test_nades_own_gradient_is_the_true_one() -> None:
    torch.manual_seed(0)
    model = NADE(STATES[:, :4], 3).double()
    names = dict(model.named_parameters())

    def loss(*values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, dict(zip(names, values)), (STATES[20:25, :4].double(),))

    model.forward = model.log_likelihood  # type: ignore[method-assign]
    assert torch.autograd.gradcheck(loss, tuple(names.values()))


def test_what_eonade_trains_on_is_the_likelihood_averaged_over_orders() -> None:
    torch.manual_seed(0)
    model = EoNADE(STATES, 8, n_orders=1)
    orders = torch.as_tensor(np.array([np.random.default_rng(i).permutation(6) for i in range(200)]))
    x = STATES[37:38]
    with torch.no_grad():
        exact = -torch.stack([model._along(x, order.tolist()) for order in orders]).mean()
        drawn = model.loss(x.repeat(20_000, 1))
    assert float(drawn) == pytest.approx(float(exact), rel=0.02)


def copies(n: int, seed: int) -> NDArray[np.uint8]:
    """Six copies of one bit, each flipped with probability 0.1."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 2, (n, 1)) ^ (rng.random((n, 6)) < 0.1)).astype(np.uint8)


@pytest.fixture(scope="module")
def quick() -> Iterator[pytest.MonkeyPatch]:
    """Stopped early within a second or two, so that results do not depend on the machine's speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "PATIENCE", 6)
        patch.setattr(EoNADE, "updates_between_validations", 20)
        for module in (nade, made, eonade):
            patch.setattr(module, "CANDIDATES", [replace(module.CANDIDATES[0], learning_rate=0.02)])
        yield patch


@pytest.fixture(scope="module", params=NAMES)
def rival(request: pytest.FixtureRequest, quick: pytest.MonkeyPatch) -> Rival:
    return fit_rival(request.param, copies(500, seed=0), copies(200, seed=1), seconds=600, hidden=16)


def test_it_learns_a_trivial_distribution(rival: Rival) -> None:
    test = copies(2000, seed=2)
    ones = test.sum(axis=1)
    truth = np.log((0.9**ones * 0.1 ** (6 - ones) + 0.1**ones * 0.9 ** (6 - ones)) / 2)
    assert rival.info["stopped"] == "early"
    assert rival.score_samples(test).mean() == pytest.approx(truth.mean(), abs=0.1)


def test_it_says_what_it_is_and_what_it_took(rival: Rival) -> None:
    assert rival.info["parameters"] == sum(p.numel() for p in rival.model.parameters())
    assert rival.info["bytes"] == 4 * rival.info["parameters"]
    assert rival.info["epochs"] >= rival.info["best_epoch"] > 0
    assert rival.info["seconds"] > 0
    best = max(rival.info["tried"], key=lambda run: run["valid_log_likelihood"])
    assert rival.info["candidate"] == best["candidate"]


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides(name: str, quick: pytest.MonkeyPatch) -> None:
    one, same, other = (fit_rival(name, X[:100], VALID, seconds=600, seed=seed, hidden=8) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.score_samples(X), same.score_samples(X))
    assert (one.score_samples(X) != other.score_samples(X)).any()


def test_no_time_leaves_a_model_all_the_same() -> None:
    rival = fit_rival("made", X, VALID, seconds=0, hidden=8)
    assert {run["stopped"] for run in rival.info["tried"]} == {"out of time"}
    assert np.isfinite(rival.score_samples(X)).all()


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="there are nade, made, eonade"):
        fit_rival("darn", X, VALID, seconds=1)
