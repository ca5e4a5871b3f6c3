"""What the command line prints, and where results go. Nothing reaches a terminal that could steer it."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from lbarn._tables.output import TableOutput

__all__ = [
    "check_input",
    "check_output",
    "printable",
    "refuse",
    "release",
    "remark",
    "say",
    "show",
    "show_bytes",
    "show_json",
    "show_lines",
    "standard_output",
    "tell",
    "writing",
    "writing_rows",
]

_C1 = re.compile("[\x7f-\x9f]")  # control characters that JSON leaves as they are


def printable(text: str) -> str:
    """The text with line breaks, and every other character that a terminal would obey or hide written as an escape."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


_held: list[str] = []  # remarks that nobody has seen yet


def say(text: str) -> None:
    """One line to standard error, whatever the text, after the remarks that led to it."""
    release()
    _print(" ".join(text.split()))


def tell(lines: Iterable[str]) -> None:
    """Lines to standard error, of text that may have line breaks of its own: these are escaped."""
    release()
    for line in lines:
        _print(line.replace("\n", "\\n"))


def remark(lines: Iterable[str]) -> None:
    """The same, for what is known before the work is done: at once on a terminal, elsewhere when the command has succeeded.

    Of a command that fails, programs and logs have one line: the reason.
    """
    _held.extend(line.replace("\n", "\\n") for line in lines)
    if sys.stderr.isatty():
        release()


def release() -> None:
    """Print the remarks that were held back."""
    while _held:
        _print(_held.pop(0))


def refuse(why: str) -> None:
    """The one line of a command that has failed."""
    _held.clear()
    say(f"lbarn: {why}")


def _print(line: str) -> None:
    encoding = sys.stderr.encoding or "utf-8"
    print(printable(line).encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """A result, to standard output; what the terminal cannot show is escaped."""
    show_bytes(f"{printable(text)}\n".encode(sys.stdout.encoding, "backslashreplace"))


def show_lines(lines: Iterable[str]) -> None:
    """A result line by line, whatever line breaks are in them."""
    show("\n".join(line.replace("\n", "\\n") for line in lines))


def show_json(value: Any) -> None:
    """A result as JSON, which has escapes of its own."""
    text = json.dumps(value, ensure_ascii=False)
    text = _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    show_bytes(f"{text}\n".encode(sys.stdout.encoding, "backslashreplace"))


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


_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npy", ".npz", ".libsvm", ".svm", ".xlsx", ".xls", ".ods")


def check_output(name: str | None, *inputs: str | None, is_table: bool = False, like: str = "") -> None:
    """Refuse a place where nothing can be written, or that is read from, before any work is done.

    ``like`` is the usual name of a result that is no table, and must not be called like one.
    """
    if name is None:
        return
    path = Path(name)
    try:
        place: os.stat_result | None = os.stat(path)
    except FileNotFoundError:
        place = None
    except OSError as error:
        raise ValueError(f"{name}: cannot be written ({error.strerror or error})") from error
    if place is not None and stat.S_ISDIR(place.st_mode):
        raise ValueError(f"{name}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ValueError(f"{name}: cannot be written, {path.parent} is not a folder")
    if not os.access(path if place else path.parent, os.W_OK):
        raise ValueError(f"{name}: cannot be written (Permission denied)")
    if place is not None and stat.S_ISREG(place.st_mode):
        for source in inputs:
            if source is not None and _is_at(source, place):
                raise ValueError(f"{name}: the result would replace what is read ({source}); name another file by -o")
    if like and path.name.lower().removesuffix(".gz").endswith(_TABLES):
        raise ValueError(f"{name}: the result is not a table; name it like {like}")
    if is_table:
        from lbarn._tables.files import ending_of

        ending_of(name, written=True)


def _is_at(source: str, place: os.stat_result) -> bool:
    try:
        found = os.fstat(sys.stdin.fileno()) if source == "-" else os.stat(source)
    except (OSError, ValueError, AttributeError):  # a data set; standard input that is closed
        return False
    return os.path.samestat(found, place)


def standard_output() -> BinaryIO:
    return sys.stdout.buffer


def show_bytes(content: bytes) -> None:
    """A result that is not text, to standard output."""
    with writing(None):
        rest = memoryview(content)
        while rest:  # an unbuffered stream (python -u) may take a part only, and not say so
            rest = rest[standard_output().write(rest) :]


@contextmanager
def writing_rows(out: str | None, names: Sequence[str] | None) -> Iterator[TableOutput]:
    """Where rows go: a file, or standard output as CSV."""
    from lbarn._tables.output import csv_to, writing_table

    shown = printable if sys.stdout.isatty() else None
    with writing(out), csv_to(standard_output(), names, shown) if out is None else writing_table(out, names) as output:
        yield output


@contextmanager
def writing(name: str | None) -> Iterator[None]:
    """Around what writes to a file, or to standard output: a closed pipe ends the program without a word."""
    try:
        yield
        if name is None:
            sys.stdout.flush()
    except OSError as error:
        if error.errno is None:  # not the system's
            raise
        if name is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left has nowhere to go
        if isinstance(error, BrokenPipeError):
            sys.exit(128 + 13)  # as of a program that SIGPIPE has ended
        raise OSError(f"{name or 'standard output'}: cannot be written ({error.strerror or error})") from error
