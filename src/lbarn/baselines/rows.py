"""The rows that a baseline learns from: complete, 0 and 1, and divided into those to train on and those to validate on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lbarn._tables.table import TableFormat, read_table
from lbarn._training.data import checked_weights, hold_out

__all__ = ["CompleteRows"]

Weights = NDArray[np.float64] | None


class _HoldsOut(Protocol):
    binarize: float | None
    validation_fraction: float
    random_state: int


@dataclass(frozen=True, eq=False)
class CompleteRows:
    """Bits, (n, D) each, and their weights, if they have any."""

    format: TableFormat
    train: NDArray[np.bool_]
    valid: NDArray[np.bool_]
    weight: Weights
    weight_val: Weights

    @classmethod
    def read(
        cls,
        parameters: _HoldsOut,
        X: Any,
        X_val: Any,
        sample_weight: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> CompleteRows:
        """Without ``X_val``, ``validation_fraction`` of ``X`` is held out. Rows of weight 0 are left out."""
        table = read_table(X, binarize=parameters.binarize)
        train, weight = table.complete(), checked_weights(sample_weight, table.n_rows, "sample_weight")
        if weight is not None:
            train, weight = train[weight > 0], weight[weight > 0]
        if X_val is not None:
            table_val = read_table(X_val, binarize=parameters.binarize).like(table.format, table.n_columns)
            weight_val = checked_weights(sample_weight_val, table_val.n_rows, "sample_weight_val")
            return cls(table.format, train, table_val.complete(), weight, weight_val)
        kept, held = hold_out(len(train), parameters.validation_fraction, parameters.random_state)
        own = (None, None) if weight is None else (weight[kept], weight[held])
        return cls(table.format, train[kept], train[held], *own)
