"""Small networks for the tests of everything above the engine: data with structure, quick parameters, comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lbarn import LBARN, LBARNEnsemble
from lbarn._network import modelfile

# Short runs stop while validation still improves; what they are compared on does not depend on it.
still_rising = pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising")


def rows(n: int, n_columns: int, seed: int = 0) -> NDArray[np.uint8]:
    """A chain of bits, each the one before it flipped now and then, with an exclusive or in every third place."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, n_columns)) < 0.3).astype(np.uint8)
    for d in range(1, n_columns):
        X[:, d] ^= X[:, d - 1]
        if d % 3 == 2:
            X[:, d] ^= X[:, d - 2]
    return X


def quick(**parameters: Any) -> LBARN:
    """A network of the paper that trains in milliseconds; ``parameters`` replace the quick ones."""
    return LBARN.paper(**{"max_leaf_nodes": 4, "learning_rate": 0.3, "max_iter": 20, "random_state": 0, **parameters})


def quick_ensemble(**parameters: Any) -> LBARNEnsemble:
    """Three quick networks that differ in their orders."""
    small = {"n_orders": 3, "max_leaf_nodes": 3, "learning_rate": 0.3, "max_iter": 12, "random_state": 0}
    return LBARNEnsemble.paper(**{**small, **parameters})


def all_states(n_columns: int) -> NDArray[np.uint8]:
    """Every row there can be, 2^D of them, the first column counting slowest."""
    return np.array(np.unravel_index(np.arange(2**n_columns), (2,) * n_columns), np.uint8).T


def tensors(model: LBARN | LBARNEnsemble) -> dict[str, NDArray[Any]]:
    """All that was learned: trees, leaf values, gains, curves, order, numbers of trees."""
    return {name: np.asarray(array) for name, array in modelfile.to_parts(model, trim=False)[2].items()}


def assert_same_network(a: LBARN, b: LBARN) -> None:
    """Bit for bit, whatever the parameters that led there."""
    left, right = tensors(a), tensors(b)
    assert left.keys() == right.keys()
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        np.testing.assert_array_equal(left[name], right[name], err_msg=name)
