"""How many trees each column was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lbarn.plots.columns import checked_shape, column_names, shortened
from lbarn.plots.display import Display, bars_size, draw_bars, draw_map, map_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["TreeCountsDisplay"]


@dataclass
class TreeCountsDisplay(Display):
    """Numbers of selected trees: an image where the columns are pixels, else bars.

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
    def from_estimator(cls, model: Any, *, shape: Sequence[int] | None = None, ax: Axes | None = None) -> Self:
        """Draw ``model.n_trees_``; ``shape`` is (rows, columns) of an image."""
        check_is_fitted(model, "n_trees_")
        pixels = checked_shape(shape, len(model.n_trees_))
        return cls(model.n_trees_, column_names(model), pixels).plot(ax)

    def _draw(self, ax: Axes) -> None:
        if self.shape is None:
            draw_bars(ax, [shortened(name) for name in self.names], self.n_trees, "trees")
        else:
            draw_map(ax, self.n_trees, self.shape, "trees")

    def _size(self) -> tuple[float, float]:
        return bars_size(len(self.n_trees)) if self.shape is None else map_size(self.shape)
