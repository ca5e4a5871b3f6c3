"""Counts of ones, and weighted sums, among the bits before a position, as bits that predict it: trees cannot add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import Count, PickedRows, row_bytes

__all__ = ["Counts", "WeightedSum"]

_CHUNK_ROWS = 1 << 16
_PLANES = 16  # bits of a weight


class WeightedSum(NamedTuple):
    """Of some bits, what they weigh where they are 1: what it can come to is from 0 to 65,535, with what it ``begins`` with."""

    positions: NDArray[np.intp]
    weights: NDArray[np.int16]
    begins: int


@dataclass(frozen=True, eq=False)
class Counts:
    """Of the bits before ``position``, count ``c`` is over ``masks[first[c]:first[c + 1]]``; feature ``i`` asks if count ``which[i]`` is at least ``at_least[i]``.

    To trees at that position, feature ``i`` is number ``position + i``. A count of ones has one mask. A weighted sum begins with ``base[c]`` and has 16 masks,
    the ones of the ``k``-th of which count 2^k times, modulo 2^16: so every bit has a weight in two's complement.

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
    >>> Counts.of(3, [WeightedSum(np.array([0, 1]), np.array([5, -3], np.int16), begins=3)]).values(bits.rows)
    array([[8],
           [5]], dtype=uint16)
    """

    position: int
    masks: NDArray[np.uint64]
    first: NDArray[np.uint32]
    base: NDArray[np.uint16]
    which: NDArray[np.uint16]
    at_least: NDArray[np.uint16]

    @classmethod
    def of(
        cls,
        position: int,
        counted: Sequence[NDArray[np.intp] | WeightedSum],
        which: NDArray[np.uint16] | None = None,
        at_least: NDArray[np.uint16] | None = None,
    ) -> Counts:
        """Counts of these positions, or weighted sums; without features yet if they are not given."""
        nothing = np.zeros(0, np.uint16)
        masks, base = [], []
        for own in counted:
            n_planes = _PLANES if isinstance(own, WeightedSum) else 1
            if not isinstance(own, WeightedSum):
                own = WeightedSum(own, np.ones(len(own), np.int16), 0)
            planes = np.zeros((n_planes, row_bytes(position)), np.uint8)
            for k, mask in enumerate(planes):
                bits = own.positions[own.weights.view(np.uint16) >> k & 1 == 1]
                np.bitwise_or.at(mask, bits // 8, (1 << bits % 8).astype(np.uint8))
            masks.append(planes)
            base.append(own.begins)
        return cls(
            position,
            np.concatenate([*masks, np.zeros((0, row_bytes(position)), np.uint8)]).view(np.uint64),
            np.cumsum([0, *map(len, masks)]).astype(np.uint32),
            np.array(base, np.uint16),
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
            return _core.Counts(self.position, self.masks, self.first, self.base, self.which, self.at_least)
        except TypeError:
            raise ValueError("an array of the counts has another type or shape") from None

    def check(self) -> None:
        """Raise a ValueError if bits at or after the position are counted."""
        self.core  # noqa: B018
        if self.masks.shape[1] * 8 != row_bytes(self.position):
            raise ValueError("an array of the counts has another type or shape")

    def at(self, position: int) -> Counts:
        """The same counts for a later position."""
        more = row_bytes(position) // 8 - self.masks.shape[1]
        masks = np.pad(self.masks, ((0, 0), (0, more))) if more else self.masks
        return replace(self, position=position, masks=masks)

    @classmethod
    def together(cls, parts: Sequence[Counts]) -> tuple[Counts, list[NDArray[np.uint16]]]:
        """All that these count at one position, without features, and the number there of each count of every part."""
        masks: list[NDArray[np.uint64]] = []
        base: list[int] = []
        known: dict[bytes, int] = {}
        numbers = []
        for own in parts:
            number = np.empty(own.n_counts, np.uint16)
            for c in range(own.n_counts):
                planes = own.masks[own.first[c] : own.first[c + 1]]
                number[c] = known.setdefault(planes.tobytes() + own.base[c].tobytes(), len(known))
                if number[c] == len(masks):
                    masks.append(planes)
                    base.append(int(own.base[c]))
            numbers.append(number)
        nothing = np.zeros(0, np.uint16)
        first = np.cumsum([0, *map(len, masks)]).astype(np.uint32)
        return cls(
            parts[0].position, np.concatenate(masks), first, np.array(base, np.uint16), nothing, nothing
        ), numbers

    @property
    def n_counts(self) -> int:
        return len(self.base)

    def weights(self, c: int) -> tuple[NDArray[np.intp], NDArray[np.int16]]:
        """The positions that count ``c`` is over, and what each weighs."""
        planes = np.unpackbits(self.masks[self.first[c] : self.first[c + 1]].view(np.uint8), axis=1, bitorder="little")
        positions = np.flatnonzero(planes.any(axis=0))
        weights = (planes[:, positions].astype(np.uint32) << np.arange(len(planes), dtype=np.uint32)[:, None]).sum(
            axis=0
        )
        return positions, weights.astype(np.uint16).view(np.int16)

    @property
    def has_sums(self) -> bool:
        return self.n_counts < len(self.masks)

    def is_sum(self, c: int) -> bool:
        return bool(self.first[c + 1] - self.first[c] > 1)

    def values(self, rows: NDArray[np.uint8]) -> NDArray[np.uint16]:
        """All counts of packed rows, (n, counts)."""
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
