"""The benchmarks run: their figures are measured by hand, on a quiet machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("bench_bagging.py", "mixed, bagged"),
        ("bench_conditioning.py", "error, root mean square"),
        ("bench_denoising.py", "wrong pixels"),
        ("dart.py", "times as long"),
        ("defaults.py", "expected / observed"),
        ("distributional_regression.py", "in the 90% interval"),
        ("densities.py", "test nats per row, density"),
        ("bench_engine.py", "lbarn fast"),
        ("bench_equal_rows.py", "exact splits give the same bits: True"),
        ("bench_ensembles.py", "8 mixed"),
        ("bench_histogram.py", "row-features"),
        ("bench_imputation.py", "log-loss, nats per bit"),
        ("bench_network.py", "nats per test row"),
        ("bench_orders.py", "nats per validation row"),
        ("gallery.py", "plot-surprise-bars.png"),
        ("bench_reconstruction.py", "likeliest"),
        ("bench_synthesis.py", "training rows"),
        ("bench_table_training.py", "cells against weight 0"),
        ("irrelevant.py", "test, copy 3"),
        ("mixture_start.py", "mixture as the start"),
        ("repeats.py", "test rows seen before"),
        ("images.py", "test nats, apart"),
        ("newton.py", "gradient"),
        ("bench_scale.py", "CPU microseconds per row"),
        ("bench_slopes.py", "slope of training"),
        ("bench_uses.py", "after saving it"),
        ("table_anomalies.py", "cell named first"),
        ("table_compression.py", "LBARN, with its model"),
        ("table_imputation.py", "best or level"),
        ("sums.py", "counts=False"),
        ("table_use.py", "5 x samples"),
        ("tables.py", "C2ST, 1 is best"),
    ],
)
def test_a_benchmark_runs_on_tiny_data(script: str, says: str, run_benchmark: Callable[..., str]) -> None:
    assert says in " ".join(run_benchmark(script, "--smoke").split())


def test_the_table_of_the_paper_is_filled_cell_by_cell_and_finished_cells_are_kept(
    run_benchmark: Callable[..., str], tmp_path: Path
) -> None:
    command = ["table1.py", "--smoke", "--results", tmp_path, "--cache", tmp_path / "cache"]
    models = ["--models", "lbarn", "independent_bits", "tuned", "ensemble"]
    run_benchmark(*command, *models)
    rows = json.loads((tmp_path / "table1.json").read_text())
    assert {(row["model"], row["splits"]) for row in rows} == {
        *(
            (f"lbarn_{kind}", splits)
            for kind in ("individual", "common", "linearized", "refit")
            for splits in ("exact", "fast")
        ),
        ("independent_bits", None),
        ("lbarn_tuned", None),
        ("lbarn_ensemble", None),
    }
    assert "LBARN, refit" in (tmp_path / "table1.md").read_text()
    assert run_benchmark(*command, *models) == ""
    assert json.loads((tmp_path / "table1.json").read_text()) == rows


def test_the_figures_of_the_paper_are_drawn_and_kept_as_data(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    run_benchmark("figures.py", "--smoke", "--results", tmp_path, "--cache", tmp_path / "cache")
    found = json.loads((tmp_path / "figures.json").read_text())
    assert set(found) == {"samples", "trees", "curves", "importance", "orders", "reconstruction", "rounds"}
    assert all("commit" in figure for figure in found.values())
    for name in ("samples", "trees", "curves", "importance", "order", "cumulative", "reconstruction"):
        assert (tmp_path / f"paper-{name}.png").stat().st_size > 1000
        assert (tmp_path / f"paper-{name}.svg").stat().st_size > 1000


def test_settings_are_compared_and_finished_cells_are_kept(run_benchmark: Callable[..., str], tmp_path: Path) -> None:
    run_benchmark("ablation.py", "--smoke", "--results", tmp_path)
    assert run_benchmark("ablation.py", "--smoke", "--results", tmp_path) == ""
    assert "| bits3 | " in (tmp_path / "ablation.md").read_text()


def test_two_versions_are_compared(run_benchmark: Callable[..., str]) -> None:
    said = run_benchmark("bench_versions.py", sys.executable, sys.executable, "--smoke", "--repeat", "1")
    assert "before / after" in " ".join(said.split())
