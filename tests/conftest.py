"""What several test files share: SIMD paths, the benchmark data, and deterministic Hypothesis."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from browser import CHROMIUM, Browser
from lbarn import _core
from lbarn._engine.bits import PackedBits, pack

# The `simd` fixture only chooses a path, which no example changes, so sharing it between examples is sound.
settings.register_profile(
    "lbarn", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("lbarn")

# A shell has its background jobs ignore Ctrl-C, and so would the programs that are started, and interrupted, here.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]


@contextmanager
def chosen_path(name: str) -> Iterator[None]:
    before = _core.simd_path()
    _core.choose_simd_path(name)
    try:
        yield
    finally:
        _core.choose_simd_path(before)


@pytest.fixture(params=_core.simd_paths())
def simd(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test once on every SIMD path of this machine."""
    with chosen_path(request.param):
        yield request.param


@pytest.fixture
def on_portable() -> Callable[[Callable[[], Any]], Any]:
    """Runs a task on the portable path, whatever the test runs on."""

    def run(task: Callable[[], Any]) -> Any:
        with chosen_path("portable"):
            return task()

    return run


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Figures that a test has drawn are not kept."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def run_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., str]:
    """Runs a script of benchmarks/ as the command line does, but in this process, which has everything imported already;
    what it printed."""

    def run(script: str, *arguments: Any) -> str:
        path = ROOT / "benchmarks" / script
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [str(path), *map(str, arguments)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                runpy.run_path(str(path), run_name="__main__")
            except SystemExit as end:
                if end.code:
                    raise
        return capsys.readouterr().out

    return run


class Dataset(NamedTuple):
    train: PackedBits
    valid: PackedBits
    test: PackedBits


@pytest.fixture
def shared_folder() -> Path:
    """The folder LBARN_DATA, or ../shared/data; skips where it is absent."""
    folder = Path(os.environ.get("LBARN_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"the benchmark data {folder} is absent (set LBARN_DATA to the folder that holds it)")
    return folder


@pytest.fixture
def shared_data(shared_folder: Path) -> Callable[[str], Dataset]:
    """Loads a benchmark by name; skips where it is absent."""

    def load(name: str) -> Dataset:
        path = shared_folder / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"benchmark data {path} is absent (set LBARN_DATA to the folder that holds it)")
        with np.load(path) as z:
            d = int(z["dim"])
            return Dataset(*(pack(np.unpackbits(z[part], axis=1, count=d)) for part in Dataset._fields))

    return load


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium to open pages in")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
