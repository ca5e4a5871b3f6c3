"""How the cost of a fit grows: rows and cells of a mixed table of 20 columns.

    python benchmarks/bench_scale.py [--rows 30000 100000 300000 1000000] [--cells 16 64 256] [--jobs 2] [--smoke]

The table is drawn: ten numeric columns (whole numbers, cents, real numbers, dates, with zeros and heaping) and ten categorical ones with 2 to 40
levels, all of them depending on others, a twentieth of the cells of two columns empty. Every fit runs in a process of its own, whose time and
peak memory are measured. Default parameters. The table goes into docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

from pages import arguments, publish, table

COLUMNS = 20


def mixed(n: int, seed: int = 0) -> pd.DataFrame:
    """A table of 20 columns with dependence among them."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, 3))
    columns: dict[str, Any] = {}
    for k in range(10):
        levels = [2, 2, 3, 4, 5, 7, 10, 15, 25, 40][k]
        score = hidden[:, k % 3, None] * np.linspace(-1, 1, levels) + rng.gumbel(size=(n, levels))
        columns[f"level{k}"] = np.array([f"v{j}" for j in range(levels)])[score.argmax(axis=1)]
    for k in range(10):
        base = hidden[:, k % 3] + 0.5 * hidden[:, (k + 1) % 3] + 0.5 * rng.normal(size=n)
        if k < 3:
            columns[f"count{k}"] = rng.poisson(np.exp(1 + 0.5 * base)) * (rng.random(n) < 0.7)
        elif k < 6:
            columns[f"price{k}"] = np.round(np.exp(3 + 0.8 * base), 2)
        elif k < 9:
            columns[f"real{k}"] = base
        else:
            columns["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(
                (500 + 200 * base).clip(0, 1500).astype(int), "D"
            )
    frame = pd.DataFrame(columns)
    for name in ("price4", "level5"):
        frame.loc[rng.random(n) < 0.05, name] = None
    return frame


def fit(n: int, cells: int, jobs: int, few: bool) -> dict[str, float]:
    """Seconds, CPU seconds and peak memory of one fit, in this process."""
    import resource

    from lbarn import LBARN

    frame = mixed(n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start, cpu = perf_counter(), process_time()
    model = LBARN(max_cells=cells, n_jobs=jobs, random_state=0, **({"max_iter": 5} if few else {})).fit(frame)
    seconds, cpu = perf_counter() - start, process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = perf_counter()
    model.score(frame[:10_000])
    return {"seconds": seconds, "cpu": cpu, "megabytes": peak, "table": before, "score": perf_counter() - start}


def in_a_process(n: int, cells: int, options: Any) -> dict[str, Any]:
    if options.smoke:
        return fit(n, cells, options.jobs, True)
    command = [sys.executable, __file__, "--rows", str(n), "--cells", str(cells), "--jobs", str(options.jobs), "--one"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        return {"failed": done.stderr[-300:]}
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[30_000, 100_000, 300_000, 1_000_000])
    parser.add_argument("--cells", nargs="+", type=int, default=[16, 64, 256])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = arguments(parser)
    if options.one:
        print(json.dumps(fit(options.rows[0], options.cells[0], options.jobs, False)))
        return
    if options.smoke:
        options.rows, options.cells = [300], [16]
    wanted = [(n, options.cells[-1]) for n in options.rows]
    wanted += [(options.rows[0], cells) for cells in options.cells[:-1]]
    found, lines = [], []
    for n, cells in wanted:
        own = in_a_process(n, cells, options)
        found.append({"rows": n, "cells": cells, **own})
        print(found[-1], file=sys.stderr, flush=True)
        if "failed" not in own:
            per_row = 1e6 * own["cpu"] / n
            memory = f"{own['megabytes'] / 1024:.1f}"
            lines.append([f"{n:,} x {COLUMNS}, {cells} cells", f"{own['seconds']:,.0f}", f"{per_row:,.0f}", memory])
    headings = ["rows x columns", "seconds", "CPU microseconds per row", "peak memory, GB"]
    publish({"fits": found}, table(headings, lines), options, "scale", "speed")


if __name__ == "__main__":
    main()
