"""New rows, each beside the real row that is most like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lbarn.report.tables.rows import Field, Rows

__all__ = ["Samples", "distances", "samples_beside"]

_SHOWN = 3


@dataclass(frozen=True, eq=False)
class Samples:
    """Values as strings, by column and row; None where empty."""

    n_drawn: int
    made: list[list[str | None]]
    nearest: list[list[str | None]]
    nearest_numbers: NDArray[np.intp]


def samples_beside(fields: Sequence[Field], real: Rows, made: Rows) -> Samples:
    """The first samples, and the rows most like them."""
    shown = made.take(np.arange(min(_SHOWN, len(made))))
    closest = np.array([distances(fields, real, shown, k).argmin() for k in range(len(shown))], dtype=np.intp)
    nearest = real.take(closest)
    return Samples(
        len(made),
        [field.texts(shown.columns[j]) for j, field in enumerate(fields)],
        [field.texts(nearest.columns[j]) for j, field in enumerate(fields)],
        nearest.numbers,
    )


def distances(fields: Sequence[Field], real: Rows, made: Rows, k: int) -> NDArray[np.float64]:
    """Of sample ``k`` from every row, summed over columns: 1 for another level, for numbers the share of training rows between."""
    total = np.zeros(len(real))
    for j, field in enumerate(fields):
        cells, own = real.cells[:, j], int(made.cells[k, j])
        unknown = real.unknown[:, j]
        if field.numeric is None:
            total += (cells != own) | unknown
            continue
        code = field.code
        place = (np.cumsum(code.mass) - code.mass / 2) / max(code.n_rows, 1.0)
        apart = np.abs(place[np.where(unknown, 0, cells)] - place[own])
        if code.missing:
            apart = np.where((cells == 0) != (own == 0), 1.0, apart)
        total += np.where(unknown, 1.0, apart)
    return total
