"""What every autoregressive network of ours can do once it is trained: score, explain and draw rows."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from lbarn import evaluation
from lbarn.bits import PackedBits
from lbarn.codec import Codec
from lbarn.conditional import UNIT, Conditional
from lbarn.conditioning import Answer, Evidence, condition
from lbarn.table import Kind, Table, read_table

__all__ = ["AutoregressiveNetwork", "checked_weights"]


class AutoregressiveNetwork(DensityMixin, BaseEstimator):
    """A product of trained conditionals.

    A subclass's ``fit`` sets ``order_`` (the column at each position), ``n_trees_`` (per column), ``_conditionals`` (by
    position) and ``_kind`` (the sort of table to give back).
    """

    binarize: float | None
    n_jobs: int | None
    order_: NDArray[np.intp]
    n_trees_: NDArray[np.intp]
    _conditionals: list[Conditional]
    _kind: Kind

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

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(x) of every row, in nats."""
        table = self._ready(X)
        scores = np.empty(table.n_rows)
        for start, bits in self._chunks(table):
            scores[start : start + bits.n_rows] = evaluation.log_likelihood(
                self._conditionals, self._trees_by_position(), bits, self.n_jobs
            )
        return scores * UNIT

    def score(self, X: Any, y: None = None, *, sample_weight: ArrayLike | None = None) -> float:
        """Mean log p(x), in nats per row."""
        scores = self.score_samples(X)
        return float(np.average(scores, weights=checked_weights(sample_weight, len(scores), "sample_weight")))

    def surprise(self, X: Any) -> NDArray[np.float64]:
        """-log p(x_d | x_<d) of every bit, in nats, shape (n, D); a row sums to -log p(x)."""
        table = self._ready(X)
        bits_of_surprise = np.empty((table.n_rows, table.n_columns))
        for start, bits in self._chunks(table):
            by_position = evaluation.surprise(self._conditionals, self._trees_by_position(), bits, self.n_jobs)
            bits_of_surprise[start : start + bits.n_rows, self.order_] = by_position.T
        bits_of_surprise *= UNIT
        return bits_of_surprise

    def cumulative_score(self, X: Any) -> NDArray[np.float64]:
        """Mean log-likelihood of the first 1, 2, ..., D variables of the order; the last one is ``score(X)``."""
        table = self._ready(X)
        total = np.zeros(table.n_columns, np.int64)
        for _, bits in self._chunks(table):
            total -= evaluation.surprise(self._conditionals, self._trees_by_position(), bits, self.n_jobs).sum(axis=1)
        return np.cumsum(total * UNIT) / table.n_rows

    def sample(self, n_samples: int = 1, *, given: Any = None, random_state: Any = None) -> Any:
        """Draw rows, exactly.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows, for each row of ``given`` if there is one (grouped).
        given : table with NaN where free, optional
            Fixes the first variables of the order; their number may differ from row to row.
        random_state : int, RandomState instance or None

        Returns
        -------
        The kind of table that the model was fitted on.
        """
        check_is_fitted(self, "_conditionals")
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a whole number of at least 1; got {n_samples!r}")
        n, known = int(n_samples), None
        if given is not None:
            known = np.repeat(self._prefixes(given), n, axis=0)
            n = len(known)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        drawn = evaluation.draw(self._conditionals, self._trees_by_position(), n, seed, self.n_jobs, known)
        X = np.empty_like(drawn)
        X[:, self.order_] = drawn
        return self._kind.give(X)

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
        _check_counts(n_particles=n_particles)
        answers = self._answers(table, 0.0, 1, n_particles, random_state)
        return np.concatenate([answer.log_marginal for _, answer in answers])

    def compress(self, X: Any) -> bytes:
        """The rows of ``X`` without loss, in about -log2 p(x) bits each; ``decompress`` needs this very model.

        Examples
        --------
        >>> import numpy as np
        >>> from lbarn.baselines import IndependentBits
        >>> X = np.array([[0, 1], [0, 1], [0, 1], [1, 1]])
        >>> model = IndependentBits().fit(X)
        >>> bool((model.decompress(model.compress(X)) == X).all())
        True
        """
        table = self._ready(X)
        return self._codec().compress(bits for _, bits in self._chunks(table))

    def decompress(self, data: bytes) -> Any:
        """The rows that ``compress`` has put into ``data``, in the kind of table that the model was fitted on.

        Raises
        ------
        CompressedDataError
            If ``data`` is damaged or was made with another model: never are other rows returned.
        """
        check_is_fitted(self, "_conditionals")
        return self._kind.give(self._codec().decompress(data))

    def _codec(self) -> Codec:
        return Codec(self._conditionals, self._trees_by_position(), self.order_, self.n_jobs)

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
        _check_counts(n_draws=n_draws, n_particles=n_particles)
        if output not in ("sample", "mode", "probability"):
            raise ValueError(f"output must be 'sample', 'mode' or 'probability'; got {output!r}")
        if n_draws != 1 and output != "sample":
            raise ValueError(f"n_draws={n_draws} goes with output='sample' only; there is one {output} per bit")
        result = np.empty((n_draws, table.n_rows, table.n_columns), float if output == "probability" else np.uint8)
        method, effective = np.empty(table.n_rows, "U11"), np.empty(table.n_rows)
        for start, answer in self._answers(table, flip, n_draws, n_particles, random_state):
            rows = slice(start, start + len(answer.method))
            value = answer.draws if output == "sample" else answer.probability[None]
            result[:, rows, self.order_] = value >= 0.5 if output == "mode" else value
            method[rows], effective[rows] = answer.method, answer.effective
        filled = result if n_draws > 1 else table.give(result[0], float if output == "probability" else None)
        return (filled, {"method": method, "effective_sample_size": effective}) if return_diagnostics else filled

    def _answers(
        self, table: Table, flip: float, n_draws: int, n_particles: int, random_state: Any
    ) -> Iterator[tuple[int, Answer]]:
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        for start, values, missing in table.chunks():
            holes = None if missing is None else missing[:, self.order_]
            yield (
                start,
                condition(
                    self._conditionals,
                    self._trees_by_position(),
                    Evidence.of(values[:, self.order_], holes, flip),
                    n_draws=n_draws,
                    n_particles=n_particles,
                    seed=(seed, start),
                    n_jobs=self.n_jobs,
                ),
            )

    def _prefixes(self, given: Any) -> NDArray[np.float64]:
        """Rows of ``given`` in network order, NaN where free, each a prefix."""
        table = self._read(given, reset=False)
        bits, missing = table.pack(self.order_)
        known = bits.unpack().astype(np.float64)
        if missing is not None:
            free = missing.unpack().astype(bool)
            known[free] = np.nan
            stray = free[:, :-1] & ~free[:, 1:]
            if stray.any():
                i, k = np.argwhere(stray)[0]
                raise ValueError(
                    f"row {i} of given fixes {table.column_name(self.order_[k + 1])} but not "
                    f"{table.column_name(self.order_[k])}, which comes before it in the order; sample takes a prefix of the "
                    "order only: use impute for other patterns"
                )
        return known

    @property
    def feature_importances_(self) -> NDArray[np.float64]:
        check_is_fitted(self, "_conditionals")
        D = self.n_features_in_
        importance = np.zeros((D, D))
        for d, (conditional, n_trees) in enumerate(zip(self._conditionals, self._trees_by_position())):
            importance[self.order_[d], self.order_[:d]] = conditional.importance(n_trees)
        return importance

    def _trees_by_position(self) -> NDArray[np.intp]:
        return self.n_trees_[self.order_]

    def _ready(self, X: Any) -> Table:
        check_is_fitted(self, "_conditionals")
        return self._read(X, reset=False)

    def _chunks(self, table: Table) -> Iterator[tuple[int, PackedBits]]:
        for start, values, missing in table.chunks():
            if missing is not None:
                i, j = np.argwhere(missing)[0]
                raise ValueError(
                    f"{table.column_name(j)} is missing (Input X contains NaN, row {start + i}); complete rows are needed "
                    "here: impute fills them, log_marginal scores what was observed"
                )
            rows = np.zeros((len(values), -(-table.n_columns // 256) * 32), np.uint8)
            rows[:, : -(-table.n_columns // 8)] = np.packbits(values[:, self.order_], axis=1, bitorder="little")
            yield start, PackedBits(rows, table.n_columns)


def _check_counts(**counts: object) -> None:
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
