"""What the displays share: matplotlib brought in when it is needed, colours, and rows drawn as images or strips.

No colour is fixed: all come from matplotlib's settings, so that a dark style gives dark pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure, SubFigure
    from typing_extensions import Self

__all__ = [
    "Display",
    "bars_size",
    "bit_colours",
    "blend",
    "draw_bars",
    "draw_map",
    "draw_rows",
    "shades",
    "strips_size",
]

_MANY = 40  # bars that still have room for their names
_STRIP = 3  # heights: of a strip, and of the gap after a group of strips
_GAP = 1


class Display:
    """Data that can be drawn. A subclass says how, in ``_draw``, and on how many inches, in ``_size``."""

    ax_: Axes
    figure_: Figure | SubFigure

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw, on ``ax`` if it is given, else on a figure of its own."""
        if ax is None:
            try:
                from matplotlib import pyplot
            except ImportError as error:
                raise ImportError("pictures are drawn by matplotlib; pip install 'lbarn[plots]'") from error
            ax = pyplot.subplots(figsize=self._size(), layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError

    def _size(self) -> tuple[float, float]:
        raise NotImplementedError


def blend(share: float, colour: str | None = None) -> NDArray[np.float64]:
    """Red, green and blue of ``colour`` (by default that of text), thinned by the background."""
    from matplotlib import rcParams
    from matplotlib.colors import to_rgb

    ink = np.array(to_rgb(colour or rcParams["text.color"]))
    return share * ink + (1 - share) * np.array(to_rgb(rcParams["axes.facecolor"]))


def shades() -> Colormap:
    """From the background over the first colour of the style to that of text."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("shades", [blend(0.04), blend(0.9, "C0"), blend(1)])


def draw_map(ax: Axes, values: NDArray[Any], shape: tuple[int, int], label: str) -> None:
    """One value for every pixel, with a scale."""
    drawn = ax.imshow(values.reshape(shape), cmap=shades(), interpolation="nearest")
    _scale(ax, drawn, label)
    _bare(ax)


def map_size(shape: tuple[int, int], n_images: int = 1) -> tuple[float, float]:
    """Inches for ``draw_map``, or for several of them side by side."""
    height = 3.4
    return 1.3 + n_images * min(2 * height, height * shape[1] / shape[0]), height


def _scale(ax: Axes, drawn: Any, label: str) -> None:
    scale = ax.figure.colorbar(drawn, ax=ax, label=label, shrink=0.8)
    scale.outline.set_visible(False)


def draw_bars(ax: Axes, labels: Sequence[str], values: NDArray[Any], label: str) -> None:
    """Bars from the top down, with their names; many are an outline from left to right, without names."""
    if len(values) > _MANY:
        ax.stairs(values, np.arange(len(values) + 1) - 0.5, fill=True, color="C0")
        ax.set(xlabel="column", ylabel=label, xlim=(-0.5, len(values) - 0.5), ylim=(0, None))
    else:
        ax.barh(np.arange(len(values)), values, height=0.7)
        ax.set_yticks(np.arange(len(values)), labels)
        ax.tick_params(axis="y", length=0)
        ax.set(xlabel=label, ylim=(len(values) - 0.4, -0.6))
    ax.spines[["top", "right"]].set_visible(False)


def bars_size(n: int) -> tuple[float, float]:
    return (8.0, 3.0) if n > _MANY else (5.5, 0.9 + 0.24 * n)


def draw_rows(ax: Axes, titles: Sequence[str], rows: Sequence[NDArray[Any]], shape: tuple[int, int] | None) -> None:
    """Tables of as many bits each, NaN where a bit is not known.

    With a shape, each table is a line of images under its title; without, the first rows of all tables are strips one
    below the other, then the second rows, and so on.
    """
    if shape is None:
        _draw_strips(ax, titles, rows)
        return
    height, width = shape[0] + 3, shape[1] + 3  # a frame, and a gap
    n = len(rows[0])
    canvas = np.ones((height * len(rows), width * n, 3)) * blend(0)
    for i, table in enumerate(rows):
        for j, row in enumerate(table):
            framed = np.ones((shape[0] + 2, shape[1] + 2, 3)) * blend(0.25)
            framed[1:-1, 1:-1] = bit_colours(row).reshape(*shape, 3)
            canvas[i * height : (i + 1) * height - 1, j * width : (j + 1) * width - 1] = framed
    ax.imshow(canvas, interpolation="nearest")
    ax.set_anchor("E")
    _bare(ax)
    ax.set_yticks(height * np.arange(len(rows)) + (height - 2) / 2, titles)
    ax.tick_params(axis="y", length=0)


def _draw_strips(ax: Axes, titles: Sequence[str], rows: Sequence[NDArray[Any]]) -> None:
    n, n_columns = rows[0].shape
    group = _STRIP * len(rows) + _GAP
    canvas = np.ones((group * n - _GAP, n_columns, 3)) * blend(0)
    for k, table in enumerate(rows):
        for i, row in enumerate(table):
            top = i * group + k * _STRIP
            canvas[top : top + _STRIP] = bit_colours(row)
    ax.imshow(canvas, interpolation="nearest", aspect="auto")
    _bare(ax)
    tops = (np.arange(n)[:, None] * group + np.arange(len(rows)) * _STRIP).ravel()
    ax.set_yticks(tops + (_STRIP - 1) / 2, [title for _ in range(n) for title in titles])
    ax.hlines(tops[np.arange(len(tops)) % len(rows) > 0] - 0.5, -0.5, n_columns - 0.5, color=blend(0), linewidth=1.5)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel(f"{n_columns} columns, filled where 1")


def strips_size(n_rows: int, n_tables: int, shape: tuple[int, int] | None) -> tuple[float, float]:
    """Inches for ``draw_rows``."""
    if shape is None:
        return 9.0, 0.7 + (0.2 * n_tables + 0.08) * n_rows
    pixel = min(0.075, 8.0 / (n_rows * (shape[1] + 3)))
    return 1.4 + pixel * n_rows * (shape[1] + 3), 0.2 + pixel * n_tables * (shape[0] + 3)


def bit_colours(row: NDArray[Any]) -> NDArray[np.float64]:
    """Colours of bits: the background for 0, that of text for 1, a tint where not known."""
    value = np.nan_to_num(row.astype(np.float64))[:, None]
    colours = blend(0.08) * (1 - value) + blend(0.9) * value
    colours[np.isnan(row.astype(np.float64))] = blend(0.35, "C0")
    return colours


def _bare(ax: Axes) -> None:
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_visible(False)
