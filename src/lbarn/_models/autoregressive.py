"""What every autoregressive network of ours can do once it is trained: score, explain and draw rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.bits import PackedBits
from lbarn._engine.conditional import Conditional
from lbarn._engine.trees import UNIT
from lbarn._models.density import BinaryDensity, check_counts, checked_weights
from lbarn._network import evaluation
from lbarn._network.codec import Codec
from lbarn._network.conditioning import Answer, Evidence, condition
from lbarn._tables.table import Table

__all__ = ["AutoregressiveNetwork", "checked_weights"]


class AutoregressiveNetwork(BinaryDensity):
    """A product of trained conditionals.

    A subclass's ``fit`` sets ``order_`` (the column at each position), ``n_trees_`` (per column), ``_conditionals`` (by
    position) and ``_kind`` (the sort of table to give back).
    """

    order_: NDArray[np.intp]
    n_trees_: NDArray[np.intp]
    _conditionals: list[Conditional]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_conditionals")

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """log p(x) of every row, in nats."""
        table = self._ready(X)
        scores = np.empty(table.n_rows)
        for start, bits in self._chunks(table):
            scores[start : start + bits.n_rows] = self._log_likelihood(bits)
        return scores * UNIT

    def _log_likelihood(self, bits: PackedBits) -> NDArray[np.int64]:
        """log p(x) of rows in network order, in units of 2^-30."""
        return evaluation.log_likelihood(self._conditionals, self._trees_by_position(), bits, self.n_jobs)

    def surprise(self, X: Any) -> NDArray[np.float64]:
        """-log p(x_d | x_<d) of every bit, in nats, shape (n, D); a row sums to -log p(x)."""
        table = self._ready(X)
        bits_of_surprise = np.empty((table.n_rows, table.n_columns))
        for start, bits in self._chunks(table):
            bits_of_surprise[start : start + bits.n_rows, self.order_] = self._surprise(bits).T
        bits_of_surprise *= UNIT
        return bits_of_surprise

    def _surprise(self, bits: PackedBits) -> NDArray[np.int64]:
        """-log p(x_d | x_<d) per position and row, rows in network order, in units of 2^-30, shape (D, n)."""
        return evaluation.surprise(self._conditionals, self._trees_by_position(), bits, self.n_jobs)

    def cumulative_score(self, X: Any) -> NDArray[np.float64]:
        """Mean log-likelihood of the first 1, 2, ..., D variables of the order; the last one is ``score(X)``."""
        table = self._ready(X)
        total = np.zeros(table.n_columns, np.int64)
        for _, bits in self._chunks(table):
            total -= self._surprise(bits).sum(axis=1)
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
        check_is_fitted(self)
        check_counts(n_samples=n_samples)
        n, known = int(n_samples), None
        if given is not None:
            known = np.repeat(self._prefixes(given), n, axis=0)
            n = len(known)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        drawn = evaluation.draw(self._conditionals, self._trees_by_position(), n, seed, self.n_jobs, known)
        X = np.empty_like(drawn)
        X[:, self.order_] = drawn
        return self._kind.give(X)

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
        check_is_fitted(self)
        return self._kind.give(self._codec().decompress(data))

    def _codec(self) -> Codec:
        return Codec(self._conditionals, self._trees_by_position(), self.order_, self.n_jobs)

    def _answers(
        self, table: Table, flip: float, n_draws: int, n_particles: int, random_state: Any
    ) -> Iterator[tuple[int, Answer]]:
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        for start, values, missing in table.chunks():
            holes = None if missing is None else missing[:, self.order_]
            answer = condition(
                self._conditionals,
                self._trees_by_position(),
                Evidence.of(values[:, self.order_], holes, flip),
                n_draws=n_draws,
                n_particles=n_particles,
                seed=(seed, start),
                n_jobs=self.n_jobs,
            )
            yield start, answer.in_columns(self.order_)

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
        check_is_fitted(self)
        D = self.n_features_in_
        importance = np.zeros((D, D))
        for d, (conditional, n_trees) in enumerate(zip(self._conditionals, self._trees_by_position())):
            importance[self.order_[d], self.order_[:d]] = conditional.importance(n_trees)
        return importance

    def _trees_by_position(self) -> NDArray[np.intp]:
        return self.n_trees_[self.order_]

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
