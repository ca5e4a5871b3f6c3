"""``lbarn impute`` and ``lbarn denoise``"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from lbarn.cli.options import Answers, Data, Draws, Header, Jobs, Model, Particles, Rows, Seed
from lbarn.cli.terminal import check_input, check_output, say, writing_rows

__all__ = ["denoise", "impute"]

_ANSWER = typer.Option(help="A draw, the more probable value, or the probability of a 1.")


def impute(
    model: Model,
    data: Data,
    out: Rows = None,
    output: Annotated[Answers, _ANSWER] = "sample",
    n_draws: Draws = 1,
    n_particles: Particles = 1000,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Fill the missing cells (empty, NA, ?) of every row.

    \b
    lbarn impute model.lbarn holes.csv -o filled.csv
    lbarn impute model.lbarn holes.csv --output probability > probabilities.csv
    """
    _condition(model, data, out, header, n_jobs, random_state, output=output, n_draws=n_draws, n_particles=n_particles)


def denoise(
    model: Model,
    data: Data,
    flip: Annotated[float, typer.Option(help="The probability that a value was flipped.", show_default=False)],
    out: Rows = None,
    output: Annotated[Answers, _ANSWER] = "mode",
    n_draws: Draws = 1,
    n_particles: Particles = 1000,
    random_state: Seed = None,
    n_jobs: Jobs = -1,
    header: Header = None,
) -> None:
    """Restore rows of which some values were flipped.

    \b
    lbarn denoise model.lbarn noisy.csv --flip 0.05 -o clean.csv
    """
    if not 0 <= flip < 0.5:
        raise ValueError(f"--flip: a probability of at least 0 and below 0.5 is needed, not {flip:g}")
    how = {"flip": flip, "output": output, "n_draws": n_draws, "n_particles": n_particles}
    _condition(model, data, out, header, n_jobs, random_state, **how)


def _condition(
    model: str, data: str, out: str | None, header: bool | None, n_jobs: int, random_state: int | None, **how: Any
) -> None:
    if how["n_draws"] > 1 and how["output"] != "sample":
        raise ValueError(f"--n-draws goes with --output sample only; there is one {how['output']} per value")
    check_input(model, data)
    check_output(out, model, data, is_table=True)
    import numpy as np

    from lbarn.cli.data import input_rows, names_of, open_model

    opened, seed = open_model(model, n_jobs, data), np.random.RandomState(random_state)
    answer, doing = (opened.denoise, "denoising") if "flip" in how else (opened.impute, "imputing")
    methods: Counter[str] = Counter()
    least = np.inf
    with input_rows(data, header, opened, doing, most=1000) as rows, writing_rows(out, names_of(opened)) as output:
        for batch in rows:
            filled, diagnostics = answer(batch, random_state=seed, return_diagnostics=True, **how)
            if how["n_draws"] > 1:  # the draws of a row one after the other
                filled = filled.swapaxes(0, 1).reshape(-1, filled.shape[2])
            output.write(filled)
            methods.update(diagnostics["method"].tolist())
            least = min(least, float(diagnostics["effective_sample_size"].min()))
    line = "rows: " + ", ".join(f"{count:,} {kind}" for kind, count in sorted(methods.items()))
    say(line if np.isinf(least) else f"{line}; effective sample size at least {least:,.0f}")
