"""The one progress bar, for fits and for the command line; and scikit-learn's fit callbacks if the installed version has them."""

from __future__ import annotations

import importlib
import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

__all__ = ["CallbackSupport", "bar", "fit_progress"]

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
except ImportError:

    class CallbackSupport:  # type: ignore[no-redef]
        """Stands in for the mixin that older versions of scikit-learn do not have."""


@contextmanager
def fit_progress(estimator: Any, total: int | None, verbose: int) -> Iterator[Callable[[], None]]:
    """A function to call once per trained dimension; ``total`` is None if their number is not known."""
    context = None
    if getattr(estimator, "_skl_callbacks", None) or hasattr(estimator, "_parent_callback_ctx"):
        context = estimator._init_callback_context(max_subtasks=total)  # noqa: SLF001  scikit-learn names it so
        context.call_on_fit_task_begin(estimator=estimator)

    def notify() -> None:
        if context is not None:
            task = context.subcontext(task_name="dimension")
            task.call_on_fit_task_begin(estimator=estimator)
            task.call_on_fit_task_end(estimator=estimator)

    try:
        with bar("dimensions", total, shown=bool(verbose)) as advance:

            def step() -> None:
                advance(1)
                notify()

            yield step
    finally:
        if context is not None:
            context.call_on_fit_task_end(estimator=estimator)


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _NotebookBar:
    """A bar of HTML's own below the cell: it needs no widgets, which not every notebook has."""

    _PAUSE = 0.1  # seconds from one picture to the next

    def __init__(self, what: str, total: int | None, patience: float | None) -> None:
        self._what, self._total, self._patience = what, total, patience
        self._done, self._start, self._shown_at = 0, time.monotonic(), -math.inf
        self._handle: Any = None

    def advance(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._start >= (self._patience or 0.0) and now - self._shown_at >= self._PAUSE:
            self._shown_at = now
            self._show(self.html())

    def html(self) -> str:
        ends = "" if self._total is None else f" value='{self._done}' max='{self._total}'"
        of = "" if self._total is None else f"/{self._total:,}"
        rate = self._done / max(time.monotonic() - self._start, 1e-9)
        return f"<progress{ends}></progress> {self._done:,}{of} {escape(self._what)}, {rate:,.1f}/s"

    def close(self) -> None:
        if self._patience is None:
            self._show(self.html())
        elif self._handle is not None:
            self._show("")

    def _show(self, html: str) -> None:
        ipython: Any = importlib.import_module("IPython.display")
        if self._handle is None:
            self._handle = ipython.display(ipython.HTML(html), display_id=True)
        else:
            self._handle.update(ipython.HTML(html))


@contextmanager
def bar(
    what: str, total: int | None = None, *, shown: bool = True, patience: float | None = None
) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, or below a notebook's cell, with count and rate; call the function with how many more are done.

    With ``patience`` it appears after so many seconds, and leaves no trace.
    """
    if not shown:
        yield lambda count: None
        return
    if _in_notebook():
        below = _NotebookBar(what, total, patience)
        try:
            yield below.advance
        finally:
            below.close()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.completed:,.0f}/{'?' if task.total is None else f'{task.total:,.0f}'}")

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.1f}/s")

    columns = TextColumn("{task.description}", markup=False), BarColumn(), Count(), Rate(), TimeRemainingColumn()
    progress = Progress(*columns, console=Console(stderr=True), transient=patience is not None)
    task = progress.add_task(what, total=total)
    timer = threading.Timer(patience or 0.0, progress.start)
    timer.daemon = True
    try:
        if patience is None:
            progress.start()
        else:
            timer.start()
        yield lambda count: progress.advance(task, count)
    finally:
        timer.cancel()
        if timer.ident is not None:
            timer.join()
        progress.stop()
