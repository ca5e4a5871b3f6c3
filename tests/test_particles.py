"""Particles in the core: what a row's trees become is what they were, and nothing depends on how the work is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from lbarn import _core
from lbarn._engine.codetree import CodeTree, Layout
from lbarn._engine.counts import Counts
from lbarn._engine.trees import Trees
from lbarn._network import conditioning
from lbarn._network.conditioning import Effort, condition
from lbarn._network.evidence import Evidence
from lbarn._network.network import Network
from lbarn._network.particles import follow
from networks import all_states, quick, rows, still_rising

pytestmark = still_rising

UNKNOWN = 65_535


def random_trees(rng: np.random.Generator, n_features: int, n_trees: int, n_splits: int, **more: Any) -> Trees:
    """Trees whose leaves are split at random, by features at random, the same one twice on a way too."""
    splits, values, offsets = [], [], [0]
    for _ in range(n_trees):
        own = n_splits if n_features else 0
        splits += [(int(rng.integers(k + 1)), int(rng.integers(n_features))) for k in range(own)]
        values += (rng.normal(0, 0.5, own + 1) * 2**20).astype(int).tolist()
        offsets.append(len(splits))
    return Trees(
        np.array(splits, np.uint16).reshape(-1, 2),
        np.ones(len(splits), np.float32),
        np.array(values, np.int32),
        np.array(offsets, np.int64),
        **more,
    )


def random_network(n_columns: int, n_splits: int, seed: int = 0, *, extras: bool = False) -> Network:
    rng = np.random.default_rng(seed)
    trees = []
    for d in range(n_columns):
        more: dict[str, Any] = {}
        if extras and d == 4:
            more = {"closers": np.array([1, 2], np.uint16), "closed": -3 << 20}
        if extras and d == 5:
            more = {"limit": 1 << 19}
        if extras and d == 6:
            which, least = np.array([0, 0, 1], np.uint16), np.array([1, 3, 2], np.uint16)
            counts = Counts.of(d, [np.arange(6), np.array([1, 3, 5])], which, least)
            trees.append(random_trees(rng, d + 3, 6, n_splits, counts=counts))
            continue
        trees.append(random_trees(rng, d, 6, n_splits, **more))
    return Network(np.arange(n_columns), tuple(trees), Layout.binary(n_columns))


def evidence_of(network: Network, cells: NDArray[Any], unknown: NDArray[np.bool_]) -> Evidence:
    return Evidence.of(network.ordered_layout, cells, unknown)


@pytest.mark.parametrize("n_splits", [1, 7, 63, 64, 90])
@pytest.mark.parametrize("extras", [False, True])
def test_the_trees_of_a_row_are_what_they_were(n_splits: int, extras: bool) -> None:
    """Small and large trees, twice on the same bit, with closers, limits and counts: against all states."""
    network = random_network(9, n_splits, extras=extras)
    states = all_states(9)
    log_p = network.log_likelihood(states)
    rng = np.random.default_rng(1)
    cells, unknown = rng.integers(0, 2, (70, 9)).astype(np.uint8), rng.random((70, 9)) < 0.6
    answer = condition(network.nodes, evidence_of(network, cells, unknown), n_draws=1, effort=Effort(1), seed=0)
    for i in range(len(cells)):
        fits = ((states == cells[i]) | unknown[i]).all(axis=1)
        assert answer.log_marginal[i] == pytest.approx(logsumexp(log_p[fits]), abs=1e-9)
        p = np.exp(log_p[fits] - logsumexp(log_p[fits])) @ states[fits]
        np.testing.assert_allclose(answer.probability[i], p, rtol=0, atol=1e-9)


def test_columns_of_many_cells_agree_with_all_of_their_cells() -> None:
    rng = np.random.default_rng(0)
    column = CodeTree.of(4, [(0, 2, 4), (0, 1, 2), (2, 3, 4)], ordered=True)
    layout = Layout((column, column, column))
    trees = [random_trees(rng, int(layout.first_bit[k]), 4, 5) for k in layout.node_column]
    network = Network(np.arange(3), tuple(trees), layout)
    states = np.array(np.meshgrid(*[range(4)] * 3, indexing="ij")).reshape(3, -1).T.astype(np.uint16)
    p = np.exp(network.log_likelihood(states))
    assert p.sum() == pytest.approx(1, abs=1e-6)
    seen = Evidence.of(layout, np.array([[0, 0, 2]]), np.array([[True, True, False]]))
    for effort, most in ((Effort(1), 12), (Effort(200), -1)):  # enumerated, and by particles that are enough for all
        answer = condition(network.nodes, seen, n_draws=1, effort=effort, seed=0, max_enumerated=most)
        own = states[:, 2] == 2
        assert answer.log_marginal[0] == pytest.approx(np.log(p[own].sum()), abs=1e-9)
        for k in (0, 1):
            expected = np.bincount(states[own, k], p[own], 4) / p[own].sum()
            np.testing.assert_allclose(answer.cells[k][0], expected, rtol=0, atol=1e-9)


def test_thinning_ends_where_some_particles_have_arrived_and_weigh_what_a_particle_should() -> None:
    # All weigh the same after a thinning. Those in cell 0 stay, the others have two children: the threshold is the old
    # weight but for its last digit, which decides whether the former are lighter.
    rng = np.random.default_rng(0)
    layout = Layout((CodeTree.of(4, [(0, 1, 4), (1, 2, 4), (2, 3, 4)], ordered=True),) * 24)
    trees = [random_trees(rng, int(layout.first_bit[k]), 1, 1) for k in layout.node_column]
    network = Network(np.arange(24), tuple(trees), layout)
    seen = Evidence.of(layout, np.zeros((10, 24), np.uint16), np.arange(24) < np.full((10, 1), 23))
    for limit in range(10, 40):
        found = follow(network.nodes, seen, limit, seed=limit, numbers=np.arange(10, dtype=np.uint64))
        assert np.isfinite(found.log_marginal).all()


def test_every_simd_path_gives_the_same_particles() -> None:
    network = random_network(40, 15)
    rng = np.random.default_rng(2)
    seen = evidence_of(network, rng.integers(0, 2, (9, 40)).astype(np.uint8), rng.random((9, 40)) < 0.7)
    before, found = _core.simd_path(), []
    try:
        for path in _core.simd_paths():
            _core.choose_simd_path(path)
            found.append(follow(network.nodes, seen, 60, seed=3, numbers=np.arange(9, dtype=np.uint64), islands=True))
    finally:
        _core.choose_simd_path(before)
    for name in ("log_marginal", "variance", "shares", "draws", "error", "marginal_error"):
        for own in found[1:]:
            np.testing.assert_array_equal(getattr(own, name), getattr(found[0], name))


def test_a_row_is_answered_alike_whichever_rows_are_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_network(30, 15)
    rng = np.random.default_rng(2)
    seen = evidence_of(network, rng.integers(0, 2, (80, 30)).astype(np.uint8), rng.random((80, 30)) < 0.8)
    effort = Effort(500, 0.01)
    whole = condition(network.nodes, seen, n_draws=2, effort=effort, seed=5)
    monkeypatch.setattr(conditioning, "_BLOCK_PARTICLES", 1500)
    parts = [
        condition(network.nodes, seen.take(own), n_draws=2, effort=effort, seed=5, first_row=int(own[0]))
        for own in np.split(np.arange(80), [3, 50])
    ]
    for name, axis in (("probability", 0), ("log_marginal", 0), ("effective", 0), ("draws", 1)):
        together = np.concatenate([getattr(part, name) for part in parts], axis=axis)
        np.testing.assert_array_equal(getattr(whole, name), together)


@pytest.mark.parametrize("asked", ["cells", "marginal"])
def test_the_estimated_error_is_that_of_the_answer(asked: str) -> None:
    model = quick(order="random", max_iter=30).fit(rows(600, 16))
    X = np.where(np.random.default_rng(0).random((60, 16)) < 0.9, np.nan, rows(60, 16, seed=1))
    network = model.distribution
    unknown = np.isnan(X)[:, network.order]
    seen = evidence_of(network, np.nan_to_num(X[:, network.order]).astype(np.uint8), unknown)
    truth = condition(network.nodes, seen, n_draws=1, effort=Effort(1), seed=0, max_enumerated=16)
    squares = []
    for seed in range(20):
        found = follow(network.nodes, seen, 64, seed=seed, numbers=np.arange(60, dtype=np.uint64), islands=True)
        if asked == "marginal":
            squares.append((found.marginal_error**2, (found.log_marginal - truth.log_marginal) ** 2))
        else:
            p = np.where(unknown, 0.0, truth.probability)
            columns = sorted(seen.likelihood)
            p[:, columns] = np.where(unknown[:, columns], found.shares[:, 1::2], p[:, columns])
            own = ((p - truth.probability) ** 2).sum(axis=1) / np.maximum(unknown.sum(axis=1), 1)
            squares.append((found.error**2, own))
    told, true = np.array(squares).mean(axis=(0, 2))
    assert told == pytest.approx(true, rel=0.25)


def test_a_row_gets_as_many_particles_as_its_tolerance_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    model = quick(order="random", max_iter=40).fit(rows(600, 40))
    X = np.where(np.random.default_rng(0).random((40, 40)) < 0.7, np.nan, rows(40, 40, seed=1))
    used: list[int] = []
    monkeypatch.setattr(
        conditioning, "follow", lambda *args, **how: used.append(args[2] * len(args[1].cells)) or follow(*args, **how)
    )
    truth = model.impute(X, output="probability", n_particles=30_000, tolerance=0, random_state=9)
    errors, costs = [], []
    for tolerance in (0.1, 0.03, 0.01):
        used.clear()
        p = model.impute(X, output="probability", n_particles=8000, tolerance=tolerance, random_state=0)
        errors.append(float(np.sqrt(np.square(p - truth)[np.isnan(X)].mean())))
        costs.append(sum(used))
        assert errors[-1] < 1.5 * tolerance
    assert costs[0] < costs[1] < costs[2]
    assert costs[2] < 40 * 8000, "few rows need all"
    used.clear()
    model.impute(X, n_particles=300, tolerance=0, random_state=0)
    assert max(used) <= 40 * 4096
    with pytest.raises(ValueError, match="tolerance must be a number of at least 0; got -1"):
        model.impute(X, tolerance=-1)


def test_a_network_that_does_not_hang_together_is_refused() -> None:
    network = random_network(3, 2)
    trees = [own.core for own in network.trees]
    sizes, cut = np.array([[2, 1, 1]] * 3, np.int32), np.ones(3, np.int32)
    children = np.array([[~0, ~1]] * 3, np.int32)
    low, high = np.ones(3, np.int32), np.full(3, 2, np.int32)
    none = [None] * 3
    made = _core.Network(sizes, cut, children, low, high, trees, none)
    for bad in (
        lambda: _core.Network(sizes, cut, children, low, high, trees[:2], none[:2]),
        lambda: _core.Network(sizes, cut, np.array([[0, ~1]] * 3, np.int32), low, high, trees, none),
        lambda: _core.Network(sizes, cut, np.array([[~0, ~2]] * 3, np.int32), low, high, trees, none),
        lambda: _core.Network(sizes[:2], cut, children, low, high, trees, none),
        lambda: _core.Network(sizes, cut, children, low, high, trees[::-1], none),
    ):
        with pytest.raises(ValueError, match=r"network|split"):
            bad()
    how, numbers = _core.FollowHow(), np.zeros(1, np.uint64)
    likelihood = [(1, np.ones((1, 2)), False)]
    cells = np.array([[0, UNKNOWN, 1]], np.uint16)
    assert _core.follow(made, cells, likelihood, how, numbers).shares.shape == (1, 2)
    for own, seen, each in (
        (np.array([[0, 2, 1]], np.uint16), likelihood, numbers),
        (np.array([[UNKNOWN, 0, 1]], np.uint16), likelihood, numbers),
        (np.zeros((1, 4), np.uint16), likelihood, numbers),
        (cells, [(1, np.ones((1, 3)), False)], numbers),
        (cells, [(1, np.ones((1, 2)), False), (0, np.ones((1, 2)), False)], numbers),
        (cells, likelihood, np.zeros(2, np.uint64)),
    ):
        with pytest.raises(ValueError, match=r"evidence|numbers"):
            _core.follow(made, own, seen, how, each)
    how.limit = 0
    with pytest.raises(ValueError, match="limit"):
        _core.follow(made, np.zeros((1, 3), np.uint16), [], how, np.zeros(1, np.uint64))
