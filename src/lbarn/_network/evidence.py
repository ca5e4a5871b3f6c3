"""What was seen of rows, as a likelihood per cell of a column.

A value that was seen is certain, 1 for its cell and 0 for the others; a missing one has none, the same for all; a noisy bit, flipped
with probability e, has (e, 1 - e) or (1 - e, e).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.codetree import UNKNOWN, Cells, Layout

__all__ = ["Cause", "Evidence", "agreeing"]

Floats = NDArray[np.float64]
Cause = Mapping[int, NDArray[np.bool_]]  # by column, the cells that it may be in


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was seen of rows, in network order: ``cells`` (n, D), ``UNKNOWN`` where it is not one cell for certain.

    For columns with unknown cells, ``likelihood`` tells how likely what was seen is for each of the column's cells: (n, cells), or
    (cells,) if it is the same for all rows. Unknown cells of the columns ``empty`` were seen to be empty: they weigh with the probability
    of that, and then are what a value would be if it were there.
    """

    layout: Layout
    cells: NDArray[np.uint16]
    likelihood: Mapping[int, Floats]
    empty: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls,
        layout: Layout,
        cells: Cells,
        unknown: NDArray[np.bool_] | None = None,
        likelihood: Mapping[int, Floats] | None = None,
        *,
        present: bool = True,
        empty: bool = False,
    ) -> Evidence:
        """Of rows of cells; an unknown one may be all that can be drawn, the missing value only if not ``present``.

        If they are ``empty``, those of columns that have missing values were seen to be such.
        """
        seen = cells.astype(np.uint16)
        if unknown is not None:
            seen = np.where(unknown, np.uint16(UNKNOWN), seen)
        found = dict(likelihood or {})
        for k in np.flatnonzero((seen == UNKNOWN).any(axis=0)).tolist():
            if k not in found:
                tree = layout.columns[k]
                found[k] = (tree.present if present else tree.drawn).astype(np.float64)
        asked = found.keys() - (likelihood or {}).keys() if empty else ()
        return cls(layout, seen, found, frozenset(k for k in asked if layout.columns[k].missing))

    @property
    def unknown(self) -> NDArray[np.bool_]:
        return self.cells == UNKNOWN

    def _by_column(self, value: Callable[[int, Floats], Floats | NDArray[np.bool_]], known: float) -> Floats:
        found = np.full(self.cells.shape, known)
        for k, likelihood in self.likelihood.items():
            found[:, k] = np.where(self.cells[:, k] == UNKNOWN, value(k, likelihood), known)
        return found

    @cached_property
    def doublings(self) -> Floats:
        """How many times the number of completions doubles at each column, (n, D)."""
        return self._by_column(lambda k, own: np.log2(np.maximum((own > 0).sum(axis=-1), 1)), 0.0)

    @cached_property
    def informative(self) -> NDArray[np.bool_]:
        """Whether something was seen that changes what is likely: more than that no cell is one that cannot be drawn."""

        def tells(k: int, own: Floats) -> NDArray[np.bool_]:
            drawn = self.layout.columns[k].drawn
            return (own[..., drawn] != own[..., drawn].max(axis=-1, keepdims=True)).any(axis=-1)

        return self._by_column(tells, 1.0) > 0

    def take(self, rows: NDArray[np.intp]) -> Evidence:
        likelihood = {k: own[rows] if own.ndim == 2 else own for k, own in self.likelihood.items()}
        return replace(self, cells=self.cells[rows], likelihood=likelihood)

    def upto(self, n_columns: int) -> Evidence:
        layout = Layout(self.layout.columns[:n_columns])
        likelihood = {k: own for k, own in self.likelihood.items() if k < n_columns}
        return Evidence(layout, self.cells[:, :n_columns], likelihood, self.empty & set(likelihood))

    def given(self, cause: Cause) -> Evidence:
        """One row of evidence, with cells outside the cause impossible."""
        likelihood = dict(self.likelihood)
        for k, allowed in cause.items():
            likelihood[k] = np.where(allowed, likelihood[k], 0.0)
        return replace(self, likelihood=likelihood)


def agreeing(states: Cells, causes: Sequence[Cause]) -> NDArray[np.bool_]:
    """Which particles agree with any of the causes."""
    agree = np.zeros(len(states), np.bool_)
    for cause in causes:
        all_agree = np.ones(len(states), np.bool_)
        for k, allowed in cause.items():
            all_agree &= allowed[states[:, k]]
        agree |= all_agree
    return agree
