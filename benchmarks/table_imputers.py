"""The imputers that table_imputation.py compares, all of one form: ``(a table with holes, options) -> what they say of the holes``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.impute import KNNImputer

from lbarn import LBARN, LBARNImputer

__all__ = ["METHODS", "Answer", "Floats", "Holes"]

DRAWS = 19  # of those who draw one at a time
NEIGHBOURS = (5, 10, 20, 50)

Floats = NDArray[np.float64]


@dataclass
class Holes:
    """A table with empty cells: levels are the numbers of their names in ``levels``."""

    values: Floats
    levels: dict[int, list[str]]
    names: list[str]

    @property
    def empty(self) -> NDArray[np.bool_]:
        return np.isnan(self.values)

    def frame(self) -> Any:
        """As people have it: numbers, and strings."""
        whole = pd.DataFrame(self.values, columns=self.names)
        for j, names in self.levels.items():
            whole[self.names[j]] = pd.Series(pd.Categorical.from_codes(self.codes(j), names)).astype("str")
            whole.loc[self.empty[:, j], self.names[j]] = None
        return whole

    def codes(self, j: int) -> NDArray[np.int64]:
        """The levels of a column, -1 where it is empty."""
        return np.nan_to_num(self.values[:, j], nan=-1).astype(np.int64)

    def frequencies(self, j: int) -> Floats:
        """Of levels, where they are seen, and one more row for all of them."""
        counts = np.bincount(self.codes(j) + 1, minlength=len(self.levels[j]) + 1)[1:] + 1 / len(self.levels[j])
        return counts / counts.sum()

    def simply_filled(self) -> Floats:
        """By means and modes."""
        filled = np.where(self.empty, np.nanmean(self.values, axis=0), self.values)
        for j in self.levels:
            filled[self.empty[:, j], j] = self.frequencies(j).argmax()
        return filled


@dataclass
class Answer:
    """Means and medians of all cells, probabilities (rows, levels) of the columns of levels, worth so many draws, and draws if there are any."""

    mean: Floats
    median: Floats
    probabilities: dict[int, Floats]
    worth: float
    draws: Floats | None = None


def _of_draws(draws: Floats, holes: Holes) -> Answer:
    chances = {j: np.mean(draws[:, :, j, None] == np.arange(len(own)), axis=0) for j, own in holes.levels.items()}
    return Answer(draws.mean(axis=0), np.median(draws, axis=0), chances, len(draws), draws)


def _lbarn(holes: Holes, options: Any) -> Answer:
    few = {"max_iter": 10} if options.smoke else {}
    frame = holes.frame()
    network = LBARNImputer(LBARN(n_jobs=options.jobs, random_state=options.seed, **few)).fit(frame).network_
    draws = network.impute(frame, n_draws=199, random_state=options.seed)
    return _of_draws(np.array([_coded(one, holes) for one in draws]), holes)


def _coded(frame: Any, holes: Holes) -> Floats:
    """The numbers of levels instead of their names."""
    return np.column_stack(
        [
            pd.Categorical(frame[name], categories=holes.levels[j]).codes if j in holes.levels else frame[name]
            for j, name in enumerate(holes.names)
        ]
    ).astype(float)


def _mean_mode(holes: Holes, options: Any) -> Answer:
    filled = holes.simply_filled()
    median = np.where(holes.empty, np.nanmedian(holes.values, axis=0), holes.values)
    chances = {j: np.tile(holes.frequencies(j), (len(filled), 1)) for j in holes.levels}
    return Answer(filled, median, chances, 0)


def _knn(holes: Holes, options: Any) -> Answer:
    center, scale = np.nanmean(holes.values, axis=0), np.nanstd(holes.values, axis=0)
    owner = np.repeat(
        np.arange(len(scale)), [len(holes.levels[j]) if j in holes.levels else 1 for j in range(len(scale))]
    )

    def wide(values: Floats) -> Floats:
        """Two levels are as far apart as numbers one standard deviation apart."""
        parts = [
            np.where(np.isnan(values[:, j, None]), np.nan, values[:, j, None] == np.arange(len(holes.levels[j])))
            * np.sqrt(0.5)
            if j in holes.levels
            else (values[:, j, None] - center[j]) / (scale[j] or 1.0)
            for j in range(len(scale))
        ]
        return np.concatenate(parts, axis=1)

    def fill(values: Floats, k: int) -> Floats:
        return KNNImputer(n_neighbors=k, keep_empty_features=True).fit_transform(wide(values))

    held = (np.random.default_rng(options.seed).random(holes.values.shape) < 0.1) & ~holes.empty
    fewer = np.where(held, np.nan, holes.values)
    k = min(NEIGHBOURS, key=lambda k: np.sum(((fill(fewer, k) - wide(holes.values))[held[:, owner]]) ** 2))
    found = fill(holes.values, k)
    filled, chances = holes.simply_filled(), {}
    for j in range(len(scale)):
        own = found[:, owner == j]
        if j in holes.levels:
            chances[j] = own / np.sqrt(0.5)
            filled[:, j] = np.where(holes.empty[:, j], own.argmax(axis=1), filled[:, j])
        else:
            filled[:, j] = np.where(holes.empty[:, j], own[:, 0] * scale[j] + center[j], filled[:, j])
    return Answer(filled, filled, chances, k)


def _missforest(holes: Holes, options: Any) -> Answer:
    trees, turns = (5, 2) if options.smoke else (100, 10)
    empty, filled = holes.empty, holes.simply_filled()
    order = [j for j in np.argsort(empty.sum(axis=0)) if empty[:, j].any()]
    numbers = [j for j in order if j not in holes.levels]
    named = [j for j in order if j in holes.levels]
    chances = {j: np.zeros((len(filled), len(own))) for j, own in holes.levels.items()}
    smallest = np.full(2, np.inf)
    for _ in range(turns):
        before, chances_before = filled.copy(), {j: own.copy() for j, own in chances.items()}
        for j in order:
            kind = RandomForestClassifier if j in holes.levels else RandomForestRegressor
            forest = kind(trees, max_features="sqrt", n_jobs=options.jobs, random_state=options.seed)
            others, gone = np.delete(filled, j, axis=1), empty[:, j]
            forest.fit(others[~gone], holes.values[~gone, j])
            if j in holes.levels:
                chances[j][np.ix_(gone, forest.classes_.astype(int))] = forest.predict_proba(others[gone])
                filled[gone, j] = chances[j][gone].argmax(axis=1)
            else:
                filled[gone, j] = forest.predict(others[gone])
        change = np.array(
            [
                np.sum((filled - before)[:, numbers] ** 2) / max(np.sum(filled[:, numbers] ** 2), 1e-300),
                np.mean((filled != before)[:, named][empty[:, named]]) if named else np.inf,
            ]
        )
        if (change >= smallest).all():
            return Answer(before, before, chances_before, trees)
        smallest = change
    return Answer(filled, filled, chances, trees)


def _miceforest(holes: Holes, options: Any, strategy: str = "normal") -> Answer:
    from miceforest import ImputationKernel, imputation_kernel

    def logodds(p: Floats) -> Floats:  # miceforest's own is infinite, and fails, where rare levels get probability 0
        p = np.clip(p, 1e-6, 1 - 1e-6)
        return np.log(p / (1 - p))

    imputation_kernel.logodds = logodds
    frame = pd.DataFrame(holes.values, columns=[f"column {j}" for j in range(len(holes.names))])
    for j in holes.levels:
        frame[f"column {j}"] = pd.Categorical(frame[f"column {j}"])
    ways = {f"column {j}": strategy for j in holes.levels}
    kernel = ImputationKernel(frame, num_datasets=5, mean_match_strategy=ways, random_state=options.seed)
    kernel.mice(5, num_threads=1)  # many small fits: threads only slow them down
    draws = [kernel.complete_data(k, turn).astype(float).to_numpy() for turn in (2, 3, 4, 5) for k in range(5)]
    return _of_draws(np.array(draws[-DRAWS:]), holes)


def _miceforest_fast(holes: Holes, options: Any) -> Answer:
    """Levels drawn by the forest's probabilities, which are flat; its own way is to match rows."""
    return _miceforest(holes, options, "fast")


def _unmasking(holes: Holes, options: Any) -> Answer:
    from utrees import UnmaskingTrees

    rng = np.random.default_rng(options.seed)
    d = len(holes.names)
    model = UnmaskingTrees(duplicate_K=options.copies, random_state=options.seed)
    model.fit(
        holes.values.copy(), quantize_cols=["categorical" if j in holes.levels else "continuous" for j in range(d)]
    )
    draws = np.tile(holes.values, (DRAWS, 1))
    turn = np.where(np.isnan(draws), rng.random(draws.shape), np.inf)  # in which order a row's cells are filled
    while np.isfinite(turn).any():
        rows = np.flatnonzero(np.isfinite(turn).any(axis=1))
        first = turn[rows].argmin(axis=1)
        for j in np.unique(first):
            own, tree = rows[first == j], model.trees_[j]
            if tree is None:
                draws[own, j] = model.constant_vals_[j]
            elif j in holes.levels:
                chances = tree.predict_proba(draws[own]).cumsum(axis=1)
                pick = (rng.random((len(own), 1)) * chances[:, -1:] > chances).sum(axis=1)
                draws[own, j] = model.encoders_[j].inverse_transform(pick)
            else:
                draws[own, j] = tree.sample(draws[own])
        turn[rows, first] = np.inf
    return _of_draws(draws.reshape(DRAWS, -1, d), holes)


METHODS: dict[str, tuple[Callable[[Holes, Any], Answer], str]] = {  # and the module that it needs
    "LBARN": (_lbarn, "lbarn"),
    "miceforest": (_miceforest, "miceforest"),
    "MissForest": (_missforest, "sklearn"),
    "KNN": (_knn, "sklearn"),
    "mean, mode": (_mean_mode, "sklearn"),
    "miceforest, fast": (_miceforest_fast, "miceforest"),
    "UnmaskingTrees": (_unmasking, "utrees"),
}
