"""How a model came about: facts, pictures and words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lbarn._models.density import Density
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.lbarn import LBARN
from lbarn._network.repeats import Repeats
from lbarn.baselines.mixture import BernoulliMixture
from lbarn.plots import TreeCountsDisplay, ValidationCurvesDisplay
from lbarn.plots.display import bars_size
from lbarn.plots.numbers import number
from lbarn.report.pictures import Picture, draw_picture
from lbarn.report.words import NARROW, WIDTH, Content, image_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Training", "training_facts", "training_section"]

Floats = NDArray[np.float64]

_NAMED_BARS = 40


@dataclass(frozen=True)
class Training:
    """How the model came about; what is None does not apply to its kind."""

    kind: str
    parameters: dict[str, Any]
    n_networks: int | None = None
    n_trees: int | None = None
    trees_per_column: NDArray[np.intp] | None = None
    max_leaf_nodes: int | None = None
    learning_rate: float | None = None
    selection: str | None = None
    curves: dict[str, Floats] | None = None
    repeats: Repeats | None = None

    @property
    def validated(self) -> float | None:
        """The log-likelihood of the held-out rows, per row."""
        return None if self.curves is None else float(self.curves["selected model"][-1])


def training_facts(model: Density | BernoulliMixture) -> Training:
    """What the model knows about how it came about."""
    kind, parameters = type(model).__name__, model.get_params()
    if isinstance(model, LBARNEnsemble):
        n_trees = model.distribution.n_trees
        return Training(kind, parameters, n_networks=len(model.members_), n_trees=n_trees, repeats=model.repeats_)
    if not isinstance(model, LBARN):
        return Training(kind, parameters)
    return Training(
        kind,
        parameters,
        n_trees=model.distribution.n_trees,
        trees_per_column=model.n_trees_,
        max_leaf_nodes=model.max_leaf_nodes_,
        learning_rate=model.learning_rate_,
        selection=model.selection_,
        curves=_found_curves(model),
        repeats=model.repeats_,
    )


def _found_curves(model: LBARN) -> dict[str, Floats] | None:
    """Log-likelihood per row after every round; that of the selected model has columns stop at their numbers of trees."""
    if model.run_.is_trimmed:
        return None
    selected = model.run_.selected_curve([len(own) for own in model.network_.trees])
    return {
        "training rows": model.train_curve_.sum(axis=0),
        "held-out rows": model.valid_curve_.sum(axis=0),
        "selected model": selected,
    }


def training_section(
    found: Training, names: list[str], shape: tuple[int, int] | None = None, *, independent: float | None = None
) -> Content:
    """What the page says about training. Curves are those of log-likelihoods, or of gains over ``independent`` columns."""
    pictures: list[tuple[Picture, str]] = []
    if found.n_networks is not None:
        text = (
            f"It is a mixture of {found.n_networks} networks of boosted trees, which read the columns in different orders: "
            f"{found.n_trees:,} trees in all. How many trees each column gets was chosen on held-out rows."
        )
    elif found.trees_per_column is None:
        text = f"It is a {found.kind}, one of the simple models to compare networks with."
    else:
        text = (
            f"It is a network of boosted trees: {found.n_trees:,} trees of at most {found.max_leaf_nodes} leaves, "
            f"{found.trees_per_column.mean():,.0f} per column on average, added with a learning rate of "
            f"{found.learning_rate:g}. How many trees each column gets was chosen on held-out rows (selection "
            f"{found.selection!r})."
        )
        if found.curves is None:
            text += " The model was trimmed: its training curves are not in the file."
        else:
            pictures.append((_curves(found.curves, independent), _CURVES_LEGEND))
        pictures.append((_tree_counts(found.trees_per_column, names, shape), "Selected trees per column."))
    if found.repeats is not None:
        text += f" Beside it, {len(found.repeats):,} rows are kept as they are: {found.repeats.share:.1%} of new rows are taken to repeat one."
    parameters = [(name, str(value)) for name, value in sorted(found.parameters.items())]
    return {"text": text, "pictures": pictures, "parameters": parameters}


_CURVES_LEGEND = (
    "Every round adds a tree to each column. In the selected model, each column stops at its own number of trees; its curve is "
    "for the held-out rows, too. A dot marks the best of each curve, the figure beside its name."
)


def _curves(curves: dict[str, Floats], independent: float | None) -> Picture:
    what = "log-likelihood" if independent is None else "gain over independent columns"
    shown = {name: curve - (independent or 0.0) for name, curve in curves.items()}
    alt = f"{what.capitalize()}, round by round, in nats per row. " + "; ".join(
        f"{name}: {number(curve.max(), 2)} at best" for name, curve in shown.items()
    )

    def draw(ax: Axes) -> None:
        ValidationCurvesDisplay(shown).plot(ax)
        if independent is not None:
            ax.set_ylabel("gain, nats per row")

    return draw_picture(draw, NARROW, alt)


def _tree_counts(counts: NDArray[np.intp], names: list[str], shape: tuple[int, int] | None) -> Picture:
    alt = f"Trees per column, from {counts.min()} to {counts.max()}"
    draw: Callable[[Axes], object] = TreeCountsDisplay(counts, names, shape).plot
    size = image_size(shape) if shape else (WIDTH, bars_size(len(counts))[1])
    if not shape and len(counts) > _NAMED_BARS:
        size = NARROW

        def draw(ax: Axes) -> None:
            ax.hist(counts, bins=30, color="C0", alpha=0.8)
            ax.set(xlabel="trees", ylabel="columns")
            ax.spines[["top", "right"]].set_visible(False)

    return draw_picture(draw, size, alt)
