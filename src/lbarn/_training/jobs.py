"""D separate problems, handed out to threads here, or to whatever joblib backend the user has selected."""

from __future__ import annotations

import threading
import uuid
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from lbarn import _core
from lbarn._training import cluster

__all__ = ["each_dimension"]

_ATTEMPTS = 3  # how often dimensions whose worker died are submitted


@dataclass
class _Run:
    """The tasks in this process that belong to one call, so that all can be told to stop and waited for."""

    called_here: bool  # or in another process, for which tasks run here
    cancel: _core.CancelFlag = field(default_factory=_core.CancelFlag)
    running: int = 0


_runs: dict[str, _Run] = {}  # by token
_stopped: set[str] = set()  # tokens of runs that were given up, for tasks that a pool starts even now
_changed = threading.Condition()  # guards both


@contextmanager
def _run() -> Iterator[str]:
    """A token for tasks. If the block is left by an exception, Ctrl-C included, its tasks have stopped when it is."""
    token = uuid.uuid4().hex
    run = _runs[token] = _Run(called_here=True)
    try:
        yield token
    except BaseException:
        _stop(token)
        with _changed:
            _changed.wait_for(lambda: run.running == 0)
        raise
    finally:
        del _runs[token]


def _stop(token: str) -> None:
    """Tell the tasks of a run in this process to stop, and those that are still to begin not to."""
    with _changed:
        _stopped.add(token)
        if token in _runs:
            _runs[token].cancel.set()


@dataclass
class _Failure:
    """A task's own exception, told from the death of its worker by being returned."""

    error: Exception


def _task(function: Callable[..., Any], token: str, position: int, *args: object) -> object:
    with _changed:
        if token in _stopped:
            return position, None
        run = _runs.setdefault(token, _Run(called_here=False))
        run.running += 1
    try:
        return position, function(position, *args, cancel=run.cancel)
    except _core.Cancelled:
        return position, None
    except Exception as error:
        return position, _Failure(error)
    finally:
        with _changed:
            run.running -= 1
            if not run.running and not run.called_here:
                del _runs[token]
            _changed.notify_all()


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
        except cluster.WorkerLost as lost:
            error = lost.error
        attempts += 1
        if attempts == _ATTEMPTS:
            raise error
        warnings.warn(
            f"a worker was lost ({type(error).__name__}: {error}); {len(waiting)} dimensions are submitted again",
            RuntimeWarning,
            stacklevel=2,
        )


@contextmanager
def _results(
    function: Callable[..., Any],
    token: str,
    waiting: dict[int, tuple[Any, ...]],
    shared: tuple[object, ...],
    n_jobs: int | None,
) -> Iterator[Iterator[Any]]:
    """(position, result) of every task as it comes; leaving the block early gives up the others."""
    calls = [partial(_task, function, token, position, *args) for position, args in waiting.items()]
    backend, _ = get_active_backend(prefer="threads")
    if type(backend).__name__ == "DaskDistributedBackend":  # by name: Dask may not be installed
        stream = cluster.results(backend.client, calls, shared, backend.submit_kwargs, partial(_stop, token))
    else:
        stream = _by_joblib(calls, shared, n_jobs, streams=backend.supports_return_generator)
    try:
        yield stream
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib's, of results that nobody took
            stream.close()


def _by_joblib(
    calls: list[partial[Any]], shared: tuple[object, ...], n_jobs: int | None, streams: bool
) -> Generator[Any, None, None]:
    return_as = "generator_unordered" if streams else "list"  # Spark's backend: all results come at the end
    parallel = Parallel(n_jobs=n_jobs, prefer="threads", return_as=return_as, batch_size=1)
    try:
        yield from parallel(delayed(call)(*shared) for call in calls)
    except ValueError:  # n_jobs=0 and the like
        raise
    except Exception as error:  # a task returns its own
        raise cluster.WorkerLost(error) from error
