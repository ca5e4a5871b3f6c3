"""``lbarn impute`` and ``lbarn denoise``"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lbarn.cli.options import Answers, Data, Draws, Header, Jobs, Model, Particles, Rows, Seed
from lbarn.cli.terminal import check_input, check_output, say, slices, waiting

__all__ = ["denoise", "impute"]


def impute(
    model: Model,
    data: Data,
    out: Rows = None,
    output: Annotated[
        Answers, typer.Option(help="A draw, the more probable value, or the probability of a 1.")
    ] = "sample",
    n_draws: Draws = 1,
    n_particles: Particles = 1000,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Fill the missing cells (empty, NaN) of every row.

    \b
    lbarn impute model.lbarn holes.csv -o filled.csv
    lbarn impute model.lbarn holes.csv --output probability > probabilities.csv
    """
    _condition(model, data, out, header, n_jobs, random_state, output=output, n_draws=n_draws, n_particles=n_particles)


def denoise(
    model: Model,
    data: Data,
    flip: Annotated[float, typer.Option(help="The probability with which a bit was flipped.", show_default=False)],
    out: Rows = None,
    output: Annotated[
        Answers, typer.Option(help="A draw, the more probable value, or the probability of a 1.")
    ] = "mode",
    n_draws: Draws = 1,
    n_particles: Particles = 1000,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Restore rows of which some bits were flipped.

    \b
    lbarn denoise model.lbarn noisy.csv --flip 0.05 -o clean.csv
    """
    how = {"flip": flip, "output": output, "n_draws": n_draws, "n_particles": n_particles}
    _condition(model, data, out, header, n_jobs, random_state, **how)


def _condition(
    model: str, data: str, out: str | None, header: bool | None, n_jobs: int, random_state: int | None, **how: Any
) -> None:
    check_output(out)
    check_input(model, data)
    import numpy as np

    from lbarn.cli.openedmodel import OpenedModel

    opened = OpenedModel.open(model, n_jobs)
    given, incomplete = opened.rows(data, header)
    seed = np.random.RandomState(random_state)
    answer = opened.network.denoise if "flip" in how else opened.network.impute
    filled, methods, effective = [], [], []
    with waiting("denoising" if "flip" in how else "imputing", len(incomplete)) as done:
        for part in slices(len(incomplete), 1000):
            rows, diagnostics = answer(given[part], random_state=seed, return_diagnostics=True, **how)
            filled.append(rows.reshape(how["n_draws"], -1, rows.shape[-1]))
            methods.append(diagnostics["method"])
            effective.append(diagnostics["effective_sample_size"])
            done(len(diagnostics["method"]))
    values = np.concatenate(filled, axis=1)
    values = values.reshape(-1, values.shape[-1])
    opened.write(out, values if how["output"] == "probability" else values.astype(np.uint8))
    kinds, counts = np.unique(np.concatenate(methods), return_counts=True)
    line = "rows: " + ", ".join(f"{count:,} {kind}" for kind, count in zip(kinds, counts))
    least = float(np.concatenate(effective).min())
    say(line if np.isinf(least) else f"{line}; effective sample size at least {least:,.0f}")
