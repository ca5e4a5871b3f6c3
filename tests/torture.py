"""Kills fits at random moments and continues them: threads, processes, Dask, ensembles, several in one folder.

    python tests/torture.py [number of kills] [seed]

Every fit that is continued must end with the file of one that nobody disturbed, byte for byte. A fit whose scheduler dies, or
whose workers die and have no successors, must end too: with that model if it was done already, otherwise with an error that says
what happened, after which it is continued without the cluster. Prints what happened to how many, and exits with an error if
that was anything else.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import joblib

import lbarn
from fit_process import (
    DEADLINE,
    Process,
    cluster_process,
    linked_rows,
    model_bytes,
    start,
    start_worker,
    wait_until,
)
from lbarn._training import cluster as cluster_calls

SHAPE = (2000, 20)
PARAMETERS: dict[str, Any] = {"max_leaf_nodes": 8, "learning_rate": 0.1, "max_iter": 80, "random_state": 0}
ENSEMBLE: dict[str, Any] = {**PARAMETERS, "n_orders": 3}
THREADS: dict[str, Any] = {"backend": "threading", "n_jobs": 2}
PROCESSES: dict[str, Any] = {"backend": "loky", "n_jobs": 2}
CONTAINER = {"LBARN_TEST_PID": "1"}
PATIENCE = 4 * DEADLINE  # for a machine that has other things to do
GONE = ("no Dask worker has been seen", "the connection to the Dask scheduler is lost")  # what a fit may say


class Torture:
    """Counts, by kind: kills, fits that ended with an error that is in order, fits that ended with the same bytes, and others."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.same: Counter[str] = Counter()
        self.failed: list[str] = []
        self.expected = {
            "LBARN": undisturbed(lbarn.LBARN(**PARAMETERS)),
            "LBARNEnsemble": undisturbed(lbarn.LBARNEnsemble(**ENSEMBLE)),
        }

    def judge(self, kind: str, estimator: str, found: bytes | str) -> None:
        if found == self.expected[estimator]:
            self.same[kind] += 1
        else:
            self.failed.append(f"{kind}: {found if isinstance(found, str) else 'another model'}")

    def kill_soon(self, process: Process, checkpoint: Path, seconds: float) -> bool:
        """Whether the process was killed, by chance before it had begun to train; else it has ended by itself."""
        if self.random.random() < 0.9:
            wait_until(
                lambda: (checkpoint / "checkpoint.json").exists() or process.poll() is not None, "a fit", PATIENCE
            )
        time.sleep(self.random.uniform(0, seconds))
        if process.poll() is not None:
            return False
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True

    def fits(self, kind: str, estimator: str, parallel: dict[str, Any], n_fits: int = 1, n_processes: int = 1) -> None:
        """Fits in one folder that are killed up to three times and then left alone."""
        parameters = ENSEMBLE if estimator == "LBARNEnsemble" else PARAMETERS
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder) / "checkpoint"
            files = [Path(folder) / f"model {k}" for k in range(n_processes)]

            def begin(file: Path) -> Process:
                return start(
                    SHAPE,
                    parameters,
                    estimator=estimator,
                    parallel=parallel,
                    checkpoint=checkpoint,
                    model=file,
                    n_fits=n_fits,
                    environment=CONTAINER if n_processes > 1 else None,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                )

            processes = {file: begin(file) for file in files}
            for _ in range(self.random.randint(1, 3)):
                victim = self.random.choice(files)
                if not self.kill_soon(processes[victim], checkpoint, seconds=1.0):
                    break
                self.killed[kind] += 1
                processes[victim] = begin(victim)
            for file, process in processes.items():
                try:
                    errors = process.communicate(timeout=PATIENCE)[1]
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    self.judge(kind, estimator, "does not end")
                    continue
                self.judge(kind, estimator, file.read_bytes() if process.returncode == 0 else errors[-500:])

    def dask(self, kind: str, estimator: str) -> None:
        """A fit on a cluster of two workers, of which some die, or stand still, at a random moment of it."""
        with cluster() as (client, workers):
            model = lbarn.LBARN(**PARAMETERS) if estimator == "LBARN" else lbarn.LBARNEnsemble(**ENSEMBLE)
            found: list[bytes | str] = []
            fit = threading.Thread(target=lambda: found.append(on(client, model)), daemon=True)
            fit.start()
            time.sleep(self.random.uniform(0.02, 1.5))
            for k in self.random.choice([[0], [1], [0, 1]]):
                if self.random.random() < 0.2:
                    workers[k].send_signal(signal.SIGSTOP)
                    threading.Timer(self.random.uniform(1, 4), workers[k].send_signal, [signal.SIGCONT]).start()
                else:
                    workers[k].kill()
                    workers[k].wait()
                    workers.append(start_worker(client.scheduler.address))
                self.killed[kind] += 1
            fit.join(PATIENCE)
            self.judge(kind, estimator, found[0] if found else "does not end")

    def deserted(self, kind: str, victims: str) -> None:
        """A fit on a cluster whose scheduler dies at a random moment of it, or both of whose workers do, and nobody follows."""
        model = lbarn.LBARN(**PARAMETERS)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Path(folder) / "checkpoint"
            with cluster_process(Path(folder), n_workers=2, timeout=2) as (client, scheduler, workers):
                found: list[bytes | str] = []
                fit = threading.Thread(target=lambda: found.append(on(client, model, checkpoint)), daemon=True)
                fit.start()
                time.sleep(self.random.uniform(0.0, 1.5))
                for victim in [scheduler] if victims == "scheduler" else workers:
                    victim.kill()
                    victim.wait()
                    self.killed[kind] += 1
                fit.join(PATIENCE)
            if found and isinstance(found[0], str) and any(message in found[0] for message in GONE):
                self.told[kind] += 1
                found = [undisturbed(lbarn.LBARN(**PARAMETERS), checkpoint)]
            self.judge(kind, "LBARN", found[0] if found else "does not end")

    def run(self, n_kills: int) -> None:
        kinds: list[tuple[str, Callable[[str], None]]] = [
            ("threads", lambda kind: self.fits(kind, "LBARN", THREADS)),
            ("processes", lambda kind: self.fits(kind, "LBARN", PROCESSES)),
            ("Dask", lambda kind: self.dask(kind, "LBARN")),
            ("ensemble in threads", lambda kind: self.fits(kind, "LBARNEnsemble", THREADS)),
            ("ensemble on Dask", lambda kind: self.dask(kind, "LBARNEnsemble")),
            ("threads in one folder", lambda kind: self.fits(kind, "LBARN", THREADS, n_fits=4)),
            ("containers in one folder", lambda kind: self.fits(kind, "LBARN", THREADS, n_fits=2, n_processes=3)),
            ("Dask's scheduler", lambda kind: self.deserted(kind, "scheduler")),
            ("both workers, for good", lambda kind: self.deserted(kind, "workers")),
        ]
        turn = 0
        while sum(self.killed.values()) < n_kills:
            kind, attack = kinds[turn % len(kinds)]
            attack(kind)
            turn += 1

    def report(self) -> str:
        counts = (self.killed, self.told, self.same)
        lines = [f"{'':26}{'kills':>6}{'told':>6}{'same bytes':>12}"]
        lines += [f"{kind:26}{self.killed[kind]:6}{self.told[kind]:6}{self.same[kind]:12}" for kind in self.killed]
        kills, told, same = (sum(count.values()) for count in counts)
        return "\n".join([*lines, f"{'all':26}{kills:6}{told:6}{same:12}, {len(self.failed)} failed", *self.failed])


def undisturbed(model: Any, checkpoint: Path | None = None) -> bytes:
    return model_bytes(model.fit(linked_rows(*SHAPE), checkpoint=checkpoint))


def on(client: Any, model: Any, checkpoint: Path | None = None) -> bytes | str:
    with joblib.parallel_config("dask", client=client):
        try:
            return undisturbed(model, checkpoint)
        except Exception as error:
            return repr(error)


@contextmanager
def cluster() -> Iterator[tuple[Any, list[Process]]]:
    import distributed

    workers: list[Process] = []
    quiet = logging.CRITICAL
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", silence_logs=quiet) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        try:
            workers += [start_worker(local.scheduler_address) for _ in range(2)]
            client.wait_for_workers(2, timeout=PATIENCE)
            yield client, workers
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()


def main(n_kills: int = 100, seed: int = 0) -> int:
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    cluster_calls._NO_WORKER = 10.0  # a user waits for longer
    torture = Torture(seed)
    torture.run(n_kills)
    print(torture.report())
    return 1 if torture.failed else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
