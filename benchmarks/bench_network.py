"""A whole network: time, peak memory, file size, test log-likelihood and scoring time.

python benchmarks/bench_network.py [--data mnist] [--leaves 32] [--rate 0.02] [--trees 1000] [--split-bits 3]
        [--jobs 2] [--save FILE]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

from lbarn import LBARN, simd_path
from pages import load


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="mnist")
    parser.add_argument("--leaves", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--split-bits", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--save", type=Path, help="keep the model file")
    parser.add_argument("--smoke", action="store_true", help="tiny random data")
    args = parser.parse_args()
    if args.smoke:
        random = np.random.default_rng(0).integers(0, 2, (300, 12), dtype=np.uint8)
        train, valid, test = random[:200], random[200:250], random[250:]
        args.data, args.trees = "random bits", 20
    else:
        train, valid, test = load(args.data)
    print(
        f"{args.data}: {train.shape[0]} x {train.shape[1]}, J = {args.leaves}, {args.trees} trees, {args.jobs} jobs, {simd_path()}"
    )
    print(f"peak memory with the data loaded: {peak_mb():.0f} MB")
    model = LBARN.paper(
        max_leaf_nodes=args.leaves,
        learning_rate=args.rate,
        max_iter=args.trees,
        split_bits=args.split_bits,
        n_jobs=args.jobs,
        random_state=0,
    )
    start = perf_counter()
    model.fit(train, X_val=valid)
    print(f"fit: {perf_counter() - start:.0f} s, peak memory {peak_mb():.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        path = args.save or Path(folder) / "model.lbarn"
        model.save(path)
        print(f"file: {path.stat().st_size / 1e6:.0f} MB, peak memory after saving {peak_mb():.0f} MB")
    for selection in ("common", "linearized", "individual"):
        model.select(selection)
        start = perf_counter()
        score = model.score(test)
        print(f"{selection}: {score:.3f} nats per test row, scored in {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
