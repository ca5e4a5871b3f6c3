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
from lbarn._models.predicted import ConditionalDistribution
from lbarn._models.regressor import LBARNRegressor
from lbarn._tables.codes import ColumnCode, ContinuousCode, GridCode
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

Model = LBARN | TreeBaseline | LBARNClassifier | LBARNRegressor | LBARNEnsemble
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
    density = _density(model)
    of_table: dict[str, Any] = {}
    if not density.codebook_.is_binary:
        of_table["kinds"] = dict(Counter(own.kind for own in density.columns_))
    if density is not model and not (isinstance(model, LBARNClassifier) and model.method == "generative"):
        of_table["target"] = density.columns_[-1].name
    return {
        "kind": type(model).__name__,
        "columns": int(density.n_features_in_),
        "names": _names(model),
        **of_table,
        **_content(model),
        "parameters": _parameters(model),
    }


def _parameters(model: Model) -> dict[str, Any]:
    """Those that affect it; a classifier or regressor has those of its estimator."""
    if isinstance(model, (LBARNClassifier, LBARNRegressor)):
        own = {"method": model.method} if isinstance(model, LBARNClassifier) and model.method != "generative" else {}
        if model.estimator is None:
            return {"estimator": None, **own}
        return {"estimator": type(model.estimator).__name__, **own, **_parameters(model.estimator)}
    if isinstance(model, Parameters):
        return parameters_to_json(model)
    return {name: _plain(value) for name, value in model.get_params().items() if name != "n_jobs"}


def _content(model: Model) -> dict[str, Any]:
    """The networks of a model that has several, or what is in the only one."""
    parts = _parts(model)
    if parts is None and isinstance(model, (LBARNClassifier, LBARNRegressor)):
        return _content(model.network_)
    if parts is None:
        assert isinstance(model, _Network)
        return _network(model)
    each = zip(parts.labels, parts.shares, parts.models)
    own = [{"label": label, "share": share, **_content(part)} for label, share, part in each]
    return {parts.name: own, **_repeats(model)}


def _repeats(model: Model) -> dict[str, Any]:
    """Rows that are kept as they are."""
    own = getattr(model, "repeats_", None)
    return {} if own is None else {"repeats": {"rows": len(own), "share": own.share, "gain": own.gain}}


_PART = {"classes": "class", "members": "member"}


class _Parts(NamedTuple):
    """The models in a model that has several."""

    name: str
    labels: list[Any]
    shares: list[float]
    models: Sequence[Model]


def _parts(model: Model) -> _Parts | None:
    if isinstance(model, LBARNClassifier) and hasattr(model, "networks_"):
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
        "fingerprint": model.distribution.fingerprint().hex(),
        **_repeats(model),
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

    ``column`` is its name, or its number. A classifier has one answer per class, an ensemble one per member. In a table that is not
    of bits alone there is more: what the column is, how its values are distributed, and what the trees ask; these are the trees of
    the first question about it ("is age at least 37?").

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
    if parts is None and isinstance(model, (LBARNClassifier, LBARNRegressor)):
        return describe_column(model.network_, column, n_predictors=n_predictors, n_trees=n_trees)
    if parts is None:
        assert isinstance(model, _Network)
        if not model.codebook_.is_binary or model.codebook_.left_out:
            return _table_column(model, column, n_predictors, n_trees)
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


def _table_column(model: _Network, column: str, n_predictors: int, n_trees: int) -> dict[str, Any]:
    """A column of any table."""
    names: list[Any] = _names(model) or list(range(int(model.n_features_in_)))
    number, book, network = _index(column, names), model.codebook_, model.network_
    own = model.columns_[number]
    if number in book.left_out:
        return {"column": names[number], "kind": own.kind, "values": own.values}
    j = int(np.searchsorted(book.taken, number))
    code, place, layout = book.codes[j], int(network.position[j]), network.ordered_layout
    gains = network.importance()[[j]].toarray()[0]
    total = gains[gains > 0].sum()
    strongest = [int(k) for k in np.argsort(-gains, kind="stable")[:n_predictors] if gains[k] > 0]
    found: dict[str, Any] = {
        "column": names[number],
        "kind": own.kind,
        "values": own.values,
        "share_missing": own.share_missing,
        "likelihood": own.measure,
        "distribution": _distribution(code, model),
        "position": place,
        "trees_selected": int(model.n_trees_[j]),
        "predictors": [
            {"column": names[int(book.taken[k])], "gain": float(gains[k]), "share": float(gains[k] / total)}
            for k in strongest
        ],
        "trees": [],
    }
    learned = np.flatnonzero(np.isnan(code.tree.fixed))
    if len(learned):
        trees = network.trees[int(layout.first_node[place]) + int(learned[0])]
        found["question"] = f"{names[number]} {code.told_bit(int(learned[0]))[0]}"
        asked = [
            _Question(names[int(book.taken[k])], *book.codes[k].told_bit(bit))
            for k in network.order[:place].tolist()
            for bit in range(book.codes[k].tree.n_bits)
        ]
        found["trees"] = [_tree(trees, t, asked) for t in range(min(n_trees, len(trees)))]
    return found


class _Question(NamedTuple):
    """What a split on a bit asks."""

    column: Any
    one: str
    zero: str


def _distribution(code: ColumnCode, model: _Network) -> dict[str, Any]:
    """How common the values of a column are: quantiles of numbers and dates, shares of others."""
    present = code.tree.present
    if not code.mass[present].sum() > 0:
        return {}
    own = ConditionalDistribution(code, code.mass[None], model.table_format_, 0)
    if isinstance(code, (GridCode, ContinuousCode)):
        shown = {f"{share:.0%}": code.shown(own.quantile_column(share))[0] for share in _QUANTILES}
        return {"quantiles": shown}
    values, shares = own.likely(_MOST_LEVELS)
    return {"shares": {str(code.shown(value)[0]): float(p) for value, p in zip(values, shares[0]) if p > 0}}


_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_MOST_LEVELS = 10


def _index(column: str, names: list[Any]) -> int:
    if column in names:
        return names.index(column)
    if column.isdecimal() and int(column) < len(names):
        return int(column)
    raise ValueError(
        f"there is no column {column!r}; columns go by their names, or by their numbers 0 to {len(names) - 1}"
    )


def _asked(trees: Trees, position: int, names: Sequence[Any]) -> Any:
    """What a split asks: a column, a count, or a sum."""
    counts = trees.counts
    if counts is None or position < counts.position:
        return names[position]
    feature = position - counts.position
    which, least = int(counts.which[feature]), int(counts.at_least[feature])
    counted, weights = counts.weights(which)
    columns = [own.column if isinstance(own, _Question) else own for own in (names[place] for place in counted)]
    if not counts.is_sum(which):
        return _Question(
            f"ones among {len(counted)} values from {columns[0]} to {columns[-1]}", f">= {least}", f"< {least}"
        )
    share = least / (int(counts.base[which]) + int(weights[weights > 0].sum()))
    named = ", ".join(map(str, dict.fromkeys(columns)))
    return _Question(f"a weighted sum of {named}", f">= {share:.0%} of the most it can be", f"< {share:.0%}")


def _tree(trees: Trees, t: int, names: Sequence[Any]) -> dict[str, Any]:
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
            asked = _asked(trees, position, names)
            if isinstance(asked, _Question):
                node.update(column=asked.column, if_one=asked.one, if_zero=asked.zero)
            else:
                node.update(column=asked)
            node.update(one=leaves[-1], zero=leaves[leaf])
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
    told = [node.get(f"if_{side}", f"= {bit}") for bit, side in ((0, "zero"), (1, "one"))]
    return [(f"{node['column']} {what}", node[side], depth) for what, side in zip(told, ("zero", "one"))]


def lines(found: dict[str, Any]) -> Iterator[str]:
    """What ``describe`` returns (and whatever else is simple), for people."""
    for name, value in found.items():
        if name == "parameters":
            yield name
            yield from (f"    {parameter} = {own}" for parameter, own in value.items())
        elif name == "kinds":
            yield f"kinds           {', '.join(f'{count:,} {kind}' for kind, count in value.items())}"
        elif name == "names":
            yield f"names           {'none' if value is None else _some(value)}"
        elif name == "trees":
            spread = f"{value['fewest']:,} to {value['most']:,} a column, median {value['median']:,g}"
            yield f"trees           {value['selected']:,} of {value['trained']:,} ({spread})"
        elif name == "log_likelihood":
            each = ", ".join(f"{part} {nats:.4f}" for part, nats in value.items())
            yield f"log-likelihood  {each} (nats per row)"
        elif name == "repeats":
            yield f"repeats         {value['rows']:,} rows, {value['share']:.1%} of new ones ({value['gain']:+.4f} nats per row)"
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
    if found.get("kind") == "left out":
        yield f"column {found['column']} is left out: {found['values']}"
        return
    yield f"column {found['column']}: position {found['position']} in the order, {found['trees_selected']:,} trees"
    if "kind" in found:
        empty = f", {found['share_missing']:.1%} empty" if found["share_missing"] > 0 else ""
        yield f"{found['kind']}: {found['values']}{empty}; its likelihood is a {found['likelihood']}"
        for name, values in found["distribution"].items():
            yield f"{name} among the rows given to fit"
            shares = name == "shares"
            for value, p in values.items():
                told = f"{p:.6g}" if isinstance(p, float) else p
                yield f"    {p:6.1%}  {value}" if shares else f"    {value:>6}  {told}"
    yield "strongest predictors (share of the summed gain)"
    yield from (f"    {one['share']:6.1%}  {one['column']}" for one in found["predictors"])
    if not found["predictors"]:
        yield "    none: it does not depend on those before it"
    for t, tree in enumerate(found["trees"], 1):
        yield f"tree {t} (added to the log-odds of {'a 1' if 'question' not in found else repr(found['question'])})"
        yield from (f"    {line}" for line in tree_lines(tree))


def _some(names: list[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f", ... ({len(names):,} in all)" if len(names) > most else "")


def _density(model: Model) -> Density:
    """A model of whole rows: itself, its first, or its only one."""
    if isinstance(model, LBARNClassifier) and hasattr(model, "networks_"):
        return model.networks_[0]
    return model.network_ if isinstance(model, (LBARNClassifier, LBARNRegressor)) else model


def _names(model: Model) -> list[str] | None:
    names = _density(model).table_format_.names
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
