"""``lbarn inspect``"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lbarn.cli.options import AsJson, Model, whole_number
from lbarn.cli.terminal import check_input, show, show_json

__all__ = ["inspect"]


def inspect(
    model: Model,
    column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show this column's conditional; a name or a number.", show_default=False),
    ] = None,
    n_predictors: Annotated[
        int,
        typer.Option(
            metavar="INT", parser=whole_number(0), help="With --column: how many of its strongest predictors."
        ),
    ] = 10,
    n_trees: Annotated[
        int, typer.Option(metavar="INT", parser=whole_number(0), help="With --column: how many of its first trees.")
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Show what is in a model, or in one of its columns.

    \b
    lbarn inspect model.lbarn
    lbarn inspect model.lbarn --column age --n-trees 1
    """
    check_input(model)
    import lbarn
    from lbarn import inspection

    opened = lbarn.load(model)
    if column is None:
        found = {"file": model, "bytes": Path(model).stat().st_size, **inspection.describe(opened)}
        lines = inspection.lines
    else:
        found = inspection.describe_column(opened, column, n_predictors=n_predictors, n_trees=n_trees)
        lines = inspection.column_lines
    if as_json:
        show_json(found)
    else:
        show("\n".join(lines(found)))
