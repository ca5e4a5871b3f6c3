"""New rows, and the known rows that are most like them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lbarn._models.density import Density
from lbarn._tables.table import read_table
from lbarn.baselines.mixture import BernoulliMixture
from lbarn.plots.columns import checked_bits, checked_shape
from lbarn.plots.display import Display, draw_rows, strips_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["SamplesDisplay", "nearest_rows"]

_CHUNK_VALUES = 4_000_000  # values looked at together


@dataclass
class SamplesDisplay(Display):
    """Samples of a model beside the rows nearest to them: one that has memorised its rows is seen at once.

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
        model: Density | BernoulliMixture,
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
        # Samples are 0 and 1 whatever the model's threshold is.
        samples = read_table(model.sample(n_samples, random_state=random_state)).complete()
        return cls(samples, known[nearest_rows(samples, known)], pixels).plot(ax)

    def _draw(self, ax: Axes) -> None:
        draw_rows(ax, ["sample", "nearest row"], [self.samples, self.nearest], self.shape)

    def _size(self) -> tuple[float, float]:
        return strips_size(len(self.samples), 2, self.shape)


def nearest_rows(samples: NDArray[np.bool_], known: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The number of the known row that differs from each sample in the fewest bits; the first of several.

    Examples
    --------
    >>> import numpy as np
    >>> nearest_rows(np.array([[True, True, False]]), np.array([[False, False, True], [True, False, False]]))
    array([1])
    """
    signs = np.where(samples, 1, -1).astype(np.float32)
    nearest, most = np.zeros(len(samples), np.intp), np.full(len(samples), -np.inf)
    step = max(1, _CHUNK_VALUES // known.shape[1])
    for start in range(0, len(known), step):
        # Of D bits (D + product) / 2 are equal: a whole number, exact in single precision.
        equal = signs @ np.where(known[start : start + step], 1, -1).astype(np.float32).T
        best = equal.argmax(axis=1)
        value = equal[np.arange(len(samples)), best]
        nearest, most = np.where(value > most, start + best, nearest), np.maximum(value, most)
    return nearest
