"""Ctrl-C, a real one, ends a fit at once: its threads, its worker processes, and without loss of what was finished."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from fit_process import DEADLINE, finished_dimensions, linked_rows, model_bytes, start, wait_until
from lbarn import LBARN

# The fits are short, for speed: their curves still rise.
pytestmark = [
    pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising"),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="child processes are found in /proc"),
]

MINUTES: dict[str, Any] = {"max_leaf_nodes": 32, "max_iter": 300, "random_state": 0}
MINUTES_SHAPE = (20_000, 300)
AT_ONCE = 5.0  # seconds; it takes a few tenths, and this machine may be busy

THREADS: dict[str, Any] = {"backend": "threading", "n_jobs": 2}
ONE: dict[str, Any] = {"n_jobs": 1}
PROCESSES: dict[str, Any] = {"backend": "loky", "n_jobs": 2}


def children(pid: int) -> dict[int, str]:
    """Living child processes and when each was started, which tells them from later ones with the same number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[1]) == pid and fields[0] != "Z":
            found[int(folder.name)] = fields[19]
    return found


def is_alive(pid: int, started: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[19] == started and fields[0] != "Z"


def interrupt(process: subprocess.Popen[str], to_group: bool) -> tuple[str, float]:
    """Send SIGINT; what the process then said, and the seconds that it took to end."""
    begin = time.monotonic()
    if to_group:
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=DEADLINE)
    return output, time.monotonic() - begin


# A terminal sends its Ctrl-C to the whole group of processes; a notebook to the one that computes.
@pytest.mark.parametrize(
    ("parallel", "to_group"),
    [(ONE, True), (THREADS, True), (PROCESSES, True), (PROCESSES, False)],
    ids=["one job", "threads", "processes, all signalled", "processes, parent signalled"],
)
def test_ctrl_c_ends_threads_and_processes_at_once(parallel: dict[str, Any], to_group: bool, tmp_path: Path) -> None:
    process = start(
        MINUTES_SHAPE,
        MINUTES,
        parallel=parallel,
        checkpoint=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        wait_until(lambda: finished_dimensions(tmp_path), "a finished dimension")
        workers = children(process.pid)
        assert len(workers) >= 2 or parallel is not PROCESSES
        before = finished_dimensions(tmp_path)
        output, seconds = interrupt(process, to_group)
        assert process.returncode == -signal.SIGINT  # KeyboardInterrupt went all the way up
        assert "no thread computes" in output
        assert output.endswith("KeyboardInterrupt\n")  # and nothing of our own after it
        assert seconds < AT_ONCE
        wait_until(lambda: not any(is_alive(*worker) for worker in workers.items()), "the end of workers", AT_ONCE)
        assert before.items() <= finished_dimensions(tmp_path).items()
    finally:
        process.kill()


def test_an_interrupted_fit_continues_to_the_same_model_file(tmp_path: Path) -> None:
    shape = (8000, 48)  # seconds, of which the interrupt needs to find one
    parameters: dict[str, Any] = {"max_leaf_nodes": 16, "max_iter": 1500, "n_iter_no_change": None, "random_state": 0}
    process = start(
        shape,
        parameters,
        parallel=THREADS,
        checkpoint=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: len(finished_dimensions(tmp_path)) >= 4, "four finished dimensions")
    interrupt(process, to_group=True)
    assert process.returncode == -signal.SIGINT
    finished = finished_dimensions(tmp_path)
    rows = linked_rows(*shape)
    continued = model_bytes(LBARN(**parameters, n_jobs=2).fit(rows, checkpoint=tmp_path))
    assert finished.items() <= finished_dimensions(tmp_path).items()
    assert continued == model_bytes(LBARN(**parameters, n_jobs=2).fit(rows))
