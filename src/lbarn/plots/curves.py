"""How validation went, round by round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lbarn.plots.columns import shortened
from lbarn.plots.display import Display
from lbarn.plots.models import labelled

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
    def from_estimator(cls, models: Any, *, ax: Axes | None = None) -> Self:
        """Draw ``valid_curve_``, summed over the columns.

        Parameters
        ----------
        models : fitted LBARN, list of them, or mapping from labels to them
            Without labels, each goes by its number of leaves J.
        """
        named = labelled(models, lambda model: f"J = {getattr(model, 'max_leaf_nodes_', '?')}")
        for label, model in named.items():
            if not hasattr(model, "valid_curve_"):
                raise ValueError(f"the model {label!r} has no curves: it was trimmed, or is no LBARN")
        return cls({label: model.valid_curve_.sum(axis=0) for label, model in named.items()}).plot(ax)

    def _draw(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        for k, (label, curve) in enumerate(self.curves.items()):
            best = int(curve.argmax())
            ax.plot(curve, color=f"C{k}", label=f"{shortened(label)}: {curve[best]:.2f}")
            ax.plot(best, curve[best], "o", color=f"C{k}", markersize=5)
        top = max(curve.max() for curve in self.curves.values())
        bottom = min(curve[-(-(len(curve) - 1) // _START)] for curve in self.curves.values())
        if bottom < top:
            ax.set_ylim(bottom, top + 0.05 * (top - bottom))
        ax.set(xlabel="rounds", ylabel="log-likelihood, nats per row")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="lower right", frameon=False)

    def _size(self) -> tuple[float, float]:
        return 6.4, 4.0
