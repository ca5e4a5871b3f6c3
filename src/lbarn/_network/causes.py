"""What no particle expected: a completion that was thinned out might have.

The trees are asked for completions that would make it likely (``lookahead``). Those that weigh enough are followed by particles of
their own, with their cells taken as seen, and the particles from before stand for the rest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.codetree import UNKNOWN, Layout
from lbarn._engine.trees import UNIT, log_likelihoods
from lbarn._network.evidence import Cause, Evidence, agreeing
from lbarn._network.lookahead import UNSET, likely_causes
from lbarn._network.nodes import NodeTrees
from lbarn._network.particles import Cloud

__all__ = ["MAX_DEPTH", "strata_of"]

MAX_DEPTH = 2  # causes of causes
_MATERIAL = 0.02  # share of a row's weight that may be missing
_MAX_CAUSES = 4
_TRIAL = 8  # a cause is tried with one in so many particles

Floats = NDArray[np.float64]


def strata_of(
    network: NodeTrees, evidence: Evidence, cloud: Cloud, limit: int, rng: np.random.Generator, depth: int
) -> list[Cloud]:
    """The cloud of one row, and clouds of their own for completions that it has too few of."""
    if cloud.unexpected < 0:
        return [cloud]
    causes, missing = _causes(network, evidence, cloud, limit, rng, _MAX_CAUSES if depth else 0)
    cloud = replace(cloud, unexplained=missing)
    if not causes:
        return [cloud]
    strata = [cloud.without(causes)]
    for i, cause in enumerate(causes):
        seen = evidence.given(cause)
        own = Cloud.of(network, seen, limit, seed=int(rng.integers(2**63)))
        strata += [part.without(causes[:i]) for part in strata_of(network, seen, own, limit, rng, depth - 1)]
    return strata


def _causes(
    network: NodeTrees, evidence: Evidence, cloud: Cloud, limit: int, rng: np.random.Generator, most: int
) -> tuple[list[Cause], float]:
    """Cells of the row that would make likely what was not expected, and that weigh more than the cloud has of them.

    Up to ``most`` sets of cells, and how far the cloud is from the right weight of the next one, relative to all of it.
    """
    found = _likely_causes(network, evidence, cloud, cloud.unexpected)
    if not found:
        return [], 0.0
    upto = evidence.upto(cloud.unexpected + 1)
    few = max(1, limit // _TRIAL)
    tried = [Cloud.of(network, upto.given(cause), few, seed=int(rng.integers(2**63))) for cause in found]
    weight = np.exp([min(own.log_marginal - cloud.log_marginal_there, 300.0) for own in tried])
    taken: list[Cause] = []
    while True:
        other = ~agreeing(cloud.states, taken)
        there = [cloud.share(agreeing(cloud.states, [cause]) & other) for cause in found]
        missing = np.abs(weight * [own.share(~agreeing(own.states, taken)) for own in tried] - there)
        best = int(missing.argmax())
        if missing[best] < _MATERIAL or len(taken) == most:
            return taken, float(missing[best])
        taken.append(found[best])


def _likely_causes(network: NodeTrees, evidence: Evidence, cloud: Cloud, k: int) -> list[Cause]:
    """Cells of earlier columns for which the trees of column ``k`` expect what was seen there."""
    layout, tree = network.layout, network.column(k)
    likelihood = np.zeros(tree.n_cells)
    if evidence.cells[0, k] == UNKNOWN:
        own = evidence.likelihood[k]
        likelihood = own[0] if own.ndim == 2 else own
    else:
        likelihood[evidence.cells[0, k]] = 1.0
    node, bit = _least_expected(network, cloud, k, likelihood)
    known = np.full(int(layout.first_bit[k]), UNSET, np.int8)
    for c in np.flatnonzero(evidence.cells[0, :k] != UNKNOWN).tolist():
        first, last = layout.first_bit[c], layout.first_bit[c + 1]
        known[first:last] = layout.columns[c].table[evidence.cells[0, c]]
    causes: list[Cause] = []
    for setting in likely_causes(network.at(k, node), bit, known):
        cause = _cells_of(layout, evidence, setting)
        if cause is not None:
            causes.append(cause)
    return causes


def _least_expected(network: NodeTrees, cloud: Cloud, k: int, likelihood: Floats) -> tuple[int, bool]:
    """The node on the way to what was seen whose bit the particles expected least, and that bit."""
    tree = network.column(k)
    ahead = tree.subtree_max(likelihood)
    if tree.n_nodes == 1:
        return 0, bool(likelihood[1] > likelihood[0])
    earlier = Layout(network.layout.columns[:k])
    rows = earlier.pack(cloud.states[:, :k])
    node, least, found = 0, np.inf, (0, True)
    while node >= 0:
        bit = bool(ahead[tree.slots[node, 1]] > ahead[tree.slots[node, 0]])
        odds = network.at(k, node).log_odds_at(rows.rows, np.arange(rows.n_rows, dtype=np.int32))
        words = np.full(_core.column_words(rows.n_rows), ~np.uint64(0) if bit else np.uint64(0))
        expected = float(cloud.weight @ (UNIT * log_likelihoods(odds, words)))
        if expected < least:
            least, found = expected, (node, bit)
        node = int(tree.children[node, int(bit)])
    return found


def _cells_of(layout: Layout, evidence: Evidence, setting: NDArray[np.int8]) -> Cause | None:
    """The cells that bits leave to unknown columns, None if there are none."""
    cause: dict[int, NDArray[np.bool_]] = {}
    for c in np.unique(layout.bit_column[: len(setting)][setting != UNSET]).tolist():
        tree, first = layout.columns[c], int(layout.first_bit[c])
        own = setting[first : first + tree.n_bits]
        allowed = ((tree.table == own) | (own == UNSET)).all(axis=1)
        likelihood = evidence.likelihood[c]
        allowed &= (likelihood[0] if likelihood.ndim == 2 else likelihood) > 0
        if not allowed.any():
            return None
        cause[c] = allowed
    return cause or None
