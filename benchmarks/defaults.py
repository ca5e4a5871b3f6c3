"""What no parameters at all give: the defaults beside those of the paper, and whether the model is as certain as it should be.

    python benchmarks/defaults.py [--only dna nips] [--models default paper] [--jobs 2] [--smoke]

Test nats per row, CPU seconds, and calibration: the cells of the test rows whose rarer value has a probability below 0.001, how many of
them should have had it by the model's own account, and how many had. No model is chosen on test rows; how certainty is stretched was devised with
such counts in view (docs/fitting.md).

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; ``digits`` are scikit-learn's. What was
measured is written to docs/results/defaults.json, set by set, and its table into docs/fitting.md.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time
from typing import Any

from lbarn import LBARN
from lbarn.inspection import calibration
from pages import Split, arguments, command, commit, load, measured_before, publish, table, train

SETS = ("digits", "mushrooms", "nips", "dna", "adult", "connect4", "ocr_letters", "web", "mnist")
MODELS = {"paper": LBARN.paper, "default": LBARN}
THRESHOLDS = (1e-4, 1e-3)


def measure(model: LBARN, data: Split) -> dict[str, Any]:
    start = process_time()
    train(model, data)
    seconds = process_time() - start
    rare = calibration(model, data.test, thresholds=THRESHOLDS)
    return {
        "test": model.score(data.test),
        "cpu_seconds": seconds,
        "calibration": [[t, float(own.expected), float(own.observed)] for t, own in zip(THRESHOLDS, rare)],
    }


def report(sets: dict[str, Any]) -> str:
    lines = []
    for name, found in sets.items():
        own = [found["models"].get(model) for model in MODELS]
        lines.append(
            [
                name,
                *("" if one is None else f"{one['test']:.2f}" for one in own),
                *("" if one is None else f"{one['cpu_seconds']:.0f}" for one in own),
                *("" if one is None else "{1:.1f} / {2:.0f}".format(*one["calibration"][-1]) for one in own),
            ]
        )
    headings = [
        "test nats, paper",
        "default",
        "CPU s, paper",
        "default",
        "p < 0.001: expected / observed, paper",
        "default",
    ]
    return table(["", *headings], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), metavar="MODEL")
    options = arguments(parser)
    if options.smoke:
        options.only = ["digits"]
    sets = measured_before("defaults", options)
    for name in options.only:
        data = load(name)
        found = sets.setdefault(name, {"models": {}})
        found |= {"command": command(), "commit": commit()}
        for key in options.models:
            few = {"max_iter": 20} if options.smoke else {}
            model = MODELS[key](n_jobs=options.jobs, random_state=0, **few)
            found["models"][key] = measure(model, data)
            print(name, key, found["models"][key], file=sys.stderr, flush=True)
        sets = {key: sets[key] for key in SETS if key in sets}
        publish({"sets": sets}, report(sets), options, "defaults", "fitting")


if __name__ == "__main__":
    main()
