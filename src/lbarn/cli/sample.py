"""``lbarn sample``"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbarn.cli.options import Header, Jobs, Model, Particles, Rows, Seed, Tolerance, whole_number
from lbarn.cli.terminal import check_input, check_output, writing_rows

if TYPE_CHECKING:
    from lbarn._models.density import Density

__all__ = ["sample"]


def sample(
    model: Model,
    n_samples: Annotated[
        int,
        typer.Option(
            "-n",
            "--n-samples",
            metavar="INT",
            parser=whole_number(1, 2**63 - 1),
            help="How many rows; for each row of --given-file, if there is one.",
        ),
    ] = 1,
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What all rows have: age=40, age=30..40 (both ends included), age=30.., sex=Female, color=red|green; may be "
            "given several times.",
            show_default=False,
        ),
    ] = None,
    given_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What is known: rows with empty cells, or with some of the columns only.",
            show_default=False,
        ),
    ] = None,
    out: Rows = None,
    n_particles: Particles = 4000,
    tolerance: Tolerance = 0.001,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Draw new rows, of all sorts or under conditions.

    \b
    lbarn sample people.lbarn -n 1000 -o new.csv
    lbarn sample people.lbarn -n 1000 --given "age=30..40" --given "sex=Female" -o new.csv
    lbarn sample people.lbarn -n 10 --given-file known.csv --random-state 0
    lbarn sample model.lbarn -n 1000 | lbarn score model.lbarn -
    """
    check_input(model, given_file)
    check_output(out, model, given_file, is_table=True)
    import numpy as np

    from lbarn.cli.conditions import conditions, rows_as_conditions
    from lbarn.cli.data import input_rows, open_model, output_names

    opened, seed = open_model(model, n_jobs, given_file), np.random.RandomState(random_state)
    fixed = conditions(opened, given or ())
    how: dict[str, Any] = {"n_particles": n_particles, "tolerance": tolerance, "random_state": seed}
    if given_file is None:
        drawn = _drawn(opened, n_samples, fixed, how)
        first = next(drawn)  # a condition that cannot be met is no reason to begin a file
        with writing_rows(out, output_names(opened)) as output:
            output.write(first)
            for rows in drawn:
                output.write(rows)
        return
    with (
        writing_rows(out, output_names(opened)) as output,
        input_rows(given_file, header, opened, "sampling", max(1, 10_000 // n_samples), partial=True) as known,
    ):
        for batch in known:
            evidence = rows_as_conditions(opened, batch, fixed) if fixed else batch
            output.write(opened.sample(n_samples, given=evidence, **how))


def _drawn(model: Density, n_samples: int, given: dict[Any, Any], how: dict[str, Any]) -> Iterator[Any]:
    from lbarn.cli.data import batch_rows, row_bar

    step = batch_rows(model.n_features_in_)
    with row_bar("sampling", lambda: n_samples) as done:
        for start in range(0, n_samples, step):
            n_rows = min(step, n_samples - start)
            try:
                yield model.sample(n_rows, given=given or None, **how)
            except ValueError as error:
                raise ValueError(str(error).replace("given: ", "--given: ", 1)) from error
            done(n_rows)
