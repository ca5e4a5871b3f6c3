"""Rows are scored in chunks: a million of them need little beyond themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="peak memory is asked of a POSIX system")

SCRIPT = """
import resource, sys
import numpy as np
from lbarn import LBARN

rng = np.random.default_rng(0)
X = rng.integers(0, 2, (1_000_000, 64), dtype=np.uint8)
model = LBARN.paper(max_leaf_nodes=4, learning_rate=0.3, max_iter=10, random_state=0, n_jobs=2).fit(X[:2000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
scores = getattr(model, sys.argv[1])(X)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.parametrize("method", ["score_samples", "cumulative_score"])
def test_a_million_rows_are_scored_in_less_than_200_mb_beyond_them(method: str) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, method], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 200e6
