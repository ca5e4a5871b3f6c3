"""Whether unlikely values occur as often as the model says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

from lbarn._models.density import Density
from lbarn.inspection import Calibration, calibration
from lbarn.plots.display import Display, blend
from lbarn.plots.numbers import chance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["CalibrationDisplay"]

_LEVEL = 0.95  # of the error bars
_LEAST = 3e-7  # what is less probable is drawn at the left edge


@dataclass
class CalibrationDisplay(Display):
    """How often the rarer value of a cell occurs, against the probability the model gives it, both on a log scale.

    Cells are grouped by that probability. A dot on the line is right, above it the model is too certain. Bars are 95%
    intervals of the observed frequency; a triangle is the upper end of one for cells in which it never occurred.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = (np.random.default_rng(0).random((2000, 3)) < [0.5, 0.1, 0.01]).astype(int)
    >>> display = CalibrationDisplay.from_estimator(IndependentBits().fit(X[:1000]), X[1000:])
    >>> display.lines[-1].n_cells
    3000.0
    """

    lines: list[Calibration]

    @classmethod
    def from_estimator(cls, model: Density, X: Any, *, random_state: Any = 0, ax: Axes | None = None) -> Self:
        """Draw :func:`lbarn.inspection.calibration`.

        Parameters
        ----------
        model : fitted network or ensemble
        X : table of 0 and 1
            Rows that the model was not fitted on.
        random_state : int, RandomState instance or None, default=0
            For rows with missing values.
        """
        return cls(calibration(model, X, random_state=random_state)).plot(ax)

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

        sums = np.diff([[0.0] * 3, *([line.expected, line.observed, line.n_cells] for line in self.lines)], axis=0)
        expected, observed, n_cells = sums[sums[:, 2] > 1e-9].T
        predicted = np.maximum(expected / n_cells, _LEAST)
        frequency = np.minimum(observed / n_cells, 1)
        tail = (1 - _LEVEL) / 2
        low = np.where(observed > 0, beta.ppf(tail, observed + 0.5, np.maximum(n_cells - observed, 0) + 0.5), 0)
        high = beta.ppf(1 - tail, observed + 0.5, np.maximum(n_cells - observed, 0) + 0.5)
        seen = observed > 0
        bottom = min(predicted.min(), frequency[seen].min(initial=1)) / 2
        ax.plot([bottom, 1], [bottom, 1], color=blend(0.35), linewidth=1)
        ax.vlines(predicted, np.maximum(low, bottom / 10), high, color="C0", linewidth=1.5)
        ax.plot(predicted[seen], frequency[seen], "o", color="C0", markersize=5)
        ax.plot(predicted[~seen], high[~seen], "v", color="C0", markersize=5, markerfacecolor="none")
        ax.set(xscale="log", yscale="log", xlim=(bottom, 1), ylim=(bottom, 1))
        decades = 10.0 ** np.arange(np.ceil(np.log10(bottom)), 1)
        every = 1 + (len(decades) - 1) // 3  # of the x axis, so that labels do not meet
        for axis, ticks in ((ax.xaxis, decades[::-1][::every]), (ax.yaxis, decades)):
            axis.set_major_locator(FixedLocator(ticks.tolist()))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda p, _: chance(p)))
        ax.set(xlabel="probability of the rarer value", ylabel="how often it occurs")
        ax.spines[["top", "right"]].set_visible(False)

    def _size(self) -> tuple[float, float]:
        return 5.0, 4.0
