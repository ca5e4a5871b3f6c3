"""The paper's numbers on its own data: exact splits reproduce them, the fast defaults are at least as good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conftest import Dataset
from lbarn import LBARN


@pytest.mark.parametrize(
    ("name", "max_leaf_nodes", "expected", "tolerance"),
    [
        ("nips", 2, {"individual": -272.95, "common": -271.53, "linearized": -271.72}, 0.02),
        ("mushrooms", 8, {"individual": -9.61, "common": -9.71, "linearized": -9.71}, 0.03),
    ],
    ids=["nips", "mushrooms"],
)
def test_exact_splits_reproduce_the_paper(
    shared_data: Callable[[str], Dataset],
    name: str,
    max_leaf_nodes: int,
    expected: dict[str, float],
    tolerance: float,
) -> None:
    train, valid, test = (part.unpack() for part in shared_data(name))
    model = LBARN.paper(splits="exact", max_leaf_nodes=max_leaf_nodes, random_state=0, n_jobs=2).fit(train, X_val=valid)
    scores = {method: model.select(method).score(test) for method in expected}
    assert scores == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    ("name", "parameters", "at_least"),
    [
        ("nips", {"max_leaf_nodes": 2}, -273.0),
        ("mushrooms", {"max_leaf_nodes": 8}, -9.60),
        ("dna", {"max_leaf_nodes": 16}, -78.85),
        ("adult", {"max_leaf_nodes": 2, "learning_rate": 0.1}, -13.13),
    ],
    ids=["nips", "mushrooms", "dna", "adult"],
)
def test_fast_splits_are_as_good_as_the_paper_and_a_refit_does_no_harm(
    shared_data: Callable[[str], Dataset], name: str, parameters: dict[str, Any], at_least: float
) -> None:
    train, valid, test = (part.unpack() for part in shared_data(name))
    model = LBARN.paper(**parameters, random_state=0, n_jobs=2).fit(train, X_val=valid)
    score = model.score(test)
    assert score >= at_least
    assert model.refit_leaves(np.concatenate([train, valid])).score(test) >= score - 0.05
