"""What is in a model: its parameters, sizes and log-likelihoods, one column's conditional, and how calibrated it is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from lbarn._engine.trees import LOG_ODDS_UNIT, Trees
from lbarn._models.calibration import THRESHOLDS, Calibration, CalibrationTally, cells
from lbarn._models.classifier import LBARNClassifier
from lbarn._models.density import Density
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.estimators import parameters_to_json
from lbarn._models.lbarn import LBARN
from lbarn.baselines.independent import TreeBaseline
from lbarn.parameters import Parameters

__all__ = [
    "Calibration",
    "calibration",
    "column_lines",
    "describe",
    "describe_column",
    "lines",
    "tree_lines",
]

Model = LBARN | TreeBaseline | LBARNClassifier | LBARNEnsemble
_Network = LBARN | TreeBaseline


def describe(model: Model) -> dict[str, Any]:
    """Kind, columns, parameters, trees, log-likelihoods and fingerprint of a model, ready for JSON.

    Examples
    --------
    >>> from lbarn.baselines import IndependentBits
    >>> found = describe(IndependentBits().fit([[0, 1], [1, 1]]))
    >>> found["kind"], found["columns"], found["trees"]["selected"]
    ('IndependentBits', 2, 2)
    """
    return {
        "kind": type(model).__name__,
        "columns": int(model.n_features_in_),
        "names": _names(model),
        **_content(model),
        "parameters": _parameters(model),
    }


def _parameters(model: Model) -> dict[str, Any]:
    """Those that affect it; a classifier has those of its estimator."""
    if isinstance(model, LBARNClassifier):
        if model.estimator is None:
            return {"estimator": None}
        return {"estimator": type(model.estimator).__name__, **_parameters(model.estimator)}
    if isinstance(model, Parameters):
        return parameters_to_json(model)
    return {name: _plain(value) for name, value in model.get_params().items() if name != "n_jobs"}


def _content(model: Model) -> dict[str, Any]:
    """The networks of a model that has several, or what is in the only one."""
    parts = _parts(model)
    if parts is None:
        assert isinstance(model, _Network)
        return _network(model)
    each = zip(parts.labels, parts.shares, parts.models)
    return {parts.name: [{"label": label, "share": share, **_content(part)} for label, share, part in each]}


_PART = {"classes": "class", "members": "member"}


class _Parts(NamedTuple):
    """The models in a model that has several."""

    name: str
    labels: list[Any]
    shares: list[float]
    models: Sequence[Model]


def _parts(model: Model) -> _Parts | None:
    if isinstance(model, LBARNClassifier):
        return _Parts("classes", model.classes_.tolist(), model.class_prior_.tolist(), model.networks_)
    if isinstance(model, LBARNEnsemble):
        return _Parts("members", list(range(len(model.members_))), model.weights_.tolist(), model.members_)
    return None


def _network(model: _Network) -> dict[str, Any]:
    counts = model.n_trees_
    found: dict[str, Any] = {
        "trees": {
            "selected": int(counts.sum()),
            "trained": sum(len(trees) for trees in _all_trees(model)),
            "fewest": int(counts.min()),
            "median": float(np.median(counts)),
            "most": int(counts.max()),
        },
        "fingerprint": model.network_.fingerprint().hex(),
    }
    if not isinstance(model, LBARN):
        return found
    found["max_leaf_nodes"] = _plain(model.max_leaf_nodes_)
    found["learning_rate"] = _plain(model.learning_rate_)
    found["selection"], found["seed"] = model.selection_, _plain(model.seed_)
    run = model.run_
    validated, untrained = (
        run.log_likelihood([len(own) for own in model.network_.trees]),
        run.log_likelihood([0] * len(model.network_.trees)),
    )
    if validated is not None and untrained is not None:
        nothing = -len(counts) * math.log(2) if run.layout.is_binary else untrained[1]
        found["log_likelihood"] = {"untrained": nothing, "train": validated[0], "valid": validated[1]}
    return found


def describe_column(model: Model, column: str, *, n_predictors: int = 10, n_trees: int = 3) -> dict[str, Any]:
    """How a column follows from those before it in the order: strongest predictors and first trees, ready for JSON.

    ``column`` is its name, or its number. A classifier has one answer per class, an ensemble one per member.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (300, 1)), 2, axis=1)
    >>> model = LBARN.paper(max_leaf_nodes=2, learning_rate=0.5, max_iter=50, random_state=0).fit(X)
    >>> found = describe_column(model, "1", n_trees=1)
    >>> found["predictors"][0]["column"], found["predictors"][0]["share"]
    (0, 1.0)
    >>> print(*tree_lines(found["trees"][0]), sep="\\n")
    0 = 1: +1.0000
    0 = 0: -1.0000
    """
    for name, value in (("n_predictors", n_predictors), ("n_trees", n_trees)):
        if value < 0:
            raise ValueError(f"{name} must be at least 0; got {value}")
    parts = _parts(model)
    if parts is None:
        assert isinstance(model, _Network)
        return _conditional(model, column, n_predictors, n_trees)
    each = [
        {"label": label, **describe_column(part, column, n_predictors=n_predictors, n_trees=n_trees)}
        for label, part in zip(parts.labels, parts.models)
    ]
    return {"column": each[0]["column"], parts.name: each}


def _conditional(model: _Network, column: str, n_predictors: int, n_trees: int) -> dict[str, Any]:
    names: list[Any] = _names(model) or list(range(int(model.n_features_in_)))
    j = _index(column, names)
    position = int(np.flatnonzero(model.order_ == j)[0])
    count = int(model.n_trees_[j])
    trees = model.network_.trees[position]
    gains = trees.importance(position)
    total = gains[gains > 0].sum()  # a split that looked good on rounded sums may have lost a little
    strongest = [k for k in np.argsort(-gains, kind="stable")[:n_predictors] if gains[k] > 0]
    before = [names[i] for i in model.order_[:position]]
    return {
        "column": names[j],
        "position": position,
        "trees_selected": count,
        "predictors": [
            {"column": before[k], "gain": float(gains[k]), "share": float(gains[k] / total)} for k in strongest
        ],
        "trees": [_tree(trees, t, before) for t in range(min(n_trees, count))],
    }


def _index(column: str, names: list[Any]) -> int:
    if column in names:
        return names.index(column)
    if column.isdecimal() and int(column) < len(names):
        return int(column)
    raise ValueError(
        f"there is no column {column!r}; columns go by their names, or by their numbers 0 to {len(names) - 1}"
    )


def _tree(trees: Trees, t: int, names: list[Any]) -> dict[str, Any]:
    """Tree ``t`` as nested dictionaries: a leaf has a value (log-odds), an inner node a column and two branches.

    What hangs deeper than nested dictionaries can be followed is given by its number of leaves.
    """
    first, last = int(trees.offsets[t]), int(trees.offsets[t + 1])
    root: dict[str, Any] = {}
    leaves, depths = [root], [0]
    for leaf, position in trees.splits[first:last].tolist():
        node = leaves[leaf]
        if depths[leaf] == _DEEPEST:
            leaves.append(node)
        else:
            leaves[leaf] = {}
            leaves.append({})
            node.update(column=names[position], one=leaves[-1], zero=leaves[leaf])
            depths[leaf] += 1
        depths.append(depths[leaf])
    together = Counter(map(id, leaves))
    for node, value in zip(leaves, trees.values[first + t : last + t + 1].tolist()):
        if together[id(node)] == 1:
            node["value"] = value * LOG_ODDS_UNIT
        else:
            node["leaves"] = together[id(node)]
    return root


_DEEPEST = 100  # splits


def tree_lines(node: dict[str, Any]) -> Iterator[str]:
    """A tree of ``describe_column`` as indented lines, with what each leaf adds to the log-odds of a 1."""
    if "value" in node:
        yield f"always: {node['value']:+.4f}"
        return
    waiting = _branches(node, 0)  # no recursion: a tree may be as deep as it has leaves
    while waiting:
        condition, branch, depth = waiting.pop()
        if "value" in branch:
            yield f"{'    ' * depth}{condition}: {branch['value']:+.4f}"
        elif "leaves" in branch:
            yield f"{'    ' * depth}{condition}: {branch['leaves']:,} more leaves"
        else:
            yield f"{'    ' * depth}{condition}"
            waiting += _branches(branch, depth + 1)


def _branches(node: dict[str, Any], depth: int) -> list[tuple[str, dict[str, Any], int]]:
    """What to write next, last first."""
    return [(f"{node['column']} = {bit}", node[side], depth) for bit, side in ((0, "zero"), (1, "one"))]


def lines(found: dict[str, Any]) -> Iterator[str]:
    """What ``describe`` returns (and whatever else is simple), for people."""
    for name, value in found.items():
        if name == "parameters":
            yield name
            yield from (f"    {parameter} = {own}" for parameter, own in value.items())
        elif name == "names":
            yield f"names           {'none' if value is None else _some(value)}"
        elif name == "trees":
            spread = f"{value['fewest']:,} to {value['most']:,} a column, median {value['median']:,g}"
            yield f"trees           {value['selected']:,} of {value['trained']:,} ({spread})"
        elif name == "log_likelihood":
            each = ", ".join(f"{part} {nats:.4f}" for part, nats in value.items())
            yield f"log-likelihood  {each} (nats per row)"
        elif name in _PART:
            for own in value:
                yield f"{_PART[name]} {own['label']} ({own['share']:.1%})"
                network = {key: part for key, part in own.items() if key not in ("label", "share")}
                yield from (f"    {line}" for line in lines(network))
        else:
            yield f"{name:<15} {value:,}" if isinstance(value, int) and name != "seed" else f"{name:<15} {value}"


def column_lines(found: dict[str, Any]) -> Iterator[str]:
    """What ``describe_column`` returns, for people."""
    for name, part in _PART.items():
        for own in found.get(name, ()):
            yield f"{part} {own['label']}"
            yield from (f"    {line}" for line in column_lines(own))
        if name in found:
            return
    yield f"column {found['column']}: position {found['position']} in the order, {found['trees_selected']:,} trees"
    yield "strongest predictors (share of the summed gain)"
    yield from (f"    {one['share']:6.1%}  {one['column']}" for one in found["predictors"])
    if not found["predictors"]:
        yield "    none: it does not depend on those before it"
    for t, tree in enumerate(found["trees"], 1):
        yield f"tree {t} (added to the log-odds of a 1)"
        yield from (f"    {line}" for line in tree_lines(tree))


def _some(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names):,} in all)" if len(names) > most else "")


def _names(model: Model) -> list[str] | None:
    names = (model.networks_[0] if isinstance(model, LBARNClassifier) else model).table_format_.names
    return None if names is None else [str(name) for name in names]


def _all_trees(model: _Network) -> Sequence[Trees]:
    return model.run_.trees if isinstance(model, LBARN) else model.network_.trees


def _plain(value: Any) -> Any:
    if isinstance(value, BaseEstimator):
        return type(value).__name__  # its own parameters follow
    return value.item() if isinstance(value, np.generic) else value


def calibration(
    model: Density, X: Any, *, thresholds: Sequence[float] = THRESHOLDS, random_state: Any = 0
) -> list[Calibration]:
    """Compare how often unlikely values occur with how often they should.

    A cell is a value of a row, and its prediction is p = P(1 | the columns before it in the order). Its rarer value has the
    probability q = min(p, 1 - p). For each threshold t, the expected number is the sum of q over all cells with q < t, and
    the observed number is that of such cells in which the rarer value occurred. A model that is too certain observes more.

    Parameters
    ----------
    model : fitted LBARN, LBARNEnsemble, or network of ``lbarn.baselines``
        Of an ensemble, the cells of all members count, each by its member's weight.
    X : table of 0 and 1
        Rows that the model was not fitted on. Missing values are not counted; those before a cell are drawn given the row.
    thresholds : increasing numbers above 0
        By default half decades from 1e-6 to 1; below 1 are all cells.
    random_state : int, RandomState instance or None, default=0
        For rows with missing values.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = np.zeros((1000, 1), int)
    >>> X[:20] = 1
    >>> (rare,) = calibration(IndependentBits().fit(X), X, thresholds=[0.1])
    >>> round(rare.expected), rare.observed
    (20, 20.0)
    """
    tally = CalibrationTally(thresholds)
    for part in cells(model, X, random_state=random_state):
        tally.add(part)
    return tally.result()
