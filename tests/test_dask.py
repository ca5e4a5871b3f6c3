"""A real Dask cluster of two worker processes trains the same model, workers killed on the way or not."""

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

from fit_process import finished_dimensions, linked_rows, model_bytes, wait_until
from lbarn import LBARN
from lbarn._engine.bits import PackedBits

dask = pytest.importorskip("dask", reason="Dask is an extra: pip install 'lbarn[dask]'")
distributed = pytest.importorskip("distributed", reason="Dask is an extra: pip install 'lbarn[dask]'")

# The fits are short, for speed: their curves still rise.
pytestmark = pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising")

Rows = tuple[NDArray[np.uint8], NDArray[np.uint8]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    # Dask's memory manager takes a copy from a worker that happens to be idle every other second. Without it, what is
    # counted below does not depend on the clock.
    with (
        dask.config.set({"distributed.scheduler.active-memory-manager.start": False}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture
def client(cluster: Any) -> Any:
    """The cluster with both of its workers, which its nannies restart where a test has killed them."""
    cluster.wait_for_workers(2, timeout=60)
    return cluster


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
        fit(rows)
    assert sorted(sent) == [600, 1400]  # validation and training rows, for 180 tasks
    assert list(client.run(arrivals).values()) == [2, 2]


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


def test_a_worker_killed_on_the_way_changes_nothing(client: Any, rows: Rows, tmp_path: Path) -> None:
    pids = list(client.run(os.getpid).values())
    with killed(pids[:1], tmp_path, finished=20) as then, joblib.parallel_config("dask"), warnings.catch_warnings():
        # Dask gives the lost task to the other worker, unless the only copy of the data was lost: then it is our turn.
        warnings.filterwarnings("ignore", "a worker was lost", RuntimeWarning)
        trained = fit(rows, checkpoint=tmp_path)
    assert trained == fit(rows)
    assert then[0] < 180
    client.wait_for_workers(2, timeout=60)
    assert pids[0] not in client.run(os.getpid).values()


def test_all_workers_killed_on_the_way_change_nothing(client: Any, rows: Rows, tmp_path: Path) -> None:
    pids = list(client.run(os.getpid).values())
    with (
        killed(pids, tmp_path, finished=20) as then,
        joblib.parallel_config("dask"),
        pytest.warns(RuntimeWarning, match="a worker was lost"),
    ):
        trained = fit(rows, checkpoint=tmp_path)
    assert trained == fit(rows)
    assert then[0] < 180
