"""How many trees each column was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lbarn._models.density import Density
from lbarn.plots.columns import checked_shape, column_names, shortened
from lbarn.plots.display import Display, bars_size, draw_bars, draw_map, map_size
from lbarn.plots.models import only_network

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["TreeCountsDisplay"]


@dataclass
class TreeCountsDisplay(Display):
    """Numbers of selected trees: an image if the columns are pixels, otherwise bars.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 2)), 2, axis=1)
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.3, max_iter=60, random_state=0).fit(X)
    >>> display = TreeCountsDisplay.from_estimator(model, shape=(2, 2))
    >>> bool((display.n_trees == model.n_trees_).all())
    True
    """

    n_trees: NDArray[np.intp]
    names: list[str]
    shape: tuple[int, int] | None = None

    @classmethod
    def from_estimator(cls, model: Density, *, shape: Sequence[int] | None = None, ax: Axes | None = None) -> Self:
        """Draw ``model.n_trees_``; ``shape`` is (rows, columns) of an image."""
        network = only_network(model)
        pixels = checked_shape(shape, network.n_columns)
        n_trees = network.column_trees[network.position]
        return cls(n_trees, column_names(model), pixels).plot(ax)

    def _draw(self, ax: Axes) -> None:
        if self.shape is None:
            draw_bars(ax, [shortened(name) for name in self.names], self.n_trees, "trees")
        else:
            draw_map(ax, self.n_trees, self.shape, "trees")

    def _size(self) -> tuple[float, float]:
        return bars_size(len(self.n_trees)) if self.shape is None else map_size(self.shape)
