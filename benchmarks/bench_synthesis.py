"""Synthetic rows from LBARN and from simpler models: how close are they to rows that none of them has seen?

    python benchmarks/bench_synthesis.py [--only ocr_letters mushrooms adult] [--rows 2500] [--max-iter 300]
                                         [--learning-rate 0.05] [--jobs 2] [--smoke]

As many rows from each model as are held out of the test set, and beside them what no model could better: other test rows.
Training rows given out as synthetic look as good, which is why copies and neighbours are counted.

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes
scikit-learn's digits. What was measured is written to docs/results/synthesis.json, its table into docs/synthesis.md, and some
letters are drawn into docs/results/synthesis.png.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np

from lbarn import fidelity
from lbarn.baselines import BernoulliMixture, IndependentBits
from pages import Bits, Split, arguments, command, fitted, load, measured_before, picture, publish, results_file, table

SETS = {
    "ocr_letters": ("OCR-letters", 32),
    "mushrooms": ("Mushrooms", 8),
    "adult": ("Adult", 4),
    "digits": ("digits", 8),
}
SHAPES = {"ocr_letters": (16, 8), "digits": (8, 8)}
SHOWN = 20
FIGURES = (
    "marginal_difference_max",
    "marginal_difference_mean",
    "correlation_difference_mean",
    "correlation_agreement",
    "two_sample_auc",
    "nearest_synthetic",
    "nearest_holdout",
    "copied_synthetic",
    "copied_holdout",
)
OURS = "LBARN"


def made(name: str, data: Split, n: int, options: argparse.Namespace) -> dict[str, Bits]:
    """``n`` rows of every kind."""
    rng = np.random.default_rng(1)
    network, _ = fitted(
        data,
        max_leaf_nodes=SETS[name][1],
        learning_rate=options.learning_rate,
        max_iter=options.max_iter,
        n_jobs=options.jobs,
    )
    mixture = BernoulliMixture(n_jobs=options.jobs).fit(data.train, X_val=data.valid)
    return {
        OURS: network.sample(n, random_state=0),
        "Bernoulli mixture": mixture.sample(n, random_state=0),
        "independent bits": IndependentBits().fit(data.train).sample(n, random_state=0),
        "training rows": data.train[rng.integers(0, len(data.train), n)],
    }


def compare(name: str, options: argparse.Namespace) -> dict[str, Any]:
    data = load(name)
    shuffled = np.random.default_rng(0).permutation(len(data.test))
    n = min(options.rows, len(data.test) // 2)
    holdout, other = data.test[shuffled[:n]], data.test[shuffled[n : 2 * n]]
    known = np.concatenate([data.train, data.valid])
    kinds = made(name, data, n, options) | {"other test rows": other}
    found = {}
    for kind, rows in kinds.items():
        compared = fidelity(holdout, rows, train=known)
        found[kind] = {name: getattr(compared, name) for name in FIGURES}
        print(name, kind, found[kind], file=sys.stderr, flush=True)
    if name in SHAPES and find_spec("matplotlib") and (options.results or not options.smoke):
        strips = [
            (kind, kinds[kind][:SHOWN]) for kind in (OURS, "Bernoulli mixture", "independent bits", "other test rows")
        ]
        images = [(title, X.reshape(-1, *SHAPES[name])) for title, X in strips]
        picture(images, (options.results or results_file("synthesis")).with_suffix(".png"))
    return {"title": SETS[name][0], "command": command(), "rows": n, "kinds": found}


def report(sets: dict[str, Any]) -> str:
    lines = []
    for result in sets.values():
        for kind, found in result["kinds"].items():
            lines.append(
                [
                    f"{result['title']}: {kind}",
                    f"{found['two_sample_auc']:.3f}",
                    f"{found['marginal_difference_mean']:.4f} ({found['marginal_difference_max']:.3f})",
                    f"{found['correlation_difference_mean']:.4f}",
                    f"{found['correlation_agreement']:.4f}",
                    f"{found['nearest_synthetic']:.2f} ({found['nearest_holdout']:.2f})",
                    f"{100 * found['copied_synthetic']:.1f} ({100 * found['copied_holdout']:.1f})",
                ]
            )
    headings = [
        "",
        "AUC",
        "marginals differ: mean (max)",
        "correlations differ",
        "correlations agree",
        "bits to the nearest training row (held-out rows)",
        "copies, % (held-out rows)",
    ]
    return table(headings, lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    three = ["ocr_letters", "mushrooms", "adult"]
    parser.add_argument("--only", nargs="+", choices=three, default=three)
    parser.add_argument("--rows", type=int, default=2500, help="rows of each kind")
    parser.add_argument("--max-iter", type=int, default=300, help="LBARN: trees per column")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="LBARN: shrinkage")
    chosen = arguments(parser)
    if chosen.smoke:
        chosen.only, chosen.rows, chosen.max_iter, chosen.learning_rate = ["digits"], 60, 20, 0.3
    return chosen


def main() -> None:
    chosen = options()
    sets = measured_before("synthesis", chosen) | {name: compare(name, chosen) for name in chosen.only}
    publish({"sets": sets}, report(sets), chosen, "synthesis")


if __name__ == "__main__":
    main()
