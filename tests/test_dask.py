"""A real Dask cluster trains the same model, whichever of its processes die on the way, or says that it cannot."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray

from fit_process import (
    DEADLINE,
    Process,
    cluster_process,
    finished_dimensions,
    linked_rows,
    model_bytes,
    start_worker,
    wait_until,
)
from lbarn import LBARN, _core
from lbarn._engine.bits import PackedBits
from lbarn._training import cluster as cluster_calls
from lbarn._training.jobs import each_dimension

dask = pytest.importorskip("dask", reason="Dask is an extra: pip install 'lbarn[dask]'")
distributed = pytest.importorskip("distributed", reason="Dask is an extra: pip install 'lbarn[dask]'")

# The fits are short, for speed: their curves still rise.
pytestmark = pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising")

Rows = tuple[NDArray[np.uint8], NDArray[np.uint8]]


class Workers:
    """Worker processes of a scheduler, and their successors."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.processes: list[Process] = []

    def keep(self, number: int) -> None:
        """As many as that, killed ones replaced."""
        self.processes = [process for process in self.processes if process.poll() is None]
        self.processes += [start_worker(self.address) for _ in range(number - len(self.processes))]

    def kill(self, pid: int) -> None:
        (process,) = (process for process in self.processes if process.pid == pid)
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def scheduler() -> Iterator[Any]:
    # Dask's memory manager takes a copy from a worker that happens to be idle every other second. Without it, what is
    # counted below does not depend on the clock.
    with (
        dask.config.set({"distributed.scheduler.active-memory-manager.start": False}),
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=logging.CRITICAL) as local,
    ):
        yield local.scheduler


@pytest.fixture(scope="module")
def started(scheduler: Any) -> Iterator[Workers]:
    workers = Workers(scheduler.address)
    yield workers
    for process in workers.processes:
        process.kill()
        process.wait()


@pytest.fixture
def workers(started: Workers) -> Workers:
    """Two of them."""
    started.keep(2)
    return started


@pytest.fixture
def client(scheduler: Any, workers: Workers) -> Iterator[Any]:
    with distributed.Client(scheduler.address) as client:
        wait_until(
            lambda: sorted(client.run(os.getpid).values()) == sorted(w.pid for w in workers.processes), "workers"
        )
        yield client


@pytest.fixture
def rows(shared_data: Callable[[str], Any]) -> Rows:
    """Training and validation rows of DNA, or random ones of its shape where the benchmark data is absent."""
    try:
        dna = shared_data("dna")
    except pytest.skip.Exception:
        return linked_rows(1400, 180, seed=1), linked_rows(600, 180, seed=2)
    return dna.train.unpack(), dna.valid.unpack()


def fit(rows: Rows, checkpoint: Path | None = None, **parameters: Any) -> bytes:
    model = LBARN(max_leaf_nodes=8, learning_rate=0.1, max_iter=30, random_state=5, **parameters)
    return model_bytes(model.fit(rows[0], X_val=rows[1], checkpoint=checkpoint))


def test_a_cluster_gives_the_same_model_file(client: Any) -> None:
    small = linked_rows(300, 20, seed=1), linked_rows(100, 20, seed=2)
    expected = fit(small, refit=True, order="random")
    with joblib.parallel_config("dask"):
        assert fit(small, refit=True, order="random") == expected


def count_arrivals() -> None:
    """On a worker: count the tables that are unpickled there from now on."""

    def arrive(self: PackedBits, state: dict[str, Any]) -> None:
        PackedBits.arrivals += 1
        self.__dict__.update(state)

    PackedBits.arrivals = 0
    PackedBits.__setstate__ = arrive


def arrivals() -> int:
    count = PackedBits.arrivals
    del PackedBits.__setstate__, PackedBits.arrivals
    return count


def test_the_data_goes_to_each_worker_once_and_not_with_every_task(
    client: Any, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []
    state = PackedBits.__getstate__
    monkeypatch.setattr(PackedBits, "__getstate__", lambda bits: sent.append(bits.n_rows) or state(bits))
    client.run(count_arrivals)
    with joblib.parallel_config("dask"):
        fit(rows, refit=False, counts=False, sharpen=False)
    assert sorted(sent) == [600, 1400]  # validation and training rows, for 180 tasks
    assert list(client.run(arrivals).values()) == [2, 2]


# ---------------------------------------------------------------- deaths


class KillAt(distributed.SchedulerPlugin):  # type: ignore[misc]
    """Kills workers at the very moment at which the scheduler moves a task to a state for the first time."""

    def __init__(
        self, scheduler: Any, workers: Workers, pids: dict[str, int], key: str, state: str, victims: str
    ) -> None:
        self.scheduler, self.workers, self.pids = scheduler, workers, pids
        self.key, self.state, self.victims = key, state, victims
        self.killed: list[str] = []

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        if self.killed or finish != self.state or not str(key).lstrip("('").startswith(self.key):
            return
        task = self.scheduler.tasks[key]
        has_it = task.processing_on or next(iter(task.who_has))
        self.killed = [
            w for w in self.pids if self.victims == "both" or (w == has_it.address) == (self.victims == "its")
        ]
        for address in self.killed:
            self.workers.kill(self.pids[address])
        self.workers.keep(2)


SMALL = linked_rows(300, 20, seed=1), linked_rows(100, 20, seed=2)


@pytest.fixture(scope="module")
def small() -> bytes:
    return fit(SMALL, refit=True)


@pytest.mark.parametrize(
    ("key", "state", "victims"),
    [
        ("lbarn_data", "processing", "its"),
        ("lbarn_data", "processing", "other"),
        ("lbarn_data", "processing", "both"),
        ("lbarn_data", "memory", "its"),
        ("lbarn-", "processing", "both"),
        ("lbarn-", "memory", "its"),
        ("lbarn-", "memory", "both"),
    ],
)
def test_workers_that_die_at_any_moment_change_nothing(
    scheduler: Any, workers: Workers, client: Any, small: bytes, key: str, state: str, victims: str
) -> None:
    """The data or a task has just been sent to a worker, or has just arrived there; it dies, or another, or both."""
    kill = KillAt(scheduler, workers, client.run(os.getpid), key, state, victims)
    scheduler.add_plugin(kill, name="kill")
    try:
        with joblib.parallel_config("dask"):
            assert fit(SMALL, refit=True) == small
    finally:
        scheduler.remove_plugin("kill")
    assert len(kill.killed) == (2 if victims == "both" else 1)


def test_a_worker_killed_on_the_way_loses_nothing_that_was_finished(client: Any, rows: Rows, tmp_path: Path) -> None:
    pids = list(client.run(os.getpid).values())
    with killed(pids[:1], tmp_path, finished=20) as then, joblib.parallel_config("dask"):
        trained = fit(rows, checkpoint=tmp_path)
    assert trained == fit(rows)
    assert then[0] < 180


@contextmanager
def killed(pids: list[int], checkpoint: Path, finished: int) -> Iterator[list[int]]:
    """SIGKILL to ``pids`` once so many dimensions are there; yields a list that gets their number at that moment."""
    then: list[int] = []

    def kill() -> None:
        wait_until(lambda: len(finished_dimensions(checkpoint)) >= finished, f"{finished} finished dimensions")
        then.append(len(finished_dimensions(checkpoint)))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield then
    finally:
        thread.join()


def test_a_worker_that_stands_still_for_a_while_changes_nothing(client: Any, small: bytes, tmp_path: Path) -> None:
    pid = next(iter(client.run(os.getpid).values()))
    os.kill(pid, signal.SIGSTOP)
    go_on = threading.Timer(3, os.kill, (pid, signal.SIGCONT))
    go_on.start()
    with joblib.parallel_config("dask"):
        assert fit(SMALL, refit=True) == small
    go_on.join()


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_calls, "_ANSWER", 5.0)
    monkeypatch.setattr(cluster_calls, "_NO_WORKER", 3.0)


@pytest.mark.filterwarnings("ignore:a worker was lost:RuntimeWarning")
@pytest.mark.parametrize("when", ["before", "on the way"])
@pytest.mark.parametrize("victim", ["workers", "scheduler"])
def test_a_cluster_that_does_not_come_back_is_an_error(
    victim: str, when: str, rows: Rows, tmp_path: Path, short_waits: None
) -> None:
    with cluster_process(tmp_path, n_workers=2, timeout=2) as (client, scheduler, workers):
        pids = [worker.pid for worker in workers] if victim == "workers" else [scheduler.pid]
        goal = 0 if when == "before" else 5
        message = r"no Dask worker has been seen|connection to the Dask scheduler is lost"
        with (
            killed(pids, tmp_path / "fit", finished=goal),
            joblib.parallel_config("dask", client=client),
            pytest.raises(RuntimeError, match=message),
        ):
            fit(rows, checkpoint=tmp_path / "fit")
    assert fit(rows, checkpoint=tmp_path / "fit") == fit(rows)


# ---------------------------------------------------------------- errors, and fits within the cluster


def fail_or_wait(position: int, folder: str, *, cancel: _core.CancelFlag) -> None:
    """The task that begins first fails, once another has begun."""
    (Path(folder) / f"{position}.began").touch()
    try:
        (Path(folder) / "first").touch(exist_ok=False)
    except FileExistsError:
        wait_until(cancel.is_set, "to be told to stop")
        (Path(folder) / f"{position}.stopped").touch()
        raise _core.Cancelled from None
    wait_until(lambda: len(list(Path(folder).glob("*.began"))) > 1, "another worker's task")
    raise KeyError("the task's own")


def test_an_error_in_one_task_stops_the_others_on_all_workers(client: Any, tmp_path: Path) -> None:
    with joblib.parallel_config("dask"), pytest.raises(KeyError, match="the task's own"):
        each_dimension(fail_or_wait, [(d, str(tmp_path)) for d in range(20)], n_jobs=None, done=lambda d, result: None)
    wait_until(lambda: list(tmp_path.glob("*.stopped")), "the other worker's task to stop")
    assert client.submit(lambda: 5).result(timeout=DEADLINE) == 5  # nothing of ours is in its way
    assert len(list(tmp_path.glob("*.began"))) < 20


def test_a_fit_that_is_itself_a_task_waits_for_its_own_tasks(client: Any, small: bytes) -> None:
    def task(rows: Rows) -> bytes:
        warnings.simplefilter("ignore")
        with joblib.parallel_config("dask"):
            model = LBARN(max_leaf_nodes=8, learning_rate=0.1, max_iter=30, random_state=5, refit=True)
            return model_bytes(model.fit(rows[0], X_val=rows[1]))

    fits = [client.submit(task, SMALL, pure=False) for _ in range(3)]  # more than there are workers
    assert [future.result(timeout=DEADLINE) for future in fits] == [small] * 3
