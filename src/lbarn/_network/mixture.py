"""A weighted mixture of networks that read the same columns in different orders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import log_softmax, logsumexp, softmax

from lbarn._engine.codetree import Cells, Layout
from lbarn._network.bitsback import MixtureCodec
from lbarn._network.conditioning import Answer, Effort
from lbarn._network.network import Given, GivenChunk, Network, given_by_conditioning

__all__ = ["Mixture", "best_weights", "mixed"]

Floats = NDArray[np.float64]

_EM_STEPS = 1000  # at most; it stops when a step gains less than the next line, in nats per row
_EM_GAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Mixture:
    """``P(x) = sum_k weights[k] P_k(x)``."""

    networks: tuple[Network, ...]
    weights: Floats

    @property
    def n_columns(self) -> int:
        return self.networks[0].n_columns

    @property
    def layout(self) -> Layout:
        return self.networks[0].layout

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return self.networks[0].groups

    @property
    def n_trees(self) -> int:
        return sum(network.n_trees for network in self.networks)

    @property
    def most_trees(self) -> int:
        return max(network.most_trees for network in self.networks)

    def log_likelihood(
        self, rows: Cells, n_jobs: int | None = None, unknown: NDArray[np.bool_] | None = None
    ) -> Floats:
        """log p(x) of every row, in nats; of the values that are there, if some are unknown."""
        each = np.stack([network.log_likelihood(rows, n_jobs, unknown) for network in self.networks], axis=1)
        return logsumexp(each + np.log(self.weights), axis=1)

    def surprise(self, rows: Cells, n_jobs: int | None = None) -> Floats:
        """The members' -log p_k(x_d | those before it), each weighted by P(member | x), in nats, shape (n, D).

        There is no -log p(x_d | ...) of the mixture: a row does not sum to -log p(x), but to less, by how far
        P(member | x) is from the weights (their Kullback-Leibler divergence, at most log K if they are equal).
        """
        mixed = np.zeros(rows.shape)
        total = np.full(len(rows), -np.inf)
        for network, log_weight in zip(self.networks, np.log(self.weights)):
            surprise = network.surprise(rows, n_jobs)
            joint = log_weight - surprise.sum(axis=1)
            total = np.logaddexp(total, joint)
            mixed += np.exp(joint - total)[:, None] * (surprise - mixed)
        return mixed

    def predictions(self, rows: Cells) -> list[Floats]:
        """The members', each weighted by P(member | x)."""
        joint = [
            log_weight - network.surprise(rows).sum(axis=1)
            for network, log_weight in zip(self.networks, np.log(self.weights))
        ]
        shares = softmax(np.stack(joint), axis=0)[:, :, None]
        each = [network.predictions(rows) for network in self.networks]
        return [sum(share * own[j] for share, own in zip(shares, each)) for j in range(self.n_columns)]

    def last_column(self, rows: Cells, n_jobs: int | None = None) -> Floats:
        """As :meth:`Network.last_column`, if all networks have the same one."""
        joint, parts = [], []
        for network, log_weight in zip(self.networks, np.log(self.weights)):
            others = network.surprise(rows, n_jobs)[:, network.order[:-1]]
            joint.append(log_weight - others.sum(axis=1))
            parts.append(network.last_column(rows, n_jobs))
        share = log_softmax(np.stack(joint), axis=0)
        return logsumexp(np.stack(parts) + share[:, :, None], axis=0)

    def draw(self, n: int, random: np.random.RandomState, n_jobs: int | None = None) -> Cells:
        """For each row a network by its weight, then the row from it, exactly."""
        rows = np.empty((n, self.n_columns), np.uint8 if self.layout.is_binary else np.uint16)
        chosen = random.choice(len(self.weights), n, p=self.weights)
        for k, (network, seed) in enumerate(zip(self.networks, self._seeds(random))):
            numbers = np.flatnonzero(chosen == k)
            if len(numbers):
                rows[numbers] = network.draw_on(None, len(numbers), seed, n_jobs)
        return rows

    def draw_given(
        self, given: Given, n_each: int, random: np.random.RandomState, *, effort: Effort, n_jobs: int | None = None
    ) -> tuple[Cells, NDArray[np.str_], Floats]:
        return given_by_conditioning(self, given, n_each, random, effort, n_jobs)

    def condition(
        self,
        chunks: Iterable[GivenChunk],
        random: np.random.RandomState,
        *,
        n_draws: int = 1,
        effort: Effort,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[int, Answer]]:
        seeds = self._seeds(random)
        for chunk in chunks:
            answers = (
                answer
                for network, seed in zip(self.networks, seeds)
                for _, answer in network.condition(
                    [chunk], np.random.RandomState(seed), n_draws=n_draws, effort=effort, n_jobs=n_jobs
                )
            )
            yield chunk[0], mixed(answers, self.weights, random)

    def importance(self) -> sp.csr_array:
        """The weighted mean of the members'."""
        total = sum(weight * network.importance() for weight, network in zip(self.weights, self.networks))
        total.data /= self.weights.sum()  # SciPy's own division is by the reciprocal, which is not the same to the bit
        return total

    def codec(self, n_jobs: int | None = None) -> MixtureCodec:
        return MixtureCodec(self.networks, self.weights, n_jobs)

    def fingerprint(self) -> bytes:
        """Of the members and their weights."""
        return self.codec().fingerprint

    def _seeds(self, random: np.random.RandomState) -> list[int]:
        return random.randint(2**31 - 1, size=len(self.networks)).tolist()


def mixed(answers: Iterable[Answer], weights: Floats, random: np.random.RandomState) -> Answer:
    """The mixture's answer. One member after the other takes its share of what those before have said, so that no more
    than two answers are held at a time."""
    so_far: Answer | None = None
    for answer, log_weight in zip(answers, np.log(weights)):
        joint = log_weight + answer.log_marginal
        if so_far is None:
            so_far = replace(answer, log_marginal=joint)
            continue
        total = np.logaddexp(so_far.log_marginal, joint)
        share = np.exp(joint - total)
        taken = random.random_sample(answer.draws.shape[:2]) < share
        with np.errstate(divide="ignore"):
            effective = 1.0 / (share**2 / answer.effective + (1.0 - share) ** 2 / so_far.effective)
        so_far = Answer(
            so_far.probability + share[:, None] * (answer.probability - so_far.probability),
            np.where(taken[:, :, None], answer.draws, so_far.draws),
            total,
            np.where(answer.method == so_far.method, so_far.method, "monte-carlo"),
            effective,
            {k: own + share[:, None] * (answer.cells[k] - own) for k, own in so_far.cells.items()},
        )
    assert so_far is not None
    return so_far


def best_weights(log_p: Floats, row_weight: Floats | None = None) -> Floats:
    """The weights that make rows with log-likelihoods ``log_p``, (n, K), most likely, by expectation maximisation.

    They are never worse than equal ones.
    """
    weights = np.full(log_p.shape[1], 1 / log_p.shape[1])
    before = -np.inf
    for _ in range(_EM_STEPS):
        joint = log_p + np.log(weights)
        evidence = np.average(logsumexp(joint, axis=1), weights=row_weight)
        if evidence - before < _EM_GAIN:
            break
        before = evidence
        weights = np.average(softmax(joint, axis=1), axis=0, weights=row_weight)
        weights = np.maximum(weights, np.finfo(float).tiny)  # a member without weight keeps a logarithm
        weights /= weights.sum()
    return weights
