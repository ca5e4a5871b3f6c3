"""Every value of rows as the networks of a model predict it, and how often unlikely ones occur."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lbarn._models.density import Density
from lbarn._network.conditioning import Effort
from lbarn._network.mixture import Mixture
from lbarn._network.network import Distribution, Given
from lbarn._network.repeats import Repeating
from lbarn._tables.table import read_like

__all__ = ["THRESHOLDS", "Calibration", "CalibrationTally", "Cells", "cells", "completed"]

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]

THRESHOLDS = (1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0)
_EFFORT = Effort(200)  # to draw what is missing before a cell


class Calibration(NamedTuple):
    """How often the rarer value of a cell occurred, of all cells whose rarer value has a probability below a threshold."""

    threshold: float
    expected: float
    """The sum of these probabilities."""
    observed: float
    standard_error: float
    """Of ``observed``, if the probabilities are right."""
    n_cells: float


@dataclass(frozen=True)
class Cells:
    """A chunk of rows, complete, and how one network was surprised by each of their values."""

    values: Bits
    known: Bits  # False where the value was missing, and drawn
    surprise: Floats
    weight: float  # of the network, among those of the model


def cells(model: Density, X: Any, *, random_state: Any = 0) -> Iterator[Cells]:
    """All values of ``X``, in chunks of rows, as each network of the model predicts them."""
    check_is_fitted(model)
    if not model.codebook_.is_binary:
        kinds = sorted({code.kind for code in model.codebook_.codes if not code.tree.is_binary})
        raise ValueError(f"calibration is of binary columns; the model has others ({', '.join(kinds)})")
    table = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize)
    random = check_random_state(random_state)
    distribution = model.distribution
    if isinstance(distribution, Repeating) and isinstance(distribution.model, Mixture):
        distribution = (
            distribution.model
        )  # a mixture has no probabilities of values to which rows that repeat could add
    networks: list[tuple[Distribution, float]] = [(distribution, 1.0)]
    if isinstance(distribution, Mixture):
        networks = list(zip(distribution.networks, distribution.weights.tolist()))
    for _, values, missing in table.chunks():
        known = np.ones_like(values) if missing is None else ~missing
        for network, weight in networks:
            filled = values
            if missing is not None:
                # Drawn, not guessed: only then is a row one that the model could have made, and its predictions calibrated.
                filled, _ = completed(network, values, missing, random, model.n_jobs)
            yield Cells(filled, known, network.surprise(filled, model.n_jobs), weight)


def completed(
    distribution: Distribution, values: Bits, missing: Bits, random: np.random.RandomState, n_jobs: int | None
) -> tuple[Bits, Bits]:
    """Two completions of incomplete rows: what is missing drawn given the rest of its row, and its likelier value."""
    drawn, likelier = values.copy(), values.copy()
    rows = np.flatnonzero(missing.any(axis=1))
    if len(rows):
        chunk = (0, Given(values[rows], missing[rows]))
        ((_, answer),) = distribution.condition([chunk], random, effort=_EFFORT, n_jobs=n_jobs)
        drawn[rows] = answer.draws[0] == 1
        likelier[rows] = answer.probability >= 0.5
    return drawn, likelier


class CalibrationTally:
    """Sums over cells, for every range of q between two thresholds."""

    def __init__(self, thresholds: Sequence[float] = THRESHOLDS) -> None:
        self._thresholds = np.asarray(thresholds, np.float64)
        if not (self._thresholds.size and self._thresholds[0] > 0 and (np.diff(self._thresholds) > 0).all()):
            raise ValueError(f"thresholds must be increasing numbers above 0; got {thresholds!r}")
        self._sums = np.zeros((4, len(self._thresholds)))

    def add(self, part: Cells) -> None:
        surprise, values = part.surprise[part.known], part.values[part.known]
        p = np.exp(-surprise)
        even = np.abs(p - 0.5) < 1e-6  # neither value is rarer; let it be the 1
        rare = np.where(even, values, p < 0.5)
        q = np.where(rare, p, -np.expm1(-surprise))
        place = np.searchsorted(self._thresholds, q, side="right")
        for total, each in zip(self._sums, (q, rare.astype(np.float64), q * (1 - q), np.ones_like(q))):
            total += part.weight * np.bincount(place, each, len(self._thresholds) + 1)[: len(total)]

    def result(self) -> list[Calibration]:
        expected, observed, variance, n_cells = np.cumsum(self._sums, axis=1)
        columns = (self._thresholds, expected, observed, np.sqrt(variance), n_cells)
        return [Calibration(*line) for line in np.stack(columns, axis=1).tolist()]
