"""``lbarn explore``"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from lbarn.cli.options import Jobs, Model, Seed, whole_number
from lbarn.cli.terminal import check_input, say, show

__all__ = ["explore"]


def explore(
    model: Model,
    port: Annotated[
        int,
        typer.Option(
            metavar="INT", parser=whole_number(0, 65_535), help="Where the page is served; 0 takes a free port."
        ),
    ] = 0,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            help="Open the page in a browser; by default if there is a screen.",
            show_default=False,
        ),
    ] = None,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
) -> None:
    """Ask a model in the browser: what changes if, how strange is a row, which columns depend on which.

    The page is for this machine and whoever knows its address. Ctrl-C ends it.

    \b
    lbarn explore model.lbarn
    lbarn explore model.lbarn --port 8000 --no-browser
    """
    check_input(model)
    from lbarn.cli.data import open_model
    from lbarn.explorer import ExplorerServer

    opened = open_model(model, n_jobs)
    try:
        server = ExplorerServer(opened, Path(model).name, port=port, random_state=random_state)
    except (OSError, OverflowError) as error:
        raise ValueError(f"port {port} cannot be used ({error}); --port 0 takes a free one") from error
    with server:
        show(server.url)
        say("lbarn: the page is at this address until Ctrl-C")
        if browser or (browser is None and _has_screen()):
            import webbrowser

            webbrowser.open(server.url)
        server.serve_forever()


def _has_screen() -> bool:
    if not sys.stdout.isatty() or "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
