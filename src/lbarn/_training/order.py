"""The order in which the variables are modelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.codetree import Layout
from lbarn._engine.rows import Group, TrainingRows

__all__ = ["entropy_order", "grids", "image_size", "is_permutation", "read_as_grid", "resolve_order", "scans"]

_COARSE_BITS = 7  # of a column with many: eight cells
_MAX_ROWS = 10_000  # half of them to learn from, half to measure on


def resolve_order(
    order: str | Sequence[int] | NDArray[Any],
    rows: TrainingRows,
    layout: Layout,
    groups: Sequence[Group] = (),
    *,
    seed: int,
    n_jobs: int | None,
) -> NDArray[np.intp]:
    """The column at each position: ``order`` names a way to find it, or is it."""
    n_columns = layout.n_columns
    if isinstance(order, str):
        if order == "given":
            return np.arange(n_columns)
        if order == "random":
            return _random_order(n_columns, groups, np.random.default_rng([seed, 1]))
        bits, owner = _coarse_bits(rows, layout)
        found = entropy_order(bits, owner, decreasing=order == "entropy-decreasing", seed=seed, n_jobs=n_jobs)
        constant = np.setdiff1d(np.arange(n_columns), found)  # no entropy at all
        return np.concatenate([found, constant] if order == "entropy-decreasing" else [constant, found])
    permutation = np.asarray(order)
    if not is_permutation(permutation, n_columns):
        raise ValueError(
            "order must be 'given', 'random', 'entropy-decreasing', 'entropy-increasing', or a permutation of "
            f"0..{n_columns - 1}"
        )
    return permutation.astype(np.intp)


def _random_order(n_columns: int, groups: Sequence[Group], rng: np.random.Generator) -> NDArray[np.intp]:
    """The columns of a group follow each other: they are one category, and are easier to predict together."""
    if not groups:
        return rng.permutation(n_columns)
    units = _units(n_columns, groups)
    shuffled = [rng.permutation(units[i]) for i in rng.permutation(len(units))]
    return np.concatenate(shuffled).astype(np.intp)


def _units(n_columns: int, groups: Sequence[Group]) -> list[tuple[int, ...]]:
    """Columns that stay together: the groups, and each of the others by itself."""
    grouped = {j for group in groups for j in group.columns}
    return [*(tuple(group.columns) for group in groups), *((j,) for j in range(n_columns) if j not in grouped)]


def is_permutation(order: NDArray[Any], n: int) -> bool:
    return order.shape == (n,) and np.array_equal(np.sort(order), np.arange(n))


def _coarse_bits(rows: TrainingRows, layout: Layout) -> tuple[PackedBits, NDArray[np.intp]]:
    """A few bits of every column, those near the root of its tree, and the column that each belongs to."""
    if rows.cells is None:
        return rows.bits, np.arange(layout.n_columns)
    parts, owner = [], []
    for k, tree in enumerate(layout.columns):
        widest = np.argsort(-(tree.high - tree.low), kind="stable")
        learned = [int(node) for node in widest if np.isnan(tree.fixed[node])][:_COARSE_BITS]
        for node in learned:
            parts.append((rows.cells[k] >= tree.ones_low[node]) & (rows.cells[k] < tree.ones_high[node]))
            owner.append(k)
    if not parts:
        parts, owner = [np.zeros(rows.n_rows, np.bool_)], [0]
    return pack(np.stack(parts, axis=1)), np.array(owner, dtype=np.intp)


def entropy_order(
    bits: PackedBits, owner: NDArray[np.intp], *, decreasing: bool, seed: int, n_jobs: int | None
) -> NDArray[np.intp]:
    """The greedy order of the paper's section 5.3, of the columns that have bits.

    Pick, one after the other, the column with the highest (``decreasing``) or lowest entropy given those picked: that of its bits,
    of which ``owner`` tells the column.

    Each bit not yet picked keeps boosted log-odds on up to 10,000 rows and gets a few more trees on the picked
    columns after every pick; its entropy is measured on rows that those trees have not seen. Ties go to the lowest column.
    """
    n, n_columns = bits.n_rows, int(owner.max()) + 1
    chosen = np.random.default_rng([seed, 2]).permutation(n)[:_MAX_ROWS]
    half = -(-len(chosen) // 2)
    train, valid = bits.take(np.sort(chosen[:half])), bits.take(np.sort(chosen[half:]))
    state = _core.ConditionalEntropies(train.columns, train.n_rows, valid.columns, valid.n_rows, seed)
    waiting: list[int] = np.unique(owner).tolist()
    order: list[int] = []
    jobs = effective_n_jobs(n_jobs)
    with Parallel(n_jobs=jobs, require="sharedmem") as parallel:
        while waiting:
            left = np.flatnonzero(np.isin(owner, waiting)).tolist()
            parts = parallel(delayed(state.update)(left[j::jobs]) for j in range(jobs))
            entropy = np.empty(len(left))
            for j, part in enumerate(parts):
                entropy[j::jobs] = part
            by_column = np.bincount(owner[left], entropy, n_columns)[waiting]
            order.append(waiting.pop(int(by_column.argmax() if decreasing else by_column.argmin())))
            for bit in np.flatnonzero(owner == order[-1]).tolist():
                state.pick(bit)
    return np.array(order, dtype=np.intp)


def image_size(image_shape: Any, n_columns: int) -> tuple[int, int]:
    """Rows and columns of images with so many pixels."""
    shape = np.asarray(image_shape)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
        raise ValueError(f"image_shape must be two whole numbers, rows and columns; got {image_shape!r}")
    height, width = shape.tolist()
    if height * width != n_columns:
        raise ValueError(f"image_shape={height, width} has {height * width} pixels, but X has {n_columns} columns")
    return height, width


def grids(n_columns: int, groups: Sequence[Group] = ()) -> list[tuple[int, int]]:
    """Rows and columns of the boards, screens or calendars that a row of the table may have been written from, the squarest first.

    A group is one square.

    Examples
    --------
    >>> grids(42)[:4]
    [(6, 7), (7, 6), (3, 14), (14, 3)]
    """
    n = len(_units(n_columns, groups))
    return sorted(((a, n // a) for a in range(2, n // 2 + 1) if n % a == 0), key=lambda size: max(size))


def read_as_grid(size: tuple[int, int], n_columns: int, groups: Sequence[Group] = ()) -> list[NDArray[np.intp]]:
    """The columns in each of the eight ``scans`` of a grid; those of a group follow each other as they are given."""
    units = sorted(_units(n_columns, groups))
    return [np.array([j for unit in scan for j in units[unit]], dtype=np.intp) for scan in scans(*size)]


def scans(n_rows: int, n_columns: int) -> list[NDArray[np.intp]]:
    """Eight ways to read an image whose pixels are numbered row by row.

    By rows, by columns, both backwards; then the same four with every row (or column) read from its other end.

    Examples
    --------
    >>> for order in scans(2, 3)[:4]:
    ...     print(order)
    [0 1 2 3 4 5]
    [0 3 1 4 2 5]
    [5 4 3 2 1 0]
    [5 2 4 1 3 0]
    """
    pixels = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    straight = [pixels.ravel(), pixels.T.ravel()]
    mirrored = [pixels[:, ::-1].ravel(), pixels[::-1].T.ravel()]
    return [*straight, *(order[::-1] for order in straight), *mirrored, *(order[::-1] for order in mirrored)]
