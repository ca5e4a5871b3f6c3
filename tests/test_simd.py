"""The SIMD path is visible, and can be forced."""

import os
import subprocess
import sys

import pytest

import lbarn
from lbarn import _core

SHOW = "import lbarn; print(lbarn.simd_path())"


def run_with(path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "LBARN_SIMD": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_portable_path_is_everywhere_and_the_fastest_is_first():
    paths = _core.simd_paths()
    assert paths[-1] == "portable"
    assert set(paths) <= {"avx512", "avx2", "neon", "portable"}


def test_the_chosen_path_is_shown(simd):
    assert lbarn.simd_path() == simd


def test_the_environment_forces_a_path():
    done = run_with("portable")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "portable"


def test_without_a_name_in_the_environment_the_fastest_path_is_taken():
    assert run_with("").stdout.strip() == _core.simd_paths()[0]


def test_a_wrong_name_in_the_environment_is_an_error_that_names_the_choices():
    done = run_with("sse9")
    assert done.returncode != 0
    assert "ValueError" in done.stderr
    assert "'sse9'" in done.stderr
    assert all(path in done.stderr for path in _core.simd_paths())


def test_choosing_a_wrong_name_is_an_error_and_changes_nothing():
    before = _core.simd_path()
    with pytest.raises(ValueError, match=r"'sse9' is not available.*portable"):
        _core.choose_simd_path("sse9")
    assert _core.simd_path() == before
