"""How the cost of training and of scoring grows: rows, columns, leaves, trees and distinct rows.

    python benchmarks/bench_slopes.py [--repeat 3] [--smoke]

One of these varies at a time, the others stay at 16,384 rows of 64 bits, 16 leaves and 64 trees a column, all rows distinct
(and equal ones learned from once). CPU time of one thread, the
best of some repetitions. Beside it, what the machine could do at best, by rates measured in the same run:

training
    Each tree looks once at every bit of every row before its column, as the histogram kernel does when that is all it has to do. And each row's
    log-odds, g, h (4 bytes each), leaf and digits (2 each) are read and written once: 16 bytes are copied.
scoring
    Each row takes one leaf value of every tree: it is loaded and added. Each split is an AND and an AND-NOT, 64 rows to a word.

The picture is docs/results/slopes.png.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from lbarn import LBARN, _core
from lbarn._engine.bits import pack
from pages import arguments, publish, results_file, table

Bits = NDArray[np.uint8]


@dataclass(frozen=True)
class Problem:
    """``distinct`` of 0: all rows are drawn on their own."""

    rows: int = 16_384
    columns: int = 64
    leaves: int = 16
    trees: int = 64
    distinct: int = 0


AXES: dict[str, list[int]] = {
    "rows": [2048, 4096, 8192, 16_384, 32_768, 65_536],
    "columns": [16, 32, 64, 128, 256],
    "leaves": [2, 4, 8, 16, 32, 64],
    "trees": [16, 32, 64, 128, 256],
    "distinct": [128, 512, 2048, 8192, 16_384],
}
ROW_BYTES = 16  # of a row in training: log-odds, g, h, leaf, digits
LABELS = {"distinct": "distinct rows"}


@dataclass(frozen=True)
class Rates:
    """What the machine does a second."""

    row_features: float  # bits of rows that the histogram adds up
    bytes: float  # copied in the cache
    words: float  # 64-bit words in the cache that are combined
    sums: float  # 32-bit integers there that are added


def bits_of(problem: Problem) -> Bits:
    """Bits that depend on each other, through a few hidden numbers."""
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(6, problem.columns))
    own = problem.distinct or problem.rows
    hidden = rng.normal(size=(own, 6))
    X = (hidden @ weights + 1.5 * rng.normal(size=(own, problem.columns)) > 0.8).astype(np.uint8)
    return X if not problem.distinct else X[rng.integers(0, own, problem.rows)]


def seconds(work: Callable[[], Any], repeat: int) -> float:
    """CPU time, at best."""
    best = float("inf")
    for _ in range(repeat):
        start = process_time()
        work()
        best = min(best, process_time() - start)
    return best


def rates(n: int = 16_384, features: int = 512) -> Rates:
    rng = np.random.default_rng(0)
    rows = pack(rng.integers(0, 2, (n, features), np.uint8)).rows
    index, digits = np.arange(n, dtype=np.uint32), rng.integers(0, 64, (1, n)).astype(np.uint16)
    histogram = seconds(lambda: _core.histogram(rows, index, digits, features), 20)
    copied, words, sums = np.zeros(65_536, np.uint8), np.zeros(8192, np.uint64), np.zeros(16_384, np.int32)

    def repeatedly(combine: Any, a: Any) -> Callable[[], None]:
        def work() -> None:
            for _ in range(1000):
                combine(a, a, out=a)

        return work

    return Rates(
        n * features / histogram,
        1000
        * len(copied)
        / seconds(repeatedly(lambda a, b, out: np.copyto(out[0], out[1]), copied.reshape(2, -1)), 5)
        / 2,
        1000 * len(words) / seconds(repeatedly(np.bitwise_and, words), 5),
        1000 * len(sums) / seconds(repeatedly(np.add, sums), 5),
    )


def measured(problem: Problem, repeat: int, rate: Rates) -> dict[str, float]:
    """Seconds of training and scoring, and the least that they could be."""
    X, few = bits_of(problem), bits_of(replace(problem, rows=64, distinct=0))
    model = LBARN.paper(
        max_leaf_nodes=problem.leaves,
        learning_rate=0.05,
        max_iter=problem.trees,
        merge_rows=True,
        random_state=0,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        train = seconds(lambda: model.fit(X, X_val=few), repeat)
    run = model.run_.network(np.array([len(own) for own in model.run_.trees]))  # all trees, whatever was selected
    score = seconds(lambda: run.log_likelihood(X), repeat)
    n_trees, n_splits = run.n_trees, sum(len(own.splits) for own in run.trees)
    predictors = sum(position * len(own) for position, own in enumerate(run.trees))
    return {
        "train": train,
        "score": score,
        "least train": len(X) * (predictors / rate.row_features + n_trees * ROW_BYTES / rate.bytes),
        "least score": len(X) * (n_trees / rate.sums + 2 * n_splits / 64 / rate.words),
        "row-features": float(len(X) * predictors),
        "row-trees": float(len(X) * n_trees),
        "bytes of splits and values": float(sum(own.splits.nbytes + own.values.nbytes for own in run.trees)),
    }


def slope(points: list[dict[str, float]], axis: str, key: str) -> float:
    """Of the line through logarithms: a cost that grows as the number itself has 1."""
    return float(np.polyfit(np.log([p[axis] for p in points]), np.log([p[key] for p in points]), 1)[0])


def draw(found: dict[str, list[dict[str, float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6.6), layout="constrained", sharey=True)
    styles = [("train", "C0", "training"), ("score", "C1", "scoring the same rows")]
    for axis, (name, points) in zip(axes.flat, found.items()):
        x = [point[name] for point in points]
        for key, colour, label in styles:
            axis.plot(x, [point[key] for point in points], "o-", color=colour, markersize=4, label=label)
            least = [point[f"least {key}"] for point in points]
            axis.plot(x, least, "--", color=colour, linewidth=1, label=f"{label}, at best")
        axis.set(xscale="log", yscale="log", xlabel=LABELS.get(name, name))
        axis.set_xticks(x, [f"{value:,.0f}" for value in x], fontsize=8)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("CPU seconds")
    axes.flat[-1].axis("off")
    axes.flat[-1].legend(*axes.flat[0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3)
    options = arguments(parser)
    axes, base, repeat = AXES, Problem(), options.repeat
    if options.smoke:
        axes, base, repeat = {name: [8, 16] for name in AXES}, Problem(64, 6, 4, 3), 1
    rate = rates(512, 128) if options.smoke else rates()
    found: dict[str, list[dict[str, float]]] = {}
    for name, values in axes.items():
        found[name] = []
        for value in values:
            own = {name: float(value), **measured(replace(base, **{name: value}), repeat, rate)}
            found[name].append(own)
            print(own, file=sys.stderr, flush=True)
    lines = []
    for name, points in found.items():
        last = points[-1]
        line = [LABELS.get(name, name), f"{points[0][name]:,.0f} to {last[name]:,.0f}"]
        for key, unit in (("train", "row-features"), ("score", "row-trees")):
            line += [f"{slope(points, name, key):.2f}", f"{1e9 * last[key] / last[unit]:.2f}"]
            line += [f"{last[key] / last[f'least {key}']:.1f}"]
        lines.append(line)
    headings = ["", "range", "slope of training", "ns a row-feature and tree", "times the least"]
    headings += ["slope of scoring", "ns a row and tree", "times the least"]
    text = table(headings, lines, texts=2)
    text += f"""
At best, this machine adds up {rate.row_features / 1e9:.0f} billion row-features a second, copies {rate.bytes / 1e9:.0f} GB,
combines {rate.words / 1e9:.1f} billion words or adds {rate.sums / 1e9:.1f} billion numbers.
"""
    publish({"rates": asdict(rate), "slopes": found}, text, options, "slopes", "speed")
    if options.results or not options.smoke:
        draw(found, (options.results or results_file("slopes")).with_suffix(".png"))


if __name__ == "__main__":
    main()
