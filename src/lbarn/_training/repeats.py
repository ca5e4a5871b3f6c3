"""Whether rows repeat more often than a network expects, as held-out rows tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.bits import PackedBits
from lbarn._engine.codetree import Cells
from lbarn._engine.rows import TrainingRows
from lbarn._engine.trees import UNIT
from lbarn._network.mixture import best_weights
from lbarn._network.network import Network
from lbarn._network.repeats import Repeating, Repeats
from lbarn._training.data import GivenRows
from lbarn.parameters import LearnerParameters

__all__ = ["check_repeats", "find_repeats", "renewed"]

Floats = NDArray[np.float64]

_CLEARLY = 2.0  # standard errors
_RARE = (1e-5, 1e-4, 1e-3)  # probabilities below which values are looked at
_LOOKED_AT = 4096  # rows, at most
_ENOUGH = 30  # held-out rows: a few may all repeat by chance
_DOUBT = 0.5  # of a held-out row, for either side: a new row may repeat one although none of these did


def find_repeats(
    parameters: LearnerParameters,
    rows: GivenRows,
    network: Network,
    log_p_of: Callable[[NDArray[np.intp]], Floats] | None = None,
) -> Repeats | None:
    """The rows that new ones repeat, if they are asked for, or if held-out rows are clearly likelier with them beside the network.

    ``rows`` are divided; the network has not learned from those that are held out. ``log_p_of`` tells what a mixture says of those with these
    numbers, if the network is one of its members.
    """
    if not parameters.repeats or not _is_possible(rows):
        return None
    assert rows.valid is not None
    bits, weight = _complete(rows.train)
    if not bits.n_rows:
        return None
    known = Repeats.of(bits, weight)
    held = np.arange(rows.valid.n_rows)
    if rows.valid.missing is not None:
        held = np.flatnonzero(~rows.valid.missing.rows.any(axis=1))
    row_weight = np.ones(len(held)) if rows.valid.weight is None else rows.valid.weight[held]
    held, row_weight = held[row_weight > 0], row_weight[row_weight > 0]
    n = row_weight.sum() ** 2 / (row_weight**2).sum() if len(held) else 0.0  # as many equal weights tell as much
    number = known.find(rows.valid.bits.take(held))
    again = number < len(known)
    if _is_auto(parameters) and (n < _ENOUGH or not again.any()):
        return None
    share, gain, error = 0.0, 0.0, 0.0
    if again.any():
        log_p = np.zeros((len(held), 2))  # of rows that repeat none only the second counts
        if log_p_of is None:
            log_p[again, 0] = network.log_likelihood(rows.valid.bits.take(held[again]).unpack(), parameters.n_jobs)
        else:
            log_p[again, 0] = log_p_of(held[again])
        log_p[:, 1] = np.where(again, UNIT * np.append(known.log_p, 0)[number], -np.inf)
        share = float(best_weights(log_p, row_weight)[1])
    share = float((share * n + _DOUBT) / (n + 2 * _DOUBT))
    if again.any():
        gains = np.logaddexp(np.log1p(-share) + log_p[:, 0], np.log(share) + log_p[:, 1]) - log_p[:, 0]
        gain = float(np.average(gains, weights=row_weight))
        error = float(np.sqrt((row_weight**2 * (gains - gain) ** 2).sum()) / row_weight.sum())
    found = replace(known, share=share, gain=gain)
    if _is_auto(parameters):
        some = held[np.unique(np.linspace(0, len(held) - 1, _LOOKED_AT).astype(np.intp))]
        if gain <= _CLEARLY * error or _is_too_certain(
            network, found, rows.valid.bits.take(some).unpack(), parameters.n_jobs
        ):
            return None
    if parameters.refit:
        bits, weight = _complete(rows.train + rows.valid)
        return Repeats.of(bits, weight, share, gain)
    return found


def _is_too_certain(network: Network, repeats: Repeats, rows: Cells, n_jobs: int | None) -> bool:
    """Whether values that are next to impossible if rows repeat occur more often than they should, and than they do without.

    A row that begins as another and then differs, because it is almost a copy, would be such a surprise.
    """
    alone = network.surprise(rows, n_jobs)
    without, _ = _unexpected(alone)
    found, variance = _unexpected(Repeating(network, repeats).surprise_beside(rows, alone))
    return bool((found > np.maximum(without, 0) + _CLEARLY * np.sqrt(variance) + 1).any())


def _unexpected(surprise: Floats) -> tuple[Floats, Floats]:
    """How many more values than expected were the rarer one, of those below each threshold, and the variance of that."""
    p, other = np.exp(-surprise), -np.expm1(-surprise)
    rarer = np.minimum(p, other)
    below = [rarer < threshold for threshold in _RARE]
    excess = [np.count_nonzero(own & (p < 0.5)) - rarer[own].sum() for own in below]
    return np.array(excess), np.array([(rarer[own] * (1 - rarer[own])).sum() for own in below])


def check_repeats(parameters: LearnerParameters, rows: GivenRows) -> None:
    """Rows are refused that cannot be kept although they are asked for."""
    if parameters.repeats and not _is_auto(parameters) and not _is_possible(rows):
        raise ValueError(
            "repeats=True is for tables of 0 and 1 (with missing='unknown' if some are empty); leave it at 'auto', which keeps no rows of others"
        )


def _is_possible(rows: GivenRows) -> bool:
    return rows.book.is_binary


def _is_auto(parameters: LearnerParameters) -> bool:
    return isinstance(parameters.repeats, str)


def renewed(repeats: Repeats, rows: TrainingRows) -> Repeats:
    """Of other rows, which repeat as often."""
    bits, weight = _complete(rows)
    return Repeats.of(bits, weight, repeats.share, repeats.gain) if bits.n_rows else repeats


def _complete(rows: TrainingRows) -> tuple[PackedBits, Floats | None]:
    """Rows without missing values, and their weights."""
    if rows.missing is not None:
        rows = replace(rows.take(np.flatnonzero(~rows.missing.rows.any(axis=1))), missing=None)
    if rows.weight is not None:
        rows = rows.take(np.flatnonzero(rows.weight > 0))
    return rows.bits, rows.weight
