"""Several models in one picture, each with a label."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sklearn.utils.validation import check_is_fitted

__all__ = ["labelled"]


def labelled(models: Any, describe: Callable[[Any], str]) -> dict[str, Any]:
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
