"""A cell of a table, measured in a process of its own: so that memory is its own, and that it can be given up."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

__all__ = ["in_a_process"]

Cell = Callable[..., dict[str, Any]]


def in_a_process(cell: Cell, arguments: tuple[Any, ...], minutes: float) -> dict[str, Any]:
    """What the cell finds, or why it ``failed``."""
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # or threads that wait take the cores of others
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, cell, arguments))
    process.start()
    theirs.close()
    if not ours.poll(60 * minutes):
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
        return {"failed": f"not finished after {minutes:g} minutes"}
    try:
        found: dict[str, Any] = ours.recv()
    except EOFError:
        process.join()
        return {"failed": f"ended with code {process.exitcode}"}
    process.kill()  # it may wait for threads that it has started
    process.join()
    return found


def _send(pipe: Connection, cell: Cell, arguments: tuple[Any, ...]) -> None:
    os.setsid()  # so that it can be given up with all that it has started
    try:
        pipe.send(cell(*arguments))
    except Exception as error:
        pipe.send({"failed": f"{type(error).__name__}: {error}"[:300]})
