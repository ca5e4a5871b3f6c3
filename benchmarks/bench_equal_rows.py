"""A table with few distinct rows: what it costs to learn from equal rows once, and what if each were by itself.

    python benchmarks/bench_equal_rows.py [--rows 300000] [--repeat 2] [--jobs 1] [--json FILE] [--smoke]

The table has 17 bits that depend on each other through a hidden class, about 9,000 different rows among 300,000. Both fits have no other
parameters; they run in turn, in this process, and the fastest of each counts. With exact splits both give the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from lbarn import LBARN
from lbarn._engine.bits import PackedBits


def made(n: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(0)
    share = rng.beta(0.28, 0.28, (12, 17))
    return (rng.random((n, 17)) < share[rng.integers(0, 12, n)]).astype(np.uint8)


@contextmanager
def each_by_itself() -> Iterator[None]:
    with patch.object(PackedBits, "distinct", lambda self, rows, n_columns: (rows, None)):
        yield


def fitted(X: NDArray[np.uint8], jobs: int, **parameters: object) -> tuple[float, LBARN]:
    start = perf_counter()
    model = LBARN(random_state=0, n_jobs=jobs, **parameters).fit(X)
    return perf_counter() - start, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--smoke", action="store_true", help="few rows: shows that the script works")
    options = parser.parse_args()
    if options.smoke:
        options.rows, options.repeat = 4_000, 1
    X, new = made(options.rows), made(options.rows + 50_000)[options.rows :]
    times: dict[str, list[float]] = {"once": [], "each": []}
    nats = {}
    for _ in range(options.repeat):
        seconds, model = fitted(X, options.jobs)
        times["once"].append(seconds)
        nats["once"] = model.score(new)
        with each_by_itself():
            seconds, model = fitted(X, options.jobs)
        times["each"].append(seconds)
        nats["each"] = model.score(new)
    exact = {"splits": "exact", "max_iter": 20, "max_leaf_nodes": 16, "counts": False}
    same = fitted(X, options.jobs, **exact)[1].network_.fingerprint()
    with each_by_itself():
        same = same == fitted(X, options.jobs, **exact)[1].network_.fingerprint()
    result = {
        "rows": options.rows,
        "distinct": len(np.unique(X, axis=0)),
        "seconds": {name: min(own) for name, own in times.items()},
        "ratio": min(times["each"]) / min(times["once"]),
        "nats": nats,
        "exact_splits_give_the_same_bits": bool(same),
        "load": os.getloadavg()[0],
    }
    table = Table("", "seconds", "nats per new row", title=f"{options.rows:,} rows, {result['distinct']:,} distinct")
    for name in times:
        table.add_row(f"equal rows {name}", f"{min(times[name]):.2f}", f"{nats[name]:.4f}")
    console = Console(width=100)
    console.print(table)
    console.print(
        f"{result['ratio']:.1f} times faster; exact splits give the same bits: {same}; load {result['load']:.1f}"
    )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
