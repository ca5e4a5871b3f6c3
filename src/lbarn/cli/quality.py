"""How good a fit is, in numbers and in words: the model on held-out rows, beside columns that know nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lbarn import LBARN, LBARNEnsemble
from lbarn._network.mixture import Mixture
from lbarn._network.network import Network
from lbarn.cli.trainingdata import Floats, TrainingTables

__all__ = ["Quality", "judged"]

_NOTHING = 0.02  # nats


@dataclass(frozen=True)
class Quality:
    """Mean log-likelihood of held-out rows, in nats."""

    n_rows: int
    model: float
    independent: float

    def lines(self) -> Iterator[str]:
        gain = self.model - self.independent
        numbers = f"{self.model:.2f} nats per held-out row; independent columns {self.independent:.2f}"
        if gain < _NOTHING:
            yield f"{numbers}: the columns tell nothing about each other that could be learned from these rows"
            return
        times = np.exp(min(gain, 700.0))
        factor = f"{times:.2g}" if times < 10 else f"{times:,.0f}" if times < 1e6 else f"{times:.0e}"
        yield f"{numbers}: the model explains {gain:.2f} nats"
        yield f"(a typical new row is {factor} times as likely as it would be if no column depended on another)"


def judged(model: LBARN | LBARNEnsemble, tables: TrainingTables) -> Quality:
    """Before leaves were renewed on the held-out rows."""
    book = model.codebook_
    chunks, weights = tables.held_out(book, model, model.seed_)
    networks = [_before_refit(own) for own in (model.members_ if isinstance(model, LBARNEnsemble) else [model])]
    found = Mixture(tuple(networks), model.weights_) if isinstance(model, LBARNEnsemble) else networks[0]
    rates = model.base_rates_
    log_p, independent = [], []
    for chunk in chunks:
        log_p.append(found.log_likelihood(chunk.cells, model.n_jobs, chunk.unknown) + chunk.log_inside)
        total: Floats = np.zeros(len(chunk)) + chunk.log_inside
        for j, code in enumerate(book.codes):
            if book.is_binary and not book.left_out:
                assert rates is not None
                log_share = np.log([1.0 - rates[j], rates[j]])
            else:
                log_share = code.log_share
            known = np.ones(len(chunk), bool) if chunk.unknown is None else ~chunk.unknown[:, j]
            total[known] += log_share[chunk.cells[known, j].astype(np.intp)]
        independent.append(total)
    mean = [float(np.average(np.concatenate(own), weights=weights)) for own in (log_p, independent)]
    return Quality(sum(map(len, log_p)), *mean)


def _before_refit(member: LBARN) -> Network:
    counts = np.array([len(own) for own in member.network_.trees], dtype=np.intp)
    return member.run_.network(counts, renewed=False)
