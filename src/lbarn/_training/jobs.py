"""D separate problems, handed out by joblib: threads here, or whatever backend the user has selected."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from lbarn import _core

__all__ = ["each_dimension"]

_ATTEMPTS = 3  # how often dimensions whose worker died are submitted


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
