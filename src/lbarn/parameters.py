"""The parameters of the models, each written once: default, allowed values, help.

Signatures, constraints, docstrings, model files and the options of ``lbarn fit`` are derived from the fields below. They are
plain values: whoever asks for help imports neither NumPy nor scikit-learn.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, dataclass, field, fields
from textwrap import fill, indent
from typing import Any, TypeVar

__all__ = [
    "EnsembleParameters",
    "LearnerParameters",
    "NetworkParameters",
    "Parameters",
    "Range",
    "constraints",
    "described",
    "documented",
    "takes",
]

_ABSENT: Any = object()
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Range:
    """The whole or real numbers between two ends, of which None is infinity."""

    kind: type[int] | type[float]
    low: float | None
    high: float | None = None
    closed: str = "left"  # which of the ends belong to it: "left", "right", "both" or "neither"

    def __str__(self) -> str:
        name = self.kind.__name__
        if self.low is None and self.high is None:
            return name
        if self.high is None:
            return f"{name} {'>=' if self.closed == 'left' else '>'} {self.low:g}"
        left, right = "[" if self.closed in ("left", "both") else "(", "]" if self.closed in ("right", "both") else ")"
        return f"{name} in {left}{self.low:g}, {self.high:g}{right}"


def param(
    default: Any,
    help: str,
    *allowed: Any,
    paper: Any = _ABSENT,
    run_time: bool = False,
    of_data: bool = False,
    may_change: bool = False,
) -> Any:
    """A field: its default, what it is for, and what it may be.

    ``allowed`` are ranges, names, None, or what scikit-learn's validation calls by a string ("boolean", "array-like").
    ``paper`` is what version 0.1 had, if that differs: models of its files were fitted with it. ``run_time`` marks what has no
    influence on the model; ``of_data`` what says how tables are read and divided, and seeds that: ``tune`` takes these and
    those of run time; ``may_change`` what may be another in a fit that is continued.
    """
    metadata = {"help": help, "allowed": allowed, "run_time": run_time, "of_data": of_data, "may_change": may_change}
    return field(default=default, metadata={**metadata, "paper": default if paper is _ABSENT else paper})


_SKLEARN = (
    "boolean",
    "array-like",
    "random_state",
    "verbose",
    "dict",
)  # kinds of values that scikit-learn knows by a name


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """The base of all parameter lists."""

    @classmethod
    def paper(cls, **parameters: Any) -> Any:
        """A model with the settings of the paper, which were the defaults of version 0.1, and with ``parameters``."""
        return cls(**{**{own.name: own.metadata["paper"] for own in fields(cls)}, **parameters})

    @classmethod
    def run_time_parameters(cls) -> set[str]:
        """The names of parameters that have no influence on the model."""
        return cls._marked("run_time")

    @classmethod
    def changeable_parameters(cls) -> set[str]:
        """The names of parameters that may be others in a fit that is continued."""
        return cls._marked("may_change")

    @classmethod
    def data_parameters(cls) -> set[str]:
        """The names of parameters that do not say how to learn: how tables are read and divided, and what is of run time."""
        return cls._marked("of_data") | cls._marked("run_time")

    @classmethod
    def _marked(cls, mark: str) -> set[str]:
        return {own.name for own in fields(cls) if own.metadata[mark]}


@dataclass(kw_only=True, eq=False, repr=False)
class LearnerParameters(Parameters):
    """How the conditionals of a network are learned."""

    max_leaf_nodes: int | str | None = param(
        None,
        "Leaves per tree; None is 8 to 64, by the number of rows that a conditional is learned from, and in a binary table of 32 columns or more as "
        'many as 24 of them validate best with; "auto" takes the best of 2, 4, ..., 128 on the '
        'validation rows, "auto-each" the best for every column.',
        Range(int, 2, 65_535, "both"),
        "auto",
        "auto-each",
        None,
        paper=16,
    )
    learning_rate: float | str = param(
        0.05,
        'Shrinkage; "auto" starts at 0.02 and raises it while validation still improves at ``max_iter``.',
        Range(float, 0, 1, "right"),
        "auto",
        paper=0.02,
    )
    max_iter: int = param(
        2000, "Trees per column, at most.", Range(int, 1, 2**31 - 1, "both"), paper=1000, may_change=True
    )
    selection: str = param(
        "individual",
        "How the number of trees per column is chosen.",
        "individual",
        "common",
        "linearized",
        "linearized-backward",
        may_change=True,
    )
    pooling: float = param(
        100.0,
        "Validation rows that all columns together count for when the trees of each are chosen by itself: few rows would choose noise. In a table "
        "they are the nodes of a column at the same depth.",
        Range(float, 0),
        paper=0.0,
        may_change=True,
    )
    init: str = param(
        "half",
        "Where every conditional starts: at 1/2, at its base rate, or at a logistic regression on the columns before it, "
        "boosted from stumps until validation stalls, for 200 rounds at most. They count among ``max_iter``.",
        "half",
        "prior",
        "linear",
    )
    init_rate: float | None = param(
        0.1,
        "Shrinkage of a linear start; None is ten times the learning rate, but 1 at most. Large steps learn noise if rows are few.",
        Range(float, 0, 1, "right"),
        None,
        paper=None,
    )
    boosting: str = param(
        "newton", "Objective of the splits: LogitBoost's, or the gradient alone.", "newton", "gradient"
    )
    splits: str = param(
        "fast",
        "Choose splits on sums of stochastically rounded gradients (``split_bits`` bits), or on 24-bit ones.",
        "fast",
        "exact",
    )
    split_bits: int = param(3, "Bits of a rounded gradient; fewer are often better.", Range(int, 2, 6, "both"), paper=6)
    min_gain: float = param(0.0, "A split must gain more than this.", Range(float, 0))
    l1_regularization: float = param(
        0.5,
        "Rows that count as chance in every leaf: its summed gradient is taken this much nearer to 0, so that n equal rows do "
        "not make it more certain than about this number in n.",
        Range(float, 0),
        paper=0.0,
    )
    l2_regularization: float = param(0.0, "Added to the summed hessian of every leaf.", Range(float, 0))
    cap: bool = param(
        True,
        "Never be more certain than the evidence: no probability is below 1 / (2 (n + 1)), n being the rows that the "
        "conditional was learned from.",
        "boolean",
        paper=False,
    )
    sharpen: bool = param(
        True,
        "Be as certain as the evidence of all columns together allows: log-odds beyond 3 are stretched as far as the validation rows, all "
        "columns counted together, confirm.",
        "boolean",
        paper=False,
    )
    merge_rows: bool = param(
        True,
        "Learn from equal rows once, with their number, if there are 16,384 or more: faster if many are equal, and the same up to random rounding.",
        "boolean",
        paper=False,
    )
    max_features: float = param(
        0.5,
        "Share of the columns before it that a tree may split on, drawn for each tree: below 1, trees differ more.",
        Range(float, 0, 1, "right"),
        paper=1.0,
    )
    refit: bool = param(
        True,
        "Renew the leaf values on training and validation rows together after selection.",
        "boolean",
        paper=False,
        may_change=True,
    )
    n_iter_no_change: int | str | None = param(
        "auto",
        "Stop a column whose validation curve has not improved for this many rounds; works with individual selection only. "
        '"auto" is 50 rounds then, and never otherwise.',
        Range(int, 1, 2**31 - 1, "both"),
        "auto",
        None,
        paper=None,
    )
    validation_fraction: float = param(
        0.2, "Share of the rows held out if ``fit`` is given no ``X_val``.", Range(float, 0, 1, "neither"), of_data=True
    )
    columns: dict[Any, str] | None = param(
        None,
        'What columns are, by name or number, if not as detected: "binary", "categorical", "ordered" (numbers on a grid, ordered '
        'categories), "continuous", "datetime" or "drop".',
        "dict",
        None,
        of_data=True,
    )
    max_cells: int = param(
        256,
        "Cells that the values of a numeric column are divided into, at most; also levels of a category with a cell of their own.",
        Range(int, 2, 4096, "both"),
        of_data=True,
    )
    missing: str = param(
        "value",
        'Whether an empty cell is a value like others, which is learned and drawn, or "unknown": then nothing is learned from it.',
        "value",
        "unknown",
        paper="unknown",
        of_data=True,
    )
    groups: str | Sequence[Sequence[Any]] | None = param(
        "auto",
        "Binary columns of which at most one is 1 in a row, such as a category written as one column for each level: lists of their "
        'names or numbers, or "auto", which looks for them. Once one of them is 1, the others are not learned any more.',
        "auto",
        "array-like",
        None,
        paper=None,
        of_data=True,
    )
    counts: str | bool = param(
        "auto",
        "Whether columns are also predicted from counts: how many ones there were so far, of each level where several columns "
        'share their levels, and weighted sums of numbers. "auto" tries both on some of the columns and takes what validates better.',
        "auto",
        "boolean",
        paper=False,
        of_data=True,
    )
    repeats: str | bool = param(
        "auto",
        "Whether training rows of 0 and 1 are kept as they are, beside the network, because new rows repeat them: P(x) is then a mixture of both, "
        'the model file holds these rows, and samples repeat them. "auto" does so if held-out rows are clearly likelier.',
        "auto",
        "boolean",
        paper=False,
        of_data=True,
    )
    image_shape: tuple[int, int] | None = param(
        None,
        "Rows and columns, if a row of the table is an image, whose pixels are numbered row by row.",
        "array-like",
        None,
        of_data=True,
    )
    neighbours: str | bool = param(
        "auto",
        "Whether the pixels of black and white images (``image_shape``) begin with trees that all of them share, learned from their "
        'neighbourhoods, beside ``max_iter`` of their own. "auto" tries both on some of the pixels and takes what validates better.',
        "auto",
        "boolean",
        paper=False,
        of_data=True,
    )
    binarize: float | None = param(
        None,
        "Threshold: of every column, values above it are 1 and others 0.",
        Range(float, None, None, "neither"),
        None,
        of_data=True,
        may_change=True,
    )
    n_jobs: int | None = param(
        None,
        "Threads (or workers of the selected joblib backend) over columns, as in scikit-learn.",
        Range(int, None, None, "neither"),
        None,
        run_time=True,
    )
    random_state: Any = param(
        None, "Seeds the hold-out, the random order and the rounding.", "random_state", of_data=True, may_change=True
    )
    verbose: int = param(0, "Show a progress bar.", "verbose", run_time=True)


@dataclass(kw_only=True, eq=False, repr=False)
class NetworkParameters(LearnerParameters):
    """Those of :class:`lbarn.LBARN`."""

    order: str | Sequence[int] = param(
        "given",
        "The order in which the columns are modelled: position ``k`` holds column ``order[k]``.",
        "given",
        "random",
        "entropy-decreasing",
        "entropy-increasing",
        "array-like",
    )
    warm_start: bool = param(
        False,
        "``fit`` on the same data with a larger ``max_iter`` continues, with the same result as one longer run.",
        "boolean",
        run_time=True,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class EnsembleParameters(LearnerParameters):
    """Those of :class:`lbarn.LBARNEnsemble`."""

    n_orders: int = param(4, "Number of orders; a list of ``orders`` has its own.", Range(int, 1), paper=8)
    n_bags: int = param(
        2,
        "Networks of every order, each with other rows held out; their log-odds are averaged, which makes them one member. With more than one, "
        "``X_val`` is held out by the first alone.",
        Range(int, 1),
        paper=1,
    )
    orders: str | Sequence[Sequence[int]] = param(
        "auto",
        'Random orders; "auto" begins with the given one, and if a random one makes held-out rows less likely when mixed with it, takes others by which '
        'the columns are read as a grid, as far as these help, or else none (all networks are averaged then); permutations of your own; or "scans": the eight ways to read an image, of which ``n_orders`` are '
        "used: by rows, by columns, both backwards, then those four with every row (or column) from its other end. If there is an "
        '``image_shape``, "auto" takes these.',
        "auto",
        "random",
        "scans",
        "array-like",
        paper="random",
    )
    weights: str = param(
        "equal", "All the same, or the best on the validation rows, by expectation maximisation.", "equal", "em"
    )
    bagging: bool = param(
        False,
        "Networks of different orders hold out other rows, too: with one bag ``validation_fraction`` of ``X`` and ``X_val`` together. The weights "
        "are equal then.",
        "boolean",
    )


def constraints(parameters: type[Parameters]) -> dict[str, list[Any]]:
    """The allowed values in the words of scikit-learn's validation."""
    from numbers import Integral, Real

    from sklearn.utils._param_validation import Interval, StrOptions

    def allowed(values: tuple[Any, ...]) -> list[Any]:
        names = {value for value in values if isinstance(value, str) and value not in _SKLEARN}
        ranges = [
            Interval(Integral if own.kind is int else Real, own.low, own.high, closed=own.closed)
            for own in values
            if isinstance(own, Range)
        ]
        others = [dict if value == "dict" else value for value in values if value is None or value in _SKLEARN]
        return [*ranges, *([StrOptions(names)] if names else []), *others]

    return {own.name: allowed(own.metadata["allowed"]) for own in fields(parameters)}


def described(allowed: tuple[Any, ...]) -> str:
    """What a parameter may be, for people."""
    words = {"boolean": "bool", "random_state": "int, RandomState instance or None", "verbose": "int"}
    names = [value for value in allowed if isinstance(value, str) and value not in _SKLEARN]
    parts = [str(own) for own in allowed if isinstance(own, Range)]
    parts += [f"{{{', '.join(map(repr, names))}}}"] if len(names) > 1 else [repr(name) for name in names]
    parts += ["None" if own is None else words.get(own, own) for own in allowed if own is None or own in _SKLEARN]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def documented(parameters: type[Parameters], names: Collection[str] | None = None) -> str:
    """The section "Parameters" of a docstring; of some of them, what goes on with such a section."""
    lines = ["Parameters", "----------"] if names is None else []
    for own in fields(parameters):
        if names is not None and own.name not in names:
            continue
        default = "" if own.default is MISSING else f", default={own.default!r}"
        paper = own.metadata["paper"]
        note = "" if paper is own.default or paper == own.default else f" The paper's is {paper!r}."
        lines += [f"{own.name} : {described(own.metadata['allowed'])}{default}"]
        lines += [indent(fill(own.metadata["help"] + note, 112), "    ")]
    return "\n".join(lines)


def takes(parameters: type[Parameters], names: Collection[str]) -> Callable[[_Function], _Function]:
    """A function whose ``**parameters`` are those of these names: its signature and documentation show them one by one."""
    taken = [own for own in fields(parameters) if own.name in names]

    def derived(function: _Function) -> _Function:
        signature = inspect.signature(function)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        more = [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for one in taken
        ]
        function.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        text = documented(parameters, names)
        function.__doc__ = inspect.cleandoc(function.__doc__ or "").replace("{parameters}", text)
        return function

    return derived
