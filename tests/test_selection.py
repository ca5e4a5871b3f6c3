"""The selections of the paper's section 3 against slow versions that do literally what it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from lbarn._training.selection import SELECTIONS, select

Curves = NDArray[np.float64]

# Log-likelihoods in steps of 1/8: sums are exact, so the oracles' other order of adding cannot matter; ties are common.
_CURVES = st.tuples(st.integers(1, 5), st.integers(1, 8)).flatmap(
    lambda shape: st.tuples(*[arrays(np.int64, (shape[0], shape[1] + 1), elements=st.integers(-12, 0))] * 2)
)


@st.composite
def curves(draw: st.DrawFn) -> tuple[Curves, Curves]:
    train, valid = draw(_CURVES)
    return train / 8.0, valid / 8.0


def joint(valid: Curves, n_trees: list[int]) -> float:
    return float(sum(valid[d, t] for d, t in enumerate(n_trees)))


def greedy_forward(train: Curves, valid: Curves) -> list[int]:
    """From no trees, always add the one that raises the training likelihood most; the best point on the way."""
    D, T = train.shape[0], train.shape[1] - 1
    current = [0] * D
    best, best_value = list(current), joint(valid, current)
    for _ in range(D * T):
        free = [d for d in range(D) if current[d] < T]
        d = max(free, key=lambda d: train[d, current[d] + 1] - train[d, current[d]])
        current[d] += 1
        if joint(valid, current) > best_value:
            best, best_value = list(current), joint(valid, current)
    return best


def greedy_backward(train: Curves, valid: Curves) -> list[int]:
    """From all trees, always remove the one whose loss of training likelihood is least; the best point on the way."""
    D, T = train.shape[0], train.shape[1] - 1
    current = [T] * D
    best, best_value = list(current), joint(valid, current)
    for _ in range(D * T):
        free = [d for d in range(D) if current[d] > 0]
        d = min(free, key=lambda d: train[d, current[d]] - train[d, current[d] - 1])
        current[d] -= 1
        if joint(valid, current) > best_value:
            best, best_value = list(current), joint(valid, current)
    return best


@given(curves())
def test_individual_is_the_best_point_of_every_curve(both: tuple[Curves, Curves]) -> None:
    train, valid = both
    expected = [min(range(len(curve)), key=lambda t: (-curve[t], t)) for curve in valid]
    assert select("individual", train, valid).tolist() == expected


@given(curves())
def test_common_is_the_best_number_for_all_dimensions_together(both: tuple[Curves, Curves]) -> None:
    train, valid = both
    D, rounds = valid.shape
    best = min(range(rounds), key=lambda t: (-joint(valid, [t] * D), t))
    assert select("common", train, valid).tolist() == [best] * D


# A dimension whose better tree waits behind a poor one, and equal improvements in two dimensions.
@example((np.array([[0, 1, 1.5, 9], [0, 2, 4, 6]]) / 8, np.array([[0, -1, -2, 5], [0, 1, 2, 3]]) / 8))
@example((np.array([[0, 1, 2, 3], [0, 1, 2, 3]]) / 8, np.array([[0, 1, 0, 1], [0, 1, 2, 0]]) / 8))
@given(curves())
def test_linearized_is_the_best_point_of_the_greedy_path_forward(both: tuple[Curves, Curves]) -> None:
    assert select("linearized", *both).tolist() == greedy_forward(*both)


@example((np.array([[0, 9, 9.5, 9], [0, 2, 4, 6]]) / 8, np.array([[0, -1, -2, 5], [0, 1, 2, 3]]) / 8))
@given(curves())
def test_linearized_backward_is_the_best_point_of_the_greedy_path_backward(both: tuple[Curves, Curves]) -> None:
    assert select("linearized-backward", *both).tolist() == greedy_backward(*both)


@given(curves(), st.sampled_from(sorted(SELECTIONS)))
def test_every_selection_is_within_bounds_and_no_worse_than_its_starting_point(
    both: tuple[Curves, Curves], method: str
) -> None:
    train, valid = both
    T = train.shape[1] - 1
    chosen = select(method, train, valid)
    assert chosen.shape == (len(train),)
    assert ((chosen >= 0) & (chosen <= T)).all()
    start = T if method == "linearized-backward" else 0
    assert joint(valid, list(chosen)) >= joint(valid, [start] * len(train))


@pytest.mark.parametrize("method", SELECTIONS)
def test_no_trees_at_all_is_a_candidate(method: str) -> None:
    train = np.linspace(-0.7, -0.1, 6) * np.ones((3, 1))  # each tree helps in training
    valid = np.linspace(-0.7, -2.0, 6) * np.ones((3, 1))  # and hurts in validation
    assert select(method, train, valid).tolist() == [0, 0, 0]


@pytest.mark.parametrize("method", SELECTIONS)
def test_all_trees_is_a_candidate(method: str) -> None:
    rising = np.linspace(-0.7, -0.1, 6) * np.ones((3, 1))
    assert select(method, rising, rising).tolist() == [5, 5, 5]


@pytest.mark.parametrize("method", SELECTIONS)
def test_mnist_sized_curves_are_selected_from(method: str) -> None:
    D, T = 784, 1000
    scale = np.random.default_rng(0).uniform(0.01, 0.6, (D, 1))
    t = np.arange(T + 1)
    train = -np.log(2) + scale * (1 - np.exp(-t / 150))
    valid = train - scale * (t / T) ** 2 * 0.1
    chosen = select(method, train, valid)
    assert chosen.shape == (D,)
    best = valid.max(axis=1).sum()
    gained = valid[np.arange(D), chosen].sum() - valid[:, 0].sum()
    assert gained > 0.98 * (best - valid[:, 0].sum()), "all four come close on curves of one shape"
