"""How good a fit is, in numbers and in words: the model on held-out rows, beside columns that know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from lbarn import LBARN, LBARNEnsemble
from lbarn._network.network import Network
from lbarn._network.repeats import Repeats
from lbarn._training.data import GivenRows
from lbarn.baselines import IndependentColumns
from lbarn.cli.trainingdata import Floats, TrainingTables

__all__ = ["Quality", "judged"]

_NOTHING = 0.02  # nats


@dataclass(frozen=True)
class Quality:
    """Mean log-likelihood of held-out rows, in nats; what of it comes from rows that are kept as they are, if there are any."""

    n_rows: int
    model: float
    independent: float
    repeats: Repeats | None = None

    def lines(self) -> Iterator[str]:
        yield from self._compared()
        if self.repeats is not None:
            yield (
                f"{self.repeats.gain:.2f} nats of that because rows repeat: {len(self.repeats):,} rows are kept in the model as they are, "
                f"and {self.repeats.share:.1%} of new ones repeat them (--repeats no keeps none)"
            )

    def _compared(self) -> Iterator[str]:
        gain = self.model - self.independent
        numbers = f"{self.model:.2f} nats per held-out row; independent columns {self.independent:.2f}"
        if gain < _NOTHING:
            yield f"{numbers}: the columns tell nothing about each other that could be learned from these rows"
            return
        yield f"{numbers}: the model explains {gain:.2f} nats"
        times = np.exp(min(gain, 700.0))
        if times < 1.5:
            yield "(the columns hardly depend on each other, as far as these rows tell)"
            return
        factor = f"{times:.1f}" if times < 10 else f"{times:,.0f}" if times < 1e6 else f"{times:.0e}"
        yield f"(a typical new row is {factor} times as likely as it would be if no column depended on another)"


def judged(model: LBARN | LBARNEnsemble, given: GivenRows, tables: TrainingTables) -> Quality:
    """By leaves that have not been renewed on the held-out rows."""
    chunks, weights = tables.held_out(model.codebook_, model, model.seed_)
    network = None if isinstance(model, LBARNEnsemble) else _before_refit(model)
    divided = given.divided(model.validation_fraction, model.seed_)
    columns = IndependentColumns(n_jobs=model.n_jobs).fit_rows(replace(divided, valid=None)).distribution
    log_p, alone, inside, has_gaps = [], [], [], False
    for chunk in chunks:
        surprise = columns.surprise(chunk.cells, model.n_jobs)
        if chunk.unknown is not None:
            surprise[chunk.unknown] = 0.0
            has_gaps = True
        inside.append(np.zeros(len(chunk)) + chunk.log_inside)
        alone.append(inside[-1] - surprise.sum(axis=1))
        if network is not None and not has_gaps:
            log_p.append(inside[-1] + network.log_likelihood(chunk.cells, model.n_jobs))

    def mean(parts: list[Floats]) -> float:
        return float(np.average(np.concatenate(parts), weights=weights))

    if isinstance(model, LBARNEnsemble):
        nats = mean(inside) + model.valid_log_likelihood_
    elif has_gaps:  # as training saw them
        found = model.run_.log_likelihood([len(own) for own in model.network_.trees])
        nats = mean(inside) + (found[1] if found is not None else np.nan)
    else:
        nats = mean(log_p)
    repeats = model.repeats_
    return Quality(sum(map(len, alone)), nats + (0.0 if repeats is None else repeats.gain), mean(alone), repeats)


def _before_refit(member: LBARN) -> Network:
    counts = np.array([len(own) for own in member.network_.trees], dtype=np.intp)
    return member.run_.network(counts, renewed=False)
