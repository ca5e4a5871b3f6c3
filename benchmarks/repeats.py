"""What is gained by keeping the rows that new ones repeat, with no other parameter set.

    python benchmarks/repeats.py [--only web dna] [--jobs 2] [--smoke]

Test nats per row of the default network without and with rows that repeat, the share of test rows that are equal to a training or
validation row, and the share that the model expects. Whether rows are kept is decided on validation rows. What was measured is written to
docs/results/repeats.json and its table into docs/repeats.md.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time
from typing import Any

import numpy as np

from lbarn import LBARN
from lbarn._engine.bits import pack
from lbarn._network.repeats import Repeats
from pages import Split, arguments, load, measured_before, publish, stamp, table, train

SETS = ("digits", "adult", "connect4", "dna", "mushrooms", "nips", "ocr_letters", "rcv1_10k", "web")


def measure(data: Split, options: Any) -> dict[str, Any]:
    known = Repeats.of(pack(np.concatenate([data.train, data.valid])))
    found: dict[str, Any] = {"equal": float((known.find(pack(data.test)) < len(known)).mean())}
    few = {"max_iter": 20} if options.smoke else {}
    for name, repeats in (("without", False), ("auto", "auto"), ("always", True)):
        if name == "always" and found["rows"]:  # the same once more
            found |= {"always": found["auto"]}
            continue
        model = LBARN(repeats=repeats, n_jobs=options.jobs, random_state=0, **few)
        start = process_time()
        train(model, data)
        found |= {name: model.score(data.test), f"seconds_{name}": process_time() - start}
        if name == "auto":
            kept = model.repeats_
            found |= {"share": None if kept is None else kept.share, "rows": 0 if kept is None else len(kept)}
    return found


def report(sets: dict[str, Any]) -> str:
    lines = []
    for name in [name for name in SETS if name in sets]:
        own = sets[name]
        share = "none kept" if own["share"] is None else f"{own['share']:.1%}"
        lines.append(
            [
                name,
                f"{own['equal']:.1%}",
                share,
                f"{own['rows']:,}",
                *(f"{own[key]:.2f}" for key in ("without", "auto", "always")),
            ]
        )
    headings = ["", "test rows seen before", "share", "rows kept", "test nats, repeats=False", "auto", "True"]
    return table(headings, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    options = arguments(parser)
    if options.smoke:
        options.only = ["digits"]
    sets = measured_before("repeats", options)
    for name in options.only:
        sets[name] = measure(load(name), options) | stamp()
        print(name, sets[name], file=sys.stderr, flush=True)
        publish({"sets": sets}, report(sets), options, "repeats")


if __name__ == "__main__":
    main()
