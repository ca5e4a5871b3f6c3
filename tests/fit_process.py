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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    for path in checkpoint.rglob("*-[0-9]*.npz"):
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
    environment: dict[str, str] | None = None,
    **popen: Any,
) -> subprocess.Popen[str]:
    """Fit ``estimator`` on ``linked_rows(*shape)`` in a new process and session; ``model`` is where it is saved."""
    job = {
        "estimator": estimator,
        "shape": shape,
        "parameters": parameters,
        "parallel": parallel or {},
        "checkpoint": None if checkpoint is None else str(checkpoint),
        "model": None if model is None else str(model),
    }
    return subprocess.Popen(
        [sys.executable, __file__, json.dumps(job)],
        env={**os.environ, **(environment or {})},
        text=True,
        start_new_session=True,
        **popen,
    )


def main(job: dict[str, Any]) -> None:
    import joblib

    import lbarn

    warnings.filterwarnings("ignore", message="validation log-likelihood is still rising")
    model = getattr(lbarn, job["estimator"])(**job["parameters"])
    try:
        with joblib.parallel_config(**job["parallel"]):
            model.fit(linked_rows(*job["shape"]), checkpoint=job["checkpoint"])
    except KeyboardInterrupt:
        # A thread inside the core cannot end before its call does, so none left means that all have stopped. (loky keeps
        # one that waits.)
        if job["parallel"].get("backend") != "loky":
            wait_until(lambda: threading.active_count() == 1, "threads that stop after Ctrl-C", deadline=5)
        print("no thread computes", flush=True)
        raise
    if job["model"] is not None:
        model.save(job["model"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
