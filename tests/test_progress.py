"""``verbose`` shows a bar on standard error; without it nothing is written; scikit-learn's callbacks see every dimension."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest

from fit_process import DEADLINE, linked_rows, start, wait_until
from lbarn import LBARN
from lbarn._training.progress import bar

SHAPE = (400, 12)
PARAMETERS: dict[str, Any] = {"max_leaf_nodes": 4, "learning_rate": 0.3, "max_iter": 20, "random_state": 0}


def written(verbose: int, **parameters: Any) -> tuple[str, str]:
    """Standard output and standard error of a fit, neither a terminal."""
    process = start(
        SHAPE, PARAMETERS | parameters | {"verbose": verbose}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    return output, errors


def on_a_terminal(verbose: int) -> str:
    """What a fit draws on a terminal of 100 columns, escape sequences removed."""
    terminal, end = pty.openpty()
    environment = {"TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    process = start(
        SHAPE, PARAMETERS | {"verbose": verbose}, stdout=subprocess.DEVNULL, stderr=end, environment=environment
    )
    os.close(end)
    drawn = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        drawn += part
    os.close(terminal)
    assert process.wait(DEADLINE) == 0
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", drawn.decode())


def test_verbose_draws_count_rate_and_time_left_on_a_terminal() -> None:
    drawn = on_a_terminal(verbose=1)
    assert re.search(r"\b0/12\b.*-:--:--", drawn), "it begins at 0, time left unknown"
    assert re.search(r"\b12/12\b.*\d\.\d/s.*\d:\d\d:\d\d", drawn)


def test_verbose_writes_to_standard_error_and_not_to_standard_output() -> None:
    output, errors = written(verbose=1)
    assert output == ""
    assert "12/12" in errors


def test_verbose_counts_on_where_the_number_of_fits_is_not_known() -> None:
    _, errors = written(verbose=1, max_leaf_nodes="auto")
    assert re.search(r"\b84/\?", errors)  # seven numbers of leaves for 12 columns


def test_without_verbose_nothing_is_written() -> None:
    assert written(verbose=0) == ("", "")


class Recorder:
    """A callback of scikit-learn that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.told.append("setup")

    def teardown(self, estimator: Any, context: Any) -> None:
        self.told.append("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator: Any, context: Any, **kwargs: Any) -> None:
        self.told.append(f"end {context.task_name}")


@pytest.mark.skipif(not hasattr(LBARN, "set_callbacks"), reason="this scikit-learn has no callbacks")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_callbacks_of_scikit_learn_see_every_dimension(n_jobs: int) -> None:
    recorder = Recorder()
    LBARN(**PARAMETERS, n_jobs=n_jobs).set_callbacks(recorder).fit(linked_rows(*SHAPE))
    assert recorder.told == ["setup", "begin fit", *["begin dimension", "end dimension"] * 12, "end fit", "teardown"]


@pytest.mark.skipif(not hasattr(LBARN, "set_callbacks"), reason="this scikit-learn has no callbacks")
def test_callbacks_are_told_of_the_end_of_a_fit_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr("lbarn._training.run._train", fail)
    recorder = Recorder()
    with pytest.raises(OSError, match="no"):
        LBARN(**PARAMETERS).set_callbacks(recorder).fit(linked_rows(*SHAPE))
    assert recorder.told == ["setup", "begin fit", "end fit", "teardown"]


def test_a_bar_for_what_takes_long_appears_late_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    window = io.StringIO()
    monkeypatch.setattr(window, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", window)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with bar("thinking", 10_000, patience=0.0) as done:
        done(5000)
        wait_until(lambda: "5,000/10,000" in window.getvalue(), "a bar")
    before = window.getvalue()
    with bar("thinking", patience=3600.0) as done:
        done(5)
    with bar("thinking", shown=False) as done:
        done(5)
    assert "thinking" not in window.getvalue()[len(before) :]
