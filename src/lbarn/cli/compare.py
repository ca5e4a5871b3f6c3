"""``lbarn compare``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lbarn.cli.options import AsJson, Header, Jobs, whole_number
from lbarn.cli.terminal import check_input, check_output, say, show, show_json, writing

if TYPE_CHECKING:
    from lbarn.comparison.result import Fidelity

__all__ = ["compare"]

_FORMATS = ".csv, .tsv or .txt (also with .gz), .parquet, .npy, .npz, .libsvm, or - for CSV from standard input"


def compare(
    real: Annotated[str, typer.Argument(metavar="REAL", help=f"A table of real rows: {_FORMATS}.", show_default=False)],
    synthetic: Annotated[
        str,
        typer.Argument(metavar="SYNTHETIC", help="A table of the same columns, whoever made it.", show_default=False),
    ],
    holdout: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Real rows that the generator has not seen; REAL are then those that it was fitted on.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="With --holdout: the model file whose likelihoods are compared.", show_default=False
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The column that is predicted by models trained on synthetic and on real rows; by default the last one.",
            show_default=False,
        ),
    ] = None,
    classifier: Annotated[
        Literal["scikit-learn", "xgboost"], typer.Option(help="Whose boosted trees tell synthetic rows from real ones.")
    ] = "scikit-learn",
    out: Annotated[
        str | None, typer.Option("-o", "--out", metavar="FILE", help="Write a web page.", show_default=False)
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.", show_default=False)] = None,
    random_state: Annotated[
        int, typer.Option(metavar="INT", parser=whole_number(0, 2**32 - 1), help="Seed of what is random.")
    ] = 0,
    n_jobs: Jobs = -1,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Compare synthetic rows with real ones: are they alike, are they as useful, and were they copied?

    \b
    lbarn compare real.csv synthetic.csv
    lbarn compare train.csv synthetic.csv --holdout test.csv --target income -o comparison.html
    lbarn compare train.csv synthetic.csv --json | jq .c2st
    """
    files = (real, synthetic, holdout)
    check_input(*files, model)
    check_output(out, *files, model)
    if model is not None and holdout is None:
        raise ValueError(
            "--model compares the likelihoods of REAL and of rows that it has not seen; give these by --holdout"
        )
    if [*files].count("-") > 1:
        raise ValueError("only one of the tables can come from standard input")
    if out is not None:
        from lbarn.report.comparison import page_template

        page_template()  # better missed now than after the work
    found = _found(files, model, n_jobs, header, target=target, classifier=classifier, random_state=random_state)
    if out is not None:
        from lbarn.report import write_comparison

        with writing(out):
            write_comparison(found, out, title=title)
        say(f"{out} written")
    if as_json:
        show_json(found.to_dict())
    elif out is None:
        show(str(found))


def _found(
    files: tuple[str, str, str | None], model: str | None, n_jobs: int, header: bool | None, **options: Any
) -> Fidelity:
    from lbarn.cli.data import row_bar
    from lbarn.comparison.fidelity import compare_tables

    with row_bar("comparing"):
        real, synthetic, holdout = (None if name is None else _rows(name, header) for name in files)
        opened = None if model is None else _scorer(model, n_jobs)
        title, made, known = files
        if known is None:
            return compare_tables(real, synthetic, None, (title, made, ""), **options)
        return compare_tables(holdout, synthetic, real, (known, made, title), model=opened, **options)


def _rows(name: str, header: bool | None) -> Any:
    """All rows of a file, whatever its cells hold."""
    from lbarn._tables.files import open_table
    from lbarn.cli.data import tell_notes

    with open_table(name, header=header) as table:
        tell_notes(table)
        rows = table.read()
        tell_notes(table)
        return rows


def _scorer(path: str, n_jobs: int) -> Any:
    from lbarn.cli.data import open_model

    return open_model(path, n_jobs)
