"""EoNADE (Uria, Murray and Larochelle 2014): one network for every order of the columns, and an average over orders.

It sees the bits that are known and which ones they are: ``P(x_d = 1 | known) = sigmoid(b_d + V_d . relu(c + sum_(i known)
(x_i W_i + U_i)))``. Training draws what is known; a likelihood goes along an order, as in NADE.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from rivals.training import Candidate, Density, bernoulli, mean_log_odds

__all__ = ["CANDIDATES", "EoNADE"]

N_ORDERS = 16


class EoNADE(Density):
    updates_between_validations = 100

    def __init__(self, train: Tensor, hidden: int, n_orders: int = N_ORDERS) -> None:
        super().__init__()
        D = train.shape[1]
        self.W, self.U, self.V = (nn.Parameter(torch.randn(D, hidden) / (D + hidden) ** 0.5) for _ in range(3))
        self.c, self.b = nn.Parameter(torch.zeros(hidden)), nn.Parameter(mean_log_odds(train))
        self.register_buffer("orders", torch.stack([torch.randperm(D) for _ in range(n_orders)]))

    def loss(self, x: Tensor) -> Tensor:
        """An unbiased estimate of the negative log-likelihood, averaged over all orders."""
        D = x.shape[1]
        n_known = ((torch.arange(len(x)) + torch.rand(1)) * (D / len(x))).long().clamp(max=D - 1)[:, None]  # evenly
        known = (torch.rand_like(x).argsort(1).argsort(1) < n_known).float()
        logits = torch.relu(self.c + (x * known) @ self.W + known @ self.U) @ self.V.t() + self.b
        unknown = (bernoulli(logits, x) * (1 - known)).sum(1)
        return -(unknown * D / (D - n_known[:, 0])).mean()

    def log_likelihood(self, x: Tensor) -> Tensor:
        """Of the mixture of all ``orders``."""
        each = torch.stack([self._along(x, order.tolist()) for order in self.orders])
        return each.logsumexp(0) - math.log(len(each))

    def valid_log_likelihood(self, x: Tensor) -> float:
        """Of single orders, averaged over a few."""
        with torch.no_grad():
            return float(torch.stack([self._along(x, order.tolist()) for order in self.orders[:2]]).mean())

    def _along(self, x: Tensor, order: list[int]) -> Tensor:
        columns = x.t().contiguous()
        sums = self.c.repeat(len(x), 1)
        logits = []
        for d in order:
            logits.append(torch.relu(sums) @ self.V[d] + self.b[d])
            sums = sums.addr(columns[d], self.W[d]).add_(self.U[d])
        return bernoulli(torch.stack(logits, 1), x[:, order]).sum(1)


CANDIDATES = [Candidate(f"learning rate {rate}", rate, EoNADE) for rate in (3e-3, 1e-3)]
