"""Which orders an ensemble should have, how many networks of each, and with which weights: on validation rows, to choose by.

    python benchmarks/bench_orders.py [--only adult connect4 dna mushrooms nips] [--jobs 2] [--smoke]

All networks learn from the training rows, a fifth of them held out, and are judged on the set's validation rows, of which they have seen nothing.
The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes scikit-learn's digits. What was
measured is written to docs/results/orders.json, its table into docs/ensembles.md.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn import LBARN, LBARNEnsemble
from pages import Bits, arguments, command, commit, load, measured_before, publish, table
from table1 import SETS

N = 4  # orders
Order = NDArray[np.intp]


def orders(X: Bits, model: LBARN) -> dict[str, list[Order]]:
    """Random ones in three ways."""
    rng = np.random.default_rng(0)
    D = X.shape[1]
    groups = [np.array(group) for group in model.network_.groups]
    grouped = {j for group in groups for j in group.tolist()}
    units = groups + [np.array([j]) for j in range(D) if j not in grouped]

    def together() -> Order:
        return np.concatenate([rng.permutation(units[k]) for k in rng.permutation(len(units))])

    first, second = together(), together()
    return {
        "random": [rng.permutation(D) for _ in range(N)],
        "groups together": [together() for _ in range(N)],
        "and backwards": [first, first[::-1], second, second[::-1]],
    }


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    data = load(name)
    found: dict[str, Any] = {"command": command(), "commit": commit()}
    shared: dict[str, Any] = {"n_jobs": options.jobs, "random_state": 0, **({"max_iter": 5} if options.smoke else {})}

    def judge(title: str, **parameters: Any) -> None:
        model = LBARNEnsemble(**shared, **parameters).fit(data.train)
        found[title] = {"score": model.score(data.valid), "members": [m.score(data.valid) for m in model.members_]}
        print(name, title, found[title], file=sys.stderr, flush=True)

    one = LBARN(**shared).fit(data.train)
    found["one network"] = {"score": one.score(data.valid)}
    leaves = one.max_leaf_nodes_
    for title, own in orders(data.train, one).items():
        judge(title, n_bags=1, orders=own)
    judge("by default")
    judge("by EM", weights="em")
    judge("bags alone", n_bags=2 * N, orders=[np.arange(data.train.shape[1])])
    halves = [
        LBARNEnsemble(**shared, n_orders=N // 2, max_leaf_nodes=J).fit(data.train)
        for J in (max(2, leaves // 2), 2 * leaves)
    ]
    log_p = [member.score_samples(data.valid) for model in halves for member in model.members_]
    found["two strengths"] = {"score": float(np.mean(np.logaddexp.reduce(log_p, axis=0) - np.log(len(log_p))))}
    return found


TITLES = (
    "one network",
    "random",
    "groups together",
    "and backwards",
    "by default",
    "by EM",
    "bags alone",
    "two strengths",
)


def report(sets: dict[str, Any]) -> str:
    lines = [
        [SETS.get(name, name), *(f"{found[title]['score']:.3f}" for title in TITLES)] for name, found in sets.items()
    ]
    return table(["nats per validation row", *TITLES], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["adult", "connect4", "dna", "mushrooms", "nips"]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="SET")
    options = arguments(parser)
    if options.smoke:
        options.only = ["digits"]
    sets = measured_before("orders", options) | {name: measure(name, options) for name in options.only}
    publish({"sets": sets}, report(sets), options, "orders", "ensembles")


if __name__ == "__main__":
    main()
