"""The strongest dependencies, as a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import Density
from lbarn.plots.columns import checked_shape, column_names, shortened
from lbarn.plots.display import Display, blend, map_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["DependencyGraphDisplay", "strongest_pairs"]


def strongest_pairs(importance: csr_array, n: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """(column, predictor) of the ``n`` largest importances above 0, largest first, and these importances.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> pairs, strength = strongest_pairs(csr_array([[0, 0, 0], [2, 0, 0], [1, 3, 0]]), 2)
    >>> pairs.tolist(), strength.tolist()
    ([[2, 1], [1, 0]], [3, 2])
    """
    entries = importance.tocoo()
    i, j, gain = entries.row.astype(np.intp), entries.col.astype(np.intp), entries.data
    largest = np.lexsort((j, i, -gain))[:n]
    largest = largest[gain[largest] > 0]
    return np.stack([i[largest], j[largest]], axis=1), gain[largest]


@dataclass
class DependencyGraphDisplay(Display):
    """The pairs of columns that depend most on each other; the stronger, the thicker the line.

    Pixels of an image stand at their places; other columns stand on a circle, those that depend on each other close
    together. A line has no direction: which of two columns predicts the other is a matter of the order.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 2)), 2, axis=1)
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.3, max_iter=60, random_state=0).fit(X)
    >>> sorted(DependencyGraphDisplay.from_estimator(model, n_pairs=2).pairs.tolist())
    [[1, 0], [3, 2]]
    """

    pairs: NDArray[np.intp]
    strength: NDArray[np.float64]
    names: list[str]
    shape: tuple[int, int] | None = None

    @classmethod
    def from_estimator(
        cls, model: Density, *, n_pairs: int = 30, shape: Sequence[int] | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw the largest of ``model.feature_importances_``, which is not needed whole.

        Parameters
        ----------
        model : fitted network or ensemble
        n_pairs : int, default=30
        shape : (rows, columns) of an image, optional
        """
        check_is_fitted(model)
        pixels = checked_shape(shape, model.n_features_in_)
        if not isinstance(n_pairs, Integral) or n_pairs < 1:
            raise ValueError(f"n_pairs must be a whole number of at least 1; got {n_pairs!r}")
        pairs, strength = strongest_pairs(model.distribution.importance(), int(n_pairs))
        return cls(pairs, strength, column_names(model, pixels), pixels).plot(ax)

    def _draw(self, ax: Axes) -> None:
        ax.set_axis_off()
        ax.set_aspect("equal")
        if len(self.pairs) == 0:
            ax.text(0.5, 0.5, "no column depends on another", ha="center", va="center", transform=ax.transAxes)
        elif self.shape is None:
            self._draw_circle(ax)
        else:
            self._draw_pixels(ax, self.shape)

    def _draw_pixels(self, ax: Axes, shape: tuple[int, int]) -> None:
        y, x = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
        ends = np.unique(self.pairs)
        ax.scatter(x, y, s=4, color=blend(0.35), linewidths=0)
        for (i, j), width in zip(self.pairs.tolist(), self._widths()):
            a, b = np.array([x[i], y[i]]), np.array([x[j], y[j]])
            # Lines along a row of pixels do not hide each other.
            aside = 0.2 * np.array([a[1] - b[1], b[0] - a[0]])
            self._draw_arc(ax, a, (a + b) / 2 + aside, b, width)
        ax.scatter(x[ends], y[ends], s=14, color="C0", zorder=3, linewidths=0)
        ax.set(xlim=(-0.7, shape[1] - 0.3), ylim=(shape[0] - 0.3, -0.7))

    def _draw_circle(self, ax: Axes) -> None:
        nodes = self._around()
        angle = dict(zip(nodes.tolist(), 2 * np.pi * (0.25 - np.arange(len(nodes)) / len(nodes))))
        place = {node: (np.cos(a), np.sin(a)) for node, a in angle.items()}
        for (i, j), width in zip(self.pairs.tolist(), self._widths()):
            self._draw_arc(ax, place[i], 0.35 * np.add(place[i], place[j]), place[j], width)
        for node, a in angle.items():
            x, y = place[node]
            left = x < -1e-9
            ax.plot(x, y, "o", color="C0", markersize=5)
            ax.text(
                1.06 * x,
                1.06 * y,
                shortened(self.names[node]),
                ha="right" if left else "left",
                va="center",
                rotation=np.degrees(a) + (180 if left else 0),
                rotation_mode="anchor",
            )
        ax.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))

    def _draw_arc(self, ax: Axes, start: Any, bend: Any, end: Any, width: float) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        curve = Path([start, bend, end], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
        ax.add_patch(PathPatch(curve, fill=False, edgecolor="C0", linewidth=width, alpha=0.75, capstyle="round"))

    def _around(self) -> NDArray[np.intp]:
        """The nodes in an order that keeps those with a common edge close."""
        nodes, ends = np.unique(self.pairs, return_inverse=True)
        i, j = ends.reshape(self.pairs.shape).T
        n = len(nodes)
        edges = csr_array((np.ones(2 * len(i)), (np.concatenate([i, j]), np.concatenate([j, i]))), shape=(n, n))
        return nodes[reverse_cuthill_mckee(edges, symmetric_mode=True)]

    def _widths(self) -> NDArray[np.float64]:
        return 0.6 + 5.4 * self.strength / self.strength.max()

    def _size(self) -> tuple[float, float]:
        return (6.0, 6.0) if self.shape is None else map_size(self.shape)
