"""New rows, and the known rows that are most like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import pairwise_distances_argmin

from lbarn._tables.table import read_table
from lbarn.plots.columns import checked_bits, checked_shape
from lbarn.plots.display import Display, draw_rows, strips_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["SamplesDisplay"]


@dataclass
class SamplesDisplay(Display):
    """Samples of a model beside the rows nearest to them: whoever learned by heart is seen at once.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = np.random.default_rng(0).integers(0, 2, (50, 9))
    >>> display = SamplesDisplay.from_estimator(IndependentBits().fit(X), X, n_samples=4, shape=(3, 3))
    >>> display.samples.shape, display.nearest.shape
    ((4, 9), (4, 9))
    """

    samples: NDArray[np.bool_]
    nearest: NDArray[np.bool_]
    shape: tuple[int, int] | None = None

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        X: Any,
        *,
        n_samples: int = 10,
        shape: Sequence[int] | None = None,
        random_state: Any = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Draw samples and, below each, the row of ``X`` that differs from it in the fewest bits.

        Parameters
        ----------
        model : fitted density
        X : table of 0 and 1
            The rows that the model was fitted on, or others.
        n_samples : int, default=10
        shape : (rows, columns) of an image, optional
        random_state : int, RandomState instance or None, default=0
        """
        known = checked_bits(model, X)
        pixels = checked_shape(shape, known.shape[1])
        drawn = read_table(
            model.sample(n_samples, random_state=random_state)
        )  # 0 and 1, whatever the model's threshold
        samples = drawn.complete()
        # Between bits, the square of the Euclidean distance is the number of those that differ.
        nearest = pairwise_distances_argmin(samples.astype(np.float32), known.astype(np.float32))
        return cls(samples, known[nearest], pixels).plot(ax)

    def _draw(self, ax: Axes) -> None:
        draw_rows(ax, ["sample", "nearest row"], [self.samples, self.nearest], self.shape)

    def _size(self) -> tuple[float, float]:
        return strips_size(len(self.samples), 2, self.shape)
