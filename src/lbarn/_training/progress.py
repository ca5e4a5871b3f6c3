"""A progress bar with rate and time left, and scikit-learn's fit callbacks where the installed version has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["CallbackSupport", "fit_progress"]

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
except ImportError:

    class CallbackSupport:  # type: ignore[no-redef]
        """Stands in for the mixin that older versions of scikit-learn do not have."""


@contextmanager
def fit_progress(estimator: Any, total: int | None, verbose: int) -> Iterator[Callable[[], None]]:
    """A function to call once per trained dimension; ``total`` is None where their number is not known."""
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
        with _bar(total, verbose) as advance:

            def step() -> None:
                advance()
                notify()

            yield step
    finally:
        if context is not None:
            context.call_on_fit_task_end(estimator=estimator)


@contextmanager
def _bar(total: int | None, verbose: int) -> Iterator[Callable[[], None]]:
    if not verbose:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:.1f}/s")

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with bar:
        task = bar.add_task("dimensions", total=total)
        yield lambda: bar.advance(task)
