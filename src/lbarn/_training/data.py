"""The rows that a fit is given: read, weighed, packed, and divided into those to train on and those to validate on."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight

from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._tables.table import Table, TableFormat, read_table

__all__ = ["GivenRows", "checked_weights", "hold_out"]

Weights = NDArray[np.float64] | None


@dataclass(frozen=True)
class GivenRows:
    """Rows, and rows to validate on if there are any; columns as they were given."""

    train: TrainingRows
    valid: TrainingRows | None
    format: TableFormat

    @classmethod
    def read(
        cls,
        X: Any,
        X_val: Any = None,
        sample_weight: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        *,
        binarize: float | None = None,
    ) -> GivenRows:
        table = read_table(X, binarize=binarize)
        train = _weighed(table, sample_weight, "sample_weight")
        if X_val is None:
            if sample_weight_val is not None:
                raise ValueError(
                    "sample_weight_val was given without X_val; weights of held-out rows are in sample_weight"
                )
            return cls(train, None, table.format)
        table_val = read_table(X_val, binarize=binarize).like(table.format, table.n_columns)
        return cls(train, _weighed(table_val, sample_weight_val, "sample_weight_val"), table.format)

    @property
    def n_columns(self) -> int:
        return self.train.bits.n_columns

    def fingerprint(self) -> str:
        """Of the values and weights of all rows."""
        digest = hashlib.sha256()
        parts = [self.train.bits, self.train.missing]
        parts += [None, None] if self.valid is None else [self.valid.bits, self.valid.missing]
        for part in parts:
            digest.update(
                b"-" if part is None else f"{part.rows.shape} {part.n_columns}".encode() + part.rows.tobytes()
            )
        for rows in (self.train, self.valid):
            digest.update(b"-" if rows is None or rows.weight is None else rows.weight.tobytes())
        return digest.hexdigest()

    def base_rates(self) -> NDArray[np.float64]:
        """The share of ones of every column, with half a row more on either side; missing values do not count."""
        rows = self.train if self.valid is None else self.train + self.valid
        return np.array([_base_rate(rows, d) for d in range(self.n_columns)])

    def divided(self, validation_fraction: float, seed: int) -> GivenRows:
        """With a part held out to validate on, unless there are rows for that."""
        if self.valid is not None:
            return self
        kept, held = hold_out(self.train.bits.n_rows, validation_fraction, [seed, 0], self.train.weight)
        return GivenRows(self.train.take(np.sort(kept)), self.train.take(np.sort(held)), self.format)

    def filled(self, seed: int) -> TrainingData:
        """What to train on: a missing value reads as its column's most common one among the training rows."""
        assert self.valid is not None
        if self.train.missing is not None:
            n = self.train.bits.n_rows
            empty = [j for j, count in enumerate(self.train.missing.column_sums()) if count == n]
            for j in empty[:3]:
                warnings.warn(f"{self.format.label(j)} has no values: nothing can be learned about it", stacklevel=6)
        fill = self.train.common_values()
        return TrainingData(self.train.filled(fill), self.valid.filled(fill), seed)


def _base_rate(rows: TrainingRows, position: int) -> float:
    column, weight = rows.bits.column(position), rows.weight_for(position)
    if weight is None:
        return float((column.sum() + 0.5) / (len(column) + 1))
    scale = np.count_nonzero(weight) / max(weight.sum(), np.finfo(float).tiny)  # 1 on average
    return float((scale * (column @ weight) + 0.5) / (scale * weight.sum() + 1))


def _weighed(table: Table, weight: ArrayLike | None, name: str) -> TrainingRows:
    return TrainingRows(*table.pack(), checked_weights(weight, table.n_rows, name))


def checked_weights(weight: ArrayLike | None, n: int, name: str) -> Weights:
    """One weight per row, none negative, not all zero; None stays None."""
    if weight is None:
        return None
    checked = _check_sample_weight(weight, np.empty((n, 0)), dtype=np.float64, ensure_non_negative=True)
    if not checked.any():
        raise ValueError(f"{name} is zero for every row")
    with np.errstate(over="ignore"):
        return checked if np.isfinite(checked.sum()) else checked / checked.max()  # only their ratios matter


def hold_out(
    n: int, fraction: float, seed: int | list[int], weight: Weights = None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Numbers of the rows to train on and of those to validate on, shuffled; neither may be without any weight."""
    n_valid = round(fraction * n)
    if not 0 < n_valid < n:
        raise ValueError(
            f"validation_fraction={fraction} of {n} sample(s) leaves {n_valid} to validate on and {n - n_valid} to train "
            "on, and at least 1 of each is needed; give more rows, or X_val"
        )
    shuffled = np.random.default_rng(seed).permutation(n)
    kept, held = shuffled[n_valid:], shuffled[:n_valid]
    if weight is not None and not (weight[kept].any() and weight[held].any()):
        raise ValueError(
            "sample_weight is zero for every row to train on, or for every row held out; weigh more rows, or give X_val"
        )
    return kept, held
