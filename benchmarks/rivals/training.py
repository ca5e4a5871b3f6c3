"""Stochastic gradient descent, stopped where the validation log-likelihood is highest."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["Candidate", "Density", "bernoulli", "descend", "mean_log_odds"]

BATCH = 100
PATIENCE = 30  # validations without a gain, as in Germain et al. 2015; after every sixth of it the rate is halved


class Density(nn.Module):
    """A distribution over rows of bits."""

    updates_between_validations = 1  # at least an epoch; more where validation costs more than training

    def loss(self, x: Tensor) -> Tensor:
        """What training minimises; here the negative log-likelihood."""
        return -self.log_likelihood(x).mean()

    def log_likelihood(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def valid_log_likelihood(self, x: Tensor) -> float:
        with torch.no_grad():
            return float(torch.cat([self.log_likelihood(rows) for rows in x.split(500)]).mean())


@dataclass(frozen=True)
class Candidate:
    name: str
    learning_rate: float
    build: Callable[[Tensor, int], Density]  # from the training rows and the number of hidden units


def bernoulli(logits: Tensor, x: Tensor) -> Tensor:
    """log p of every bit."""
    return -nn.functional.binary_cross_entropy_with_logits(logits, x, reduction="none")


def mean_log_odds(x: Tensor) -> Tensor:
    """Of every column: where the output biases start."""
    return torch.logit((x.sum(0) + 0.5) / (len(x) + 1))


def descend(model: Density, train: Tensor, valid: Tensor, *, learning_rate: float, seconds: float) -> dict[str, Any]:
    """Leaves the best parameters in ``model``; says how well they validate and how long it took to find them."""
    deadline = perf_counter() + seconds
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    rate = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, mode="max", factor=0.5, patience=PATIENCE // 6)
    best, state, best_update, update, failures = (
        model.valid_log_likelihood(valid),
        deepcopy(model.state_dict()),
        0,
        0,
        0,
    )
    per_epoch = -(-len(train) // BATCH)
    between = max(per_epoch, model.updates_between_validations)
    for rows in _batches(train):
        optimiser.zero_grad()
        model.loss(rows).backward()
        optimiser.step()
        update += 1
        late = perf_counter() > deadline
        if update % between and not late:
            continue
        score = model.valid_log_likelihood(valid)
        rate.step(score)
        failures += 1
        if score > best:
            best, state, best_update, failures = score, deepcopy(model.state_dict()), update, 0
        if late or failures == PATIENCE:
            break
    model.load_state_dict(state)
    return {
        "valid_log_likelihood": best,
        "epochs": update / per_epoch,
        "best_epoch": best_update / per_epoch,
        "stopped": "out of time" if late else "early",
    }


def _batches(x: Tensor) -> Iterator[Tensor]:
    while True:
        for rows in torch.randperm(len(x)).split(BATCH):
            yield x[rows]
