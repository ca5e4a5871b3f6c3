"""What one conditional is trained on: packed bits, where they are missing, and row weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.bits import PackedBits

__all__ = ["TrainingData", "TrainingRows"]


@dataclass(frozen=True)
class TrainingRows:
    """Bits in network order, where they are missing, and row weights."""

    bits: PackedBits
    missing: PackedBits | None = None
    weight: NDArray[np.float64] | None = None

    def weight_for(self, position: int) -> NDArray[np.float64] | None:
        """Row weights for one conditional: a row whose target is missing has none."""
        if self.missing is None or not self.missing.columns[position].any():
            return self.weight
        present = 1.0 - self.missing.column(position).astype(np.float64)
        return present if self.weight is None else present * self.weight

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.bits.rows.nbytes  # Dask's backend sends what is large once per worker

    def take(self, rows: NDArray[np.intp]) -> TrainingRows:
        return TrainingRows(
            self.bits.take(rows),
            None if self.missing is None else self.missing.take(rows),
            None if self.weight is None else self.weight[rows],
        )

    def common_values(self) -> NDArray[np.bool_] | None:
        """Each column's most common value by weight among the rows that have one; None where nothing is missing."""
        if self.missing is None:
            return None
        weight = _weight_or_ones(self)
        ones = np.array([weight @ self.bits.column(j) for j in range(self.bits.n_columns)])
        holes = np.array([weight @ self.missing.column(j) for j in range(self.bits.n_columns)])
        return ones > (weight.sum() - holes) / 2

    def filled(self, values: NDArray[np.bool_] | None) -> TrainingRows:
        """Missing bits replaced by ``values`` (zeros where None): what they read as when they are predictors."""
        if self.missing is None or values is None:
            return self
        fill = np.zeros(self.bits.rows.shape[1], np.uint8)
        packed = np.packbits(values, bitorder="little")
        fill[: len(packed)] = packed
        bits = PackedBits(self.bits.rows | (self.missing.rows & fill), self.bits.n_columns)
        return replace(self, bits=bits)

    def in_order(self, order: NDArray[np.intp]) -> TrainingRows:
        """The same rows with column ``order[k]`` at position ``k``."""
        if np.array_equal(order, np.arange(len(order))):
            return self
        missing = None if self.missing is None else self.missing.permuted(order)
        return replace(self, bits=self.bits.permuted(order), missing=missing)

    def __add__(self, other: TrainingRows) -> TrainingRows:
        missing = None
        if self.missing is not None or other.missing is not None:
            missing = _missing_or_none(self) + _missing_or_none(other)
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([_weight_or_ones(self), _weight_or_ones(other)])
        return TrainingRows(self.bits + other.bits, missing, weight)


def _missing_or_none(rows: TrainingRows) -> PackedBits:
    return rows.missing or PackedBits(np.zeros_like(rows.bits.rows), rows.bits.n_columns)


def _weight_or_ones(rows: TrainingRows) -> NDArray[np.float64]:
    return np.ones(rows.bits.n_rows) if rows.weight is None else rows.weight


@dataclass(frozen=True)
class TrainingData:
    """What a network is trained and validated on."""

    train: TrainingRows
    valid: TrainingRows
    seed: int

    def in_order(self, order: NDArray[np.intp]) -> TrainingData:
        return TrainingData(self.train.in_order(order), self.valid.in_order(order), self.seed)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.train.__sizeof__() + self.valid.__sizeof__()
