"""``lbarn compress`` and ``lbarn decompress``"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from lbarn.cli.options import AsJson, Data, Header, Jobs, Model, Rows, whole_number
from lbarn.cli.terminal import check_input, check_output, say, show_bytes, show_json, writing, writing_rows

__all__ = ["compress", "decompress"]


def compress(
    model: Model,
    data: Data,
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Where the bytes go; by default standard output.",
            show_default=False,
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
    check_input(model, data)
    check_output(out, model, data, like="data.lbz")
    if out is None and (as_json or sys.stdout.isatty()):
        raise ValueError("compressed data does not go to a terminal, nor beside --json: name a file by -o")
    from lbarn._tables.writing import write_atomically
    from lbarn.cli.data import input_rows, open_model

    opened = open_model(model, n_jobs, data)
    with input_rows(data, header, opened, "compressing") as rows:
        content = opened.compress(rows.complete())
    if out is None:
        show_bytes(content)
    else:
        with writing(out):
            write_atomically(Path(out), content)
    n = rows.n_rows
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
    max_rows: Annotated[
        int | None,
        typer.Option(
            metavar="INT",
            parser=whole_number(1),
            help="Refuse data that claims to hold more rows, before anything is decoded.",
            show_default=False,
        ),
    ] = None,
    n_jobs: Jobs = -1,
) -> None:
    """Give back the rows that compress was given.

    \b
    lbarn decompress model.lbarn test.lbz -o same.csv
    lbarn decompress model.lbarn upload.lbz --max-rows 100000 -o rows.csv
    """
    check_input(model, data)
    check_output(out, model, data, is_table=True)
    from lbarn.cli.data import open_model, output_names, row_bar

    opened = open_model(model, n_jobs, data)
    content = sys.stdin.buffer.read() if data == "-" else Path(data).read_bytes()
    try:
        with row_bar("decompressing"):
            rows = opened.decompress(content, max_rows=max_rows)
    except ValueError as error:
        raise ValueError(f"{data}: {str(error).replace('max_rows=', '--max-rows ')}") from error
    with writing_rows(out, output_names(opened)) as output:
        step = 10_000
        for start in range(0, len(rows), step):
            output.write(rows[start : start + step])
