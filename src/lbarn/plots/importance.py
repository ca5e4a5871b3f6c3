"""Which columns predict one column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import Density
from lbarn.plots.columns import checked_shape, column_names, find_column, shortened
from lbarn.plots.display import Display, bars_size, draw_bars, draw_map, map_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["ImportanceDisplay"]


@dataclass
class ImportanceDisplay(Display):
    """Importance of the predictors of one column.

    An image if the columns are pixels, the predicted one framed; otherwise bars, the strongest predictors first.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 2)), 2, axis=1)
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.3, max_iter=60, random_state=0).fit(X)
    >>> display = ImportanceDisplay.from_estimator(model, 3)
    >>> int(display.importance.argmax())
    2
    """

    importance: NDArray[np.float64]
    column: int
    names: list[str]
    n_shown: int = 15
    shape: tuple[int, int] | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Density,
        column: str | int,
        *,
        n_shown: int = 15,
        shape: Sequence[int] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw a row of ``model.feature_importances_``, which is not needed whole.

        Parameters
        ----------
        model : fitted network or ensemble
        column : str or int
            The column that is predicted, by name or number.
        n_shown : int, default=15
            Bars, if there is no shape.
        shape : (rows, columns) of an image, optional
        """
        check_is_fitted(model)
        pixels = checked_shape(shape, model.n_features_in_)
        predicted = find_column(model, column)
        importance = model.distribution.importance()[[predicted]].toarray()[0]
        names = column_names(model, pixels)
        return cls(importance, predicted, names, n_shown, pixels).plot(ax)

    def _strongest(self) -> NDArray[np.intp]:
        strongest = np.argsort(-self.importance, kind="stable")[: self.n_shown]
        return strongest[self.importance[strongest] > 0]

    def _draw(self, ax: Axes) -> None:
        title = shortened(self.names[self.column])
        if self.shape is None:
            shown = self._strongest()
            draw_bars(ax, [shortened(self.names[j]) for j in shown], self.importance[shown], "importance (gain)")
            ax.set_title(f"what predicts {title}", loc="left")
            if len(shown) == 0:
                ax.text(0.5, 0.5, "no other column", transform=ax.transAxes, ha="center", va="center")
                ax.set_axis_off()
        else:
            from matplotlib.patches import Rectangle

            draw_map(ax, self.importance, self.shape, "importance (gain)")
            row, column = divmod(self.column, self.shape[1])
            ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="C1", linewidth=2))
            ax.set_title(f"what predicts pixel {title}", loc="left")

    def _size(self) -> tuple[float, float]:
        return bars_size(len(self._strongest())) if self.shape is None else map_size(self.shape)
