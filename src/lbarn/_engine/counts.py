"""Counts of ones among the bits before a position, as bits that predict it: trees cannot count."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import Count, PickedRows, row_bytes

__all__ = ["Counts"]

_CHUNK_ROWS = 1 << 16


@dataclass(frozen=True, eq=False)
class Counts:
    """Of the bits before ``position``, ``masks[m]`` are counted; feature ``i`` asks if count ``which[i]`` is at least ``at_least[i]``.

    To trees at that position, feature ``i`` is number ``position + i``.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn._engine.bits import pack
    >>> bits = pack([[1, 0, 1, 0], [1, 1, 1, 0]])
    >>> counts = Counts.of(3, [np.array([0, 1, 2])], np.array([0, 0], np.uint16), np.array([2, 3], np.uint16))
    >>> columns = counts.to_train(bits.rows, np.arange(2, dtype=np.int32)).columns
    >>> np.unpackbits(columns.view(np.uint8), axis=1, count=2, bitorder="little").T
    array([[1, 0, 1, 1, 0, 0],
           [1, 1, 1, 1, 1, 0]], dtype=uint8)
    """

    position: int
    masks: NDArray[np.uint64]
    which: NDArray[np.uint16]
    at_least: NDArray[np.uint16]

    @classmethod
    def of(
        cls,
        position: int,
        counted: list[NDArray[np.intp]],
        which: NDArray[np.uint16] | None = None,
        at_least: NDArray[np.uint16] | None = None,
    ) -> Counts:
        """Counts of these positions; without features yet if they are not given."""
        nothing = np.zeros(0, np.uint16)
        masks = np.zeros((len(counted), row_bytes(position)), np.uint8)
        for mask, bits in zip(masks, counted):
            np.bitwise_or.at(mask, bits // 8, (1 << bits % 8).astype(np.uint8))
        return cls(
            position,
            masks.view(np.uint64),
            nothing if which is None else which,
            nothing if at_least is None else at_least,
        )

    def __len__(self) -> int:
        return len(self.which)

    def __getstate__(self) -> dict[str, object]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # the core's object stays here

    @cached_property
    def core(self) -> _core.Counts:
        """The same arrays for the core, which checks them."""
        try:
            return _core.Counts(self.position, self.masks, self.which, self.at_least)
        except TypeError:
            raise ValueError("an array of the counts has another type or shape") from None

    def check(self) -> None:
        """Raise a ValueError if bits at or after the position are counted."""
        self.core  # noqa: B018
        if self.masks.shape[1] * 8 != row_bytes(self.position):
            raise ValueError("an array of the counts has another type or shape")

    def counted(self, m: int) -> NDArray[np.intp]:
        """The positions that count ``m`` is over."""
        return np.flatnonzero(np.unpackbits(self.masks[m].view(np.uint8), bitorder="little"))

    def values(self, rows: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """All counts of packed rows, (n, masks)."""
        return _core.count_ones(rows, np.arange(len(rows), dtype=np.int32), self.core)

    def to_train(self, rows: NDArray[np.uint8], index: NDArray[np.int32], count: Count = None) -> PickedRows:
        """Some of the packed rows up to the position, followed by the features and the position's own bit.

        Each row stands for ``count`` equal ones.
        """
        n_columns = self.position + len(self) + 1
        columns = np.zeros((n_columns, _core.column_words(len(index))), np.uint64)
        for start in range(0, len(index), _CHUNK_ROWS):
            part = _core.with_counts(rows, index[start : start + _CHUNK_ROWS], self.core)
            words = _core.transpose(part, n_columns)
            first = start // 64
            size = min(words.shape[1], columns.shape[1] - first)
            columns[:, first : first + size] = words[:, :size]
        return PickedRows(columns, len(index), count)
