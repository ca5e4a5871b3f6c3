"""The core compiled by other compilers, for other machines too, computes the same bits as the extension that the other tests use."""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from lbarn import _core
from lbarn._engine.bits import pack
from lbarn._engine.conditional import Boosting, Conditional

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "core"
# Those of CMakeLists.txt; linked statically, programs need no libraries of the other machine.
FLAGS = "-std=c++17 -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror"
POSITION, RUN, SEED = 140, 15, 12345
PROBLEMS = {
    "exact": Boosting(splits="exact", max_leaf_nodes=16, max_iter=20),
    "fast": Boosting(max_leaf_nodes=16, max_iter=40),
    "fewer bits": Boosting(split_bits=3, max_leaf_nodes=8, max_iter=40),
    "gradient": Boosting(boosting="gradient", max_leaf_nodes=16, max_iter=20),
    "capped": Boosting(cap=True, max_leaf_nodes=64, learning_rate=0.5, max_iter=30),
    "many leaves": Boosting(max_leaf_nodes=600, max_iter=2),
}


MINGW = "x86_64-w64-mingw32-g++-posix"


@dataclass(frozen=True)
class Build:
    """A compiler with what it is told, what links for it and runs its programs, and the paths that they have."""

    compiler: str
    linker: str
    runner: str
    paths: tuple[str, ...]


BUILDS = {
    "without extensions": Build("c++ -O1 -DLBARN_PLAIN -pedantic-errors", "c++", "", ("portable",)),
    "clang": Build("clang++ -O2", "clang++", "", ("avx512", "avx2", "portable")),
    "aarch64": Build("aarch64-linux-gnu-g++ -O3", "aarch64-linux-gnu-g++", "qemu-aarch64", ("neon", "portable")),
    "windows": Build(f"{MINGW} -O1", MINGW, "wine", ("portable",)),
    "windows, clang": Build("clang++ --target=x86_64-w64-mingw32 -O1", MINGW, "wine", ("avx512", "avx2", "portable")),
}
CASES = [(build, path) for build, own in BUILDS.items() for path in own.paths]


def command(line: str) -> list[str]:
    """Of a program that is there; otherwise the test is skipped."""
    words = shlex.split(line)
    if words and shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not installed")
    return words


def built(own: Build, folder: Path) -> list[str]:
    """The command that runs the core's program."""
    compiler, linker, runner = command(own.compiler), command(own.linker), command(own.runner)
    environment = dict(os.environ)
    if "--target" in own.compiler:  # clang does not find the headers that Debian puts aside
        find = subprocess.run([*linker, "-print-file-name=include/c++"], capture_output=True, text=True, check=True)
        headers = find.stdout.strip()
        environment["CPLUS_INCLUDE_PATH"] = f"{headers}:{headers}/x86_64-w64-mingw32"
    sources = [ROOT / "tests" / "core_driver.cpp", *(s for s in CORE.glob("*.cpp") if s.name != "bindings.cpp")]
    flags = [*FLAGS.split(), f"-I{CORE}", "-c", *map(str, sources)]
    subprocess.run([*compiler, *flags], check=True, cwd=folder, env=environment)
    program = str(folder / "core_driver.exe")
    subprocess.run([*linker, "-static", *map(str, folder.glob("*.o")), "-o", program], check=True)
    return [*runner, program]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    return functools.cache(lambda name: built(BUILDS[name], tmp_path_factory.mktemp("build")))


def rows(n: int, seed: int) -> np.ndarray:
    """Runs of thresholds, then single bits; one of these is the target."""
    rng = np.random.default_rng(seed)
    cells = rng.binomial(RUN, rng.random((n, 1)), (n, POSITION // RUN))
    X = np.zeros((n, POSITION + 3), np.uint8)
    X[:, : POSITION // RUN * RUN] = (cells[:, :, None] > np.arange(RUN)).reshape(n, -1)
    X[:, POSITION // RUN * RUN :] = rng.random((n, X.shape[1] - POSITION // RUN * RUN)) < 0.3
    X[:, POSITION] = (X[:, 3] & X[:, 130]) ^ (rng.random(n) < 0.15)
    return X


@pytest.mark.parametrize(("build", "path"), CASES, ids=[f"{build}: {path}" for build, path in CASES])
def test_every_compiler_computes_the_same_bits(driver, build, path):
    if path.startswith("avx") and path not in _core.simd_paths():
        pytest.skip(f"this machine has no {path}")
    train, valid = rows(2309, 0), rows(517, 1)
    asked, expected = b"", []
    for name, how in PROBLEMS.items():
        ours = Conditional.train(pack(train), pack(valid), POSITION, how, seed=SEED)
        assert len(ours.trees.splits) > 0
        trees = ours.trees
        parts = [trees.splits, trees.gains, trees.values, trees.offsets, ours.train_curve, ours.valid_curve]
        for run in (0, RUN):  # as bits, and as cells
            head = [len(train), len(valid), POSITION + 3, POSITION, how.max_leaf_nodes, round(1000 * how.learning_rate)]
            head += [
                how.max_iter,
                how.splits == "exact",
                how.split_bits,
                how.boosting == "gradient",
                how.cap,
                run,
                SEED,
            ]
            asked += np.array(head, "<i8").tobytes() + train.tobytes() + valid.tobytes()
            expected.append((name, run, b"".join(a.tobytes() for a in parts)))
    environment = {**os.environ, "LBARN_SIMD": path, "WINEDEBUG": "-all"}
    done = subprocess.run(driver(build), input=asked, env=environment, capture_output=True, check=True)
    assert done.stderr.decode().endswith(path)  # wine may have something to say first
    assert len(done.stdout) == sum(len(result) for _, _, result in expected)
    start = 0
    for name, run, result in expected:
        assert done.stdout[start : start + len(result)] == result, f"{name}, {'cells' if run else 'bits'}"
        start += len(result)
