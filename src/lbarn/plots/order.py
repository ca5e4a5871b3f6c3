"""Where each column stands in the order of the network."""

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

__all__ = ["OrderDisplay"]


@dataclass
class OrderDisplay(Display):
    """Positions in the order, 1 the first: an image if the columns are pixels, otherwise bars.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> model = IndependentBits().fit(np.eye(6))
    >>> OrderDisplay.from_estimator(model, shape=(2, 3)).position
    array([1, 2, 3, 4, 5, 6])
    """

    position: NDArray[np.intp]
    names: list[str]
    shape: tuple[int, int] | None = None

    @classmethod
    def from_estimator(cls, model: Density, *, shape: Sequence[int] | None = None, ax: Axes | None = None) -> Self:
        """Draw ``model.order_``; ``shape`` is (rows, columns) of an image."""
        network = only_network(model)
        pixels = checked_shape(shape, network.n_columns)
        return cls(network.position + 1, column_names(model), pixels).plot(ax)

    def _draw(self, ax: Axes) -> None:
        if self.shape is None:
            draw_bars(ax, [shortened(name) for name in self.names], self.position, "position in the order")
        else:
            draw_map(ax, self.position, self.shape, "position in the order")

    def _size(self) -> tuple[float, float]:
        return bars_size(len(self.position)) if self.shape is None else map_size(self.shape)
