"""Random numbers for rows that are drawn: the same for every row, however the rows are shared out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Streams"]

_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Streams:
    """Random numbers for rows to be drawn, of which each block of 4,096 has a stream of its own."""

    generators: tuple[np.random.Generator, ...]
    n_rows: int

    @classmethod
    def of(cls, n_rows: int, seed: int) -> Streams:
        blocks = range(-(-n_rows // _BLOCK_ROWS))
        return cls(tuple(np.random.default_rng((seed, block)) for block in blocks), n_rows)

    def __len__(self) -> int:
        return len(self.generators)

    def parts(self, n_blocks: int) -> Iterator[tuple[int, Streams]]:
        """(first row, streams) of successive parts of so many blocks."""
        for first in range(0, len(self), n_blocks):
            start = first * _BLOCK_ROWS
            n = min(n_blocks * _BLOCK_ROWS, self.n_rows - start)
            yield start, Streams(self.generators[first : first + n_blocks], n)

    def numbers(self, wanted: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Numbers below 2^30 for all rows; a block that wants none takes none from its stream."""
        numbers = np.zeros(self.n_rows, np.int32)
        for k, generator in enumerate(self.generators):
            own = slice(k * _BLOCK_ROWS, (k + 1) * _BLOCK_ROWS)
            if wanted[own].any():
                numbers[own] = generator.integers(0, 1 << 30, len(numbers[own]), dtype=np.int32)
        return numbers
