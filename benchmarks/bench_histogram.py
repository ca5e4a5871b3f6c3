"""The histogram kernel alone, on every SIMD path of this machine, beside a vectorised float32 histogram.

    python benchmarks/bench_histogram.py [--rows 50000] [--features 784] [--repeat 10]

A row-feature is one bit of one row. The float32 histogram is float_histogram.cpp, built here by the system's compiler
($CXX, or else c++); both sum the same g and h over the same rows, and the sums are checked to be right.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack

RATIO_WANTED = 12.0
THIRD_WANTED = 0.6
BURST = 5  # calls in a row: as in training, the rows are where the call before has left them

Sums = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class Work:
    histogram: Callable[[], Sums]
    row_features: int
    path: str | None = None


def random_digits(rng: np.random.Generator, n_rows: int, digits: int) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """Digit planes, least significant first, and the values of g and h that they spell."""
    g, h = rng.integers(0, 64, (2, digits, n_rows))
    g[-1] = rng.integers(-31, 32, n_rows)
    place = 64 ** np.arange(digits)
    return (g & 255 | h << 8).astype(np.uint16), np.stack([place @ g, place @ h]).astype(np.float64)


def check(name: str, work: Work, expected: NDArray[np.float64]) -> None:
    """Sums of a float64 product are exact too: they stay below 2^53."""
    if not np.array_equal(np.stack(work.histogram())[:, : expected.shape[1]], expected):
        sys.exit(f"{name}: the sums are wrong")


def our_work(X: NDArray[np.uint8], bits: PackedBits, rng: np.random.Generator) -> dict[str, Work]:
    every = np.arange(len(X), dtype=np.uint32)
    third = np.sort(rng.choice(every, len(X) // 3, replace=False))
    cases = {"all rows": (every, 1), "a third of the rows": (third, 1), "all rows, 4 digits": (every, 4)}
    work = {}
    for case, (index, n_digits) in cases.items():
        planes, values = random_digits(rng, len(X), n_digits)
        expected = values[:, index] @ X[index]
        for path in _core.simd_paths():
            name = f"{path}, {case}"
            work[name] = Work(
                partial(_core.histogram, bits.rows, index, planes, X.shape[1]), len(index) * X.shape[1], path
            )
            _core.choose_simd_path(path)
            check(name, work[name], expected)
    return work


def float_work(X: NDArray[np.uint8], bits: PackedBits, rng: np.random.Generator, folder: Path) -> Work | None:
    """All rows in float32; none without a compiler, or on an x86 machine without AVX2."""
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler or _core.simd_paths() == ["portable"]:
        return None
    source, library = Path(__file__).with_name("float_histogram.cpp"), folder / "float_histogram.so"
    flags = ["-O3", "-std=c++17", "-shared", "-fPIC"]
    subprocess.run([*shlex.split(compiler), *flags, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).float_histogram
    function.argtypes = [ctypes.c_void_p] + [ctypes.c_size_t] * 3 + [ctypes.c_void_p] * 4
    function.restype = None

    _, values = random_digits(rng, len(X), 1)
    g, h = values.astype(np.float32)
    n_words = -(-X.shape[1] // 32)

    def histogram() -> Sums:
        g_sums, h_sums = np.empty((2, 32 * n_words), np.float32)
        arrays = (array.ctypes.data for array in (g, h, g_sums, h_sums))
        function(bits.rows.ctypes.data, bits.rows.shape[1], n_words, len(X), *arrays)
        return g_sums, h_sums

    work = Work(histogram, X.size)
    check("float32", work, values @ X)
    return work


def rates(work: dict[str, Work], repeat: int) -> dict[str, float]:
    """Row-features a second of each, in units of 10^9: the best call of ``repeat`` bursts, taken in turns."""
    best = dict.fromkeys(work, float("inf"))
    for _ in range(repeat):
        for name, each in work.items():
            if each.path:
                _core.choose_simd_path(each.path)
            for _ in range(BURST):
                start = perf_counter()
                each.histogram()
                best[name] = min(best[name], perf_counter() - start)
    return {name: each.row_features / best[name] / 1e9 for name, each in work.items()}


def grid(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left")
    return table


def rates_table(measured: dict[str, float], title: str) -> Table:
    floats = measured.get("float32")
    table = grid(title, "", "G row-features/s", "times float32")
    for name, rate in measured.items():
        table.add_row(name, f"{rate:.2f}", f"{rate / floats:.2f}" if floats else "")
    return table


def wanted_table(measured: dict[str, float]) -> Table:
    path = _core.simd_paths()[0]
    whole = measured[f"{path}, all rows"]
    table = grid(f"Wanted and measured: {path}", "", "wanted", "measured", "")
    if "float32" in measured:
        ratio = whole / measured["float32"]
        verdict = "met" if ratio >= RATIO_WANTED else "not met"
        table.add_row("against float32", f">= {RATIO_WANTED:g}x", f"{ratio:.2f}x", verdict)
    share = measured[f"{path}, a third of the rows"] / whole
    verdict = "met" if share >= THIRD_WANTED else "not met"
    table.add_row("rate on a third of the rows", f">= {THIRD_WANTED:.0%}", f"{share:.0%}", verdict)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--features", type=int, default=784)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--smoke", action="store_true", help="few rows: shows that the script works")
    options = parser.parse_args()
    n_rows, repeat = (2000, 1) if options.smoke else (options.rows, options.repeat)

    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n_rows, options.features), np.uint8)
    bits = pack(X)
    work = our_work(X, bits, rng)
    console = Console(width=110)
    with tempfile.TemporaryDirectory() as folder:
        floats = float_work(X, bits, rng, Path(folder))
        if floats:
            work["float32"] = floats
        else:
            console.print("float32 is skipped: it needs a C++ compiler, and AVX2 or NEON")
        measured = rates(work, repeat)
    console.print(rates_table(measured, f"{n_rows:,} rows, {options.features} features, one thread"))
    console.print(wanted_table(measured))


if __name__ == "__main__":
    main()
