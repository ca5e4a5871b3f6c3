"""How the log-likelihood adds up along the order."""

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

__all__ = ["CumulativeScoreDisplay"]


@dataclass
class CumulativeScoreDisplay(Display):
    """Mean log-likelihood of the first 1, 2, ... variables, for one or several orders.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = np.random.default_rng(0).integers(0, 2, (50, 8))
    >>> display = CumulativeScoreDisplay.from_estimator({"as given": IndependentBits().fit(X)}, X)
    >>> display.scores["as given"].shape
    (8,)
    """

    scores: dict[str, NDArray[np.float64]]

    @classmethod
    def from_estimator(cls, models: Any, X: Any, *, ax: Axes | None = None) -> Self:
        """Draw ``cumulative_score(X)``.

        Parameters
        ----------
        models : fitted network, list of them, or mapping from labels to them
            Without labels, each goes by its order.
        X : table of 0 and 1
        """
        named = labelled(models, _order)
        return cls({label: model.cumulative_score(X) for label, model in named.items()}).plot(ax)

    def _draw(self, ax: Axes) -> None:
        for label, score in self.scores.items():
            ax.plot(
                np.arange(len(score) + 1), np.concatenate([[0], score]), label=f"{shortened(label)}: {score[-1]:.2f}"
            )
        ax.set(xlabel="variables, in the order of the network", ylabel="log-likelihood of these, nats per row")
        ax.margins(x=0.01)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="lower left", frameon=False)

    def _size(self) -> tuple[float, float]:
        return 6.4, 4.0


def _order(model: Any) -> str:
    order = getattr(model, "order", "given")
    return order if isinstance(order, str) else "permutation"
