"""A cell of a table, measured in a process of its own: so that memory and CPU time are its own, and that it can be given up.

CPU seconds are those of all its threads and of all processes that it started, so they are the same on a machine that is shared.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

__all__ = ["Stopwatch", "in_a_process"]

Cell = Callable[..., dict[str, Any]]


class Stopwatch:
    """Runs from its making on."""

    def __init__(self) -> None:
        self._start = perf_counter(), cpu_seconds(os.getpid())

    def read(self) -> dict[str, float]:
        seconds, cpu = self._start
        return {"seconds": perf_counter() - seconds, "cpu_seconds": cpu_seconds(os.getpid()) - cpu}


def in_a_process(cell: Cell, arguments: tuple[Any, ...], minutes: float) -> dict[str, Any]:
    """What the cell finds, or why it ``failed``: given up after so many CPU minutes, or four times as many by the clock."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # or threads that wait take the cores of others
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, cell, arguments))
    start = perf_counter()
    process.start()
    theirs.close()
    try:
        while not ours.poll(1):
            seconds, cpu = perf_counter() - start, cpu_seconds(process.pid)
            if cpu > 60 * minutes or seconds > 240 * minutes:
                after = f"{minutes:g} CPU minutes" if cpu > 60 * minutes else f"{4 * minutes:g} minutes by the clock"
                return {"failed": f"not finished after {after}", "seconds": seconds, "cpu_seconds": cpu}
        found: dict[str, Any] = ours.recv()
        return found
    except EOFError:
        process.join()
        return {"failed": f"ended with code {process.exitcode}"}
    finally:
        _end(process)  # it may wait for threads that it has started


def _end(process: SpawnProcess) -> None:
    """The process and all that it has started."""
    assert process.pid is not None
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:  # it does not lead a group yet, or has ended
        process.kill()
    process.join()


def _send(pipe: Connection, cell: Cell, arguments: tuple[Any, ...]) -> None:
    os.setsid()  # so that it can be given up with all that it has started
    Thread(target=_end_with_the_parent, daemon=True).start()
    try:
        pipe.send(cell(*arguments))
    except Exception as error:
        pipe.send({"failed": f"{type(error).__name__}: {error}"[:300]})


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os.killpg(os.getpid(), signal.SIGKILL)


def cpu_seconds(pid: int | None) -> float:
    """Of a process that leads a session, its threads and its children, those that have ended and those that are left."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()  # from the third field on: see proc(5)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        if int(fields[3]) == pid or file.parent.name == str(pid):
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK") if ticks else sum(os.times()[:4])
