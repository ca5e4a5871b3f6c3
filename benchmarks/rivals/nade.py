"""NADE (Larochelle and Murray 2011): ``P(x_d = 1 | x_<d) = sigmoid(b_d + V_d . sigmoid(c + sum_(i<d) x_i W_i))``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rivals.training import Candidate, Density, bernoulli, mean_log_odds

__all__ = ["CANDIDATES", "NADE"]


class NADE(Density):
    def __init__(self, train: Tensor, hidden: int) -> None:
        super().__init__()
        D = train.shape[1]
        self.W, self.V = (nn.Parameter(torch.randn(D, hidden) / (D + hidden) ** 0.5) for _ in range(2))
        self.c, self.b = nn.Parameter(torch.zeros(hidden)), nn.Parameter(mean_log_odds(train))

    def log_likelihood(self, x: Tensor) -> Tensor:
        return bernoulli(_Logits.apply(x, self.W, self.c, self.V) + self.b, x).sum(1)


class _Logits(torch.autograd.Function):
    """Along the columns, with the sum over those before carried on: nothing of size rows x columns x hidden is made twice.

    By automatic differentiation of a cumulative sum the same takes eight times as long.
    """

    @staticmethod
    def forward(context: Any, x: Tensor, W: Tensor, c: Tensor, V: Tensor) -> Tensor:
        columns = x.t().contiguous()
        sums = c.repeat(len(x), 1)
        hidden, logits = [], []
        for d in range(len(W)):
            hidden.append(torch.sigmoid(sums))
            logits.append(hidden[-1] @ V[d])
            sums.addr_(columns[d], W[d])
        context.save_for_backward(columns, V, *(hidden if any(context.needs_input_grad) else ()))
        return torch.stack(logits, 1)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        columns, V, *hidden = context.saved_tensors
        of_logits = gradient.t().contiguous()
        dW, dV, dsums = torch.empty_like(V), torch.empty_like(V), torch.zeros_like(hidden[0])
        for d in range(len(V) - 1, -1, -1):
            dW[d] = columns[d] @ dsums  # the sums of later columns
            dV[d] = of_logits[d] @ hidden[d]
            dsums += torch.outer(of_logits[d], V[d]) * hidden[d] * (1 - hidden[d])
        return None, dW, dsums.sum(0), dV


CANDIDATES = [Candidate(f"learning rate {rate}", rate, NADE) for rate in (1e-2, 3e-3, 1e-3)]
