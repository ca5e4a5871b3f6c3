"""Empty cells of tables, filled by lbarn and by what people use: how far off, how sure, and how fast.

    python benchmarks/table_imputation.py [--only adult wine] [--methods LBARN KNN] [--settings mcar-10 mnar-30] [--rows 1000]
                                          [--minutes 30] [--jobs 2] [--smoke]

Cells of a table are hidden, every method learns from the table with its holes and fills them, and the truth is known. Hidden are 10% or 30%

    mcar    of all cells, at random
    mar     of the cells of two thirds of the columns, more often the greater another column's value is, one of the third that stays whole
    mnar    of all cells, more often the greater the number or the rarer the level in them is

where "more often" is with a probability that grows in proportion to the rank, from 0 to twice the share. Measured are, on hidden cells, numbers in units
of their column's standard deviation and averaged over columns,

    rmse, mae      of the mean and of the median of draws, or of the value that is filled in
    crps           of the draws (the estimate whose expectation does not depend on their number); of one value, its absolute error
    wasserstein    from the values filled in, a draw if there are draws, to the true ones
    coverage       of intervals that hold 90% if all is well: from the least to the greatest of 19 draws, the 10th to the 190th of 199
    log_loss       nats per level, and wrong: the share of levels that are not the likeliest one

LBARN has no parameters set and makes 199 draws; miceforest's 19 are the last of the last four rounds, of five, of five data sets (miceforest 6.0.5 needs LightGBM
below 4.7). "miceforest, fast" and UnmaskingTrees, which makes 19 too, are run if they are asked for.
MissForest is the published algorithm (forests of 100 trees in turns, classifiers for levels, until it changes more than the turn before) with scikit-learn's forests,
as IterativeImputer has regressors only. KNNImputer has numbers standardised and levels one-hot; the number of neighbours is what is best on a tenth of the
seen cells, hidden for that. UnmaskingTrees repeats rows --copies times (its own default is 50) and fills many rows at a time.
Probabilities are mixed with the column's frequencies: m draws, neighbours or trees against one row's worth of these.

The tables are read from the folder LBARN_DATA, or else from ../shared/data beside the project; wine and breast cancer are scikit-learn's. Finished cells are
kept in docs/results/table_imputation.json and not measured again; the table goes into docs/imputation.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata, wasserstein_distance
from sklearn.datasets import load_breast_cancer, load_wine

import tables
from cells import Stopwatch, in_a_process
from pages import arguments, best_in_bold, measured_before, publish, stamp, table
from table_imputers import METHODS, Answer, Floats, Holes

SMALL = {"wine": load_wine, "breast-cancer": load_breast_cancer}
SETS = ("adult", "beijing", "magic", "wine", "breast-cancer", "shoppers")
CODES = {"shoppers": tables.CODES["shoppers"]}  # numbers that are names
SETTINGS = {f"{how}-{share}": (how, share / 100) for share in (30, 10) for how in ("mcar", "mar", "mnar")}
TITLES = {"mcar": "at random", "mar": "by another column", "mnar": "by their own value"}
MEASURES = {  # title, format
    "rmse": ("RMSE of numbers", ".3f"),
    "mae": ("MAE of numbers", ".3f"),
    "crps": ("CRPS of numbers", ".3f"),
    "wasserstein": ("Wasserstein distance of numbers", ".3f"),
    "log_loss": ("log-loss of levels, nats", ".3f"),
    "wrong": ("wrong levels", ".1%"),
}
LEVEL = 1.02  # up to so many times the best is level with it


# ---------------------------------------------------------------------- tables with holes


def whole_table(name: str, rows: int) -> Holes:
    if name in SMALL:
        frame = SMALL[name](as_frame=True).frame
        frame["target"] = frame["target"].map("class {}".format)
    else:
        frame = tables.read(name)[0]
    frame = frame.sample(min(rows, len(frame)), random_state=0)
    values, levels = np.empty(frame.shape), {}
    for j, column in enumerate(frame):
        own = frame[column]
        if column in CODES.get(name, ()) or own.dtype == bool or not pd.api.types.is_numeric_dtype(own):
            names, values[:, j] = np.unique(own.to_numpy().astype(str), return_inverse=True)
            levels[j] = names.tolist()
        else:
            values[:, j] = own
    return Holes(values, levels, [str(column) for column in frame])


def _rank(truth: Holes, j: int) -> Floats:
    """From 0 for the least number or the commonest level to 1."""
    own = -truth.frequencies(j)[truth.codes(j)] if j in truth.levels else truth.values[:, j]
    return (rankdata(own) - 0.5) / len(own)


def hide(truth: Holes, how: str, share: float, seed: int) -> Holes:
    rng = np.random.default_rng(seed)
    n, d = truth.values.shape
    shares = np.full((n, d), share)
    order = rng.permutation(d)
    kept = order[: d // 3]
    for k, j in enumerate(order):
        if how == "mnar":
            shares[:, j] = 2 * share * _rank(truth, j)
        elif how == "mar":
            shares[:, j] = 0.0 if j in kept else 2 * share * _rank(truth, kept[k % len(kept)])
    return Holes(np.where(rng.random((n, d)) < shares, np.nan, truth.values), truth.levels, truth.names)


# ---------------------------------------------------------------------- measures


def crps(draws: Floats, truth: Floats) -> float:
    m = len(draws)
    ordered = np.sort(draws, axis=0)
    spread = ((2 * np.arange(1, m + 1) - m - 1)[:, None] * ordered).sum(axis=0) / (m * (m - 1)) if m > 1 else 0.0
    return float(np.mean(np.abs(draws - truth).mean(axis=0) - spread))


def measure(truth: Holes, holes: Holes, answer: Answer) -> dict[str, float]:
    """Means over columns; levels are pooled."""
    found: dict[str, list[float]] = {}
    nats, wrong = [], []
    draws = answer.mean[None] if answer.draws is None else answer.draws
    for j in np.flatnonzero(holes.empty.any(axis=0)):
        gone = holes.empty[:, j]
        if j in holes.levels:
            share = 1 / (1 + answer.worth)
            p = (1 - share) * answer.probabilities[j][gone] + share * holes.frequencies(j)
            codes = truth.codes(j)[gone]
            nats.append(-np.log(p[np.arange(len(p)), codes]))
            wrong.append(p.argmax(axis=1) != codes)
            continue
        scale = truth.values[:, j].std()
        true = truth.values[gone, j] / scale
        made = draws[:, gone, j] / scale
        one = {
            "rmse": np.sqrt(np.mean((answer.mean[gone, j] / scale - true) ** 2)),
            "mae": np.mean(np.abs(answer.median[gone, j] / scale - true)),
            "crps": crps(made if len(made) > 1 else answer.median[None, gone, j] / scale, true),
            "wasserstein": np.mean([wasserstein_distance(own, true) for own in made]),
        }
        if len(made) > 1:
            least, greatest = np.sort(made, axis=0)[[(len(made) + 1) // 20 - 1, -((len(made) + 1) // 20)]]
            one["coverage"] = np.mean((least <= true) & (true <= greatest))
        for key, value in one.items():
            found.setdefault(key, []).append(float(value))
    means = {key: float(np.mean(values)) for key, values in found.items()}
    if nats:
        means |= {"log_loss": float(np.concatenate(nats).mean()), "wrong": float(np.concatenate(wrong).mean())}
    return means


def cell(name: str, setting: str, method: str, options: Any) -> dict[str, Any]:
    truth = whole_table(name, options.rows)
    holes = hide(truth, *SETTINGS[setting], seed=options.seed)
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = METHODS[method][0](holes, options)
    seconds = watch.read()
    return {**measure(truth, holes, answer), **seconds}


# ---------------------------------------------------------------------- the table


def report(sets: dict[str, Any]) -> str:
    cells = {(name, setting): own for name in sets for setting, own in sets[name]["cells"].items()}
    finished = {key: {m: one for m, one in own.items() if "failed" not in one} for key, own in cells.items()}
    usual = [m for m in METHODS if 2 * sum(m in own for own in finished.values()) > len(finished)]
    rare = [m for m in METHODS if m not in usual and any(m in own for own in finished.values())]

    def with_all(methods: list[str]) -> dict[Any, Any]:
        return {key: own for key, own in finished.items() if all(m in own for m in methods)}

    text = ""
    if with_all(usual):
        text = _summary(with_all(usual), usual) + "\n" + _by_setting(with_all(usual), usual)
    for one in rare:
        if with_all([*usual, one]):
            text += f"\nThe cells in which {one} was run, too:\n\n"
            text += _summary(with_all([*usual, one]), [*usual, one])
            text += f"\n{_by_setting(with_all([*usual, one]), [*usual, one])}"
    for (name, setting), own in cells.items():
        text += "".join(f"\n{m}, {name}, {setting}: {one['failed']}.\n" for m, one in own.items() if "failed" in one)
    return text


def _mean(cells: dict[Any, Any], method: str, key: str) -> float:
    found = [own[method][key] for own in cells.values() if key in own[method]]
    return float(np.mean(found)) if found else float("nan")


def _summary(cells: dict[Any, Any], methods: list[str]) -> str:
    """Means over everything, and in how many cells a method is best or level."""
    lines = []
    for key, (title, form) in MEASURES.items():
        shown = best_in_bold([_mean(cells, method, key) for method in methods], form)
        having = [own for own in cells.values() if key in own[methods[0]]]
        best = [min(own[method][key] for method in methods) for own in having]
        wins = [sum(own[method][key] <= LEVEL * least for own, least in zip(having, best)) for method in methods]
        lines.append([title, *(f"{text} ({n})" for text, n in zip(shown, wins)), str(len(having))])
    for key, title, form, who in (
        ("coverage", "90% intervals cover", ".1%", any),  # of those who draw
        ("cpu_seconds", "CPU seconds", ".1f", all),
    ):
        having = {place: own for place, own in cells.items() if who(key in own[method] for method in methods)}
        means = [_mean(having, method, key) for method in methods]
        lines.append([title, *("" if np.isnan(v) else format(v, form) for v in means), str(len(having))])
    return table(["mean (cells in which it is best or level)", *methods, "cells"], lines)


def _by_setting(cells: dict[Any, Any], methods: list[str]) -> str:
    lines = []
    for key in ("crps", "rmse", "log_loss"):
        title, form = MEASURES[key]
        for setting, (how, share) in SETTINGS.items():
            own = {place: found for place, found in cells.items() if place[1] == setting}
            if own:
                shown = best_in_bold([_mean(own, method, key) for method in methods], form)
                lines.append([f"{title}: {share:.0%} hidden {TITLES[how]}", *shown])
    return table(["", *methods], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS[:4]), metavar="SET")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS)[:-2], metavar="METHOD")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--rows", type=int, default=1000, help="of a set that has more")
    parser.add_argument("--copies", type=int, default=10, help="of every row, for UnmaskingTrees")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=30.0, help="of CPU time, after which a cell is given up")
    options = arguments(parser)
    if options.smoke:
        options.only, options.rows, options.settings = ["wine"], 60, ["mcar-30"]
        options.methods = ["LBARN", "MissForest", "KNN", "mean, mode"]
    sets = measured_before("table_imputation", options)
    for setting in options.settings:
        for name in options.only:
            for method in options.methods:
                done = sets.get(name, {"cells": {}})["cells"].get(setting, {})
                if method in done or find_spec(METHODS[method][1]) is None:
                    continue
                job = (name, setting, method, options)
                found = cell(*job) if options.smoke else in_a_process(cell, job, options.minutes)
                found |= stamp()
                print(name, setting, method, found, file=sys.stderr, flush=True)
                sets = measured_before("table_imputation", options) or sets  # another run may have added to them
                sets.setdefault(name, {"cells": {}})["cells"].setdefault(setting, {})[method] = found
                sets = {name: sets[name] for name in SETS if name in sets}
                publish({"sets": sets}, report(sets), options, "table_imputation", "imputation")
    publish(
        {"sets": sets}, report(sets), options, "table_imputation", "imputation"
    )  # also if nothing was left to measure


if __name__ == "__main__":
    main()
