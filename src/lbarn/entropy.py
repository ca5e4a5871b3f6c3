"""The greedy order of section 5.3: next comes the variable with the highest (or lowest) conditional entropy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lbarn.training import Sample

__all__ = ["entropy_order"]


def entropy_order(sample: Sample, *, decreasing: bool, seed: int, n_jobs: int | None) -> NDArray[np.intp]:
    raise NotImplementedError
