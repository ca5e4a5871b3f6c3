"""The greedy order of section 5.3: next comes the variable with the highest (or lowest) conditional entropy."""

from __future__ import annotations

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.rows import TrainingRows

__all__ = ["entropy_order"]

_MAX_ROWS = 10_000  # half of them to learn from, half to measure on


def entropy_order(sample: TrainingRows, *, decreasing: bool, seed: int, n_jobs: int | None) -> NDArray[np.intp]:
    """Pick, one after the other, the column with the highest (``decreasing``) or lowest entropy given those picked.

    Each column not yet picked keeps boosted log-odds on up to 10,000 rows and gets a few more trees on the picked
    columns after every pick; its entropy is measured on rows that those trees have not seen. Ties go to the lowest column.
    """
    n, D = sample.bits.n_rows, sample.bits.n_columns
    rows = np.random.default_rng([seed, 2]).permutation(n)[:_MAX_ROWS]
    half = -(-len(rows) // 2)
    train, valid = sample.bits.take(np.sort(rows[:half])), sample.bits.take(np.sort(rows[half:]))
    state = _core.ConditionalEntropies(train.columns, train.n_rows, valid.columns, valid.n_rows, seed)
    waiting = list(range(D))
    order: list[int] = []
    jobs = effective_n_jobs(n_jobs)
    with Parallel(n_jobs=jobs, require="sharedmem") as parallel:
        while waiting:
            parts = parallel(delayed(state.update)(waiting[j::jobs]) for j in range(jobs))
            entropy = np.empty(len(waiting))
            for j, part in enumerate(parts):
                entropy[j::jobs] = part
            order.append(waiting.pop(int(entropy.argmax() if decreasing else entropy.argmin())))
            state.pick(order[-1])
    return np.array(order, dtype=np.intp)
