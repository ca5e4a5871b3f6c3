"""What a trained network says of rows: log-likelihoods, surprises, and new rows. Integers throughout, so that no
answer depends on how the work was shared out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PackedBits
from lbarn._engine.conditional import Conditional, log_likelihoods, probabilities

__all__ = ["draw", "log_likelihood", "surprise"]

_SAMPLE_ROWS = 4096  # rows drawn together, each such block from a random stream of its own


def _sum(part: Sequence[tuple[Conditional, int]], bits: PackedBits) -> NDArray[np.int64]:
    total = np.zeros(bits.n_rows, np.int64)
    for conditional, n_trees in part:
        total += log_likelihoods(conditional.log_odds(bits, n_trees), bits.columns[conditional.position])
    return total


def log_likelihood(
    conditionals: Sequence[Conditional], n_trees: Sequence[int] | NDArray[np.intp], bits: PackedBits, n_jobs: int | None
) -> NDArray[np.int64]:
    """log p(x) per row in units of 2^-30."""
    pairs = list(zip(conditionals, n_trees))
    jobs = min(effective_n_jobs(n_jobs), len(pairs))
    bits.columns  # noqa: B018  transposed once, before the threads share it
    parts = Parallel(n_jobs=jobs, require="sharedmem")(delayed(_sum)(pairs[j::jobs], bits) for j in range(jobs))
    return np.sum(parts, axis=0)


def surprise(
    conditionals: Sequence[Conditional], n_trees: Sequence[int] | NDArray[np.intp], bits: PackedBits, n_jobs: int | None
) -> NDArray[np.int64]:
    """-log p(x_d | x_<d) per position and row in units of 2^-30, shape (D, n)."""
    bits.columns  # noqa: B018
    rows = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_sum)([(conditional, count)], bits) for conditional, count in zip(conditionals, n_trees)
    )
    return -np.array(rows)


def _draw_block(
    conditionals: Sequence[Conditional],
    n_trees: Sequence[int] | NDArray[np.intp],
    n: int,
    seed: tuple[int, int],
    known: NDArray[np.float64] | None,
) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    D = len(conditionals)
    words = _core.column_words(n)
    columns = np.zeros((D, words), np.uint64)
    rows = np.empty((n, D), np.uint8)
    for d, (conditional, count) in enumerate(zip(conditionals, n_trees)):
        trees = conditional.trees.head(count)
        log_odds = _core.log_odds(columns, n, trees.splits, trees.values, trees.offsets)
        bit = rng.integers(0, 1 << 30, n, dtype=np.int32) < probabilities(log_odds)
        if known is not None:
            bit = np.where(np.isnan(known[:, d]), bit, known[:, d] == 1)
        rows[:, d] = bit
        packed = np.packbits(bit, bitorder="little")
        columns[d].view(np.uint8)[: len(packed)] = packed
    return rows


def draw(
    conditionals: Sequence[Conditional],
    n_trees: Sequence[int] | NDArray[np.intp],
    n: int,
    seed: int,
    n_jobs: int | None,
    known: NDArray[np.float64] | None = None,
) -> NDArray[np.uint8]:
    """``n`` rows in network order. ``known`` (n, D) fixes bits where it is not NaN: a prefix of each row."""
    starts = range(0, n, _SAMPLE_ROWS)
    blocks = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_draw_block)(
            conditionals,
            n_trees,
            min(_SAMPLE_ROWS, n - start),
            (seed, block),
            None if known is None else known[start : start + _SAMPLE_ROWS],
        )
        for block, start in enumerate(starts)
    )
    return np.concatenate(blocks)
