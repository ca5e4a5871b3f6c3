"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["write_atomically", "writing_atomically"]

_TEMPORARY = re.compile(r"\.lbarn-[0-9a-f]{16}\.tmp")
_QUIET = 3600  # seconds without a byte after which a temporary file without a living writer is removed
_MOST_LINKS = 40  # as in Linux
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_swept: set[Path] = set()  # folders that this process has looked through, for one look may take long


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` as :func:`writing_atomically` does."""
    with writing_atomically(path) as file:
        file.write(content)


@contextmanager
def writing_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that takes its place at ``path`` when the block is left; after an error nothing has changed.

    Any number of writers may write the same path at once: the last one to finish wins. A file that is replaced keeps its
    mode, and a link stays a link. A device, a pipe or an open descriptor (``/dev/stdout``) is written as a stream.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = Path(mkdtemp()) / "rows.csv"
    >>> with writing_atomically(path) as file:
    ...     _ = file.write(b"a,b ")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'a,b '
    """
    path = Path(path)
    try:
        target = _without_links(path)
        if isinstance(target, int):
            with open(os.dup(target), "wb") as file:
                yield file
        elif target.is_dir():
            raise IsADirectoryError(f"{path} is a folder; name a file in it")
        elif target.exists() and not target.is_file():
            with open(target, "wb") as file:
                yield file
        elif not target.parent.is_dir():
            raise FileNotFoundError(f"{target.parent} is not a folder: {path} cannot be written there")
        else:
            with _replacing(target) as file:
                yield file
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is None:  # the system does not say which file it is
            error.filename = str(path)
        raise


def _without_links(path: Path) -> Path | int:
    """Where the links at ``path`` lead, or the descriptor of this process that they name."""
    open_files = os.path.realpath("/dev/fd")
    target = path
    for _ in range(_MOST_LINKS):
        folder = os.path.realpath(target.parent)
        if folder == open_files and target.name.isdecimal():
            return int(target.name)
        if not target.is_symlink():
            return Path(folder, target.name)
        target = Path(folder, os.readlink(target))
    raise OSError(errno.ELOOP, "a link that leads back to itself", str(path))


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    _sweep(path.parent)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mode = None
    temporary = path.with_name(f".lbarn-{secrets.token_hex(8)}.tmp")

    def create(name: str, flags: int) -> int:  # never wider open than the file that it replaces
        return os.open(name, flags, 0o666 if mode is None else mode)

    try:
        with open(temporary, "xb", opener=create) as file:
            _is_free(file.fileno())  # takes the lock, which the system gives back when this process ends
            yield file
            file.flush()
            if mode is not None:
                os.chmod(temporary, mode)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_free(descriptor: int) -> bool:
    """Lock a file, unless another process (or another open file of this one) has; False also if there are no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, AttributeError):
        return False
    return True


def _sweep(folder: Path) -> None:
    """Remove what killed writers left in a folder, and nothing of those that are alive."""
    if folder in _swept:
        return
    _swept.add(folder)
    with suppress(OSError):  # one may be allowed to write in a folder, but not to list it
        for entry in folder.iterdir():
            if _TEMPORARY.fullmatch(entry.name):
                _remove_if_left(entry)


def _remove_if_left(temporary: Path) -> None:
    with suppress(OSError):  # another user's, or just removed by another process
        status = temporary.lstat()
        if not stat.S_ISREG(status.st_mode) or time.time() - status.st_mtime < _QUIET:
            return
        with open(temporary, "rb") as file:
            if _is_free(file.fileno()):
                temporary.unlink()
