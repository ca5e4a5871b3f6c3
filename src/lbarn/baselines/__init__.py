"""Simple density estimators to compare a network with: each has ``fit``, ``score_samples``, ``score`` and ``sample``."""

from lbarn.baselines.independent import IndependentBits
from lbarn.baselines.independent_columns import IndependentColumns
from lbarn.baselines.logistic_network import LogisticNetwork
from lbarn.baselines.mixture import BernoulliMixture
from lbarn.baselines.single_tree import SingleTreeNetwork

__all__ = ["BernoulliMixture", "IndependentBits", "IndependentColumns", "LogisticNetwork", "SingleTreeNetwork"]
