"""Rows that repeat: those of the training rows as they are, beside a network that learns how columns depend on each other.

A copy of an earlier row is likelier than any network makes it, if copies are made by something that the columns do not show: pages of
the same site, genes of the same family, the same purchase once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.codetree import UNKNOWN, Cells, Layout
from lbarn._engine.trees import UNIT
from lbarn._network.bitsback import MixtureCodec
from lbarn._network.codec import Codec, Submit, whole_weights
from lbarn._network.conditioning import Answer, Effort
from lbarn._network.envelope import new_digest
from lbarn._network.mixture import Mixture, mixed
from lbarn._network.network import Given, GivenChunk, Network, given_by_conditioning

__all__ = ["Repeating", "Repeats"]

Floats = NDArray[np.float64]

_NEVER = -(1 << 50)  # log p of a row that is not there, in units of 2^-30: lower than any that is
_COMPARED = 1 << 22  # pairs of rows that are compared at a time
_EXACT = Effort(64)  # is enough where nothing is estimated
_TOLERATED = 1e-6  # nats between what a file says of weights and what they are
_SOFT = 2.0**-30  # logarithms of what was seen are multiples of it: sums are exact, in any order


@dataclass(frozen=True, eq=False)
class Repeats:
    """``P(x) = weight of the row that is equal to x / weight of all``, of different rows of binary columns, as these were given.

    A new row is one of them with probability ``share``, which made rows that were held out likelier by ``gain`` nats. ``log_p`` are the
    logarithms of the rows' probabilities in units of 2^-30: whole numbers, so that every machine codes with the same.
    """

    bits: PackedBits
    weight: Floats
    log_p: NDArray[np.int64]
    share: float
    gain: float

    @classmethod
    def of(cls, bits: PackedBits, weight: Floats | None = None, share: float = 0.0, gain: float = 0.0) -> Repeats:
        """Of rows some of which may be equal."""
        _, first, which = np.unique(_keys(bits.rows), return_index=True, return_inverse=True)
        total = np.bincount(which.ravel(), weight, len(first)).astype(np.float64)
        log_p = np.floor(np.log(total / total.sum()) / UNIT).astype(np.int64)
        return cls(bits.take(first), total, log_p, share, gain)

    def __getstate__(self) -> dict[str, object]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # what was derived from them stays here

    def __len__(self) -> int:
        """Different rows."""
        return len(self.weight)

    @property
    def n_columns(self) -> int:
        return self.bits.n_columns

    def is_sound(self) -> bool:
        """Whether its parts, from a file, belong together: rows are different and sorted, and weights are what ``log_p`` says."""
        keys = self._sorted_keys
        with np.errstate(all="ignore"):
            said = np.abs(UNIT * self.log_p - np.log(self.weight / self.weight.sum()))
        last, used = divmod(self.n_columns, 8)
        no_more = used == 0 or not (self.bits.rows[:, last] >> used).any()
        return bool((self.weight > 0).all() and (said < _TOLERATED).all() and (keys[1:] > keys[:-1]).all() and no_more)

    @cached_property
    def _sorted_keys(self) -> NDArray[np.bytes_]:
        return _keys(self.bits.rows)

    @cached_property
    def cells(self) -> NDArray[np.uint8]:
        """All rows, each bit a byte."""
        return self.bits.unpack()

    @cached_property
    def _words(self) -> NDArray[np.uint64]:
        """Sixty-four bits of all rows after the other, (words, rows)."""
        return np.ascontiguousarray(self.bits.rows.view(np.uint64).T)

    @cached_property
    def _odds(self) -> Floats:
        return self.weight / self.weight.sum()

    def find(self, rows: PackedBits) -> NDArray[np.intp]:
        """Which row each of these is, or how many there are if it is none."""
        return _found(self._sorted_keys, _keys(rows.rows))

    def log_shares(self, rows: Cells) -> NDArray[np.int64]:
        """log p of every row, in units of 2^-30."""
        return np.append(self.log_p, _NEVER)[self.find(pack(rows))]

    def log_likelihood(self, rows: Cells, unknown: NDArray[np.bool_] | None = None) -> Floats:
        """log p of every row, in nats, -inf of those that are not there; of the values that are there, if some are unknown."""
        log_p = np.append(UNIT * self.log_p, -np.inf)[self.find(pack(rows))]
        if unknown is not None:
            gaps = np.flatnonzero(unknown.any(axis=1))
            log_p[gaps] = -np.inf
            for part, _, joint in self._joint(Given(rows, unknown), gaps):
                log_p[part] = logsumexp(joint, axis=1)
        return log_p

    def draw(self, n: int, random: np.random.RandomState) -> NDArray[np.uint8]:
        return self.bits.take(random.choice(len(self), n, p=self._odds)).unpack()

    def answer(self, given: Given, random: np.random.RandomState, like: Answer) -> Answer:
        """What the unknown bits of rows may be if they are rows that repeat; ``like`` is what is answered if they are not."""
        n, D = given.cells.shape
        unknown = np.zeros((n, D), np.bool_) if given.unknown is None else given.unknown
        probability = np.where(unknown, 0.0, given.cells == 1)
        draws = np.broadcast_to(given.cells.astype(np.uint8), (len(like.draws), n, D)).copy()
        log_marginal = np.full(n, -np.inf)
        places = random.random_sample((len(like.draws), n))
        for part, own, joint in self._joint(given, np.arange(n)):
            log_marginal[part] = logsumexp(joint, axis=1)
            shares = np.exp(joint - log_marginal[part, None])
            cells = self.cells[own]
            ones = np.minimum(shares @ cells.astype(np.float64), 1.0)
            probability[part] = np.where(unknown[part], ones, probability[part])
            for row, share in zip(part, shares):
                upto = np.cumsum(share)
                chosen = np.searchsorted(upto, places[:, row] * upto[-1], side="right")
                draws[:, row] = cells[np.minimum(chosen, len(own) - 1)]
        return Answer(probability, draws, log_marginal, like.method, np.full(n, np.inf))

    def _joint(
        self, given: Given, rows: NDArray[np.intp]
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Floats]]:
        """Those of some rows that may repeat one, a few at a time; which ones they may be; log P(it is that one, and what was seen), for each pair."""
        step = max(1, _COMPARED // len(self))
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            seen = _seen(given.take(part))
            agreeing = [self._agreeing(one) for one in seen]
            there = np.flatnonzero([len(own) for own in agreeing])
            if not len(there):
                continue
            asked = np.zeros(len(self), np.bool_)
            for numbers in agreeing:
                asked[numbers] = True
            own, place = np.flatnonzero(asked), np.cumsum(asked) - 1
            soft = _SOFT * np.round(np.log(np.where(seen == 0, 1.0, seen)[there]) / _SOFT)
            agree = np.full((len(there), len(own)), -np.inf)
            for i, row in enumerate(there):
                agree[i, place[agreeing[row]]] = 0.0
            agree += UNIT * self.log_p[own]
            if soft.any():
                agree += soft[:, 0].sum(axis=1)[:, None]
                block = max(1, _COMPARED // self.n_columns)
                for first in range(0, len(own), block):
                    ones = self.bits.take(own[first : first + block]).unpack().astype(np.float64)
                    agree[:, first : first + block] += (soft[:, 1] - soft[:, 0]) @ ones.T
            yield part[there], own, agree

    def _agreeing(self, seen: Floats) -> NDArray[np.intp]:
        """Which rows one may be of which this was seen: word after word, of those that are left."""
        if (seen == 0).all(axis=0).any():
            return np.zeros(0, np.intp)
        value, known = (pack(own[None]).rows.view(np.uint64)[0] for own in (seen[0] == 0, (seen == 0).any(axis=0)))
        words = np.flatnonzero(known)
        if not len(words):
            return np.arange(len(self))
        words = words[np.argsort([-int(known[w]).bit_count() for w in words], kind="stable")]
        left = np.flatnonzero((self._words[words[0]] ^ value[words[0]]) & known[words[0]] == 0)
        for w in words[1:]:
            left = left[(self._words[w, left] ^ value[w]) & known[w] == 0]
        return left

    def fingerprint(self) -> bytes:
        digest = new_digest(16)
        digest.update(self.bits.rows.tobytes())
        digest.update(self.weight.astype("<f8").tobytes() + self.log_p.astype("<i8").tobytes())
        return digest.digest()


def _seen(given: Given) -> Floats:
    """How likely what was seen of every bit is if it is 0 and if it is 1, (rows, 2, columns)."""
    n, D = given.cells.shape
    unknown = np.zeros((n, D), np.bool_) if given.unknown is None else given.unknown
    seen = np.stack([unknown | (given.cells != 1), unknown | (given.cells == 1)], axis=1).astype(np.float64)
    for j, likelihood in given.likelihood.items():
        own = np.broadcast_to(likelihood, (n, 2))
        seen[:, :, j] = np.where(unknown[:, j, None], own, seen[:, :, j])
    return seen


def _keys(rows: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Packed rows as strings of bytes, which can be sorted."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}")[:, 0]


def _found(known: NDArray[np.bytes_], keys: NDArray[np.bytes_]) -> NDArray[np.intp]:
    """Where each key is among sorted ones, or their number."""
    place = np.searchsorted(known, keys)
    there = known[np.minimum(place, len(known) - 1)] == keys
    return np.where(there, place, len(known))


class _Beginnings:
    """How often the rows that repeat begin like others, column by column in an order.

    They are sorted as the columns follow each other, so that those that begin alike stand together, first all that go on with 0.
    """

    def __init__(self, repeats: Repeats, order: NDArray[np.intp]) -> None:
        cells = repeats.cells[:, order]
        place = np.argsort(_keys(np.packbits(cells, axis=1)), kind="stable")
        self._cells, self._order = np.asfortranarray(cells[place]), order
        self._upto = np.concatenate([[0.0], np.cumsum(repeats.weight[place] / repeats.weight.sum())])
        differ = self._cells[1:] != self._cells[:-1]
        first = differ.argmax(axis=1)  # column in which a row differs from the one before it
        self._parted = np.argsort(first, kind="stable") + 1  # rows by that column
        self._ends = np.searchsorted(first[self._parted - 1], np.arange(len(order) + 1))

    def masses(self, rows: Cells) -> Iterator[tuple[Floats, Floats, Floats]]:
        """For every column of the order: P of what each row holds before it, of that and of a 1 there, of that and of its own value."""
        n = len(self._cells)
        low, high = np.zeros(len(rows), np.intp), np.full(len(rows), n)
        for k, j in enumerate(self._order):
            parted = np.append(self._parted[self._ends[k] : self._ends[k + 1]], n)
            ones = parted[np.searchsorted(parted[:-1], low, side="right")]  # the first of these, if there are zeros too
            alike = np.where(self._cells[np.minimum(low, n - 1), k] == 1, low, high)
            ones = np.where(ones < high, ones, alike)
            before, with_one = self._upto[high] - self._upto[low], self._upto[high] - self._upto[ones]
            is_one = rows[:, j] == 1
            low, high = np.where(is_one, ones, low), np.where(is_one, high, ones)
            yield before, with_one, self._upto[high] - self._upto[low]


@dataclass(frozen=True, eq=False)
class Repeating:
    """``P(x) = (1 - share) P_model(x) + share P_repeats(x)``."""

    model: Network | Mixture
    repeats: Repeats

    def __getstate__(self) -> dict[str, object]:
        return {own.name: getattr(self, own.name) for own in fields(self)}

    @property
    def n_columns(self) -> int:
        return self.model.n_columns

    @property
    def n_trees(self) -> int:
        return self.model.n_trees

    @property
    def most_trees(self) -> int:
        return self.model.most_trees

    @property
    def layout(self) -> Layout:
        return self.model.layout

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        return self.model.groups

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """In which columns follow each other; a mixture has no order of its own."""
        return self.model.order if isinstance(self.model, Network) else np.arange(self.n_columns)

    @cached_property
    def _beginnings(self) -> _Beginnings:
        return _Beginnings(self.repeats, self._order)

    @property
    def _log_weights(self) -> tuple[float, float]:
        return float(np.log1p(-self.repeats.share)), float(np.log(self.repeats.share))

    def log_likelihood(
        self, rows: Cells, n_jobs: int | None = None, unknown: NDArray[np.bool_] | None = None
    ) -> Floats:
        new, again = self._log_weights
        return np.logaddexp(
            new + self.model.log_likelihood(rows, n_jobs, unknown), again + self.repeats.log_likelihood(rows, unknown)
        )

    def surprise(self, rows: Cells, n_jobs: int | None = None) -> Floats:
        """-log p(x_d | those before it) of every value, in nats, shape (n, D).

        A row sums to -log p(x) if the model is a network; of a mixture, which has no conditionals, see there.
        """
        return self.surprise_beside(rows, self.model.surprise(rows, n_jobs))

    def surprise_beside(self, rows: Cells, surprise: Floats) -> Floats:
        """The same, if the model's is known."""
        found = np.empty(rows.shape)
        upto = np.zeros(len(rows))
        for k, (joint, _, _) in enumerate(self._steps(rows, surprise)):
            found[:, self._order[k]], upto = upto - joint, joint
        return found

    def _steps(self, rows: Cells, surprise: Floats) -> Iterator[tuple[Floats, Floats, Floats]]:
        """For every column of the order: log p of each row up to and with it, then, of what comes before it, P(it repeats a
        row), and P of a 1 if it does. ``surprise`` is the model's.
        """
        new, again = self._log_weights
        log_new = np.full(len(rows), new)
        for k, (before, ones, own) in enumerate(self._beginnings.masses(rows)):
            with np.errstate(divide="ignore", invalid="ignore"):
                repeats = expit(again + np.log(before) - log_new)
                one = np.where(before > 0, ones / before, 0.0)
                log_new = log_new - surprise[:, self._order[k]]
                joint = np.logaddexp(log_new, again + np.log(own))
            yield joint, repeats, one

    def predictions(self, rows: Cells) -> list[Floats]:
        found = self.model.predictions(rows)
        for k, (_, repeats, one) in enumerate(self._steps(rows, self.model.surprise(rows))):
            j = int(self._order[k])
            known = np.stack([1.0 - one, one], axis=1)
            found[j] = found[j] + repeats[:, None] * (known - found[j])
        return found

    def cumulative(self, chunks: Iterable[Cells], n_jobs: int | None = None) -> Floats:
        """Mean log p(x) of the first 1, 2, ..., D columns of the order, in nats."""
        n_rows, total = 0, np.zeros(self.n_columns)
        for rows in chunks:
            n_rows += len(rows)
            total -= self.surprise(rows, n_jobs)[:, self._order].sum(axis=0)
        return np.cumsum(total) / n_rows

    def draw(self, n: int, random: np.random.RandomState, n_jobs: int | None = None) -> Cells:
        again = random.random_sample(n) < self.repeats.share
        rows = np.empty((n, self.n_columns), np.uint8)
        if not again.all():
            rows[~again] = self.model.draw(int(np.count_nonzero(~again)), random, n_jobs)
        rows[again] = self.repeats.draw(int(np.count_nonzero(again)), random)
        return rows

    def draw_on(self, known: Cells, n: int, seed: int, n_jobs: int | None = None) -> Cells:
        """``n`` rows, exactly. ``known`` (n, D) fixes cells where it is not ``UNKNOWN``: in each row a prefix of the order."""
        given = Given(known, known == UNKNOWN, present=False)
        return self.draw_given(given, 1, np.random.RandomState(seed), effort=_EXACT, n_jobs=n_jobs)[0]

    def draw_given(
        self, given: Given, n_each: int, random: np.random.RandomState, *, effort: Effort, n_jobs: int | None = None
    ) -> tuple[Cells, NDArray[np.str_], Floats]:
        return given_by_conditioning(self, given, n_each, random, effort, n_jobs)

    def condition(
        self,
        chunks: Iterable[GivenChunk],
        random: np.random.RandomState,
        *,
        n_draws: int = 1,
        effort: Effort,
        n_jobs: int | None = None,
    ) -> Iterator[tuple[int, Answer]]:
        asked: list[Given] = []  # the chunk that is answered next

        def passing() -> Iterator[GivenChunk]:
            for start, given in chunks:
                asked[:] = [given]
                yield start, given

        own = np.random.RandomState(random.randint(2**31 - 1))
        weights = np.array([1 - self.repeats.share, self.repeats.share])
        for start, answer in self.model.condition(passing(), random, n_draws=n_draws, effort=effort, n_jobs=n_jobs):
            yield start, mixed([answer, self.repeats.answer(asked[0], own, answer)], weights, own)

    def importance(self) -> sp.csr_array:
        """The model's."""
        return self.model.importance()

    def codec(self, n_jobs: int | None = None) -> MixtureCodec:
        networks, weights = (
            ((self.model,), np.ones(1))
            if isinstance(self.model, Network)
            else (self.model.networks, self.model.weights)
        )
        share = self.repeats.share
        codec = _RepeatsCodec(self.repeats, Codec(networks[0], n_jobs))
        return MixtureCodec(networks, np.append((1 - share) * weights, share), n_jobs, codec)

    def fingerprint(self) -> bytes:
        return self.codec().fingerprint


class _RepeatsCodec:
    """Codes which of its rows a row is: a bit for each halving of their number. One that is none of them, which a decoder may ask for as it takes
    nothing for impossible, is coded by a network.
    """

    def __init__(self, repeats: Repeats, other: Codec) -> None:
        self._repeats, self._other = repeats, other
        self.fingerprint = repeats.fingerprint()
        self._levels = len(repeats).bit_length()
        upto = np.concatenate([[0.0], np.cumsum(repeats.weight)])
        self._upto = np.append(upto, np.full((1 << self._levels) - len(repeats), upto[-1]))

    def log_p(self, rows: Cells) -> NDArray[np.int64]:
        return self._repeats.log_shares(rows)

    def push(self, coder: _core.Coder, rows: Cells, submit: Submit) -> None:
        number = self._repeats.find(pack(rows))
        others = number == len(self._repeats)
        if others.any():
            self._other.push(coder, rows[others], submit)
        for level in reversed(range(self._levels)):
            shift = self._levels - level - 1
            coder.push_symbols((number >> shift & 1).astype(np.uint16), self._halves(number >> (shift + 1), level))

    def pop(self, coder: _core.Coder, n_rows: int, submit: Submit) -> Cells:
        number = np.zeros(n_rows, np.intp)
        for level in range(self._levels):
            number = 2 * number + coder.pop_symbols(self._halves(number, level))
        others = number >= len(self._repeats)
        rows = np.empty((n_rows, self._repeats.n_columns), np.uint8)
        rows[~others] = self._repeats.bits.take(number[~others]).unpack()
        if others.any():
            rows[others] = self._other.pop(coder, int(np.count_nonzero(others)), submit)
        return rows

    def _halves(self, number: NDArray[np.intp], level: int) -> Floats:
        """The weights of both halves of a part, after so many halvings."""
        half = 1 << (self._levels - level - 1)
        low = number * 2 * half
        ends = self._upto[low], self._upto[low + half], self._upto[low + 2 * half]
        weights = np.stack([ends[1] - ends[0], ends[2] - ends[1]])
        weights[:, weights.sum(axis=0) == 0] = 1.0  # behind the last row
        return np.ascontiguousarray(whole_weights(weights).T, np.float64)
