"""What is gained by predicting columns of numbers from weighted sums of those before them, with no other parameter set.

    python benchmarks/sums.py [--only wine bills-500] [--splits 3] [--jobs 2] [--smoke]

Test nats per row of the default network without and with sums, and CPU seconds to fit, means over splits. wine, breast-cancer, diabetes and iris are scikit-learn's,
a quarter of the rows held out. NAME-N are N training rows of a table of the folder LBARN_DATA, or else of ../shared/data beside the project, and 3,000
others to test on. bills-N are simulated: a total, a difference with noise, a product, and a category that follows from a total. Whether there are sums is decided on validation rows. What was measured is written to
docs/results/sums.json and its table into docs/groups.md.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

import tables
from lbarn import LBARN
from pages import arguments, measured_before, publish, stamp, table

SMALL = {"wine": load_wine, "breast-cancer": load_breast_cancer, "diabetes": load_diabetes, "iris": load_iris}
PARTS = [f"{name}-{n}" for name in tables.SETS for n in (400, 2000)]
BILLS = ["bills-500", "bills-3000", "bills-20000"]
SETS = [*SMALL, *BILLS, *PARTS]
_TEST_ROWS = 3_000


def split(name: str, seed: int) -> tuple[Any, Any]:
    """Rows to train on, and to test on."""
    rng = np.random.default_rng(seed)
    if name in SMALL:
        frame = SMALL[name](as_frame=True).frame
        if name != "diabetes":
            frame["target"] = frame["target"].map("class {}".format)
        n = 3 * len(frame) // 4
    else:
        name, size = name.split("-")
        n = int(size)
        frame = bills(n + _TEST_ROWS, rng) if name == "bills" else tables.read(name)[0]
    rows = frame.iloc[rng.permutation(len(frame))[: n + _TEST_ROWS]].reset_index(drop=True)
    return rows[:n], rows[n:]


def bills(n: int, rng: np.random.Generator) -> Any:
    net, tip, items = rng.gamma(2, 20, n).round(1), rng.normal(50, 10, n).round(1), rng.integers(1, 9, n)
    frame = pd.DataFrame({"net": net, "tip": tip, "items": items, "total": (net + tip).round(1)})
    frame["difference"] = (2 * tip - net + rng.normal(0, 1, n)).round(1)
    frame["product"] = (items * net).round(1)
    frame["large"] = np.where(net + tip + rng.normal(0, 5, n) > 95, "yes", "no")
    return frame


def measure(name: str, options: Any) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    few = {"max_iter": 20} if options.smoke else {}
    for seed in range(options.splits):
        train, test = split(name, seed)
        for key, counts in (("without", False), ("auto", "auto")):
            start = process_time()
            model = LBARN(counts=counts, n_jobs=options.jobs, random_state=0, **few).fit(train)
            found.setdefault(f"seconds_{key}", []).append(process_time() - start)
            found.setdefault(key, []).append(model.score(test))
    gain = np.subtract(found["auto"], found["without"])
    error = float(gain.std(ddof=1) / len(gain) ** 0.5) if len(gain) > 1 else float("nan")
    return {key: float(np.mean(own)) for key, own in found.items()} | {"gain": float(gain.mean()), "error": error}


def report(sets: dict[str, Any]) -> str:
    lines = []
    for name in [name for name in SETS if name in sets]:
        own = sets[name]
        gain = f"{own['gain']:+.2f}" if np.isnan(own["error"]) else f"{own['gain']:+.2f} ± {own['error']:.2f}"
        seconds = (f"{own[f'seconds_{key}']:.1f}" for key in ("without", "auto"))
        lines.append([name, f"{own['without']:.2f}", f"{own['auto']:.2f}", gain, *seconds])
    return table(["", "test nats, counts=False", "auto", "gain", "CPU seconds", "auto"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=SETS, metavar="SET")
    parser.add_argument("--splits", type=int, default=3)
    options = arguments(parser)
    if options.smoke:
        options.only, options.splits = ["wine"], 1
    sets = measured_before("sums", options)
    for name in options.only:
        sets[name] = measure(name, options) | stamp()
        print(name, sets[name], file=sys.stderr, flush=True)
    publish({"sets": sets}, report(sets), options, "sums", "groups")


if __name__ == "__main__":
    main()
