"""MADE (Germain et al. 2015): an autoencoder with weights masked so that output d sees the inputs before d only.

Its inputs go to its outputs directly too, as in the authors' own runs. A mask has an order of the columns and connections
of its own. There is one for all rows, or a new one for every update; the likelihood is then that of a mixture of many.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from rivals.training import Candidate, Density, bernoulli, mean_log_odds

__all__ = ["CANDIDATES", "MADE"]


N_MASKS = 300  # of the mixture, as in the authors' own runs
N_MASKS_VALIDATED = 30


class MADE(Density):
    def __init__(
        self, train: Tensor, hidden: int, *, n_layers: int, mask_sampling: bool, n_masks: int = N_MASKS
    ) -> None:
        super().__init__()
        D = train.shape[1]
        self.shape = D, hidden, n_layers
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([D, *[hidden] * n_layers, D]))
        self.direct = nn.Parameter(torch.zeros(D, D))
        with torch.no_grad():
            self.layers[-1].bias.copy_(mean_log_odds(train))
        self.mask_sampling = mask_sampling
        self.masks = [_Mask(*self.shape) for _ in range(n_masks if mask_sampling else 1)]
        self.updates_between_validations = 30 if mask_sampling else 1

    def loss(self, x: Tensor) -> Tensor:
        mask = _Mask(*self.shape) if self.mask_sampling else self.masks[0]
        return -self._with([mask], x).mean()

    def log_likelihood(self, x: Tensor) -> Tensor:
        return self._with(self.masks, x)

    def valid_log_likelihood(self, x: Tensor) -> float:
        with torch.no_grad():
            return float(self._with(self.masks[:N_MASKS_VALIDATED], x).mean())

    def _with(self, masks: list[_Mask], x: Tensor) -> Tensor:
        """log-likelihood of the mixture of these masks."""
        each = torch.stack([bernoulli(self._logits(mask, x), x).sum(1) for mask in masks])
        return each.logsumexp(0) - math.log(len(masks))

    def _logits(self, mask: _Mask, x: Tensor) -> Tensor:
        *below, last = zip(self.layers, mask.layers)
        signal = x
        for layer, kept in below:
            signal = torch.relu(nn.functional.linear(signal, layer.weight * kept, layer.bias))
        output, kept = last
        return nn.functional.linear(signal, output.weight * kept, output.bias) + x @ (self.direct * mask.direct).t()


class _Mask:
    """Inputs are numbered by a random order. A hidden unit of number m sees what is numbered up to m below it.

    An output sees hidden units, and inputs, with numbers below its own.
    """

    def __init__(self, D: int, hidden: int, n_layers: int) -> None:
        inputs = numbers = torch.randperm(D)
        self.layers = []
        for _ in range(n_layers):
            above = torch.randint(min(int(numbers.min()), D - 2), D - 1, (hidden,))
            self.layers.append((above[:, None] >= numbers).float())
            numbers = above
        self.layers.append((inputs[:, None] > numbers).float())
        self.direct = (inputs[:, None] > inputs).float()


# One mask stops early; what it leaves of the time is for new ones, which take long.
CANDIDATES = [
    Candidate(
        f"{n_layers} hidden, {'new masks' if mask_sampling else 'one mask'}, learning rate {rate}",
        rate,
        partial(MADE, n_layers=n_layers, mask_sampling=mask_sampling),
    )
    for n_layers, mask_sampling, rate in [(1, False, 3e-3), (2, False, 1e-3), (1, True, 1e-3), (1, True, 1e-2)]
]
