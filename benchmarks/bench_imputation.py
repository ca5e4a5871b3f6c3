"""Missing bits filled by LBARN and by what people use: log-loss and errors on bits whose truth is known, and time.

    python benchmarks/bench_imputation.py [--only ocr_letters mushrooms] [--rows 200] [--shares 0.2 0.5] [--particles 1000]
                                          [--max-iter 300] [--learning-rate 0.05] [--jobs 2] [--smoke]

Of every test row a random share of the bits is hidden. Log-loss is in nats per hidden bit. scikit-learn's imputers
give numbers that are not probabilities: they are clipped to [c, 1 - c], and c, as the number of neighbours, is what is best
on as many validation rows. KNNImputer looks for neighbours among all training rows; IterativeImputer is fitted on
2000 training rows and the rows to be filled together (on more it takes minutes). LBARN is fitted once for all shares, and
its probabilities are as they come. A second table holds LBARN's particles against those of the textbooks, whose
probabilities are clipped in the same way, on the largest of the shares.

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes
scikit-learn's digits. What was measured is written to docs/results/imputation.json and its table into docs/imputation.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer
from threadpoolctl import threadpool_limits

from lbarn import LBARN
from lbarn.baselines import IndependentBits
from pages import Bits, Split, arguments, best_in_bold, command, fitted, load, measured_before, publish, table
from particles import textbook

LEAVES = {"ocr_letters": 32, "mushrooms": 8, "digits": 8}
TITLES = {"ocr_letters": "OCR-letters", "mushrooms": "Mushrooms", "digits": "digits"}
CLIPS = (1e-5, 1e-4, 1e-3, 0.003, 0.01, 0.03, 0.1)
NEIGHBOURS = (5, 20, 50)
ITERATIVE_ROWS = 2000

Floats = NDArray[np.float64]
Fill = Callable[[Floats], Floats]


def hidden(X: Bits, share: float, seed: int) -> Floats:
    """The rows with a share of their bits missing."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


def log_loss(p: Floats, X: Bits, clip: float, masked: NDArray[np.bool_]) -> float:
    p = p.clip(clip, 1 - clip)
    return float(-np.log(np.where(X == 1, p, 1 - p)[masked]).mean())


def knn(train: Bits, k: int) -> Fill:
    return lambda X: KNNImputer(n_neighbors=k).fit(train.astype(float)).transform(X)


def iterative(train: Bits, rounds: int) -> Fill:
    some = train[np.random.default_rng(0).permutation(len(train))[:ITERATIVE_ROWS]]

    def fill(X: Floats) -> Floats:
        with warnings.catch_warnings(), threadpool_limits(1):  # many small regressions: threads only slow them down
            warnings.simplefilter("ignore", ConvergenceWarning)
            return IterativeImputer(max_iter=rounds, random_state=0).fit_transform(np.concatenate([some, X]))[-len(X) :]

    return fill


def rivals(train: Bits, rounds: int) -> dict[str, list[Fill]]:
    """For each method what may be chosen from."""
    return {
        "independent bits": [lambda X: IndependentBits().fit(train).impute(X, output="probability")],
        "column means": [lambda X: SimpleImputer().fit(train.astype(float)).transform(X)],
        "KNNImputer": [knn(train, k) for k in NEIGHBOURS],
        "IterativeImputer": [iterative(train, rounds)],
    }


def measure(fills: list[Fill], X: Floats, truth: Bits, n_valid: int) -> dict[str, float]:
    """Figures on the test rows; what is best on the validation rows, which come first, is chosen."""
    masked = np.isnan(X)
    valid, test = slice(n_valid), slice(n_valid, None)
    candidates = []
    for k, fill in enumerate(fills):
        start = perf_counter()
        p = fill(X)
        seconds = (perf_counter() - start) * (1 - n_valid / len(X))
        for clip in CLIPS if n_valid else (0.0,):
            loss = log_loss(p[valid], truth[valid], clip, masked[valid]) if n_valid else 0.0
            candidates.append((loss, clip, k, p, seconds))
    _, clip, k, p, seconds = min(candidates, key=lambda candidate: candidate[0])
    return {
        "log-loss": log_loss(p[test], truth[test], clip, masked[test]),
        "errors": float(((p >= 0.5) != truth)[test][masked[test]].mean()),
        "seconds": seconds,
        "clip": clip,
        "choice": k,
    }


def compare(name: str, data: Split, options: argparse.Namespace) -> dict[str, Any]:
    model, seconds = fitted(
        data,
        max_leaf_nodes=LEAVES[name],
        learning_rate=options.learning_rate,
        max_iter=options.max_iter,
        n_jobs=options.jobs,
    )
    rng = np.random.default_rng(0)
    test = data.test[rng.permutation(len(data.test))[: options.rows]]
    valid = data.valid[rng.permutation(len(data.valid))[: options.rows]]
    both = np.concatenate([valid, test])
    shares = {}
    for share in options.shares:
        X = hidden(both, share, seed=1)

        def impute(X: Floats) -> Floats:
            return model.impute(X, output="probability", n_particles=options.particles, random_state=0)

        methods = {"LBARN": measure([impute], X[len(valid) :], test, 0)}
        for rival, fills in rivals(data.train, 1 if options.smoke else 10).items():
            methods[rival] = measure(fills, X, both, len(valid))
        shares[str(share)] = methods
        print(name, share, methods, file=sys.stderr, flush=True)
    return {
        "title": TITLES[name],
        "command": command(),
        "rows": len(test),
        "fit seconds": seconds,
        "shares": shares,
        "particles": {"share": max(options.shares), "numbers": compare_particles(model, both, len(valid), options)},
    }


def compare_particles(model: LBARN, truth: Bits, n_valid: int, options: argparse.Namespace) -> dict[str, Any]:
    X = hidden(truth, max(options.shares), seed=1)
    found = {}
    for n in (options.particles // 10, options.particles):

        def ours(X: Floats, n: int = n) -> Floats:
            return model.impute(X, output="probability", n_particles=n, random_state=0)

        theirs = textbook(model, X, n, seed=0)
        certain = np.isin(theirs, (0.0, 1.0))[np.isnan(X)].mean()
        found[str(n)] = {
            "LBARN": measure([ours], X[n_valid:], truth[n_valid:], 0),
            "textbook": measure([lambda _, p=theirs: p], X, truth, n_valid) | {"certain": float(certain)},
        }
    return found


def report(sets: dict[str, Any]) -> str:
    lines, times = [], []
    names: list[str] = []
    for result in sets.values():
        for share, methods in result["shares"].items():
            names = list(methods)
            title = f"{result['title']}, {float(share):.0%} hidden"
            losses = best_in_bold([method["log-loss"] for method in methods.values()], ".4f")
            errors = best_in_bold([100 * method["errors"] for method in methods.values()], ".2f")
            lines.append([f"{title}: log-loss, nats per bit", *losses])
            lines.append([f"{title}: wrong bits, %", *errors])
            own = [f"{method['seconds']:.1f}" for method in methods.values()]
            own[0] += f" (+ {result['fit seconds']:.0f} to fit)"
            times.append([f"{title}: seconds for {result['rows']} rows", *own])
    return table(["", *names], lines + times) + "\n" + particle_report(sets)


def particle_report(sets: dict[str, Any]) -> str:
    lines = []
    for result in sets.values():
        share = result["particles"]["share"]
        for n, kinds in result["particles"]["numbers"].items():
            losses = best_in_bold([kinds[kind]["log-loss"] for kind in ("LBARN", "textbook")], ".4f")
            certain = f"{kinds['textbook']['certain']:.0%}"
            lines.append([f"{result['title']}, {share:.0%} hidden, {n} particles", *losses, certain])
    return table(["log-loss, nats per bit", "LBARN", "textbook", "textbook: bits called certain"], lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("ocr_letters", "mushrooms"), default=["ocr_letters", "mushrooms"])
    parser.add_argument("--rows", type=int, default=200, help="test rows")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.2, 0.5], help="shares of the bits to hide")
    parser.add_argument("--particles", type=int, default=1000)
    parser.add_argument("--max-iter", type=int, default=300, help="LBARN: trees per column")
    parser.add_argument("--learning-rate", type=float, default=0.05, help="LBARN: shrinkage")
    chosen = arguments(parser)
    if chosen.smoke:
        chosen.only, chosen.rows, chosen.shares, chosen.particles = ["digits"], 20, [0.3], 50
        chosen.max_iter, chosen.learning_rate = 20, 0.3
    return chosen


def main() -> None:
    chosen = options()
    sets = measured_before("imputation", chosen) | {name: compare(name, load(name), chosen) for name in chosen.only}
    publish({"sets": sets}, report(sets), chosen, "imputation")


if __name__ == "__main__":
    main()
