"""Trees in a file in seven bytes a split instead of twelve, without loss, if their numbers allow for it.

Those of averaged networks do, because they are rounded on purpose: :func:`short_values`, :func:`short_gains`. A leaf is an integer of 16 bits, in
a unit of its conditional, and a gain a number of half precision. Those of other networks stand in a file as they were learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.trees import Trees
from lbarn._network.container import Pieces, expect
from lbarn.errors import ModelFileError

__all__ = ["pack_short", "short_gains", "short_values", "unpack_short"]

_MOST = 2**15 - 1
_MOST_SHIFT = 16


def _shift(values: NDArray[Any]) -> int:
    """The smallest with which all values, divided by two so often, fit into 16 bits."""
    largest = int(np.abs(values).max(initial=0))
    return max(0, largest.bit_length() - 15)


def short_values(values: NDArray[np.float64]) -> NDArray[np.int32]:
    """Leaf values rounded to what fits into 16 bits in some unit."""
    unit = 2 ** _shift(values)
    return np.clip(np.rint(values / unit), -_MOST, _MOST).astype(np.int32) * np.int32(unit)


def short_gains(gains: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gains rounded to half precision, if that has such numbers."""
    with np.errstate(over="ignore"):
        rounded = gains.astype(np.float16).astype(np.float32)
    return rounded if np.isfinite(rounded).all() else gains


def pack_short(network: Sequence[Trees]) -> dict[str, NDArray[Any] | Pieces] | None:
    """Splits, gains and leaf values; None if they need more room."""
    if not any(len(own.splits) for own in network):
        return None
    shifts, gains, values = [], [], []
    with np.errstate(over="ignore"):
        for own in network:
            shift = _shift(own.values)
            short, half = own.values >> shift, own.gains.astype(np.float16)
            if shift > _MOST_SHIFT or (short << shift != own.values).any() or (half != own.gains).any():
                return None
            if len(own.splits) and own.splits[:, 0].max() > 255:
                return None
            shifts.append(shift)
            gains.append(half)
            values.append(short.astype(np.int16))
    empty = Trees.empty()
    return {
        "short_leaves": Pieces([own.splits[:, 0].astype(np.uint8) for own in (empty, *network)]),
        "short_positions": Pieces([own.splits[:, 1] for own in (empty, *network)]),
        "short_gains": Pieces([np.zeros(0, np.float16), *gains]),
        "short_values": Pieces([np.zeros(0, np.int16), *values]),
        "shifts": np.array(shifts, np.uint8),
    }


def unpack_short(
    tensors: Mapping[str, NDArray[Any]], n_values: NDArray[np.int64]
) -> tuple[NDArray[np.uint16], NDArray[np.float32], NDArray[np.int32]]:
    """Splits, gains and values as they were; ``n_values`` is the number of leaves of every conditional."""
    leaves = expect(tensors, "short_leaves", np.uint8, (None,))
    positions = expect(tensors, "short_positions", np.uint16, (len(leaves),))
    gains = expect(tensors, "short_gains", np.float16, (len(leaves),))
    values = expect(tensors, "short_values", np.int16, (None,))
    shifts = expect(tensors, "shifts", np.uint8, (len(n_values),))
    if (shifts > _MOST_SHIFT).any():
        raise ModelFileError("the units of leaf values make no sense")
    if len(values) != n_values.sum():
        raise ModelFileError("the numbers of splits and leaves do not add up")
    splits = np.stack([leaves, positions], axis=1, dtype=np.uint16)
    return splits, gains.astype(np.float32), values.astype(np.int32) << np.repeat(shifts, n_values).astype(np.int32)
