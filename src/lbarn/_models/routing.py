"""Where the parameters of a meta-estimator's ``fit`` go."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

__all__ = ["RoutesToEstimator"]


class RoutesToEstimator(MetaEstimatorMixin, BaseEstimator):
    """A meta-estimator whose ``fit`` hands its parameters to that of its estimator."""

    @abstractmethod
    def _estimator(self) -> Any:
        """What is cloned and fitted."""

    def get_metadata_routing(self) -> MetadataRouter:
        """For scikit-learn's metadata routing: the estimator says what it wants, by its ``set_fit_request``."""
        mapping = MethodMapping().add(caller="fit", callee="fit").add(caller="fit_transform", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(estimator=self._estimator(), method_mapping=mapping)

    def _fit_parameters(self, given: dict[str, Any]) -> dict[str, Any]:
        """Those that the estimator wants, if they are routed; all of them otherwise."""
        if not get_config()["enable_metadata_routing"]:
            return given
        return dict(process_routing(self, "fit", **given).estimator.fit)
