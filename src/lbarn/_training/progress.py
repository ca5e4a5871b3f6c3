"""The one progress bar, for fits and for the command line; and scikit-learn's fit callbacks if the installed version has them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def bar(
    what: str, total: int | None = None, *, shown: bool = True, patience: float | None = None
) -> Iterator[Callable[[int], None]]:
    """A bar on standard error with count, rate and time left; call the function with how many more are done.

    With ``patience`` it appears after so many seconds, and leaves no trace.
    """
    if not shown:
        yield lambda count: None
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
