"""The options that commands share, and those that are derived from the list of parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import Field, fields
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import typer

from lbarn.parameters import Parameters, Range

__all__ = [
    "AsJson",
    "Data",
    "Draws",
    "Header",
    "Jobs",
    "Model",
    "Out",
    "Particles",
    "Rows",
    "Seed",
    "Tolerance",
    "option_name",
    "options_of",
    "whole_number",
]

_Command = TypeVar("_Command", bound=Callable[..., None])
_LARGEST = 2**31 - 1  # of a whole number without a limit of its own
_WORDS = {"yes": True, "no": False}


def whole_number(low: int, high: int = _LARGEST, *, none: bool = False) -> Callable[[Any], int | None]:
    """A parser of whole numbers between two ends."""
    return _parser((Range(int, low, high, "both"), *([None] if none else [])))


def _parser(allowed: tuple[Any, ...]) -> Callable[[Any], Any]:
    """What the text of an option may be: one of some names, a number in a range, numbers separated by commas, "none"."""
    names = [name for name in allowed if isinstance(name, str) and name not in _KINDS]
    kinds = [_KINDS.get(own) if isinstance(own, str) else own for own in allowed]
    ranges = [own for own in kinds if isinstance(own, Range)]

    def parse(text: Any) -> Any:
        if not isinstance(text, str) or text in names:
            return text
        if None in allowed and text.lower() == "none":
            return None
        if "boolean" in allowed and text.lower() in _WORDS:
            return _WORDS[text.lower()]
        if "array-like" in allowed and "," in text:
            return [_number(part, Range(int, 0)) for part in text.split(",")]
        if not ranges:
            words = [*names, *(_WORDS if "boolean" in allowed else [])]
            wanted = f"one of {', '.join(words)}" if words else "numbers separated by commas"
            raise typer.BadParameter(f"{text!r} is not {wanted}")
        return _number(text, ranges[0])

    return parse


def _number(text: str, own: Range) -> int | float:
    try:
        value = own.kind(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a {'whole number' if own.kind is int else 'number'}") from None
    high = _LARGEST if own.kind is int and own.high is None else own.high
    closed = "both" if own.kind is int and own.high is None else own.closed
    above = own.low is None or value > own.low or (value == own.low and closed in ("left", "both"))
    below = high is None or value < high or (value == high and closed in ("right", "both"))
    if not (above and below) or value in (float("inf"), float("-inf")):
        low_end = "" if own.low is None else f" {'of at least' if closed in ('left', 'both') else 'above'} {own.low:,}"
        high_end = "" if high is None else f" {'at most' if closed in ('right', 'both') else 'below'} {high:,}"
        kind = "whole number" if own.kind is int else "number"
        raise typer.BadParameter(f"{text} is not a {kind}{low_end}{' and' if low_end and high_end else ''}{high_end}")
    return value


_KINDS: dict[str, Range | None] = {
    "array-like": None,
    "boolean": None,
    "random_state": Range(int, 0, 2**32 - 1, "both"),
    "verbose": Range(int, 0),
}

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file.", show_default=False)]
Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table: .csv, .tsv or .txt (also with .gz), .parquet, .npy, .npz, .libsvm, dataset:NAME, or - for "
        "CSV from standard input.",
        show_default=False,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether CSV begins with the names of the columns; detected automatically.",
        show_default=False,
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--out",
        metavar="FILE",
        help="Where the rows go: .csv, .tsv or .txt (also with .gz), .parquet, .npy, .npz or .libsvm; by default standard "
        "output, as CSV.",
        show_default=False,
    ),
]
Out = Annotated[str, typer.Option("-o", "--out", metavar="FILE", help="Where the result goes.", show_default=False)]
Seed = Annotated[
    int | None,
    typer.Option(
        "--random-state",
        metavar="INT",
        parser=whole_number(0, 2**32 - 1, none=True),
        help="Seed: the same number gives the same result.",
        show_default=False,
    ),
]
Jobs = Annotated[int, typer.Option("--n-jobs", help="Threads; -1 is all cores.")]
Particles = Annotated[
    int,
    typer.Option(
        "--n-particles",
        metavar="INT",
        parser=whole_number(1),
        help="Particles of the Monte Carlo, at most, if more than 12 values are unknown.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        metavar="NUMBER",
        min=0.0,
        help="Error of a row's probabilities up to which it gets more particles; 0 takes all at once.",
    ),
]
Draws = Annotated[
    int,
    typer.Option(
        "--n-draws", metavar="INT", parser=whole_number(1), help="Draws per row: as many rows, one after the other."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def option_name(parameter: str) -> str:
    """``max_iter`` as ``--max-iter``."""
    return f"--{parameter.replace('_', '-')}"


def options_of(
    parameters: type[Parameters], *, skip: Collection[str], defaults: Mapping[str, Any]
) -> Callable[[_Command], _Command]:
    """Give a command, which takes them as ``**parameters``, an option for each of the parameters.

    Name, help and allowed values are those of the list; ``defaults`` replaces some of its defaults.
    """
    own = [field for field in fields(parameters) if field.name not in skip]
    known = {field.name for field in fields(parameters)}

    def derive(command: _Command) -> _Command:
        hints = get_type_hints(command, include_extras=True)
        kept = [
            entry.replace(annotation=hints[entry.name])
            for entry in inspect.signature(command).parameters.values()
            if entry.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        derived = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(field.name, field.default),
                annotation=_option(field, known),
            )
            for field in own
        ]
        last = [entry for entry in kept if entry.kind is inspect.Parameter.KEYWORD_ONLY]
        first = [entry for entry in kept if entry not in last]
        command.__signature__ = inspect.Signature([*first, *derived, *last])  # type: ignore[attr-defined]
        command.__annotations__ = {entry.name: entry.annotation for entry in [*first, *derived, *last]}
        return command

    return derive


def _option(field: Field[Any], known: Collection[str]) -> Any:
    """A parameter as Typer describes an option."""
    allowed = field.metadata["allowed"]
    name = option_name(field.name)
    text = re.sub(r"``(.*?)``", lambda found: _spelled(found[1], known), field.metadata["help"])
    names = tuple(value for value in allowed if isinstance(value, str) and value not in _KINDS)
    if "boolean" in allowed and not names:
        return Annotated[bool, typer.Option(f"{name}/--no-{name[2:]}", help=text)]
    if len(names) == len(allowed):
        return Annotated[Literal[names], typer.Option(name, help=text)]
    numbers = [value.kind.__name__.upper() for value in allowed if isinstance(value, Range)]
    words = [
        *names,
        *(_WORDS if "boolean" in allowed else []),
        *(["2,0,1,..."] if "array-like" in allowed else []),
        *(["none"] if None in allowed else []),
    ]
    metavar = "|".join([*numbers, *words] or ["INT"])
    return Annotated[Any, typer.Option(name, metavar=metavar, parser=_parser(allowed), help=text)]


def _spelled(word: str, known: Collection[str]) -> str:
    """A name of Python as the command line calls it."""
    return option_name(word) if word in known else {"X_val": "--valid", "X": "DATA"}.get(word, word)
