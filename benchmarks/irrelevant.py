"""Irrelevant variables: three stacked copies of OCR-letters, which know nothing of each other.

    python benchmarks/irrelevant.py [--only plain bits gain] [--leaves 64] [--learning-rate 0.06] [--max-iter 330]
                                    [--jobs 2] [--smoke]

Each copy but the first has its rows shuffled, so a network that finds links between copies has found noise: its log-likelihood is
then higher than the first copy's on the training rows and lower on the test rows. Several settings are tried; a larger learning
rate with fewer rounds than the paper's (0.02, 1000) keeps each to a few minutes.

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes
scikit-learn's digits. What was measured is written to docs/results/irrelevant.json and its table into docs/reproducing.md.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from lbarn import LBARN
from pages import Bits, Split, arguments, command, commit, load, measured_before, publish, table, train

COPIES = 3
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact": ("exact splits", {"splits": "exact"}),
    "plain": ("fast splits, 6 bits (the default)", {}),
    "bits4": ("4 bits", {"split_bits": 4}),
    "bits3": ("3 bits", {"split_bits": 3}),
    "bits2": ("2 bits", {"split_bits": 2}),
    "gain1": ("6 bits, min_gain = 1", {"min_gain": 1.0}),
    "gain4": ("6 bits, min_gain = 4", {"min_gain": 4.0}),
    "gain10": ("6 bits, min_gain = 10", {"min_gain": 10.0}),
    "both": ("3 bits, min_gain = 4", {"split_bits": 3, "min_gain": 4.0}),
}
PAPER = [-24.60, -25.25, -25.42]  # test


def stacked(X: Bits, seed: int) -> Bits:
    rng = np.random.default_rng(seed)
    return np.hstack([X, *(X[rng.permutation(len(X))] for _ in range(COPIES - 1))])


def per_copy(model: LBARN, X: Bits) -> list[float]:
    total = np.zeros(COPIES)
    for start in range(0, len(X), 4000):  # surprises take 8 bytes a bit
        total -= model.surprise(X[start : start + 4000]).sum(axis=0).reshape(COPIES, -1).sum(axis=1)
    return [float(value) for value in total / len(X)]


def measure(setting: str, data: Split, options: argparse.Namespace) -> dict[str, Any]:
    title, parameters = SETTINGS[setting]
    model = LBARN.paper(
        max_leaf_nodes=options.leaves,
        learning_rate=options.learning_rate,
        max_iter=options.max_iter,
        n_jobs=options.jobs,
        random_state=0,
        **parameters,
    )
    seconds = train(model, data)
    found = {
        "title": title,
        "command": command(),
        "commit": commit(),
        "train": per_copy(model, data.train),
        "test": per_copy(model, data.test),
        "seconds": seconds,
    }
    print(setting, found, file=sys.stderr, flush=True)
    return found


def report(sets: dict[str, Any]) -> str:
    lines = [["*the paper*", *[""] * COPIES, *(f"*{value:.2f}*" for value in PAPER)]]
    for setting in SETTINGS:
        if setting in sets:
            found = sets[setting]
            lines.append([found["title"], *(f"{value:.2f}" for value in found["train"] + found["test"])])
    headings = [f"{part}, copy {k + 1}" for part in ("train", "test") for k in range(COPIES)]
    return table(["", *headings], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--leaves", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=0.06)
    parser.add_argument("--max-iter", type=int, default=330)
    options = arguments(parser)
    if options.smoke:
        options.only, options.max_iter, options.leaves = ["plain", "both"], 5, 4
    data = load("digits" if options.smoke else "ocr_letters")
    data = Split(*(stacked(part, seed) for seed, part in enumerate(data)))
    sets = measured_before("irrelevant", options)
    for setting in options.only:
        sets[setting] = measure(setting, data, options)
        publish({"sets": sets}, report(sets), options, "irrelevant", "reproducing")


if __name__ == "__main__":
    main()
