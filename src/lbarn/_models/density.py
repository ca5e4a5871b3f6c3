"""What every model of rows does in the same way: it reads tables, asks its distribution, and gives tables back."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.codetree import Cells
from lbarn._models import tablecodec
from lbarn._models.column import ColumnClassifier, ColumnRegressor
from lbarn._models.given import Evidence, merged
from lbarn._models.predicted import ConditionalDistribution
from lbarn._models.summary import model_html
from lbarn._network.conditioning import Answer, Effort
from lbarn._network.mixture import Mixture
from lbarn._network.network import Distribution, Given, Network
from lbarn._tables.codebook import Codebook
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import ColumnCode
from lbarn._tables.column import Column
from lbarn._tables.columnlist import ColumnList
from lbarn._tables.table import TableFormat, read_like, some
from lbarn._training.data import checked_weights

__all__ = ["Density", "RowModel", "all_or_nothing", "check_counts"]

Floats = NDArray[np.float64]
_Fit = TypeVar("_Fit", bound=Callable[..., Any])

_ROWS = 4096  # rows that are conditioned on together


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
    """A distribution of rows that is fitted on a table."""

    binarize: float | None
    n_jobs: int | None
    n_features_in_: int
    table_format_: TableFormat
    codebook_: Codebook
    base_rates_: NDArray[np.float64] | None  # the share of ones of every binary column; files of version 0.1 have none

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _remember(
        self,
        table_format: TableFormat,
        n_columns: int,
        base_rates: Floats | None = None,
        codebook: Codebook | None = None,
    ) -> None:
        """Set what scikit-learn and later calls want to know of the columns; without a codebook all are binary."""
        self.table_format_, self.n_features_in_, self.base_rates_ = table_format, n_columns, base_rates
        labels = [table_format.label(j) for j in range(n_columns)]
        self.codebook_ = Codebook.of_bits(labels) if codebook is None else codebook
        self.__dict__.pop("feature_names_in_", None)
        if table_format.feature_names is not None:
            self.feature_names_in_ = table_format.feature_names

    @property
    def columns_(self) -> ColumnList:
        """What each column became: its kind, range or levels, cells, share of empty cells, and what its likelihood is of."""
        check_is_fitted(self)
        return ColumnList.of(self.codebook_, self.table_format_, self._groups())

    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """Modelled columns that exclude each other."""
        return ()

    def _ready(self, X: Any) -> CodedTable:
        """``X`` with the model's columns, in its codes."""
        check_is_fitted(self)
        optional = self.codebook_.left_out
        table = read_like(X, self.table_format_, self.n_features_in_, binarize=self.binarize, optional=optional)
        return CodedTable(table, self.codebook_)

    def _give(self, columns: list[Column]) -> Any:
        return self.table_format_.give_columns(columns, self.codebook_.taken)

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
        any_table = hasattr(self, "columns") and self.binarize is None
        tags.input_tags.string = tags.input_tags.categorical = any_table
        return tags

    # scikit-learn's own would show a diagram of a single box. Notebooks ask for the bundle, older tools for the HTML.
    def _repr_html_inner(self) -> str:
        return model_html(self, self._explained()) if hasattr(self, "table_format_") else super()._repr_html_inner()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def _explained(self) -> float | None:
        """Nats per held-out row beyond independent columns, if that is known."""
        return None

    @property
    @abstractmethod
    def distribution(self) -> Distribution:
        """The trained distribution, apart from tables and parameters."""

    def _groups(self) -> tuple[tuple[int, ...], ...]:
        return self.distribution.groups

    def score_samples(self, X: Any) -> Floats:
        """log p(x) of every row, in nats; of the values that are there, if some are missing.

        That is exact if at most 12 values are missing before the last one that is there, in the order of the columns;
        otherwise it is estimated as by ``log_marginal``, with a fixed seed.
        """
        table = self._ready(X)
        scores = np.empty(table.n_rows)
        incomplete = False
        for chunk in table.chunks():
            found = self.distribution.log_likelihood(chunk.cells, self.n_jobs, chunk.unknown)
            scores[chunk.start : chunk.start + len(chunk)] = found + chunk.log_inside
            incomplete = incomplete or chunk.unknown is not None
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
        found = np.empty((table.n_rows, self.codebook_.n_columns))
        for chunk in table.complete_chunks():
            surprise = self.distribution.surprise(chunk.cells, self.n_jobs)
            if chunk.inside is not None:
                surprise = surprise - chunk.inside
            found[chunk.start : chunk.start + len(chunk)] = surprise
        return found

    def sample(
        self,
        n_samples: int = 1,
        *,
        given: Any = None,
        n_particles: int = 4000,
        tolerance: float = 0.001,
        return_diagnostics: bool = False,
        random_state: Any = None,
    ) -> Any:
        """Draw rows.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows, for each row of ``given`` if there is one (grouped).
        given : dict, or table with gaps or with some of the columns, optional
            What is fixed, in any pattern. In a dict, a column has a value, a list of them (for as many rows), a ``slice`` (a range,
            both ends included) or a set of values. Draws are exact if columns with values are a prefix of the order, or if
            few values are possible (4,096 completions); otherwise by sequential Monte Carlo, as ``impute``.
        n_particles, tolerance : as for ``impute``
        return_diagnostics : bool, default=False
            Also return, per row of ``given``, the method and the effective sample size, as ``impute`` does.
        random_state : int, RandomState instance or None

        Returns
        -------
        X : the sort of table that the model was fitted on
        diagnostics : dict of arrays "method" and "effective_sample_size", if asked for
        """
        check_is_fitted(self)
        check_counts(n_samples=n_samples)
        effort = effort_of(n_particles, tolerance)
        random, n = check_random_state(random_state), int(n_samples)
        if given is None:
            rows = self.distribution.draw(n, random, self.n_jobs)
            method, effective = np.full(n, "exact"), np.full(n, np.inf)
            X = self._decoded(rows, random)
        else:
            evidence = Evidence.read(given, self.table_format_, self.codebook_, self.binarize)
            rows, method, effective = self.distribution.draw_given(
                evidence.given(present=False), n, random, effort=effort, n_jobs=self.n_jobs
            )
            if self.codebook_.is_binary:
                X = self._decoded(rows, random)
            else:
                X = self._give(evidence.completed(rows, _generator(random), n))
        return (X, {"method": method, "effective_sample_size": effective}) if return_diagnostics else X

    def _decoded(self, rows: Cells, random: np.random.RandomState) -> Any:
        """Cells as a table of the sort that the model was fitted on."""
        if self.codebook_.is_binary:
            return self.table_format_.give(rows)
        return self._give(self.codebook_.decode(rows, _generator(random)))

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
        if self.codebook_.is_binary:
            return codec.compress(chunk.cells for part in tables for chunk in self._ready(part).complete_chunks())
        return tablecodec.compress(codec, self.codebook_, (self._ready(part) for part in tables))

    def decompress(self, data: bytes, *, max_rows: int | None = None) -> Any:
        """The rows that ``compress`` has put into ``data``, in the sort of table that the model was fitted on.

        Data that claims more than ``max_rows`` rows is refused before anything is decoded.

        Raises
        ------
        CompressedDataError
            If ``data`` is damaged or was made with another model: never are other rows returned.
        """
        check_is_fitted(self)
        codec = self.distribution.codec(self.n_jobs)
        if self.codebook_.is_binary:
            return self.table_format_.give(codec.decompress(data, max_rows))
        return self._give(tablecodec.decompress(codec, self.codebook_, data, max_rows))

    def impute(
        self,
        X: Any,
        *,
        output: str = "sample",
        n_draws: int = 1,
        n_particles: int = 4000,
        tolerance: float = 0.001,
        return_diagnostics: bool = False,
        random_state: Any = None,
    ) -> Any:
        """Fill the empty cells of every row, whatever their pattern.

        Exact by enumeration if there are at most 4,096 completions (12 bits), and draws are exact if the observed values are a
        prefix of the order; otherwise by sequential Monte Carlo. A column whose empty cells are values of their own is filled
        as it would be if the value were there; that it is empty tells something of the other values of the row.

        Parameters
        ----------
        X : table with NaN where values are missing
        output : {"sample", "mode", "mean", "median", "probability"}, default="sample"
            Draws from the conditional distribution; each value's likeliest one; its mean or median, if it is a number (otherwise
            the likeliest one); or probabilities: of being 1 for a binary table, otherwise a dict with an array
            (n, levels) for every column with gaps, whose levels are those of ``conditional``.
        n_draws : int, default=1
            More than one gives an array (n_draws, n, D), or a list of tables if the model is not of bits alone; with
            ``output="sample"`` only.
        n_particles : int, default=4000
            Particles per row of the Monte Carlo, at most.
        tolerance : float, default=0.001
            A row gets more and more particles, from 768 (or ``n_draws``) on, until the probabilities of its unknown values are estimated
            to be off by no more than that (root mean square); with a wider one, from fewer. 0 takes ``n_particles`` at once.
        return_diagnostics : bool, default=False
            Also return, per row, the method ("complete", "enumeration", "prefix" or "monte-carlo") and the effective
            sample size: how many independent draws the answer is worth (infinite if exact).
        random_state : int, RandomState instance or None

        Returns
        -------
        X : the sort of table that was given, or an array of draws
        diagnostics : dict of arrays "method" and "effective_sample_size", if asked for
        """
        if not self._is_binary():
            return self._impute_table(
                X, output, n_draws, effort_of(n_particles, tolerance), return_diagnostics, random_state
            )
        effort = effort_of(n_particles, tolerance)
        return self._condition(X, 0.0, output, n_draws, effort, return_diagnostics, random_state)

    def _is_binary(self) -> bool:
        check_is_fitted(self)
        return self.codebook_.is_binary

    def denoise(
        self,
        X: Any,
        *,
        flip: float,
        output: str = "mode",
        n_draws: int = 1,
        n_particles: int = 4000,
        tolerance: float = 0.035,
        return_diagnostics: bool = False,
        random_state: Any = None,
    ) -> Any:
        """What the rows were before every value was flipped with probability ``flip`` (0 to below 0.5).

        The other parameters are those of ``impute``; missing values are filled too. The ``tolerance`` is wider: noise leaves much
        uncertain, and no more can be had from particles for little. For tables of bits alone.
        """
        if not self._is_binary():
            kinds = sorted({code.kind for code in self.codebook_.codes} - {"binary"})
            raise ValueError(
                f"denoise is for binary columns; this model has others ({', '.join(kinds) or 'some left out'})"
            )
        if not isinstance(flip, Real) or not 0 <= float(flip) < 0.5:
            raise ValueError(f"flip must be a probability of at least 0 and below 0.5; got {flip!r}")
        effort = effort_of(n_particles, tolerance)
        return self._condition(X, float(flip), output, n_draws, effort, return_diagnostics, random_state)

    def log_marginal(
        self,
        X: Any,
        *,
        n_particles: int = 4000,
        tolerance: float = 0.01,
        random_state: Any = None,
    ) -> Floats:
        """log p of the observed values of every row, in nats: exact, or an estimate, as ``impute`` is.

        An empty cell is unknown, and taken to be there: the result is that of all rows with some value in it together. Here
        the ``tolerance`` is that of the result, in nats.
        """
        effort = effort_of(n_particles, tolerance, "marginal")
        evidence = self._evidence(X)
        answers = self.distribution.condition(
            evidence.given(present=True).chunks(_ROWS),
            check_random_state(random_state),
            effort=effort,
            n_jobs=self.n_jobs,
        )
        return np.concatenate([answer.log_marginal for _, answer in answers]) + evidence.inside

    def conditional(
        self,
        X: Any,
        column: Any,
        *,
        n_particles: int = 4000,
        tolerance: float = 0.001,
        random_state: Any = 0,
    ) -> ConditionalDistribution:
        """The distribution of one column given the others of each row, whatever the column itself holds there.

        Exact if no other value is unknown, for any order of the columns. An empty cell of another column is a value
        if the model knows it as one, and unknown otherwise.

        Parameters
        ----------
        X : table; the column itself may be absent
        column : its name, or its number
        n_particles, tolerance, random_state : for the Monte Carlo, if other values are unknown, as for ``impute``

        Examples
        --------
        >>> import numpy as np
        >>> from lbarn import LBARN
        >>> rng = np.random.default_rng(0)
        >>> x = rng.integers(0, 10, 2000)
        >>> X = np.column_stack([x, x + rng.integers(0, 3, 2000)])
        >>> ahead = LBARN(random_state=0).fit(X).conditional(np.array([[4, 0]]), 1)
        >>> [float(q) for q in ahead.quantile([0.1, 0.9])[0]]
        [4.0, 6.0]
        """
        check_is_fitted(self)
        effort = effort_of(n_particles, tolerance)
        number, j = self._column_number(column)
        optional = {**self.codebook_.left_out, number: "asked for"}
        table = read_like(X, self.table_format_, self.n_features_in_, binarize=self.binarize, optional=optional)
        code = self.codebook_.codes[j]
        parts, effective = [], []
        random = check_random_state(random_state)
        for chunk in CodedTable(table, self.codebook_).without(j).chunks():
            unknown = np.zeros(chunk.cells.shape, np.bool_) if chunk.unknown is None else chunk.unknown.copy()
            exact = self._last_column(chunk.cells, unknown, j)
            if exact is not None:
                parts.append(exact)
                effective.append(np.full(len(exact), np.inf))
                continue
            unknown[:, j] = True
            given = Given(chunk.cells, unknown, {}, True)
            for _, answer in self.distribution.condition(
                given.chunks(_ROWS), random, effort=effort, n_jobs=self.n_jobs
            ):
                parts.append(_cells(answer, j, code))
                effective.append(answer.effective)
        return ConditionalDistribution(
            code, np.concatenate(parts), self.table_format_, number, np.concatenate(effective)
        )

    def predictor(self, column: Any) -> ColumnClassifier | ColumnRegressor:
        """One column, given the others, as a scikit-learn classifier (categories, 0 and 1) or regressor (numbers, dates).

        It is fitted, as the model is, and goes where scikit-learn takes a predictor: metrics, calibration curves, partial
        dependence, permutation importance.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from lbarn import LBARN
        >>> iris = load_iris(as_frame=True).frame
        >>> iris["target"] = iris["target"].map({0: "setosa", 1: "versicolor", 2: "virginica"})
        >>> species = LBARN(random_state=0).fit(iris).predictor("target")
        >>> species.predict(iris[:1].drop(columns="target"))
        array(['setosa'], dtype='<U10')
        """
        check_is_fitted(self)
        number, j = self._column_number(column)
        info, code = self.columns_[number], self.codebook_.codes[j]
        if info.levels is None:
            return ColumnRegressor(self, info.name)
        of_no_row = ConditionalDistribution(code, np.zeros((0, code.n_cells)), self.table_format_, number)
        return ColumnClassifier(self, info.name).with_classes(of_no_row.levels)

    def _last_column(self, cells: Cells, unknown: NDArray[np.bool_], j: int) -> Floats | None:
        """P of every cell of column ``j``, if that is the last one and all others are known."""
        own = self.distribution
        networks = own.networks if isinstance(own, Mixture) else (own,)
        if np.delete(unknown, j, axis=1).any():
            return None
        if not all(isinstance(network, Network) and network.order[-1] == j for network in networks):
            return None
        assert isinstance(own, (Network, Mixture))
        return np.exp(own.last_column(cells, self.n_jobs))

    def _column_number(self, column: Any) -> tuple[int, int]:
        """A column's number among those given, and among those modelled."""
        labels = list(self.table_format_.labels(self.n_features_in_))
        if column in labels:
            number = labels.index(column)
        elif isinstance(column, Integral) and 0 <= int(column) < len(labels):
            number = int(column)
        else:
            raise ValueError(f"the model has no column {column!r}; its columns are {some(labels)}")
        if number in self.codebook_.left_out:
            raise ValueError(f"column {column!r} was left out of the model ({self.codebook_.left_out[number]})")
        return number, int(np.searchsorted(self.codebook_.taken, number))

    def _evidence(self, X: Any) -> Evidence:
        table = self._ready(X)
        return Evidence.of_table(table)

    def _impute_table(
        self, X: Any, output: str, n_draws: int, effort: Effort, return_diagnostics: bool, random_state: Any
    ) -> Any:
        outputs = ("sample", "mode", "mean", "median", "probability")
        if output not in outputs:
            raise ValueError(f"output must be one of {', '.join(map(repr, outputs))}; got {output!r}")
        table = self._ready(X)
        evidence = Evidence.of_table(table)
        _check_draws(n_draws, output)
        random = check_random_state(random_state)
        answers = [
            answer
            for _, answer in self.distribution.condition(
                replace(evidence.given(present=True), empty=True).chunks(_ROWS),
                random,
                n_draws=n_draws,
                effort=effort,
                n_jobs=self.n_jobs,
            )
        ]
        method = np.concatenate([answer.method for answer in answers])
        effective = np.concatenate([answer.effective for answer in answers])
        filled: Any
        if output == "sample":
            draws = np.concatenate([answer.draws for answer in answers], axis=1)
            rng = _generator(random)
            tables = [table.give(evidence.completed(rows, rng)) for rows in draws]
            filled = tables[0] if n_draws == 1 else tables
        else:
            columns, found = [], {}
            for j, code in enumerate(self.codebook_.codes):
                known = evidence.values[j]
                if not known.missing.any():
                    columns.append(known)
                    continue
                cells = np.concatenate([_cells(answer, j, code) for answer in answers])
                cells = np.where(known.missing[:, None], cells, code.tree.present)
                number = int(self.codebook_.taken[j])
                own = ConditionalDistribution(code, cells, self.table_format_, number)
                if output == "probability":
                    found[own.name] = own.probability
                columns.append(merged(known, own.filled_with(output)))
            filled = found if output == "probability" else table.give(columns)
        return (filled, {"method": method, "effective_sample_size": effective}) if return_diagnostics else filled

    def _condition(
        self,
        X: Any,
        flip: float,
        output: str,
        n_draws: int,
        effort: Effort,
        return_diagnostics: bool,
        random_state: Any,
    ) -> Any:
        table = self._ready(X).table
        if output not in ("sample", "mode", "mean", "median", "probability"):
            raise ValueError(f"output must be 'sample', 'mode', 'mean', 'median' or 'probability'; got {output!r}")
        _check_draws(n_draws, output)
        chances = output in ("probability", "mean")
        result = np.empty((n_draws, table.n_rows, table.n_columns), float if chances else np.uint8)
        method, effective = np.empty(table.n_rows, "U11"), np.empty(table.n_rows)
        answers = self.distribution.condition(
            ((start, Given.flipped(values, missing, flip)) for start, values, missing in table.chunks()),
            check_random_state(random_state),
            n_draws=n_draws,
            effort=effort,
            n_jobs=self.n_jobs,
        )
        for start, answer in answers:
            rows = slice(start, start + len(answer.method))
            value = answer.draws if output == "sample" else answer.probability[None]
            result[:, rows] = value >= 0.5 if output in ("mode", "median") else value
            method[rows], effective[rows] = answer.method, answer.effective
        filled = result if n_draws > 1 else table.give(result[0], float if chances else None)
        return (filled, {"method": method, "effective_sample_size": effective}) if return_diagnostics else filled

    @property
    def feature_importances_(self) -> Floats:
        """``[i, j]``: summed gain of predictor ``j`` for column ``i``; ``distribution.importance()`` is the same, sparse."""
        check_is_fitted(self)
        return self.distribution.importance().toarray()


def _generator(random: np.random.RandomState) -> np.random.Generator:
    return np.random.default_rng(int(random.randint(2**31 - 1)))


def _cells(answer: Answer, j: int, code: ColumnCode) -> Floats:
    """P of every cell of a column."""
    if code.n_cells != 2:
        return answer.cells[j] if j in answer.cells else np.ones((len(answer.method), code.n_cells))
    ones = np.nan_to_num(answer.probability[:, j])
    return np.stack([1.0 - ones, ones], axis=1)


def _check_draws(n_draws: int, output: str) -> None:
    check_counts(n_draws=n_draws)
    if n_draws != 1 and output != "sample":
        raise ValueError(f"n_draws={n_draws} goes with output='sample' only; there is one {output} per value")


def effort_of(n_particles: int, tolerance: float, asked: Literal["cells", "marginal"] = "cells") -> Effort:
    """How much is done for a row, or an error that names what is wrong."""
    check_counts(n_particles=n_particles)
    if not isinstance(tolerance, Real) or not float(tolerance) >= 0:
        raise ValueError(f"tolerance must be a number of at least 0; got {tolerance!r}")
    return Effort(int(n_particles), float(tolerance), asked)


def check_counts(**counts: object) -> None:
    """Whole numbers of at least 1, or an error that names the one that is not."""
    for name, value in counts.items():
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1; got {value!r}")
