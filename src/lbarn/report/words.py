"""Words and sizes that all reports share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["NARROW", "WIDTH", "Content", "clean", "image_size", "labels", "listed", "percent", "short"]

Content = dict[str, Any]  # what a section of a template is given

WIDTH = 4.2  # inches of a picture that still reads on a telephone
NARROW = (WIDTH, 3.1)
_JOINERS = "\u200c\u200d\ufe0f"  # parts of letters and of emoji
_SEVERAL = 6  # rows, or columns, that are listed one by one


def listed(items: Sequence[str]) -> str:
    """The first few, and how many more there are.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    shown = list(items[:_SEVERAL])
    if len(items) > _SEVERAL:
        shown.append(f"{len(items) - _SEVERAL} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def percent(share: float) -> str:
    """A share in two digits, nothing for NaN.

    Examples
    --------
    >>> percent(0.2345), percent(0.02345), percent(float("nan"))
    ('23%', '2.3%', '')
    """
    if np.isnan(share):
        return ""
    return f"{share:.0%}" if share >= 0.1 or share == 0 else f"{share:.1%}"


def clean(text: str) -> str:
    """A name or a value without what would disturb the text around it, such as line breaks and changes of direction.

    Examples
    --------
    >>> clean("one\\n two \\u202e three")
    'one two � three'
    """
    return "".join(
        letter if letter.isprintable() or letter in _JOINERS else "\N{REPLACEMENT CHARACTER}"
        for letter in " ".join(text.split())
    )


def short(text: str, most: int = 36) -> str:
    """The same, and no longer than so many letters."""
    text = clean(text) or "(blank)"
    return text if len(text) <= most else text[: most - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def labels(names: Sequence[str], most: int = 15) -> list[str]:
    """Names as pictures have room for them: cut where they stay different.

    Examples
    --------
    >>> labels(["age", "reading_of_sensor_01", "reading_of_sensor_02"])
    ['age', '…g_of_sensor_01', '…g_of_sensor_02']
    """
    whole = [clean(name) for name in names]
    dots, half = "\N{HORIZONTAL ELLIPSIS}", (most - 1) // 2
    long = [name for name in whole if len(name) > most]
    same = next((k for k, letters in enumerate(zip(*long)) if len(set(letters)) > 1), 0)  # letters that all begin with
    cuts = (
        [name[: most - 1] + dots for name in whole],
        [dots + name[1 - most :] for name in whole],
        [name[:half] + dots + name[-half:] for name in whole],
        [dots + name[max(same - 3, 0) :][: most - 2] + dots for name in whole],
    )
    shown = [[name if len(name) <= most else short for name, short in zip(whole, cut)] for cut in cuts]
    return max(shown, key=lambda own: len(set(own)))


def image_size(shape: tuple[int, int], n_images: int = 1) -> tuple[float, float]:
    """Inches of a picture with as many images side by side and a scale."""
    return WIDTH, min(WIDTH, 0.4 + (WIDTH - 1) / n_images * shape[0] / shape[1])
