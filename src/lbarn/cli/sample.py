"""``lbarn sample``"""

from __future__ import annotations

from typing import Annotated

import typer

from lbarn.cli.options import Header, Jobs, Model, Rows, Seed
from lbarn.cli.terminal import check_input, check_output, slices, waiting

__all__ = ["sample"]


def sample(
    model: Model,
    n_samples: Annotated[
        int, typer.Option("-n", "--n-samples", help="Rows; for each row of --given, if there is one.")
    ] = 1,
    given: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Rows with empty cells where free: first columns of the order.", show_default=False
        ),
    ] = None,
    out: Rows = None,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Draw new rows.

    \b
    lbarn sample model.lbarn -n 1000 -o new.csv
    lbarn sample model.lbarn -n 1000 | lbarn score model.lbarn -
    lbarn sample model.lbarn -n 10 --given beginnings.csv --random-state 0
    """
    check_output(out)
    check_input(model, given)
    import numpy as np

    from lbarn.cli.openedmodel import OpenedModel

    opened = OpenedModel.open(model, n_jobs)
    if given is None and n_samples > 0:
        seed = np.random.RandomState(random_state)
        with waiting("sampling", n_samples) as done:
            drawn = []
            for part in slices(n_samples, 10_000):
                drawn.append(opened.network.sample(part.stop - part.start, random_state=seed))
                done(part.stop - part.start)
        rows = np.concatenate(drawn)
    else:
        prefixes = None if given is None else opened.rows(given, header)[0]
        with waiting("sampling"):
            rows = opened.network.sample(n_samples, given=prefixes, random_state=random_state)
    opened.write(out, rows)
