"""What each setting of the learner buys, in nats, and what it costs, on the eight sets.

    python benchmarks/ablation.py [--only dna nips] [--settings bits3 l2] [--max-iter 400] [--jobs 2] [--again] [--smoke]

Every setting changes one thing (or two) of the default learner. The paper's numbers of leaves; a learning rate twice the
paper's or more, so that 400 rounds do; individual selection, no refit. On MNIST every 8th column is trained only, on the
larger tables every few: conditionals are independent, so sums over the same columns compare. What is chosen is chosen by
the validation figures; test figures stand beside them.

Cells that are in docs/results/ablation.json are not run again (unless --again). Tables go to docs/results/ablation.md. The data is
read from the folder LBARN_DATA, or else from ../shared/data beside the project; --smoke takes scikit-learn's digits.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._training.auto import LEAF_GRID
from pages import ROOT, command, commit, load, table
from table1 import LEAVES, RATES, SETS

# The rate that is a multiple of the paper's, and of how many columns one is trained.
SCALES = {
    "adult": (2, 1),
    "connect4": (1, 1),
    "dna": (2, 1),
    "mnist": (4, 8),
    "mushrooms": (2, 1),
    "nips": (2, 1),
    "ocr_letters": (4, 4),
    "web": (3, 6),
    "digits": (1, 4),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"splits": "exact"},
    "bits4": {"split_bits": 4},
    "bits3": {"split_bits": 3},
    "bits2": {"split_bits": 2},
    "l2 0.1": {"l2_regularization": 0.1},
    "l2 1": {"l2_regularization": 1.0},
    "half of the features": {"max_features": 0.5},
    "a quarter of the features": {"max_features": 0.25},
    "min_gain 1": {"min_gain": 1.0},
    "prior": {"init": "prior"},
    "linear": {"init": "linear"},
    "linear, small steps": {"init": "linear", "init_rate": 0.1},
    "bits3, half of the features": {"split_bits": 3, "max_features": 0.5},
    "bits3, l2 0.1": {"split_bits": 3, "l2_regularization": 0.1},
    "bits3, linear": {"split_bits": 3, "init": "linear"},
    "bits3, leaves for each": {"split_bits": 3, "max_leaf_nodes": LEAF_GRID},
}

Cells = dict[str, dict[str, dict[str, Any]]]


def one_column(
    parts: tuple[PackedBits, PackedBits, PackedBits], d: int, how: Boosting, leaves: tuple[int, ...]
) -> tuple[float, float, int]:
    """Validation and test log-likelihood at the number of trees that validates best, and that number."""
    train, valid, test = parts
    tried = [Conditional.train(train, valid, d, replace(how, max_leaf_nodes=J)) for J in leaves]
    conditional = max(tried, key=lambda conditional: conditional.valid_curve.max())
    best = int(conditional.valid_curve.argmax())
    return conditional.valid_curve[best], conditional.curve(test)[best], best


def measure(name: str, setting: str, options: argparse.Namespace) -> dict[str, Any]:
    data = load(name)
    train, valid, test = (pack(part) for part in data)
    for part in (train, valid, test):
        part.columns  # noqa: B018  transposed once, before the threads share them
    scale, step = SCALES[name]
    how = Boosting(max_leaf_nodes=LEAVES[name], learning_rate=scale * RATES[name], max_iter=options.max_iter)
    changes = {"max_leaf_nodes": (how.max_leaf_nodes,), **SETTINGS[setting]}
    leaves = changes.pop("max_leaf_nodes")
    how = replace(how, **changes)
    columns = range(step // 2, train.n_columns, step)
    start = process_time()
    found = np.array(
        Parallel(n_jobs=options.jobs, require="sharedmem")(
            delayed(one_column)((train, valid, test), d, how, leaves) for d in columns
        )
    )
    return {
        "valid": float(found[:, 0].sum()),
        "test": float(found[:, 1].sum()),
        "trees": float(found[:, 2].mean()),
        "columns": len(columns),
        "seconds": process_time() - start,
        "learning_rate": how.learning_rate,
        "max_iter": how.max_iter,
        "command": command(),
        "commit": commit(),
    }


def page(cells: Cells) -> str:
    names = [name for name in [*SETS, "digits"] if name in cells]

    def lines(part: str) -> list[list[str]]:
        rows = []
        for setting in SETTINGS:
            row = [setting]
            for name in names:
                cell, base = cells[name].get(setting), cells[name].get("default")
                if cell is None or base is None:
                    row.append("")
                elif part == "seconds":
                    row.append(f"{cell[part] / base[part]:.2f}")
                else:
                    row.append(f"{cell[part]:.2f}" if setting == "default" else f"{cell[part] - base[part]:+.3f}")
            if any(row[1:]):
                rows.append(row)
        return rows

    headings = ["", *(SETS.get(name, name) for name in names)]
    commands = "\n".join(dict.fromkeys(f"    {cell['command']}" for own in cells.values() for cell in own.values()))
    return f"""# What each setting buys

Nats per row against the default learner, whose own figures are in the first line; more is better. Individual selection, no refit, the
paper's numbers of leaves, 400 rounds, those of a linear start among them. Of MNIST one column in eight was trained, of OCR-letters one in four and of Web one
in six. Times are of the CPU, beside other work: differences below a third mean nothing. "leaves for each" has the best of 2, 4, ..., 128 leaves for
every column, "prior" and "linear" are values of `init`; the stumps of "linear" take steps of ten times the learning rate, as they did in version 0.1,
and with "small steps" of 0.1, as they do by default ([why](../fitting.md#starts)). Bagging, which concerns ensembles, is on [their page](../ensembles.md), and DART
on that of [tuning](../tuning.md).

## Validation rows, by which to choose

{table(headings, lines("valid"))}
## Test rows

{table(headings, lines("test"))}
## Time, as a multiple of the default's

{table(headings, lines("seconds"))}
Made by

{commands}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [name for name in SETS if name in SCALES]
    parser.add_argument("--only", nargs="+", choices=known, default=known, metavar="SET")
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS), metavar="SETTING")
    parser.add_argument("--max-iter", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="run cells that are finished, too")
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results", help="folder")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    if options.smoke:
        options.only, options.max_iter, options.settings = ["digits"], 5, ["default", "bits3", "half of the features"]
    file = options.results / "ablation.json"
    for name in options.only:
        for setting in options.settings:
            cells: Cells = json.loads(file.read_text()) if file.exists() else {}
            if setting in cells.get(name, {}) and not options.again:
                continue
            cell = measure(name, setting, options)
            cells.setdefault(name, {})[setting] = cell
            file.write_text(json.dumps(cells, indent=1) + "\n")
            file.with_suffix(".md").write_text(page(cells))
            print(
                f"{name}, {setting}: valid {cell['valid']:.3f}, test {cell['test']:.3f}, {cell['seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
