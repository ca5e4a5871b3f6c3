"""Calls on a Dask cluster whose workers, or whose scheduler, may die at any moment.

joblib's backend for Dask waits for ever if the worker to which it scatters the data dies. Here nothing is scattered: the
data is the result of a task, which the scheduler runs again wherever it is lost, as it does all others.
"""

from __future__ import annotations

import pickle
import time
import uuid
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["WorkerLost", "results"]

_LOOK = 2.0  # seconds without a result after which the cluster is looked at
_ANSWER = 10.0  # seconds that the scheduler has to answer
_NO_WORKER = 45.0  # seconds that a cluster without any worker, or without a scheduler, is waited for


class WorkerLost(Exception):
    """A worker died, or what it held was lost; to submit what is missing again may help."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _call(call: Callable[..., Any], shared: tuple[object, ...]) -> Any:
    return call(*shared)


def results(
    client: Client,
    calls: Sequence[Callable[..., Any]],
    shared: tuple[object, ...],
    options: Mapping[str, Any],
    stop: Callable[[], None],
) -> Generator[Any, None, None]:
    """``call(*shared)`` of every call, as they come; ``shared`` is sent to each worker once.

    If the generator is left early, calls that have not begun are cancelled, and ``stop`` is called on every worker.
    If no worker is left, or no scheduler, it ends with a RuntimeError.
    """
    cluster = _Cluster(client)
    try:
        data, pending = _submitted(client, calls, shared, options)
    except Exception:
        cluster.check_connection()
        raise
    finished: SimpleQueue[Future[Any]] = SimpleQueue()
    for future in pending.values():
        future.add_done_callback(finished.put)
    patience = _ANSWER
    try:
        with _place_for_others():
            while pending:
                try:
                    future = finished.get(timeout=_LOOK)
                except Empty:
                    cluster.check()
                    continue
                result = _result(future, patience)
                if result is _NOT_YET:  # the worker that held it has just died, or the network is slow
                    cluster.check()
                    finished.put(future)
                    patience *= 2
                    continue
                pending.pop(future.key).release()
                yield result
    finally:
        if pending:
            _give_up(client, [data, *pending.values()], stop)


def _submitted(
    client: Client, calls: Sequence[Callable[..., Any]], shared: tuple[object, ...], options: Mapping[str, Any]
) -> tuple[Future[Any], dict[Any, Future[Any]]]:
    """The future of ``shared``, and those of all calls by key."""
    token = uuid.uuid4().hex
    keys = [
        (f"lbarn-{token}", k) for k in range(len(calls))
    ]  # one group: spread over workers, begun in about this order
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)  # to scatter it is not safe, see above
        data = client.submit(pickle.loads, pickle.dumps(shared), key=f"lbarn_data-{token}", **options)
        return data, dict(zip(keys, client.map(_call, calls, shared=data, key=keys, **options)))


_NOT_YET = object()


def _result(future: Future[Any], seconds: float) -> Any:
    from distributed import KilledWorker, TimeoutError

    try:
        return future.result(timeout=seconds)
    except TimeoutError:
        return _NOT_YET
    except Exception as error:
        if future.status == "error" and not isinstance(error, (KilledWorker, CancelledError)):  # its client has closed
            raise
        raise WorkerLost(error) from error


def _give_up(client: Client, futures: list[Future[Any]], stop: Callable[[], None]) -> None:
    async def tell() -> None:
        await client.cancel(futures)
        await client.run(stop, on_error="ignore")

    with suppress(Exception):  # if the cluster does not listen there is nothing to stop
        client.sync(tell, callback_timeout=_ANSWER)


@contextmanager
def _place_for_others() -> Iterator[None]:
    """A fit that is itself a task on the cluster gives its place to those that it waits for."""
    from distributed import rejoin, secede

    try:
        secede()
    except ValueError:  # it is not one
        yield
        return
    try:
        yield
    finally:
        rejoin()


class _Cluster:
    """Whether there is still somebody to wait for."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen = time.monotonic()  # a worker, for the last time
        self.check_connection()

    def check_connection(self) -> None:
        if self._client.status in ("closing", "closed"):
            raise RuntimeError(f"the connection to the Dask scheduler is lost ({self._client}); connect a new client")

    def check(self) -> None:
        """Raise a RuntimeError if there has been no worker for long, or if there will be none."""
        self.check_connection()
        if self._n_workers():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _NO_WORKER:
            raise RuntimeError(
                f"no Dask worker has been seen for {_NO_WORKER:.0f} s ({self._client}); start workers and fit again (with "
                "checkpoint=, a fit continues where it was)"
            )

    def _n_workers(self) -> int:
        async def ask() -> int:
            return len(await self._client.nthreads())

        try:
            return int(self._client.sync(ask, callback_timeout=_ANSWER))
        except Exception:  # no answer, or no scheduler
            return 0
