"""``lbarn score``"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from lbarn.cli.options import AsJson, Data, Header, Jobs, Model, Rows
from lbarn.cli.terminal import check_input, check_output, say, show, show_bytes, writing_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["score"]


def score(
    model: Model,
    data: Data,
    mean: Annotated[bool, typer.Option("--mean", help="Print the mean and its standard error only.")] = False,
    out: Rows = None,
    n_jobs: Jobs = -1,
    header: Header = None,
    as_json: AsJson = False,
) -> None:
    """Print the log-likelihood of every row, in nats.

    An empty cell is a value like others if the model has learned from such; otherwise the score is that of the cells that are there.

    \b
    lbarn score people.lbarn others.csv --mean
    lbarn score model.lbarn test.csv > scores.txt
    lbarn score model.lbarn test.csv --json | jq .mean
    """
    check_input(model, data)
    check_output(out, model, data, is_table=True)
    from lbarn.cli.data import incomplete, input_rows, open_model

    opened = open_model(model, n_jobs, data)
    total, has_gaps = _Mean(), False
    with input_rows(data, header, opened, "scoring") as rows, _output(out, mean, as_json) as write:
        for batch in rows:
            scores = opened.score_samples(batch)
            write(scores)
            total.add(scores)
            has_gaps = has_gaps or bool(incomplete(batch, opened).any())
    error = total.standard_error()
    if as_json:
        summary = json.dumps({"rows": total.n, "mean": total.mean, "standard_error": error})
        show_bytes(f"{summary if mean else f'], {summary[1:]}'}\n".encode())
    else:
        line = f"mean {total.mean:.4f}" + ("" if error is None else f" +- {error:.4f}") + f" nats, {total.n:,} rows"
        (show if mean else say)(line)
    if has_gaps:
        say("lbarn: note: some rows have missing cells: their score is the log-likelihood of the others")


@contextmanager
def _output(out: str | None, mean: bool, as_json: bool) -> Iterator[Callable[[Floats], None]]:
    """Takes the scores of some rows after the other."""
    if as_json and not mean:
        opening = iter(['{"log_likelihood": ['])
        yield lambda scores: show_bytes((next(opening, ", ") + json.dumps(scores.tolist())[1:-1]).encode())
    elif as_json or mean:
        yield lambda scores: None
    else:
        with writing_rows(out, None) as output:
            yield lambda scores: output.write(scores[:, None])


@dataclass
class _Mean:
    """A mean, and how far it may be off, of numbers that come in parts."""

    n: int = 0
    mean: float = 0.0
    _squares: float = 0.0  # of the distances from the mean, summed

    def add(self, values: Floats) -> None:
        n, mean = len(values), float(values.mean())
        distance, total = mean - self.mean, self.n + n
        self._squares += float(((values - mean) ** 2).sum()) + distance**2 * self.n * n / total
        self.mean = mean if self.n == 0 else self.mean + distance * n / total
        self.n = total

    def standard_error(self) -> float | None:
        return math.sqrt(self._squares / (self.n - 1)) / math.sqrt(self.n) if self.n > 1 else None
