"""What a column is: its values in cells, a tree of bits over the cells, and a law inside each that no other column changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lbarn._tables.codes.base import ColumnCode, Inside, Tensors
from lbarn._tables.codes.binary import BinaryCode
from lbarn._tables.codes.categorical import CategoricalCode
from lbarn._tables.codes.continuous import ContinuousCode
from lbarn._tables.codes.grid import GridCode
from lbarn._tables.codes.reading import parsed_numbers

__all__ = [
    "BinaryCode",
    "CategoricalCode",
    "ColumnCode",
    "ContinuousCode",
    "GridCode",
    "Inside",
    "Tensors",
    "code_from_parts",
    "parsed_numbers",
]

_CODES: dict[str, Any] = {code.__name__: code for code in (BinaryCode, CategoricalCode, GridCode, ContinuousCode)}


def code_from_parts(head: Mapping[str, Any], tensors: Tensors) -> ColumnCode:
    """The code in a file; what makes no sense is a ValueError."""
    if head["code"] not in _CODES:
        raise ValueError(f"unknown code of a column {head['code']!r}")
    code: ColumnCode = _CODES[head["code"]].from_parts(head, tensors)
    return code
