"""The particle filter of the textbooks, to compare the one of ``lbarn._network.particles`` with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from lbarn import LBARN, _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.trees import LOG_ODDS_UNIT

__all__ = ["textbook"]


def textbook(model: LBARN, X: NDArray[np.float64], n_particles: int, seed: int) -> NDArray[np.float64]:
    """P(bit = 1) for every row: bits are drawn one by one, particles resampled when their effective number halves."""
    return np.concatenate([_row(model, row, n_particles, np.random.default_rng([seed, i])) for i, row in enumerate(X)])


def _row(model: LBARN, row: NDArray[np.float64], n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    row = row[model.order_]
    D = len(row)
    particles = np.zeros((n, row_bytes(D)), np.uint8)
    weight = np.full(n, 1 / n)
    for d in range(D):
        log_odds = LOG_ODDS_UNIT * model.network_.trees[d].log_odds(_core.transpose(particles, d), n)
        zero, one = expit(-log_odds) * (row[d] != 1), expit(log_odds) * (row[d] != 0)
        bit = rng.random(n) * (zero + one) < one
        particles[:, d // 8] |= bit.astype(np.uint8) << (d % 8)
        weight *= zero + one
        weight /= weight.sum()
        if 1 / np.square(weight).sum() < n / 2:
            points = (np.arange(n) + rng.random()) / n
            particles = particles[np.searchsorted(np.cumsum(weight), points).clip(max=n - 1)]
            weight = np.full(n, 1 / n)
    p = np.empty((1, D))
    p[0, model.order_] = weight @ np.unpackbits(particles, axis=1, count=D, bitorder="little")
    return p
