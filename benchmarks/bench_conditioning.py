"""Conditioning, before and now: seconds, and errors against a run with many particles.

    python benchmarks/bench_conditioning.py [--before PYTHON] [--cache FOLDER] [--only mnist ocr_letters] [--reference 16000]
                                            [--repeat 2] [--jobs 2] [--smoke]

100 MNIST digits of which 10% of the pixels were flipped are denoised, and 1,000 rows of OCR-letters of which 20% of the values are
hidden are filled, with the settings that a version has by default. PYTHON is an interpreter with the version before, which fits the networks, so
that both can read them, and works on the same files in the same run, turn by turn; seconds are the mean of the turns, for how much is done depends on random numbers. Errors are those of the probabilities of
unknown values against a run of this version with as many particles as --reference says, all in one, and other random numbers.

The networks are fitted once and kept in FOLDER. The data is read from the folder LBARN_DATA, or else from ../shared/data beside the
project; --smoke takes scikit-learn's digits. What was measured is written to docs/results/conditioning.json and its table into
docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pages import ROOT, Bits, Split, arguments, command, fitted, load, measured_before, publish, table

WORKER = Path(__file__).with_name("conditioning_worker.py")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """What is asked of a network."""

    title: str
    rows: int
    training_rows: int
    network: dict[str, Any]
    method: str
    given: dict[str, float]
    wider: float  # than the tolerance by default

    def wear(self, X: Bits) -> Floats:
        """The rows as they are given: with flipped or hidden values."""
        chosen = np.random.default_rng(1).random(X.shape) < (0.1 if self.method == "denoise" else 0.2)
        return np.where(chosen, 1.0 - X, X) if self.method == "denoise" else np.where(chosen, np.nan, X)

    def asked(self, X: Floats) -> NDArray[np.bool_]:
        return np.ones(X.shape, np.bool_) if self.method == "denoise" else np.isnan(X)


_MNIST = {"max_leaf_nodes": 16, "learning_rate": 0.1, "max_iter": 150}
_LETTERS = {"max_leaf_nodes": 32, "learning_rate": 0.05, "max_iter": 300}
_DIGITS = {"max_leaf_nodes": 4, "learning_rate": 0.3, "max_iter": 10}
TASKS = {
    "mnist": Task("MNIST, 100 images denoised", 100, 20_000, _MNIST, "denoise", {"flip": 0.1}, 0.05),
    "ocr_letters": Task("OCR-letters, 1,000 rows imputed", 1000, 10**9, _LETTERS, "impute", {}, 0.002),
    "digits": Task("digits, 10 rows imputed", 10, 10**9, _DIGITS, "impute", {}, 0.01),
}


@dataclass(frozen=True)
class Run:
    """What came out of a version at work."""

    probability: Floats
    cpu: float
    wall: float
    version: dict[str, Any]  # what tells which one it is


@dataclass(frozen=True)
class Bench:
    """One task's model and rows, and who works on them."""

    task: Task
    model: Path
    rows: Path
    folder: Path
    jobs: int

    def run(self, python: str, **how: Any) -> Run:
        out = self.folder / "found.npy"
        settings = {"method": self.task.method, "jobs": self.jobs, "given": self.task.given, "arguments": how}
        done = subprocess.run(
            [python, WORKER, self.model, self.rows, out, json.dumps(settings)],
            check=True,
            capture_output=True,
            text=True,
        )
        told = json.loads(done.stdout)
        return Run(np.load(out), *told["seconds"], {"defaults": told["defaults"], "core": told["core"]})


def network_of(name: str, chosen: argparse.Namespace) -> Path:
    """The file of the task's network, fitted unless it is there: by the version before, for it may not read later files."""
    file: Path = chosen.cache / f"{name}.lbarn"
    if not file.exists():
        options = ["--fit", name, "--cache", str(chosen.cache), "--jobs", str(chosen.jobs)]
        subprocess.run([str(chosen.before or sys.executable), __file__, *options], check=True)
    return file


def fit(name: str, chosen: argparse.Namespace) -> None:
    task, data = TASKS[name], load(name)
    some = Split(data.train[: task.training_rows], data.valid[:4000], data.test)
    chosen.cache.mkdir(parents=True, exist_ok=True)
    fitted(some, n_jobs=chosen.jobs, **task.network)[0].save(chosen.cache / f"{name}.lbarn")


def compare(name: str, chosen: argparse.Namespace) -> dict[str, Any]:
    task, data = TASKS[name], load(name)
    test = data.test[np.random.default_rng(0).permutation(len(data.test))[: task.rows]]
    X = task.wear(test)
    asked = task.asked(X)
    versions: dict[str, tuple[str, dict[str, float]]] = {"before": (str(chosen.before), {})} if chosen.before else {}
    versions["now"] = sys.executable, {}
    versions[f"now, tolerance={task.wider}"] = sys.executable, {"tolerance": task.wider}
    with tempfile.TemporaryDirectory() as folder:
        rows = Path(folder) / "rows.npy"
        np.save(rows, X)
        bench = Bench(task, network_of(name, chosen), rows, Path(folder), chosen.jobs)
        many = bench.run(sys.executable, n_particles=chosen.reference, tolerance=0.0, random_state=99)
        found: dict[str, list[Run]] = {version: [] for version in versions}
        for turn in range(chosen.repeat):
            for version, (python, how) in versions.items():
                done = bench.run(python, random_state=turn, **how)
                if version == "before" and "tolerance" in done.version["defaults"]:
                    sys.exit(f"{python} has a version that knows tolerances: it is not the one before")
                found[version].append(done)
                print(name, version, done.cpu, done.wall, file=sys.stderr, flush=True)
    return {
        "title": task.title,
        "command": command(),
        "reference": {"particles": chosen.reference, "CPU seconds": many.cpu},
        "versions": {version: figures(runs, many.probability, asked) for version, runs in found.items()},
    }


def figures(runs: list[Run], reference: Floats, asked: NDArray[np.bool_]) -> dict[str, Any]:
    errors = np.stack([(run.probability - reference)[asked] for run in runs])
    return {
        **runs[0].version,
        "CPU seconds": float(np.mean([run.cpu for run in runs])),
        "wall seconds": float(np.mean([run.wall for run in runs])),
        "root mean square error": float(np.sqrt(np.square(errors).mean())),
        "mean error": float(np.abs(errors).mean()),
    }


def report(sets: dict[str, Any]) -> str:
    lines = []
    for result in sets.values():
        versions = result["versions"]
        for version, own in versions.items():
            errors = [f"{own[kind]:.5f}" for kind in ("root mean square error", "mean error")]
            times = versions.get("before", own)["CPU seconds"] / own["CPU seconds"]
            seconds = [f"{own['CPU seconds']:.1f}", f"{own['wall seconds']:.1f}", f"{times:.1f}"]
            lines.append([f"{result['title']}, {version}", *seconds, *errors])
    return table(["", "CPU seconds", "wall seconds", "times as fast", "error, root mean square", "mean error"], lines)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="an interpreter with another version of lbarn")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "conditioning", help="where networks are kept")
    parser.add_argument("--fit", choices=tuple(TASKS), help="only fit this network, into the cache")
    parser.add_argument("--only", nargs="+", choices=("mnist", "ocr_letters"), default=["mnist", "ocr_letters"])
    parser.add_argument("--reference", type=int, default=16_000, help="particles")
    parser.add_argument("--repeat", type=int, default=2)
    chosen = arguments(parser)
    if chosen.smoke:
        chosen.only, chosen.reference, chosen.repeat = ["digits"], 500, 1
    return chosen


def main() -> None:
    chosen = options()
    if chosen.fit:
        fit(chosen.fit, chosen)
        return
    if chosen.smoke:
        with tempfile.TemporaryDirectory() as folder:
            chosen.cache = Path(folder)
            sets = {name: compare(name, chosen) for name in chosen.only}
    else:
        sets = measured_before("conditioning", chosen) | {name: compare(name, chosen) for name in chosen.only}
    publish({"sets": sets}, report(sets), chosen, "conditioning", "speed")


if __name__ == "__main__":
    main()
