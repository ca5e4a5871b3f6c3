"""Drawings for a web page: each as two SVG images, for light and for dark screens."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from lbarn.report.words import WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["DARK", "LIGHT", "Picture", "Theme", "draw_picture", "scatter_picture"]

_PIXELS = 96  # of a browser, to an inch
_FONT = 10.0  # points, of all text in all pictures


@dataclass(frozen=True)
class Theme:
    """Colours of a page and of the pictures on it."""

    page: str
    card: str
    text: str
    quiet: str
    line: str
    cycle: tuple[str, ...]

    @property
    def accent(self) -> str:
        return self.cycle[0]

    def settings(self) -> Any:
        """For matplotlib. Text stays text, in the reader's fonts; the same drawing gives the same bytes."""
        from cycler import cycler

        sizes = (
            "font.size",
            "axes.titlesize",
            "axes.labelsize",
            "xtick.labelsize",
            "ytick.labelsize",
            "legend.fontsize",
        )
        return {
            **dict.fromkeys(sizes, _FONT),
            "figure.facecolor": self.card,
            "axes.facecolor": self.card,
            "text.color": self.text,
            "axes.labelcolor": self.quiet,
            "axes.edgecolor": self.quiet,
            "xtick.color": self.quiet,
            "ytick.color": self.quiet,
            "ytick.labelcolor": self.text,
            "axes.prop_cycle": cycler(color=self.cycle),
            "svg.fonttype": "none",
            "svg.hashsalt": "lbarn",
        }


LIGHT = Theme("#f5f6f8", "#ffffff", "#1b2330", "#566070", "#dde2e8", ("#1f5fbf", "#c2570c", "#2b7a4b"))
DARK = Theme("#11151b", "#1a2029", "#e5e9ef", "#9ba7b6", "#2d3641", ("#7fb2ff", "#f2a65a", "#6fcf97"))


@dataclass(frozen=True)
class Picture:
    """The same drawing twice, as data URIs, and what to say to those who cannot see it."""

    light: str
    dark: str
    width: int
    height: int
    alt: str


def draw_picture(draw: Callable[[Axes], object], size: tuple[float, float], alt: str) -> Picture:
    """What ``draw`` draws on axes of this many inches, in both themes."""
    width, height = (round(_PIXELS * side) for side in size)
    return Picture(_svg(draw, size, LIGHT), _svg(draw, size, DARK), width, height, alt)


def _svg(draw: Callable[[Axes], object], size: tuple[float, float], theme: Theme) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Glyph .* missing")  # the reader's browser may have it
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(theme.settings())
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots())
        content = BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    return f"data:image/svg+xml;base64,{base64.b64encode(content.getvalue()).decode()}"


def scatter_picture(values: Any, limits: tuple[float, float], what: str) -> Picture:
    """Something of every column or pair, (2, n): in rows of the data, and in samples."""

    def draw(ax: Axes) -> None:
        ax.plot(limits, limits, color="0.6", linewidth=1, zorder=0)
        ax.plot(*values, "o", color="C0", markersize=3.5, alpha=0.5, markeredgewidth=0, clip_on=False)
        ax.set(xlabel=f"{what}, rows of the data", ylabel=f"{what}, samples", xlim=limits, ylim=limits)
        ax.set_aspect("equal", anchor="W")
        ax.spines[["top", "right"]].set_visible(False)

    alt = f"Scatter plot of each {what} in the rows of the data against that in samples"
    return draw_picture(draw, (WIDTH, 3.3), alt)
