"""``python -m lbarn.demo``: scikit-learn's digits, and wines as a table of numbers and categories, in under a minute."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import train_test_split

from lbarn import LBARN, simd_path
from lbarn._tables.output import writing_table
from lbarn.baselines import IndependentBits, IndependentColumns, SingleTreeNetwork
from lbarn.report.page import write_report

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


def run(folder: Path, max_iter: int = 1000) -> dict[str, float]:
    """Do it all, write into ``folder``, and return the held-out log-likelihoods."""
    began = time.perf_counter()
    console = Console()
    folder.mkdir(parents=True, exist_ok=True)
    X = (load_digits().data >= 8).astype(np.uint8)
    X_train, X_test = train_test_split(X, test_size=0.25, random_state=0)
    console.print("A demonstration of about 20 seconds on two cores.")
    console.print(f"scikit-learn's digits, 8 x 8 pixels, black where at least 8 of 16: {len(X)} images ({simd_path()})")

    models = {
        "independent bits": IndependentBits(),
        "single trees": SingleTreeNetwork(n_jobs=-1),
        "LBARN": LBARN(max_iter=max_iter, n_jobs=-1, random_state=0, verbose=1),
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
    samples = network.sample(8, random_state=0)
    console.print("\nNew digits, drawn from the model:\n")
    console.print(_in_terminal(samples.reshape(-1, *_SHAPE)), highlight=False)
    network.save(folder / "digits.lbarn")
    page = folder / "report.html"
    write_report(network, X_test, page, title="Handwritten digits", image_shape=_SHAPE)
    console.print(f"\nThe model is in {folder / 'digits.lbarn'}. Open the report in a browser:", soft_wrap=True)
    console.print(page.resolve().as_uri(), soft_wrap=True)
    scores |= _mixed_table(folder, max_iter, console)
    console.print(f"{time.perf_counter() - began:.0f} s in all.")
    return scores


def _wines() -> pa.Table:
    """Thirteen measurements of 178 wines, and the grape."""
    wines = load_wine()
    columns: dict[str, Any] = {"grape": [_GRAPES[k] for k in wines.target]}
    for name, values in zip(wines.feature_names, wines.data.T):
        whole = (values == np.rint(values)).all()
        columns[name.partition("/")[0]] = values.astype(int) if whole else values.round(3)  # 1e-6 is noise
    return pa.table(columns)


_GRAPES = ("Barolo", "Grignolino", "Barbera")


def _mixed_table(folder: Path, max_iter: int, console: Console) -> dict[str, float]:
    """The same for a table of numbers and categories."""
    wines = _wines()
    train, test = train_test_split(np.arange(len(wines)), test_size=0.25, random_state=0)
    rows, held_out = wines.take(train), wines.take(test)
    console.print(
        f"\nscikit-learn's wines, a table of numbers and a category: {len(wines)} rows. What the columns became:\n"
    )
    model = LBARN(max_iter=max_iter, order=[*range(1, wines.num_columns), 0], n_jobs=-1, random_state=0).fit(rows)
    console.print(str(model.columns_), highlight=False, markup=False, soft_wrap=True)
    alone = IndependentColumns().fit(rows).score(held_out)
    found = model.score(held_out)
    right = np.mean(model.conditional(held_out, "grape").mode() == np.array(held_out.column("grape").to_pylist()))
    console.print(
        f"\n{found:.2f} nats per held-out row; independent columns {alone:.2f}: the model explains {found - alone:.2f} nats.\n"
        f"It tells the grape of {right:.0%} of the held-out wines from the other columns.\n"
        "\nNew wines, given that they are Barolo with 13 to 13.5 % of alcohol:\n",
        highlight=False,
    )
    drawn = model.sample(5, given={"grape": "Barolo", "alcohol": slice(13, 13.5)}, random_state=0)
    shown = ["grape", "alcohol", "malic_acid", "color_intensity", "hue", "proline"]
    table = Table()
    for name in shown:
        table.add_column(name)
    for row in drawn.select(shown).to_pylist():
        table.add_row(*map(str, row.values()))
    console.print(table)
    model.save(folder / "wines.lbarn")
    with writing_table(str(folder / "wines.csv"), wines.column_names) as output:
        output.write(wines)
    console.print(f"\nThe table is in {folder / 'wines.csv'}, for the command line to try:", soft_wrap=True)
    console.print(f"lbarn fit {folder / 'wines.csv'} -o {folder / 'wines.lbarn'}", highlight=False, soft_wrap=True)
    return {"independent columns": alone, "LBARN of wines": found}


if __name__ == "__main__":
    run(Path("demo"))
