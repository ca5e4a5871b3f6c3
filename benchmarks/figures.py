"""The paper's figures again, with its figures in numbers beside ours.

    python benchmarks/figures.py [--only samples trees curves importance orders reconstruction rounds]
                                 [--split-bits 6] [--max-iter 1000] [--jobs 2] [--cache FOLDER] [--smoke]

| name           | what                                                                                                    |
|----------------|---------------------------------------------------------------------------------------------------------|
| samples        | samples of the MNIST network, and the training rows nearest to them                                     |
| trees          | map of the numbers of trees selected                                                                    |
| curves         | validation curves of OCR-letters for J = 32, 64, 128                                                    |
| importance     | importance for the central pixel of OCR-letters, and the share of its four nearest neighbours           |
| orders         | entropy order of MNIST's pixels, cumulative log-likelihood and totals, refitted, of three orders        |
| reconstruction | MNIST digits from the first 78 pixels of the entropy-decreasing order                                   |
| rounds         | MNIST with 2000 rounds instead of 1000                                                                  |

Networks are trained once and kept in --cache; one that was interrupted continues. The data is read from the folder
LBARN_DATA, or else from ../shared/data beside the project; --smoke takes scikit-learn's digits and a few trees. Pictures are
written as PNG and SVG to docs/results, what they show to docs/results/figures.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import pyplot as plt

from lbarn import LBARN
from lbarn.plots import (
    CumulativeScoreDisplay,
    ImportanceDisplay,
    OrderDisplay,
    ReconstructionDisplay,
    SamplesDisplay,
    TreeCountsDisplay,
    ValidationCurvesDisplay,
)
from pages import ROOT, command, commit, load, train

plt.switch_backend("agg")
matplotlib.rcParams["svg.hashsalt"] = "lbarn"  # the same picture, the same file

Figures = dict[str, Any]


class Networks:
    """Trained networks, on disk once they are finished."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.digits, self.letters = ("digits", "digits") if options.smoke else ("mnist", "ocr_letters")
        self.digits_shape, self.letters_shape = ((8, 8), (8, 8)) if options.smoke else ((28, 28), (16, 8))

    def get(self, name: str, leaves: int, *, order: str = "given", max_iter: int | None = None) -> LBARN:
        """Before any refit: all trees, and the curves."""
        options = self.options
        rounds = max_iter or options.max_iter
        path = options.cache / f"{name}-J{leaves}-{order}-b{options.split_bits}-T{rounds}.lbarn"
        if path.exists():
            return LBARN.load(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        model = LBARN.paper(
            max_leaf_nodes=leaves,
            learning_rate=0.02,
            max_iter=rounds,
            order=order,
            split_bits=options.split_bits,
            n_jobs=options.jobs,
            random_state=0,
        )
        data = load(name)
        checkpoint = path.with_suffix(".parts")
        train(model, data, checkpoint=checkpoint)
        model.save(path)
        shutil.rmtree(checkpoint)
        return model

    def refitted(self, name: str, leaves: int, order: str) -> LBARN:
        data = load(name)
        return self.get(name, leaves, order=order).refit_leaves(np.concatenate([data.train, data.valid]))


def save(display: Any, name: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind in ("png", "svg"):
        metadata = {"Date": None} if kind == "svg" else None
        display.figure_.savefig(folder / f"paper-{name}.{kind}", dpi=130, bbox_inches="tight", metadata=metadata)
    plt.close(display.figure_)


def samples(networks: Networks, folder: Path) -> Figures:
    data = load(networks.digits)
    model = networks.get(networks.digits, 32)
    display = SamplesDisplay.from_estimator(
        model, data.train, n_samples=16, shape=networks.digits_shape, random_state=0
    )
    save(display, "samples", folder)
    different = (display.samples != display.nearest).sum(axis=1)
    return {"bits that differ from the nearest training row": different.tolist()}


def trees(networks: Networks, folder: Path) -> Figures:
    model = networks.get(networks.digits, 32)
    save(TreeCountsDisplay.from_estimator(model, shape=networks.digits_shape), "trees", folder)
    return {"n_trees": model.n_trees_.tolist()}


def curves(networks: Networks, folder: Path) -> Figures:
    models = [networks.get(networks.letters, J) for J in (32, 64, 128)]
    display = ValidationCurvesDisplay.from_estimator(models)
    save(display, "curves", folder)
    return {
        label: {"best": float(curve.max()), "rounds": int(curve.argmax()), "every tenth": curve[::10].round(4).tolist()}
        for label, curve in display.curves.items()
    }


def importance(networks: Networks, folder: Path) -> Figures:
    height, width = networks.letters_shape
    row, column = height // 2 - 1, width // 2 - 1  # the paper's row 8, column 4
    pixel = row * width + column
    model = networks.get(networks.letters, 64)
    display = ImportanceDisplay.from_estimator(model, pixel, shape=(height, width))
    save(display, "importance", folder)
    neighbours = [pixel - 1, pixel - width - 1, pixel - width, pixel - width + 1]
    share = display.importance[neighbours].sum() / display.importance.sum()
    return {"share of the four nearest": float(share), "paper": 0.62, "importance": display.importance.tolist()}


PAPER_ORDERS = {"given": -86.49, "entropy-increasing": -86.53, "entropy-decreasing": -86.15}


def orders(networks: Networks, folder: Path) -> Figures:
    data = load(networks.digits)
    models = {order: networks.refitted(networks.digits, 32, order) for order in PAPER_ORDERS}
    decreasing = models["entropy-decreasing"]
    save(OrderDisplay.from_estimator(decreasing, shape=networks.digits_shape), "order", folder)
    display = CumulativeScoreDisplay.from_estimator(models, data.test)
    save(display, "cumulative", folder)
    return {
        order: {
            "test log-likelihood, refitted": float(scores[-1]),
            "paper": PAPER_ORDERS[order],
            "cumulative": scores.round(4).tolist(),
            "order": models[order].order_.tolist(),
        }
        for order, scores in display.scores.items()
    }


def reconstruction(networks: Networks, folder: Path) -> Figures:
    data = load(networks.digits)
    model = networks.refitted(networks.digits, 32, "entropy-decreasing")
    shown = data.test[np.random.default_rng(0).permutation(len(data.test))[:12]]
    display = ReconstructionDisplay.from_estimator(model, shown, share=0.1, n_draws=3, shape=networks.digits_shape)
    save(display, "reconstruction", folder)
    forgotten = np.isnan(display.kept)
    wrong = (display.reconstructions != display.original)[:, forgotten].mean()
    return {"pixels kept": int((~forgotten[0]).sum()), "share of the others that is wrong": float(wrong)}


def rounds(networks: Networks, folder: Path) -> Figures:
    data = load(networks.digits)
    once, twice = networks.options.max_iter, 2 * networks.options.max_iter
    found = {str(T): networks.get(networks.digits, 32, max_iter=T).score(data.test) for T in (once, twice)}
    return {"test log-likelihood": found, "paper": {"1000": -86.69, "2000": -86.62}}


FIGURES: dict[str, Callable[[Networks, Path], Figures]] = {
    figure.__name__: figure for figure in (samples, trees, curves, importance, orders, reconstruction, rounds)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES), metavar="FIGURE")
    parser.add_argument("--split-bits", type=int, default=6)
    parser.add_argument("--max-iter", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "lbarn-bench" / "figures")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results", help="folder")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.max_iter = 10
    networks = Networks(options)
    file = options.results / "figures.json"
    for name in options.only:
        found = FIGURES[name](networks, options.results)
        print(name, {key: value for key, value in found.items() if not isinstance(value, (list, dict))}, flush=True)
        known = json.loads(file.read_text()) if file.exists() else {}
        known[name] = {"command": command(), "commit": commit(), **found}
        file.write_text(json.dumps(known) + "\n")


if __name__ == "__main__":
    main()
