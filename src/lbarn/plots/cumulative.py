"""How the log-likelihood adds up along the order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lbarn._models.lbarn import LBARN
from lbarn.baselines.independent import TreeBaseline
from lbarn.plots.columns import shortened
from lbarn.plots.display import Display
from lbarn.plots.models import labelled
from lbarn.plots.numbers import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from typing_extensions import Self

__all__ = ["CumulativeScoreDisplay"]

_Network = LBARN | TreeBaseline


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
    def from_estimator(
        cls, models: _Network | Iterable[_Network] | Mapping[str, _Network], X: Any, *, ax: Axes | None = None
    ) -> Self:
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
            shown = f"{shortened(label)}: {number(score[-1], 2)}"
            ax.plot(np.arange(len(score) + 1), np.concatenate([[0], score]), label=shown)
        ax.set(xlabel="variables, in the order of the network", ylabel="log-likelihood of these, nats per row")
        ax.margins(x=0.01)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(loc="lower left", frameon=False)

    def _size(self) -> tuple[float, float]:
        return 6.4, 4.0


def _order(model: _Network) -> str:
    if not isinstance(model, LBARN):
        return "given"
    return model.order if isinstance(model.order, str) else "permutation"
