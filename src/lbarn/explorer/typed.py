"""A row as a person types or pastes it."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence

from lbarn.explorer.conditions import QuestionError

__all__ = ["read_row"]

_DELIMITERS = "\t;,"
_EQUALS = re.compile("[=:]")


def read_row(text: str, names: Sequence[str], left_out: Mapping[int, str]) -> dict[str, str]:
    """Values by column: from ``name=value`` on lines or between commas, from a line of CSV, or from such a line below a header.

    ``names`` are those of all columns of the table, also of those with numbers in ``left_out``, which may be absent.
    """
    lines = [line for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if line.strip()]
    if not lines:
        raise QuestionError("type or paste a row: a line of CSV, or name=value")
    pairs = _pairs(lines, names)
    if pairs is not None:
        return pairs
    delimiter = max(_DELIMITERS, key=lambda mark: (len(_cells(lines[0], mark)), -_DELIMITERS.index(mark)))
    rows = [_cells(line, delimiter) for line in lines]
    header = [cell.strip() for cell in rows[0]]
    if len(rows) > 1 and set(header) <= set(names):
        if len(set(header)) < len(header):
            raise QuestionError("the header has a name twice")
        if len(rows) > 2:
            raise QuestionError(f"there are {len(rows) - 1} rows below the header; paste one")
        return _matched(rows[1], header)
    if len(rows) > 1:
        unknown = [name for name in header if name not in names]
        raise QuestionError(
            f"there are {len(rows)} lines; paste one row, or a header and a row ({unknown[0]!r} is no column)"
        )
    modelled = [name for j, name in enumerate(names) if j not in left_out]
    return _matched(rows[0], list(names) if len(rows[0]) == len(names) else modelled)


def _matched(cells: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    if len(cells) != len(names):
        some = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        raise QuestionError(f"the row has {len(cells)} values for {len(names)} columns ({some})")
    return {name: cell.strip() for name, cell in zip(names, cells)}


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))
    except csv.Error as error:
        raise QuestionError(f"the line cannot be read as CSV: {error}") from None


def _pairs(lines: Sequence[str], names: Sequence[str]) -> dict[str, str] | None:
    """``name=value`` throughout, or None."""
    known = set(names)

    def split(part: str) -> tuple[str, str] | None:
        for mark in _EQUALS.finditer(part):  # names may have such signs
            name = part[: mark.start()].strip().strip('"')
            if name in known:
                return name, part[mark.end() :].strip().strip('"')
        return None

    parts = list(lines)
    if len(lines) == 1:
        ways = [_cells(lines[0], mark) for mark in ",;\t"]
        parts = max((way for way in ways if all(_EQUALS.search(part) for part in way)), key=len, default=parts)
    pairs = [split(part) for part in parts]
    if not all(pairs):
        if all("=" in part for part in parts) and (len(parts) > 1 or len(_cells(lines[0], ",")) == 1):
            wrong = next(part.partition("=")[0].strip() for part, pair in zip(parts, pairs) if pair is None)
            raise QuestionError(f"there is no column {wrong!r}")
        return None
    found: dict[str, str] = {}
    for pair in pairs:
        assert pair is not None
        if pair[0] in found:
            raise QuestionError(f"column {pair[0]!r} is given twice")
        found[pair[0]] = pair[1]
    return found
