"""The command line, through the real executable: what it prints, writes, refuses, and how it ends."""

from __future__ import annotations

import io
import json
import os
import pty
import random
import resource
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest
import scipy.sparse as sp
import typer
from pyarrow import parquet
from sklearn.base import clone

import cli_process
import lbarn
from cli_process import EXECUTABLE
from fit_process import DEADLINE, finished_dimensions, linked_rows, wait_until
from lbarn import LBARN, LBARNClassifier, LBARNEnsemble
from lbarn._tables.files import open_table
from lbarn.anomalies import explain
from lbarn.cli.app import app
from lbarn.parameters import NetworkParameters
from networks import assert_same_network, rows, still_rising

D = 10
PLAINLY = ("--header", "--n-jobs", "1")  # what would be found out anyway
NAMES = tuple(f"item {j}" for j in range(D))
QUICK = ("--max-iter", "20", "--learning-rate", "0.3", "--max-leaf-nodes", "4", "--random-state", "0")

pytestmark = [still_rising, pytest.mark.skipif(not EXECUTABLE.exists(), reason=f"there is no {EXECUTABLE}")]


RUN_WELL: dict[str, set[str]] = {}  # the words that each command was given by the tests so far


def run(*args: object, code: int = 0, stdin: bytes = b"", **options: Any) -> subprocess.CompletedProcess[bytes]:
    """``lbarn ARGS``, which must end with ``code``; never with a traceback."""
    done = cli_process.run([str(arg) for arg in args], stdin=stdin, timeout=DEADLINE, **options)
    assert done.returncode == code, done.stderr.decode()
    assert b"Traceback" not in done.stderr
    if args and code == 0:
        RUN_WELL.setdefault(str(args[0]), set()).update(map(str, args[1:]))
    return done


def refused(*args: object, **options: Any) -> str:
    """The one line that says why."""
    done = run(*args, code=2, **options)
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("lbarn: ")
    return lines[0]


def csv(X: Any, names: tuple[str, ...] | None = NAMES) -> bytes:
    """What anybody would write: as many digits as a number has, nothing if it is missing."""
    lines = [] if names is None else [",".join(names)]
    lines += [",".join("" if np.isnan(value) else f"{value}" for value in row) for row in np.asarray(X).tolist()]
    return "\n".join([*lines, ""]).encode()


def quick(**parameters: Any) -> LBARN:
    """What the options QUICK give."""
    return LBARN(**{"max_leaf_nodes": 4, "learning_rate": 0.3, "max_iter": 20, "random_state": 0, **parameters})


class Folder:
    """Tables, and models that the command line has fitted on them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.train, self.valid, self.test = rows(300, D), rows(100, D, seed=1), rows(60, D, seed=2)
        for name in ("train", "valid", "test"):
            self[f"{name}.csv"].write_bytes(csv(getattr(self, name)))
            self[f"plain-{name}.csv"].write_bytes(csv(getattr(self, name), None))
        self.weights = np.linspace(0.5, 1.5, 300)
        self["weights.csv"].write_bytes(csv(self.weights[:, None], None))
        self.model, self.plain = self["model.lbarn"], self["plain.lbarn"]

    def __getitem__(self, name: str) -> Path:
        return self.path / name


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    made = Folder(tmp_path_factory.mktemp("cli"))
    run("fit", made["train.csv"], "-o", made.model, *QUICK)
    run("fit", made["plain-train.csv"], "-o", made.plain, *QUICK, "--no-header")
    return made


@pytest.fixture(scope="module")
def model(folder: Folder) -> LBARN:
    opened = LBARN.load(folder.model)
    del opened.feature_names_in_  # to be given arrays without a warning
    return opened


# ---------------------------------------------------------------------- help


def test_help_imports_nothing_that_takes_long() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", EXECUTABLE, "--help"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "typer" in imported
    assert imported.isdisjoint({"numpy", "scipy", "sklearn", "joblib", "pandas", "narwhals", "rich"})


def test_every_command_helps_with_an_example() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    expected = [
        "fit",
        "score",
        "sample",
        "predict",
        "impute",
        "denoise",
        "anomalies",
        "compress",
        "decompress",
        "inspect",
        "report",
        "compare",
        "explore",
        "demo",
    ]
    assert list(commands) == expected
    overview = run("--help").stdout.decode()
    assert run().stdout.decode().strip() == overview.strip()
    for name, command in commands.items():
        assert f"\n  {name}  " in overview
        shown = run(name, "-h").stdout.decode()
        assert f"\n  lbarn {name}" in shown
        for parameter in command.params:
            for option in (option for option in parameter.opts if option[0] == "-"):
                assert (option in shown) != getattr(parameter, "hidden", False)
    assert run("--version").stdout.decode() == f"lbarn {lbarn.__version__}\n"


def test_fit_has_every_parameter_of_the_estimator_with_the_same_default() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {parameter.name: parameter for parameter in commands["fit"].params}
    for own in fields(NetworkParameters):
        if own.name in ("verbose", "warm_start", "columns"):
            assert own.name not in options
        elif own.name in ("n_jobs", "random_state"):
            assert options[own.name].default == {"n_jobs": -1, "random_state": 0}[own.name]
        else:
            assert options[own.name].default == own.default
            assert "``" not in str(options[own.name].help)


@pytest.mark.parametrize(("words", "expected"), [("lbarn deno", "denoise"), ("lbarn fit --check", "--checkpoint")])
def test_the_shell_completes_commands_and_options(words: str, expected: str) -> None:
    wanted = {"_LBARN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert run(env={**os.environ, **wanted}).stdout.decode().split() == [expected]
    script = run(
        "--show-completion", "bash", code=0, env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    assert b"_LBARN_COMPLETE" in script.stdout


# ---------------------------------------------------------------------- fit


def test_fit_gives_the_model_that_the_library_gives(folder: Folder) -> None:
    tables = ("--valid", folder["valid.csv"], "--weights", folder["weights.csv"])
    done = run("fit", folder["train.csv"], *tables, "-o", folder["weighted.lbarn"], *QUICK, "--header", "--json")
    expected = quick().fit(folder.train, X_val=folder.valid, sample_weight=folder.weights)
    fitted = LBARN.load(folder["weighted.lbarn"])
    assert_same_network(fitted, expected)
    assert tuple(fitted.feature_names_in_) == NAMES
    told = json.loads(done.stdout)
    assert (told["rows"], told["columns"], told["trees"]) == (300, D, int(expected.n_trees_.sum()))
    assert told["fingerprint"] == expected.network_.fingerprint().hex()


def test_fit_takes_every_parameter(folder: Folder) -> None:
    X = folder.train * 0.25 + 0.5
    np.savez(folder["grey.npz"], X=X, y=np.zeros(3))
    order = [*range(1, D), 0]
    expected = LBARN(
        max_leaf_nodes=3,
        learning_rate=0.5,
        max_iter=7,
        selection="common",
        pooling=30.0,
        order=order,
        init="linear",
        init_rate=0.3,
        boosting="gradient",
        splits="exact",
        split_bits=4,
        min_gain=0.01,
        l1_regularization=0.25,
        cap=False,
        sharpen=False,
        merge_rows=False,
        l2_regularization=0.5,
        max_features=0.8,
        refit=False,
        validation_fraction=0.3,
        binarize=0.6,
        groups=[0, 1],
        counts=True,
        image_shape=[2, 5],
        neighbours=False,
        repeats=False,
        random_state=3,
    ).fit(X)
    how = [
        "--max-leaf-nodes",
        3,
        "--learning-rate",
        0.5,
        "--max-iter",
        7,
        "--selection",
        "common",
        "--pooling",
        30,
        "--init",
        "linear",
        "--init-rate",
        0.3,
        "--boosting",
        "gradient",
    ]
    how += [
        "--order",
        ",".join(map(str, order)),
        "--splits",
        "exact",
        "--split-bits",
        4,
        "--min-gain",
        0.01,
        "--no-refit",
    ]
    how += [
        "--l1-regularization",
        0.25,
        "--no-cap",
        "--no-sharpen",
        "--no-merge-rows",
        "--l2-regularization",
        0.5,
        "--max-features",
        0.8,
        "--validation-fraction",
        0.3,
        "--groups",
        "0,1",
        "--counts",
        "yes",
        "--image-shape",
        "2,5",
        "--neighbours",
        "no",
        "--repeats",
        "no",
        "--binarize",
        0.6,
        "--random-state",
        3,
    ]
    run("fit", folder["grey.npz"], "--out", folder["grey.lbarn"], *how, "--trim", "--n-jobs", "1")
    fitted = LBARN.load(folder["grey.lbarn"])
    assert fitted.network_.fingerprint() == expected.network_.fingerprint()
    assert not hasattr(fitted, "valid_curve_")
    assert clone(fitted).set_params(n_jobs=None).get_params() == expected.get_params()


def test_fit_searches_and_stops_early_and_says_when_it_was_too_short(folder: Folder) -> None:
    sparse = folder["train.npz"]
    sp.save_npz(sparse, sp.csr_matrix(folder.train))
    found = ("--max-leaf-nodes", "auto", "--learning-rate", "auto", "--max-iter", "5", "--n-iter-no-change", "3")
    out = folder["auto.lbarn"]
    done = run("fit", sparse, "-o", out, *found, "--order", "entropy-decreasing", "--random-state", "0")
    assert b"10 columns" in done.stderr
    expected = LBARN(
        max_leaf_nodes="auto",
        learning_rate="auto",
        max_iter=5,
        n_iter_no_change=3,
        order="entropy-decreasing",
        random_state=0,
    )
    assert_same_network(LBARN.load(out), expected.fit(folder.train))
    run("fit", sparse, "-o", out, "--max-leaf-nodes", "auto-each", "--max-iter", "3", "--random-state", "0")
    assert_same_network(
        LBARN.load(out), LBARN(max_leaf_nodes="auto-each", max_iter=3, random_state=0).fit(folder.train)
    )
    endless = ("--max-iter", "1", "--n-iter-no-change", "none")
    short = run("fit", "-", "-o", out, *endless, stdin=csv(folder.train)).stderr
    assert b"lbarn: warning: the validation log-likelihood is still rising at --max-iter 1" in short


def test_fit_tunes_within_so_many_minutes(folder: Folder) -> None:
    out = folder["tuned.lbarn"]
    tables = (folder["train.csv"], "--valid", folder["valid.csv"], "--weights", folder["weights.csv"])
    how = ("--tune", "0.02", "--effort", "thorough", "--random-state", "0", "--binarize", "0.5")
    run("fit", *tables, *how, "-o", out)
    fitted = LBARN.load(out)
    assert fitted.trials_
    expected = LBARN(**fitted.get_params()).fit(folder.train, X_val=folder.valid, sample_weight=folder.weights)
    assert_same_network(fitted, expected)
    both = run("fit", *tables, *how, "--split-bits", "3", "-o", out, code=2)
    assert both.stderr == b"lbarn: --tune and --split-bits do not go together; leave one of them out\n"
    nothing = run("fit", *tables, "--tune", "0", "-o", out, code=2)
    assert nothing.stderr == b"lbarn: --tune: the minutes must be a number above 0, not 0\n"
    alone = run("fit", *tables, "--effort", "fast", "-o", out, code=2)
    assert alone.stderr == b"lbarn: --effort is for --tune MINUTES, which is missing\n"


def test_fit_without_a_seed_gives_the_same_model_every_time(folder: Folder) -> None:
    for name in ("first.lbarn", "second.lbarn"):
        run("fit", folder["train.csv"], "-o", folder[name], "--max-iter", "5")
    assert folder["first.lbarn"].read_bytes() == folder["second.lbarn"].read_bytes()


def test_columns_that_are_no_bits_are_dropped_numbered_or_ignored(folder: Folder) -> None:
    """A file as people have it: an index that pandas wrote, a name, a date, gaps."""
    lines = csv(folder.train, None).decode().splitlines()
    text = "\n".join(
        [",name,date," + ",".join(NAMES), *(f"{i},n{i},2020-01-01,{line}" for i, line in enumerate(lines))]
    )
    messy, out = folder["messy.csv"], folder["messy.lbarn"]
    messy.write_text(text)
    done = run("fit", messy, "-o", out, *QUICK, "--drop", "name", "--drop", "date")
    assert f"lbarn: note: {messy}: the first column, which numbers the rows, is left out\n" in done.stderr.decode()
    assert_same_network(LBARN.load(out), LBARN.load(folder.model))
    done = run("score", out, messy, "--mean")
    assert "columns 'name', 'date' are left out: the model does not know them" in done.stderr.decode()
    assert done.stdout == run("score", folder.model, folder["train.csv"], "--mean").stdout
    assert "has no column 'age' to drop" in refused("fit", folder["train.csv"], "-o", out, "--drop", "age")


def test_a_wrong_value_is_said_of_the_file_that_it_is_in(folder: Folder) -> None:
    wrong = folder.valid.copy()
    wrong[7, 3] = 5
    folder["wrong.csv"].write_bytes(csv(wrong))
    where = "column 3 ('item 3') holds 5 in row 7 (counted from 0, without the header)"
    folder["text.csv"].write_bytes(folder["wrong.csv"].read_bytes().replace(b",5,", b",five,"))
    line = refused("fit", folder["train.csv"], "--valid", folder["text.csv"], "-o", folder["x.lbarn"])
    assert line.startswith(f"lbarn: {folder['text.csv']}: {where.replace('5', repr('five'), 1)}")
    big = np.tile(folder.test, (500, 1))
    big[20_007, 3] = 5
    folder["wrong.csv"].write_bytes(csv(big))
    done = run("score", folder.model, folder["wrong.csv"], "-o", folder["x.csv"], code=2)
    assert where.replace("row 7", "row 20007") in done.stderr.decode()
    assert not folder["x.csv"].exists()
    folder["narrow.csv"].write_bytes(csv(folder.valid[:, 1:], NAMES[1:]))
    line = refused("fit", folder["train.csv"], "--valid", folder["narrow.csv"], "-o", folder["x.lbarn"])
    assert "narrow.csv: has no column 'item 0', which " in line


def test_a_killed_fit_continues_from_its_checkpoint(tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "train.npy", tmp_path / "checkpoint"
    np.save(data, linked_rows(4000, 60))
    options = ("--max-iter", "60", "--random-state", "0")
    command = [EXECUTABLE, "fit", data, "-o", tmp_path / "model.lbarn", *options, "--checkpoint", checkpoint]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(finished_dimensions(checkpoint)) >= 3, "three finished columns")
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "model.lbarn").exists()
    before = finished_dimensions(checkpoint)
    assert 3 <= len(before) < 60
    run(*command[1:])
    after = finished_dimensions(checkpoint)
    assert {name: after[name] for name in before} == before  # none was trained again
    run("fit", data, "-o", tmp_path / "at-once.lbarn", *options)
    assert (tmp_path / "model.lbarn").read_bytes() == (tmp_path / "at-once.lbarn").read_bytes()


def test_ctrl_c_is_one_line_and_130(tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "train.npy", tmp_path / "checkpoint"
    np.save(data, linked_rows(8000, 200))
    process = subprocess.Popen(
        [EXECUTABLE, "fit", data, "-o", tmp_path / "model.lbarn", "--checkpoint", checkpoint],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        wait_until(lambda: finished_dimensions(checkpoint), "a finished column")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert (process.returncode, said) == (130, b"lbarn: interrupted\n")
    assert not (tmp_path / "model.lbarn").exists()


ENDLESS = {
    "score": ("{model}", "-", "-o", "{folder}/long.csv"),
    "sample": ("{model}", "-n", str(2**60), "-o", "{folder}/long.csv"),
    "impute": ("{model}", "-", "-o", "{folder}/long.csv"),
    "denoise": ("{model}", "-", "--flip", "0.1", "-o", "{folder}/long.csv"),
    "anomalies": ("{model}", "-"),
    "compress": ("{model}", "-", "-o", "{folder}/long.lbz"),
}


def is_begun(process: subprocess.Popen[bytes]) -> bool:
    """Whether the command imports what it needs, or has done so; before that, Ctrl-C is Python's own affair."""
    return "numpy" in Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="what a process has loaded is found in /proc")
@pytest.mark.parametrize("command", ENDLESS)
def test_ctrl_c_at_any_moment_is_one_line_and_130(command: str, folder: Folder) -> None:
    rng = random.Random(command)
    words = [word.format(model=folder.model, folder=folder.path) for word in ENDLESS[command]]
    rows_without_end = ["sh", "-c", 'echo "$1"; exec yes "$2"', "sh", *csv(folder.test[:1]).decode().split("\n")[:2]]
    for n_signals in (1, 4):
        with (
            subprocess.Popen(rows_without_end, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as source,
            subprocess.Popen(
                [EXECUTABLE, command, *words],
                stdin=source.stdout,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            ) as process,
        ):
            try:
                wait_until(lambda: is_begun(process), "the command")
                with pytest.raises(subprocess.TimeoutExpired):  # it is at work
                    process.communicate(timeout=rng.uniform(0, 4))
                for _ in range(n_signals):
                    process.send_signal(signal.SIGINT)
                _, said = process.communicate(timeout=DEADLINE)
            finally:
                source.kill()
                process.kill()
        assert (process.returncode, said) == (130, b"lbarn: interrupted\n")
        assert not [path for path in folder.path.iterdir() if path.name.startswith(("long", "."))]


DROPPED = """
import lbarn.cli
import lbarn.cli.app

def run():
    print("at work", flush=True)
    while True:
        try:
            while True:
                pass
        except KeyboardInterrupt:
            pass

lbarn.cli.app.run = run
lbarn.cli.main()
"""


def test_ctrl_c_ends_a_program_whose_libraries_drop_the_exception() -> None:
    process = subprocess.Popen([sys.executable, "-c", DROPPED], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"at work\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
    assert (process.returncode, said) == (130, b"lbarn: interrupted\n")


def test_ctrl_c_ends_a_command_that_waits_for_its_input(folder: Folder) -> None:
    process = subprocess.Popen(
        [EXECUTABLE, "score", folder.model, "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE)
    assert (process.returncode, said) == (130, b"lbarn: interrupted\n")


# ---------------------------------------------------------------------- memory


def peak(*args: object) -> int:
    """The most memory that ``lbarn ARGS`` has had, in bytes."""
    process = subprocess.Popen(
        [EXECUTABLE, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a process is counted in kilobytes")
def test_memory_does_not_grow_with_the_file(folder: Folder) -> None:
    """20 MB of CSV, 900,000 rows; cells are missing in some of them."""
    gaps = folder.test.astype(object)
    gaps[::20, 4] = ""
    block = "\n".join(",".join(map(str, row)) for row in gaps.tolist()) + "\n"
    small, big, complete = folder["small.csv"], folder["big.csv"], folder["complete.csv"]
    small.write_bytes((",".join(NAMES) + "\n" + block).encode())
    big.write_bytes((",".join(NAMES) + "\n" + block * 15_000).encode())
    complete.write_bytes(csv(folder.test) + csv(folder.test, None) * 14_999)
    out = folder["out.csv"]
    most = peak("score", folder.model, small, "-o", out) + 40e6
    assert peak("score", folder.model, big, "-o", out) < most
    assert peak("sample", folder.model, "-n", 900_000, "-o", out) < most
    assert peak("anomalies", folder.model, complete) < most
    assert peak("compress", folder.model, complete, "-o", folder["out.lbz"]) < most
    few = ("--max-iter", "1", "--max-leaf-nodes", "2")
    assert peak("fit", complete, "-o", folder["fitted.lbarn"], *few) < most + 15 * complete.stat().st_size


# ---------------------------------------------------------------------- use


def test_score_prints_one_number_a_row_and_the_mean_beside(folder: Folder, model: LBARN) -> None:
    scores = model.score_samples(folder.test)
    done = run("score", folder.model, folder["test.csv"])
    np.testing.assert_array_equal(np.loadtxt(io.BytesIO(done.stdout)), scores)
    error = scores.std(ddof=1) / np.sqrt(60)
    line = f"mean {scores.mean():.4f} +- {error:.4f} nats, 60 rows\n"
    assert done.stderr.decode() == line
    shuffled = csv(folder.test[:, ::-1], NAMES[::-1])  # columns are found by their names
    done = run("score", folder.model, "-", "--mean", "--n-jobs", "1", stdin=shuffled)
    assert (done.stdout.decode(), done.stderr) == (line, b"")
    told = json.loads(run("score", folder.plain, folder["plain-test.csv"], "--json", "--no-header").stdout)
    assert told == {"rows": 60, "mean": scores.mean(), "standard_error": error, "log_likelihood": scores.tolist()}


def test_score_of_rows_with_missing_cells_is_that_of_the_others(folder: Folder, model: LBARN) -> None:
    X = folder.test.astype(float)
    X[::2, [1, 5]] = np.nan
    folder["holes.csv"].write_bytes(csv(X))
    out = folder["scores.npy"]
    done = run("score", folder.model, folder["holes.csv"], "--out", out, *PLAINLY)
    assert done.stderr.decode().splitlines()[1:] == [
        "lbarn: note: some rows have missing cells: their score is the log-likelihood of the others"
    ]
    scores = np.load(out)[:, 0]
    np.testing.assert_allclose(scores[::2], model.log_marginal(X[::2]))
    np.testing.assert_array_equal(scores[1::2], model.score_samples(folder.test[1::2]))


def test_samples_go_through_a_pipe(folder: Folder, model: LBARN) -> None:
    shell = '"$0" sample "$1" -n 50 --random-state 4 | "$0" score "$1" - --mean --json'
    done = subprocess.run(["sh", "-c", shell, EXECUTABLE, folder.model], capture_output=True, check=True)
    assert json.loads(done.stdout)["mean"] == model.score(model.sample(50, random_state=4))
    assert done.stderr == b""


def test_a_closed_pipe_is_quiet(folder: Folder) -> None:
    process = subprocess.Popen(
        [EXECUTABLE, "sample", folder.model, "--n-samples", "100000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141
    process.stderr.close()


def test_a_stream_is_appended_to_and_named_by_no_ending(folder: Folder) -> None:
    log = folder["log"]
    log.write_text("before\n")
    shell = '"$0" sample "$1" -n 2 --random-state 0 -o /dev/stdout >> "$2"'
    subprocess.run(["sh", "-c", shell, EXECUTABLE, folder.model, log], check=True)
    assert log.read_bytes().startswith(b"before\nitem 0,")
    assert log.read_bytes().count(b"\n") == 4


def test_samples_keep_what_is_given(folder: Folder) -> None:
    given = "\n".join([",".join(NAMES), "1,0" + "," * 8, "0,1,1" + "," * 7]) + "\n"
    out = folder["given.parquet"]
    pytest.importorskip("pyarrow")
    run(
        "sample",
        folder.model,
        "-n",
        "3",
        "--n-particles",
        "10",
        "--tolerance",
        "0.1",
        "--given-file",
        "-",
        "--given",
        "item 9=1",
        "-o",
        out,
        "--random-state",
        "0",
        *PLAINLY,
        stdin=given.encode(),
    )
    with open_table(str(out)) as file:
        values = np.column_stack(
            [column.to_numpy(zero_copy_only=False) for column in file.read().combine_chunks().columns]
        )
        assert file.names == NAMES
    assert values[:3, :2].tolist() == [[1, 0]] * 3
    assert values[3:, :3].tolist() == [[0, 1, 1]] * 3
    assert values[:, 9].tolist() == [1] * 6


def test_predictions_are_the_conditional_probabilities(folder: Folder, model: LBARN) -> None:
    out, options = (
        folder["predicted.csv"],
        ("--levels", "--quantiles", "0.5", "--n-particles", "10", "--tolerance", "0.1"),
    )
    run("predict", folder.model, folder["test.csv"], "--column", NAMES[4], "-o", out, *options, *PLAINLY)
    expected = model.conditional(folder.test, 4).probability
    np.testing.assert_array_equal(np.loadtxt(out, delimiter=",", skiprows=1), expected)
    assert out.read_text().startswith("item 4=0,item 4=1\n")


def test_an_ensemble_of_a_table_with_a_target_has_it_last(folder: Folder) -> None:
    options = ("--ensemble", "2", "--target", NAMES[3], "--column", f"{NAMES[2]}=categorical", "--max-iter", "3")
    run("fit", folder["train.csv"], "-o", folder["x.lbarn"], *options, "--max-cells", "8", "--missing", "unknown")
    fitted = lbarn.load(folder["x.lbarn"])
    assert [member.order_[-1] for member in fitted.members_] == [3, 3]
    assert fitted.columns_[2].kind == "categorical"
    assert (fitted.max_cells, fitted.missing) == (8, "unknown")


def test_impute_fills_what_is_missing_and_nothing_else(folder: Folder, model: LBARN) -> None:
    X = folder.test.astype(float)
    X[:, [2, 7]] = np.nan
    holes = csv(X)
    done = run("impute", folder.model, "-", "--random-state", "5", "--header", stdin=holes)
    assert done.stdout == csv(model.impute(X, random_state=5).astype(int))
    assert done.stderr == b"rows: 60 enumeration\n"
    out = folder["filled.npy"]
    options = ("--n-particles", "50", "--tolerance", "0.1", "--n-jobs", "1", "--out", out)
    run(
        "impute",
        folder.model,
        "-",
        "--output",
        "sample",
        "--n-draws",
        "2",
        "--random-state",
        "5",
        *options,
        stdin=holes,
    )
    draws = model.impute(X, n_draws=2, random_state=5)  # those of a row come one after the other
    np.testing.assert_array_equal(np.load(out), draws.swapaxes(0, 1).reshape(-1, D))


def test_denoise_does_what_the_library_does(folder: Folder, model: LBARN) -> None:
    options = ("--output", "probability", "--n-draws", "1", "--n-particles", "20", "--random-state", "0")
    options += ("--tolerance", "0.1")
    out = folder["denoised.csv"]
    done = run("denoise", folder.model, folder["test.csv"], "--flip", "0.1", *options, *PLAINLY, "-o", out)
    expected = model.denoise(folder.test, flip=0.1, output="probability", n_particles=20, random_state=0)
    np.testing.assert_array_equal(np.loadtxt(out, delimiter=",", skiprows=1), expected)
    assert b"60 enumeration" in done.stderr


def test_anomalies_are_the_least_likely_rows_with_their_bits(folder: Folder, model: LBARN) -> None:
    expected = explain(model, folder.test, n_rows=2, n_values=3)
    options = ("--n-rows", "2", "--n-values", "3", *PLAINLY)
    told = json.loads(run("anomalies", folder.model, folder["test.csv"], *options, "--json").stdout)
    assert [(one["row"], one["log_likelihood"]) for one in told] == [(one.row, one.log_likelihood) for one in expected]
    assert [bit["column"] for bit in told[0]["values"]] == [bit.column for bit in expected[0].values]
    text = run("anomalies", folder.plain, folder["plain-test.csv"], "-n", "1").stdout.decode().splitlines()
    assert text[0] == f"row {expected[0].row}  log-likelihood {expected[0].log_likelihood:.2f}"
    first = expected[0].values[0]
    assert text[1].startswith(f"    {NAMES.index(str(first.column))} = {first.value}  p = ")
    assert len(text) == 6
    former = run("anomalies", folder.model, folder["test.csv"], "-n", "2", "--n-bits", "3", *PLAINLY, "--json")
    assert json.loads(former.stdout) == told
    assert b"--n-bits is deprecated: use --n-values; it will be removed in version 0.4, not before" in former.stderr


def test_a_compressed_file_comes_back_byte_for_byte(folder: Folder) -> None:
    packed, back = folder["test.lbz"], folder["back.csv"]
    told = json.loads(run("compress", folder.model, folder["test.csv"], "-o", packed, "--json", *PLAINLY).stdout)
    assert told == {"rows": 60, "bytes": packed.stat().st_size, "bits_per_row": 8 * packed.stat().st_size / 60}
    run("decompress", folder.model, packed, "-o", back, "--max-rows", "1000")
    assert back.read_bytes() == folder["test.csv"].read_bytes()


def test_compression_goes_through_pipes_and_invents_no_header(folder: Folder) -> None:
    done = run("compress", folder.plain, "-", stdin=csv(folder.test, None))
    assert b"60 rows in " in done.stderr
    assert run("decompress", folder.plain, "-", "--n-jobs", "1", stdin=done.stdout).stdout == csv(folder.test, None)
    assert "name a file by -o" in refused("compress", folder.model, folder["test.csv"], "--json")


# ---------------------------------------------------------------------- inspect, report, demo


def test_inspect_tells_what_is_in_a_model(folder: Folder, model: LBARN) -> None:
    told = json.loads(run("inspect", folder.model, "--json").stdout)
    assert (told["kind"], told["columns"], told["names"]) == ("LBARN", D, list(NAMES))
    assert told["bytes"] == folder.model.stat().st_size
    assert told["trees"]["selected"] == int(model.n_trees_.sum())
    assert told["fingerprint"] == model.network_.fingerprint().hex()
    text = run("inspect", folder.model).stdout.decode()
    assert f"log-likelihood  untrained {-D * np.log(2):.4f}, train " in text
    assert "    max_leaf_nodes = 4\n" in text


def test_inspect_tells_how_a_column_follows_from_the_others(folder: Folder, model: LBARN) -> None:
    strongest = int(model.feature_importances_[5].argmax())
    text = run("inspect", folder.model, "--column", NAMES[5], "--n-predictors", "2", "--n-trees", "1").stdout.decode()
    assert text.startswith("column item 5: position 5 in the order, ")
    assert f"%  {NAMES[strongest]}\n" in text
    assert text.count("tree ") == 1
    told = json.loads(run("inspect", folder.plain, "--column", "5", "--json").stdout)
    assert told["predictors"][0]["column"] == strongest
    assert len(told["trees"]) == 3


def test_inspect_opens_a_classifier_and_other_commands_say_that_they_do_not(folder: Folder) -> None:
    network = LBARN(max_leaf_nodes=2, max_iter=5, random_state=0)
    classifier = LBARNClassifier(network).fit(folder.train, folder.train[:, 0])
    classifier.save(folder["classifier.lbarn"])
    text = run("inspect", folder["classifier.lbarn"]).stdout.decode()
    assert "kind            LBARNClassifier\n" in text
    assert "\nclass 1 (" in text
    assert "an LBARNClassifier" in refused("score", folder["classifier.lbarn"], folder["test.csv"])


def test_an_ensemble_scores_compresses_and_tells_of_its_members(folder: Folder) -> None:
    file, packed, back = folder["ensemble.lbarn"], folder["ensemble.lbz"], folder["ensemble.csv"]
    ensemble = LBARNEnsemble(n_orders=2, orders="random", max_leaf_nodes=2, max_iter=5, random_state=0).fit(
        folder.train
    )
    ensemble.save(file)
    assert "\nmember 1 (50.0%)\n" in run("inspect", file).stdout.decode()
    test = folder["test.csv"]
    rows = np.loadtxt(test, delimiter=",", skiprows=1)
    told = json.loads(run("score", file, test, "--mean", "--json", "--header").stdout)
    assert told["mean"] == pytest.approx(ensemble.score(rows))
    run("compress", file, test, "--header", "-o", packed)
    run("decompress", file, packed, "-o", back)
    np.testing.assert_array_equal(np.loadtxt(back, delimiter=","), rows)


def test_report_writes_a_page(folder: Folder) -> None:
    pytest.importorskip("matplotlib")
    page = folder["report.html"]
    options = ("--title", "Items in baskets", "--shape", "2x5", "--random-state", "1", "--n-jobs", "1", "--header")
    done = run("report", folder.model, "--data", folder["test.csv"], "-o", page, *options)
    assert done.stderr.decode().endswith("report.html written\n")
    assert "Items in baskets" in page.read_text()
    assert "28x28" in refused("report", folder.model, "--data", folder["test.csv"], "-o", page, "--shape", "big")


def test_known_data_sets_go_by_name(tmp_path: Path, shared_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LBARN_DATA", str(shared_folder))
    known = lbarn.datasets.load("dna")
    run("fit", "dataset:dna", "-o", tmp_path / "dna.lbarn", "--max-iter", "2", "--random-state", "0")
    fitted = LBARN.load(tmp_path / "dna.lbarn")
    assert_same_network(fitted, LBARN(max_iter=2, random_state=0).fit(known.train, X_val=known.valid))
    for name, part in (("dataset:dna", known.test), ("dataset:dna/valid", known.valid)):
        told = json.loads(run("score", tmp_path / "dna.lbarn", name, "--mean", "--json").stdout)
        assert told["mean"] == pytest.approx(fitted.score(part))


def test_demo_runs(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    run("demo", "--folder", tmp_path / "demo", "--max-iter", "3")
    assert (tmp_path / "demo" / "report.html").exists()


# ---------------------------------------------------------------------- what is wrong

NOISE = np.random.default_rng(0).bytes(3000)
BAD = {
    "missing.csv": (None, "no such file"),
    "empty.csv": (b"", "is empty"),
    "header-only.csv": (b"a,b\n", "no rows"),
    "noise.csv": (NOISE, "is not text"),
    "noise.npz": (NOISE, "damaged"),
    "noise.parquet": (NOISE, "cannot be read as Parquet"),
    "noise.libsvm": (b"\xff" + NOISE, "cannot be read as libsvm"),
    "ragged.csv": (b"0,1\n1\n", "row 1 (counted from 0, there is no header) has 1 cell, not 2"),
    "contradicting.csv": (b"a,b\n0,inf\n1,3\n", "column 1 ('b') holds inf"),
    "short.csv": (b"0,1\n", "give more rows, or --valid"),
    "utf-16.csv": ("a,b\n0,1\n".encode("utf-16"), "is UTF-16 text; save it as UTF-8"),
    "sheet.xlsx": (b"PK", "save the sheet as CSV"),
    "twice.csv": (b"a,a\n0,1\n", "two columns are called 'a'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_table_is_one_clear_line_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    content, why = BAD[name]
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = set(tmp_path.iterdir())
    line = refused("fit", tmp_path / name, "-o", tmp_path / "model.lbarn")
    assert f"{name}: " in line
    assert why in line
    assert len(line) < 400
    assert set(tmp_path.iterdir()) == before


def test_a_folder_is_neither_a_table_nor_a_model_nor_a_result(folder: Folder) -> None:
    assert "is a folder" in refused("fit", folder.path, "-o", folder["x.lbarn"])
    assert "is a folder" in refused("sample", folder.model, "-o", folder.path)
    assert "is a folder" in refused("score", folder.path, folder["test.csv"])
    assert "no such file" in refused("anomalies", folder["none.lbarn"], folder["test.csv"])
    assert "is not a folder" in refused("sample", folder.model, "-o", folder["nowhere/x.csv"])


def test_what_is_not_a_model_and_what_does_not_fit_the_model_is_told(folder: Folder) -> None:
    assert "not a model file" in refused("inspect", folder["test.csv"])
    other = csv(folder.test, (*NAMES[:-1], "price"))
    line = refused("score", folder.model, "-", stdin=other)
    assert (
        "standard input: has no column 'item 9', which the model has; it has 'price', which the model does not" in line
    )
    holes = b"0,1,0,1,0,1,0,1,0,\n"
    assert "row 0 (counted from 0, there is no header) has missing cells" in refused(
        "compress", folder.plain, "-", "-o", folder["x.lbz"], stdin=holes
    )
    assert "not data that lbarn has compressed" in refused("decompress", folder.model, folder["test.csv"])
    assert not folder["x.lbz"].exists()


@pytest.mark.parametrize("name", ["x.csv", "x.CSV.gz", "x.parquet", "x.xlsx"])
def test_a_result_that_is_no_table_is_not_called_like_one(folder: Folder, name: str) -> None:
    why = "the result is not a table; name it like "
    assert why + "model.lbarn" in refused("fit", folder["train.csv"], "-o", folder[name])
    assert why + "report.html" in refused("report", folder.model, "--data", folder["train.csv"], "-o", folder[name])
    assert why + "data.lbz" in refused("compress", folder.model, folder["train.csv"], "-o", folder[name])
    assert not folder[name].exists()


def test_a_result_never_replaces_what_is_read(folder: Folder) -> None:
    data, link = folder["train.csv"], folder["link.csv"]
    link.symlink_to(data)
    before = data.read_bytes(), folder.model.read_bytes()
    why = "the result would replace what is read"
    assert why in refused("fit", data, "-o", data)
    assert why in refused("fit", data, "-o", link)
    assert why in refused("sample", folder.model, "-o", folder.model)
    assert why in refused("score", folder.model, data, "-o", link)
    with open(data, "rb") as stream:
        done = subprocess.run([EXECUTABLE, "score", folder.model, "-", "-o", data], stdin=stream, capture_output=True)
    assert why in done.stderr.decode()
    assert (data.read_bytes(), folder.model.read_bytes()) == before
    folder["loop"].symlink_to(folder["loop"])
    assert "Too many levels of symbolic links" in refused("fit", data, "-o", folder["loop"])


def test_swapped_arguments_and_formats_that_are_none_are_told(folder: Folder) -> None:
    assert "the model comes first" in refused("score", folder["test.csv"], folder.model)
    assert "comes before the data" in refused("fit", folder.model, "-o", folder["x.lbarn"])
    assert "name it by its format: CSV" in refused("sample", folder.model, "-o", folder["x.xlsx"])
    folder["huge.svm"].write_text(f"0 {10**30}:1\n")
    assert "cannot be read as libsvm" in refused("score", folder.model, folder["huge.svm"])


def test_names_never_steer_the_terminal(folder: Folder) -> None:
    names = ("\x1b[2J", "a\x9bb", *NAMES[2:])
    data, out = folder["odd.parquet"], folder["odd.lbarn"]
    parquet.write_table(pyarrow.table({name: folder.train[:, j] for j, name in enumerate(names)}), data)
    run("fit", data, "-o", out, *QUICK)
    for args in (("inspect", out), ("inspect", out, "--json"), ("anomalies", out, data, "-n", "300")):
        shown = run(*args).stdout.decode()
        assert "\x1b" not in shown
        assert "\x9b" not in shown
    assert tuple(json.loads(run("inspect", out, "--json").stdout)["names"]) == names
    assert "'\\\\x1b[31m'" in repr(refused("fit", data, "-o", folder["x.lbarn"], "--drop", "\x1b[31m"))


def test_wrong_options_are_one_line_too(folder: Folder) -> None:
    data, out = folder["train.csv"], folder["options.lbarn"]
    assert "No such command 'fut'" in refused("fut")
    assert "Missing option" in refused("fit", data)
    assert "'--max-iter'" in refused("fit", data, "-o", out, "--max-iter", "many")
    absent = folder["absent.csv"]  # options are looked at before the data
    for option, value, why in (
        ("--max-iter", "0", "0 is not a whole number of at least 1 and at most 2,147,483,647"),
        ("--max-iter", str(2**70), "is not a whole number of at least 1 and at most 2,147,483,647"),
        ("--learning-rate", "fast", "'fast' is not a number"),
        ("--learning-rate", "nan", "nan is not a number above 0 and at most 1"),
        ("--validation-fraction", "1", "1 is not a number above 0 and below 1"),
        ("--max-leaf-nodes", "many", "'many' is not a whole number"),
        ("--random-state", "-1", "-1 is not a whole number of at least 0"),
        ("--order", "1,x", "'x' is not a whole number"),
        ("--order", "backwards", "'backwards' is not one of given, random"),
        ("--init", "full", "'full' is not one of"),
        ("--image-shape", "small", "'small' is not numbers separated by commas"),
    ):
        line = refused("fit", absent, "-o", out, option, value)
        assert f"Invalid value for '{option}': " in line
        assert why in line
    assert "'--n-samples': 0 is not a whole number" in refused("sample", folder.model, "-n", "0").replace("'-n' / ", "")
    assert "--flip" in refused("denoise", folder.model, data, "--flip", "0.5")
    assert "--n-draws" in refused("impute", folder.model, data, "--n-draws", "2", "--output", "mode")
    assert not out.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_without_permission_nothing_is_read_or_written(folder: Folder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_bytes(csv(folder.train))
    secret.chmod(0)
    assert "Permission denied" in refused("fit", secret, "-o", tmp_path / "x.lbarn")
    tmp_path.chmod(0o500)
    assert "Permission denied" in refused("sample", folder.model, "-o", tmp_path / "x.csv")
    tmp_path.chmod(0o700)


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def test_a_full_disk_is_told_and_leaves_nothing(folder: Folder, tmp_path: Path) -> None:
    line = refused("fit", folder["train.csv"], *QUICK, "-o", tmp_path / "x", preexec_fn=limit_file_size)
    assert "x: cannot be written (File too large)" in line
    assert list(tmp_path.iterdir()) == []
    if os.path.exists("/dev/full"):
        line = refused("sample", folder.model, "-n", "9", "-o", "/dev/full")
        assert line == "lbarn: /dev/full: cannot be written (No space left on device)"
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [EXECUTABLE, "sample", folder.model], stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 2
        assert done.stderr == b"lbarn: standard output: cannot be written (No space left on device)\n"


# ---------------------------------------------------------------------- progress


@pytest.fixture
def terminal_window() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)


def test_a_fit_shows_its_progress_in_a_terminal(folder: Folder, terminal_window: tuple[int, int]) -> None:
    ours, theirs = terminal_window
    subprocess.run([EXECUTABLE, "fit", folder["train.csv"], "-o", folder["x.lbarn"], *QUICK], stderr=theirs, check=True)
    os.close(theirs)
    seen = os.read(ours, 100_000)
    assert b"dimensions" in seen
    assert b"10/10" in seen


def test_the_explorer_answers_until_ctrl_c(folder: Folder) -> None:
    options = ("--no-browser", "--port", "0", "--random-state", "0", "--n-jobs", "1")
    process = subprocess.Popen(
        [EXECUTABLE, "explore", folder.model, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    url = process.stdout.readline().decode().strip()
    with urllib.request.urlopen(f"{url}api/model", timeout=DEADLINE) as reply:
        assert [column["name"] for column in json.load(reply)["columns"]] == list(NAMES)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130
    assert said.decode().splitlines()[-1] == "lbarn: interrupted"
    assert b"Traceback" not in said
    RUN_WELL.setdefault("explore", set()).update(options)


def test_a_port_that_is_taken_is_named(folder: Folder) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} cannot be used" in refused("explore", folder.model, "--port", port)


# ---------------------------------------------------------------------- last, what all tests above have run


# ---------------------------------------------------------------------- compare


PEOPLE = ("age", "<b>job</b>", "born", "member", "income")


def people(n: int, seed: int) -> list[str]:
    """Rows of numbers, categories, dates, booleans and empty cells."""
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        age = rng.randint(18, 80)
        job = rng.choice(["clerk", "baker; cook", ""]) if age < 50 else "retired"
        born = f"{2024 - age}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
        lines.append(f"{age},{job},{born},{rng.random() < age / 100},{1000 * age + rng.gauss(0, 9000):.2f}")
    return lines


@pytest.fixture(scope="module")
def tables(folder: Folder) -> dict[str, Path]:
    made = {}
    for seed, name in enumerate(("real", "made", "fresh")):
        made[name] = folder[f"people-{name}.csv"]
        made[name].write_text("\n".join([",".join(PEOPLE), *people(300, seed), ""]), encoding="utf-8")
    return made


def test_compare_prints_a_table_with_the_figures_of_the_library(tables: dict[str, Path]) -> None:
    real, made, fresh = tables.values()
    text = run("compare", real, made, "--header").stdout.decode()
    assert text.startswith("300 synthetic rows and 300 real rows of 5 columns\n")
    assert "R2 for income" in text
    held_out = run("compare", real, made, "--holdout", fresh, "--target", "<b>job</b>", "--random-state", "3", "--json")
    content = json.loads(held_out.stdout)
    frames = [pd.read_csv(path) for path in (fresh, made, real)]
    expected = lbarn.fidelity(frames[0], frames[1], train=frames[2], target="<b>job</b>", random_state=3)
    assert content == json.loads(json.dumps(expected.to_dict()))
    assert [column["kind"] for column in content["columns"]] == ["number", "category", "datetime", "boolean", "number"]
    assert content["measure"] == "AUC"


def test_report_on_any_table(tables: dict[str, Path], folder: Folder) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    model, page = folder["people.lbarn"], folder["people.html"]
    run("fit", tables["real"], "-o", model, *QUICK)
    done = run("report", model, "--data", tables["fresh"], "-o", page, "--title", "<i>People</i>")
    assert done.stderr.decode().endswith("people.html written\n")
    text = page.read_text(encoding="utf-8")
    assert "<title>&lt;i&gt;People&lt;/i&gt;</title>" in text
    assert "&lt;b&gt;job&lt;/b&gt;" in text
    assert "What are the columns?" in text
    assert "image_shape" in refused("report", model, "--data", tables["fresh"], "-o", page, "--shape", "1x5")


def test_compare_writes_a_page(tables: dict[str, Path], folder: Folder) -> None:
    pytest.importorskip("jinja2")
    page = folder["comparison.html"]
    done = run(
        "compare",
        tables["real"],
        tables["made"],
        "-o",
        page,
        "--title",
        "<i>People</i>",
        "--classifier",
        "scikit-learn",
    )
    assert done.stdout == b""
    assert done.stderr.decode() == f"{page} written\n"
    text = page.read_text(encoding="utf-8")
    assert "<title>&lt;i&gt;People&lt;/i&gt;</title>" in text
    assert "&lt;b&gt;job&lt;/b&gt;" in text
    assert "<b>" not in text
    both = run("compare", tables["real"], tables["made"], "-o", page, "--json").stdout
    assert json.loads(both)["n_real"] == 300


def test_compare_knows_the_likelihoods_of_a_model(folder: Folder, model: LBARN) -> None:
    train, valid, test = (folder[f"{name}.csv"] for name in ("train", "valid", "test"))
    done = run("compare", train, valid, "--holdout", test, "--model", folder.model, "--n-jobs", "1", "--json")
    gap = model.score(folder.train) - model.score(folder.test)
    assert json.loads(done.stdout)["likelihood_gap"] == pytest.approx(gap)
    assert "--holdout" in refused("compare", train, valid, "--model", folder.model)


def test_compare_reads_any_file(tables: dict[str, Path], folder: Folder) -> None:
    real, made, _ = tables.values()
    expected = run("compare", real, made, "--json").stdout
    frame = pd.read_csv(made)
    frame.to_parquet(folder["made.parquet"])
    assert run("compare", real, folder["made.parquet"], "--json").stdout == expected
    assert run("compare", real, "-", "--json", stdin=made.read_bytes()).stdout == expected
    frame.to_csv(folder["european.csv"], sep=";", decimal=",", index=False)
    assert run("compare", real, folder["european.csv"], "--json").stdout == expected
    np.save(folder["numbers.npy"], np.random.default_rng(0).normal(size=(50, 3)))
    assert json.loads(run("compare", folder["numbers.npy"], folder["numbers.npy"], "--json").stdout)["shape"] == 1


def test_compare_refuses_what_it_cannot_compare(tables: dict[str, Path], folder: Folder) -> None:
    real, made, _ = tables.values()
    lines = made.read_text(encoding="utf-8").splitlines()

    def other(name: str, *rows: str) -> Path:
        folder[name].write_text("\n".join([*rows, ""]), encoding="utf-8")
        return folder[name]

    renamed = other("renamed.csv", lines[0].replace("age", "years"), *lines[1:])
    assert refused("compare", real, renamed) == (
        f"lbarn: {renamed} has no column 'age', which {real} has, and has 'years', which {real} does not have"
    )
    few = other("few.csv", *lines[:6])
    assert refused("compare", real, few) == f"lbarn: {few} has 5 rows; at least 10 are needed to compare"
    empty = other("hollow.csv", lines[0], *(f",{line.partition(',')[2]}" for line in lines[1:]))
    assert refused("compare", real, empty).startswith(f"lbarn: {empty}: column 'age' is empty in every row")
    assert refused("compare", empty, made).startswith(f"lbarn: {empty}: column 'age' is empty in every row")
    words = other("words.csv", *lines[:20], f"old,{lines[20].partition(',')[2]}")
    assert refused("compare", real, words) == f"lbarn: {words}: column 'age' holds 'old', but numbers in {real}"
    assert "there is no column 'salary' to be the target" in refused("compare", real, made, "--target", "salary")
    assert "no such file" in refused("compare", real, folder["nowhere.csv"])
    assert "would replace what is read" in refused("compare", real, made, "-o", made)
    assert "only one of the tables" in refused("compare", "-", "-")
    assert "is not one of" in refused("compare", real, made, "--classifier", "guess")
    assert "\x1b" not in refused("compare", real, other("escape.csv", "\x1b[2Jage,b", "1,2"))


def test_every_option_of_every_command_has_been_run() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    if not commands.keys() <= RUN_WELL.keys():
        pytest.skip("only some of the tests of this file were run")
    left = [
        f"{name} {parameter.opts[0]}"
        for name, command in commands.items()
        for parameter in command.params
        if parameter.opts[0][0] == "-" and RUN_WELL[name].isdisjoint([*parameter.opts, *parameter.secondary_opts])
    ]
    assert left == []
