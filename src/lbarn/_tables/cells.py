"""How the values of a column are shared out among cells: trees that halve the mass, and Huffman's."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Node", "equal_mass", "huffman", "shifted"]

Node = tuple[int, int, int]  # (low, cut, high), in cells: see CodeTree

Floats = NDArray[np.float64]


def equal_mass(mass: Floats, max_cells: int, min_rows: float) -> tuple[NDArray[np.intp], list[Node]]:
    """Sorted distinct values with these numbers of rows, in at most ``max_cells`` cells of neighbours.

    The heaviest cell is cut next, where its mass halves and never inside a value, until there are enough cells or none has
    ``min_rows`` rows and two values. Returns the first value of every cell, and the nodes of the tree, parents first.

    Examples
    --------
    >>> import numpy as np
    >>> first, nodes = equal_mass(np.array([90.0, 5.0, 4.0, 1.0]), 3, 2.0)
    >>> first.tolist(), nodes
    ([0, 1, 2], [(0, 1, 3), (1, 2, 3)])
    """
    upto = np.concatenate([[0.0], np.cumsum(mass)])
    cuts: dict[tuple[int, int], int] = {}
    waiting = [(-upto[-1], 0, len(mass))]
    while waiting and len(cuts) + 1 < max_cells:
        weight, a, b = heapq.heappop(waiting)
        if -weight < min_rows or b - a < 2:
            continue
        half = (upto[a] + upto[b]) / 2
        cut = int(np.clip(np.searchsorted(upto[a : b + 1], half) + a, a + 1, b - 1))
        if cut - 1 > a and half - upto[cut - 1] <= upto[cut] - half:
            cut -= 1
        cuts[a, b] = cut
        heapq.heappush(waiting, (upto[a] - upto[cut], a, cut))
        heapq.heappush(waiting, (upto[cut] - upto[b], cut, b))
    first = np.array(sorted({0, *cuts.values()}), dtype=np.intp)
    cell = {int(value): k for k, value in enumerate(first)} | {len(mass): len(first)}
    ranges = [(0, len(mass))]
    nodes: list[Node] = []
    while ranges:
        a, b = ranges.pop()
        if (a, b) in cuts:
            cut = cuts[a, b]
            nodes.append((cell[a], cell[cut], cell[b]))
            ranges += [(cut, b), (a, cut)]
    return first, nodes


def huffman(mass: Floats) -> tuple[list[int], list[Node]]:
    """Huffman's tree over levels with these numbers of rows: the level in every cell, and the nodes, parents first.

    Examples
    --------
    >>> import numpy as np
    >>> huffman(np.array([1.0, 5.0, 2.0]))
    ([1, 2, 0], [(0, 1, 3), (1, 2, 3)])
    """
    waiting: list[tuple[float, int, Any]] = [(float(m), k, k) for k, m in enumerate(mass)]
    heapq.heapify(waiting)
    made = len(mass)
    while len(waiting) > 1:
        light, heavy = heapq.heappop(waiting), heapq.heappop(waiting)
        heapq.heappush(waiting, (light[0] + heavy[0], made, (heavy[2], light[2])))
        made += 1
    order: list[int] = []
    nodes: list[Node] = []
    trees: list[Any] = [waiting[0][2]]
    while trees:  # depth first, the heavier side first: cells are numbered in passing
        tree = trees.pop()
        if not isinstance(tree, tuple):
            order.append(tree)
            continue
        low = len(order)
        cut = low + _leaves(tree[0])
        nodes.append((low, cut, cut + _leaves(tree[1])))
        trees += [tree[1], tree[0]]
    return order, nodes


def _leaves(tree: Any) -> int:
    count, trees = 0, [tree]
    while trees:
        tree = trees.pop()
        if isinstance(tree, tuple):
            trees += tree
        else:
            count += 1
    return count


def shifted(nodes: Sequence[Node], by: int) -> list[Node]:
    """The same nodes where ``by`` cells come first."""
    return [(low + by, cut + by, high + by) for low, cut, high in nodes]
