"""Dropping trees while boosting (DART), tried with LightGBM, which has it: is it worth having?

    python benchmarks/dart.py [--only dna mushrooms adult nips] [--step 4] [--max-iter 300] [--smoke]

Every few columns of a set, each by LightGBM on the columns before it: plain boosting, and DART with two drop rates. After every round
the model as it is then is validated and tested, and the round that validates best counts, as in individual selection. The data is
read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes scikit-learn's digits. What was measured is
written to docs/results/dart.json and its table into docs/tuning.md.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time
from typing import Any

import numpy as np

from lbarn.datasets import Split
from pages import arguments, command, commit, load, measured_before, publish, table
from table1 import LEAVES, RATES, SETS

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "DART 0.02": {"boosting": "dart", "drop_rate": 0.02},
    "DART 0.1": {"boosting": "dart", "drop_rate": 0.1},
}


def one_column(data: Split, d: int, parameters: dict[str, Any], rounds: int) -> tuple[float, float]:
    """Validation and test log-likelihood after the round that validates best."""
    import lightgbm as lgb

    train, *others = (lgb.Dataset(part[:, :d], part[:, d]) for part in data)
    found: dict[str, Any] = {}
    lgb.train(
        parameters,
        train,
        num_boost_round=rounds,
        valid_sets=others,
        valid_names=["valid", "test"],
        callbacks=[lgb.record_evaluation(found)],
    )
    valid, test = (-np.array(found[name]["binary_logloss"]) for name in ("valid", "test"))
    best = int(valid.argmax())
    return float(valid[best]), float(test[best])


def measure(name: str, options: argparse.Namespace) -> dict[str, Any]:
    data = load(name)
    columns = [d for d in range(options.step // 2, data.train.shape[1], options.step) if _varies(data, d)]
    found: dict[str, Any] = {"command": command(), "commit": commit(), "columns": len(columns)}
    for kind, own in KINDS.items():
        parameters = {
            "objective": "binary",
            "metric": "binary_logloss",
            "num_leaves": LEAVES[name],
            "learning_rate": 4 * RATES[name] if RATES[name] < 0.1 else RATES[name],
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 1e-3,
            "num_threads": 1,
            "seed": 0,
            "verbose": -1,
            **own,
        }
        start = process_time()
        scores = np.array([one_column(data, d, parameters, options.max_iter) for d in columns])
        valid, test = scores.sum(axis=0).tolist()
        found[kind] = {"valid": valid, "test": test, "seconds": process_time() - start}
        print(name, kind, found[kind], file=sys.stderr, flush=True)
    return found


def _varies(data: Split, d: int) -> bool:
    """LightGBM wants both values to learn from, and a predictor that is not constant."""
    return 0 < data.train[:, d].mean() < 1 and bool(data.train[:, :d].std(axis=0).any())


def report(sets: dict[str, Any]) -> str:
    lines = []
    for name, found in sets.items():
        plain = found["plain"]
        lines.append([SETS.get(name, name), f"{found['columns']}", f"{plain['test']:.3f}"])
        for kind in list(KINDS)[1:]:
            lines[-1] += [
                f"{found[kind]['test'] - plain['test']:+.3f}",
                f"{found[kind]['seconds'] / plain['seconds']:.1f}",
            ]
    titles = [title for kind in list(KINDS)[1:] for title in (kind, "times as long")]
    return table(["test log-likelihood, nats", "columns", "LightGBM", *titles], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = ("dna", "mushrooms", "adult", "nips", "connect4", "digits")
    parser.add_argument("--only", nargs="+", choices=sets, default=["dna", "mushrooms", "adult", "nips"], metavar="SET")
    parser.add_argument("--step", type=int, default=4, help="one of so many columns")
    parser.add_argument("--max-iter", type=int, default=300)
    options = arguments(parser)
    if options.smoke:
        options.only, options.max_iter, options.step = ["digits"], 3, 20
    found = measured_before("dart", options) | {name: measure(name, options) for name in options.only}
    publish({"sets": found}, report(found), options, "dart", "tuning")


if __name__ == "__main__":
    main()
