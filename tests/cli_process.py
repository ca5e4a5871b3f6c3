"""``lbarn`` for tests: every command is a process of its own, forked from one that has imported what takes long.

Most of the time of a short command is for imports. ``run`` gives what ``subprocess.run`` of the executable would, in a fraction of it.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

EXECUTABLE = Path(sys.executable).with_name("lbarn")
IMPORTED = (
    "lbarn.cli.app",
    "lbarn.cli.data",
    "lbarn.cli.trainingdata",
    "lbarn._models.files",
    "lbarn._tables.output",
    "rich.table",
)
CAN_FORK = sys.platform == "linux" and hasattr(socket, "send_fds")
_NUMBER = struct.Struct("i")


class _Server:
    """The process that forks, and the way to talk to it."""

    def __init__(self) -> None:
        self._here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(there.fileno())], stdin=subprocess.DEVNULL, pass_fds=[there.fileno()]
        )
        there.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self._here.close()
        self._process.wait()

    def run(self, args: Sequence[str], stdin: bytes, timeout: float) -> subprocess.CompletedProcess[bytes]:
        pipes = [os.pipe() for _ in range(3)]
        (in_read, in_write), (out_read, out_write), (err_read, err_write) = pipes
        request = json.dumps({"args": list(args), "folder": os.getcwd(), "environment": dict(os.environ)})
        with self._lock:
            socket.send_fds(self._here, [request.encode()], [in_read, out_write, err_write])
            for end in (in_read, out_write, err_write):
                os.close(end)
            (pid,) = _NUMBER.unpack(self._here.recv(_NUMBER.size))
            too_long = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
            too_long.start()
            found: dict[int, bytes] = {}
            threads = [threading.Thread(target=_read, args=(end, found)) for end in (out_read, err_read)]
            threads.append(threading.Thread(target=_write, args=(in_write, stdin)))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            (code,) = _NUMBER.unpack(self._here.recv(_NUMBER.size))
            too_long.cancel()
        return subprocess.CompletedProcess([EXECUTABLE, *args], code, found[out_read], found[err_read])


def _read(end: int, found: dict[int, bytes]) -> None:
    with open(end, "rb") as file:
        found[end] = file.read()


def _write(end: int, content: bytes) -> None:
    try:
        with open(end, "wb") as file:
            file.write(content)
    except BrokenPipeError:  # nobody reads it
        pass


_server: _Server | None = None


def run(args: Sequence[str], *, stdin: bytes, timeout: float, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """What ``lbarn ARGS`` prints, and how it ends; with ``options`` of ``subprocess.run`` it is the executable itself."""
    global _server
    if options or not CAN_FORK:
        return subprocess.run(
            [EXECUTABLE, *args], input=stdin, capture_output=True, timeout=timeout, check=False, **options
        )
    if _server is None:
        _server = _Server()
    return _server.run(args, stdin, timeout)


def serve(connection: socket.socket) -> None:
    """Fork for every request, until there are no more. In a child this ends as the command does."""
    import importlib

    import numpy as np

    for name in IMPORTED:
        importlib.import_module(name)
    from lbarn.cli import main

    while True:
        message, ends, _, _ = socket.recv_fds(connection, 1 << 20, 3)
        if not message:
            return
        pid = os.fork()
        if pid:
            for end in ends:
                os.close(end)
            connection.send(_NUMBER.pack(pid))
            connection.send(_NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
            continue
        connection.close()
        for k, end in enumerate(ends):
            os.dup2(end, k)
            os.close(end)
        request = json.loads(message)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        random.seed()
        np.random.seed(None)  # noqa: NPY002  all children would draw the same
        sys.argv = [str(EXECUTABLE), *request["args"]]
        main()


if __name__ == "__main__":
    sys.path.pop(0)  # the folder of the tests
    serve(socket.socket(fileno=int(sys.argv[1])))
