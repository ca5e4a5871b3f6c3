"""What ``--given`` says about a column: a value, a range, or several levels."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa

from lbarn._models.density import Density
from lbarn._tables.codes import BinaryCode, CategoricalCode, ColumnCode, ContinuousCode, GridCode
from lbarn._tables.table import some
from lbarn._tables.texts import as_times

__all__ = ["conditions", "rows_as_conditions"]

Conditions = dict[str | int, Any]

_WORDS = {"true": "1", "false": "0"}


def conditions(model: Density, texts: Sequence[str]) -> Conditions:
    """What the texts say, for ``model.sample(given=...)``.

    ``age=40`` is a value, ``age=30..40`` a range with both ends, ``age=30..`` one without the other, ``sex=Female|Male`` several
    values. A level that has these signs in its name is meant by its name.
    """
    found: Conditions = {}
    for text in texts:
        label, value = _apart(model, text)
        if label in found:
            raise ValueError(f"--given: there are two conditions on column {label!r}; a range is like {label}=30..40")
        found[label] = _condition(_code(model, label), label, value)
    return found


def rows_as_conditions(model: Density, rows: Any, others: Conditions) -> Conditions:
    """The rows of a file as lists of values by column, with conditions that hold for all of them."""
    labels = model.table_format_.labels(model.n_features_in_)
    if isinstance(rows, pa.Table):
        names = rows.schema.names if model.table_format_.names is not None else list(labels)[: rows.num_columns]
        lists = {name: column.to_pylist() for name, column in zip(names, rows.columns)}
    else:
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        lists = {label: [None if v != v else v for v in dense[:, j].tolist()] for j, label in enumerate(labels)}
    left_out = {labels[j] for j in model.codebook_.left_out}
    lists = {label: own for label, own in lists.items() if label not in left_out and any(v is not None for v in own)}
    for label in others:
        if label in lists:
            raise ValueError(f"--given: column {label!r} is in the file of --given-file, too")
    return {**lists, **others}


def _apart(model: Density, text: str) -> tuple[str | int, str]:
    """The column that is meant, and what is said about it; a name may have an equals sign in it."""
    labels = {str(label): label for label in model.table_format_.labels(model.n_features_in_)}
    if "=" not in text:
        raise ValueError(
            f"--given: {text!r} is not like NAME=VALUE, such as age=40, age=30..40 or color=red|green; a file goes by "
            "--given-file"
        )
    ends = [k for k, char in enumerate(text) if char == "="]
    for end in ends:
        if text[:end] in labels:
            return labels[text[:end]], text[end + 1 :]
    name = text[: ends[0]]
    near = get_close_matches(name, labels, 1)
    hint = f"did you mean {near[0]!r}?" if near else f"its columns are {some(list(labels))}"
    raise ValueError(f"--given: the model has no column {name!r}; {hint}")


def _code(model: Density, label: str | int) -> ColumnCode:
    number = list(model.table_format_.labels(model.n_features_in_)).index(label)
    book = model.codebook_
    if number in book.left_out:
        raise ValueError(f"--given: column {label!r} was left out of the model ({book.left_out[number]})")
    return book.codes[int(np.searchsorted(book.taken, number))]


def _condition(code: ColumnCode, label: str | int, text: str) -> Any:
    if not text:
        raise ValueError(f"--given: {label}= says no value; leave it out if column {label!r} is free")
    if levels := _levels(code):
        return _level_or_set(levels, label, text)
    if isinstance(code, (GridCode, ContinuousCode)) and ".." in text:
        low, _, high = text.partition("..")
        if not low and not high:
            raise ValueError(f"--given: {label}=.. says nothing; a range is like {label}=30..40")
        ends = [_value(code, label, end) if end else None for end in (low, high)]
        return slice(*ends)
    values = [_on_grid(code, label, _value(code, label, part)) for part in text.split("|")]
    return values[0] if len(values) == 1 else set(values)


def _levels(code: ColumnCode) -> Sequence[str]:
    if isinstance(code, CategoricalCode):
        return code.levels
    return code.plain.categories or () if isinstance(code, GridCode) and code.plain.sort == "string" else ()


def _level_or_set(levels: Sequence[str], label: str | int, text: str) -> Any:
    known = set(levels)
    if text in known:
        return text
    if ".." in text and all(not end or end in known for end in text.split("..", 1)):
        low, _, high = text.partition("..")
        return slice(low or None, high or None)
    parts = text.split("|")
    for part in parts:
        if part not in known:
            near = get_close_matches(part, levels, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"its levels are {some(levels)}"
            raise ValueError(f"--given: column {label!r} has no level {part!r}; {hint}")
    return parts[0] if len(parts) == 1 else set(parts)


def _value(code: ColumnCode, label: str | int, text: str) -> Any:
    """A number, or the text of a point in time."""
    if code.plain.sort == "time":
        times = as_times(pa.array([text])).fill_null(text)
        try:
            times.cast(code.plain.type)
        except pa.ArrowInvalid:
            raise ValueError(
                f"--given: {text!r} is no {_time(code)}; column {label!r} is {code.told_range()}"
            ) from None
        return times[0].as_py()
    word = _WORDS.get(text.strip().lower(), text)
    for kind in (int, float):
        try:
            value = kind(word)
        except ValueError:
            continue
        if np.isfinite(value):
            return value
    told = "0 and 1" if isinstance(code, BinaryCode) else code.told_range()
    raise ValueError(f"--given: {text!r} is not a number; column {label!r} is {told}")


def _time(code: ColumnCode) -> str:
    return "date such as 2024-01-31" if pa.types.is_date(code.plain.type) else "time such as 2024-01-31 12:00:00"


def _on_grid(code: ColumnCode, label: str | int, value: Any) -> Any:
    """A value that the column can have; others have probability 0."""
    if isinstance(code, BinaryCode) and value not in (0, 1):
        raise ValueError(f"--given: column {label!r} is 0 or 1; {label}={value} has probability 0")
    if isinstance(code, GridCode) and code.plain.sort == "number":
        nearest = code.grid.values(code.grid.ticks(np.array([float(value)])))[0]
        if abs(float(nearest) - value) > 1e-9 * max(1.0, abs(value)):
            raise ValueError(
                f"--given: the values of column {label!r} are multiples of {code.resolution}; {label}={value} has probability 0: "
                f"give {label}={nearest}, or a range"
            )
    return value
