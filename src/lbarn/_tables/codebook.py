"""All columns of a table, each with its code: tables to cells and back."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._engine.bits import MAX_COLUMNS
from lbarn._engine.codetree import Cells, Layout
from lbarn._engine.sums import Sums
from lbarn._tables.codes import BinaryCode, ColumnCode, ContinuousCode, GridCode, Tensors, code_from_parts
from lbarn._tables.column import Column
from lbarn._tables.kinds import Coding, fit_code

__all__ = ["Codebook"]

Floats = NDArray[np.float64]

_MIDDLE, _FINEST = 2.0, 4.0  # times as many cells
_WIDTHS = 3.5  # standard deviations that the cells of a column span, about


@dataclass(frozen=True, eq=False)
class Codebook:
    """The codes of the columns that are modelled, as they were given. ``left_out`` tells why others are not."""

    codes: tuple[ColumnCode, ...]
    taken: NDArray[np.intp]  # the number of every modelled column among those given
    left_out: Mapping[int, str]  # by number

    @classmethod
    def fit(
        cls,
        columns: Iterable[Column],
        labels: Sequence[str],
        kinds: Mapping[int, str],
        how: Coding,
        weight: Floats | None = None,
    ) -> Codebook:
        """The code of every column, of the kind that is asked for or detected.

        Numbers that others tell more exactly than their cells are wide have cells with fewer rows.
        """
        if weight is not None:
            weight = weight * (np.count_nonzero(weight) / weight.sum())
        given = list(columns)
        found = [fit_code(label, own, kinds.get(j), how, weight) for j, (label, own) in enumerate(zip(labels, given))]
        left_out = {j: code for j, code in enumerate(found) if isinstance(code, str)}
        for j, why in left_out.items():
            if kinds.get(j) != "drop":
                warnings.warn(f"{labels[j]} is left out: {why}; columns={{...: 'categorical'}} keeps it", stacklevel=7)
        taken = np.array([j for j in range(len(given)) if j not in left_out], dtype=np.intp)
        if not len(taken):
            raise ValueError("no column is left to be modelled: every one was left out")
        book = cls(tuple(code for code in found if not isinstance(code, str)), taken, left_out)
        if book.layout.n_bits > MAX_COLUMNS:
            if how.max_cells <= 4:
                raise ValueError(f"the columns have more than {MAX_COLUMNS:,} bits together; leave some of them out")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return cls.fit(given, labels, kinds, replace(how, max_cells=how.max_cells // 2), weight)
        own = [given[j] for j in taken]
        if how.alone or max(map(len, own), default=0) >= how.max_cells * how.min_rows:  # as many as there may be
            return book
        return book._with_finer_cells(own, [kinds.get(int(j)) for j in taken], how, weight)

    def _with_finer_cells(
        self, columns: Sequence[Column], kinds: Sequence[str | None], how: Coding, weight: Floats | None
    ) -> Codebook:
        def finer(k: int, times: float) -> ColumnCode:
            how_finer = replace(how, min_rows=how.min_rows / times)
            own = fit_code(self.codes[k].label, columns[k], kinds[k], how_finer, weight)
            assert not isinstance(own, str)
            return own

        sums = Sums.of_values(
            [
                code.number(own) if isinstance(code, (GridCode, ContinuousCode)) else None
                for code, own in zip(self.codes, columns)
            ],
            weight,
        )
        if sums is None:
            return self
        codes = list(self.codes)
        for k, left in sums.unexplained.items():
            cell_widths = left**0.5 * codes[k].n_cells / _WIDTHS
            if cell_widths < 1:
                codes[k] = finer(k, _FINEST if cell_widths < _MIDDLE / _FINEST else _MIDDLE)
        found = replace(self, codes=tuple(codes))
        return found if found.layout.n_bits <= MAX_COLUMNS else self

    @classmethod
    def of_bits(cls, labels: Sequence[str]) -> Codebook:
        """Of a table that is 0 and 1 throughout."""
        plain = Column("number", np.zeros(0, np.int64), np.zeros(0, np.bool_), pa.int64())
        codes = tuple(BinaryCode(label, plain, False, 0.0, np.zeros(2)) for label in labels)
        return cls(codes, np.arange(len(codes)), {})

    @property
    def n_columns(self) -> int:
        return len(self.codes)

    @cached_property
    def layout(self) -> Layout:
        """The bits of the columns, as they were given."""
        return Layout(tuple(code.tree for code in self.codes))

    @cached_property
    def is_binary(self) -> bool:
        """Whether the table is numbers 0 and 1 throughout, and no column is left out: such a table needs no codes."""
        return not self.left_out and all(isinstance(code, BinaryCode) and code.is_plain for code in self.codes)

    def encode(self, columns: Iterable[Column]) -> tuple[Cells, Floats]:
        """Rows of cells, and the log-likelihood of every value inside its cell, (n, D)."""
        parts = [code.encode(column) for code, column in zip(self.codes, columns)]
        cells = np.stack([cells for cells, _ in parts], axis=1)
        return cells, np.stack([inside for _, inside in parts], axis=1)

    def decode(self, cells: Cells, rng: np.random.Generator) -> list[Column]:
        """Values in rows of cells."""
        return [code.decode(cells[:, j], rng) for j, code in enumerate(self.codes)]

    def equals(self, other: Codebook) -> bool:
        """Whether cells mean the same."""
        if self.is_binary and other.is_binary:
            return self.n_columns == other.n_columns
        (head, tensors), (other_head, other_tensors) = self.to_parts(), other.to_parts()
        return (
            head == other_head
            and tensors.keys() == other_tensors.keys()
            and all(np.array_equal(array, other_tensors[name]) for name, array in tensors.items())
        )

    def to_parts(self) -> tuple[dict[str, Any], Tensors]:
        heads: list[dict[str, Any]] = []
        tensors: Tensors = {}
        for j, code in enumerate(self.codes):
            head, own = code.to_parts()
            heads.append(head)
            tensors |= {f"column{j}.{name}": array for name, array in own.items()}
        left_out = {str(j): why for j, why in self.left_out.items()}
        return {"codes": heads, "taken": self.taken.tolist(), "left_out": left_out}, tensors

    def fingerprint(self) -> bytes:
        """Of all that the codes are."""
        header, tensors = self.to_parts()
        digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
        for name in sorted(tensors):
            digest.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape}".encode() + tensors[name].tobytes())
        return digest.digest()

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], tensors: Tensors) -> Codebook:
        """The codebook in a file; what makes no sense is a ValueError."""
        codes = []
        by_column: dict[str, Tensors] = {}
        for name, array in tensors.items():
            column, _, own = name.partition(".")
            by_column.setdefault(column, {})[own] = array
        for j, head in enumerate(header["codes"]):
            codes.append(code_from_parts(head, by_column.get(f"column{j}", {})))
        taken = np.array(header["taken"], dtype=np.intp)
        left_out = {int(j): str(why) for j, why in header["left_out"].items()}
        everything = sorted([*taken.tolist(), *left_out])
        if not codes or taken.shape != (len(codes),) or everything != list(range(len(everything))):
            raise ValueError("columns and their codes do not fit")
        if (np.diff(taken) <= 0).any():
            raise ValueError("columns are not in order")
        book = cls(tuple(codes), taken, left_out)
        if book.layout.n_bits > MAX_COLUMNS:
            raise ValueError("the columns have too many bits")
        return book
