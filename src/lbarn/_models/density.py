"""What every model of binary rows does in the same way: reads tables, averages scores, fills and mends rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from lbarn._network.conditioning import Answer
from lbarn._tables.table import Kind, Table, read_table

__all__ = ["BinaryDensity", "check_counts", "checked_weights"]

Weights = NDArray[np.float64] | None


class BinaryDensity(DensityMixin, BaseEstimator, ABC):
    """A distribution of binary rows that can be scored and conditioned on part of a row.

    A subclass's ``fit`` sets ``_kind`` (the sort of table to give back).
    """

    binarize: float | None
    n_jobs: int | None
    _kind: Kind

    @abstractmethod
    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(x) of every row, in nats."""

    @abstractmethod
    def surprise(self, X: Any) -> NDArray[np.float64]:
        """How unexpected every bit is, in nats, shape (n, D)."""

    @abstractmethod
    def _answers(
        self, table: Table, flip: float, n_draws: int, n_particles: int, random_state: Any
    ) -> Iterator[tuple[int, Answer]]:
        """(first row, answer with the columns in their own order) for successive chunks of rows."""

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool: ...

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    def _read(self, X: Any, *, reset: bool) -> Table:
        """Check ``X`` as scikit-learn does its names and widths, without turning it into another array."""
        table = read_table(X, binarize=self.binarize)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return table

    def _read_all(
        self, X: Any, X_val: Any, sample_weight: ArrayLike | None, sample_weight_val: ArrayLike | None
    ) -> tuple[Table, Table | None, Weights, Weights]:
        """What ``fit`` is given, checked: rows and validation rows, and the weights of both."""
        table = self._read(X, reset=True)
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        if X_val is None:
            if sample_weight_val is not None:
                raise ValueError(
                    "sample_weight_val was given without X_val; weights of held-out rows are in sample_weight"
                )
            return table, None, weight, None
        table_val = self._read(X_val, reset=False)
        return table, table_val, weight, checked_weights(sample_weight_val, table_val.n_rows, "sample_weight_val")

    def _ready(self, X: Any) -> Table:
        check_is_fitted(self)
        return self._read(X, reset=False)

    def score(self, X: Any, y: None = None, *, sample_weight: ArrayLike | None = None) -> float:
        """Mean log p(x), in nats per row."""
        scores = self.score_samples(X)
        return float(np.average(scores, weights=checked_weights(sample_weight, len(scores), "sample_weight")))

    def impute(
        self,
        X: Any,
        *,
        output: str = "sample",
        n_draws: int = 1,
        n_particles: int = 1000,
        return_diagnostics: bool = False,
        random_state: Any = None,
    ) -> Any:
        """Fill the missing bits (NaN) of every row, whatever their pattern.

        Exact by enumeration for up to 12 missing bits, and draws are exact where the observed bits are a prefix of the
        order; otherwise by sequential Monte Carlo.

        Parameters
        ----------
        X : table with NaN where missing
        output : {"sample", "mode", "probability"}, default="sample"
            Draws from the conditional distribution, each bit's more probable value, or its probability of being 1.
        n_draws : int, default=1
            More than one gives an array (n_draws, n, D); with ``output="sample"`` only.
        n_particles : int, default=1000
            Particles per row of the Monte Carlo.
        return_diagnostics : bool, default=False
            Also return, per row, the method ("complete", "enumeration", "prefix" or "monte-carlo") and the effective
            sample size: how many independent draws the answer is worth (infinite where exact).
        random_state : int, RandomState instance or None

        Returns
        -------
        X : the kind of table that was given, or an array of draws
        diagnostics : dict of arrays "method" and "effective_sample_size", if asked for
        """
        return self._condition(X, 0.0, output, n_draws, n_particles, return_diagnostics, random_state)

    def denoise(
        self,
        X: Any,
        *,
        flip: float,
        output: str = "mode",
        n_draws: int = 1,
        n_particles: int = 1000,
        return_diagnostics: bool = False,
        random_state: Any = None,
    ) -> Any:
        """What the rows were before every bit was flipped with probability ``flip`` (0 to below 0.5).

        The other parameters are those of ``impute``; missing bits are filled too.
        """
        if not isinstance(flip, Real) or not 0 <= float(flip) < 0.5:
            raise ValueError(f"flip must be a probability of at least 0 and below 0.5; got {flip!r}")
        return self._condition(X, float(flip), output, n_draws, n_particles, return_diagnostics, random_state)

    def log_marginal(self, X: Any, *, n_particles: int = 1000, random_state: Any = None) -> NDArray[np.float64]:
        """log p of the observed bits of every row, in nats: exact, or an estimate, where ``impute`` is."""
        table = self._ready(X)
        check_counts(n_particles=n_particles)
        answers = self._answers(table, 0.0, 1, n_particles, random_state)
        return np.concatenate([answer.log_marginal for _, answer in answers])

    def _condition(
        self,
        X: Any,
        flip: float,
        output: str,
        n_draws: int,
        n_particles: int,
        return_diagnostics: bool,
        random_state: Any,
    ) -> Any:
        table = self._ready(X)
        check_counts(n_draws=n_draws, n_particles=n_particles)
        if output not in ("sample", "mode", "probability"):
            raise ValueError(f"output must be 'sample', 'mode' or 'probability'; got {output!r}")
        if n_draws != 1 and output != "sample":
            raise ValueError(f"n_draws={n_draws} goes with output='sample' only; there is one {output} per bit")
        result = np.empty((n_draws, table.n_rows, table.n_columns), float if output == "probability" else np.uint8)
        method, effective = np.empty(table.n_rows, "U11"), np.empty(table.n_rows)
        for start, answer in self._answers(table, flip, n_draws, n_particles, random_state):
            rows = slice(start, start + len(answer.method))
            value = answer.draws if output == "sample" else answer.probability[None]
            result[:, rows] = value >= 0.5 if output == "mode" else value
            method[rows], effective[rows] = answer.method, answer.effective
        filled = result if n_draws > 1 else table.give(result[0], float if output == "probability" else None)
        return (filled, {"method": method, "effective_sample_size": effective}) if return_diagnostics else filled


def check_counts(**counts: object) -> None:
    """Whole numbers of at least 1, or an error that names the one that is not."""
    for name, value in counts.items():
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")


def checked_weights(weight: ArrayLike | None, n: int, name: str) -> NDArray[np.float64] | None:
    """One weight per row, none negative, not all zero; None stays None."""
    if weight is None:
        return None
    checked = _check_sample_weight(weight, np.empty((n, 0)), dtype=np.float64, ensure_non_negative=True)
    if not checked.any():
        raise ValueError(f"{name} is zero for every row")
    return checked
