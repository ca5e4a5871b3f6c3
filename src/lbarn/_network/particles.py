"""Particles: different beginnings of a row, in network order, each with a weight.

They fall through the tree of one column after the other, and at a node of which both sides are possible every particle becomes
two, weighed by p(bit | x_<d) times the largest likelihood that is still ahead, relative to what it was: at the cell this comes to
the cell's own. The core does it (``_core.follow``); the random numbers of a row depend on the seed and its number alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.codetree import Cells
from lbarn._network.evidence import Cause, Evidence, agreeing
from lbarn._network.nodes import NodeTrees

__all__ = ["Cloud", "Followed", "follow"]

# What is seen is unexpected if its probability is less than that of this many particles, and less than the second figure:
# below, what was thinned out may be most of the answer; above, it changes the effective sample size by less than a factor of 3.
_UNEXPECTED_PARTICLES = 10.0
_UNEXPECTED = 0.01

Floats = NDArray[np.float64]
Followed = _core.Followed


def follow(
    network: NodeTrees,
    evidence: Evidence,
    limit: int,
    *,
    seed: int,
    numbers: NDArray[np.uint64],
    n_draws: int = 1,
    islands: bool = False,
    keep: bool = False,
) -> Followed:
    """Up to ``limit`` particles for every row of ``evidence``, which may end before the network does.

    With ``islands`` they part into halves that know nothing of each other, which tells the error.
    """
    how = _core.FollowHow()
    how.limit, how.islands = (-(-limit // 2), True) if islands else (limit, False)
    how.seed, how.n_draws, how.keep = seed, n_draws, keep
    how.unexpected_particles, how.unexpected = _UNEXPECTED_PARTICLES, _UNEXPECTED
    likelihood = [
        (k, np.ascontiguousarray(np.atleast_2d(own)), k in evidence.empty)
        for k, own in sorted(evidence.likelihood.items())
    ]
    return _core.follow(network.core, np.ascontiguousarray(evidence.cells), likelihood, how, numbers)


@dataclass(frozen=True, eq=False)
class Cloud:
    """The particles of one row in the end."""

    states: Cells  # (particles, D)
    weight: Floats  # (particles,): they sum to 1
    log_marginal: float
    expected: dict[int, Floats]  # by column that branched: P(cell) given what was seen up to it
    found: Followed  # knows where the particles come from
    unexpected: int  # the column that was least expected after a thinning, -1 if none was
    log_marginal_there: float
    unexplained: float = 0.0  # relative weight of what should be there and is not

    @classmethod
    def of(cls, network: NodeTrees, evidence: Evidence, limit: int, *, seed: int, number: int = 0) -> Cloud:
        """The cloud of one row of evidence."""
        found = follow(network, evidence, limit, seed=seed, numbers=np.array([number], np.uint64), keep=True)
        sizes = [evidence.layout.columns[k].n_cells for k in sorted(evidence.likelihood)]
        parts = np.split(found.expected[0], np.cumsum(sizes)[:-1])
        return cls(
            found.states,
            found.weight / found.weight.sum(),
            float(found.log_marginal[0]),
            dict(zip(sorted(evidence.likelihood), parts)),
            found,
            int(found.unexpected[0]),
            float(found.log_marginal_there[0]),
        )

    @property
    def variance(self) -> float:
        """Relative, of the weights: what thinning has added, and what is not explained."""
        return self.found.variance_of(self.weight) + self.unexplained**2

    def share(self, chosen: NDArray[np.bool_]) -> float:
        return float(self.weight @ chosen)

    def without(self, causes: Sequence[Cause]) -> Cloud:
        """The cloud without the particles that agree with any of these causes."""
        rest = ~agreeing(self.states, causes)
        share = self.share(rest)
        if share == 0:
            return replace(self, log_marginal=-np.inf)
        return replace(self, weight=self.weight * rest / share, log_marginal=self.log_marginal + float(np.log(share)))
