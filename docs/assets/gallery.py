"""Runs the stories of the gallery when the site is built, and puts the pictures that they draw into it."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("MPLBACKEND", "Agg")
log = logging.getLogger("mkdocs.hooks.gallery")  # warnings of mkdocs' loggers fail a strict build
_pictures = Path(tempfile.mkdtemp(prefix="lbarn-gallery-"))


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def on_pre_build(config: Any) -> None:
    """Called by mkdocs before the build: whatever a story does not print as it says is a warning."""
    spec = importlib.util.spec_from_file_location("examples", Path(__file__).with_name("examples.py"))
    assert spec is not None
    assert spec.loader is not None
    examples = sys.modules["examples"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(examples)
    for page in sorted((Path(config.docs_dir) / "gallery").glob("*.md")):
        examples.bring_data(page, _pictures)
        with _inside(_pictures):
            for one in examples.disagreements(page, {"__name__": "__main__"}):
                log.warning(one)


def on_post_build(config: Any) -> None:
    """Called by mkdocs after the build."""
    for picture in _pictures.glob("*.png"):
        shutil.copy(picture, Path(config.site_dir) / "gallery")
    shutil.rmtree(_pictures, ignore_errors=True)
