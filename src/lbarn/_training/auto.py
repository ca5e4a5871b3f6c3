"""``"auto"``: the number of leaves and the learning rate that validate best, without training every candidate in full.

Dimensions are independent problems, so a candidate that is hopeless on a part of them is not trained on the rest. Half
of the candidates go after an eighth of the dimensions, half of those that are left after a quarter, and after a half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.conditional import Boosting, Conditional
from lbarn._training.curves import curves, is_rising
from lbarn._training.selection import select

__all__ = ["LEAF_GRID", "RATE_LADDER", "search", "search_each"]

LEAF_GRID = (2, 4, 8, 16, 32, 64, 128)
RATE_LADDER = (0.02, 0.05, 0.1, 0.2, 0.5)

Train = Callable[[Sequence[int], Boosting], dict[int, Conditional]]


def _rungs(n: int) -> list[list[int]]:
    """Positions in four growing parts, one part where there are few. Shuffled, always alike: an image's every eighth
    pixel may be its margin."""
    positions = np.random.default_rng(0).permutation(n).tolist()
    if n < 16:
        return [positions]
    eighth = -(-n // 8)
    return [
        positions[:eighth],
        positions[eighth : 2 * eighth],
        positions[2 * eighth : 4 * eighth],
        positions[4 * eighth :],
    ]


def search(
    n_positions: int, how: Boosting, leaves: Sequence[int], rates: Sequence[float], selection: str, train: Train
) -> tuple[Boosting, dict[int, Conditional], list[dict[str, Any]]]:
    """The best candidate, all of its conditionals, and the table of what was tried."""
    rungs = _rungs(n_positions)
    tried: list[dict[str, Any]] = []

    def curves_of(candidate: Boosting) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        done = trained[candidate]  # in the order in which they finished, on which nothing may depend
        return curves([done[position] for position in sorted(done)], how.max_iter)

    def judge(candidate: Boosting) -> float:
        train_curves, valid_curves = curves_of(candidate)
        n_trees = select(selection, train_curves, valid_curves)
        value = float(valid_curves[np.arange(len(n_trees)), n_trees].sum())
        tried.append(
            {
                "max_leaf_nodes": candidate.max_leaf_nodes,
                "learning_rate": candidate.learning_rate,
                "n_dimensions": len(n_trees),
                "valid_log_likelihood": value,
            }
        )
        return value

    for rate in rates:
        candidates = [replace(how, max_leaf_nodes=J, learning_rate=rate) for J in leaves]
        trained = {candidate: train(rungs[0], candidate) for candidate in candidates}
        candidates.sort(key=judge, reverse=True)
        if not is_rising(curves_of(candidates[0])[1]):
            break
    for rung in rungs[1:]:
        candidates = candidates[: -(-len(candidates) // 2)]
        for candidate in candidates:
            trained[candidate] |= train(rung, candidate)
        candidates.sort(key=judge, reverse=True)
    return candidates[0], trained[candidates[0]], tried


def search_each(
    n_positions: int, how: Boosting, leaves: Sequence[int], rates: Sequence[float], train: Train
) -> tuple[Boosting, dict[int, Conditional], dict[int, int], list[dict[str, Any]]]:
    """For every dimension the number of leaves whose conditional validates best, at the one learning rate for all.

    Also the conditionals, the number of leaves of each, and the table of what was tried.
    """
    first = _rungs(n_positions)[0]
    best: dict[int, Conditional] = {}
    chosen: dict[int, int] = {}
    tried: list[dict[str, Any]] = []

    def try_on(positions: Sequence[int], J: int, rate: float) -> None:
        """Keeps what is better than what there is; all candidates together would take a lot of memory."""
        trained = train(positions, replace(how, max_leaf_nodes=J, learning_rate=rate))
        for position, conditional in trained.items():
            if position not in best or _validated(conditional) > _validated(best[position]):
                best[position], chosen[position] = conditional, J
        tried.append(
            {
                "max_leaf_nodes": J,
                "learning_rate": rate,
                "n_dimensions": len(trained),
                "valid_log_likelihood": sum(_validated(trained[position]) for position in sorted(trained)),
            }
        )

    for rate in rates:
        best.clear()
        for J in leaves:
            try_on(first, J, rate)
        if not is_rising(curves([best[position] for position in sorted(first)], how.max_iter)[1]):
            break
    rest = [position for position in range(n_positions) if position not in first]
    for J in leaves if rest else ():
        try_on(rest, J, rate)
    return replace(how, max_leaf_nodes=max(chosen.values()), learning_rate=rate), best, chosen, tried


def _validated(conditional: Conditional) -> float:
    return float(conditional.valid_curve.max())
