"""A small table with columns of every kind, which depend on each other, for the tests of what is built on a network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lbarn import LBARN, LBARNEnsemble

__all__ = ["brief", "brief_ensemble", "people"]


def people(n: int, seed: int = 0) -> pd.DataFrame:
    """Whole numbers, categories with gaps, a density with gaps, booleans, dates, bits, and a name that is always another."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    town = rng.choice(["Aachen", "Bonn", "Celle"], n, p=[0.6, 0.3, 0.1])
    hours = np.where(rng.random(n) < 0.6, 40, rng.integers(10, 60, n))
    retired = rng.random(n) < 1 / (1 + np.exp(-(age - 62.0)))
    hours = np.where(retired, 0, hours)
    income = np.exp(rng.normal(np.where(town == "Aachen", 7.0, 8.0) + hours / 40, 0.3))
    return pd.DataFrame(
        {
            "age": age,
            "town": pd.Series(np.where(rng.random(n) < 0.05, None, town), dtype="object"),
            "retired": retired,
            "hours": hours,
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n) + 5 * age, "D"),
            "works": (hours > 0).astype(int),
        }
    )


def brief(**parameters: Any) -> LBARN:
    """A network that trains in a moment; ``parameters`` replace the brief ones."""
    return LBARN(**{"max_iter": 25, "learning_rate": 0.3, "random_state": 0, **parameters})


def brief_ensemble(**parameters: Any) -> LBARNEnsemble:
    small = {"n_orders": 2, "orders": "random", "max_iter": 12, "learning_rate": 0.3, "random_state": 0}
    return LBARNEnsemble(**{**small, **parameters})
