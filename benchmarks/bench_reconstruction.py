"""Lossy compression of OCR-letters: a share of the pixels is kept, the others are drawn. How many come out wrong?

    python benchmarks/bench_reconstruction.py [--rows 500] [--shares 0.05 0.1 0.2 0.4] [--max-iter 200] [--learning-rate 0.1]
                                              [--jobs 2] [--smoke]

One network for each of three orders: which pixels are kept is all that differs. Beside them, the kept pixels of the
entropy-decreasing order with every other pixel put to its more frequent value. Bits per image are what the kept pixels
take when they are compressed under the model.

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes
scikit-learn's digits. What was measured is written to docs/results/reconstruction.json, its table into
docs/reconstruction.md, and some letters are drawn into docs/results/reconstruction.png.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn import LBARN
from lbarn.synthesis import reconstruct
from pages import Bits, arguments, best_in_bold, fitted, load, picture, publish, results_file, table

ORDERS = ("entropy-decreasing", "given", "random")
SHAPES = {"ocr_letters": (16, 8), "digits": (8, 8)}
SHOWN = 20
DRAWS = 3


def held(model: LBARN, X: Bits, share: float) -> NDArray[np.float64]:
    """The rows with all but the first variables of the order missing."""
    rows = X.astype(np.float64)
    rows[:, model.order_[round(share * X.shape[1]) :]] = np.nan
    return rows


def measure(model: LBARN, X: Bits, train: Bits, share: float) -> dict[str, float]:
    """Shares of the dropped pixels that come out wrong, and the bits that the kept ones take."""
    kept = held(model, X, share)
    dropped = np.isnan(kept)
    drawn = reconstruct(model, X, share=share, n_draws=DRAWS, random_state=0)
    likeliest = model.impute(kept, output="mode", n_particles=300, random_state=0)
    usual = np.broadcast_to(train.mean(axis=0) >= 0.5, X.shape)
    n_kept = round(share * X.shape[1])
    return {
        "kept": n_kept,
        "bits": float(-model.cumulative_score(X)[n_kept - 1] / np.log(2)),
        "draw": float((drawn != X)[:, dropped].mean()),
        "mode": float((likeliest != X)[dropped].mean()),
        "column means": float((usual != X)[dropped].mean()),
    }


def report(results: dict[str, Any]) -> str:
    lines = []
    for share, orders in results["shares"].items():
        first = orders[ORDERS[0]]
        modes = best_in_bold([100 * orders[order]["mode"] for order in ORDERS] + [100 * first["column means"]], ".2f")
        draw, bits = f"{100 * first['draw']:.2f}", f"{first['bits']:.1f}"
        lines.append([f"{float(share):.0%} ({first['kept']} of {results['pixels']})", *modes, draw, bits])
    headings = ["kept", *(f"{order}, likeliest" for order in ORDERS), "column means", f"{ORDERS[0]}, drawn", "bits"]
    return table(headings, lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500, help="test images")
    parser.add_argument("--shares", nargs="+", type=float, default=[0.05, 0.1, 0.2, 0.4], help="of the pixels to keep")
    parser.add_argument("--max-iter", type=int, default=200, help="trees per pixel")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    chosen = arguments(parser)
    if chosen.smoke:
        chosen.rows, chosen.shares, chosen.max_iter, chosen.learning_rate = 20, [0.1, 0.4], 20, 0.3
    return chosen


def main() -> None:
    chosen = options()
    name = "digits" if chosen.smoke else "ocr_letters"
    data = load(name)
    test = data.test[np.random.default_rng(0).permutation(len(data.test))[: chosen.rows]]
    models = {
        order: fitted(
            data,
            order=order,
            max_leaf_nodes=16,
            learning_rate=chosen.learning_rate,
            max_iter=chosen.max_iter,
            n_jobs=chosen.jobs,
        )[0]
        for order in ORDERS
    }
    results = {
        "rows": len(test),
        "pixels": test.shape[1],
        "shares": {
            str(share): {order: measure(model, test, data.train, share) for order, model in models.items()}
            for share in chosen.shares
        },
    }
    publish(results, report(results), chosen, "reconstruction")
    if find_spec("matplotlib") and (chosen.results or not chosen.smoke):
        model = models[ORDERS[0]]
        shown = test[:SHOWN]
        kept = held(model, shown, 0.1)
        strips = [("test images", shown), ("the 10% of the pixels that are kept", np.nan_to_num(kept, nan=0.25))]
        draws = reconstruct(model, shown, share=0.1, n_draws=DRAWS, random_state=0)
        strips += [(f"reconstruction {k + 1}", draw) for k, draw in enumerate(draws)]
        strips.append(("probability of black", model.impute(kept, output="probability", random_state=0)))
        images = [(title, X.reshape(-1, *SHAPES[name])) for title, X in strips]
        picture(images, (chosen.results or results_file("reconstruction")).with_suffix(".png"))


if __name__ == "__main__":
    main()
