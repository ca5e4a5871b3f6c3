"""An attack on everything that is read: model files, compressed rows, checkpoints and tables, damaged by chance or crafted.

Damaged files have bytes changed; resealed ones have other contents under a right checksum. Whatever can be opened is used by
every method there is. Cases run in child processes, with limits on time and memory, so that a crash, a hang or an absurd
allocation is seen and counted. Allowed are three outcomes:

refused
    One of our errors, or a plain ValueError.
same
    The damage does no harm: all answers are those of the original.
other
    Another model, or table, that is sound in itself. Only where no checksum can tell: resealed files, and tables.

    python tests/fuzz.py -n 2000 --seed 0
    python tests/fuzz.py --seed 0 --case 1234    # that one again, in this process, with its traceback
"""

from __future__ import annotations

import argparse
import faulthandler
import gzip
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import lbarn
from crafted import craft_model, craft_table, resealed
from lbarn import LBARN, CheckpointError, LBARNClassifier, LBARNEnsemble, LBARNError, TableFileError, inspection
from lbarn._tables.files import open_table
from lbarn.baselines import IndependentBits
from mutations import mutate_bytes, mutate_description, mutate_meaning
from networks import quick, quick_ensemble, rows

SECONDS = 60  # that a case may take, on a busy machine; it takes a few hundredths
MEMORY = 3 << 30  # bytes that a child may ask for, besides what its libraries take
CASES_PER_CHILD = 100

Answers = dict[str, Any]


class WrongAnswerError(Exception):
    """A fault that does not announce itself: answers that make no sense, or are not those of the original."""


def expect(sound: Any, what: str) -> None:
    if not bool(sound):
        raise WrongAnswerError(what)


# ---------------------------------------------------------------------- using a model by all of its methods


def answers(model: Any, path: Path) -> Answers:
    """What a model says to everything it can be asked, each answer checked to make sense; ``path`` is free for files."""
    if isinstance(model, LBARNClassifier):
        found = _classified(model)
        for k, network in enumerate(model.networks_):
            found |= {f"{k}.{name}": answer for name, answer in _density(network).items()}
    else:
        found = _density(model) if model.codebook_.is_binary else _table(model)
    found |= _told(model)
    found |= _after_changes(model, path)
    return found


def _some_rows(n_columns: int) -> tuple[Any, Any]:
    """A few rows, complete and with gaps."""
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (6, n_columns), np.uint8)
    holes = X.astype(float)
    holes[rng.random(X.shape) < 0.5] = np.nan
    holes[0] = np.nan
    return X, holes


def _probabilities(found: Any) -> bool:
    return bool(((np.asarray(found, float) >= 0) & (np.asarray(found, float) <= 1)).all())


def _density(model: Any) -> Answers:
    X, holes = _some_rows(model.n_features_in_)
    table, few = model.table_format_.give(X), {"n_particles": 20, "random_state": 0}
    X = X if model.binarize is None else (model.binarize < X).astype(np.uint8)
    draws = model.sample(4, random_state=0)
    given, about = model.sample(2, given=holes, return_diagnostics=True, **few)
    found = {
        "score_samples": model.score_samples(table),
        "score_samples of gaps": model.score_samples(holes),
        "surprise": model.surprise(table),
        "sample": draws,
        "sample given": given,
        "effective": about["effective_sample_size"],
        "impute sample": model.impute(holes, n_draws=2, **few),
        "impute mode": model.impute(holes, output="mode", **few),
        "impute probability": model.impute(holes, output="probability", **few),
        "denoise": model.denoise(table, flip=0.1, **few),
        "log_marginal": model.log_marginal(holes, **few),
        "importances": model.feature_importances_,
    }
    found = {name: np.asarray(answer, float) for name, answer in found.items()}
    for name in ("score_samples", "score_samples of gaps", "log_marginal"):
        expect(np.isfinite(found[name]).all() and (found[name] <= 1e-6).all(), f"{name}: {found[name]}")
    for name in ("sample", "sample given", "impute sample", "impute mode", "denoise"):
        expect(np.isin(found[name], [0, 1]).all(), f"{name} is not of bits")
    known = ~np.isnan(holes)
    expect(
        (found["sample given"].reshape(len(X), 2, -1).swapaxes(0, 1)[:, known] == X[known]).all(),
        "sample changes what is given",
    )
    expect((found["impute sample"][:, known] == X[known]).all(), "impute changes what is there")
    expect(_probabilities(found["impute probability"]), "impute gives no probabilities")
    expect(not np.isnan(found["effective"]).any(), "no effective sample size")
    expect(np.isfinite(found["importances"]).all(), "importances are not numbers")
    expect((found["surprise"] >= -1e-9).all() and np.isfinite(found["surprise"]).all(), "surprises are not numbers")
    back = model.decompress(model.compress(table))
    expect(np.array_equal(np.asarray(back), X), "decompress gives other rows")
    return found


def _rows_of(model: Any) -> Any:
    """Rows that a model takes."""
    if isinstance(model, LBARNClassifier) or model.codebook_.is_binary:
        return _some_rows(model.n_features_in_)[0]
    return model.sample(6, random_state=1)


def _table(model: Any) -> Answers:
    """The same of a model of any table, on rows of its own."""
    table, few = _rows_of(model), {"n_particles": 20, "random_state": 0}
    draws = model.sample(4, random_state=0)
    found = {
        "score_samples": model.score_samples(table),
        "surprise": model.surprise(table),
        "log_marginal": model.log_marginal(table, **few),
        "importances": model.feature_importances_,
    }
    for name, answer in found.items():
        expect(np.isfinite(answer).all(), f"{name}: {answer}")
    for output in ("sample", "mode", "mean", "median"):
        found[f"impute {output}"] = np.array(model.impute(table, output=output, **few).astype(str))
    for label in model.table_format_.labels(model.n_features_in_):
        if model.columns_[str(label)].kind != "left out":
            p = model.conditional(table, label).probability
            expect(_probabilities(p) and np.allclose(p.sum(axis=1), 1), f"{label}: no probabilities")
            found[f"conditional {label}"] = p
    expect(model.decompress(model.compress(table)).equals(table), "decompress gives other rows")
    return found | {"sample": np.array(draws.astype(str)), "columns": repr(model.columns_)}


def _classified(model: Any) -> Answers:
    X, holes = _some_rows(model.n_features_in_)
    table = model.networks_[0].table_format_.give(X)
    found = {"predict_proba": model.predict_proba(table), "predict_proba of gaps": model.predict_proba(holes)}
    for name, answer in found.items():
        expect(_probabilities(answer) and np.allclose(answer.sum(axis=1), 1), f"{name} gives no probabilities")
    labels = model.predict(table)
    expect(np.isin(labels, model.classes_).all(), "predict gives labels that there are not")
    return found | {"predict": labels.astype(str)}


def _told(model: Any) -> Answers:
    about = inspection.describe(model)
    columns = sorted({0, 1 % model.n_features_in_, model.n_features_in_ - 1})
    told = [inspection.describe_column(model, str(j)) for j in columns]
    lines = [*inspection.lines(about), *(line for one in told for line in inspection.column_lines(one))]
    return {"inspection": json.dumps([about, told], allow_nan=False), "lines": "\n".join(lines)}


def _after_changes(model: Any, path: Path) -> Answers:
    """What it says when saved and loaded, with another selection, and refitted. The model itself may be another one then."""

    def scores(one: Any) -> Any:
        return one.predict_joint_log_proba(X) if isinstance(one, lbarn.LBARNClassifier) else one.score_samples(X)

    X = _rows_of(model)
    model.save(path)
    copy = lbarn.load(path)
    expect(type(copy) is type(model) and np.array_equal(scores(copy), scores(model)), "saving makes another model")
    copy.save(path.with_suffix(".again"))
    expect(path.read_bytes() == path.with_suffix(".again").read_bytes(), "saving again gives other bytes")
    model.save(path, trim=True)
    expect(np.array_equal(scores(lbarn.load(path)), scores(model)), "trimming makes another model")
    found = {}
    if isinstance(model, LBARN | LBARNEnsemble):
        for method in ("individual", "common", "linearized", "linearized-backward"):
            try:
                found[method] = scores(copy.select(method))
            except ValueError as error:  # a trimmed one cannot, and early stopping goes with one selection only
                expect("cannot select again" in str(error) or "works with selection" in str(error), f"select: {error}")
        found["refitted"] = scores(copy.refit_leaves(X))
        expect(all(np.isfinite(answer).all() for answer in found.values()), "scores that are not numbers")
    return found


def _mixed() -> pd.DataFrame:
    """A column of every kind."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "number": rng.integers(0, 30, 60).astype(float),
            "real": rng.normal(size=60),
            "level": [*["a", "b"] * 25, *(f"rare {k}" for k in range(10))],
            "rank": pd.Categorical(rng.choice(["lo", "mid"], 60), ["lo", "mid", "hi"], ordered=True),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 60), unit="D"),
            "bit": rng.integers(0, 2, 60),
            "name": [f"name {k}" for k in range(60)],
        }
    )
    frame.loc[::7, "number"] = np.nan
    return frame


def same(a: Answers, b: Answers) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# ---------------------------------------------------------------------- what is attacked


@dataclass
class Originals:
    """Sound files, made once per process."""

    folder: Path
    known: dict[Any, Answers] = field(default_factory=dict)

    @cached_property
    def path(self) -> Path:
        return self.folder / "model.lbarn"

    @cached_property
    def models(self) -> list[Any]:
        small: dict[str, Any] = {"max_iter": 4, "max_leaf_nodes": 3}
        X = rows(60, 4)
        frame = pd.DataFrame(X, columns=list("abcd"))
        tuned = quick(**small, order=[3, 1, 0, 2]).fit(frame)
        tuned.trials_ = [{"max_leaf_nodes": 3, "learning_rate": 0.3, "valid_log_likelihood": -2.0, "seconds": 0.1}]
        return [
            quick(**small).fit(X),
            tuned,
            quick(**small, init="linear", refit=True, learning_rate="auto").fit(pl.from_pandas(frame)),
            quick(**small, selection="common", binarize=0.5).fit(rows(60, 16)),
            quick_ensemble(**small, n_orders=2, weights="em").fit(frame),
            LBARNClassifier(quick(**small)).fit(X, np.where(np.arange(60) < 5, "few", np.where(X[:, 0], "b", "a"))),
            IndependentBits().fit(frame),
            quick(**small, missing="value", max_cells=6).fit(_mixed()),
        ]

    @cached_property
    def files(self) -> list[bytes]:
        """Every model as a file, and the first two trimmed."""
        found = []
        for trim, models in ((False, self.models), (True, self.models[:2])):
            for model in models:
                model.save(self.path, trim=trim)
                found.append(self.path.read_bytes())
        return found

    def answers(self, k: int) -> Answers:
        """Of the model in file ``k``."""

        if k not in self.known:
            self.path.write_bytes(self.files[k])
            self.known[k] = answers(lbarn.load(self.path), self.path)
        return self.known[k]

    @cached_property
    def blobs(self) -> list[tuple[Any, Any, bytes]]:
        """(model, rows, compressed rows)."""

        models = [self.models[k] for k in (0, 3, 4, 6)]
        tables: list[Any] = [rows(n, model.n_features_in_) for model, n in zip(models, (1, 40, 40, 300))]
        pairs = [*zip(models, tables), (self.models[7], _mixed().drop(columns="name"))]
        return [(model, X, model.compress(X)) for model, X in pairs]

    @cached_property
    def checkpoints(self) -> list[tuple[Callable[[Path], Any], Path, Answers]]:
        """(fit in a folder, that folder when the fit is done, what the model says)."""

        small: dict[str, Any] = {"max_iter": 4, "max_leaf_nodes": 3, "n_jobs": 1}
        X = rows(60, 4)
        fits: list[Callable[[Path], Any]] = [
            lambda folder: quick(**small, order="entropy-decreasing").fit(X, checkpoint=folder),
            lambda folder: quick_ensemble(**small, n_orders=2).fit(X, checkpoint=folder),
        ]
        found = []
        for k, fit in enumerate(fits):
            folder = self.folder / f"checkpoint-{k}"
            found.append((fit, folder, answers(fit(folder), self.path)))
        return found

    @cached_property
    def tables(self) -> dict[str, tuple[str, bytes]]:
        """(ending, bytes) of one table in many formats."""

        X = rows(40, 4)
        frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
        found: dict[str, tuple[str, bytes]] = {}

        def keep(kind: str, ending: str, write: Callable[[io.BytesIO], Any]) -> None:
            stream = io.BytesIO()
            write(stream)
            found[kind] = ending, stream.getvalue()

        text = frame.to_csv(index=False).encode()
        keep("csv", ".csv", lambda file: file.write(text))
        keep("csv.gz", ".csv.gz", lambda file: file.write(gzip.compress(text, mtime=0)))
        keep("parquet", ".parquet", lambda file: frame.to_parquet(file))
        keep("npy", ".npy", lambda file: np.save(file, X))
        keep("npz", ".npz", lambda file: np.savez_compressed(file, X=X))
        keep("sparse npz", ".npz", lambda file: sp.save_npz(file, sp.csr_matrix(X)))
        keep("libsvm", ".libsvm", lambda file: dump_svmlight_file(X.astype(float), np.zeros(40), file))
        return found


# ---------------------------------------------------------------------- attacks
#
# Each takes a case and says how it ended: refused, same or other. Anything it raises but our errors is a fault.


def refusal(error: BaseException) -> bool:
    """Whether an error is one that a user may see: ours, or a ValueError that no library below has let slip."""
    return (isinstance(error, LBARNError) or type(error) is ValueError) and bool(str(error))


def damaged_model(originals: Originals, rng: random.Random) -> str:
    k = rng.randrange(len(originals.files))
    return _opened(originals, k, mutate_bytes(originals.files[k], rng), may_differ=False)


def resealed_model(originals: Originals, rng: random.Random) -> str:
    k = rng.randrange(len(originals.files))
    return _opened(originals, k, mutate_meaning(originals.files[k], rng), may_differ=True)


def crafted_model(originals: Originals, rng: random.Random) -> str:
    k = rng.randrange(len(originals.files))
    return _opened(originals, k, craft_model(originals.files[k], rng), may_differ=True)


def _opened(originals: Originals, k: int, file: bytes, *, may_differ: bool) -> str:
    path = originals.folder / "attack.lbarn"
    path.write_bytes(file)
    try:
        model = lbarn.load(path)
    except ValueError as error:
        if refusal(error):
            return "refused"
        raise
    try:
        found = answers(model, originals.path)
    except ValueError as error:  # it has been accepted: now it has to work
        raise WrongAnswerError(f"accepted, and then {type(error).__name__}: {error}") from error
    if same(found, originals.answers(k)):
        return "same"
    expect(may_differ, "a damaged file opens as another model")
    return "other"


def damaged_blob(originals: Originals, rng: random.Random) -> str:
    model, X, blob = rng.choice(originals.blobs)
    return _decompressed(model, X, mutate_bytes(blob, rng))


def resealed_blob(originals: Originals, rng: random.Random) -> str:
    model, X, blob = rng.choice(originals.blobs)
    return _decompressed(model, X, resealed(blob, len(X), rng))


def _decompressed(model: Any, X: Any, blob: bytes) -> str:
    # Every row of a mixture is evaluated, however few bytes claim to hold it: a limit is for the caller to set.
    max_rows = 1_000_000 if isinstance(model, LBARNEnsemble) else None
    try:
        found = model.decompress(blob, max_rows=max_rows)
    except ValueError as error:
        if refusal(error):
            return "refused"
        raise
    is_same = found.equals(X) if isinstance(X, pd.DataFrame) else np.array_equal(np.asarray(found), X)
    expect(is_same, "decompress gives other rows")
    return "same"


def damaged_checkpoint(originals: Originals, rng: random.Random) -> str:
    """A file damaged, emptied, missing, doubled, or replaced by another one."""

    def damage(files: list[Path]) -> None:
        file = rng.choice(files)
        action = rng.random()
        if action < 0.6:
            file.write_bytes(mutate_bytes(file.read_bytes(), rng))
        elif action < 0.7:
            file.unlink()
        elif action < 0.9:
            file.write_bytes(rng.choice([own for own in files if own.suffix == file.suffix]).read_bytes())
        else:
            file.write_bytes(b"")

    return _continued(originals, rng, damage, may_differ=False)


def resealed_checkpoint(originals: Originals, rng: random.Random) -> str:
    """Other contents with a right checksum; that the trees are others cannot be known if they are sound."""

    def damage(files: list[Path]) -> None:
        file = rng.choice([own for own in files if own.suffix == ".json"]) if rng.random() < 0.2 else rng.choice(files)
        if file.suffix != ".json":
            file.write_bytes(mutate_meaning(file.read_bytes(), rng))
            return
        content = json.loads(file.read_bytes())
        mutate_description(content, rng)
        content.pop("checksum", None)
        checksum = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        file.write_text(json.dumps({**content, "checksum": checksum}, sort_keys=True, indent=1))

    return _continued(originals, rng, damage, may_differ=True)


def _continued(
    originals: Originals, rng: random.Random, damage: Callable[[list[Path]], None], *, may_differ: bool
) -> str:
    fit, finished, known = rng.choice(originals.checkpoints)
    folder = originals.folder / "attack"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(finished, folder)
    damage(sorted(path for path in folder.rglob("*") if path.is_file()))
    try:
        model = fit(folder)
    except ValueError as error:
        if isinstance(error, CheckpointError):
            return "refused"
        raise
    if same(answers(model, originals.path), known):
        return "same"
    expect(may_differ, "a damaged checkpoint ends in another model")
    return "other"


def damaged_table(originals: Originals, rng: random.Random) -> str:
    kind = rng.choice(sorted(originals.tables))
    ending, content = originals.tables[kind]
    return _read(originals, ending, mutate_bytes(content, rng))


def crafted_table(originals: Originals, rng: random.Random) -> str:
    kind = rng.choice(sorted(originals.tables))
    ending, content = originals.tables[kind]
    return _read(originals, ending, craft_table(kind, content, rng))


def _read(originals: Originals, ending: str, content: bytes) -> str:
    """Read as a whole and in batches, and give what was read to a model that counts."""
    path = originals.folder / f"attack{ending}"
    path.write_bytes(content)
    try:
        with open_table(str(path)) as table:
            expect(table.n_columns > 0 and (table.names is None or len(table.names) == table.n_columns), "its columns")
            whole = table.read()
        with open_table(str(path)) as table:
            batches = list(table.batches(max(7, whole.shape[0] // 5)))
    except TableFileError:
        return "refused"
    n_rows = whole.shape[0]
    expect(sum(batch.shape[0] for batch in batches) == n_rows, "batches have other numbers of rows")
    try:
        model = IndependentBits().fit(whole)
        scores = model.score_samples(whole)
        parts = [model.score_samples(batch) for batch in batches]
    except ValueError as error:
        if refusal(error):
            return "refused"
        raise
    expect(np.array_equal(scores, np.concatenate(parts)), "batches have other values")
    known = IndependentBits().fit(rows(40, 4))
    if n_rows == 40 and np.array_equal(model.distribution.fingerprint(), known.distribution.fingerprint()):
        return "same"
    return "other"


ATTACKS: dict[str, tuple[int, Callable[[Originals, random.Random], str]]] = {
    "damaged model": (3, damaged_model),
    "resealed model": (4, resealed_model),
    "crafted model": (3, crafted_model),
    "damaged blob": (2, damaged_blob),
    "resealed blob": (2, resealed_blob),
    "damaged checkpoint": (1, damaged_checkpoint),
    "resealed checkpoint": (1, resealed_checkpoint),
    "damaged table": (3, damaged_table),
    "crafted table": (5, crafted_table),
}
KINDS = [kind for kind, (share, _) in ATTACKS.items() for _ in range(share)]


# ---------------------------------------------------------------------- a child, and its parent


def run_case(originals: Originals, seed: int, case: int) -> str:
    kind = KINDS[case % len(KINDS)]
    return ATTACKS[kind][1](originals, random.Random(f"{seed}, {case}"))


def _limit_memory() -> None:
    """A wild allocation fails instead of bringing the machine down."""
    if sys.platform == "linux":
        import resource

        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def child(seed: int, cases: range) -> None:
    """Run cases, and tell of each when it begins and how it ends."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        originals = Originals(Path(folder))
        _limit_memory()
        for case in cases:
            print(json.dumps([case, "begins"]), flush=True)
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            try:
                outcome, detail = run_case(originals, seed, case), ""
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                outcome = {WrongAnswerError: "wrong", MemoryError: "memory"}.get(type(error), "traceback")
                detail = f"{type(error).__name__}: {str(error)[:200]} ({Path(where.filename).name}:{where.lineno})"
            faulthandler.cancel_dump_traceback_later()
            print(json.dumps([case, outcome, detail]), flush=True)


@dataclass(frozen=True)
class Result:
    case: int
    outcome: str
    detail: str = ""

    @property
    def kind(self) -> str:
        return KINDS[self.case % len(KINDS)]

    @property
    def is_fault(self) -> bool:
        return self.outcome not in ("refused", "same", "other")


def results_of(seed: int, cases: range, script: str = __file__) -> Iterator[Result]:
    """What became of the cases, whatever becomes of the children that run them."""
    while len(cases):
        command = [sys.executable, script, "--seed", str(seed), "--child", str(cases.start), str(cases.stop)]
        ended = subprocess.run(command, capture_output=True, text=True)
        told = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("[")]
        yield from (Result(*line) for line in told if line[1] != "begins")
        if ended.returncode == 0:
            return
        if not told or told[-1][1] != "begins":
            raise RuntimeError(f"a child failed outside of its cases:\n{ended.stderr}")
        signal_name = signal.Signals(-ended.returncode).name if ended.returncode < 0 else ""
        outcome = f"crash {signal_name}" if signal_name else "hang" if "Timeout" in ended.stderr else "exit"
        yield Result(told[-1][0], outcome, ended.stderr[-1500:])
        cases = range(told[-1][0] + 1, cases.stop)


def attack(n_cases: int, seed: int, jobs: int, cases_per_child: int = CASES_PER_CHILD) -> list[Result]:
    """Run so many cases in children, several at a time."""
    parts = [range(a, min(a + cases_per_child, n_cases)) for a in range(0, n_cases, cases_per_child)]
    with ThreadPoolExecutor(jobs) as pool:
        return [result for part in pool.map(lambda part: list(results_of(seed, part)), parts) for result in part]


def table_of(results: list[Result]) -> str:
    """Cases of every kind by outcome."""
    counts = Counter((result.kind, result.outcome) for result in results)
    outcomes = ["refused", "same", "other", *sorted({result.outcome for result in results if result.is_fault})]
    lines = [f"{'':20}" + "".join(f"{name:>12}" for name in ["cases", *outcomes])]
    for kind in ATTACKS:
        row = [counts[kind, outcome] for outcome in outcomes]
        lines.append(f"{kind:20}" + "".join(f"{count:>12,}" for count in [sum(row), *row]))
    row = [sum(result.outcome == outcome for result in results) for outcome in outcomes]
    return "\n".join([*lines, f"{'all':20}" + "".join(f"{count:>12,}" for count in [sum(row), *row])])


def main() -> None:
    parser = argparse.ArgumentParser(description="An attack on everything that is read.")
    parser.add_argument("-n", type=int, default=2000, help="cases (default 2000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--case", type=int, help="run this one only, in this process")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.seed, range(*options.child))
    elif options.case is not None:
        warnings.simplefilter("ignore")
        with tempfile.TemporaryDirectory() as folder:
            print(KINDS[options.case % len(KINDS)] + ":", run_case(Originals(Path(folder)), options.seed, options.case))
    else:
        began = time.monotonic()
        results = attack(options.n, options.seed, options.jobs)
        print(table_of(results), f"{time.monotonic() - began:.0f} s", sep="\n")
        faults = [result for result in results if result.is_fault]
        for result in faults:
            print(f"\n{result.outcome}: {result.kind}, --seed {options.seed} --case {result.case}\n    {result.detail}")
        sys.exit(bool(faults))


if __name__ == "__main__":
    main()
