"""``lbarn sample``"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbarn.cli.options import Header, Jobs, Model, Particles, Rows, Seed, whole_number
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
            help="How many rows; for each row of --given, if there is one.",
        ),
    ] = 1,
    given: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What is known: rows with empty cells, or with some of the columns only.",
            show_default=False,
        ),
    ] = None,
    out: Rows = None,
    n_particles: Particles = 1000,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Draw new rows.

    \b
    lbarn sample model.lbarn -n 1000 -o new.csv
    lbarn sample model.lbarn -n 1000 | lbarn score model.lbarn -
    lbarn sample model.lbarn -n 10 --given known.csv --random-state 0
    """
    check_input(model, given)
    check_output(out, model, given, is_table=True)
    import numpy as np

    from lbarn.cli.data import input_rows, names_of, open_model

    opened, seed = open_model(model, n_jobs, given), np.random.RandomState(random_state)
    with writing_rows(out, names_of(opened)) as output:
        if given is None:
            for rows in _drawn(opened, n_samples, seed):
                output.write(rows)
            return
        with input_rows(given, header, opened, "sampling", most=max(1, 10_000 // n_samples)) as known:
            for batch in known:
                output.write(opened.sample(n_samples, given=batch, n_particles=n_particles, random_state=seed))


def _drawn(model: Density, n_samples: int, seed: Any) -> Iterator[Any]:
    from lbarn.cli.data import batch_rows, row_bar

    step = batch_rows(model.n_features_in_)
    with row_bar("sampling", lambda: n_samples) as done:
        for start in range(0, n_samples, step):
            n_rows = min(step, n_samples - start)
            yield model.sample(n_rows, random_state=seed)
            done(n_rows)
