"""Which columns depend on each other, for a picture of a circle."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._network.network import Distribution

__all__ = ["strongest_links"]

_MAX_LINKS = 40
_WEAKEST = 0.002  # share of all gain below which a link is not told


def strongest_links(distribution: Distribution) -> dict[str, Any]:
    """The strongest links, each with its share of the gain of all splits, and their columns in an order for a circle."""
    gain = distribution.importance().toarray()
    both = np.triu(np.maximum(gain, 0.0) + np.maximum(gain, 0.0).T, 1)
    total = both.sum()
    if not total > 0:
        return {"links": [], "around": []}
    a, b = np.nonzero(both)
    strength = both[a, b] / total
    kept = [k for k in np.argsort(-strength, kind="stable")[:_MAX_LINKS] if strength[k] >= _WEAKEST]
    links = [{"a": int(a[k]), "b": int(b[k]), "share": round(float(strength[k]), 5)} for k in kept]
    return {"links": links, "around": _around(links, len(both))}


def _around(links: list[dict[str, Any]], n: int) -> list[int]:
    """The columns so that linked ones are near each other: each is put at the better end of the chain."""
    weight: NDArray[np.float64] = np.zeros((n, n))
    for link in links:
        weight[link["a"], link["b"]] = weight[link["b"], link["a"]] = link["share"]
    waiting = [j for j in range(n) if weight[j].any()]
    if not waiting:
        return []
    chain = [max(waiting, key=lambda j: float(weight[j].sum()))]
    waiting.remove(chain[0])
    near = 0.5 ** np.arange(n)
    while waiting:
        ends = chain, chain[::-1]
        best = max(
            ((j, side) for j in waiting for side in (0, 1)),
            key=lambda one: float(weight[one[0], ends[one[1]]] @ near[: len(chain)]),
        )
        waiting.remove(best[0])
        chain.insert(0 if best[1] == 0 else len(chain), best[0])
    return chain
