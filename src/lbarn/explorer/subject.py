"""The model that is explored, and rows drawn from it once, which answer most questions by counting."""

from __future__ import annotations

import threading
import time
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.codetree import Cells
from lbarn._models.density import Density
from lbarn._network.conditioning import Effort
from lbarn._network.network import Distribution, Given
from lbarn._tables.codebook import Codebook
from lbarn.explorer.charts import Chart

__all__ = ["Subject"]

Floats = NDArray[np.float64]

_BLOCK = 4096  # rows drawn together
_RANKED = 4000  # drawn rows whose likelihoods a row is compared with


class Subject:
    """A model with a chart for every column and a pool of rows that were drawn from it.

    ``grow`` makes the pool larger in the background: questions are answered with what is there.
    """

    def __init__(
        self, model: Density, name: str, *, n_rows: int = 50_000, seconds: float = 20.0, seed: int = 0
    ) -> None:
        self.model, self.name = model, name
        self.charts = [Chart.of(code) for code in self.book.codes]
        labels = model.table_format_.labels(model.n_features_in_)
        self.names = [str(labels[j]) for j in self.book.taken]
        self.random = np.random.RandomState(seed)
        self._goal, self._seconds = n_rows, seconds
        self._complete = threading.Event()
        self._pool = self._drawn(min(_BLOCK // 2, n_rows))

    @property
    def book(self) -> Codebook:
        return self.model.codebook_

    @property
    def distribution(self) -> Distribution:
        return self.model.distribution

    @property
    def n_columns(self) -> int:
        return self.book.n_columns

    @property
    def pool(self) -> Cells:
        """Drawn rows, each column's cells one after the other."""
        return self._pool

    @property
    def is_complete(self) -> bool:
        return self._complete.is_set()

    def seed(self) -> np.random.RandomState:
        """A random stream for one question."""
        return np.random.RandomState(self.random.randint(2**31 - 1))

    def grow(self) -> None:
        """Draw the rest of the pool; no longer than so many seconds."""
        end = time.monotonic() + self._seconds
        try:
            _ = self.log_possible
            while len(self._pool) < self._goal and time.monotonic() < end:
                more = self._drawn(min(max(_BLOCK, len(self._pool)), self._goal - len(self._pool)))
                self._pool = np.asfortranarray(np.concatenate([self._pool, more]))
        finally:
            self._complete.set()

    def wait(self, seconds: float) -> None:
        """Until the pool is complete."""
        self._complete.wait(seconds)

    def _drawn(self, n: int) -> Cells:
        return np.asfortranarray(self.distribution.draw(n, self.seed(), self.model.n_jobs))

    @cached_property
    def log_possible(self) -> float:
        """log P of all rows that can be drawn: values that no training row had never are, and have a little of the mass."""
        n = self.n_columns
        nothing = Given(np.zeros((1, n), np.uint16), np.ones((1, n), np.bool_), {}, False)
        ((_, answer),) = self.distribution.condition([(0, nothing)], self.seed(), effort=Effort(8), n_jobs=1)
        return float(answer.log_marginal[0])

    @cached_property
    def log_likelihoods(self) -> Floats:
        """Of some drawn rows, sorted."""
        rows = self.book.decode(np.ascontiguousarray(self._pool[:_RANKED]), np.random.default_rng(0))
        cells, inside = self.book.encode(rows)
        return np.sort(self.distribution.log_likelihood(cells, self.model.n_jobs) + inside.sum(axis=1))
