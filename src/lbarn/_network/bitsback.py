"""Lossless compression under a mixture of networks, in as few bits as the mixture's own likelihood asks for.

A mixture has no conditionals of its own. A row can be coded under any member, whose number is coded too, but that wastes
what the other members think of the row: -log w_k p_k(x) is more than -log p(x). Bits back (Frey and Hinton, 1996) gets
the waste back. The coder is a stack, so the member is *decoded* from what lies there already, with the probabilities
P(member | x): that takes log 1 / P(member | x) bits off. The decoder, once it knows the row, knows these probabilities too,
and puts the bits back.

Rows go through in groups, each as large as all before it, so that there is enough on the stack where a row takes more bits
than a choice of a member. The first group finds nothing there, and decoding from an empty stack gives symbol 0: members are
numbered from the likeliest down, row by row.

The probabilities are whole numbers made of whole numbers (the members' log-likelihoods) by operations that IEEE defines to
the last bit: every machine decodes what another encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lbarn import _core
from lbarn._engine.bits import row_bytes
from lbarn._engine.codetree import Cells
from lbarn._engine.trees import probabilities
from lbarn._network.codec import (
    BLOCK_ROWS,
    OTHER_ROWS,
    Codec,
    Submit,
    cut,
    gathered,
    opened,
    pop_groups,
    sealed,
    threads,
    whole_weights,
)
from lbarn._network.envelope import new_digest
from lbarn.errors import CompressedDataError

if TYPE_CHECKING:
    from lbarn._network.network import Network

__all__ = ["MixtureCodec"]

_FIRST_ROWS = 16  # of the first group: part of the format
# A row, with its member put back, takes -log p(x) bits off the stack, and never adds any but for roundings: by less than a
# fiftieth of a member's bits, and by no more than two words where the stack ends. What does was not made by an encoder.
_SLACK_BITS, _SLACK_ROWS = 64, 8
_LEAST = 20 << 20  # log-likelihood by which a member may fall behind, in units of 2^-20: beyond, it does not matter


class MemberCodec(Protocol):
    """Puts rows on a coder's stack, and takes them off again."""

    fingerprint: bytes

    def push(self, coder: _core.Coder, rows: Cells, submit: Submit) -> None: ...
    def pop(self, coder: _core.Coder, n_rows: int, submit: Submit) -> Cells: ...


class LastMember(MemberCodec, Protocol):
    """A member that is no network, beside others that are."""

    def log_p(self, rows: Cells) -> NDArray[np.int64]:
        """log p of every row, in units of 2^-30."""


class MixtureCodec:
    """Turns rows into bytes and back under a mixture of networks, and perhaps of a ``last`` member that is none."""

    def __init__(
        self,
        networks: Sequence[Network],
        weights: NDArray[np.float64],
        n_jobs: int | None,
        last: LastMember | None = None,
    ) -> None:
        self._networks, self._last = networks, last
        self._layout = networks[0].layout
        self._first = Codec(networks[0], n_jobs)
        others: list[MemberCodec] = [Codec(network, n_jobs) for network in networks[1:]]
        self._codecs = [self._first, *others, *([] if last is None else [last])]
        self._prior = whole_weights(weights[:, None])[:, 0]
        self._n_jobs = n_jobs
        digest = new_digest(16)
        digest.update(self._prior.astype("<i8").tobytes())
        for codec in self._codecs:
            digest.update(codec.fingerprint)
        self.fingerprint = digest.digest()

    def compress(self, chunks: Iterable[Cells]) -> bytes:
        """Rows as they come, in one container."""
        coder = _core.Coder()
        n_rows, digest = 0, new_digest(16)
        with threads(self._n_jobs) as submit:
            for rows in cut(chunks, self._group_sizes()):
                n_rows += len(rows)
                digest.update(self._layout.pack(rows).rows.data)
                ranked, posterior = self.posterior(rows)
                member = np.take_along_axis(ranked, _pop(coder, posterior)[:, None], axis=1)[:, 0]
                for k, codec in enumerate(self._codecs):
                    if (member == k).any():
                        codec.push(coder, rows[member == k], submit)
                _push(coder, member, self._priors(len(member)))
        return sealed(self.fingerprint, n_rows, digest.digest(), coder)

    def decompress(self, data: Any, max_rows: int | None = None) -> Cells:
        """The rows in a container.

        A container of more than ``max_rows`` is refused before anything is decoded.
        """
        return gathered(*self._decoded(data, max_rows), self._layout)

    def decompress_chunks(self, data: Any, max_rows: int | None = None) -> Iterator[Cells]:
        """The same a few thousand rows at a time, at one bit of memory per cell; damaged data is refused at once."""
        return self._decoded(data, max_rows)[1]

    def _decoded(self, data: Any, max_rows: int | None) -> tuple[int, Iterator[Cells]]:
        n_rows, checksum, coder = opened(data, self.fingerprint, max_rows)
        width = row_bytes(self._layout.n_bits)
        with threads(self._n_jobs) as submit:
            groups = pop_groups(coder, self.sizes_of(n_rows), lambda stack, size: self._pop_group(stack, size, submit))
        digest = new_digest(16)
        padded = np.zeros((BLOCK_ROWS, width), np.uint8)
        for rows in _pieces(groups):
            padded[: len(rows), : rows.shape[1]] = rows
            digest.update(padded[: len(rows)].data)
        if digest.digest() != checksum:
            raise CompressedDataError(OTHER_ROWS)
        return n_rows, (self._layout.cells(rows) for rows in _pieces(groups))

    def _pop_group(self, coder: _core.Coder, size: int, submit: Submit) -> NDArray[np.uint8]:
        """The group of rows that was put on the stack last, packed, without padding."""
        bits_before = coder.n_bits
        member = _pop(coder, self._priors(size))
        rows = np.empty((size, self._layout.n_columns), np.uint8 if self._layout.is_binary else np.uint16)
        for k, codec in reversed(list(enumerate(self._codecs))):
            if (member == k).any():
                rows[member == k] = codec.pop(coder, int(np.count_nonzero(member == k)), submit)
        ranked, posterior = self.posterior(rows)
        _push(coder, np.argmax(ranked == member[:, None], axis=1), posterior)
        if coder.n_bits > bits_before + _SLACK_BITS + size / _SLACK_ROWS:
            raise CompressedDataError(OTHER_ROWS)
        return self._layout.pack(rows).rows[:, : -(-self._layout.n_bits // 8)].copy()

    def _group_sizes(self) -> Iterator[int]:
        total = 0
        while True:
            size = min(total or _FIRST_ROWS, self._first.group_rows)
            yield size
            total += size

    def sizes_of(self, n_rows: int) -> list[int]:
        sizes = []
        for size in self._group_sizes():
            sizes.append(min(size, n_rows))
            n_rows -= sizes[-1]
            if n_rows == 0:
                break
        return sizes

    def _priors(self, n: int) -> NDArray[np.float64]:
        return np.tile(self._prior.astype(np.float64), (n, 1))

    def posterior(self, rows: Cells) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """For every row, the members from the likeliest down, and their P(member | x) as weights that sum to 2^24."""
        each = [network.log_p(rows[:, network.order], self._n_jobs) for network in self._networks]
        log_p = np.stack(each if self._last is None else [*each, self._last.log_p(rows)])
        behind = np.minimum((log_p.max(axis=0) - log_p) >> 10, _LEAST).astype(np.int32)
        p = np.stack([probabilities(-row) for row in behind])
        weights = whole_weights(
            self._prior[:, None] * (p / ((1 << 30) - p))
        )  # p / (1 - p) is the exponential of log-odds
        ranked = np.argsort(-weights, axis=0, kind="stable")
        ordered = np.take_along_axis(weights, ranked, axis=0)
        return ranked.T, np.ascontiguousarray(ordered.T, np.float64)


def _pieces(groups: Iterable[NDArray[np.uint8]]) -> Iterator[NDArray[np.uint8]]:
    """The rows of all groups, a few thousand at a time."""
    for group in groups:
        for start in range(0, len(group), BLOCK_ROWS):
            yield group[start : start + BLOCK_ROWS]


def _pop(coder: _core.Coder, weights: NDArray[np.float64]) -> NDArray[np.intp]:
    """One symbol per row of weights; where there is only one, the coder needs no telling."""
    if weights.shape[1] == 1:
        return np.zeros(len(weights), np.intp)
    return coder.pop_symbols(weights).astype(np.intp)


def _push(coder: _core.Coder, symbols: NDArray[np.intp], weights: NDArray[np.float64]) -> None:
    """Undoes ``_pop``."""
    if weights.shape[1] > 1:
        coder.push_symbols(symbols.astype(np.uint16), weights)
