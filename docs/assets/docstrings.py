"""Docstrings as the site shows them."""

from __future__ import annotations

import re
from typing import Any

import griffe


class PlainDocstrings(griffe.Extension):
    """Shows types in docstrings as they are written, and Sphinx's roles and references as plain Markdown.

    ``int, "auto" or None`` would be read as a Python expression and lose its quotes. A zero-width space, which no expression has,
    prevents that.
    """

    _CHANGES = (
        (re.compile(r"^(\w[\w, *]* : )(?=\S* )", re.MULTILINE), "\\1\u200b"),
        (re.compile(r":\w+:`~?([\w.]+)`"), r"`\1`"),
        (re.compile(r"(?:\.\. )?\[(\d+)\]_?"), r"[\1]"),
    )

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for everything that it finds."""
        if obj.docstring:
            for pattern, replacement in self._CHANGES:
                obj.docstring.value = pattern.sub(replacement, obj.docstring.value)
