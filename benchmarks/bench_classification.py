"""Digits, black or white, classified by LBARN and by what people use: accuracy, log-loss and time.

    python benchmarks/bench_classification.py [--data digits | mnist] [--train-rows N] [--max-iter T]
                                              [--max-leaf-nodes J] [--learning-rate R] [--jobs 2] [--smoke]

"digits" are scikit-learn's (8 x 8, black where at least 8 of 16; a quarter of them to test on), "mnist" is read from
mnist_gray.npz (28 x 28, black above 0.5; its own test set) in the folder LBARN_DATA, or else in ../shared/data beside the
project. LBARN is refitted on its hold-out. LightGBM has 200 trees per class, and is skipped where it is not installed.
All else is as the libraries have it.

What was measured is added to docs/results/classification.json, and its table is put into docs/classification.md; the
digits of MNIST that LBARN gets most wrong are drawn into docs/results/classification.png.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import BernoulliNB

from lbarn import LBARN, LBARNClassifier
from pages import DATA, ROOT

RESULTS = ROOT / "docs" / "results" / "classification.json"
PAGE = ROOT / "docs" / "classification.md"
BEGIN, END = "<!-- written by benchmarks/bench_classification.py -->\n", "<!-- end -->\n"

Result = dict[str, Any]


class Problem(NamedTuple):
    train: NDArray[np.uint8]
    train_labels: NDArray[Any]
    test: NDArray[np.uint8]
    test_labels: NDArray[Any]

    @classmethod
    def load(cls, name: str, train_rows: int | None) -> Problem:
        if name == "digits":
            images, labels = load_digits(return_X_y=True)
            train, test, y_train, y_test = train_test_split(images >= 8, labels, random_state=0, stratify=labels)
        else:
            with np.load(DATA / "mnist_gray.npz") as z:
                train, test = ((z[f"{part}_images"] > 127).reshape(-1, 784) for part in ("train", "test"))
                y_train, y_test = z["train_labels"], z["test_labels"]
        rows = np.random.default_rng(0).permutation(len(train))[:train_rows]
        return cls(train[rows].view(np.uint8), y_train[rows], test.view(np.uint8), y_test)


def classifiers(options: argparse.Namespace) -> dict[str, Any]:
    network = LBARN.paper(
        max_leaf_nodes=options.max_leaf_nodes,
        learning_rate=options.learning_rate,
        max_iter=options.max_iter,
        selection="common",
        l2_regularization=3.0,
        refit=True,
        n_jobs=options.jobs,
        random_state=0,
    )
    ours = LBARNClassifier(network)
    known = {"LBARN": ours, "logistic regression": LogisticRegression(max_iter=200), "BernoulliNB": BernoulliNB()}
    if find_spec("lightgbm"):
        from lightgbm import LGBMClassifier

        known["LightGBM"] = LGBMClassifier(n_estimators=200, n_jobs=options.jobs, random_state=0, verbose=-1)
    return known


def measure(model: Any, problem: Problem) -> dict[str, float]:
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.train, problem.train_labels)
    fitted = perf_counter()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # LightGBM makes up names
        probability = model.predict_proba(problem.test)
    predicted = perf_counter()
    return {
        "accuracy": float(np.mean(model.classes_[probability.argmax(axis=1)] == problem.test_labels)),
        "log-loss": float(log_loss(problem.test_labels, probability)),
        "fit seconds": fitted - start,
        "predict seconds": predicted - fitted,
    }


def draw(model: LBARNClassifier, problem: Problem, path: Path, n: int = 8) -> None:
    """The digits that were got most wrong, and what each pixel said for the class that was chosen and for the true one."""
    from matplotlib import pyplot as plt

    log_p = model.predict_log_proba(problem.test)
    truth = np.searchsorted(model.classes_, problem.test_labels)
    worst = np.argsort(log_p[np.arange(len(truth)), truth])[:n]
    side = int(np.sqrt(problem.test.shape[1]))
    figure, axes = plt.subplots(2, n, figsize=(n * 1.1, 2.7), layout="constrained")
    for (above, below), i in zip(axes.T, worst):
        chosen = log_p[i].argmax()
        row = problem.test[i : i + 1]
        evidence = model.networks_[truth[i]].surprise(row) - model.networks_[chosen].surprise(row)
        above.imshow(row.reshape(side, side), cmap="binary")
        above.set_title(f"{model.classes_[truth[i]]}, taken for {model.classes_[chosen]}", fontsize=8)
        shown = below.imshow(evidence.reshape(side, side), cmap="RdBu_r", vmin=-4, vmax=4)
        below.imshow(row.reshape(side, side), cmap="binary", alpha=0.15)
        for axis in (above, below):
            axis.set_xticks([])
            axis.set_yticks([])
    figure.colorbar(shown, ax=axes[1].tolist(), label="nats", pad=0.01, extend="both")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def table(results: dict[str, Result]) -> str:
    """Markdown: one table per data set, the best of each column in bold, with the command that made it."""
    shown = {
        "accuracy": ("accuracy", "{:.2%}", max),
        "log-loss": ("log-loss, nats", "{:.4f}", min),
        "fit seconds": ("fit, s", "{:.2f}", min),
        "predict seconds": ("predict, s", "{:.3f}", min),
    }
    text = ""
    for name, result in results.items():
        models = result["models"]
        best = {key: pick(model[key] for model in models.values()) for key, (_, _, pick) in shown.items()}
        text += f"{name}: {result['train rows']:,} rows to train on, {result['test rows']:,} to test on\n\n"
        text += f"| | {' | '.join(heading for heading, _, _ in shown.values())} |\n|---|{'---:|' * len(shown)}\n"
        for label, model in models.items():
            cells = [
                f"**{form.format(model[key])}**" if model[key] == best[key] else form.format(model[key])
                for key, (_, form, _) in shown.items()
            ]
            text += f"| {label} | {' | '.join(cells)} |\n"
        text += f"\n    {result['command']}\n\n"
    return text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=["digits", "mnist"], default="digits")
    parser.add_argument("--train-rows", type=int, help="so many of the training rows, picked at random")
    parser.add_argument("--max-iter", type=int, default=1000, help="LBARN: trees per column")
    parser.add_argument("--max-leaf-nodes", type=int, default=16, help="LBARN: leaves per tree")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="LBARN: shrinkage")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--results", type=Path, help="write to this JSON file instead, and leave the page alone")
    parser.add_argument("--smoke", action="store_true", help="a few seconds: digits, few rows, few trees")
    options = parser.parse_args()
    if options.smoke:
        options.data, options.train_rows, options.max_iter, options.learning_rate = "digits", 400, 40, 0.3
    return options


def main() -> int:
    options = arguments()
    if options.data == "mnist" and not (DATA / "mnist_gray.npz").exists():
        print(f"no mnist_gray.npz in {DATA}: set LBARN_DATA to the folder that holds it", file=sys.stderr)
        return 2
    problem = Problem.load(options.data, options.train_rows)
    models, fitted = {}, classifiers(options)
    for name, model in fitted.items():
        models[name] = measure(model, problem)
        print(name, models[name], file=sys.stderr)
    result = {
        "train rows": len(problem.train),
        "test rows": len(problem.test),
        "models": models,
        "load": os.getloadavg()[0],
        "command": shlex.join(["python", "benchmarks/bench_classification.py", *sys.argv[1:]]),
    }
    file: Path = options.results or RESULTS
    results = json.loads(file.read_text()) if file.exists() else {}
    results[options.data] = result
    print(table({options.data: result}))
    if options.results or not options.smoke:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
        if (options.data == "mnist" or options.smoke) and find_spec("matplotlib"):
            draw(fitted["LBARN"], problem, file.with_suffix(".png"))
    if not options.results and not options.smoke:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table(results)}{END}{rest.partition(END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
