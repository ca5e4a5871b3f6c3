"""Two versions of lbarn on the same machine in one run: training, scoring, sampling, imputing.

    python benchmarks/bench_versions.py BEFORE [AFTER] [--repeat 3] [--smoke]

BEFORE and AFTER are Python executables of environments that have a version of lbarn each; AFTER is this one unless given. Both
train with the paper's settings, which give the same bits in every version. Every measurement is a process of its own, on one thread;
versions take turns, and the fastest of the repeats counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

DATA = Path(os.environ.get("LBARN_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
SETS = {"mushrooms": 1.0, "ocr_letters": 0.25}  # and the share of the training rows that is used
TASKS = ("fit", "score", "sample", "impute")

# Runs in either version, so it may use only what both have.
WORKER = """
import json, sys, warnings
from time import perf_counter
import numpy as np
from lbarn import LBARN
warnings.simplefilter("ignore")
path, share, smoke = sys.argv[1], float(sys.argv[2]), sys.argv[3] == "1"
if smoke:
    train = test = np.random.default_rng(0).integers(0, 2, (120, 8), np.uint8)
else:
    with np.load(path) as z:
        train, test = (np.unpackbits(z[part], axis=1, count=int(z["dim"])) for part in ("train", "test"))
train = train[: int(len(train) * share)]
model = getattr(LBARN, "paper", LBARN)(max_leaf_nodes=16, learning_rate=0.1, max_iter=10 if smoke else 200, n_jobs=1, random_state=0)
hidden = test[:200].astype(float)
hidden[np.random.default_rng(1).random(hidden.shape) < 0.2] = np.nan
tasks = {
    "fit": lambda: model.fit(train),
    "score": lambda: model.score_samples(test),
    "sample": lambda: model.sample(len(test), random_state=0),
    "impute": lambda: model.impute(hidden, random_state=0),
}
seconds = {}
for name, task in tasks.items():
    start = perf_counter()
    result = task()
    seconds[name] = perf_counter() - start
print(json.dumps({"seconds": seconds, "score": float(model.score(test))}))
"""


def measured(python: str, dataset: str, share: float, smoke: bool) -> dict:
    environment = dict(os.environ) | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [python, "-c", WORKER, str(DATA / f"{dataset}.npz"), str(share), str(int(smoke))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed on {dataset}:\n{done.stderr}")
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default=sys.executable)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a few random rows, to see that it runs")
    options = parser.parse_args()
    table = Table("data", "task", "before, s", "after, s", "before / after", title=f"load {os.getloadavg()[0]:.1f}")
    for dataset, share in SETS.items():
        runs: dict[str, list[dict]] = {options.before: [], options.after: []}
        for _ in range(options.repeat):
            for python, own in runs.items():
                own.append(measured(python, dataset, share, options.smoke))
        best = {python: {t: min(run["seconds"][t] for run in own) for t in TASKS} for python, own in runs.items()}
        before, after = best[options.before], best[options.after]
        for task in TASKS:
            ratio = f"{before[task] / after[task]:.2f}"
            table.add_row(dataset, task, f"{before[task]:.3f}", f"{after[task]:.3f}", ratio)
        scores = {f"{own[0]['score']:.6f}" for own in runs.values()}
        table.add_row(dataset, f"test nats: {' / '.join(sorted(scores))}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
