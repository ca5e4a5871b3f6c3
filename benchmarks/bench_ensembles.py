"""What it gains to mix networks that read the columns in different orders: test log-likelihood by number of members.

    python benchmarks/bench_ensembles.py [--only digits mushrooms nips ocr_letters] [--jobs 2] [--smoke]

Images are read in scans, other tables in random orders. One training run, with seed 0, is selected from in three ways. The data is read from the folder LBARN_DATA, or else from
../shared/data beside the project; --smoke takes scikit-learn's digits. What was measured is written to
docs/results/ensembles.json, its table into docs/ensembles.md.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from lbarn import LBARNEnsemble
from pages import Bits, arguments, command, load, measured_before, publish, table, train

SIZES = (2, 4, 8)
SELECTIONS = ("individual", "common", "linearized")


class Set(NamedTuple):
    title: str
    parameters: dict[str, Any]


SETS = {
    "digits": Set(
        "digits", {"orders": "scans", "image_shape": (8, 8), "max_leaf_nodes": 8, "learning_rate": 0.1, "max_iter": 150}
    ),
    "mushrooms": Set("Mushrooms", {"max_leaf_nodes": 8, "learning_rate": 0.04, "max_iter": 400}),
    "nips": Set("NIPS", {"max_leaf_nodes": 2, "learning_rate": 0.02, "max_iter": 1000}),
    "ocr_letters": Set(
        "OCR-letters",
        {"orders": "scans", "image_shape": (16, 8), "max_leaf_nodes": 32, "learning_rate": 0.06, "max_iter": 500},
    ),
}


def measure(name: str, parameters: dict[str, Any], jobs: int) -> dict[str, Any]:
    data = load(name)
    model = LBARNEnsemble.paper(weights="em", random_state=0, n_jobs=jobs, **parameters)
    seconds = train(model, data)
    selections = {method: scores(model.select(method), data.test) for method in SELECTIONS}
    return {"command": command(), "parameters": parameters, "seconds": seconds, "selections": selections}


def scores(model: LBARNEnsemble, test: Bits) -> dict[str, Any]:
    log_p = np.stack([member.score_samples(test) for member in model.members_], axis=1)
    return {
        "members": log_p.mean(axis=0).tolist(),
        "mixed": {str(K): float(np.mean(logsumexp(log_p[:, :K], axis=1) - np.log(K))) for K in SIZES},
        "em": model.score(test),
        "weights": model.weights_.tolist(),
    }


def report(sets: dict[str, Any]) -> str:
    lines = []
    for name, one in sets.items():
        orders = one["parameters"].get("orders", "random")
        for method, found in one["selections"].items():
            members = found["members"]
            values = [np.mean(members), min(members), max(members), *found["mixed"].values(), found["em"]]
            lines.append([SETS[name].title, orders, method, *(f"{value:.2f}" for value in values)])
    sizes = [f"{K} mixed" for K in SIZES]
    heads = ["", "orders", "selection", "one", "worst", "best", *sizes, f"{SIZES[-1]} by EM"]
    return table(heads, lines, texts=3)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(SETS), default=["digits", "mushrooms", "nips"])
    return arguments(parser)


def main() -> None:
    chosen = options()
    sets = measured_before("ensembles", chosen)
    for name in ["digits"] if chosen.smoke else chosen.only:
        short = {"max_iter": 5} if chosen.smoke else {}
        sets[name] = measure(name, SETS[name].parameters | short, chosen.jobs)
    sets = {name: sets[name] for name in SETS if name in sets}
    publish({"sets": sets}, report(sets), chosen, "ensembles")


if __name__ == "__main__":
    main()
