"""What all compressed data is wrapped in: a header that says what it is and whose, and a checksum.

magic 6 | version 2 | model's fingerprint 16 | rows 8 | checksum of the rows 16 | content | checksum of all that 8
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from lbarn import _core
from lbarn._engine.bits import MAX_ROWS
from lbarn.errors import CompressedDataError

__all__ = ["Envelope", "new_digest", "stream_coder", "stream_of"]

_HEADER = struct.Struct("<6sH16sQ16s")
_CHECKSUM_BYTES = 8


def new_digest(size: int) -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=size)


@dataclass(frozen=True)
class Envelope:
    """One sort of compressed data."""

    magic: bytes  # 6
    version: int
    noun: str  # what data with another magic is not
    other_model: str  # what is said of data by another model: {theirs} and {ours} are the fingerprints

    def sealed(self, fingerprint: bytes, n_rows: int, checksum: bytes, content: bytes) -> bytes:
        data = _HEADER.pack(self.magic, self.version, fingerprint, n_rows, checksum) + content
        return data + _digest(data)

    def opened(self, container: Any, own: bytes, max_rows: int | None) -> tuple[int, bytes, bytes]:
        """(number of rows, their checksum, content) of data that is whole and made with the model ``own``."""
        data = bytes(memoryview(container))
        if data[: len(self.magic)] != self.magic[: len(data)]:
            raise CompressedDataError(f"this is not {self.noun} that lbarn has compressed")
        if len(data) < _HEADER.size + _CHECKSUM_BYTES:
            raise CompressedDataError(f"the compressed data is truncated: {len(data)} bytes are less than a header")
        _, version, fingerprint, n_rows, checksum = _HEADER.unpack_from(data)
        if version != self.version:
            raise CompressedDataError(
                f"the compressed data is of version {version}; this lbarn reads version {self.version}"
            )
        content = data[_HEADER.size : -_CHECKSUM_BYTES]
        if data[-_CHECKSUM_BYTES:] != _digest(data[:-_CHECKSUM_BYTES]):
            raise CompressedDataError("the compressed data is damaged or truncated: its checksum does not match")
        if not 0 < n_rows <= MAX_ROWS:
            raise CompressedDataError(f"the compressed data is damaged: {n_rows} rows in {len(content)} bytes")
        if fingerprint != own:
            raise CompressedDataError(self.other_model.format(theirs=fingerprint.hex()[:8], ours=own.hex()[:8]))
        if max_rows is not None and n_rows > max_rows:
            raise CompressedDataError(
                f"the compressed data claims to hold {n_rows:,} rows, more than max_rows={max_rows:,}"
            )
        return n_rows, checksum, content


def stream_coder(stream: bytes) -> _core.Coder:
    """The coder that left these words."""
    if len(stream) % 4:
        raise CompressedDataError(f"the compressed data is damaged: a stream of {len(stream)} bytes")
    try:
        return _core.Coder.of(np.frombuffer(stream, "<u4").astype(np.uint32))
    except ValueError as error:  # a stream that no encoder ends like that
        raise CompressedDataError(f"the compressed data is damaged ({error})") from error


def stream_of(coder: _core.Coder) -> bytes:
    """What a coder holds."""
    return coder.words().astype("<u4").tobytes()


def _digest(data: bytes) -> bytes:
    digest = new_digest(_CHECKSUM_BYTES)
    digest.update(data)
    return digest.digest()
