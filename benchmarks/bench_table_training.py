"""Training the nodes of a table's columns in three ways: all rows with weight 0 for those that do not reach the node, the
rows that reach it, and these with the cells that their bits came from. The last two give the same trees.

    python benchmarks/bench_table_training.py [--table FILE] [--columns BILL_AMT1 PAY_AMT6] [--trees 30] [--leaves 16]

A column is cut into cells of equal mass. Its predictors are all thresholds of the columns before it, its nodes the
inner nodes of a balanced tree over its cells, one conditional each. Seconds are for all nodes of a column on one thread,
set-up included, of processor time: others may be busy too. The ways take turns, node by node.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import thread_time

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Grid

from lbarn import _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.conditional import Boosting

DATA = Path(os.environ.get("LBARN_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
WAYS = ("weight 0", "compacted", "cells")
WANTED = 4.0  # cells against weight 0
LEVELS = ((5000, None), (1000, 5000), (300, 1000), (0, 300))  # rows of a node, from and to

Cells = NDArray[np.uint16]


@dataclass(frozen=True)
class Rows:
    """Predictors of one column: as packed rows with room for a target behind them, and as cells."""

    packed: NDArray[np.uint8]
    cells: _core.CellColumns
    target: Cells
    n_predictors: int

    def set_target(self, ones: NDArray[np.bool_], columns: NDArray[np.uint64]) -> None:
        byte, bit = divmod(self.n_predictors, 8)
        self.packed[:, byte] = (self.packed[:, byte] & ((1 << bit) - 1)) | (ones.astype(np.uint8) << bit)
        columns[-1].view(np.uint8)[: -(-len(ones) // 8)] = np.packbits(ones, bitorder="little")

    def all(self, weight: NDArray[np.float64], columns: NDArray[np.uint64]) -> _core.WeightedRows:
        return _core.WeightedRows(columns, len(self.packed), weight)

    def some(self, index: NDArray[np.int32], with_cells: bool) -> _core.WeightedRows:
        columns = _core.take_columns(self.packed, index, self.n_predictors + 1)
        return _core.WeightedRows(columns, len(index), None, self.cells.take(index) if with_cells else None)


def read_table(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    with gzip.open(path, "rt", newline="") as file:
        lines = list(csv.reader(file))
    numbers = np.full((len(lines) - 1, len(lines[0])), np.nan)
    for j, values in enumerate(zip(*lines[1:], strict=True)):
        try:
            numbers[:, j] = [float(value) if value else np.nan for value in values]
        except ValueError:
            numbers[:, j] = np.unique(values, return_inverse=True)[1]
    return lines[0], numbers


def cells_of(x: NDArray[np.float64], n_cells: int) -> tuple[Cells, int]:
    """Cells of equal mass, never cut inside a value, and how many there are."""
    cuts = np.unique(np.quantile(x, np.arange(1, n_cells) / n_cells, method="inverted_cdf"))
    cuts = cuts[cuts > x.min()]
    return np.searchsorted(cuts, x, side="right").astype(np.uint16), len(cuts) + 1


def rows_for(cells: list[Cells], sizes: list[int], target: Cells) -> Rows:
    n, bits = len(target), sum(sizes) - len(sizes)
    packed = np.zeros((n, row_bytes(bits + 1)), np.uint8)
    thermometers = [x[:, None] >= np.arange(1, size) for x, size in zip(cells, sizes, strict=True)]
    together = np.packbits(np.concatenate(thermometers, axis=1), axis=1, bitorder="little")
    packed[:, : together.shape[1]] = together
    lengths = np.array(sizes) - 1
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32)
    lo = np.concatenate([np.arange(1, size) for size in sizes]).astype(np.uint16)
    hi = np.repeat(sizes, lengths).astype(np.uint16)
    return Rows(packed, _core.CellColumns(np.stack(cells), offsets[:-1].copy(), offsets, lo, hi), target, bits)


def nodes(lo: int, hi: int) -> Iterator[tuple[int, int, int]]:
    """Inner nodes of a balanced tree over cells lo to hi, and where each cuts."""
    if hi - lo > 1:
        middle = (lo + hi) // 2
        yield lo, middle, hi
        yield from nodes(lo, middle)
        yield from nodes(middle, hi)


def timed(task: Callable[[], _core.Boosted]) -> tuple[float, _core.Boosted]:
    start = thread_time()
    result = task()
    return thread_time() - start, result


def same(a: _core.Boosted, b: _core.Boosted) -> bool:
    names = ("splits", "gains", "values", "offsets")
    return all(getattr(a.trees, name).tobytes() == getattr(b.trees, name).tobytes() for name in names)


def train_column(
    train: Rows, valid: Rows, n_cells: int, how: Boosting, every: int
) -> tuple[list[int], dict[str, list[float]]]:
    """Rows of each node that is trained, and seconds of each way."""
    parameters = how.for_core()
    nothing = _core.Boosted(
        _core.Trees(np.zeros((0, 2), np.uint16), np.zeros(0, np.float32), np.zeros(0, np.int32), np.zeros(1, np.int64)),
        np.zeros(0),
        np.zeros(0),
    )
    everything = [
        _core.take_columns(rows.packed, np.arange(len(rows.packed), dtype=np.int32), rows.n_predictors + 1)
        for rows in (train, valid)
    ]
    sizes: list[int] = []
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for k, (lo, middle, hi) in enumerate(nodes(0, n_cells)):
        if k % every:
            continue
        reached = [(rows.target >= lo) & (rows.target < hi) for rows in (train, valid)]
        index = [np.flatnonzero(some).astype(np.int32) for some in reached]
        if len(index[0]) == 0:
            continue
        for rows, columns in zip((train, valid), everything, strict=True):
            rows.set_target(rows.target >= middle, columns)

        def boost(pair: list[_core.WeightedRows]) -> _core.Boosted:
            return _core.boost(*pair, train.n_predictors, parameters, 0, nothing, 0, _core.CancelFlag())

        parts = list(zip((train, valid), reached, everything, strict=True))
        compact = list(zip((train, valid), index, strict=True))
        tasks: dict[str, Callable[[], _core.Boosted]] = {
            "weight 0": lambda: boost([r.all(some.astype(float), columns) for r, some, columns in parts]),  # noqa: B023
            "compacted": lambda: boost([r.some(i, False) for r, i in compact]),  # noqa: B023
            "cells": lambda: boost([r.some(i, r is train) for r, i in compact]),  # noqa: B023
        }
        results = {}
        for way, task in tasks.items():
            spent, results[way] = timed(task)
            seconds[way].append(spent)
        if not same(results["compacted"], results["cells"]):
            raise AssertionError(f"cells give other trees than bits: cells {lo} to {hi}")
        sizes.append(len(index[0]))
    return sizes, seconds


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Path, default=DATA / "tables" / "default-train.csv.gz")
    parser.add_argument("--columns", nargs="+", default=["BILL_AMT1", "PAY_AMT6"])
    parser.add_argument("--cells", type=int, default=256)
    parser.add_argument("--trees", type=int, default=30)
    parser.add_argument("--leaves", type=int, default=16)
    parser.add_argument("--max-features", type=float, default=0.5)
    parser.add_argument("--split-bits", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, metavar="K", help="train every K-th node only")
    parser.add_argument("--smoke", action="store_true", help="random data, few trees: shows that the script works")
    options = parser.parse_args()
    if options.smoke:
        options.trees, options.cells, options.columns = 2, 8, ["2"]
    return options


def main() -> int:
    options = arguments()
    if options.smoke:
        names, numbers = ["0", "1", "2"], np.random.default_rng(0).normal(size=(400, 3)).cumsum(axis=1)
    elif options.table.is_file():
        names, numbers = read_table(options.table)
    else:
        print(f"no table {options.table}: name one with --table, or set LBARN_DATA", file=sys.stderr)
        return 2
    numbers = np.nan_to_num(numbers, nan=np.nanmin(numbers) - 1.0)
    valid = np.random.default_rng(0).random(len(numbers)) < 0.15
    coded = [cells_of(x, options.cells) for x in numbers.T]
    how = Boosting(
        max_leaf_nodes=options.leaves,
        learning_rate=0.1,
        max_iter=options.trees,
        max_features=options.max_features,
        split_bits=options.split_bits,
    )
    console = Console(width=110)
    total = dict.fromkeys(WAYS, 0.0)
    for name in options.columns:
        d = names.index(name)
        before, sizes = [x for x, _ in coded[:d]], [size for _, size in coded[:d]]
        halves = [rows_for([x[part] for x in before], sizes, coded[d][0][part]) for part in (~valid, valid)]
        rows, seconds = train_column(halves[0], halves[1], coded[d][1], how, options.every)
        title = f"{name}: {len(rows)} nodes, {d} columns of {halves[0].n_predictors:,} bits before it, "
        grid = Grid(title=title + f"{options.trees} trees of {options.leaves} leaves each", title_justify="left")
        for heading in ("rows of a node", "nodes", *(f"{way}, ms" for way in WAYS), "/ compacted", "/ cells"):
            grid.add_column(heading, justify="right")
        levels = [(*level, np.array([level[0] <= n < (level[1] or 10**9) for n in rows])) for level in LEVELS]
        for low, high, mask in [*levels, (0, None, np.ones(len(rows), bool))]:
            if not mask.any():
                continue
            spent = {way: float(np.array(seconds[way])[mask].sum()) for way in WAYS}
            label = f"{low:,} to {high:,}" if high else f"{low:,} and more" if low else "all"
            ratios = (f"{spent['weight 0'] / spent[way]:.2f}x" for way in WAYS[1:])
            grid.add_row(label, str(mask.sum()), *(f"{1e3 * spent[way]:,.0f}" for way in WAYS), *ratios)
        console.print(grid)
        for way in WAYS:
            total[way] += sum(seconds[way])
    ratio = total["weight 0"] / total["cells"]
    verdict = "met" if ratio >= WANTED else "not met"
    console.print(f"cells against weight 0, all columns: {ratio:.2f}x, wanted {WANTED:g}x: {verdict}")
    console.print(f"cells against compacted bits: {total['compacted'] / total['cells']:.2f}x")
    console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; this benchmark alone makes 1")
    return 0


if __name__ == "__main__":
    sys.exit(main())
