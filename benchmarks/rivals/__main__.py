"""Trains neural rivals on sets and prints their figures: ``cd benchmarks && python -m rivals dna nips --minutes 2``."""

from __future__ import annotations

import argparse
import json

from pages import load
from rivals import NAMES, fit_rival

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("sets", nargs="+")
parser.add_argument("--rivals", nargs="+", choices=NAMES, default=NAMES)
parser.add_argument("--minutes", type=float, default=15, help="for each rival on each set, at most 15")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

for name in options.sets:
    data = load(name)
    for rival in options.rivals:
        seconds = 60 * min(options.minutes, 15)
        fitted = fit_rival(rival, data.train, data.valid, seconds=seconds, seed=options.seed, threads=options.threads)
        score = fitted.score_samples(data.test).mean()
        print(json.dumps({"set": name, "rival": rival, "test_log_likelihood": score, **fitted.info}), flush=True)
