"""Newton boosting against gradient boosting: the paper found the first-order one a bit worse.

    python benchmarks/newton.py [--only adult dna mushrooms nips] [--max-iter 1000] [--jobs 2] [--smoke]

Exact splits, the paper's numbers of leaves and learning rates, individual selection. The data is read from the folder LBARN_DATA,
or else from ../shared/data beside the project; --smoke takes scikit-learn's digits. What was measured is written to
docs/results/newton.json and its table into docs/reproducing.md.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from lbarn import LBARN
from pages import arguments, command, commit, load, measured_before, publish, table, train
from table1 import LEAVES, RATES, SETS, scored

FOUR = ("adult", "dna", "mushrooms", "nips")
KINDS = ("newton", "gradient")


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    data = load(name)
    found: dict[str, Any] = {"command": command(), "commit": commit()}
    for boosting in KINDS:
        model = LBARN.paper(
            max_leaf_nodes=LEAVES[name],
            learning_rate=RATES[name],
            max_iter=options.max_iter,
            boosting=boosting,
            splits="exact",
            n_jobs=options.jobs,
            random_state=0,
        )
        seconds = train(model, data)
        found[boosting] = {
            **scored(model, data),
            "trees": float(model.n_trees_.mean()),
            "seconds": seconds,
        }
        print(name, boosting, found[boosting], file=sys.stderr, flush=True)
    return found


def report(sets: dict[str, Any]) -> str:
    lines = []
    for name, found in sets.items():
        newton, gradient = (found[kind] for kind in KINDS)
        lines.append(
            [
                SETS.get(name, name),
                f"{newton['loglik']:.3f}",
                f"{gradient['loglik']:.3f}",
                f"{gradient['loglik'] - newton['loglik']:+.3f}",
                f"{newton['trees']:.0f}",
                f"{gradient['trees']:.0f}",
            ]
        )
    return table(["test log-likelihood, nats", "Newton", "gradient", "difference", "trees", "trees"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(FOUR), metavar="SET")
    parser.add_argument("--max-iter", type=int, default=1000)
    options = arguments(parser)
    if options.smoke:
        options.only, options.max_iter = ["digits"], 5
    sets = measured_before("newton", options) | {name: measure(name, options) for name in options.only}
    publish({"sets": sets}, report(sets), options, "newton", "reproducing")


if __name__ == "__main__":
    main()
