"""The benchmarks run: their figures are measured by hand, on a quiet machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("bench_engine.py", "lbarn fast"),
        ("bench_histogram.py", "row-features"),
        ("bench_network.py", "nats per test row"),
        ("gallery.py", "plot-surprise-bars.png"),
    ],
)
def test_a_benchmark_runs_on_tiny_data(script: str, says: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / script, "--smoke"], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert says in " ".join(done.stdout.split())
