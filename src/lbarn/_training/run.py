"""Training of all conditionals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lbarn import _core
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._training.checkpoint import Checkpoint
from lbarn._training.jobs import each_dimension

__all__ = ["refit_network", "train_network"]


def _train(
    position: int, start: Conditional | None, how: Boosting, data: TrainingData, *, cancel: _core.CancelFlag
) -> Conditional:
    train, valid = data.train, data.valid
    start = start or Conditional.untrained(position)
    return start.extend(
        train.bits,
        valid.bits,
        how,
        weight=train.weight_for(position),
        valid_weight=valid.weight_for(position),
        seed=data.seed,
        cancel=cancel,
    )


def train_network(
    positions: Iterable[int],
    how: Boosting,
    data: TrainingData,
    *,
    start: dict[int, Conditional] | None = None,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[], None] = lambda: None,
) -> dict[int, Conditional]:
    """Train (or, from ``start``, continue) the conditionals at ``positions``, costly ones first."""
    conditionals: dict[int, Conditional] = {}
    arguments: list[tuple[int, Conditional | None]] = []
    for position in sorted(positions, reverse=True):
        finished = checkpoint.load(how, position) if checkpoint else None
        if finished is not None:
            conditionals[position] = finished
            progress()
        else:
            arguments.append((position, (start or {}).get(position)))

    def done(position: int, result: Conditional) -> None:
        conditionals[position] = result
        if checkpoint:
            checkpoint.save(how, result)
        progress()

    each_dimension(_train, arguments, how, data, n_jobs=n_jobs, done=done)
    return conditionals


def _refit(
    position: int, conditional: Conditional, how: Boosting, sample: TrainingRows, *, cancel: _core.CancelFlag
) -> Conditional:
    return conditional.refit(sample.bits, how, weight=sample.weight_for(position), cancel=cancel)


def refit_network(
    conditionals: list[Conditional], how: Boosting, sample: TrainingRows, *, n_jobs: int | None = None
) -> list[Conditional]:
    """Leaf values of all trees anew on ``sample``."""
    renewed = list(conditionals)
    arguments = [(c.position, c) for c in reversed(conditionals)]
    each_dimension(_refit, arguments, how, sample, n_jobs=n_jobs, done=renewed.__setitem__)
    return renewed
