"""One network, or several models in one picture, each with a label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import Density
from lbarn._network.network import Network
from lbarn._network.repeats import Repeating

__all__ = ["labelled", "only_network"]

_Model = TypeVar("_Model", bound=Density)


def only_network(model: Density) -> Network:
    """The network of a model; one that has several is refused."""
    check_is_fitted(model)
    network = model.distribution
    if isinstance(network, Repeating):
        network = network.model
    if not isinstance(network, Network):
        raise ValueError(f"a {type(model).__name__} has several networks; draw one of its members_")
    return network


def labelled(
    models: _Model | Iterable[_Model] | Mapping[str, _Model], describe: Callable[[_Model], str]
) -> dict[str, _Model]:
    """Fitted models by label: those of a mapping, or of a list (or of one model), described and told apart."""
    if isinstance(models, Mapping):
        named = {str(label): model for label, model in models.items()}
    else:
        named = {}
        for model in models if isinstance(models, Iterable) else [models]:
            check_is_fitted(model)
            label = describe(model)
            again = sum(known == label or known.startswith(f"{label} (") for known in named)
            named[f"{label} ({again + 1})" if again else label] = model
    if not named:
        raise ValueError("there is no model to draw; give one, a list of them, or a mapping from labels to models")
    for model in named.values():
        check_is_fitted(model)
    return named
