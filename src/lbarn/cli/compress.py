"""``lbarn compress`` and ``lbarn decompress``"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lbarn.cli.options import AsJson, Data, Header, Jobs, Model, Rows
from lbarn.cli.terminal import check_input, check_output, say, show_bytes, show_json, waiting, writing

__all__ = ["compress", "decompress"]


def compress(
    model: Model,
    data: Data,
    out: Annotated[
        str | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Where the bytes go; else standard output.", show_default=False
        ),
    ] = None,
    n_jobs: Jobs = -1,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Compress rows without loss, with the model as the code book.

    \b
    lbarn compress model.lbarn test.csv -o test.lbz
    lbarn decompress model.lbarn test.lbz -o same.csv
    """
    check_output(out)
    check_input(model, data)
    if out is None and (as_json or sys.stdout.isatty()):
        raise ValueError("compressed data does not go to a terminal, nor beside --json: name a file by -o")
    from lbarn._training.checkpoint import write_atomically
    from lbarn.cli.openedmodel import OpenedModel

    opened = OpenedModel.open(model, n_jobs)
    rows = opened.complete_rows(data, header)
    with waiting("compressing"):
        content = opened.network.compress(rows)
    if out is None:
        show_bytes(content)
    else:
        with writing(out):
            write_atomically(Path(out), content)
    n = rows.shape[0]
    if as_json:
        show_json({"rows": n, "bytes": len(content), "bits_per_row": 8 * len(content) / n})
    else:
        say(f"{n:,} rows in {len(content):,} bytes, {8 * len(content) / n:.1f} bits a row")


def decompress(
    model: Model,
    data: Annotated[
        str, typer.Argument(metavar="FILE", help="What compress has written; - is standard input.", show_default=False)
    ],
    out: Rows = None,
    n_jobs: Jobs = -1,
) -> None:
    """Give back the rows that compress was given.

    \b
    lbarn decompress model.lbarn test.lbz -o same.csv
    """
    check_output(out)
    check_input(model, data)
    from lbarn.cli.openedmodel import OpenedModel

    opened = OpenedModel.open(model, n_jobs)
    content = sys.stdin.buffer.read() if data == "-" else Path(data).read_bytes()
    try:
        with waiting("decompressing"):
            rows = opened.network.decompress(content)
    except ValueError as error:
        raise ValueError(f"{data}: {error}") from error
    opened.write(out, rows)
