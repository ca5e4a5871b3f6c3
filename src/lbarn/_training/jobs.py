"""D separate problems, handed out by joblib: threads here, or whatever backend the user has selected."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import PackedBits
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._training.checkpoint import Checkpoint

__all__ = ["Data", "Sample", "each_dimension", "refit_network", "train_network"]

_ATTEMPTS = 3  # how often dimensions whose worker died are submitted


@dataclass(frozen=True)
class Sample:
    """Bits in network order, where they are missing, and row weights."""

    bits: PackedBits
    missing: PackedBits | None = None
    weight: NDArray[np.float64] | None = None

    def weight_for(self, position: int) -> NDArray[np.float64] | None:
        """Row weights for one conditional: a row whose target is missing has none."""
        if self.missing is None or not self.missing.columns[position].any():
            return self.weight
        present = 1.0 - self.missing.column(position).astype(np.float64)
        return present if self.weight is None else present * self.weight

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.bits.rows.nbytes  # Dask's backend sends what is large once per worker

    def take(self, rows: NDArray[np.intp]) -> Sample:
        return Sample(
            self.bits.take(rows),
            None if self.missing is None else self.missing.take(rows),
            None if self.weight is None else self.weight[rows],
        )

    def common_values(self) -> NDArray[np.bool_] | None:
        """Each column's most common value by weight among the rows that have one; None where nothing is missing."""
        if self.missing is None:
            return None
        weight = _weight_or_ones(self)
        ones = np.array([weight @ self.bits.column(j) for j in range(self.bits.n_columns)])
        holes = np.array([weight @ self.missing.column(j) for j in range(self.bits.n_columns)])
        return ones > (weight.sum() - holes) / 2

    def filled(self, values: NDArray[np.bool_] | None) -> Sample:
        """Missing bits replaced by ``values`` (zeros where None): what they read as when they are predictors."""
        if self.missing is None or values is None:
            return self
        fill = np.zeros(self.bits.rows.shape[1], np.uint8)
        packed = np.packbits(values, bitorder="little")
        fill[: len(packed)] = packed
        bits = PackedBits(self.bits.rows | (self.missing.rows & fill), self.bits.n_columns)
        return replace(self, bits=bits)

    def __add__(self, other: Sample) -> Sample:
        missing = None
        if self.missing is not None or other.missing is not None:
            missing = _missing_or_none(self) + _missing_or_none(other)
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([_weight_or_ones(self), _weight_or_ones(other)])
        return Sample(self.bits + other.bits, missing, weight)


def _missing_or_none(sample: Sample) -> PackedBits:
    return sample.missing or PackedBits(np.zeros_like(sample.bits.rows), sample.bits.n_columns)


def _weight_or_ones(sample: Sample) -> NDArray[np.float64]:
    return np.ones(sample.bits.n_rows) if sample.weight is None else sample.weight


@dataclass(frozen=True)
class Data:
    """What a network is trained and validated on."""

    train: Sample
    valid: Sample
    seed: int

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.train.__sizeof__() + self.valid.__sizeof__()


@dataclass
class _Run:
    """The tasks of this process that belong to one call, so that all can be told to stop and waited for."""

    cancel: _core.CancelFlag = field(default_factory=_core.CancelFlag)
    running: int = 0
    changed: threading.Condition = field(default_factory=threading.Condition)


_runs: dict[str, _Run] = {}  # by token; a token from another process is unknown here
_stopped: set[str] = set()  # tokens of runs that were given up, for tasks that a pool starts even now


@contextmanager
def _run() -> Iterator[str]:
    """A token for tasks. If the block is left by an exception, Ctrl-C included, its tasks have stopped when it is."""
    token = uuid.uuid4().hex
    run = _runs[token] = _Run()
    try:
        yield token
    except BaseException:
        _stopped.add(token)
        run.cancel.set()
        with run.changed:
            run.changed.wait_for(lambda: run.running == 0)
        raise
    finally:
        del _runs[token]


@dataclass
class _Failure:
    """A task's own exception, told from the death of its worker by being returned."""

    error: Exception


def _task(function: Callable[..., Any], token: str, position: int, *args: object) -> object:
    run = _runs.get(token)
    if run is None:
        if token in _stopped:
            return position, None
        run = _Run()
    with run.changed:
        run.running += 1
    try:
        return position, function(position, *args, cancel=run.cancel)
    except _core.Cancelled:
        return position, None
    except Exception as error:
        return position, _Failure(error)
    finally:
        with run.changed:
            run.running -= 1
            run.changed.notify_all()


def each_dimension(
    function: Callable[..., Any],
    arguments: Iterable[tuple[Any, ...]],
    *shared: object,
    n_jobs: int | None,
    done: Callable[[int, Any], None],
) -> None:
    """Call ``function(position, *arguments, *shared, cancel=)`` for every tuple (position, *arguments); ``done`` in turn.

    Threads unless a joblib backend is selected. An exception in one task reaches the caller after the others have
    stopped. Where a worker dies, what is missing is submitted again, three times in all.
    """
    waiting = {args[0]: args[1:] for args in arguments}
    attempts = 0
    while waiting:
        try:
            with _run() as token, _results(function, token, waiting, shared, n_jobs) as results:
                for position, result in results:
                    if isinstance(result, _Failure):
                        raise result.error
                    del waiting[position]
                    done(position, result)
            return
        except _WorkerLost as lost:
            error = lost.error
        attempts += 1
        if attempts == _ATTEMPTS:
            raise error
        warnings.warn(
            f"a worker was lost ({type(error).__name__}: {error}); {len(waiting)} dimensions are submitted again",
            RuntimeWarning,
            stacklevel=2,
        )


class _WorkerLost(Exception):
    def __init__(self, error: Exception) -> None:
        self.error = error


def _hear_of_errors(backend: Any) -> None:
    """Dask's backend (joblib 1.6) never reports a task that Dask has given up, and Parallel would wait for it forever."""
    if (
        type(backend).__name__ != "DaskDistributedBackend"
        or not hasattr(backend, "submit")
        or "submit" in vars(backend)
    ):
        return
    submit = backend.submit

    def submit_and_hear(call: Any, callback: Any = None) -> Any:
        job = submit(call, callback)
        job.add_done_callback(lambda job: job.exception() is None or callback(job.exception()))
        return job

    backend.submit = submit_and_hear


@contextmanager
def _results(
    function: Callable[..., Any],
    token: str,
    waiting: dict[int, tuple[Any, ...]],
    shared: tuple[object, ...],
    n_jobs: int | None,
) -> Iterator[Iterator[Any]]:
    """(position, result) of every task as it comes; leaving the block early gives up the others."""
    backend, _ = get_active_backend(prefer="threads")
    _hear_of_errors(backend)
    streams = backend.supports_return_generator  # Spark's does not: all of its results come at the end
    calls = [delayed(_task)(function, token, position, *args, *shared) for position, args in waiting.items()]
    parallel = Parallel(
        n_jobs=n_jobs, prefer="threads", return_as="generator_unordered" if streams else "list", batch_size=1
    )

    def results() -> Generator[Any, None, None]:
        try:
            yield from parallel(calls)
        except ValueError:  # n_jobs=0 and the like
            raise
        except Exception as error:  # a task returns its own
            raise _WorkerLost(error) from error

    stream = results()
    try:
        yield stream
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib's, of results that nobody took
            stream.close()


def _train(
    position: int, start: Conditional | None, how: Boosting, data: Data, *, cancel: _core.CancelFlag
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
    data: Data,
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
    position: int, conditional: Conditional, how: Boosting, sample: Sample, *, cancel: _core.CancelFlag
) -> Conditional:
    return conditional.refit(sample.bits, how, weight=sample.weight_for(position), cancel=cancel)


def refit_network(
    conditionals: list[Conditional], how: Boosting, sample: Sample, *, n_jobs: int | None = None
) -> list[Conditional]:
    """Leaf values of all trees anew on ``sample``."""
    renewed = list(conditionals)
    arguments = [(c.position, c) for c in reversed(conditionals)]
    each_dimension(_refit, arguments, how, sample, n_jobs=n_jobs, done=renewed.__setitem__)
    return renewed
