"""What it gains to give every member of an ensemble a hold-out of its own.

    python benchmarks/bench_bagging.py [--only dna mushrooms nips adult] [--members 8] [--jobs 2] [--smoke]

Random orders, refitted leaves, equal weights, with and without bagging; nothing else differs. The data is read from the folder LBARN_DATA,
or else from ../shared/data beside the project; --smoke takes scikit-learn's digits. What was measured is written to
docs/results/bagging.json, its table into docs/ensembles.md.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from lbarn import LBARNEnsemble
from pages import arguments, command, commit, load, measured_before, publish, table, train
from table1 import LEAVES, SETS

CHOSEN = {  # the selection that suits the set
    "dna": {"learning_rate": 0.06, "max_iter": 300},
    "mushrooms": {"learning_rate": 0.06, "max_iter": 400},
    "nips": {"learning_rate": 0.06, "max_iter": 300, "selection": "common"},
    "adult": {"learning_rate": 0.3, "max_iter": 300},
    "digits": {"learning_rate": 0.3, "max_iter": 10},
}


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    data = load(name)
    found: dict[str, Any] = {"command": command(), "commit": commit(), "members": options.members}
    for bagging in (False, True):
        model = LBARNEnsemble.paper(
            n_orders=options.members,
            bagging=bagging,
            max_leaf_nodes=LEAVES[name],
            split_bits=3,
            refit=True,
            n_jobs=options.jobs,
            random_state=0,
            **CHOSEN[name],
        )
        seconds = train(model, data)
        found["bagged" if bagging else "plain"] = {
            "one": float(np.mean([member.score(data.test) for member in model.members_])),
            "mixed": model.score(data.test),
            "seconds": seconds,
        }
        print(name, bagging, found, file=sys.stderr, flush=True)
    return found


def report(sets: dict[str, Any]) -> str:
    lines = []
    for name, found in sets.items():
        values = [found[kind][part] for kind in ("plain", "bagged") for part in ("one", "mixed")]
        gain = found["bagged"]["mixed"] - found["plain"]["mixed"]
        lines.append([SETS.get(name, name), *(f"{value:.2f}" for value in values), f"{gain:+.2f}"])
    return table(["", "one member", "mixed", "one member, bagged", "mixed, bagged", "gained"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in CHOSEN if name != "digits"]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="SET")
    parser.add_argument("--members", type=int, default=8)
    options = arguments(parser)
    if options.smoke:
        options.only, options.members = ["digits"], 2
    sets = measured_before("bagging", options) | {name: measure(name, options) for name in options.only}
    publish({"sets": sets}, report(sets), options, "bagging", "ensembles")


if __name__ == "__main__":
    main()
