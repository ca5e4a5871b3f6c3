"""Whoever trains the dimensions, however many and on whichever path: the same model, byte for byte."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from joblib.parallel import BACKENDS, ThreadingBackend, register_parallel_backend
from numpy.typing import NDArray

from fit_process import DEADLINE, linked_rows, model_bytes, start, wait_until
from lbarn import LBARN, _core
from lbarn._training.jobs import each_dimension

# The fits are short, for speed: their curves still rise.
pytestmark = pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising")

SHAPE = (400, 30)
PARAMETERS: dict[str, Any] = {"max_leaf_nodes": 4, "learning_rate": 0.1, "max_iter": 20, "order": "random"}
PARAMETERS |= {"refit": True, "random_state": 7}


def fit(X: NDArray[np.uint8], **parameters: Any) -> LBARN:
    return LBARN(**(PARAMETERS | parameters)).fit(X)


@pytest.fixture(scope="module")
def reference() -> bytes:
    return model_bytes(fit(linked_rows(*SHAPE), n_jobs=1))


# ---------------------------------------------------------------- the same file


@pytest.mark.parametrize("n_jobs", [None, 2, 5, -1])
def test_the_model_file_does_not_depend_on_the_number_of_threads(reference: bytes, n_jobs: int | None) -> None:
    assert model_bytes(fit(linked_rows(*SHAPE), n_jobs=n_jobs)) == reference


def test_processes_give_the_same_model_file(reference: bytes) -> None:
    with joblib.parallel_config("loky", n_jobs=2):
        assert model_bytes(fit(linked_rows(*SHAPE))) == reference


def test_processes_that_map_the_data_from_a_file_give_the_same_model_file() -> None:
    X = linked_rows(45_000, 4)
    expected = model_bytes(fit(X, max_iter=3))
    with joblib.parallel_config("loky", n_jobs=2):  # joblib maps arrays of over 1 MB, read-only
        assert model_bytes(fit(X, max_iter=3)) == expected


def test_weights_and_missing_values_give_the_same_model_file_in_processes() -> None:
    rng = np.random.default_rng(0)
    X = np.where(rng.random((300, 8)) < 0.1, np.nan, linked_rows(300, 8))
    weight = rng.random(300)
    expected = model_bytes(LBARN(**PARAMETERS).fit(X, sample_weight=weight))
    with joblib.parallel_config("loky", n_jobs=2):
        assert model_bytes(LBARN(**PARAMETERS).fit(X, sample_weight=weight)) == expected


@pytest.mark.parametrize("path", _core.simd_paths())
def test_every_simd_path_gives_the_same_model_file(reference: bytes, path: str, tmp_path: Path) -> None:
    file = tmp_path / "model"
    process = start(SHAPE, PARAMETERS, model=file, environment={"LBARN_SIMD": path})
    assert process.wait(DEADLINE) == 0
    assert file.read_bytes() == reference


def test_a_resumed_fit_gives_the_same_model_file(reference: bytes, tmp_path: Path) -> None:
    X = linked_rows(*SHAPE)
    fit(X).fit(X, checkpoint=tmp_path)
    for file in sorted(tmp_path.glob("*.safetensors"))[::2]:
        file.unlink()
    assert model_bytes(LBARN(**PARAMETERS).fit(X, checkpoint=tmp_path)) == reference


class AllAtOnce(ThreadingBackend):
    """Gives no results before the last one is there, as Spark's backend does."""

    supports_retrieve_callback = False

    def retrieve_result(self, out: Any, timeout: float | None = None) -> Any:
        return out.get(timeout)


@pytest.fixture
def all_at_once() -> Iterator[str]:
    register_parallel_backend("all-at-once", AllAtOnce)
    yield "all-at-once"
    del BACKENDS["all-at-once"]


def test_a_backend_without_a_stream_of_results_gives_the_same_model_file(reference: bytes, all_at_once: str) -> None:
    with joblib.parallel_config(all_at_once, n_jobs=2):
        assert model_bytes(fit(linked_rows(*SHAPE))) == reference


# ---------------------------------------------------------------- errors, and workers that die


def stop_or_fail(position: int, *, cancel: _core.CancelFlag) -> None:
    if position == 3:
        raise KeyError("the task's own")
    wait_until(cancel.is_set, "to be told to stop")
    stopped.append(position)
    raise _core.Cancelled


stopped: list[int] = []


def test_an_error_in_one_thread_reaches_the_caller_after_the_others_have_stopped() -> None:
    stopped.clear()
    with pytest.raises(KeyError, match="the task's own"):
        each_dimension(stop_or_fail, [(d,) for d in (0, 1, 2, 3, 4, 5)], n_jobs=4, done=lambda d, result: None)
    assert {0, 1, 2} <= set(stopped)


def fail(position: int, *, cancel: _core.CancelFlag) -> None:
    raise KeyError("the task's own")


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_an_error_of_a_task_or_of_the_caller_is_not_taken_for_a_dead_worker(backend: str) -> None:
    def full(position: int, result: object) -> None:
        raise OSError("the caller's own")

    with joblib.parallel_config(backend, n_jobs=2):
        with pytest.raises(KeyError, match="the task's own"):
            each_dimension(fail, [(0,), (1,), (2,)], n_jobs=None, done=lambda d, result: None)
        with pytest.raises(OSError, match="the caller's own"):
            each_dimension(count_calls, [(0, "/dev/null"), (1, "/dev/null")], n_jobs=None, done=full)


def count_calls(position: int, log: str, *, cancel: _core.CancelFlag) -> int:
    with open(log, "a") as file:
        file.write(f"{position}\n")
    return position * position


def die(position: int, log: str, deaths: int, done: str, *, cancel: _core.CancelFlag) -> int:
    """Position 1 takes its worker with it ``deaths`` times, once the caller has had position 0's result."""
    count_calls(position, log, cancel=cancel)
    if position == 1:
        wait_until(lambda: Path(done).exists(), "the caller's receipt of position 0")
        if Path(log).read_text().split().count("1") <= deaths:
            os._exit(1)
    return position * position


def run_dying(folder: Path, deaths: int) -> tuple[list[tuple[int, int]], list[str]]:
    """(what came back, positions in the order in which their tasks began)"""
    log, receipt = folder / "log", folder / "receipt"
    received: list[tuple[int, int]] = []

    def done(position: int, result: int) -> None:
        received.append((position, result))
        if position == 0:
            receipt.touch()

    arguments = [(d, str(log), deaths, str(receipt)) for d in range(6)]
    try:
        with joblib.parallel_config("loky", n_jobs=2):
            each_dimension(die, arguments, n_jobs=None, done=done)
    finally:
        began = log.read_text().split()
    return received, began


def test_what_a_dead_worker_left_is_submitted_again_and_nothing_else(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="a worker was lost") as warned:
        received, began = run_dying(tmp_path, deaths=1)
    assert sorted(received) == [(d, d * d) for d in range(6)]
    assert (began.count("0"), began.count("1")) == (1, 2)
    assert len(warned) == 1


def test_a_third_death_is_the_callers_error(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match="a worker was lost"), pytest.raises(BrokenProcessPool):
        run_dying(tmp_path, deaths=3)
    assert (tmp_path / "log").read_text().split().count("1") == 3


def test_a_number_of_jobs_that_makes_no_sense_is_not_taken_for_a_dead_worker() -> None:
    with pytest.raises(ValueError, match="n_jobs"):
        fit(linked_rows(20, 3), n_jobs=0)
