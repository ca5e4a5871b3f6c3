"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_atomically"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write under a temporary name, then rename: whoever looks sees all of it or nothing.

    A device or a pipe is written to as it is, and a link stays one.
    """
    if path.exists() and not path.is_file():
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder; name a file in it")
        path.write_bytes(content)
        return
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not a folder: {path} cannot be written there")
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
