"""Binary columns that exclude each other: one category in disguise, found in the training rows.

**What counts as evidence.** If columns had nothing to do with each other, the ``k`` ones of a column would all fall on rows where none
of a group's columns is 1, a share ``s`` of the rows, with probability ``s**k``. That is ``k ln(1 / s)`` nats of evidence for
its being one of the group, from which ``ln D`` is taken because it was chosen among ``D`` columns. A group in which some column
is 1 in every row needs 20 nats in all; one without needs 20 for every column that joins it, so that columns that are merely rare, or
rows that are few, never make a group. No validation row may break the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.rows import Group, TrainingData, TrainingRows

__all__ = ["find_groups"]

_EVIDENCE = 20.0  # nats
_FIRST_MEMBERS = 8  # that are tried beside a column before it counts as one without an exact group
_MOST_WORK = 2e10  # words looked at; beyond that nothing is looked for

Words = NDArray[np.uint64]

_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)  # of every byte


def _count(words: Words) -> int:
    return int(_BITS[np.ascontiguousarray(words).view(np.uint8)].sum())


def find_groups(
    groups: str | Sequence[Any] | None, data: TrainingData, column_number: Callable[[Any], int]
) -> tuple[Group, ...]:
    """The groups that ``LBARN.groups`` asks for, by number of the column."""
    if groups is None:
        return ()
    binary = np.array([k for k, tree in enumerate(data.layout.columns) if tree.is_binary], dtype=np.intp)
    if not isinstance(groups, str):
        return _given(groups, data, binary, column_number)
    train, valid = _ones(data.train, binary), _ones(data.valid, binary)
    found = [members for members in _found(train) if not _breaks(valid, members)]
    exact = [_covers(train, members) and _covers(valid, members) for members in found]
    # No row has broken a rule, so what they say about it is pooled: half a row in all that could have.
    chances = sum(_chances(rows, members)[0] for rows in (train, valid) for members in found)
    log_odds = -float(np.log(2 * chances + 1))
    return tuple(Group(tuple(binary[own].tolist()), whole, log_odds) for own, whole in zip(found, exact))


def _given(
    groups: Sequence[Any], data: TrainingData, binary: NDArray[np.intp], column_number: Callable[[Any], int]
) -> tuple[Group, ...]:
    """Groups of the user's own; training rows may break their rules."""
    lists = [groups] if groups and not any(isinstance(own, (list, tuple, np.ndarray)) for own in groups) else groups
    place = {int(k): i for i, k in enumerate(binary)}
    result, taken = [], set[int]()
    rows = [_ones(data.train, binary), _ones(data.valid, binary)]
    for own in lists:
        columns = sorted({column_number(label) for label in own})
        wrong = [label for label in own if column_number(label) not in place]
        if wrong:
            raise ValueError(f"groups: column {wrong[0]!r} is not binary, and only binary columns exclude each other")
        if len(columns) < 2 or len(columns) != len(own) or taken & set(columns):
            raise ValueError("groups: each must name at least two columns, none of which is named twice")
        taken |= set(columns)
        members = [place[j] for j in columns]
        chances, broken = map(sum, zip(*(_chances(part, members) for part in rows)))
        exact = broken == 0 and all(_covers(part, members) for part in rows)
        result.append(Group(tuple(columns), exact, float(np.log((broken + 0.5) / (chances - broken + 0.5)))))
    return tuple(result)


class _Ones:
    """Where binary columns are 1, and where they are known, among the rows that count."""

    def __init__(self, ones: Words, missing: Words | None, n_rows: int) -> None:
        self.words, self.missing, self.n_rows = ones, missing, n_rows
        self.counts = np.array([_count(own) for own in ones], dtype=np.int64)


def _ones(rows: TrainingRows, binary: NDArray[np.intp]) -> _Ones:
    counted = None if rows.weight is None else np.flatnonzero(rows.weight > 0)
    missing: PackedBits | None = None
    if rows.cells is not None:
        cells = rows.cells[binary] if counted is None else rows.cells[np.ix_(binary, counted)]
        ones, missing = pack(cells.T == 1), pack(cells.T > 1)
    else:
        ones, missing = rows.bits, rows.missing
        if counted is not None:
            ones, missing = ones.take(counted), None if missing is None else missing.take(counted)
    words = ones.columns
    if missing is not None and missing.rows.any():
        return _Ones(words & ~missing.columns, missing.columns, ones.n_rows)
    return _Ones(words, None, ones.n_rows)


def _found(rows: _Ones) -> Iterable[list[int]]:
    """Groups of the columns of training rows: first those that are exact, then others among what is left."""
    n, count = rows.n_rows, len(rows.counts)
    varying = np.flatnonzero((rows.counts > 0) & (rows.counts < n))
    varying = varying[np.argsort(-rows.counts[varying], kind="stable")]
    if len(varying) < 2 or float(len(varying)) ** 2 * rows.words.shape[1] > _MOST_WORK:
        return []
    search = _Search(rows, float(np.log(count)))
    taken = np.zeros(count, np.bool_)
    found: list[list[int]] = []
    for exact in (True, False):
        for place, seed in enumerate(varying.tolist()):
            if not taken[seed] and search.may_grow(seed, exact):
                rarer = varying[place + 1 :]
                members = search.grown(seed, rarer[~taken[rarer]], exact)
                taken[members] = True
                if members:
                    found.append(sorted(members))
    return sorted(found)


class _Search:
    def __init__(self, rows: _Ones, choice: float) -> None:
        self._rows, self._choice = rows, choice

    def may_grow(self, seed: int, exact: bool) -> bool:
        """Whether a column that is as common could be evidence enough."""
        n, ones = self._rows.n_rows, int(self._rows.counts[seed])
        return ones * float(np.log(n / (n - ones))) - self._choice > (0.0 if exact else _EVIDENCE)

    def grown(self, seed: int, rarer: NDArray[np.intp], exact: bool) -> list[int]:
        """The group of a column and some of those that are no more common, most common ones first; empty if there is none."""
        others = self._free(rarer, self._rows.words[seed])
        if exact and self._rows.counts[seed] + self._rows.counts[others].sum() < self._rows.n_rows:
            return []  # all together do not cover the rows
        for first in others[: _FIRST_MEMBERS if exact else 1].tolist():
            members = self._joined(seed, first, others, exact)
            if members:
                return members
        return []

    def _free(self, columns: NDArray[np.intp], union: Words) -> NDArray[np.intp]:
        """Those that are never 1 where the union is."""
        return columns[~(self._rows.words[columns] & union).any(axis=1)]

    def _joined(self, seed: int, first: int, others: NDArray[np.intp], exact: bool) -> list[int]:
        rows, members, union = self._rows, [seed], self._rows.words[seed].copy()
        free, n = int(rows.n_rows - rows.counts[seed]), rows.n_rows
        evidence, joins = 0.0, first
        while True:
            gain = float(rows.counts[joins] * np.log(n / free)) - self._choice
            if gain <= (0.0 if exact else _EVIDENCE):
                break
            evidence += gain
            members.append(joins)
            union |= rows.words[joins]
            free -= int(rows.counts[joins])
            others = self._free(others[others != joins], union)
            if not len(others) or free == 0:
                break
            joins = int(others[0])
        if exact and (free > 0 or evidence < _EVIDENCE):
            return []
        return members if len(members) > 1 else []


def _union(rows: _Ones, members: Sequence[int]) -> Words:
    return np.bitwise_or.reduce(rows.words[list(members)], axis=0)


def _breaks(rows: _Ones, members: Sequence[int]) -> bool:
    """Whether some row has more than one of the members."""
    return int(rows.counts[list(members)].sum()) > _count(_union(rows, members))


def _covers(rows: _Ones, members: Sequence[int]) -> bool:
    """Whether every row has one of the members, and all are known."""
    known = rows.missing is None or not rows.missing[list(members)].any()
    return known and _count(_union(rows, members)) == rows.n_rows


def _chances(rows: _Ones, members: Sequence[int]) -> tuple[int, int]:
    """How often a member could have been 1 after another one was, and how often it was."""
    before, chances, broken = np.zeros_like(rows.words[0]), 0, 0
    for j in members:
        chances += _count(before)
        broken += _count(before & rows.words[j])
        before |= rows.words[j]
    return chances, broken
