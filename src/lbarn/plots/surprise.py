"""What is unexpected about a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import Density
from lbarn._tables.table import read_table, take_rows
from lbarn.plots.columns import checked_bits, checked_shape, column_names, shortened, shown_row
from lbarn.plots.display import Display, bars_size, bit_colours, draw_bars, draw_map, map_size
from lbarn.plots.numbers import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["SurpriseDisplay"]


@dataclass
class SurpriseDisplay(Display):
    """−log p of every value of a row, given those before it in the order.

    An image if the columns are pixels, with the row itself beside it; otherwise bars, the most surprising values first.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = np.array([[0, 1], [0, 1], [0, 1], [1, 1]])
    >>> SurpriseDisplay.from_estimator(IndependentBits().fit(X), X, 3).surprise.round(2)
    array([1.2 , 0.11])
    """

    bits: NDArray[Any]  # or the values of a row of any table
    surprise: NDArray[np.float64]
    names: list[str]
    n_shown: int = 10
    shape: tuple[int, int] | None = None
    log_likelihood: float | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Density,
        X: Any,
        row: int = 0,
        *,
        n_shown: int = 10,
        shape: Sequence[int] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the surprise of one row of ``X``.

        Parameters
        ----------
        model : fitted network or ensemble
        X : table
        row : int, default=0
            Its number in ``X``.
        n_shown : int, default=10
            Bars, if there is no shape.
        shape : (rows, columns) of an image, optional
        """
        check_is_fitted(model)
        n_rows = read_table(X).n_rows
        if not 0 <= row < n_rows:
            raise ValueError(f"X has no row {row}; it has {n_rows}, 0 to {n_rows - 1}")
        chosen = take_rows(X, np.array([row]))
        if model.codebook_.is_binary or shape is not None:
            values: NDArray[Any] = checked_bits(model, chosen)[0]
        else:
            values = shown_row(model, chosen)
        pixels = checked_shape(shape, len(values))
        surprise, score = model.surprise(chosen)[0], float(model.score_samples(chosen)[0])
        return cls(values, surprise, column_names(model, pixels), n_shown, pixels, score).plot(ax)

    def _draw(self, ax: Axes) -> None:
        if self.shape is None:
            shown = np.argsort(-self.surprise, kind="stable")[: self.n_shown]
            values = [int(value) if isinstance(value, np.bool_) else value for value in self.bits]
            labels = [f"{shortened(self.names[j])} = {shortened(str(values[j]))}" for j in shown]
            draw_bars(ax, labels, self.surprise[shown], "surprise, nats")
        else:
            draw_map(ax, self.surprise, self.shape, "surprise, nats")
            self._draw_row(ax, self.shape)
        if self.log_likelihood is not None:
            ax.set_title(f"log p(x) = {number(self.log_likelihood, 1)} nats", loc="left")

    def _draw_row(self, ax: Axes, shape: tuple[int, int]) -> None:
        """To the left of the map, on the same scale."""
        height, width = shape
        left = -width - 0.5 - max(1.0, width / 12)
        ax.imshow(
            bit_colours(self.bits).reshape(*shape, 3),
            interpolation="nearest",
            extent=(left, left + width, height - 0.5, -0.5),
        )
        ax.set(xlim=(left, width - 0.5), ylim=(height - 0.5, -0.5))

    def _size(self) -> tuple[float, float]:
        return bars_size(min(self.n_shown, len(self.bits))) if self.shape is None else map_size(self.shape, 2)
