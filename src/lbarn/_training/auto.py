"""``"auto"``: the number of leaves and the learning rate that validate best, without training every candidate in full.

Dimensions are independent problems, so a candidate that is hopeless on a part of them is not trained on the rest. Half
of the candidates go after an eighth of the dimensions, half of those that are left after a quarter, and after a half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lbarn._engine.conditional import Boosting, Conditional
from lbarn._training.curves import curves, is_rising

__all__ = ["LEAF_GRID", "RATE_LADDER", "Columns", "in_sequence", "search", "search_each"]

LEAF_GRID = (2, 4, 8, 16, 32, 64, 128)
RATE_LADDER = (0.02, 0.05, 0.1, 0.2, 0.5)

Columns = dict[int, tuple[Conditional, ...]]  # the conditionals of every column, by its place in the order
Train = Callable[[Sequence[int], Boosting], Columns]
Judge = Callable[[Columns], float]  # the validation log-likelihood after selection


def _rungs(places: Sequence[int]) -> list[list[int]]:
    """Columns in four growing parts, one part where there are few. Shuffled, always alike: an image's every eighth
    pixel may be its margin."""
    n = len(places)
    positions = [places[k] for k in np.random.default_rng(0).permutation(n).tolist()]
    if n < 16:
        return [positions]
    eighth = -(-n // 8)
    return [
        positions[:eighth],
        positions[eighth : 2 * eighth],
        positions[2 * eighth : 4 * eighth],
        positions[4 * eighth :],
    ]


def in_sequence(columns: Columns) -> list[Conditional]:
    """All conditionals, by place in the order: not as they were finished, on which nothing may depend."""
    return [conditional for place in sorted(columns) for conditional in columns[place]]


def search(
    places: Sequence[int],
    how: Boosting,
    leaves: Sequence[int | None],
    rates: Sequence[float],
    judge: Judge,
    train: Train,
) -> tuple[Boosting, Columns, list[dict[str, Any]]]:
    """The best candidate for the columns at these places, all of its conditionals, and the table of what was tried."""
    rungs = _rungs(places)
    tried: list[dict[str, Any]] = []

    def judged(candidate: Boosting) -> float:
        value = judge(trained[candidate])
        tried.append(
            {
                "max_leaf_nodes": candidate.max_leaf_nodes,
                "learning_rate": candidate.learning_rate,
                "n_dimensions": len(trained[candidate]),
                "valid_log_likelihood": value,
            }
        )
        return value

    for rate in rates:
        candidates = [replace(how, max_leaf_nodes=J, learning_rate=rate) for J in leaves]
        trained = {candidate: train(rungs[0], candidate) for candidate in candidates}
        candidates.sort(key=judged, reverse=True)
        if not is_rising(curves(in_sequence(trained[candidates[0]]), how.max_iter)[1]):
            break
    for rung in rungs[1:]:
        candidates = candidates[: -(-len(candidates) // 2)]
        for candidate in candidates:
            trained[candidate] |= train(rung, candidate)
        candidates.sort(key=judged, reverse=True)
    return candidates[0], trained[candidates[0]], tried


def search_each(
    places: Sequence[int],
    how: Boosting,
    leaves: Sequence[int],
    rates: Sequence[float],
    judge: Judge,
    train: Train,
    pooled: float,
) -> tuple[Boosting, Columns, dict[int, int], list[dict[str, Any]]]:
    """For every column the number of leaves whose conditionals validate best, at the one learning rate for all.

    Few validation rows would choose noise, so what an eighth of the columns say on the whole counts too, as ``pooled`` times a column's own rows.
    Also the conditionals, the number of leaves of each, and the table of what was tried.
    """
    first = _rungs(places)[0]
    best: Columns = {}
    chosen: dict[int, int] = {}
    score: dict[int, float] = {}
    mean: dict[int, float] = {}  # over the columns of the first part, by the number of leaves
    tried: list[dict[str, Any]] = []

    def values(trained: Columns) -> dict[int, float]:
        return {place: judge({place: trained[place]}) for place in sorted(trained)}

    def keep_better(J: int, rate: float, trained: Columns, value: dict[int, float]) -> None:
        """All candidates together would take a lot of memory."""
        for place, own in trained.items():
            found = value[place] + pooled * mean[J]
            if place not in best or found > score[place]:
                best[place], chosen[place], score[place] = own, J, found
        tried.append(
            {
                "max_leaf_nodes": J,
                "learning_rate": rate,
                "n_dimensions": len(trained),
                "valid_log_likelihood": sum(value.values()),
            }
        )

    for rate in rates:
        best.clear()
        trained = {J: train(first, replace(how, max_leaf_nodes=J, learning_rate=rate)) for J in leaves}
        value = {J: values(trained[J]) for J in leaves}
        mean.update({J: sum(value[J].values()) / len(first) for J in leaves})
        for J in leaves:
            keep_better(J, rate, trained[J], value[J])
        if not is_rising(curves(in_sequence(best), how.max_iter)[1]):
            break
    rest = [place for place in places if place not in first]
    for J in leaves if rest else ():
        others = train(rest, replace(how, max_leaf_nodes=J, learning_rate=rate))
        keep_better(J, rate, others, values(others))
    return replace(how, max_leaf_nodes=max(chosen.values()), learning_rate=rate), best, chosen, tried
