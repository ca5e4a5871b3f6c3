"""A cell of a benchmark has a process of its own, which is given up in time and leaves nothing running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from cells import Stopwatch, in_a_process

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="CPU time of others is read from /proc")

ROOT = Path(__file__).resolve().parents[1]


def busy(seconds: float) -> dict[str, Any]:
    watch = Stopwatch()
    while watch.read()["cpu_seconds"] < seconds:
        sum(range(100_000))
    return {"pid": os.getpid(), **watch.read()}


def endless(file: Path) -> dict[str, Any]:
    """With a process that it has started."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    file.with_suffix(".part").write_text(f"{os.getpid()} {child.pid}")
    file.with_suffix(".part").rename(file)
    return busy(600)


def fails() -> dict[str, Any]:
    raise ValueError("no such table")


def ends() -> dict[str, Any]:
    os._exit(3)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Any, seconds: float = 30) -> bool:
    end = monotonic() + seconds
    while not condition() and monotonic() < end:
        sleep(0.05)
    return bool(condition())


def test_what_it_finds_comes_back_with_its_own_cpu_time() -> None:
    found = in_a_process(busy, (0.2,), minutes=1)
    assert found["pid"] != os.getpid()
    assert 0.2 <= found["cpu_seconds"] < 5


def test_what_went_wrong_is_said() -> None:
    assert in_a_process(fails, (), minutes=1) == {"failed": "ValueError: no such table"}
    assert in_a_process(ends, (), minutes=1) == {"failed": "ended with code 3"}


def test_it_is_given_up_with_all_that_it_has_started(tmp_path: Path) -> None:
    found = in_a_process(endless, (tmp_path / "pids",), minutes=0.02)
    assert found["failed"] == "not finished after 0.02 CPU minutes"
    pids = [*map(int, (tmp_path / "pids").read_text().split())]
    assert until(lambda: not any(map(is_running, pids)))


def test_nothing_goes_on_when_the_benchmark_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    code = f"""
import pathlib
from cells import in_a_process
from test_benchmark_cells import endless
in_a_process(endless, (pathlib.Path({str(file)!r}),), 10)
"""
    path = os.pathsep.join(str(ROOT / folder) for folder in ("benchmarks", "tests"))
    benchmark = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": path})
    assert until(file.exists)
    pids = [*map(int, file.read_text().split())]
    assert all(map(is_running, pids))
    benchmark.kill()
    benchmark.wait()
    assert until(lambda: not any(map(is_running, pids)))
