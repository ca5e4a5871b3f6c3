"""What estimators derive from their parameters: constraints, docstrings, and the JSON of model files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from lbarn._training.run import as_lists
from lbarn.parameters import Parameters, constraints, documented

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "DerivedParameters",
    "estimator_from_json",
    "estimator_to_json",
    "parameters_from_json",
    "parameters_to_json",
]

_Model = TypeVar("_Model", bound=Parameters)


class DerivedParameters(BaseEstimator):
    """An estimator whose constraints and documentation are derived from its list of parameters."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        assert issubclass(cls, Parameters)
        cls._parameter_constraints = constraints(cls)
        if "__init__" not in vars(cls):
            cls.__init__ = _checked(cls.__init__)  # type: ignore[method-assign]
        cls.__doc__ = inspect.cleandoc(cls.__doc__ or "").replace("{parameters}", documented(cls))

    def validated(self) -> Self:
        """The same estimator, if all of its parameters are allowed."""
        self._validate_params()
        return self


def _checked(init: Callable[..., None]) -> Callable[..., None]:
    """The same, but a name that it does not know is told in the model's words."""
    known = inspect.signature(init).parameters

    @wraps(init)
    def own(self: Any, *values: Any, **parameters: Any) -> None:
        unknown = sorted(parameters.keys() - known.keys())
        if unknown:
            alike = get_close_matches(unknown[0], known)
            hint = f"; did you mean {alike[0]!r}?" if alike else ""
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {unknown[0]!r}{hint}")
        init(self, *values, **parameters)

    return own


def parameters_to_json(model: Parameters) -> dict[str, Any]:
    """The parameters of a model that affect it; a generator of random numbers cannot be kept."""
    run_time = model.run_time_parameters()
    return {own.name: _plain(getattr(model, own.name)) for own in fields(model) if own.name not in run_time}


def _plain(value: Any) -> Any:
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, Mapping):
        return [
            [as_lists(key), own] for key, own in value.items()
        ]  # names in JSON are strings, and columns may be numbers
    return as_lists(value)


def parameters_from_json(kind: type[_Model], parameters: Any) -> _Model:
    """A model that is not fitted, with parameters that are all known and all valid; what is wrong is a ValueError.

    A parameter that is younger than the file has the paper's value, which is what the model was fitted with.
    """
    run_time = kind.run_time_parameters()
    known = {own.name for own in fields(kind)}
    unknown = parameters.keys() - known
    if unknown:
        raise ValueError(f"unknown parameters: {', '.join(sorted(unknown))}")
    if isinstance(parameters.get("columns"), list):
        parameters = {**parameters, "columns": {key: str(kind) for key, kind in parameters["columns"]}}
    for name, value in parameters.items():
        if name == "groups":
            continue  # of names or numbers of columns: looked at in fit alone
        if isinstance(value, list) and np.asarray(value).dtype.kind not in "biuf":
            raise ValueError(f"the {name} asked for is not of numbers")
        if isinstance(value, int) and abs(value) >= 2**63:
            raise ValueError(f"the {name} asked for is too large")
    model: _Model = kind.paper(**{name: value for name, value in parameters.items() if name not in run_time})
    assert isinstance(model, DerivedParameters)
    return model.validated()


def estimator_to_json(estimator: Parameters | None) -> dict[str, Any] | None:
    """What a meta-estimator was given, which is not fitted."""
    if estimator is None:
        return None
    return {"kind": type(estimator).__name__, "parameters": parameters_to_json(estimator)}


def estimator_from_json(content: Any, kinds: Mapping[str, type[_Model]]) -> _Model | None:
    """The estimator of one of these kinds; what is wrong is a ValueError."""
    return None if content is None else parameters_from_json(kinds[content["kind"]], content["parameters"])
