"""Flipped pixels of MNIST digits put right by LBARN and by what people use: wrong pixels after and before, and time.

    python benchmarks/bench_denoising.py [--model FILE] [--rows 100] [--flip 0.1] [--particles 1000] [--jobs 2] [--smoke]

Without --model a small network is fitted first, which takes a minute or two; FILE is a network of the binary MNIST digits that
``save`` has written. The rivals: the majority of the 3 x 3 pixels around a pixel; each pixel by itself, from how often it
is black; the training image nearest to the noisy one; the noisy image put through the principal components of the training
images and cut at one half (the number of components is the best on noisy validation images); and a neural network
(scikit-learn's MLPRegressor, one hidden layer of 500, cut at one half) that was trained to turn 20,000 noisy training images into clean ones.

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes
scikit-learn's digits. What was measured is written to docs/results/denoising.json, its table into docs/denoising.md, and some
digits are drawn into docs/results/denoising.png.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import median_filter
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor

import lbarn
from pages import Bits, Split, arguments, best_in_bold, fitted, load, picture, publish, results_file, table

COMPONENTS = (10, 20, 40, 80, 160)
MLP_ROWS = 20_000
SHOWN = 14  # digits in the picture

Denoise = Callable[[Bits], NDArray[Any]]


def noisy(X: Bits, flip: float, seed: int) -> Bits:
    return X ^ (np.random.default_rng(seed).random(X.shape) < flip)


def majority(X: Bits) -> Bits:
    side = int(np.sqrt(X.shape[1]))
    return median_filter(X.reshape(-1, side, side), size=(1, 3, 3), mode="constant").reshape(X.shape)


def by_itself(train: Bits, flip: float) -> Denoise:
    p = (train.sum(axis=0) + 0.5) / (len(train) + 1)

    def denoise(X: Bits) -> NDArray[Any]:
        one, zero = np.where(X, 1 - flip, flip) * p, np.where(X, flip, 1 - flip) * (1 - p)
        return one >= zero

    return denoise


def nearest(train: Bits) -> Denoise:
    wide = train.astype(np.float32)
    return lambda X: train[(wide.sum(axis=1) - 2 * (X.astype(np.float32) @ wide.T)).argmin(axis=1)]


def principal_components(data: Split, flip: float) -> Denoise:
    most = PCA(min(COMPONENTS[-1], data.train.shape[1]), random_state=0).fit(data.train[:MLP_ROWS])

    def project(X: Bits, k: int) -> NDArray[np.bool_]:
        axes = most.components_[:k]
        return (X - most.mean_) @ axes.T @ axes + most.mean_ >= 0.5

    valid = data.valid[:500]
    worn = noisy(valid, flip, seed=3)
    k = min(COMPONENTS, key=lambda k: (project(worn, k) != valid).mean())
    return lambda X: project(X, k)


def neural(train: Bits, flip: float, max_iter: int) -> Denoise:
    clean = train[:MLP_ROWS]
    network = MLPRegressor(hidden_layer_sizes=(500,), batch_size=100, max_iter=max_iter, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(noisy(clean, flip, seed=4).astype(np.float32), clean.astype(np.float32))
    return lambda X: network.predict(X.astype(np.float32)) >= 0.5


def measure(name: str, prepare: Callable[[], Denoise], worn: Bits, clean: Bits) -> dict[str, Any]:
    start = perf_counter()
    denoise = prepare()
    ready = perf_counter()
    result = denoise(worn)
    seconds = perf_counter() - ready
    print(name, (result != clean).mean(), flush=True)
    return {"name": name, "errors": float((result != clean).mean()), "fit seconds": ready - start, "seconds": seconds}


def report(results: dict[str, Any]) -> str:
    before = results["errors before"]
    methods = results["methods"]
    errors = best_in_bold([100 * method["errors"] for method in methods], ".2f")
    lines = [["nothing", f"{100 * before:.2f}", "1.00", "", ""]]
    for method, shown in zip(methods, errors):
        times = [f"{method['fit seconds']:.0f}", f"{100 * method['seconds'] / results['rows']:.1f}"]
        lines.append([method["name"], shown, f"{method['errors'] / before:.2f}", *times])
    return table(["", "wrong pixels, %", "after / before", "fit, s", "100 images, s"], lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="a saved network of the binary MNIST digits")
    parser.add_argument("--rows", type=int, default=100, help="test images")
    parser.add_argument("--flip", type=float, default=0.1, help="share of the pixels that are flipped")
    parser.add_argument("--particles", type=int, default=1000)
    chosen = arguments(parser)
    if chosen.smoke:
        chosen.rows, chosen.particles = 20, 50
    return chosen


def main() -> None:
    chosen = options()
    data = load("digits" if chosen.smoke else "mnist")
    test = data.test[np.random.default_rng(0).permutation(len(data.test))[: chosen.rows]]
    worn = noisy(test, chosen.flip, seed=1)
    known: dict[str, Any] = {"fit seconds": 0.0}
    answers: dict[str, Any] = {}

    def network() -> Denoise:
        if chosen.model:
            model = lbarn.load(chosen.model)
            model.set_params(n_jobs=chosen.jobs)
        else:
            some = Split(data.train[:20_000], data.valid[:4000], data.test)
            model, _ = fitted(some, max_leaf_nodes=16, learning_rate=0.2, max_iter=50, n_jobs=chosen.jobs)

        def denoise(X: Bits) -> NDArray[Any]:
            p, diagnostics = model.denoise(
                X,
                flip=chosen.flip,
                output="probability",
                n_particles=chosen.particles,
                return_diagnostics=True,
                random_state=0,
            )
            answers["probability"] = p
            known["median effective sample size"] = float(np.median(diagnostics["effective_sample_size"]))
            return p >= 0.5

        return denoise

    methods = [
        measure(*what, worn, test)
        for what in (
            ("LBARN", network),
            ("3 x 3 majority", lambda: majority),
            ("each pixel by itself", lambda: by_itself(data.train, chosen.flip)),
            ("nearest training image", lambda: nearest(data.train)),
            ("principal components", lambda: principal_components(data, chosen.flip)),
            ("neural network trained to denoise", lambda: neural(data.train, chosen.flip, 3 if chosen.smoke else 15)),
        )
    ]
    if chosen.model:
        methods[0]["name"] = f"LBARN ({chosen.model.name})"
    results = {"rows": len(test), "errors before": float((worn != test).mean()), "methods": methods, **known}
    publish(results, report(results), chosen, "denoising")
    if find_spec("matplotlib") and (chosen.results or not chosen.smoke):
        side = int(np.sqrt(test.shape[1]))
        strips = [("clean", test), (f"{chosen.flip:.0%} of the pixels flipped", worn)]
        strips.append(("denoised", answers["probability"] >= 0.5))
        strips.append(("probability of black", answers["probability"]))
        images = [(title, X[:SHOWN].reshape(-1, side, side)) for title, X in strips]
        picture(images, (chosen.results or results_file("denoising")).with_suffix(".png"))


if __name__ == "__main__":
    main()
