"""Outliers found by LBARN and by what people use: area under the ROC curve, and time.

    python benchmarks/bench_anomalies.py [--only ocr_letters mushrooms mnist] [--max-iter T] [--max-leaf-nodes J]
                                         [--learning-rate R] [--jobs 2] [--smoke]

Three tasks, none of whose outliers is seen in training:

- ocr_letters: in 5% of the test rows, 10% of the bits are flipped (13 of 128);
- mushrooms: in 5% of the test rows, each column is permuted among those rows, so that every bit is as common as before
  and only what bits say together is wrong;
- mnist: nines among fours, all of the test set, after training on fours alone (black where grey is above 0.5).

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke does the same to
scikit-learn's digits. IsolationForest and LocalOutlierFactor are as scikit-learn has them and get training and validation
rows; LBARN and the Bernoulli mixture choose their size on the validation rows, by log-likelihood.

What was measured is added to docs/results/anomalies.json, its table is put into docs/anomalies.md, and the strangest fours
are drawn into docs/results/anomalies.png.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from lbarn import LBARN
from lbarn.anomalies import explain
from lbarn.baselines import BernoulliMixture
from pages import DATA, ROOT, Bits, load

RESULTS = ROOT / "docs" / "results" / "anomalies.json"
PAGE = ROOT / "docs" / "anomalies.md"
BEGIN, END = "<!-- written by benchmarks/bench_anomalies.py -->\n", "<!-- end -->\n"
OUTLIERS = 0.05  # of the test rows, where they are made
FLIPPED = 0.1  # of the bits of such a row

Result = dict[str, Any]


class Task(NamedTuple):
    title: str
    train: Bits
    valid: Bits
    test: Bits
    strange: NDArray[np.bool_]  # which of the test rows


# ---------------------------------------------------------------------- tasks


def flipped(title: str, train: Bits, valid: Bits, test: Bits) -> Task:
    rng = np.random.default_rng(0)
    strange, test = some(test, rng), test.copy()
    for i in np.flatnonzero(strange):
        columns = rng.choice(test.shape[1], round(FLIPPED * test.shape[1]), replace=False)
        test[i, columns] ^= 1
    return Task(title, train, valid, test, strange)


def permuted(title: str, train: Bits, valid: Bits, test: Bits) -> Task:
    rng = np.random.default_rng(0)
    strange, test = some(test, rng), test.copy()
    test[strange] = rng.permuted(test[strange], axis=0)
    return Task(title, train, valid, test, strange)


def some(test: Bits, rng: np.random.Generator) -> NDArray[np.bool_]:
    strange = np.zeros(len(test), bool)
    strange[rng.permutation(len(test))[: round(OUTLIERS * len(test))]] = True
    return strange


def nines_among_fours(title: str, X: Bits, labels: NDArray[Any], test: Bits, test_labels: NDArray[Any]) -> Task:
    fours = X[labels == 4]
    n_valid = len(fours) // 5
    shown = (test_labels == 4) | (test_labels == 9)
    return Task(title, fours[n_valid:], fours[:n_valid], test[shown], test_labels[shown] == 9)


def mnist() -> Task:
    with np.load(DATA / "mnist_gray.npz") as z:
        train, test = ((z[f"{part}_images"] > 127).reshape(-1, 784).view(np.uint8) for part in ("train", "test"))
        return nines_among_fours("MNIST: nines among fours", train, z["train_labels"], test, z["test_labels"])


TASKS: dict[str, Callable[[], Task]] = {
    "ocr_letters": lambda: flipped("OCR-letters: 10% of the bits flipped", *load("ocr_letters")),
    "mushrooms": lambda: permuted("Mushrooms: columns permuted", *load("mushrooms")),
    "mnist": mnist,
}


def smoke_tasks() -> dict[str, Callable[[], Task]]:
    X, labels = load_digits(return_X_y=True)
    X = (X >= 8).astype(np.uint8)
    return {
        "flipped": lambda: flipped("digits: 10% of the bits flipped", X[:600], X[600:700], X[700:1100]),
        "permuted": lambda: permuted("digits: columns permuted", X[:600], X[600:700], X[700:1100]),
        "nines": lambda: nines_among_fours(
            "digits: nines among fours", X[:1200], labels[:1200], X[1200:], labels[1200:]
        ),
    }


# ---------------------------------------------------------------------- detectors


def detectors(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "LBARN": LBARN.paper(
            max_leaf_nodes=options.max_leaf_nodes,
            learning_rate=options.learning_rate,
            max_iter=options.max_iter,
            l2_regularization=1.0,
            refit=True,
            n_jobs=options.jobs,
            random_state=0,
        ),
        "Bernoulli mixture": BernoulliMixture(n_jobs=options.jobs),
        "IsolationForest": IsolationForest(n_jobs=options.jobs, random_state=0),
        "LocalOutlierFactor": LocalOutlierFactor(novelty=True, n_jobs=options.jobs),
    }


def measure(model: Any, task: Task) -> dict[str, float]:
    start = perf_counter()
    if isinstance(model, LBARN | BernoulliMixture):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(task.train, X_val=task.valid)
    else:
        model.fit(np.concatenate([task.train, task.valid]))
    fitted = perf_counter()
    scores = model.score_samples(task.test)
    scored = perf_counter()
    return {
        "AUC": float(roc_auc_score(task.strange, -scores)),
        "fit seconds": fitted - start,
        "score seconds": scored - fitted,
    }


def draw(model: LBARN, task: Task, path: Path, n: int = 10) -> None:
    """The least likely rows that are no outliers, and under each where it surprised."""
    from matplotlib import pyplot as plt

    usual = task.test[~task.strange]
    found = explain(model, usual, n_rows=n, n_values=1)
    rows = usual[[anomaly.row for anomaly in found]]
    side = int(np.sqrt(rows.shape[1]))
    surprise = model.surprise(rows).reshape(n, side, side)
    figure, axes = plt.subplots(2, n, figsize=(n, 2.4), layout="constrained")
    for (above, below), image, nats, anomaly in zip(axes.T, rows.reshape(n, side, side), surprise, found):
        above.imshow(image, cmap="binary")
        above.set_title(f"{anomaly.log_likelihood:.0f}", fontsize=9)
        shown = below.imshow(nats, cmap="Reds", vmin=0, vmax=8)
        below.imshow(image, cmap="binary", alpha=0.15)
        for axis in (above, below):
            axis.set_xticks([])
            axis.set_yticks([])
    figure.colorbar(shown, ax=axes[1].tolist(), label="surprise, nats", pad=0.01, extend="max")
    figure.savefig(path, dpi=150)
    plt.close(figure)


# ---------------------------------------------------------------------- report


def table(results: dict[str, Result]) -> str:
    """Markdown: areas with the best in bold, the winner of each task, times, and the commands that made them."""
    names = list(next(iter(results.values()))["models"])
    lines = [f"| area under the ROC curve | rows | outliers | {' | '.join(names)} | best |"]
    lines.append(f"|---|---:|---:|{'---:|' * len(names)}---|")
    times = [f"| fit + score, s | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for result in results.values():
        models = result["models"]
        best = max(names, key=lambda name: models[name]["AUC"])
        areas = [f"**{models[n]['AUC']:.4f}**" if n == best else f"{models[n]['AUC']:.4f}" for n in names]
        size = f"{result['test rows']:,} | {result['outliers']:,}"
        lines.append(f"| {result['title']} | {size} | {' | '.join(areas)} | {best} |")
        seconds = [f"{models[n]['fit seconds']:.1f} + {models[n]['score seconds']:.1f}" for n in names]
        times.append(f"| {result['title']} | {' | '.join(seconds)} |")
    commands = dict.fromkeys(f"    {result['command']}" for result in results.values())
    return "\n".join([*lines, "", *times, "", *commands]) + "\n"


def leaves(text: str) -> int | str:
    return text if text == "auto" else int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), help="these tasks")
    parser.add_argument("--max-iter", type=int, default=200, help="LBARN: trees per column")
    parser.add_argument("--max-leaf-nodes", type=leaves, default="auto", help="LBARN: leaves per tree")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="LBARN: shrinkage")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--results", type=Path, help="write to this JSON file instead, and leave the page alone")
    parser.add_argument("--smoke", action="store_true", help="a few seconds on scikit-learn's digits, with few trees")
    options = parser.parse_args()
    if options.smoke:
        options.max_iter, options.max_leaf_nodes = 30, 8
    return options


def main() -> int:
    options = arguments()
    if not options.smoke and not DATA.is_dir():
        print(f"no data in {DATA}: set LBARN_DATA to the folder that holds ocr_letters.npz and others", file=sys.stderr)
        return 2
    file: Path = options.results or RESULTS
    results: dict[str, Result] = json.loads(file.read_text()) if file.exists() else {}
    writes = bool(options.results) or not options.smoke
    for name, make in smoke_tasks().items() if options.smoke else ((name, TASKS[name]) for name in options.only):
        task = make()
        fitted = detectors(options)
        models = {}
        for detector, model in fitted.items():
            models[detector] = measure(model, task)
            print(name, detector, models[detector], file=sys.stderr)
        results[name] = {
            "title": task.title,
            "test rows": len(task.test),
            "outliers": int(task.strange.sum()),
            "models": models,
            "load": os.getloadavg()[0],
            "command": shlex.join(["python", "benchmarks/bench_anomalies.py", *sys.argv[1:]]),
        }
        if name in ("mnist", "nines") and writes and find_spec("matplotlib"):
            draw(fitted["LBARN"], task, file.with_suffix(".png"))
    print(table(results))
    if writes:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
    if not options.results and not options.smoke:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table(results)}{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
