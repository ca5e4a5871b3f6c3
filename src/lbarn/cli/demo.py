"""``lbarn demo``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    folder: Annotated[str, typer.Option(help="Where to write.")] = "demo",
    max_iter: Annotated[int, typer.Option(help="Trees per column.")] = 1000,
) -> None:
    """Fit, compare and draw scikit-learn's digits, and a table of wines.

    \b
    lbarn demo
    """
    from lbarn.demo import run

    run(Path(folder), max_iter)
