"""Where a classifier that is trained on samples falls behind one that is trained on real rows.

    python benchmarks/table_use.py [--only shoppers magic default] [--seeds 2] [--jobs 2] [--smoke]

tables.py measures that a classifier (XGBoost) trained on LBARN's samples is a little worse on new rows than one trained on real rows. Here
a fifth of the training rows is held out instead, test rows are not looked at, and the way from real rows to samples is taken in steps. AUC on
the rows held out, of

    LBARN itself        P(target | the other columns of a row), as the model has it
    real rows           XGBoost, trained on real rows
    drawn targets       real rows, but their targets drawn from LBARN's P(target | the other columns)
    samples             whole rows drawn from LBARN, as many as there are real rows
    targets by XGBoost  the same samples, but their targets drawn from the XGBoost that was trained on real rows
    5 x samples         five times as many samples

The sets are read as in tables.py. Finished cells are kept in docs/results/table_use.json and not measured again; the table goes into docs/tables.md.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

from lbarn import LBARN
from pages import arguments, measured_before, publish, stamp, table
from tables import SETS, TARGETS, chances, read, use

STEPS = {
    "model": "LBARN itself",
    "real": "real rows",
    "drawn": "drawn targets",
    "samples": "samples",
    "relabelled": "targets by XGBoost",
    "more": "5 x samples",
}
MORE = 5

Frame = Any
Floats = NDArray[np.float64]


def _with_targets(rows: Frame, target: str, p: Floats, levels: list[Any], rng: np.random.Generator) -> Frame:
    """The rows with targets drawn by the probability of the second level."""
    drawn = np.where(rng.random(len(rows)) < p, levels[1], levels[0])
    return rows.assign(**{target: pd.Series(drawn, index=rows.index).astype(rows[target].dtype)})


def cell(name: str, seed: int, jobs: int, smoke: bool) -> dict[str, float]:
    target = TARGETS[name]
    rows = read(name)[0]
    if smoke:  # wine has three classes; two will do
        rows = rows[rows[target] != "class 2"]
    train, held = (
        part.reset_index(drop=True)
        for part in train_test_split(rows, test_size=0.2, random_state=seed, stratify=rows[target])
    )
    levels = sorted(train[target].unique())
    rng = np.random.default_rng(seed)
    model = LBARN(n_jobs=jobs, random_state=seed, **({"max_iter": 10} if smoke else {})).fit(train)
    samples = model.sample(MORE * len(train), random_state=seed)
    as_many = samples[: len(train)]

    def by_model(frame: Frame) -> Floats:
        found = model.conditional(frame, target)
        return np.asarray(found.probability[:, [str(level) for level in found.levels].index(str(levels[1]))])

    by_xgboost = chances(train, as_many, target, levels[1], jobs)
    trained_on = {
        "real": train,
        "drawn": _with_targets(train, target, by_model(train), levels, rng),
        "samples": as_many,
        "relabelled": _with_targets(as_many, target, by_xgboost, levels, rng),
        "more": samples,
    }
    found = {key: use(frame, held, target, jobs) for key, frame in trained_on.items()}
    return {"model": float(roc_auc_score(held[target] == levels[1], by_model(held))), **found}


def report(sets: dict[str, Any]) -> str:
    lines = [
        [name, *(f"{np.mean([one[key] for one in sets[name]['cells'].values()]):.3f}" for key in STEPS)]
        for name in TARGETS
        if name in sets
    ]
    return table(["AUC on rows held out", *STEPS.values()], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for name in SETS if name != "beijing"]  # whose target is a number
    parser.add_argument("--only", nargs="+", choices=names, default=["shoppers", "magic", "default"], metavar="SET")
    parser.add_argument("--seeds", type=int, default=2)
    options = arguments(parser)
    if options.smoke:
        options.only, options.seeds = ["wine"], 1
    sets = measured_before("table_use", options)
    for name in options.only:
        for seed in range(options.seeds):
            if str(seed) in sets.get(name, {"cells": {}})["cells"]:
                continue
            found = cell(name, seed, options.jobs, options.smoke) | stamp()
            print(name, seed, found, file=sys.stderr, flush=True)
            sets.setdefault(name, {"cells": {}})["cells"][str(seed)] = found
            publish({"sets": sets}, report(sets), options, "table_use", "tables")
    if not options.smoke:
        publish({"sets": sets}, report(sets), options, "table_use", "tables")  # also if nothing was left to measure


if __name__ == "__main__":
    main()
