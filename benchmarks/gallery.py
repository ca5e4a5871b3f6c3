"""The pictures of docs/plots.md, drawn by lbarn.plots.

    python benchmarks/gallery.py [--max-iter 150] [--jobs 2] [--folder FOLDER] [--smoke]

OCR-letters, 16 x 8 pixels, are read from the folder LBARN_DATA, or else from ../shared/data beside the project (--smoke
takes scikit-learn's digits); a table with names is scikit-learn's breast cancer data, every value 1 if above its median.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
from sklearn.datasets import load_breast_cancer

from lbarn.plots import (
    CalibrationDisplay,
    CumulativeScoreDisplay,
    DependencyGraphDisplay,
    ImportanceDisplay,
    OrderDisplay,
    ReconstructionDisplay,
    SamplesDisplay,
    SurpriseDisplay,
    TreeCountsDisplay,
    ValidationCurvesDisplay,
)
from pages import ROOT, Split, fitted, load

matplotlib.use("agg")
from matplotlib import pyplot as plt

ORDERS = ("entropy-decreasing", "given", "random")
LEAVES = (2, 8, 32)
ROWS = 5000  # to train on, so that it takes minutes


def networks(data: Split, options: argparse.Namespace, parameters: list[dict[str, Any]]) -> list[Any]:
    common = {"learning_rate": 0.1, "max_iter": options.max_iter, "n_jobs": options.jobs}
    return [fitted(data, **common, **own)[0] for own in parameters]


def letters(data: Split, shape: tuple[int, int], options: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Columns that are pixels."""
    by_order = networks(data, options, [{"order": order, "max_leaf_nodes": 8} for order in ORDERS])
    by_leaves = networks(data, options, [{"max_leaf_nodes": J} for J in LEAVES])
    entropy, given, _ = by_order
    middle = shape[0] // 2 * shape[1] + shape[1] // 2
    strangest = int(given.score_samples(data.test[:500]).argmin())
    return {
        "samples": lambda: SamplesDisplay.from_estimator(given, data.train, n_samples=12, shape=shape),
        "trees": lambda: TreeCountsDisplay.from_estimator(given, shape=shape),
        "curves": lambda: ValidationCurvesDisplay.from_estimator(by_leaves),
        "importance": lambda: ImportanceDisplay.from_estimator(given, middle, shape=shape),
        "graph": lambda: DependencyGraphDisplay.from_estimator(given, n_pairs=60, shape=shape),
        "calibration": lambda: CalibrationDisplay.from_estimator(given, data.test),
        "order": lambda: OrderDisplay.from_estimator(entropy, shape=shape),
        "cumulative": lambda: CumulativeScoreDisplay.from_estimator(by_order, data.test[:2000]),
        "reconstruction": lambda: ReconstructionDisplay.from_estimator(entropy, data.test[:12], share=0.2, shape=shape),
        "surprise": lambda: SurpriseDisplay.from_estimator(given, data.test, strangest, shape=shape),
    }


def cells(options: argparse.Namespace) -> dict[str, Callable[[], Any]]:
    """Columns that have names: thirty measurements of cells, each 1 if above its median."""
    measured = load_breast_cancer(as_frame=True).data
    bits = (measured > measured.median()).astype(int)
    train, test = bits[:400], bits[400:]
    (model,) = networks(Split(train[:300], train[300:], test), options, [{"max_leaf_nodes": 4, "order": ORDERS[0]}])
    strangest = int(model.score_samples(test).argmin())
    return {
        "samples-strips": lambda: SamplesDisplay.from_estimator(model, train, n_samples=5),
        "importance-bars": lambda: ImportanceDisplay.from_estimator(model, "worst area", n_shown=8),
        "graph-circle": lambda: DependencyGraphDisplay.from_estimator(model, n_pairs=30),
        "reconstruction-strips": lambda: ReconstructionDisplay.from_estimator(model, test[:3], share=0.5),
        "surprise-bars": lambda: SurpriseDisplay.from_estimator(model, test, strangest, n_shown=8),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-iter", type=int, default=150, help="trees per column")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--folder", type=Path, help="where to write (default: docs/results; with --smoke, here)")
    parser.add_argument("--smoke", action="store_true", help="a few seconds on scikit-learn's digits, with few trees")
    options = parser.parse_args()
    if options.smoke:
        options.max_iter = 5
    folder = options.folder or (Path() if options.smoke else ROOT / "docs" / "results")
    pixels = load("digits" if options.smoke else "ocr_letters")
    pixels = pixels._replace(train=pixels.train[:ROWS], valid=pixels.valid[:ROWS])
    pictures = letters(pixels, (8, 8) if options.smoke else (16, 8), options) | cells(options)
    for name, draw in pictures.items():
        path = folder / f"plot-{name}.png"
        display = draw()
        display.figure_.savefig(path, dpi=80)
        plt.close(display.figure_)
        print(path)


if __name__ == "__main__":
    main()
