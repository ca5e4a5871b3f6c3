"""``lbarn score``"""

from __future__ import annotations

from typing import Annotated

import typer

from lbarn.cli.options import AsJson, Data, Header, Jobs, Model, Particles, Rows, Seed
from lbarn.cli.terminal import check_input, check_output, say, show, show_json, slices, waiting

__all__ = ["score"]


def score(
    model: Model,
    data: Data,
    mean: Annotated[bool, typer.Option("--mean", help="Print the mean and its standard error only.")] = False,
    out: Rows = None,
    random_state: Seed = None,
    n_particles: Particles = 1000,
    n_jobs: Jobs = -1,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Print the log-likelihood of every row, in nats.

    Where cells are missing, it is that of those that are there.

    \b
    lbarn score model.lbarn test.csv --mean
    lbarn score model.lbarn test.csv > scores.txt
    lbarn score model.lbarn test.csv --json | jq .mean
    """
    check_output(out)
    check_input(model, data)
    import numpy as np

    from lbarn.cli.openedmodel import OpenedModel, write

    opened = OpenedModel.open(model, n_jobs)
    rows, incomplete = opened.rows(data, header)
    scores = np.empty(len(incomplete))
    seed = np.random.RandomState(random_state)
    with waiting("scoring", len(scores)) as done:
        for part in slices(len(scores), 10_000):
            some, holes, found = rows[part], incomplete[part], scores[part]
            if not holes.all():
                found[~holes] = opened.network.score_samples(some[~holes])
            if holes.any():
                found[holes] = opened.network.log_marginal(some[holes], n_particles=n_particles, random_state=seed)
            done(len(holes))
    average, error = float(scores.mean()), float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else None
    summary = {"rows": len(scores), "mean": average, "standard_error": error}
    line = f"mean {average:.4f}" + ("" if error is None else f" +- {error:.4f}") + f" nats, {len(scores):,} rows"
    if as_json:
        show_json(summary if mean else {**summary, "log_likelihood": scores.tolist()})
    elif mean:
        show(line)
    else:
        write(out, scores[:, None])
        say(line)
