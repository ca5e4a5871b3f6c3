"""What codes have in files, checked when it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._tables.cells import Node
from lbarn._tables.codes.base import Tensors
from lbarn._tables.column import Column, arrow_type, of_texts

__all__ = ["check_levels", "common_fields", "packed", "unpacked"]


_SORTS = {  # the types of Arrow that each sort of column has
    "boolean": pa.types.is_boolean,
    "number": lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind),
    "time": pa.types.is_temporal,
    "string": lambda kind: True,  # levels may be of any
}


def common_fields(head: Mapping[str, Any], tensors: Tensors) -> dict[str, Any]:
    """The fields that all codes have, from a file."""
    categories = head["categories"]
    if categories is not None and not (isinstance(categories, list) and all(isinstance(c, str) for c in categories)):
        raise ValueError("categories are not strings")
    if head["sort"] not in _SORTS:
        raise ValueError(f"unknown sort of column {head['sort']!r}")
    kind = arrow_type(str(head["type"]))
    if categories is not None:
        check_levels(categories, kind)
    values: Any = pa.array([], pa.string()) if head["sort"] == "string" else np.zeros(0)
    plain = Column(
        str(head["sort"]),
        values,
        np.zeros(0, np.bool_),
        kind,
        None if categories is None else tuple(categories),
        bool(head["ordered"]),
        bool(head["written"]),
        bool(head.get("pointed", False)),
    )
    if not _SORTS[plain.sort](kind) or (plain.written and plain.sort == "boolean"):
        raise ValueError(f"a {plain.sort} is not of type {kind}")
    if head["missing"] and head["code"] != "CategoricalCode" and not head.get("empty_on_either_side"):
        raise ValueError("its empty cells have the bits of a version before 0.2.0; fit the model again")
    share, mass = float(head["share_missing"]), tensors["mass"]
    if not 0 <= share <= 1 or mass.dtype != np.float64 or mass.ndim != 1 or not np.isfinite(mass.sum()):
        raise ValueError("the numbers of rows in cells make no sense")
    if not (mass >= 0).all():
        raise ValueError("the numbers of rows in cells make no sense")
    return {
        "label": str(head["label"]),
        "plain": plain,
        "missing": bool(head["missing"]),
        "share_missing": share,
        "mass": mass,
    }


def check_levels(levels: Sequence[str], kind: pa.DataType) -> None:
    """A ValueError if strings are not different, or do not read as values of a type."""
    if len(set(levels)) != len(levels):
        raise ValueError("levels are not different strings")
    try:
        of_texts(pa.array(list(levels), pa.string()), kind)
    except (pa.ArrowNotImplementedError, UnicodeError) as error:
        raise ValueError(str(error)) from error


def packed(nodes: Sequence[Node]) -> NDArray[np.int32]:
    return np.array(nodes, np.int32).reshape(-1, 3)


def unpacked(nodes: NDArray[Any], n_cells: int) -> tuple[Node, ...]:
    """The nodes in a file, which must make a tree over so many cells."""
    if nodes.dtype != np.int32 or nodes.shape != (max(n_cells - 1, 0), 3):
        raise ValueError("cells do not make a tree")
    waiting = {(0, n_cells)} if n_cells > 1 else set()
    found: list[Node] = []
    for low, cut, high in nodes.tolist():
        if (low, high) not in waiting or not low < cut < high:
            raise ValueError("cells do not make a tree")
        waiting.remove((low, high))
        waiting |= {(a, b) for a, b in ((low, cut), (cut, high)) if b - a > 1}
        found.append((low, cut, high))
    return tuple(found)
