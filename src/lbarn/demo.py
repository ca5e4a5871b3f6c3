"""``python -m lbarn.demo``: scikit-learn's digits, fitted, compared, sampled and saved, in under a minute."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from lbarn import LBARN, simd_path
from lbarn.baselines import IndependentBits, SingleTreeNetwork

__all__ = ["run"]

_SHAPE = (8, 8)


def _in_terminal(images: NDArray[Any]) -> str:
    """Images side by side, two pixels to a character."""
    blocks = np.array([" ", "▀", "▄", "█"])
    lines = []
    for top in range(0, _SHAPE[0], 2):
        codes = images[:, top] + 2 * images[:, top + 1]
        lines.append("  ".join("".join(blocks[row]) for row in codes))
    return "\n".join(lines)


def _draw(path: Path, rows: list[tuple[str, NDArray[Any]]]) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(len(rows), 1, figsize=(10, 1.25 * len(rows)), layout="constrained")
    for axis, (title, images) in zip(axes, rows):
        framed = np.pad(images.astype(float), ((0, 0), (1, 1), (1, 1)), constant_values=0.15)
        axis.imshow(np.hstack(list(framed)), cmap="binary", vmin=0, vmax=1)
        axis.set_title(title, loc="left", fontsize=10)
        axis.axis("off")
    figure.savefig(path, dpi=150)
    plt.close(figure)


def run(folder: Path, max_iter: int = 1000) -> dict[str, float]:
    """Do it all, write into ``folder``, and return the held-out log-likelihoods."""
    began = time.perf_counter()
    console = Console()
    folder.mkdir(parents=True, exist_ok=True)
    X = (load_digits().data >= 8).astype(np.uint8)
    X_train, X_test = train_test_split(X, test_size=0.25, random_state=0)
    console.print(f"scikit-learn's digits, 8 x 8 pixels, black where at least 8 of 16: {len(X)} images ({simd_path()})")

    models = {
        "independent bits": IndependentBits(),
        "single trees": SingleTreeNetwork(n_jobs=-1),
        "LBARN": LBARN(max_leaf_nodes=8, max_iter=max_iter, refit=True, n_jobs=-1, random_state=0, verbose=1),
    }
    scores, lines = {}, []
    for name, model in models.items():
        start = time.perf_counter()
        scores[name] = model.fit(X_train).score(X_test)
        seconds = time.perf_counter() - start
        lines.append((name, f"{scores[name]:.2f}", f"{np.exp(-scores[name] / 64):.3f}", f"{seconds:.1f} s"))
    table = Table(title=f"Held-out log-likelihood, {len(X_test)} images")
    for heading in ("model", "nats per image", "perplexity per pixel", "time"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for line in lines:
        table.add_row(*line)
    console.print(table)

    network = models["LBARN"]
    samples = network.sample(12, random_state=0)
    distance = (samples[:, None] != X_train[None]).sum(axis=2)
    nearest = X_train[distance.argmin(axis=1)]
    console.print("\nNew digits, drawn from the model:\n")
    console.print(_in_terminal(samples[:8].reshape(-1, *_SHAPE)), highlight=False)
    pictures = [("samples", samples), ("nearest training images", nearest), ("test images", X_test[:12])]
    _draw(folder / "digits.png", [(title, images.reshape(-1, *_SHAPE)) for title, images in pictures])
    network.save(folder / "digits.lbarn")
    report = ["# Digits", "", "| model | nats per image | perplexity per pixel | time |", "|---|---:|---:|---:|"]
    report += [f"| {' | '.join(line)} |" for line in lines] + ["", "![samples](digits.png)", ""]
    (folder / "report.md").write_text("\n".join(report))
    console.print(f"\n{folder}/report.md, {folder}/digits.png and {folder}/digits.lbarn written; ", end="")
    console.print(f"{time.perf_counter() - began:.0f} s in all.")
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where to write (default: demo)")
    run(parser.parse_args().folder)
