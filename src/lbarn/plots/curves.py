"""How validation went, round by round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from lbarn._models.density import Density
from lbarn._models.lbarn import LBARN
from lbarn.plots.columns import shortened
from lbarn.plots.display import Display
from lbarn.plots.models import labelled
from lbarn.plots.numbers import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["ValidationCurvesDisplay"]

_START = 20  # the first rounds, a share of 1 in so many, gain so much that all else would look flat


@dataclass
class ValidationCurvesDisplay(Display):
    """Log-likelihood of validation rows after every round, for one or several models; a dot where it is best.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 2)), 2, axis=1)
    >>> models = [LBARN(max_leaf_nodes=J, learning_rate=0.3, max_iter=60, random_state=0).fit(X) for J in (2, 4)]
    >>> list(ValidationCurvesDisplay.from_estimator(models).curves)
    ['J = 2', 'J = 4']
    """

    curves: dict[str, NDArray[np.float64]]

    @classmethod
    def from_estimator(
        cls, models: Density | Iterable[Density] | Mapping[str, Density], *, ax: Axes | None = None
    ) -> Self:
        """Draw ``valid_curve_``, summed over the columns.

        Parameters
        ----------
        models : fitted LBARN, list of them, or mapping from labels to them
            Without labels, each goes by its number of leaves J.
        """
        curves = {}
        for label, model in labelled(models, _leaves).items():
            if not isinstance(model, LBARN) or model.run_.is_trimmed:
                raise ValueError(f"the model {label!r} has no curves: it was trimmed, or is no LBARN")
            curves[label] = model.valid_curve_.sum(axis=0)
        return cls(curves).plot(ax)

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        for k, (label, curve) in enumerate(self.curves.items()):
            best = int(curve.argmax())
            ax.plot(curve, color=f"C{k}", label=f"{shortened(label)}: {number(curve[best], 2)}")
            ax.plot(best, curve[best], "o", color=f"C{k}", markersize=5)
        top = max(curve.max() for curve in self.curves.values())
        bottom = min(curve[-(-(len(curve) - 1) // _START)] for curve in self.curves.values())
        if bottom < top:
            ax.set_ylim(bottom, top + 0.05 * (top - bottom))
        ax.set(xlabel="rounds", ylabel="log-likelihood, nats per row")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="best", frameon=False)

    def _size(self) -> tuple[float, float]:
        return 6.4, 4.0


def _leaves(model: Density) -> str:
    return f"J = {model.max_leaf_nodes_}" if isinstance(model, LBARN) else type(model).__name__
