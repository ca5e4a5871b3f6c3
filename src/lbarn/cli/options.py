"""The options that commands share."""

from typing import Annotated, Literal

import typer

__all__ = ["Answers", "AsJson", "Data", "Draws", "Header", "Jobs", "Model", "Out", "Particles", "Rows", "Seed"]

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file.", show_default=False)]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table of 0 and 1: CSV, .parquet, .npy, .npz, .libsvm, dataset:NAME, or - for CSV from standard input.",
        show_default=False,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether CSV begins with the names of the columns; told by itself.",
        show_default=False,
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--out",
        metavar="FILE",
        help="Where the rows go: CSV, .parquet, .npy, .npz or .libsvm; else standard output, as CSV.",
        show_default=False,
    ),
]
Out = Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="Where the result goes.", show_default=False)]
Seed = Annotated[
    int | None, typer.Option("--random-state", help="Seed: the same number gives the same result.", show_default=False)
]
Jobs = Annotated[int, typer.Option("--n-jobs", help="Threads; -1 is all cores.")]
Particles = Annotated[
    int, typer.Option("--n-particles", help="Of the Monte Carlo, where more than 12 bits are unknown.")
]
Draws = Annotated[int, typer.Option("--n-draws", help="Draws per row: so many tables, one after the other.")]
Answers = Literal["sample", "mode", "probability"]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
