"""The distribution of one column in each of several rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from lbarn._engine.codetree import UNKNOWN
from lbarn._models.summary import conditional_html
from lbarn._tables.codes import BinaryCode, CategoricalCode, ColumnCode, ContinuousCode, GridCode
from lbarn._tables.column import Column, plain_array
from lbarn._tables.table import TableFormat

__all__ = ["ConditionalDistribution"]

Floats = NDArray[np.float64]


class ConditionalDistribution:
    """The distribution of one column in each of n rows, given the row's other values.

    Attributes
    ----------
    name : the column's
    kind : what the column is
    levels : ndarray
        Its values, one per column of ``probability``: categories, or the centers of the cells of numbers.
    probability : ndarray of shape (n, levels)
    """

    def __init__(
        self, code: ColumnCode, cells: Floats, table_format: TableFormat, number: int, effective: Floats | None = None
    ) -> None:
        self._code, self._format, self._number = code, table_format, number
        possible = np.where(code.tree.present, cells, 0.0)
        self._cells = possible / possible.sum(axis=1, keepdims=True)
        self.effective_sample_size = np.full(len(cells), np.inf) if effective is None else effective
        self.name, self.kind = table_format.labels(number + 1)[number], code.kind
        self.levels, self.probability = self._levels()

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return f"ConditionalDistribution of {self.name!r} ({self.kind}, {len(self.levels)} levels) in {len(self)} rows"

    def _repr_html_(self) -> str:
        return conditional_html(self)

    def _levels(self) -> tuple[NDArray[Any], Floats]:
        code = self._code
        if isinstance(code, CategoricalCode):
            column = code.plain.with_values(pa.array(code.levels, pa.string()), np.zeros(len(code.levels), np.bool_))
            cells, inside = code.encode(column)
            return _values(column), self._cells[:, cells] * np.exp(inside)
        kept = np.flatnonzero(code.tree.present)
        if isinstance(code, BinaryCode):
            return _values(code.peaks[1].take(kept)), self._cells[:, kept]
        assert isinstance(code, (GridCode, ContinuousCode))
        if code.plain.sort in ("string", "time"):
            return _values(code.peaks[1].take(kept)), self._cells[:, kept]
        return code.centers[kept], self._cells[:, kept]

    def mean(self) -> Floats:
        """The mean of every row, of numbers, dates (in the unit that they came in) or 0 and 1."""
        code = self._code
        if isinstance(code, CategoricalCode) or code.plain.sort == "string":
            raise ValueError(f"column {self.name!r} is {self.kind}: levels have no mean; use mode()")
        if isinstance(code, BinaryCode):
            return self._cells[:, -1]
        assert isinstance(code, (GridCode, ContinuousCode))
        return self._cells @ np.where(code.tree.present, code.centers, 0.0)

    def mode(self) -> NDArray[Any]:
        """The likeliest value of every row."""
        return _values(self._code.peaks[1].take(self.mode_cells()))

    def filled_with(self, output: str) -> Column:
        """A value for every row as a plain column: the mean or the median of numbers, else the likeliest one."""
        code = self._code
        if output in ("mean", "median") and isinstance(code, (GridCode, ContinuousCode)):
            if output == "median":
                return self.quantile_column(0.5)
            if code.plain.sort != "string":
                return code.column(self.mean())
        return code.peaks[1].take(self.mode_cells())

    def mode_cells(self) -> NDArray[np.intp]:
        return self._peaks().argmax(axis=1)

    def _peaks(self) -> Floats:
        """The log-likelihood of the likeliest value of every cell."""
        with np.errstate(divide="ignore"):
            score = np.log(self._cells) + self._code.peaks[0]
        return np.where(self._code.tree.present, score, -np.inf)

    def likely(self, most: int) -> tuple[list[Column], Floats]:
        """The likeliest value of each of the cells in which it is likeliest, as plain columns, and their probabilities (n, most)."""
        score = self._peaks()
        cells = np.argsort(-score, axis=1, kind="stable")[:, :most]
        values = [self._code.peaks[1].take(cells[:, k]) for k in range(cells.shape[1])]
        with np.errstate(over="ignore"):  # a density may be too large for a double
            return values, np.exp(np.take_along_axis(score, cells, axis=1))

    def quantile_column(self, share: float) -> Column:
        """A quantile of numbers or dates as a plain column."""
        assert isinstance(self._code, (GridCode, ContinuousCode))
        return self._code.column(self._numeric_quantile(share))

    def quantile(self, q: float | ArrayLike) -> NDArray[Any]:
        """The value up to which a share ``q`` of every row's mass is: (n,), or (n, len(q)) for several shares."""
        code = self._code
        if isinstance(code, CategoricalCode):
            raise ValueError(f"column {self.name!r} is {self.kind}: levels have no order; use probability")
        shares = np.asarray(q, dtype=np.float64)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise ValueError(f"q must be between 0 and 1; got {q!r}")
        found = [self._quantile(float(share)) for share in shares.ravel()]
        return found[0] if shares.ndim == 0 else np.stack(found, axis=1)

    def _quantile(self, share: float) -> NDArray[Any]:
        values = self._numeric_quantile(share)
        if not isinstance(self._code, (GridCode, ContinuousCode)):
            return values
        return _values(self._code.column(values)) if self._code.plain.sort in ("string", "time") else values * 1.0

    def _numeric_quantile(self, share: float) -> NDArray[Any]:
        code = self._code
        upto = np.cumsum(self._cells, axis=1)
        last = int(np.flatnonzero(code.tree.present)[-1])
        cell = np.minimum((upto < share * upto[:, -1:] - 1e-12).sum(axis=1), last)
        cell = np.maximum(cell, int(np.argmax(code.tree.present)))
        if isinstance(code, BinaryCode):
            return cell - int(code.missing)
        assert isinstance(code, (GridCode, ContinuousCode))
        rows = np.arange(len(cell))
        own = self._cells[rows, cell]
        rest = np.clip((share - (upto[rows, cell] - own)) / np.maximum(own, 1e-300), 0.0, 1.0)
        return code.quantiles(cell, rest)

    def between(self, low: Any, high: Any) -> Floats:
        """P(low <= value <= high) of every row, of numbers; infinite ends are allowed."""
        code = self._code
        if not isinstance(code, (GridCode, ContinuousCode)) or code.plain.sort in ("string", "time"):
            raise ValueError(f"column {self.name!r} is {self.kind}: between is for numbers; use probability")
        return self._cells @ np.where(code.tree.present, code.share_between(float(low), float(high)), 0.0)

    def log_prob(self, values: Any) -> Floats:
        """The log-likelihood of one value per row (or of one value in all rows), in nats: mass, or density without a grid."""
        column = _given(values, len(self), self._code.label)
        cells, inside = self._code.encode(column)
        if (cells == UNKNOWN).any() or column.missing.any():
            raise ValueError(f"column {self.name!r}: a value is missing")
        with np.errstate(divide="ignore"):
            return np.log(self._all_cells[np.arange(len(cells)), cells]) + inside

    @property
    def _all_cells(self) -> Floats:
        """With the share of what was never seen, which is the same in every row."""
        code = self._code
        share = code.tree.unseen
        return np.where(code.tree.drawn, self._cells * (1.0 - share.sum()), share)

    def sample(self, random_state: Any = None) -> NDArray[Any]:
        """One draw per row."""
        random = check_random_state(random_state)
        upto = np.cumsum(self._cells, axis=1)
        cells = (random.random_sample((len(self), 1)) * upto[:, -1:] >= upto).sum(axis=1)
        rng = np.random.default_rng(int(random.randint(2**31 - 1)))
        return _values(self._code.decode(np.minimum(cells, self._code.n_cells - 1), rng))


def _values(column: Column) -> NDArray[Any]:
    """As NumPy has them."""
    if column.sort in ("number", "boolean") and not column.written:
        return column.values.astype(np.bool_) if column.sort == "boolean" else column.values
    return np.array(column.arrow().to_pylist(), dtype=object)


def _given(values: Any, n: int, label: str) -> Column:
    listed = values.to_list() if hasattr(values, "to_list") else values
    if np.ndim(listed) == 0:
        listed = [listed] * n
    if len(listed) != n:
        raise ValueError(f"{len(listed)} values for {n} rows; give one for every row, or a single one")
    if isinstance(listed, np.ndarray):
        return plain_array(listed, label)
    array = np.empty(n, object)
    array[:] = list(listed)
    return plain_array(array, label)
