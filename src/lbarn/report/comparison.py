"""A model held against simple ones: they are fitted on a half of the rows, and all are scored on the other half."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._tables.table import read_like, read_table, take_rows
from lbarn.baselines import BernoulliMixture, IndependentBits, SingleTreeNetwork

__all__ = ["COINS", "INDEPENDENT", "MIN_ROWS", "Comparison", "Rows", "without_threshold"]

COINS, INDEPENDENT = "fair coins", "independent columns"  # the models that need no fit, or hardly any
MIN_ROWS = 20  # to compare models on
_MAX_ROWS = 5000
_MAX_ROWS_MISSING = 400  # where values are missing, every row is a Monte Carlo run


def without_threshold(model: Any) -> Any:
    """The same model, for rows that are 0 and 1 already."""
    plain = copy(model)
    plain.binarize = None
    return plain


@dataclass(frozen=True)
class Rows:
    """Rows that a model was given, as 0 and 1 in the kind of table that it was fitted on; of many, some at random."""

    n_given: int
    numbers: NDArray[np.intp]  # in the table that was given
    table: Any
    filled: Any  # the same, every missing value replaced by its likelier value
    bits: NDArray[np.bool_]  # those of ``filled``
    missing: NDArray[np.bool_]

    @classmethod
    def of(cls, model: Any, X: Any, seed: int) -> Rows:
        whole = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize)
        has_holes = any(missing is not None for _, _, missing in whole.chunks())
        most = _MAX_ROWS_MISSING if has_holes else _MAX_ROWS
        numbers = np.arange(whole.n_rows)
        if whole.n_rows > most:
            numbers = np.sort(np.random.default_rng([seed, 0]).choice(whole.n_rows, most, replace=False))
        chosen = read_like(take_rows(X, numbers), model.table_format_, model.n_features_in_, binarize=model.binarize)
        bits, holes = chosen.all_rows()
        missing = np.zeros_like(bits) if holes is None else holes
        if not missing.any():
            table = model.table_format_.give(bits)
            return cls(whole.n_rows, numbers, table, table, bits, missing)
        if missing.all():
            raise ValueError("every value of X is missing; there is nothing to report on")
        if not hasattr(model, "impute"):
            raise ValueError(f"X has missing values, which {type(model).__name__} cannot fill; give complete rows")
        table = model.table_format_.give(np.where(missing, np.nan, bits), float)
        filled = without_threshold(model).impute(table, output="mode", random_state=seed)
        bits = read_table(filled).complete()
        return cls(whole.n_rows, numbers, table, filled, bits, missing)

    def __len__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True)
class Comparison:
    """Log-likelihoods of ``model`` and of simple models on rows that those have not seen."""

    model: Any  # without a threshold
    rows: Rows
    seed: int

    @cached_property
    def halves(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to fit simple models on, and rows to compare all models on; too few rows are not divided."""
        n = len(self.rows)
        if n < MIN_ROWS:
            return np.arange(0), np.arange(n)
        shuffled = np.random.default_rng([self.seed, 1]).permutation(n)
        return np.sort(shuffled[: n // 2]), np.sort(shuffled[n // 2 :])

    @cached_property
    def independent(self) -> IndependentBits:
        fitted_on = self.halves[0] if len(self.halves[0]) else self.halves[1]
        return IndependentBits().fit(take_rows(self.rows.table, fitted_on))

    @cached_property
    def row_scores(self) -> dict[str, NDArray[np.float64]]:
        """Log-likelihood of every row to compare on, under every model."""
        fit, compare = self.halves
        table, filled = take_rows(self.rows.table, compare), take_rows(self.rows.filled, compare)
        present = ~self.rows.missing[compare]
        model = self.model
        own = model.score_samples(table) if present.all() else model.log_marginal(table, random_state=self.seed)
        found = {self.own_name: own, COINS: -np.log(2) * present.sum(axis=1)}
        if len(fit):
            found[INDEPENDENT] = -(self.independent.surprise(filled) * present).sum(axis=1)
        if len(fit) and not self.rows.missing.any():
            known = take_rows(self.rows.table, fit)
            trees = SingleTreeNetwork(n_jobs=getattr(model, "n_jobs", None), random_state=self.seed)
            mixture = BernoulliMixture(n_components=(2, 4, 8, 16, 32, 64), n_init=1, random_state=self.seed)
            found["one tree per column"] = trees.fit(known).score_samples(table)
            found["mixture of independent columns"] = mixture.fit(known).score_samples(table)
        return found

    @cached_property
    def scores(self) -> dict[str, float]:
        """Mean log-likelihood of the rows to compare on, best model first."""
        means = {name: float(scores.mean()) for name, scores in self.row_scores.items()}
        return dict(sorted(means.items(), key=lambda item: -item[1]))

    @property
    def own_name(self) -> str:
        return f"this model ({type(self.model).__name__})"
