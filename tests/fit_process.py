"""A fit in a process of its own, for tests that kill it, interrupt it, watch its output or force a SIMD path.

Run as a script it does what the JSON in its argument says: ``start`` writes that JSON, ``main`` reads it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Process = subprocess.Popen[Any]

DEADLINE = 60.0  # seconds after which a process that is waited for counts as hung


def linked_rows(n: int, d: int, seed: int = 0) -> NDArray[np.uint8]:
    """Bits of which each one copies an earlier one, more often than not."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, d), dtype=np.uint8)
    for j in range(1, d):
        copies = rng.random(n) < 0.7
        X[copies, j] = X[copies, rng.integers(j)]
    return X


def model_bytes(model: Any) -> bytes:
    """The model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return path.read_bytes()


def finished_dimensions(checkpoint: Path) -> dict[str, int]:
    """Files of finished dimensions and when each was written."""
    found = {}
    for path in checkpoint.rglob("*-[0-9]*.safetensors"):
        found[str(path.relative_to(checkpoint))] = path.stat().st_mtime_ns
    return found


def wait_until(condition: Callable[[], Any], what: str, deadline: float = DEADLINE) -> None:
    """Poll an outside process's state, which gives no other sign."""
    end = time.monotonic() + deadline
    while not condition():
        assert time.monotonic() < end, f"waited {deadline:.0f} s in vain: {what}"
        time.sleep(0.002)


def start(
    shape: tuple[int, int],
    parameters: dict[str, Any],
    *,
    estimator: str = "LBARN",
    parallel: dict[str, Any] | None = None,
    checkpoint: Path | None = None,
    model: Path | None = None,
    n_fits: int = 1,
    environment: dict[str, str] | None = None,
    **popen: Any,
) -> subprocess.Popen[str]:
    """Fit ``estimator`` on ``linked_rows(*shape)`` in a new process and session; ``model`` is where it is saved.

    ``n_fits`` threads do the same at once; with LBARN_TEST_PID in its environment it believes to be that process.
    """
    job = {
        "estimator": estimator,
        "shape": shape,
        "parameters": parameters,
        "parallel": parallel or {},
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "model": None if model is None else str(model),
        "n_fits": n_fits,
    }
    return subprocess.Popen(
        [sys.executable, __file__, json.dumps(job)],
        env={**os.environ, **(environment or {})},
        text=True,
        start_new_session=True,
        **popen,
    )


PRELOAD = ["--preload", "lbarn._training.run"]  # imports that else come in the middle of a fit, and take their time


def start_worker(address: str) -> Process:
    """A Dask worker that nobody starts again."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address]
    options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", *PRELOAD]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}  # for functions of test files
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*command, *options], env=environment, **silent)


@contextmanager
def cluster_process(folder: Path, n_workers: int, timeout: float) -> Iterator[tuple[Any, Process, list[Process]]]:
    """(client, scheduler, workers): a Dask cluster in processes of its own."""
    import distributed

    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--scheduler-file", str(file)]
    options = ["--port", "0", "--no-dashboard", "--no-show", *PRELOAD]
    processes = [subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
    try:
        wait_until(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler's file")
        address = json.loads(file.read_text())["address"]
        processes += [start_worker(address) for _ in range(n_workers)]
        with distributed.Client(address, timeout=timeout, set_as_default=False) as client:
            client.wait_for_workers(n_workers, timeout=DEADLINE)
            yield client, processes[0], processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main(job: dict[str, Any]) -> None:
    import joblib

    import lbarn

    warnings.filterwarnings("ignore", message="validation log-likelihood is still rising")
    if "LBARN_TEST_PID" in os.environ:
        os.getpid = lambda: int(os.environ["LBARN_TEST_PID"])

    def fit(_: int = 0) -> Any:
        model = getattr(lbarn, job["estimator"])(**job["parameters"])
        with joblib.parallel_config(**job["parallel"]):
            return model.fit(linked_rows(*job["shape"]), checkpoint=job["checkpoint"])

    if job["n_fits"] > 1:
        with ThreadPoolExecutor(job["n_fits"]) as pool:
            models = list(pool.map(fit, range(job["n_fits"])))
        assert len(set(map(model_bytes, models))) == 1
        model = models[0]
    else:
        model = interruptible(fit, job["parallel"].get("backend"))
    if job["model"] is not None:
        model.save(job["model"])


def interruptible(fit: Callable[[], Any], backend: str | None) -> Any:
    try:
        return fit()
    except KeyboardInterrupt:
        # A thread inside the core cannot end before its call does, so none left means that all have stopped. (loky keeps
        # one that waits.)
        if backend != "loky":
            wait_until(lambda: threading.active_count() == 1, "threads that stop after Ctrl-C", deadline=5)
        print("no thread computes", flush=True)
        raise


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
