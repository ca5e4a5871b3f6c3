"""What a model makes of a few bits of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lbarn._models.lbarn import LBARN
from lbarn.baselines.independent import TreeBaseline
from lbarn.plots.columns import checked_bits, checked_shape
from lbarn.plots.display import Display, draw_rows, strips_size
from lbarn.synthesis import reconstruct

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["ReconstructionDisplay"]


@dataclass
class ReconstructionDisplay(Display):
    """Rows, the bits of them that were kept, and what the model makes of those.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = np.random.default_rng(0).integers(0, 2, (50, 8))
    >>> display = ReconstructionDisplay.from_estimator(IndependentBits().fit(X), X[:5], share=0.5, shape=(2, 4))
    >>> int(np.isnan(display.kept[0]).sum())
    4
    """

    original: NDArray[np.bool_]
    kept: NDArray[np.float64]
    reconstructions: NDArray[np.uint8]
    shape: tuple[int, int] | None = None

    @classmethod
    def from_estimator(
        cls,
        model: LBARN | TreeBaseline,
        X: Any,
        *,
        share: float = 0.1,
        n_draws: int = 3,
        shape: Sequence[int] | None = None,
        random_state: Any = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the rows of ``X``, the first variables of the order alone, and draws of all others given those.

        Parameters
        ----------
        model : fitted network
        X : table of 0 and 1
            A few rows: all of them are drawn.
        share, n_draws, random_state : as in :func:`lbarn.synthesis.reconstruct`
        shape : (rows, columns) of an image, optional
        """
        original = checked_bits(model, X)
        pixels = checked_shape(shape, original.shape[1])
        draws = reconstruct(model, X, share=share, n_draws=n_draws, random_state=random_state)
        kept = original.astype(np.float64)
        kept[:, model.order_[round(share * original.shape[1]) :]] = np.nan
        return cls(original, kept, draws, pixels).plot(ax)

    def _draw(self, ax: Axes) -> None:
        titles = ["original", "kept", *(f"drawn {k + 1}" for k in range(len(self.reconstructions)))]
        draw_rows(ax, titles, [self.original, self.kept, *self.reconstructions], self.shape)

    def _size(self) -> tuple[float, float]:
        return strips_size(len(self.original), 2 + len(self.reconstructions), self.shape)
