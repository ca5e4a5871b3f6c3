"""One conditional, trained by lbarn and by the boosting libraries: time, memory and log-likelihood.

    python benchmarks/bench_engine.py [--trees 200] [--only mnist-390] [--repeat 2] [--json FILE]

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project. Every training runs in a
process of its own, on one thread; of its repeats, taken in turn with those of the other learners, the fastest counts.
Memory is what a process adds at its peak to the table of bytes that it is given.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

from peers import LEARNERS, Problem, Table, log_likelihood

DATA = Path(os.environ.get("LBARN_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
MIN_SECONDS = 0.5  # shorter trainings are repeated inside their process

Result = dict[str, Any]


@dataclass(frozen=True)
class Column:
    dataset: str
    position: int
    max_leaf_nodes: int
    small: bool = False


COLUMNS = {
    "mnist-100": Column("mnist", 100, 32),
    "mnist-390": Column("mnist", 390, 32),
    "mnist-715": Column("mnist", 715, 32),
    "ocr-letters": Column("ocr_letters", 127, 64),
    "dna": Column("dna", 179, 16, small=True),
    "nips": Column("nips", 499, 2, small=True),
}

# lbarn's mode, the peer (the fastest of its modes), and the speed-up wanted: over the MNIST columns summed, in each
# column of images, in each small one.
WANTED: tuple[tuple[str, str, tuple[float, float, float] | None], ...] = (
    ("lbarn fast", "LightGBM", (8, 6, 8)),
    ("lbarn 6 bits", "LightGBM", None),
    ("lbarn fast", "XGBoost", (20, 10, 12)),
    ("lbarn fast", "HistGradientBoosting", (20, 10, 12)),
    ("lbarn fast", "sparse XGBoost", None),
    ("lbarn exact", "LightGBM", (3, 2, 3)),
)
LIKELIHOOD_WANTED = 0.0005
EVALUATION_WANTED = 10.0


# --- in a worker: one job, its result as one line of JSON -------------------------------------------------------------


def load(dataset: str, part: str, smoke: bool) -> Table:
    if smoke:
        width = {"mnist": 784, "ocr_letters": 128, "dna": 180, "nips": 500}[dataset]
        return np.random.default_rng(len(part) + ord(part[0])).integers(0, 2, (320, width), np.uint8)
    with np.load(DATA / f"{dataset}.npz") as stored:
        return np.unpackbits(stored[part], axis=1, count=int(stored["dim"]))


def position_of(column: Column, train: Table) -> int:
    """Many of MNIST's pixels are nearly always 0: there, the nearest column with at least 5% ones."""
    if column.dataset != "mnist":
        return column.position
    eligible = np.flatnonzero(train.mean(axis=0) >= 0.05)
    return int(eligible[np.argmin(np.abs(eligible - column.position))])


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def forget_peak() -> None:
    """Loading the data has its own peak; without Linux's way to forget it, less is seen of what follows."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def train_job(column: str, learner: str, trees: int, smoke: bool) -> Result:
    case = COLUMNS[column]
    import_module(LEARNERS[learner].module)
    whole = load(case.dataset, "train", smoke)
    position = position_of(case, whole)
    problem = Problem(whole[:, : position + 1].copy(), case.max_leaf_nodes, trees)
    del whole
    forget_peak()
    before = peak_megabytes()
    trained = LEARNERS[learner].train(problem)
    peak = peak_megabytes() - before
    seconds = spent = trained.seconds
    while spent < MIN_SECONDS and not smoke:
        again = LEARNERS[learner].train(problem).seconds
        seconds, spent = min(seconds, again), spent + again
    valid = load(case.dataset, "valid", smoke)[:, : position + 1]
    return {
        "ms_per_tree": 1e3 * seconds / trees,
        "peak_megabytes": peak,
        "train": log_likelihood(trained.log_odds(problem.table), problem.table[:, -1]),
        "valid": log_likelihood(trained.log_odds(valid), valid[:, -1]),
        "position": position,
        "rows": len(problem.table),
        "ones": float(problem.table[:, -1].mean()),
    }


def fastest_of(runs: int, *work: Callable[[], object]) -> list[float]:
    """Seconds of each piece of work, taken in turns."""
    best = [float("inf")] * len(work)
    for _ in range(runs):
        for k, do in enumerate(work):
            start = perf_counter()
            do()
            best[k] = min(best[k], perf_counter() - start)
    return best


def evaluate_job(trees: int, smoke: bool) -> Result:
    """A trained MNIST conditional on the rows of the test set."""
    from lbarn._engine.bits import pack

    whole = load("mnist", "train", smoke)
    position = position_of(COLUMNS["mnist-390"], whole)
    problem = Problem(whole[:, : position + 1].copy(), 32, trees)
    conditional, booster = (LEARNERS[name].train(problem).model for name in ("lbarn fast", "LightGBM rows"))
    table = load("mnist", "test", smoke)[:, : position + 1]
    bits, floats = pack(table), table[:, :-1].astype(np.float32)
    _ = bits.columns
    ours, from_bytes, theirs = fastest_of(
        5,
        lambda: conditional.trees.log_odds(bits.columns, bits.n_rows),
        lambda: conditional.trees.log_odds(pack(table).columns, len(table)),
        lambda: booster.predict(floats, raw_score=True, num_threads=1),
    )
    return {"rows": len(table), "trees": trees, "lbarn": ours, "lbarn_from_bytes": from_bytes, "LightGBM": theirs}


def slopes_job(trees: int, smoke: bool) -> Result:
    """Seconds of an MNIST column against rows, trees and predictors, each doubled three times."""
    from lbarn._engine.bits import PackedBits, pack
    from lbarn._engine.conditional import Boosting, Conditional

    train = load("mnist", "train", smoke)
    position = position_of(COLUMNS["mnist-390"], train)
    none = pack(train[:0])
    # The target stays, and its predictors are nested random choices, so that more of them are more of the same.
    others = np.random.default_rng(0).permutation(np.delete(np.arange(train.shape[1]), position))

    def seconds(bits: PackedBits, at: int, n_trees: int) -> float:
        _ = bits.columns
        how = Boosting(max_leaf_nodes=32, max_iter=n_trees)
        return fastest_of(3, lambda: Conditional.train(bits, none, at, how))[0]

    n, whole = len(train), pack(train)
    rows, rounds = [n // 8, n // 4, n // 2, n], [trees // 2, trees, 2 * trees, 4 * trees]
    predictors = [97, 195, 391, 783]
    return {
        "rows": (rows, [seconds(pack(train[:size]), position, trees) for size in rows]),
        "trees": (rounds, [seconds(whole, position, size) for size in rounds]),
        "predictors": (
            predictors,
            [seconds(pack(train[:, [*others[:size], position]]), size, trees) for size in predictors],
        ),
    }


JOBS: dict[str, Callable[..., Result]] = {"train": train_job, "evaluate": evaluate_job, "slopes": slopes_job}


# --- in the parent: the jobs and their tables -------------------------------------------------------------------------


def run(job: str, **arguments: object) -> Result:
    command = [sys.executable, __file__, "--worker", json.dumps([job, arguments])]
    done = subprocess.run(command, env=os.environ | ONE_THREAD, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def measure(column: str, learners: list[str], options: argparse.Namespace, console: Console) -> dict[str, Result]:
    results: dict[str, Result] = {}
    for turn in range(options.repeat):
        for learner in learners:
            with console.status(f"{column}: {learner}, {turn + 1} of {options.repeat}"):
                result = run("train", column=column, learner=learner, trees=options.trees, smoke=options.smoke)
            if learner not in results or result["ms_per_tree"] < results[learner]["ms_per_tree"]:
                results[learner] = result
    return results


def grid(title: str, *headings: str) -> Grid:
    table = Grid(title=title, title_justify="left")
    for k, heading in enumerate(headings):
        table.add_column(heading, justify="right" if k else "left")
    return table


def column_table(name: str, results: dict[str, Result]) -> Grid:
    some = results["lbarn fast"]
    title = f"{name}: d = {some['position']}, J = {COLUMNS[name].max_leaf_nodes}, "
    title += f"{some['rows']:,} rows, {some['ones']:.1%} ones"
    table = grid(title, "", "ms a tree", "fast gains", "exact gains", "peak MB", "train", "validation")
    for learner, result in results.items():
        ms = result["ms_per_tree"]
        ratios = (f"{ms / results[ours]['ms_per_tree']:.2f}x" for ours in ("lbarn fast", "lbarn exact"))
        likelihoods = (f"{result[part]:.6f}" for part in ("train", "valid"))
        table.add_row(learner, f"{ms:.3f}", *ratios, f"{result['peak_megabytes']:.1f}", *likelihoods)
    return table


def fastest(results: dict[str, Result], peer: str) -> float | None:
    """Milliseconds a tree of a peer's fastest mode; none where the peer is absent."""
    return min((result["ms_per_tree"] for name, result in results.items() if name.startswith(peer)), default=None)


def speed_ups(measured: dict[str, dict[str, Result]]) -> list[tuple[str, float | None, float]]:
    """What is compared, the ratio wanted, the ratio measured."""
    rows = []
    for ours, peer, wanted in WANTED:
        times = {
            name: (theirs, results[ours]["ms_per_tree"])
            for name, results in measured.items()
            if (theirs := fastest(results, peer)) is not None
        }
        images = [pair for name, pair in times.items() if COLUMNS[name].dataset == "mnist"]
        if len(images) == sum(column.dataset == "mnist" for column in COLUMNS.values()):
            ratio = sum(theirs for theirs, _ in images) / sum(own for _, own in images)
            rows.append((f"{ours} / {peer}: MNIST, summed", wanted and wanted[0], ratio))
        for name, (theirs, own) in times.items():
            limit = wanted and wanted[2 if COLUMNS[name].small else 1]
            rows.append((f"{ours} / {peer}: {name}", limit, theirs / own))
    return rows


def wanted_table(measured: dict[str, dict[str, Result]], evaluation: Result | None) -> Grid:
    table = grid("Wanted and measured", "", "wanted", "measured", "")
    for what, wanted, ratio in speed_ups(measured):
        verdict = "not asked" if wanted is None else "met" if ratio >= wanted else "not met"
        table.add_row(what, "" if wanted is None else f">= {wanted:g}x", f"{ratio:.2f}x", verdict)
    for name, results in measured.items():
        exact = results["lbarn exact"]["train"]
        peers = [results[peer]["train"] for peer in ("LightGBM rows", "LightGBM columns") if peer in results]
        if peers:
            apart = max(abs(exact - peer) for peer in peers)
            verdict = "met" if apart <= LIKELIHOOD_WANTED else "not met"
            table.add_row(
                f"lbarn exact - LightGBM, train nats: {name}", f"<= {LIKELIHOOD_WANTED}", f"{apart:.6f}", verdict
            )
    if evaluation:
        ratio = evaluation["LightGBM"] / evaluation["lbarn"]
        what = f"evaluation / LightGBM: {evaluation['trees']} trees, {evaluation['rows']:,} rows"
        verdict = "met" if ratio >= EVALUATION_WANTED else "not met"
        table.add_row(what, f">= {EVALUATION_WANTED:g}x", f"{ratio:.2f}x", verdict)
        table.add_row(
            "the same, packing included", "", f"{evaluation['LightGBM'] / evaluation['lbarn_from_bytes']:.2f}x"
        )
    return table


def slopes_table(slopes: Result) -> Grid:
    table = grid("lbarn fast, seconds (1 is linear)", "against", "sizes", "seconds", "log-log slope")
    for what, (sizes, seconds) in slopes.items():
        slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        table.add_row(what, " ".join(map(str, sizes)), " ".join(f"{s:.4f}" for s in seconds), f"{slope:.2f}")
    return table


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--eval-trees", type=int, default=1000)
    parser.add_argument(
        "--only", default="", metavar="NAME", help=f"columns whose names start so: {', '.join(COLUMNS)}"
    )
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--smoke", action="store_true", help="random data, few trees: shows that the script works")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.trees, options.eval_trees, options.repeat = 8, 8, 1
        options.only = options.only or "mnist-100"
    return options


def main() -> int:
    options = arguments()
    if options.worker:
        job, parameters = json.loads(options.worker)
        print(json.dumps(JOBS[job](**parameters)))
        return 0
    if not options.smoke and not DATA.is_dir():
        print(f"no data in {DATA}: set LBARN_DATA to the folder that holds mnist.npz and the others", file=sys.stderr)
        return 2
    console = Console(width=110)
    learners = [name for name, learner in LEARNERS.items() if find_spec(learner.module)]
    for name, learner in LEARNERS.items():
        if name not in learners:
            console.print(f"{name} is skipped: {learner.module} is not installed")
    measured = {}
    for column in COLUMNS:
        if column.startswith(options.only):
            measured[column] = measure(column, learners, options, console)
            console.print(column_table(column, measured[column]))
    has_peer = "LightGBM rows" in learners
    evaluation = run("evaluate", trees=options.eval_trees, smoke=options.smoke) if has_peer else None
    slopes = run("slopes", trees=options.trees, smoke=options.smoke)
    console.print(wanted_table(measured, evaluation))
    console.print(slopes_table(slopes))
    console.print(f"load average {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores; this benchmark alone makes 1")
    if options.json:
        everything = {"trees": options.trees, "columns": measured, "evaluation": evaluation, "slopes": slopes}
        options.json.write_text(json.dumps(everything, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
