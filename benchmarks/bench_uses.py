"""What a trained model costs to use: sampling, compressing and decompressing beside scoring the same rows; loading and saving.

    python benchmarks/bench_uses.py [--rows 8192] [--repeat 3] [--model FILE] [--smoke]

Seconds are of CPU time on one thread, the best of some repetitions. The file is that of MNIST's network (written by
bench_network.py --save FILE), or one of its size: trees of a short fit, repeated 54 times. It is opened in processes of their own, which have imported
everything before, and whose wall time on an idle machine is what the user waits: two threads work at loading. Peak memory is that of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

import lbarn
from bench_scale import mixed
from lbarn import LBARN
from lbarn._network import container
from pages import arguments, fitted, load, publish, table

FEW = {"max_iter": 300, "random_state": 0, "n_jobs": 1}
REPEATED = 54  # times the trees of a fit of 20 rounds: 250 MB, as MNIST's network of 1,000 rounds


def survey(n: int, seed: int = 0) -> pd.DataFrame:
    """Thirty questions with the same five answers."""
    rng = np.random.default_rng(seed)
    mood = rng.normal(size=(n, 1))
    answers = np.clip(np.round(2 + 0.8 * mood + rng.normal(size=(n, 30))), 0, 4).astype(int)
    levels = np.array(["never", "rarely", "sometimes", "often", "always"])
    return pd.DataFrame({f"question{k}": levels[answers[:, k]] for k in range(30)})


def best(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """CPU seconds, and what came out."""
    seconds = float("inf")
    for _ in range(repeat):
        start = process_time()
        found = work()
        seconds = min(seconds, process_time() - start)
    return seconds, found


def tables(options: Any) -> dict[str, tuple[Any, Any]]:
    """Rows to learn from and to use."""
    n = options.rows
    if options.smoke:
        digits = load("digits")
        return {"digits": (digits.train[:200], digits.test[:50]), "survey": (survey(200), survey(50, 1))}

    def bits(name: str) -> tuple[Any, Any]:
        data = load(name)
        return data.train[:10_000], np.resize(data.test, (n, data.test.shape[1]))

    return {
        "OCR-letters": bits("ocr_letters"),
        "Mushrooms": bits("mushrooms"),
        "20 columns, half of them numbers": (mixed(10_000), mixed(n, seed=1)),
        "30 columns of 5 levels": (survey(10_000), survey(n, seed=1)),
    }


def used(train: Any, rows: Any, counts: bool, repeat: int, few: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of every use of a model on some rows."""
    model = LBARN(counts=counts, **few).fit(train)
    seconds = {"trees": float(model.network_.n_trees), "rows": float(len(rows))}
    seconds["score"], _ = best(lambda: model.score_samples(rows), repeat)
    seconds["sample"], _ = best(lambda: model.sample(len(rows), random_state=0), repeat)
    seconds["compress"], data = best(lambda: model.compress(rows), repeat)
    seconds["decompress"], back = best(lambda: model.decompress(data), repeat)
    if not pd.DataFrame(back).equals(pd.DataFrame(rows)):
        sys.exit("decompress gives other rows")
    for n in (1, 100):
        seconds[f"score {n}"], _ = best(lambda n=n: model.score_samples(rows[:n]), 3 * repeat)
    return seconds


def large_file(path: Path, smoke: bool) -> None:
    """A network as large as MNIST's: its trees, repeated."""
    data = load("digits" if smoke else "mnist")
    model, _ = fitted(data._replace(train=data.train[:8000], valid=data.valid[:2000]), max_leaf_nodes=32, max_iter=20)
    model.save(path)
    kind, header, arrays = container.read(path)
    del header["version"]
    times = 3 if smoke else REPEATED
    sizes, counts = arrays["tree_splits"].astype(int), arrays["tree_counts"]
    first_tree, first_split = np.cumsum([0, *counts]), np.cumsum([0, *sizes])
    parts: dict[str, list[Any]] = {"splits": [], "gains": [], "values": [], "tree_splits": []}
    for a, b in pairwise(first_tree):
        s, e = first_split[a], first_split[b]
        own = {
            "splits": arrays["splits"][s:e],
            "gains": arrays["gains"][s:e],
            "values": arrays["values"][s + a : e + b] // times,
            "tree_splits": arrays["tree_splits"][a:b],
        }
        for name, array in own.items():
            parts[name] += [array] * times
    arrays |= {name: np.concatenate(pieces) for name, pieces in parts.items()}
    arrays |= {"tree_counts": counts * times, "n_trees": arrays["n_trees"] * times * 7 // 10}
    for name in ("train_curve", "valid_curve"):
        arrays[name] = np.concatenate([arrays[name][:, :1], *[arrays[name][:, 1:]] * times], axis=1)
    container.write(path, kind, header, arrays)


def opened(path: str) -> dict[str, float]:
    """Open the model, score a row and save it again, in this process."""

    def peak() -> float:  # getrusage would tell that of the process that started this one
        status = Path("/proc/self/status")
        lines = status.read_text().splitlines() if status.exists() else []
        return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

    load_model = lbarn.load  # imports all kinds of models
    found = {"imported": peak()}
    for when in ("first", "again"):
        start, cpu = perf_counter(), process_time()
        model = load_model(path)
        found |= {f"load, {when}": perf_counter() - start, "loaded": peak()}
        model.score_samples(np.zeros((1, model.n_features_in_), np.uint8))
        found |= {f"load and score, {when}": perf_counter() - start, f"CPU, {when}": process_time() - cpu}
        if when == "first":
            del model
    start = process_time()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "again.lbarn")
    return found | {"save, CPU": process_time() - start, "saved": peak()}


def file_figures(options: Any) -> dict[str, float]:
    """The quickest of five processes."""
    with tempfile.TemporaryDirectory() as folder:
        path = options.model or Path(folder) / "large.lbarn"
        if not options.model:
            large_file(path, options.smoke)
        if options.smoke:
            return {"megabytes": path.stat().st_size / 1e6, **opened(str(path))}
        runs = []
        for _ in range(5):
            command = [sys.executable, __file__, "--open", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True)
            runs.append(json.loads(done.stdout))
        quickest = min(runs, key=lambda run: run["load and score, again"])
        return {"megabytes": path.stat().st_size / 1e6, **quickest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--model", type=Path, help="MNIST's network")
    parser.add_argument("--open", help=argparse.SUPPRESS)
    options = arguments(parser)
    if options.open:
        print(json.dumps(opened(options.open)))
        return
    few = {**FEW, "max_iter": 5} if options.smoke else FEW
    found, lines = [], []
    for name, (train, rows) in tables(options).items():
        for counts in (False, True):
            own = used(train, rows, counts, 1 if options.smoke else options.repeat, few)
            found.append({"table": name, "counts": counts, **own})
            print(found[-1], file=sys.stderr, flush=True)
            ratios = [f"{own[use] / own['score']:.2f}" for use in ("sample", "compress", "decompress")]
            few_rows = [f"{1e3 * own[f'score {n}']:.1f}" for n in (1, 100)]
            lines.append(
                [name + (", counts" if counts else ""), f"{1e6 * own['score'] / own['rows']:.1f}", *ratios, *few_rows]
            )
    headings = ["", "score, µs a row", "sample", "compress", "decompress", "score 1 row, ms", "100 rows, ms"]
    text = table(headings, lines)
    file = file_figures(options)
    text += f"""
The load of the machine was {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores. A file of {file["megabytes"]:.0f} MB is opened in {file["load, again"]:.2f} s, and has scored a row after {file["load and score, again"]:.2f} s
({file["CPU, again"]:.2f} s of CPU time). The first time in a process it is {file["load and score, first"]:.2f} s ({file["CPU, first"]:.2f} s of CPU
time), because the system has to give it memory that it has not had before. Peak memory is {file["imported"]:.0f} MB before, {file["loaded"]:.0f} MB
with the model loaded and {file["saved"]:.0f} MB after saving it, which takes {file["save, CPU"]:.2f} s of CPU time.
"""
    publish({"uses": found, "file": file}, text, options, "uses", "speed")


if __name__ == "__main__":
    main()
