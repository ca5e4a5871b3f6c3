"""How likely test rows are: lbarn beside other densities, on the same rows and in the same units.

    python benchmarks/densities.py [--only adult magic] [--models LBARN kernels] [--splits 5] [--minutes 30] [--jobs 2] [--smoke]

Tables of all kinds of columns: mean log of the mass of a test row on the grids that ``columns_`` tells.

    LBARN, LBARNEnsemble  no parameters set; those of tables.py, seconds to sample included, if it has been run
    independent           every column on its own, in the cells that it has if alone
    mixture               K products of columns, in those cells, by EM; K and the pseudocounts are chosen on held-out rows
    TabularARGN           mostlyai-engine, columns in the order given and rare values kept, which is what likelihood wants. Its log_prob is of a
                          bin where a number has bins; the bin is divided by the number of values that it draws from. "Bins filled in": shared
                          out as independent columns do instead, so that what is left is what it knows of dependence

Numbers only (Magic, wine, breast cancer without the class): mean log-density in the units of the data.

    LBARN, LBARNEnsemble, independent   mass on the grid divided by the step of the grid
    Gaussians             a mixture of them: K, kind of covariance and its floor are chosen on held-out rows
    kernels               Gaussian ones on standardised or whitened rows: which of the two, and the bandwidth, likewise
    spline flow           zuko's NSF: transforms and hidden units likewise, and the epoch

The last three are trained on values with uniform noise within the step of the grid, and what they say of a test value is the mean of their
density over the step, of which eight points are drawn. Gaussians and kernels, like the mixture, are fitted to all training rows once chosen.

The tables come from the folder LBARN_DATA, or else from ../shared/data beside the project, with the split that is published; wine
and breast cancer, from scikit-learn, are split by --splits seeds. Every cell has a process of its own, given up after --minutes of CPU time, of which
TabularARGN and the flow may train for 80%. Finished cells are kept in docs/results/densities.json and not measured again; the table goes
into docs/densities.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine

from cells import Stopwatch, in_a_process
from density_models import MODELS, NEEDS, ArgnScores, How
from pages import DATA, arguments, measured_before, publish, results_file, stamp, table

TABLES = ("adult", "default", "shoppers", "magic", "beijing")
OWN_SPLIT: dict[str, Any] = {"wine": load_wine, "breast cancer": load_breast_cancer}
SETS = (*TABLES, *OWN_SPLIT)
NUMBERS = {"magic": "class", "wine": "target", "breast cancer": "target"}  # sets of numbers, and what is left out

Frame = Any


def read(name: str, seed: int) -> tuple[Frame, Frame]:
    """Training and test rows."""
    if name in OWN_SPLIT:
        frame = OWN_SPLIT[name](as_frame=True).frame.assign(target=lambda own: own["target"].map("class {}".format))
        if name == "wine":  # two of its values have more decimals: with them, the grid would be that of no other value
            frame = frame.round(2)
        frame = frame.iloc[np.random.default_rng(seed).permutation(len(frame))].reset_index(drop=True)
        n_test = len(frame) // 4
        return frame[n_test:].reset_index(drop=True), frame[:n_test]
    folder = DATA / "tables"
    if not folder.is_dir():
        sys.exit(f"{folder} is absent; set LBARN_DATA to the folder that holds tables/{name}-train.csv.gz")
    train, test = (pd.read_csv(folder / f"{name}-{part}.csv.gz") for part in ("train", "test"))
    return train, test


def fits_of_tables(sets: dict[str, Any]) -> None:
    """tables.py fits the same models to the same rows with the same seed: what it found is taken from there."""
    file = results_file("tables")
    for name, own in json.loads(file.read_text())["sets"].items() if file.exists() else ():
        for key in MODELS["mass"]:
            found = own["models"].get(key, {}).get("0", {})
            if "nats" in found:
                kept = {
                    k: found[k] for k in ("nats", "seconds", "cpu_seconds", "command", "commit", "load") if k in found
                }
                sets.setdefault(name, {}).setdefault("mass", {}).setdefault(key, {})["0"] = kept


def installed(key: str) -> bool:
    try:
        return key not in NEEDS or find_spec(NEEDS[key]) is not None
    except ModuleNotFoundError:
        return False


def cell(name: str, part: str, key: str, how: How) -> dict[str, Any]:
    train, test = read(name, how.seed)
    if part == "density":
        train, test = (frame.drop(columns=NUMBERS[name]).astype(float) for frame in (train, test))
    watch = Stopwatch()
    scores, chosen = MODELS[part][key](train, how)
    seconds = watch.read()
    found = scores(test)
    error = float(found.std() / np.sqrt(len(found)))
    told = {"nats": float(found.mean()), "standard_error": error, **seconds, "chosen": chosen}
    return told | ({"filled": float(scores.filled(test).mean())} if isinstance(scores, ArgnScores) else {})


# ---------------------------------------------------------------------- the table


def shown(cells: dict[str, Any], what: str, form: str) -> str:
    """The mean over the splits, or why there is none."""
    failed = [one["failed"] for one in cells.values() if "failed" in one]
    found = [one[what] for one in cells.values() if what in one]
    return failed[0] if failed else format(np.mean(found), form) if found else ""


def report(sets: dict[str, Any]) -> str:
    """The highest likelihood in bold, and all that look like it."""
    text = ""
    for part, models in MODELS.items():
        parts = {name: own[part] for name, own in sets.items() if own.get(part)}
        nats = [(key, key, "nats") for key in models]
        nats += [("TabularARGN, bins filled in", "TabularARGN", "filled")] if part == "mass" else []
        seconds = [(key, key, "cpu_seconds") for key in models]
        for title, rows, form in ((f"test nats per row, {part}", nats, ".2f"), ("CPU seconds to fit", seconds, ",.1f")):
            columns = []
            for own in parts.values():
                figures = [shown(own.get(key, {}), what, form) for _, key, what in rows]
                best = max((one for one in figures if one[-1:].isdigit()), key=float) if rows is nats else None
                columns.append([f"**{one}**" if one == best else one for one in figures])
            lines = [[label, *cells] for (label, *_), *cells in zip(rows, *columns) if any(cells)]
            text += f"\n{table([title, *parts], lines)}" if lines else ""
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = list(dict.fromkeys(key for models in MODELS.values() for key in models))
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=known, default=known, metavar="MODEL")
    parser.add_argument("--splits", type=int, default=5, help="of the sets without a published one")
    parser.add_argument("--minutes", type=float, default=30.0, help="of CPU time, after which a cell is given up")
    options = arguments(parser)
    if options.smoke:
        options.only, options.splits = ["wine"], 1
    sets = measured_before("densities", options)
    if sets:
        fits_of_tables(sets)
    for name in options.only:
        for part in MODELS if name in NUMBERS else ("mass",):
            for key in MODELS[part]:
                for seed in range(options.splits if name in OWN_SPLIT else 1):
                    done = sets.get(name, {}).get(part, {}).get(key, {})
                    if key not in options.models or str(seed) in done or not installed(key):
                        continue
                    how = How(seed, options.jobs, 60 * options.minutes, options.smoke)
                    job = name, part, key, how
                    found = cell(*job) if options.smoke else in_a_process(cell, job, options.minutes)
                    found |= stamp()
                    print(name, part, key, seed, found, file=sys.stderr, flush=True)
                    if before := measured_before("densities", options):  # another run may have added to them
                        fits_of_tables(sets := before)
                    sets.setdefault(name, {}).setdefault(part, {}).setdefault(key, {})[str(seed)] = found
                    sets = {name: sets[name] for name in SETS if name in sets}
                    publish({"sets": sets}, report(sets), options, "densities")
    publish({"sets": sets}, report(sets), options, "densities")  # also if nothing was left to measure


if __name__ == "__main__":
    main()
