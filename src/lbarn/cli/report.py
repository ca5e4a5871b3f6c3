"""``lbarn report``"""

from __future__ import annotations

from typing import Annotated

import typer

from lbarn.cli.options import Header, Jobs, Model, Out, whole_number
from lbarn.cli.terminal import check_input, check_output, say, writing

__all__ = ["report"]


def report(
    model: Model,
    data: Annotated[
        str, typer.Option("--data", metavar="DATA", help="Rows that the model has not seen.", show_default=False)
    ],
    out: Out,
    title: Annotated[str | None, typer.Option(help="The title of the page.", show_default=False)] = None,
    shape: Annotated[
        str | None, typer.Option(metavar="ROWSxCOLUMNS", help="Draw rows as images, such as 28x28.", show_default=False)
    ] = None,
    random_state: Annotated[
        int, typer.Option(metavar="INT", parser=whole_number(0, 2**32 - 1), help="Seed of what is drawn.")
    ] = 0,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Write a page about a model and how well it fits.

    \b
    lbarn report model.lbarn --data test.csv -o report.html
    lbarn report mnist.lbarn --data test.npy --shape 28x28 --title MNIST -o mnist.html
    """
    check_input(model, data)
    check_output(out, model, data, like="report.html")
    image_shape = None if shape is None else _image_shape(shape)
    from lbarn.cli.data import about, open_input, open_model, row_bar
    from lbarn.report.page import write_report

    opened = open_model(model, n_jobs, data)
    with open_input(data, header, opened) as table, row_bar("writing the report"), about(table), writing(out):
        write_report(opened, table.read(), out, title=title, image_shape=image_shape, random_state=random_state)
    say(f"{out} written")


def _image_shape(text: str) -> tuple[int, int]:
    height, _, width = text.lower().partition("x")
    if not (height.isdecimal() and width.isdecimal()):
        raise ValueError(f"--shape: {text!r} is not like 28x28")
    return int(height), int(width)
