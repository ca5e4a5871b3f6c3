"""What every model of rows does in the same way: it reads tables, asks its distribution, and gives tables back."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lbarn._network.network import Distribution
from lbarn._tables.table import Table, TableFormat, read_given, read_like
from lbarn._training.data import checked_weights

__all__ = ["Density", "RowModel", "all_or_nothing", "check_counts"]

Floats = NDArray[np.float64]
_Fit = TypeVar("_Fit", bound=Callable[..., Any])


def all_or_nothing(fit: _Fit) -> _Fit:
    """A ``fit`` that fails, or is interrupted, leaves the model as it was.

    It works on a copy, whose attributes replace the model's in one step at the end.
    """

    @wraps(fit)
    def whole(self: Any, *args: Any, **kwargs: Any) -> Any:
        fresh = object.__new__(type(self))
        fresh.__dict__.update(self.__dict__)
        fit(fresh, *args, **kwargs)
        self.__dict__ = fresh.__dict__
        return self

    return whole  # type: ignore[return-value]


class RowModel(DensityMixin, BaseEstimator):
    """A distribution of binary rows that is fitted on a table."""

    binarize: float | None
    n_jobs: int | None
    n_features_in_: int
    table_format_: TableFormat
    base_rates_: NDArray[np.float64] | None  # the share of ones of every column; files of version 0.1 have none

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _remember(self, table_format: TableFormat, n_columns: int, base_rates: Floats | None = None) -> None:
        """Set what scikit-learn and later calls want to know of the columns."""
        self.table_format_, self.n_features_in_, self.base_rates_ = table_format, n_columns, base_rates
        self.__dict__.pop("feature_names_in_", None)
        if table_format.feature_names is not None:
            self.feature_names_in_ = table_format.feature_names

    def _ready(self, X: Any) -> Table:
        """``X`` with the model's columns."""
        check_is_fitted(self)
        return read_like(X, self.table_format_, self.n_features_in_, binarize=self.binarize)

    @abstractmethod
    def score_samples(self, X: Any) -> Floats:
        """log p(x) of every row, in nats."""

    def score(self, X: Any, y: None = None, *, sample_weight: ArrayLike | None = None) -> float:
        """Mean log p(x), in nats per row."""
        scores = self.score_samples(X)
        return float(np.average(scores, weights=checked_weights(sample_weight, len(scores), "sample_weight")))


class Density(RowModel):
    """A model whose distribution is a network or a mixture of networks."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    @abstractmethod
    def distribution(self) -> Distribution:
        """The trained distribution, apart from tables and parameters."""

    def score_samples(self, X: Any) -> Floats:
        """log p(x) of every row, in nats; of the values that are there, if some are missing.

        That is exact if at most 12 values are missing before the last one that is there, in the order of the columns;
        otherwise it is estimated as by ``log_marginal``, with a fixed seed.
        """
        table = self._ready(X)
        scores = np.empty(table.n_rows)
        incomplete = False
        for start, values, missing in table.chunks():
            scores[start : start + len(values)] = self.distribution.log_likelihood(values, self.n_jobs, missing)
            incomplete = incomplete or missing is not None
        if incomplete:
            warnings.warn(
                "some rows have missing values: their score is the log-likelihood of the values that are there",
                stacklevel=2,
            )
        return scores

    def surprise(self, X: Any) -> Floats:
        """-log p(x_d | those before it) of every value, in nats, shape (n, D); a network's row sums to -log p(x).

        Those of an ensemble are its members', each weighted by P(member | x): they sum to less than -log p(x), by how far
        P(member | x) is from the weights (their Kullback-Leibler divergence).
        """
        table = self._ready(X)
        found = np.empty((table.n_rows, table.n_columns))
        for start, values in table.complete_chunks():
            found[start : start + len(values)] = self.distribution.surprise(values, self.n_jobs)
        return found

    def sample(
        self,
        n_samples: int = 1,
        *,
        given: Any = None,
        n_particles: int = 1000,
        return_diagnostics: bool = False,
        random_state: Any = None,
    ) -> Any:
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows, for each row of ``given`` if there is one (grouped).
        given : dict of column values, or table with gaps or with some of the columns, optional
            What is fixed, in any pattern. Draws are exact if that is a prefix of the order, or if at most 12 values are free;
            otherwise by sequential Monte Carlo, as ``impute``.
        n_particles : int, default=1000
            Particles per row of ``given``, for the Monte Carlo.
        return_diagnostics : bool, default=False
            Also return, per row of ``given``, the method and the effective sample size, as ``impute`` does.
        random_state : int, RandomState instance or None

        Returns
        -------
        X : the sort of table that the model was fitted on
        diagnostics : dict of arrays "method" and "effective_sample_size", if asked for
        """
        check_is_fitted(self)
        check_counts(n_samples=n_samples, n_particles=n_particles)
        random, n = check_random_state(random_state), int(n_samples)
        if given is None:
            rows = self.distribution.draw(n, random, self.n_jobs)
            method, effective = np.full(n, "exact"), np.full(n, np.inf)
        else:
            table = read_given(given, self.table_format_, self.n_features_in_, binarize=self.binarize)
            rows, method, effective = self.distribution.draw_given(
                table.chunks(), n, random, n_particles=n_particles, n_jobs=self.n_jobs
            )
        X = self.table_format_.give(rows)
        return (X, {"method": method, "effective_sample_size": effective}) if return_diagnostics else X

    def compress(self, X: Any) -> bytes:
        """The rows of ``X`` without loss, in about -log2 p(x) bits each; ``decompress`` needs this very model.

        ``X`` may also be an iterator of tables, which are compressed one after the other.

        Examples
        --------
        >>> import numpy as np
        >>> from lbarn.baselines import IndependentBits
        >>> X = np.array([[0, 1], [0, 1], [0, 1], [1, 1]])
        >>> model = IndependentBits().fit(X)
        >>> bool((model.decompress(model.compress(X)) == X).all())
        True
        """
        check_is_fitted(self)
        tables: Iterable[Any] = X if isinstance(X, Iterator) else [X]
        codec = self.distribution.codec(self.n_jobs)
        return codec.compress(values for part in tables for _, values in self._ready(part).complete_chunks())

    def decompress(self, data: bytes, *, max_rows: int | None = None) -> Any:
        """The rows that ``compress`` has put into ``data``, in the sort of table that the model was fitted on.

        Data that claims more than ``max_rows`` rows is refused before anything is decoded.

        Raises
        ------
        CompressedDataError
            If ``data`` is damaged or was made with another model: never are other rows returned.
        """
        check_is_fitted(self)
        return self.table_format_.give(self.distribution.codec(self.n_jobs).decompress(data, max_rows))

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
        """Fill the missing values (NaN) of every row, whatever their pattern.

        Exact by enumeration for up to 12 missing values, and draws are exact if the observed values are a prefix of the
        order; otherwise by sequential Monte Carlo.

        Parameters
        ----------
        X : table with NaN where values are missing
        output : {"sample", "mode", "probability"}, default="sample"
            Draws from the conditional distribution, each value's more probable one, or its probability of being 1.
        n_draws : int, default=1
            More than one gives an array (n_draws, n, D); with ``output="sample"`` only.
        n_particles : int, default=1000
            Particles per row of the Monte Carlo.
        return_diagnostics : bool, default=False
            Also return, per row, the method ("complete", "enumeration", "prefix" or "monte-carlo") and the effective
            sample size: how many independent draws the answer is worth (infinite if exact).
        random_state : int, RandomState instance or None

        Returns
        -------
        X : the sort of table that was given, or an array of draws
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
        """What the rows were before every value was flipped with probability ``flip`` (0 to below 0.5).

        The other parameters are those of ``impute``; missing values are filled too.
        """
        if not isinstance(flip, Real) or not 0 <= float(flip) < 0.5:
            raise ValueError(f"flip must be a probability of at least 0 and below 0.5; got {flip!r}")
        return self._condition(X, float(flip), output, n_draws, n_particles, return_diagnostics, random_state)

    def log_marginal(self, X: Any, *, n_particles: int = 1000, random_state: Any = None) -> Floats:
        """log p of the observed values of every row, in nats: exact, or an estimate, as ``impute`` is."""
        table = self._ready(X)
        check_counts(n_particles=n_particles)
        random = check_random_state(random_state)
        answers = self.distribution.condition(table.chunks(), random, n_particles=n_particles, n_jobs=self.n_jobs)
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
            raise ValueError(f"n_draws={n_draws} goes with output='sample' only; there is one {output} per value")
        result = np.empty((n_draws, table.n_rows, table.n_columns), float if output == "probability" else np.uint8)
        method, effective = np.empty(table.n_rows, "U11"), np.empty(table.n_rows)
        answers = self.distribution.condition(
            table.chunks(),
            check_random_state(random_state),
            flip=flip,
            n_draws=n_draws,
            n_particles=n_particles,
            n_jobs=self.n_jobs,
        )
        for start, answer in answers:
            rows = slice(start, start + len(answer.method))
            value = answer.draws if output == "sample" else answer.probability[None]
            result[:, rows] = value >= 0.5 if output == "mode" else value
            method[rows], effective[rows] = answer.method, answer.effective
        filled = result if n_draws > 1 else table.give(result[0], float if output == "probability" else None)
        return (filled, {"method": method, "effective_sample_size": effective}) if return_diagnostics else filled

    @property
    def feature_importances_(self) -> Floats:
        """``[i, j]``: summed gain of predictor ``j`` for column ``i``; ``distribution.importance()`` is the same, sparse."""
        check_is_fitted(self)
        return self.distribution.importance().toarray()


def check_counts(**counts: object) -> None:
    """Whole numbers of at least 1, or an error that names the one that is not."""
    for name, value in counts.items():
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
