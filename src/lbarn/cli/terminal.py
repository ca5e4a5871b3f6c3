"""What the command line says besides results: a progress bar for what takes long, and where results go."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["check_input", "check_output", "say", "show", "show_bytes", "show_json", "slices", "waiting", "writing"]

_PATIENCE = 2.0  # seconds without a bar


def say(text: str) -> None:
    """One line to standard error, whatever the text."""
    line = " ".join(text.split())
    print("".join(c if c.isprintable() else "?" for c in line), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """A result, to standard output; what the terminal cannot show is escaped."""
    show_bytes(f"{text}\n".encode(sys.stdout.encoding, "backslashreplace"))


def show_json(value: Any) -> None:
    show(json.dumps(value, ensure_ascii=False))


def slices(n: int, step: int) -> Iterator[slice]:
    """0..n, ``step`` at a time: between them a bar can move."""
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


@contextmanager
def waiting(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """A bar that appears after two seconds where standard error is a terminal; call the function with rows done."""
    if not sys.stderr.isatty():
        yield lambda rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    if total is not None:
        columns += [TextColumn("left"), TimeRemainingColumn()]
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(what, total=total)
    timer = threading.Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda rows: bar.advance(task, rows)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def check_input(*names: str | None) -> None:
    """Refuse files that are not there before anything is imported or computed."""
    for name in names:
        if name is None or name == "-" or name.startswith("dataset:"):
            continue
        path = Path(name)
        if not path.exists():
            raise FileNotFoundError(f"{name}: no such file")
        if path.is_dir():
            raise IsADirectoryError(f"{name}: is a folder, not a file")
        if not os.access(path, os.R_OK):
            raise PermissionError(f"{name}: cannot be read (Permission denied)")


def check_output(name: str | None) -> None:
    """Refuse a place where nothing can be written before any work is done."""
    if name is None:
        return
    path = Path(name)
    if path.is_dir():
        raise ValueError(f"{name}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{name}: cannot be written, {path.parent} is not a folder")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"{name}: cannot be written (Permission denied)")


def show_bytes(content: bytes) -> None:
    """A result that is not text, to standard output."""
    with writing(None):
        rest = memoryview(content)
        while rest:  # an unbuffered stream (python -u) may take a part only, and not say so
            rest = rest[sys.stdout.buffer.write(rest) :]


@contextmanager
def writing(name: str | None) -> Iterator[None]:
    """Around what writes to a file, or to standard output: a closed pipe ends the program without a word."""
    try:
        yield
        if name is None:
            sys.stdout.flush()
    except OSError as error:
        if name is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left has nowhere to go
        if isinstance(error, BrokenPipeError):
            sys.exit(128 + 13)  # as of a program that SIGPIPE has ended
        raise ValueError(f"{name or 'standard output'}: cannot be written ({error.strerror or error})") from error
