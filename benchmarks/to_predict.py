"""What is to be predicted: numbers and classes, of tables, of scikit-learn's data, and simulated."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from pages import DATA

Floats = NDArray[np.float64]
Frame = Any


class Mixture:
    """Of Normals: (n, K) weights, means and deviations."""

    def __init__(self, weight: Floats, mean: Floats, deviation: Floats) -> None:
        self.weight, self.mean, self.deviation = weight, mean, deviation

    def density(self, y: Floats) -> Floats:
        return (self.weight * norm.pdf(y[:, None], self.mean, self.deviation)).sum(axis=1)

    def quantile(self, share: float) -> Floats:
        ends = self.mean - 9 * self.deviation, self.mean + 9 * self.deviation
        low, high = ends[0].min(axis=1), ends[1].max(axis=1)
        for _ in range(60):
            middle = (low + high) / 2
            upto = (self.weight * norm.cdf(middle[:, None], self.mean, self.deviation)).sum(axis=1)
            low, high = np.where(upto < share, middle, low), np.where(upto < share, high, middle)
        return low

    def take(self, rows: Any) -> Mixture:
        return Mixture(self.weight[rows], self.mean[rows], self.deviation[rows])

    def sample(self, rng: np.random.Generator) -> Floats:
        chosen = (rng.random((len(self.weight), 1)) > np.cumsum(self.weight, axis=1)).sum(axis=1)[:, None]
        mean, deviation = (np.take_along_axis(own, chosen, axis=1)[:, 0] for own in (self.mean, self.deviation))
        return rng.normal(mean, deviation)


class Problem(NamedTuple):
    X: Frame
    y: NDArray[Any]
    X_test: Frame
    y_test: NDArray[Any]
    step: float = 0.0  # of the grid that y is on; 0: none
    truth: Mixture | None = None  # of the test rows

    def parts(self, seed: int) -> tuple[Frame, Frame, NDArray[Any], NDArray[Any]]:
        """Rows to train and to validate on, for those who need them."""
        stratify = None if self.y.dtype.kind == "f" else self.y
        X, X_val, y, y_val = train_test_split(self.X, self.y, test_size=0.2, random_state=seed, stratify=stratify)
        return X, X_val, y, y_val

    def first(self, n: int) -> Problem:
        truth = None if self.truth is None else self.truth.take(slice(n))
        return Problem(self.X[:n], self.y[:n], self.X_test[:n], self.y_test[:n], self.step, truth)

    @property
    def categories(self) -> list[str]:
        return [name for name in self.X if not pd.api.types.is_numeric_dtype(self.X[name])]


def _of_table(name: str, target: str, step: float = 0.0) -> Callable[[int], Problem]:
    def load(seed: int) -> Problem:
        folder = DATA / "tables"
        if not folder.is_dir():
            sys.exit(f"{folder} is absent; set LBARN_DATA to the folder that holds tables/{name}-train.csv.gz")
        parts = [pd.read_csv(folder / f"{name}-{part}.csv.gz") for part in ("train", "test")]
        found = []
        for part in parts:
            y = part[target].to_numpy(float) if step else part[target].astype(str).to_numpy(object)
            X = part.drop(columns=target)
            found += [X.set_axis([f"x{k}" for k in range(X.shape[1])], axis=1), y]
        return Problem(*found, step=step)

    return load


def _of_sklearn(
    load: Callable[..., Any], test_size: float, step: float = 0.0, **options: Any
) -> Callable[[int], Problem]:
    def split(seed: int) -> Problem:
        X, y = load(return_X_y=True, as_frame=True, **options)
        y = y.to_numpy(dtype=float if step else None)
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=test_size, random_state=seed, stratify=None if step else y
        )
        if (
            load is load_digits
        ):  # LBARN takes a pixel that was 0 or 1 in all training rows for binary, and then refuses a 2
            X_test = X_test.clip(X.min(), X.max(), axis=1)
        return Problem(X, y, X_test, y_test, step=step)

    return split


def _simulated(kind: str, n: int = 3000) -> Callable[[int], Problem]:
    """Six columns, of which three matter; as many test rows as training rows."""

    def make(seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        x = rng.random((2 * n, 6))
        center = np.sin(2 * np.pi * x[:, :1])
        if kind == "heteroscedastic":  # from nearly certain to not at all
            truth = Mixture(np.ones((2 * n, 1)), center + x[:, 2:3], 0.1 + 1.4 * x[:, 1:2] ** 2)
        else:  # two peaks, whose distance and shares the row tells
            apart, upper = 0.5 + 2 * x[:, 2:3], 0.2 + 0.6 * x[:, 1:2]
            truth = Mixture(
                np.hstack([1 - upper, upper]), center + np.hstack([-apart, apart]), np.full((2 * n, 2), 0.3)
            )
        X, y = pd.DataFrame(x, columns=[f"x{k}" for k in range(6)]), truth.sample(rng)
        return Problem(X[:n], y[:n], X[n:], y[n:], truth=truth.take(slice(n, None)))

    return make


NUMBERS: dict[str, tuple[int, Callable[[int], Problem]]] = {  # name: splits or seeds, problem
    "diabetes": (5, _of_sklearn(load_diabetes, 0.2, 1.0, scaled=False)),
    "pm2.5": (1, _of_table("beijing", "pm2.5", 1.0)),
    "hours": (1, _of_table("adult", "hours-per-week", 1.0)),
    "Length": (1, _of_table("magic", "Length", 1e-4)),
    "Alpha": (1, _of_table("magic", "Alpha", 1e-4)),
    "heteroscedastic": (3, _simulated("heteroscedastic")),
    "bimodal": (3, _simulated("bimodal")),
}
CLASSES: dict[str, tuple[int, Callable[[int], Problem]]] = {
    "income": (1, _of_table("adult", "income")),
    "default": (1, _of_table("default", "default payment next month")),
    "shoppers": (1, _of_table("shoppers", "Revenue")),
    "magic": (1, _of_table("magic", "class")),
    "cancer": (5, _of_sklearn(load_breast_cancer, 0.25)),
    "digits": (2, _of_sklearn(load_digits, 0.25)),
}
SETS = {**NUMBERS, **CLASSES}
