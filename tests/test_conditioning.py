"""A network given evidence agrees with enumeration of all 2^D states: imputation, denoising and marginal likelihoods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import chisquare

import lbarn
from lbarn import LBARN
from lbarn._engine.codetree import Layout
from lbarn._engine.trees import Trees
from lbarn._network import causes, conditioning, particles
from lbarn._network.conditioning import Answer, Effort, condition
from lbarn._network.evidence import Evidence
from lbarn._network.mixture import Mixture
from lbarn._network.network import Given, Network
from lbarn.baselines import IndependentBits, SingleTreeNetwork
from networks import all_states, quick, rows, still_rising

pytestmark = still_rising

D = 12
TRAIN, TEST = rows(600, D), rows(40, D, seed=1)
NAN = np.nan


def holed(X: NDArray[Any], share: float = 0.5, seed: int = 0) -> NDArray[np.float64]:
    """Another pattern of missing bits in every row."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, NAN, X)


def given(X: NDArray[np.float64], flip: float = 0.0) -> Given:
    """Bits that may be missing or flipped."""
    return Given.flipped((X == 1).astype(np.uint8), np.isnan(X), flip)


def seen(X: NDArray[np.float64], flip: float) -> Evidence:
    """The same as evidence, in the columns' own order."""
    own = given(X, flip)
    return Evidence.of(Layout.binary(X.shape[1]), own.cells, own.unknown, own.likelihood)


def network_of(order: NDArray[np.intp], trees: tuple[Trees, ...]) -> Network:
    return Network(order, trees, Layout.binary(len(order)))


class Truth:
    """What a network says of every state, and so of every row with missing or noisy bits."""

    def __init__(self, model: Any) -> None:
        self.states = all_states(model.n_features_in_)
        self.log_p = model.score_samples(self.states)

    def log_joint(self, X: NDArray[np.float64], flip: float) -> NDArray[np.float64]:
        """log p of every state together with what was seen of every row: (rows, states)."""
        likelihood = np.where(X == 1, 1.0 - flip, flip)
        with np.errstate(divide="ignore"):
            one, zero = (np.log(np.where(np.isnan(X), 1.0, p)) for p in (likelihood, 1.0 - likelihood))
        joint = np.array([np.where(self.states, a, b).sum(axis=1) for a, b in zip(one, zero)])
        return joint + self.log_p

    def log_marginal(self, X: NDArray[np.float64], flip: float = 0.0) -> NDArray[np.float64]:
        return logsumexp(self.log_joint(X, flip), axis=1)

    def posterior(self, X: NDArray[np.float64], flip: float = 0.0) -> NDArray[np.float64]:
        joint = self.log_joint(X, flip)
        return np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    def probability(self, X: NDArray[np.float64], flip: float = 0.0) -> NDArray[np.float64]:
        return self.posterior(X, flip) @ self.states


def monte_carlo(
    model: Any, X: NDArray[np.float64], flip: float = 0.0, *, n_particles: int = 10_000, seed: int = 0, n_draws: int = 1
) -> Answer:
    """Conditioning without enumeration, the answer in the columns' own order."""
    network = model.distribution
    answer = condition(
        network.nodes,
        seen(X[:, network.order], flip),
        n_draws=n_draws,
        effort=Effort(n_particles),
        seed=seed,
        max_enumerated=-1,
    )
    return answer.in_columns(network.order)


def saved_and_loaded(path: Path) -> Any:
    quick(order="random").fit(TRAIN).save(path / "model")
    return lbarn.load(path / "model")


MODELS = {
    "given": lambda _: quick().fit(TRAIN),
    "random": lambda _: quick(order="random").fit(TRAIN),
    "entropy-decreasing": lambda _: quick(order="entropy-decreasing", refit=True).fit(TRAIN),
    "entropy-increasing": lambda _: quick(order="entropy-increasing", max_leaf_nodes=16).fit(TRAIN),
    "saved and loaded": saved_and_loaded,
    "refitted leaves": lambda _: quick(order="random").fit(TRAIN[:200]).refit_leaves(TRAIN),
    "another selection": lambda _: quick(max_iter=40, n_iter_no_change=None).fit(TRAIN).select("common"),
    "independent bits": lambda _: IndependentBits().fit(TRAIN),
    "single trees": lambda _: SingleTreeNetwork().fit(TRAIN),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return MODELS[request.param](tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def shuffled() -> LBARN:
    return quick(order="random", max_iter=40).fit(TRAIN)


@pytest.fixture(scope="module")
def wide() -> LBARN:
    """Sixteen columns: too many states for the particles of these tests, few enough to enumerate."""
    return quick(order="random", max_iter=30).fit(rows(600, 16))


# ---------------------------------------------------------------------- against all 2^D states


def test_enumeration_is_exact(model: Any) -> None:
    truth, X = Truth(model), holed(TEST)
    np.testing.assert_allclose(model.impute(X, output="probability"), truth.probability(X), rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.log_marginal(X), truth.log_marginal(X), rtol=0, atol=1e-9)


@pytest.mark.parametrize("flip", [0.02, 0.1, 0.45])
def test_denoising_by_enumeration_is_exact(model: Any, flip: float) -> None:
    truth, X = Truth(model), holed(TEST, share=0.2)
    denoised = model.denoise(X, flip=flip, output="probability")
    np.testing.assert_allclose(denoised, truth.probability(X, flip), rtol=0, atol=1e-9)


def test_monte_carlo_with_10000_particles_agrees_with_enumeration(model: Any) -> None:
    truth = Truth(model)
    for share in (0.2, 0.5, 0.9):
        X = holed(TEST, share)
        error = np.abs(monte_carlo(model, X).probability - truth.probability(X))[np.isnan(X)]
        assert error.max() < 0.03
        assert error.mean() < 0.005


def test_monte_carlo_is_exact_where_there_is_room_for_every_state(model: Any) -> None:
    truth, X = Truth(model), holed(TEST, share=0.2)
    for flip in (0.0, 0.1):
        answer = monte_carlo(model, X, flip, n_particles=2**D)
        np.testing.assert_allclose(answer.probability, truth.probability(X, flip), rtol=0, atol=1e-9)
        np.testing.assert_allclose(answer.log_marginal, truth.log_marginal(X, flip), rtol=0, atol=1e-9)
        assert np.isinf(answer.effective).all()


@pytest.mark.parametrize(("flip", "share"), [(0.0, 0.9), (0.1, 0.2), (0.3, 0.0)])
def test_particles_that_must_be_thinned_agree_with_enumeration(wide: LBARN, flip: float, share: float) -> None:
    X = holed(rows(30, 16, seed=1), share)
    answer = monte_carlo(wide, X, flip, n_particles=3000)
    assert np.isfinite(answer.effective).any(), "some rows were thinned"
    truth = Truth(wide)
    free = np.isnan(X) | (flip > 0)
    error = np.abs(answer.probability - truth.probability(X, flip))[free]
    assert error.max() < 0.03
    assert error.mean() < 0.005
    np.testing.assert_allclose(answer.log_marginal, truth.log_marginal(X, flip), rtol=0, atol=0.02)


@pytest.mark.parametrize("flip", [0.0, 0.1])
@pytest.mark.parametrize("n_particles", [1, 2, 7, 30])
def test_the_marginal_likelihood_is_estimated_without_bias(wide: LBARN, n_particles: int, flip: float) -> None:
    row = holed(rows(2, 16, seed=1), share=0.3 if flip else 0.7)
    estimates = monte_carlo(wide, row.repeat(4000, axis=0), flip, n_particles=n_particles).log_marginal.reshape(2, -1)
    ratio = np.exp(estimates - Truth(wide).log_marginal(row, flip)[:, None])
    error = ratio.std(axis=1) / np.sqrt(ratio.shape[1])
    assert (error > 0).all()
    assert (np.abs(ratio.mean(axis=1) - 1) < 4 * error).all()


def test_draws_by_enumeration_follow_the_conditional_distribution(shuffled: LBARN) -> None:
    X = holed(TEST[:3], share=0.4)
    draws = shuffled.impute(X, n_draws=20_000, random_state=0)
    assert draws.shape == (20_000, 3, D)
    for i, p in enumerate(Truth(shuffled).posterior(X)):
        assert_follows(draws[:, i], p)


@pytest.mark.parametrize("n_particles", [1, 5, 40])
def test_a_draw_is_exact_where_the_observed_bits_are_a_prefix_however_few_the_particles(
    wide: LBARN, n_particles: int
) -> None:
    X = np.full((1, 16), NAN)
    X[0, wide.order_[:9]] = rows(1, 16, seed=3)[0, wide.order_[:9]]
    answer = monte_carlo(wide, X.repeat(8000, axis=0), n_particles=n_particles)
    assert set(answer.method) == {"prefix"}
    assert_follows(answer.draws[0], Truth(wide).posterior(X)[0])
    known = prefix_score(wide, X)
    np.testing.assert_allclose(answer.log_marginal, known, rtol=0, atol=1e-5)


def prefix_score(model: LBARN, X: NDArray[np.float64]) -> float:
    """log p of the observed prefix: the surprises of its bits, whatever follows."""
    surprise = model.surprise(np.nan_to_num(X))[0]
    return -surprise[~np.isnan(X[0])].sum()


def assert_follows(draws: NDArray[np.uint8], p: NDArray[np.float64]) -> None:
    """The states drawn are as frequent as their probabilities say; rare ones are pooled."""
    states = draws.astype(np.int64) @ (1 << np.arange(draws.shape[1])[::-1])
    counts, expected = np.bincount(states, minlength=len(p)), len(draws) * p
    assert not counts[p == 0].any()
    rare = expected < 5
    counts = np.append(counts[~rare], counts[rare].sum() + 1e-9)
    expected = np.append(expected[~rare], expected[rare].sum() + 1e-9)
    assert chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


# ---------------------------------------------------------------------- what to trust


def test_the_diagnostics_name_the_method_of_every_row(shuffled: LBARN, wide: LBARN) -> None:
    X = np.full((5, 16), NAN)
    X[0] = rows(1, 16)[0]
    X[1, 4:] = X[0, 4:]  # four unknown bits
    X[2, 12:] = X[0, 12:]  # twelve
    X[3, wide.order_[:2]] = X[0, wide.order_[:2]]  # the rest of the order is free
    X[4, wide.order_[13:]] = X[0, wide.order_[13:]]
    filled, diagnostics = wide.impute(X, return_diagnostics=True, random_state=0)
    assert filled.shape == (5, 16)
    assert diagnostics["method"].tolist() == ["complete", "enumeration", "enumeration", "prefix", "monte-carlo"]
    effective = diagnostics["effective_sample_size"]
    assert np.isinf(effective[:3]).all()
    assert np.isfinite(effective[3:]).all()
    assert (effective[3:] > 10).all()


def test_the_effective_sample_size_tells_how_much_estimates_vary(wide: LBARN) -> None:
    X = holed(rows(12, 16, seed=1), share=0.9).repeat(300, axis=0)
    answer = monte_carlo(wide, X, n_particles=100)
    p = answer.probability.reshape(12, 300, 16)
    claimed = 1 / np.mean(1 / answer.effective.reshape(12, 300), axis=1)
    spread = (p.mean(axis=1) * (1 - p.mean(axis=1))).sum(axis=1) / p.var(axis=1).sum(axis=1)
    assert (claimed < 1.5 * spread).all(), "not more than is there"
    assert (claimed > spread / 8).all()


def test_more_particles_are_worth_more(wide: LBARN) -> None:
    X = holed(rows(12, 16, seed=1), share=0.9)
    worth = [np.median(monte_carlo(wide, X, n_particles=n).effective) for n in (30, 300, 3000)]
    assert worth[0] < worth[1] < worth[2]


def test_few_particles_do_not_make_an_unknown_bit_certain() -> None:
    """Long after a bit all particles may descend from the same one; its probability must not be 0 or 1 for that."""
    model = quick(max_iter=40).fit(rows(2000, 60))
    test = rows(60, 60, seed=1)
    X = holed(test, share=0.5)
    free = np.isnan(X)
    p = model.impute(X, output="probability", n_particles=20, random_state=0)[free]
    assert p.min() > 0
    assert p.max() < 1
    loss = -np.log(np.where(test[free], p, 1 - p)).mean()
    many = model.impute(X, output="probability", n_particles=1000, random_state=0)[free]
    best = -np.log(np.where(test[free], many, 1 - many)).mean()
    assert best < loss < best + 0.05


# ---------------------------------------------------------------------- bits that are certain


def trees(*each: tuple[list[tuple[int, int]], list[float]]) -> Trees:
    """Trees by their splits, (leaf, position), and leaf values in nats."""
    splits = np.array([split for tree in each for split in tree[0]], np.uint16).reshape(-1, 2)
    values = np.array([value for tree in each for value in tree[1]]) * 2**20
    offsets = np.cumsum([0, *(len(tree[0]) for tree in each)])
    return Trees(splits, np.ones(len(splits), np.float32), values.astype(np.int32), offsets.astype(np.int64))


def leaf(log_odds: float) -> Trees:
    return trees(([], [log_odds]))


def certain_network(n_columns: int, largest: float, rng: np.random.Generator) -> Network:
    """Two random trees a column, whose log-odds reach ``largest`` nats either way."""

    def tree(d: int) -> tuple[list[tuple[int, int]], list[float]]:
        positions = rng.choice(d, min(3, d), replace=False)
        values = rng.choice([-0.5, -0.45, -0.001, 0.001, 0.45, 0.5], len(positions) + 1) * largest
        return [(int(rng.integers(k + 1)), int(p)) for k, p in enumerate(positions)], values.tolist()

    by_position = [leaf(0.3), *(trees(tree(d), tree(d)) for d in range(1, n_columns))]
    return network_of(rng.permutation(n_columns), tuple(by_position))


class CertainModel:
    """What ``Truth`` and ``monte_carlo`` ask of a model."""

    def __init__(self, network: Network) -> None:
        self.distribution = network
        self.n_features_in_ = network.n_columns
        self.score_samples = network.log_likelihood


@pytest.mark.parametrize("largest", [5, 700, 800, 2000])
@pytest.mark.parametrize("flip", [0.0, 0.1])
def test_bits_beyond_the_range_of_doubles_are_enumerated_exactly(largest: float, flip: float) -> None:
    rng = np.random.default_rng(0)
    for n_columns in (2, 5, 9):
        for _ in range(4):
            network = certain_network(n_columns, largest, rng)
            truth = Truth(CertainModel(network))
            X = holed(rng.integers(0, 2, (30, n_columns)), seed=int(rng.integers(99)))
            expected = truth.log_marginal(X, flip)
            chunk = 0, given(X, flip)
            ((_, answer),) = network.condition([chunk], np.random.RandomState(0), n_draws=5, effort=Effort(1))
            np.testing.assert_allclose(answer.log_marginal, expected, rtol=1e-12, atol=1e-9)
            np.testing.assert_allclose(answer.probability, truth.probability(X, flip), rtol=0, atol=1e-9)
            assert np.isinf(answer.effective).all()
            if flip == 0:
                assert (answer.draws[:, ~np.isnan(X)] == X[~np.isnan(X)]).all()


@pytest.mark.parametrize("n_particles", [1, 8, 64])
@pytest.mark.parametrize("flip", [0.0, 0.1])
def test_bits_beyond_the_range_of_doubles_have_finite_answers_by_particles(n_particles: int, flip: float) -> None:
    rng = np.random.default_rng(0)
    for n_columns in (5, 16):
        network = certain_network(n_columns, 2000, rng)
        X = holed(rng.integers(0, 2, (60, n_columns)), share=0.8)
        X[:20, network.order[2:]] = NAN  # a prefix
        answer = monte_carlo(CertainModel(network), X, flip, n_particles=n_particles, n_draws=20)
        assert {"monte-carlo", "prefix"} >= set(answer.method) - {"complete"}
        assert np.isfinite(answer.log_marginal).all()
        assert (answer.log_marginal < 1e-6).all()
        assert (answer.log_marginal >= -2000 * n_columns).all()
        assert ((answer.probability >= 0) & (answer.probability <= 1)).all()
        assert not np.isnan(answer.effective).any()
        if flip == 0:
            assert (answer.draws[:, ~np.isnan(X)] == X[~np.isnan(X)]).all()


def test_an_impossible_completion_is_found_if_what_follows_is_more_impossible_without_it() -> None:
    """Lost at the first bit, 800 nats down, it is the answer after the second and third, 700 nats each."""
    copy = trees(([(0, 0)], [-700, 700]))
    network = network_of(np.arange(3), (leaf(-800), copy, copy))
    chunk = 0, given(np.array([[NAN, 1, 1]]))
    ((_, answer),) = network.condition([chunk], np.random.RandomState(0), effort=Effort(10))
    assert answer.probability[0, 0] == 1
    assert answer.log_marginal[0] == pytest.approx(-800)


def test_a_mixture_answers_for_rows_that_all_members_hold_impossible() -> None:
    members = tuple(network_of(np.arange(3), (leaf(0), leaf(odds), leaf(-2000))) for odds in (-2000, -1500))
    chunk = 0, given(np.array([[NAN, 1, 1]]))
    mixture = Mixture(members, np.array([0.5, 0.5]))
    ((_, answer),) = mixture.condition([chunk], np.random.RandomState(0), n_draws=9, effort=Effort(10))
    assert answer.log_marginal[0] == pytest.approx(-3500 + np.log(0.5))
    np.testing.assert_allclose(answer.probability[0], [0.5, 1, 1], rtol=0, atol=1e-9)


# ---------------------------------------------------------------------- what no particle expected


def all_of(positions: range, otherwise: float, then: float) -> tuple[list[tuple[int, int]], list[float]]:
    """A tree for the logical and of some bits."""
    return list(enumerate(positions)), [otherwise] * len(positions) + [then]


M = 16  # fair bits, followed by what is seen
UNEXPECTED = {
    "and": [trees(all_of(range(M), -10, 8))],
    "or of two": [trees(all_of(range(M - 2), -10, 6), all_of(range(M - 1, 1, -1), 0, 16))],
    "the cause of a cause": [trees(all_of(range(M), -10, 8)), trees(all_of(range(M, M + 1), -10, 8))],
    "not expected by any": [trees(all_of(range(M), -10, -9))],
}


@pytest.mark.parametrize("name", UNEXPECTED)
def test_what_was_thinned_out_is_found_if_nothing_else_explains_what_is_seen(name: str) -> None:
    network = network_of(np.arange(M + len(UNEXPECTED[name])), (*[leaf(0)] * M, *UNEXPECTED[name]))
    X = np.full((1, network.n_columns), NAN)
    X[0, -1] = 1
    truth = condition(
        network.nodes, seen(X, 0.0), n_draws=1, effort=Effort(1), seed=0, max_enumerated=network.n_columns
    )
    answer = monte_carlo(CertainModel(network), X.repeat(40, axis=0), n_particles=1000, n_draws=10)
    np.testing.assert_allclose(answer.log_marginal, truth.log_marginal[0], rtol=0, atol=0.01)
    np.testing.assert_allclose(answer.probability.mean(axis=0), truth.probability[0], rtol=0, atol=0.01)
    np.testing.assert_allclose(answer.draws.mean(axis=(0, 1)), truth.probability[0], rtol=0, atol=0.1)
    p, error = truth.probability[0, :M], answer.probability[:, :M] - truth.probability[0, :M]
    worth = (p * (1 - p)).sum() / np.square(error).mean(axis=0).sum()
    assert (answer.effective < 3 * worth).all(), "not more is claimed than is there"
    assert (answer.effective > 100).all()


def test_the_claim_is_small_if_looking_ahead_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "_MAX_CAUSES", 0)
    network = network_of(np.arange(M + 1), (*[leaf(0)] * M, *UNEXPECTED["and"]))
    X = np.full((1, M + 1), NAN)
    X[0, -1] = 1
    answer = monte_carlo(CertainModel(network), X.repeat(20, axis=0), n_particles=1000)
    assert (answer.effective < 10).all()


def test_rows_in_which_nothing_is_unexpected_are_answered_as_without_looking_ahead(
    wide: LBARN, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = holed(rows(30, 16, seed=1), share=0.7)
    answers = []
    for n_particles in (0.0, 10.0):
        monkeypatch.setattr(particles, "_UNEXPECTED_PARTICLES", n_particles)
        answers.append(monte_carlo(wide, X, n_particles=50, n_draws=3))
    for field in ("probability", "draws", "log_marginal", "effective"):
        np.testing.assert_array_equal(getattr(answers[0], field), getattr(answers[1], field))


# ---------------------------------------------------------------------- what is given back


def test_observed_bits_never_change(shuffled: LBARN) -> None:
    long = quick(order="random").fit(rows(400, 30))
    for model, test in ((shuffled, TEST), (long, rows(20, 30, seed=1))):
        X = holed(test, share=0.6)
        observed = ~np.isnan(X)
        for output in ("sample", "mode", "probability"):
            filled = model.impute(X, output=output, n_particles=50, random_state=0)
            np.testing.assert_array_equal(filled[observed], X[observed])
            assert not np.isnan(filled).any()
        draws = model.impute(X, n_draws=4, n_particles=50, random_state=0)
        assert (draws[:, observed] == X[observed]).all()
        np.testing.assert_array_equal(model.impute(test), test)


def test_the_mode_is_the_likelier_value_and_draws_are_as_frequent_as_probabilities(shuffled: LBARN) -> None:
    X = holed(TEST)
    p = shuffled.impute(X, output="probability")
    np.testing.assert_array_equal(shuffled.impute(X, output="mode"), p >= 0.5)
    frequency = shuffled.impute(X, n_draws=4000, random_state=0).mean(axis=0)
    np.testing.assert_allclose(frequency, p, rtol=0, atol=0.05)


def test_denoising_without_noise_is_imputing(shuffled: LBARN) -> None:
    X = holed(TEST)
    np.testing.assert_array_equal(
        shuffled.denoise(X, flip=0.0, output="probability"), shuffled.impute(X, output="probability")
    )
    np.testing.assert_array_equal(
        shuffled.denoise(X, flip=0, output="sample", random_state=0), shuffled.impute(X, random_state=0)
    )
    np.testing.assert_array_equal(shuffled.denoise(TEST, flip=0.0), TEST)


def test_denoising_brings_rows_closer_to_what_they_were() -> None:
    clean = np.repeat(np.random.default_rng(0).integers(0, 2, (1200, 5)), 8, axis=1)  # every bit eight times
    model = quick(order="random").fit(clean[:1000])
    noise = np.random.default_rng(1).random((200, 40)) < 0.1
    denoised = model.denoise(clean[1000:] ^ noise, flip=0.1, n_particles=100, random_state=0)
    assert (denoised != clean[1000:]).mean() < noise.mean() / 10


def test_tables_come_back_as_they_were_given() -> None:
    names = [f"v{j}" for j in range(6)]
    train = pd.DataFrame(rows(300, 6), columns=names).astype({"v1": bool, "v2": float})
    model = quick(order="random").fit(train)
    frame = train[:20].astype(float).mask(np.random.default_rng(0).random((20, 6)) < 0.3)
    frame.index = pd.Index(range(100, 120), name="patient")
    filled = model.impute(frame, random_state=0)
    assert isinstance(filled, pd.DataFrame)
    pd.testing.assert_index_equal(filled.index, frame.index)
    assert filled.columns.tolist() == names
    assert (filled.where(frame.notna()) == frame).where(frame.notna(), True).all(axis=None)
    p = model.impute(frame, output="probability")
    assert set(map(str, p.dtypes)) == {"float64"}
    polars = model.impute(pl.from_pandas(frame), random_state=0)
    assert isinstance(polars, pl.DataFrame)
    np.testing.assert_array_equal(polars.to_numpy(), filled.to_numpy())
    nullable = model.impute(frame.astype("Int64"), random_state=0)
    np.testing.assert_array_equal(nullable.to_numpy(), filled.to_numpy())
    assert isinstance(model.impute(frame, n_draws=3), np.ndarray)
    denoised = model.denoise(train[:20], flip=0.1)
    assert denoised.dtypes.tolist() == [np.dtype(t) for t in ["uint8", "bool", "float64", "uint8", "uint8", "uint8"]]


def test_arrays_come_back_in_their_own_type(shuffled: LBARN) -> None:
    for dtype in (np.uint8, np.float32, bool):
        assert shuffled.denoise(TEST.astype(dtype), flip=0.1).dtype == dtype
    assert shuffled.impute(holed(TEST).astype(np.float32)).dtype == np.float32
    assert shuffled.impute(TEST, output="probability").dtype == float


def test_the_same_seed_gives_the_same_answer_with_any_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditioning, "_BLOCK_PARTICLES", 200)  # many blocks
    model = quick(order="random").fit(rows(400, 30))
    X = holed(rows(12, 30, seed=1), share=0.6)
    for use in (model.impute, lambda X, **how: model.denoise(X, flip=0.1, output="sample", **how)):
        first = use(X, n_particles=50, random_state=7)
        for n_jobs in (1, 2):
            model.set_params(n_jobs=n_jobs)
            np.testing.assert_array_equal(use(X, n_particles=50, random_state=7), first)
        assert (use(X, n_particles=50, random_state=8) != first).any()
    marginals = [
        model.set_params(n_jobs=n_jobs).log_marginal(X, n_particles=50, random_state=0) for n_jobs in (None, 1, 2)
    ]
    np.testing.assert_array_equal(marginals[0], marginals[1])
    np.testing.assert_array_equal(marginals[0], marginals[2])


def test_chunks_of_a_long_table_are_put_together_and_draw_apart(
    shuffled: LBARN, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.tile(holed(TEST[:1], share=0.6), (64, 1))
    p = shuffled.impute(X, output="probability")
    monkeypatch.setattr("lbarn._tables.table._CHUNK_VALUES", D * 16)
    np.testing.assert_allclose(shuffled.impute(X, output="probability"), p, rtol=0, atol=1e-12)
    drawn = shuffled.impute(X, random_state=0).reshape(4, 16, D)
    assert (drawn[0] != drawn[1]).any(), "every chunk has random numbers of its own"


def test_one_column() -> None:
    model = quick().fit(np.resize([0, 0, 0, 1], (400, 1)))
    assert model.impute([[NAN]], output="probability")[0, 0] == pytest.approx(0.25, abs=0.02)
    assert model.log_marginal([[NAN]])[0] == pytest.approx(0.0, abs=1e-6)


# ---------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("flip", [-0.1, 0.5, 1.0, NAN, "0.1", None])
def test_a_flip_that_is_no_probability_below_one_half_is_refused(shuffled: LBARN, flip: Any) -> None:
    with pytest.raises(ValueError, match=r"flip must be a probability of at least 0 and below 0\.5"):
        shuffled.denoise(TEST, flip=flip)


@pytest.mark.parametrize("use", ["impute", "log_marginal", "denoise"])
def test_bad_input_is_refused_by_name(shuffled: LBARN, use: str) -> None:
    how = {"flip": 0.1} if use == "denoise" else {}
    act = getattr(shuffled, use)
    with pytest.raises(ValueError, match="X has 11 features, but LBARN is expecting 12"):
        act(TEST[:, 1:], **how)
    with pytest.raises(ValueError, match="column 3 holds 2"):
        act(np.where(np.arange(D) == 3, 2, TEST), **how)
    for n_particles in (0, -5, 2.5, None):
        with pytest.raises(ValueError, match="n_particles must be a whole number of at least 1"):
            act(TEST, n_particles=n_particles, **how)


@pytest.mark.parametrize("use", ["impute", "denoise"])
def test_bad_options_are_refused_by_name(shuffled: LBARN, use: str) -> None:
    how = {"flip": 0.1} if use == "denoise" else {}
    act = getattr(shuffled, use)
    with pytest.raises(
        ValueError, match="output must be 'sample', 'mode', 'mean', 'median' or 'probability'; got 'best'"
    ):
        act(TEST, output="best", **how)
    for output in ("mode", "probability"):
        with pytest.raises(
            ValueError, match=f"n_draws=2 goes with output='sample' only; there is one {output} per value"
        ):
            act(TEST, output=output, n_draws=2, **how)
    for n_draws in (0, -1, 1.5):
        with pytest.raises(ValueError, match="n_draws must be a whole number of at least 1"):
            act(TEST, output="sample", n_draws=n_draws, **how)
