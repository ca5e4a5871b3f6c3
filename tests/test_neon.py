"""The core compiled for aarch64 and run by qemu computes the same bits as the extension that the other tests use."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lbarn._engine.bits import pack
from lbarn._engine.conditional import Boosting, Conditional

ROOT = Path(__file__).resolve().parents[1]
# Those of CMakeLists.txt, and no libraries of the other machine needed.
FLAGS = ["-static", "-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
POSITION, SEED = 140, 12345
PROBLEMS = {
    "exact": Boosting(splits="exact", max_leaf_nodes=16, max_iter=20),
    "fast": Boosting(max_leaf_nodes=16, max_iter=40),
    "fewer bits": Boosting(split_bits=3, max_leaf_nodes=8, max_iter=40),
    "gradient": Boosting(boosting="gradient", max_leaf_nodes=16, max_iter=20),
    "capped": Boosting(cap=True, max_leaf_nodes=64, learning_rate=0.5, max_iter=30),
    "many leaves": Boosting(max_leaf_nodes=600, max_iter=2),
}


def tool(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"{' or '.join(names)} is not installed")
    return found


@pytest.fixture(scope="module")
def emulator() -> str:
    return tool("qemu-aarch64-static", "qemu-aarch64")


@pytest.fixture(scope="module")
def driver(emulator: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = tool("aarch64-linux-gnu-g++")
    core = ROOT / "src" / "core"
    sources = [ROOT / "tests" / "core_driver.cpp", *(s for s in core.glob("*.cpp") if s.name != "bindings.cpp")]
    program = tmp_path_factory.mktemp("neon") / "core_driver"
    subprocess.run([compiler, *FLAGS, f"-I{core}", *map(str, sources), "-o", str(program)], check=True)
    return program


def rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = (rng.random((n, POSITION + 3)) < rng.uniform(0.1, 0.9, POSITION + 3)).astype(np.uint8)
    X[:, POSITION] = (X[:, 3] & X[:, 130]) ^ (rng.random(n) < 0.15)
    return X


@pytest.mark.parametrize("path", ["neon", "portable"])
@pytest.mark.parametrize("how", PROBLEMS.values(), ids=PROBLEMS)
def test_aarch64_computes_the_same_bits(emulator, driver, path, how):
    train, valid = rows(2309, 0), rows(517, 1)
    head = [len(train), len(valid), POSITION + 3, POSITION, how.max_leaf_nodes, round(1000 * how.learning_rate)]
    head += [how.max_iter, how.splits == "exact", how.split_bits, how.boosting == "gradient", how.cap, SEED]
    done = subprocess.run(
        [emulator, str(driver)],
        input=np.array(head, "<i8").tobytes() + train.tobytes() + valid.tobytes(),
        env={**os.environ, "LBARN_SIMD": path},
        capture_output=True,
        check=True,
    )
    assert done.stderr.decode() == path
    ours = Conditional.train(pack(train), pack(valid), POSITION, how, seed=SEED)
    assert len(ours.trees.splits) > 0
    trees = ours.trees
    parts = [trees.splits, trees.gains, trees.values, trees.offsets, ours.train_curve, ours.valid_curve]
    assert done.stdout == b"".join(a.tobytes() for a in parts)
