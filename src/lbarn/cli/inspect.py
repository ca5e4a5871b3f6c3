"""``lbarn inspect``"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from lbarn.cli.options import AsJson, Model, whole_number
from lbarn.cli.terminal import check_input, show_json, show_lines

__all__ = ["inspect"]


def inspect(
    model: Model,
    column: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Show this column; a name or a number.", show_default=False),
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
    """Show what is in a model, or how one of its columns is distributed and what it depends on.

    \b
    lbarn inspect people.lbarn
    lbarn inspect people.lbarn --column age --n-trees 1
    """
    check_input(model)
    import lbarn
    from lbarn import inspection

    opened = lbarn.load(model)
    if column is None:
        found = {"file": model, "bytes": Path(model).stat().st_size, **inspection.describe(opened)}
        lines = [*inspection.lines(found), *_columns(opened)]
    else:
        found = inspection.describe_column(opened, column, n_predictors=n_predictors, n_trees=n_trees)
        lines = list(inspection.column_lines(found))
    if as_json:
        show_json(found)
    else:
        show_lines(lines)


def _columns(model: Any) -> Iterator[str]:
    """What the columns are, unless all are 0 and 1."""
    from lbarn._models.density import RowModel

    if isinstance(model, RowModel) and not (model.codebook_.is_binary and not model.codebook_.left_out):
        yield "columns"
        yield from (f"    {line}" for line in model.columns_.lines())
