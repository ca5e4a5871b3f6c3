"""Names of columns as text that nothing obeys."""

from __future__ import annotations

__all__ = ["printable", "shortened"]

_LONGEST = 40


def printable(text: str) -> str:
    """The text with every character that a terminal or a browser would obey or hide written as an escape.

    Examples
    --------
    >>> print(printable("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(name: str) -> str:
    """The same, of a length that fits into a line."""
    shown = printable(name)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
