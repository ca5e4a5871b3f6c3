"""Models as files: every kind of model says how it is taken to parts, a JSON-like header and arrays, and made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.bits import PackedBits, row_bytes
from lbarn._engine.counts import Counts
from lbarn._engine.trees import NO_LIMIT, Trees
from lbarn._network import container
from lbarn._network.container import Pieces, Tensors, ToWrite, expect
from lbarn._network.repeats import Repeats
from lbarn._network.shorttrees import pack_short, unpack_short
from lbarn.errors import ModelFileError

__all__ = [
    "SavedModel",
    "from_parts",
    "nest",
    "nested",
    "open_model",
    "pack_repeats",
    "pack_trees",
    "register",
    "sensible",
    "to_parts",
    "unpack_repeats",
    "unpack_trees",
]

Header = dict[str, Any]
_Saved = TypeVar("_Saved", bound="SavedModel")


class SavedModel:
    """``save`` and ``load`` for a model whose class is registered."""

    def save(self, path: str | os.PathLike[str], *, trim: bool = False) -> None:
        """Write the model to one file of arrays and JSON; ``trim=True`` keeps the selected trees only."""
        kind, header, tensors = to_parts(self, trim)
        container.write(path, kind, header, tensors)

    @classmethod
    def load(cls: type[_Saved], path: str | os.PathLike[str]) -> _Saved:
        """Read a model that ``save`` has written."""
        model = open_model(path, cls)
        assert isinstance(model, cls)
        return model


@dataclass(frozen=True)
class _Kind:
    model: type[SavedModel]
    to_parts: Callable[[Any, bool], tuple[Header, ToWrite]]
    from_parts: Callable[[Header, Tensors], SavedModel]


_KINDS: dict[str, _Kind] = {}  # by the name that files give it


def register(
    model: type[SavedModel],
    to_parts: Callable[[Any, bool], tuple[Header, ToWrite]],
    from_parts: Callable[[Header, Tensors], SavedModel],
) -> None:
    """Say how models of a class are taken to parts and put together again; files call it by its name."""
    _KINDS[model.__name__] = _Kind(model, to_parts, from_parts)


def to_parts(model: SavedModel, trim: bool) -> tuple[str, Header, ToWrite]:
    """(kind, header, arrays) of a fitted model."""
    kind = type(model).__name__
    if kind not in _KINDS:
        raise TypeError(f"a {kind} cannot be saved")
    return kind, *_KINDS[kind].to_parts(model, trim)


def from_parts(kind: object, header: Header, tensors: Tensors) -> SavedModel:
    """The model in these parts; what does not make sense is a ModelFileError."""
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ModelFileError(f"holds a model of unknown kind {kind!r}")
    return _KINDS[kind].from_parts(header, tensors)


def open_model(path: str | os.PathLike[str], wanted: type[SavedModel] | None = None) -> SavedModel:
    """The model in a file, of any kind or of the one that is wanted."""
    with container.reading(path) as (kind, header, tensors):
        if wanted is not None and kind in _KINDS and not issubclass(_KINDS[kind].model, wanted):
            raise ModelFileError(
                f"{path}: holds a model of kind {kind!r}, not {wanted.__name__}; lbarn.load opens any kind"
            )
        try:
            return from_parts(kind, header, tensors)
        except ModelFileError as error:
            raise ModelFileError(f"{path}: {error}") from error


class sensible:
    """Around what reads a header: whatever is wrong with it is a ModelFileError."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        expected = (KeyError, TypeError, ValueError, OverflowError, AttributeError)
        if isinstance(error, expected) and not isinstance(error, ModelFileError):
            raise ModelFileError(f"its description does not make sense ({error})") from error


def nest(parts: Sequence[ToWrite]) -> dict[str, NDArray[Any] | Pieces]:
    """The arrays of several models as those of one."""
    return {f"{k}.{name}": array for k, arrays in enumerate(parts) for name, array in arrays.items()}


def nested(tensors: Tensors, k: int) -> Tensors:
    """The arrays of model ``k`` of those that ``nest`` has put together."""
    prefix = f"{k}."
    return {name.removeprefix(prefix): array for name, array in tensors.items() if name.startswith(prefix)}


def pack_repeats(repeats: Repeats | None) -> tuple[Header, ToWrite]:
    """Rows that repeat, if there are any, as an entry of a header and arrays."""
    if repeats is None:
        return {}, {}
    used = -(-repeats.n_columns // 8)
    return {"repeats": {"share": repeats.share, "gain": repeats.gain}}, {
        "repeated_rows": np.ascontiguousarray(repeats.bits.rows[:, :used]),
        "repeated_weight": repeats.weight,
        "repeated_log_p": repeats.log_p,
    }


def unpack_repeats(header: Header, tensors: Tensors, n_columns: int) -> Repeats | None:
    """The rows that repeat, if there are any; of rows that are not sorted or not different nothing would be found."""
    if "repeats" not in header:
        return None
    with sensible():
        share, gain = (float(header["repeats"][name]) for name in ("share", "gain"))
        if not 0 < share < 1 or not np.isfinite(gain):
            raise ValueError("the share of rows that repeat makes no sense")
    rows = expect(tensors, "repeated_rows", np.uint8, (None, -(-n_columns // 8)))
    weight = expect(tensors, "repeated_weight", np.float64, (len(rows),))
    log_p = expect(tensors, "repeated_log_p", np.int64, (len(rows),))
    padded = np.zeros((len(rows), row_bytes(n_columns)), np.uint8)
    padded[:, : rows.shape[1]] = rows
    repeats = Repeats(PackedBits(padded, n_columns), weight, log_p, share, gain)
    if not len(rows) or not repeats.is_sound():
        raise ModelFileError("its rows that repeat are damaged")
    return repeats


def pack_trees(network: Sequence[Trees]) -> dict[str, NDArray[Any] | Pieces]:
    """The trees of several conditionals as a few arrays."""
    limits = np.array([t.limit for t in network], np.int32)
    own = [Trees.empty(), *network]
    plain = {name: Pieces([getattr(t, name) for t in own]) for name in ("splits", "gains", "values")}
    return {
        **(pack_short(network) or plain),
        "tree_splits": np.concatenate([np.diff(t.offsets) for t in own]).astype(np.uint16),
        "tree_counts": np.array([len(t) for t in network], np.int64),
        **({"limits": limits} if (limits != NO_LIMIT).any() else {}),
        **_pack_closers(network),
        **_pack_counts(network),
    }


def unpack_trees(tensors: Mapping[str, NDArray[Any]], positions: NDArray[np.intp]) -> list[Trees]:
    """The trees of conditionals at these positions, each array checked so that no evaluation can leave its bounds or overflow."""
    n_positions = len(positions)
    counts = expect(tensors, "tree_counts", np.int64, (n_positions,))
    sizes = expect(tensors, "tree_splits", np.uint16, (None,)).astype(np.int64)
    limits = np.full(n_positions, NO_LIMIT, np.int32)
    if "limits" in tensors:
        limits = expect(tensors, "limits", np.int32, (n_positions,))
    closers, closed = _closers(tensors, n_positions)
    counted = _counts(tensors, positions)
    if (counts < 0).any() or (counts > len(sizes)).any() or counts.sum() != len(sizes):
        raise ModelFileError("the numbers of trees do not add up")
    first_split = np.concatenate([[0], np.cumsum(sizes)])  # per tree
    first_tree = np.concatenate([[0], np.cumsum(counts)])
    if "short_values" in tensors:
        splits, gains, values = unpack_short(tensors, np.diff(first_split[first_tree] + first_tree))
    else:
        splits = expect(tensors, "splits", np.uint16, (None, 2))
        gains = expect(tensors, "gains", np.float32, (None,))
        values = expect(tensors, "values", np.int32, (None,))
    n_splits = int(sizes.sum())
    if len(splits) != n_splits or len(gains) != n_splits or len(values) != n_splits + len(sizes):
        raise ModelFileError("the numbers of splits and leaves do not add up")
    network = []
    for d in range(n_positions):
        a, b = int(first_tree[d]), int(first_tree[d + 1])
        s, e = int(first_split[a]), int(first_split[b])
        offsets = first_split[a : b + 1] - s
        predictors = closers[d], int(closed[d]), counted[d]
        trees = Trees(splits[s:e], gains[s:e], values[s + a : e + b], offsets, int(limits[d]), *predictors)
        try:
            trees.check(int(positions[d]))
        except ValueError as error:
            raise ModelFileError(str(error)) from error
        network.append(trees)
    return network


def _pack_closers(network: Sequence[Trees]) -> Tensors:
    if not any(len(t.closers) for t in network):
        return {}
    return {
        "closers": np.concatenate([t.closers for t in network]),
        "closer_counts": np.array([len(t.closers) for t in network], np.int64),
        "closed": np.array([t.closed for t in network], np.int32),
    }


def _closers(
    tensors: Mapping[str, NDArray[Any]], n_positions: int
) -> tuple[list[NDArray[np.uint16]], NDArray[np.int32]]:
    """The closers of every conditional, and what they close it at."""
    if "closers" not in tensors:
        return [np.zeros(0, np.uint16)] * n_positions, np.zeros(n_positions, np.int32)
    closers = expect(tensors, "closers", np.uint16, (None,))
    counts = expect(tensors, "closer_counts", np.int64, (n_positions,))
    return _cut(closers, counts), expect(tensors, "closed", np.int32, (n_positions,))


_AS_BEFORE = -1  # instead of a number of masks: they are those of the conditional before


def _pack_counts(network: Sequence[Trees]) -> Tensors:
    counts = [t.counts for t in network if t.counts is not None]
    if not counts:
        return {}
    sizes = np.array([(0, 0) if t.counts is None else (len(t.counts.masks), len(t.counts)) for t in network], np.int64)
    packed: Tensors = {
        "count_which": np.concatenate([own.which for own in counts]),
        "count_at_least": np.concatenate([own.at_least for own in counts]),
    }
    if any(own.has_sums for own in counts):  # nodes of a column have the same, so they are kept once
        new = [k == 0 or not _same_sums(own, counts[k - 1]) for k, own in enumerate(counts)]
        sizes[np.flatnonzero(sizes[:, 1])[~np.array(new)], 0] = _AS_BEFORE
        counts = [own for own, is_new in zip(counts, new) if is_new]
        packed["count_first"] = np.concatenate([own.first for own in counts])
        packed["count_base"] = np.concatenate([own.base for own in counts])
    return {"count_sizes": sizes, "count_masks": np.concatenate([own.masks.ravel() for own in counts]), **packed}


def _same_sums(own: Counts, other: Counts) -> bool:
    return (
        np.array_equal(own.masks, other.masks)
        and np.array_equal(own.first, other.first)
        and np.array_equal(own.base, other.base)
    )


def _counts(tensors: Mapping[str, NDArray[Any]], positions: NDArray[np.intp]) -> list[Counts | None]:
    """The counts that every conditional looks at."""
    if "count_sizes" not in tensors:
        return [None] * len(positions)
    sizes = expect(tensors, "count_sizes", np.int64, (len(positions), 2))
    words = np.array([row_bytes(int(position)) // 8 for position in positions], dtype=np.int64)
    if (sizes < _AS_BEFORE).any() or (sizes > 65_535).any() or (sizes[:, 1] < 0).any():
        raise ModelFileError("the numbers of counts make no sense")
    n_masks = np.maximum(sizes[:, 0], 0)
    masks = _cut(expect(tensors, "count_masks", np.uint64, (None,)), n_masks * words)
    which = _cut(expect(tensors, "count_which", np.uint16, (None,)), sizes[:, 1])
    at_least = _cut(expect(tensors, "count_at_least", np.uint16, (None,)), sizes[:, 1])
    first, base = _sums(tensors, n_masks)
    found: list[Counts | None] = []
    known: Counts | None = None
    for d, position in enumerate(positions.tolist()):
        if not sizes[d, 1]:
            found.append(None)
            continue
        if sizes[d, 0] >= 0:
            known = Counts(position, masks[d].reshape(sizes[d, 0], -1), first[d], base[d], which[d], at_least[d])
        elif known is None:
            raise ModelFileError("the numbers of counts make no sense")
        else:
            known = replace(known, position=position, which=which[d], at_least=at_least[d])
        found.append(known)
    return found


def _sums(
    tensors: Mapping[str, NDArray[Any]], n_masks: NDArray[np.int64]
) -> tuple[list[NDArray[np.uint32]], list[NDArray[np.uint16]]]:
    """Which masks belong to every count, and what it begins with; without sums, each has one mask and begins with 0."""
    if "count_first" not in tensors:
        return [np.arange(n + 1, dtype=np.uint32) for n in n_masks], [np.zeros(n, np.uint16) for n in n_masks]
    first = expect(tensors, "count_first", np.uint32, (None,))
    starts = np.flatnonzero(first == 0)  # of every conditional
    kept = np.flatnonzero(n_masks)
    if len(starts) != len(kept) or not len(first) or first[0]:
        raise ModelFileError("the numbers of counts make no sense")
    sizes = np.zeros(len(n_masks), np.int64)
    sizes[kept] = np.diff([*starts, len(first)])
    base = expect(tensors, "count_base", np.uint16, (None,))
    return _cut(first, sizes), _cut(base, np.maximum(sizes - 1, 0))


def _cut(array: NDArray[Any], sizes: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Parts of these sizes, which add up."""
    if (sizes < 0).any() or (sizes > len(array)).any() or sizes.sum() != len(array):
        raise ModelFileError("the numbers of what conditionals look at do not add up")
    return np.split(array, np.cumsum(sizes)[:-1])
