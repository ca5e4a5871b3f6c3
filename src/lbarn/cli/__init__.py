"""The command ``lbarn``: one command a file. Whatever takes time to import is imported when a command runs."""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType

__all__ = ["main"]

_INTERRUPTED = 130
_PATIENCE = 2.0  # seconds that a program which was interrupted has to tidy up before Ctrl-C ends it at once
_DEADLINE = 5.0  # and before it ends anyway


class _Interrupts:
    """Ctrl-C is an exception the first time. Later ones do not disturb what that has set going, unless it takes long.

    Compiled libraries may drop the exception, and would compute to the end; hence the deadline.
    """

    first: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first = now
            if hasattr(signal, "setitimer"):  # not on Windows
                signal.signal(signal.SIGALRM, lambda number, frame: _leave())
                signal.setitimer(signal.ITIMER_REAL, _DEADLINE)
            raise KeyboardInterrupt
        if now > self.first + _PATIENCE:
            _leave()


def main() -> None:
    """Run the command line. What is wrong with the input is one line, with exit code 2; Ctrl-C is 130."""
    interrupts = _Interrupts()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have told us to ignore it
        signal.signal(signal.SIGINT, interrupts)
    try:
        from lbarn.cli.app import run

        status, why = run()
    except BaseException:
        if interrupts.first is None:
            raise
    if interrupts.first is not None:  # whatever has become of the exception: imports make other ones of it
        _leave()
    if signal.getsignal(signal.SIGINT) is interrupts:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the work is done
    from lbarn.cli.terminal import refuse, release

    if why is None:
        release()
    else:
        refuse(why)
    sys.exit(status)


def _leave() -> None:
    """End at once: threads that are still inside the core must not meet an interpreter that is being taken down."""
    os.write(2, b"lbarn: interrupted\n")
    os._exit(_INTERRUPTED)
