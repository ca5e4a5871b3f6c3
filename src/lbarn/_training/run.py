"""A training run: all conditionals of a network, trained, with their curves. Selecting from it gives the network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lbarn import _core
from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._engine.sharedtrees import SharedTrees
from lbarn._engine.trees import NO_STRETCH, UNIT, Stretch, Trees
from lbarn._network.network import Network
from lbarn._training.auto import LEAF_GRID, RATE_LADDER, Columns, in_sequence, search, search_each
from lbarn._training.checkpoint import Checkpoint
from lbarn._training.counts import ColumnCounts, with_counts
from lbarn._training.curves import curves, is_rising, padded, selected, validated
from lbarn._training.data import GivenRows
from lbarn._training.jobs import each_dimension
from lbarn._training.neighbours import learn_together, neighbourhoods
from lbarn._training.order import image_size, resolve_order
from lbarn._training.selection import SELECTIONS
from lbarn._training.stretch import confirmed_stretch
from lbarn._training.trial import settled, some_rows
from lbarn.errors import CheckpointError
from lbarn.parameters import LearnerParameters, NetworkParameters

__all__ = [
    "TrainingRun",
    "as_lists",
    "boosting",
    "identity",
    "is_auto",
    "log_likelihood_before_refit",
    "settle",
    "shared_trees",
    "train_network",
    "train_run",
]

Progress = Callable[[], None]


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """What training leaves behind: the conditionals of every node, column after column in network order, with their curves.

    A trimmed run has no curves. ``renewed`` are the trees with leaf values refitted on more rows. ``identity`` tells what was
    trained on which rows; a run from a file has none, and cannot be continued.
    """

    order: NDArray[np.intp]
    layout: Layout  # in network order
    conditionals: tuple[Conditional, ...]
    boosting: Boosting
    seed: int
    n_valid: float = 0.0  # validation rows
    pooling: float = 0.0  # rows that peers count for when trees are selected
    renewed: tuple[Trees, ...] | None = None
    stretch: Stretch = NO_STRETCH  # of the log-odds of whatever is selected
    leaves: Mapping[int, int] = field(default_factory=dict)  # by place in the order, if they were chosen for each
    search_results: list[dict[str, Any]] | None = None
    identity: Mapping[str, str] | None = None

    @property
    def trees(self) -> tuple[Trees, ...]:
        """All that were trained, with the leaf values in use."""
        return self.renewed or tuple(conditional.trees for conditional in self.conditionals)

    @property
    def found(self) -> dict[str, Any]:
        """What validation rows may have decided."""
        return {"max_leaf_nodes": self.boosting.max_leaf_nodes, "learning_rate": self.boosting.learning_rate}

    @property
    def n_shared(self) -> int:
        """Trees that all columns began with."""
        return max(own.n_start for own in self.conditionals) if self.boosting.init == "half" else 0

    @property
    def is_trimmed(self) -> bool:
        return any(len(own.valid_curve) == 0 for own in self.conditionals)

    @cached_property
    def is_rising(self) -> bool:
        """Whether the last rounds still made a difference."""
        return not self.is_trimmed and is_rising(curves(self.conditionals, self.boosting.max_iter)[1])

    def column_curves(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Mean log-likelihood per row of every column after 0, 1, ... trees, shape (D, rounds + 1), in network order."""
        if self.is_trimmed:
            return None
        if self.layout.is_binary:
            return curves(self.conditionals, self.boosting.max_iter)
        train, valid = np.zeros((2, self.layout.n_columns, self.boosting.max_iter + 1))
        for column, own in zip(self.layout.node_column, self.conditionals):
            if not own.constant:
                for curve, total, share in (
                    (own.train_curve, train[column], own.train_share),
                    (own.valid_curve, valid[column], own.valid_share),
                ):
                    total[: len(curve)] += share * curve
                    total[len(curve) :] += share * curve[-1]
        return train, valid

    def selected_curve(self, counts: Sequence[int]) -> NDArray[np.float64]:
        """Validation log-likelihood per row after every round, if every node stops at its number of trees."""
        total = np.zeros(self.boosting.max_iter + 1)
        for own, n in zip(self.conditionals, counts):
            if not own.constant:
                total += own.valid_share * padded(own.valid_curve[: n + 1], self.boosting.max_iter)
        return total

    def log_likelihood(self, counts: Sequence[int]) -> tuple[float, float] | None:
        """Per training and per validation row, with so many trees of every node; None if the run was trimmed."""
        if self.is_trimmed:
            return None
        by_column = np.argsort(self.order[self.layout.node_column], kind="stable")
        learned = [(self.conditionals[k], counts[k]) for k in by_column if not self.conditionals[k].constant]
        train = np.array([own.train_share * own.train_curve[n] for own, n in learned])
        valid = np.array([own.valid_share * own.valid_curve[n] for own, n in learned])
        return float(train.sum()), float(valid.sum())

    def select(self, method: str) -> NDArray[np.intp]:
        """The number of trees of every node by one of the selections."""
        if method not in SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(SELECTIONS)}; got {method!r}")
        if self.is_trimmed:
            raise ValueError(
                "a trimmed model keeps the selected trees only and cannot select again; use the untrimmed one"
            )
        if self.boosting.n_iter_no_change is not None and method != "individual":
            raise ValueError(f"n_iter_no_change works with selection='individual' only, not {method!r}")
        return selected(method, self.conditionals, self.layout.peers, self.n_valid, self.pooling)

    def network(self, n_trees: NDArray[np.intp], *, renewed: bool = True) -> Network:
        """The network of the first ``n_trees`` trees of every node, with refitted leaves if there are any."""
        trees = self.trees if renewed else tuple(conditional.trees for conditional in self.conditionals)
        chosen = (own.head(int(count)).stretched(self.stretch) for own, count in zip(trees, n_trees))
        return Network(self.order, tuple(chosen), self.layout)

    def refitted(self, rows: TrainingRows, *, n_jobs: int | None) -> TrainingRun:
        """With the leaf values of all trees renewed on ``rows``, columns in the run's order."""
        current = [replace(own, trees=trees) for own, trees in zip(self.conditionals, self.trees)]
        first = self.layout.first_node
        columns = {k: tuple(current[first[k] : first[k + 1]]) for k in range(self.layout.n_columns)}
        renewed = dict(columns)

        def done(place: int, conditionals: tuple[Conditional, ...]) -> None:
            renewed[place] = conditionals

        arguments = [(k, columns[k]) for k in reversed(range(self.layout.n_columns))]
        each_dimension(_refit, arguments, self.boosting, self.layout, rows, n_jobs=n_jobs, done=done)
        return replace(self, renewed=tuple(own.trees for own in in_sequence(renewed)))

    def check_continues(self, identity: Mapping[str, str], max_iter: int) -> None:
        """Refuse to continue with other data, other parameters, or fewer rounds."""
        before = self.identity
        if before is None:
            raise ValueError("warm_start=True: a model from a file cannot be continued; set warm_start=False")
        names = identity.keys() | before.keys()
        different = {name for name in names if identity.get(name) != before.get(name)}
        if "data" in different:
            raise ValueError("warm_start=True continues on the same data; these are others: set warm_start=False")
        different -= LearnerParameters.changeable_parameters()
        if different:
            raise ValueError(
                f"warm_start=True continues the same fit, but {', '.join(sorted(different))} changed: set warm_start=False"
            )
        trained = max(len(own.trees) for own in self.conditionals)
        if self.boosting.n_iter_no_change is None:
            trained = self.boosting.max_iter
        trained -= self.n_shared
        if max_iter < trained:
            raise ValueError(f"warm_start=True: max_iter={max_iter} is less than the {trained} rounds already trained")


_SHARPENING_ROWS = 4_000  # validation rows that it is found on, at most
_PATIENCE = 50  # rounds, if n_iter_no_change is "auto"


def boosting(parameters: LearnerParameters, **resolved: Any) -> Boosting:
    """How to boost, by the parameters of the same names; ``resolved`` replaces those that are "auto"."""
    values: dict[str, Any] = {own.name: getattr(parameters, own.name) for own in fields(Boosting)} | resolved
    if values["n_iter_no_change"] == "auto":
        values["n_iter_no_change"] = _PATIENCE if parameters.selection == "individual" else None
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    plain |= {own.name: float(plain[own.name]) for own in fields(Boosting) if own.type == "float"}
    return Boosting(**plain)


def identity(parameters: LearnerParameters, data: str | None = None) -> dict[str, str]:
    """What determines a model: the fingerprint of its rows and every parameter that affects it, as text."""
    found = {} if data is None else {"data": data}
    run_time = parameters.run_time_parameters()
    for own in sorted(fields(parameters), key=lambda own: own.name):
        if own.name in run_time:
            continue
        value = getattr(parameters, own.name)
        if isinstance(value, np.random.RandomState):
            value = "RandomState"
        elif isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
            value = as_lists(value)
        found[own.name] = repr(value)
    return found


def as_lists(value: Any) -> Any:
    """Arrays and sequences, also in each other, as lists of plain values."""
    if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        return [as_lists(own) for own in value]
    return value.item() if isinstance(value, np.generic) else value


def train_run(
    parameters: NetworkParameters,
    rows: GivenRows,
    *,
    targets: Sequence[int] | None = None,
    before: TrainingRun | None = None,
    shared: SharedTrees | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress = lambda: None,
) -> TrainingRun:
    """Train a network on ``rows``, or continue the run ``before``, which had the same rows.

    If there are ``targets``, these columns come last and are all that is trained; every other one is on its own. ``shared`` are those of
    :func:`shared_trees`, if they are known.
    """
    own = identity(parameters, rows.fingerprint())
    if targets is not None:
        own["targets"] = repr(list(targets))
    if before is None:
        seed = int(check_random_state(parameters.random_state).randint(2**31 - 1))
    else:
        before.check_continues(own, parameters.max_iter)
        seed = before.seed
    store = None if checkpoint is None else Checkpoint(checkpoint, own, seed)
    if store is not None and store.seed != seed and before is None and isinstance(parameters.random_state, Integral):
        raise CheckpointError(f"{checkpoint} is damaged: its seed is not that of random_state; choose an empty folder")
    if store is not None and store.seed != seed and before is not None:
        raise CheckpointError(
            f"{checkpoint} was begun with another seed than the fit that warm_start=True continues; choose an empty folder"
        )
    seed = seed if store is None else store.seed
    data = rows.divided(parameters.validation_fraction, seed).filled(seed, parameters.groups)
    D = data.layout.n_columns
    if targets is not None:
        order = np.array([*(j for j in range(D) if j not in targets), *targets], dtype=np.intp)
    else:
        order = _order(parameters, data, store) if before is None else before.order
    if parameters.counts is not False and before is None:
        data = with_counts(data, rows)
    data = data.in_order(order).merged(parameters.merge_rows)
    places = range(0 if targets is None else D - len(targets), D)
    if before is None:
        if shared is None:
            shared = shared_trees(parameters, data, order, places)
        how, data = settle(parameters, replace(data, shared=shared), places)
    else:
        how = boosting(parameters, max_iter=parameters.max_iter + before.n_shared, **before.found)
    run = _trained(parameters, how, data, order, places, before, store, progress)
    if parameters.sharpen:
        some = some_rows(data.valid, data.seed, _SHARPENING_ROWS)
        stretch = confirmed_stretch(run.conditionals, run.layout, some, run.pooling, n_jobs=parameters.n_jobs)
        run = replace(run, stretch=stretch)
    if parameters.refit:
        run = run.refitted(data.train + data.valid, n_jobs=parameters.n_jobs)
    return replace(run, identity=own)


def settle(parameters: NetworkParameters, data: TrainingData, places: range) -> tuple[Boosting, TrainingData]:
    """How to learn, and from what, as a few of the columns say."""
    resolved = _resolved(parameters)

    def train(tried: Sequence[int], how: Boosting, data: TrainingData) -> Columns:
        return train_network(tried, how, data, n_jobs=parameters.n_jobs)

    def judge(columns: Columns) -> NDArray[np.float64]:
        own = in_sequence(columns)
        counts = selected("individual", own, np.zeros(len(own), np.intp), 0.0, 0.0)
        values = np.array([c.valid_share * c.valid_curve[n] for c, n in zip(own, counts)])
        sizes = [len(columns[place]) for place in sorted(columns)]
        return np.array([part.sum() for part in np.split(values, np.cumsum(sizes)[:-1])])

    how = boosting(parameters, **resolved)
    found = settled(
        how,
        data,
        places,
        train,
        judge,
        counts=parameters.counts == "auto",
        shared=parameters.neighbours == "auto",
        leaves=not resolved,
    )
    return replace(found.how, max_iter=found.how.max_iter + found.data.n_shared), found.data


def _resolved(parameters: LearnerParameters) -> dict[str, Any]:
    """What stands for parameters that are still to be found."""
    resolved: dict[str, Any] = {}
    if isinstance(parameters.max_leaf_nodes, str):
        resolved["max_leaf_nodes"] = 16
    if isinstance(parameters.learning_rate, str):
        resolved["learning_rate"] = 0.1
    return resolved


def shared_trees(
    parameters: NetworkParameters, data: TrainingData, order: NDArray[np.intp], places: range
) -> SharedTrees | None:
    """Trees that all pixels of images begin with, if that is wanted and possible."""
    if parameters.image_shape is None:
        return None
    size = image_size(parameters.image_shape, data.layout.n_columns)
    if parameters.neighbours is False or len(places) < data.layout.n_columns:
        return None
    how = boosting(parameters, **_resolved(parameters))
    features = neighbourhoods(order, size) if data.layout.is_binary and how.init == "half" else None
    if features is None and parameters.neighbours is True:
        raise ValueError(
            "neighbours=True needs columns of 0 and 1, init='half' and an order that reads images line by line; set neighbours='auto'"
        )
    return None if features is None else learn_together(data, features, how, parameters.n_jobs)


def _trained(
    parameters: NetworkParameters,
    how: Boosting,
    data: TrainingData,
    order: NDArray[np.intp],
    own_places: range,
    before: TrainingRun | None,
    store: Checkpoint | None,
    progress: Progress,
) -> TrainingRun:
    """All conditionals, with the leaves and the learning rate asked for, found by "auto", or used before.

    Those at other places of the order than ``own_places`` are not learned.
    """
    layout, n_jobs = data.layout, parameters.n_jobs
    n_valid = float(data.valid.n_rows)
    start = None
    if before is not None:
        first = before.layout.first_node
        start = {k: before.conditionals[first[k] : first[k + 1]] for k in own_places}

    def train(places: Sequence[int], how: Boosting) -> Columns:
        return train_network(places, how, data, start=start, n_jobs=n_jobs, checkpoint=store, progress=progress)

    def judge(columns: Columns) -> float:
        own = in_sequence(columns)
        peers = layout.peers[np.isin(layout.node_column, list(columns))]
        return validated(own, selected(parameters.selection, own, peers, n_valid, parameters.pooling))

    found: list[dict[str, Any]] | None = None
    chosen: Mapping[int, int] = {}
    if before is not None:
        found, chosen = before.search_results, before.leaves
        trained = _train_chosen(chosen, own_places, how, train)
    elif is_auto(parameters):
        own_leaves = parameters.max_leaf_nodes
        leaves: Sequence[int | None] = LEAF_GRID if isinstance(own_leaves, str) else (own_leaves,)
        rates = RATE_LADDER if isinstance(parameters.learning_rate, str) else (parameters.learning_rate,)
        how = replace(how, max_leaf_nodes=leaves[0], learning_rate=rates[0])
        if parameters.max_leaf_nodes == "auto-each":
            pooled = parameters.pooling / max(n_valid, 1.0)
            how, trained, chosen, found = search_each(own_places, how, LEAF_GRID, rates, judge, train, pooled)
        else:
            how, trained, found = search(own_places, how, leaves, rates, judge, train)
    else:
        trained = train(own_places, how)
    alone = {k: _alone(data, k) for k in range(layout.n_columns) if k not in own_places}
    conditionals = tuple(in_sequence(alone | trained))
    return TrainingRun(
        order, layout, conditionals, how, data.seed, n_valid, parameters.pooling, leaves=chosen, search_results=found
    )


def is_auto(parameters: LearnerParameters) -> bool:
    """Whether some parameters are to be found on the validation rows."""
    return isinstance(parameters.max_leaf_nodes, str) or isinstance(parameters.learning_rate, str)


def _order(parameters: NetworkParameters, data: TrainingData, checkpoint: Checkpoint | None) -> NDArray[np.intp]:
    """Entropy orders take a while: a checkpoint keeps them."""
    costly = isinstance(parameters.order, str) and parameters.order.startswith("entropy")
    known = checkpoint.load_order(data.layout.n_columns) if checkpoint and costly else None
    if known is not None:
        return known
    order = resolve_order(
        parameters.order, data.train, data.layout, data.groups, seed=data.seed, n_jobs=parameters.n_jobs
    )
    if checkpoint and costly:
        checkpoint.save_order(order)
    return order


def _train_chosen(
    leaves: Mapping[int, int], places: range, how: Boosting, train: Callable[[Sequence[int], Boosting], Columns]
) -> Columns:
    """Every column with the number of leaves that was chosen for it."""
    trained: Columns = {}
    if not leaves:
        return train(places, how)
    for J in sorted(set(leaves.values())):
        own = [place for place in places if leaves[place] == J]
        trained |= train(own, replace(how, max_leaf_nodes=J))
    return trained


def train_network(
    places: Iterable[int],
    how: Boosting,
    data: TrainingData,
    *,
    start: Mapping[int, tuple[Conditional, ...]] | None = None,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress = lambda: None,
) -> Columns:
    """Train (or, from ``start``, continue) the columns at these places of the order, costly ones first."""
    columns: Columns = {}
    arguments: list[tuple[int, tuple[Conditional, ...] | None]] = []
    for place in sorted(places, reverse=True):
        finished = checkpoint.load(how, data.layout, place) if checkpoint else None
        if finished is not None:
            columns[place] = finished
            progress()
        else:
            arguments.append((place, (start or {}).get(place)))

    def done(place: int, result: tuple[Conditional, ...]) -> None:
        columns[place] = result
        if checkpoint:
            checkpoint.save(how, place, result)
        progress()

    each_dimension(_train, arguments, how, data, n_jobs=n_jobs, done=done)
    return columns


def _train(
    place: int,
    start: tuple[Conditional, ...] | None,
    how: Boosting,
    data: TrainingData,
    *,
    cancel: _core.CancelFlag,
) -> tuple[Conditional, ...]:
    """The conditionals of one column, each on the rows that reach its node."""
    layout, train, valid = data.layout, data.train, data.valid
    cells, closers, group = train.cell_columns(layout, place), data.closers(place), data.group_of(place)
    counted = ColumnCounts.of(data, place) if start is None else None
    trained: list[Conditional] = []

    def keep(own: Conditional) -> None:
        trained.append(own if group is None or not len(closers) else own.closed_by(closers, group.log_odds))

    for node in range(layout.columns[place].n_nodes):
        position = int(layout.first_bit[place]) + node
        log_odds = _fixed_log_odds(data, place, node)
        if log_odds is not None:
            keep(Conditional.fixed(position, log_odds))
            continue
        if start is not None:
            own = start[node]
        else:
            more = None if counted is None else counted.at(position, train.reached(layout, place, node, closers))
            own = Conditional.untrained(position, more)
            if data.shared is not None:
                own = own.beginning_with(data.shared.at(place))
        counts = own.trees.counts
        rows = train.at_node(layout, place, node, cells, closers, counts)
        rows_val = valid.at_node(layout, place, node, None, closers, counts)
        shares = train.share_at_node(layout, place, node, closers), valid.share_at_node(layout, place, node, closers)
        own = replace(own, train_share=shares[0], valid_share=shares[1])
        keep(
            own.extend(
                rows.bits,
                rows_val.bits,
                how.for_rows(rows.n_rows if group is None else train.n_rows),
                weight=rows.weight,
                valid_weight=rows_val.weight,
                cells=rows.cells,
                seed=data.seed,
                cancel=cancel,
            )
        )
    return tuple(trained)


def _fixed_log_odds(data: TrainingData, place: int, node: int) -> float | None:
    """Of a node that is not learned, or that nothing can be learned about; None for others."""
    tree = data.layout.columns[place]
    if not np.isnan(tree.fixed[node]):
        return float(tree.fixed[node])
    group = data.group_of(place)
    if group is not None and group.exact and place == group.columns[-1]:
        return -group.log_odds  # it is this one if it is none of the others
    if group is None and data.train.cells is None:
        return None
    position = int(data.layout.first_bit[place]) + node
    counts = np.zeros((2, 2))
    for i, rows in enumerate((data.train, data.valid)):
        reached = rows.reached(data.layout, place, node, data.closers(place))
        weight = rows.weight if rows.cells is not None else rows.weight_for(position)
        if weight is not None:
            reached &= weight > 0
        ones = rows.bits.column(position) if rows.cells is None else rows.cells[place] >= tree.cut[node]
        counts[i] = np.bincount(ones[reached].astype(np.intp), minlength=2)
    if counts[0].sum() >= 2 and counts[1].sum() >= 1:
        return None
    zeros, ones = counts.sum(axis=0)
    return float(np.log((ones + 0.5) / (zeros + 0.5)))


def _alone(data: TrainingData, place: int) -> tuple[Conditional, ...]:
    """The conditionals of a column that is not learned: how common its values are, among all rows."""
    first = int(data.layout.first_bit[place])
    odds = (data.train + data.valid).node_log_odds(data.layout, place)
    return tuple(Conditional.fixed(first + node, float(own)) for node, own in enumerate(odds))


def _refit(
    place: int,
    conditionals: tuple[Conditional, ...],
    how: Boosting,
    layout: Layout,
    rows: TrainingRows,
    *,
    cancel: _core.CancelFlag,
) -> tuple[Conditional, ...]:
    renewed = []
    for node, own in enumerate(conditionals):
        if not own.constant:
            there = rows.at_node(layout, place, node, None, own.trees.closers, own.trees.counts)
            if there.n_rows:
                own = own.refit(there.bits, how.for_rows(there.n_rows), weight=there.weight, cancel=cancel)
        renewed.append(own)
    return tuple(renewed)


def log_likelihood_before_refit(
    run: TrainingRun, n_trees: NDArray[np.intp], rows: TrainingRows, n_jobs: int | None
) -> NDArray[np.float64]:
    """log p of the values of every row that are there, by leaves that have not learned from these rows."""
    network = run.network(n_trees, renewed=False)
    rows = rows.in_order(run.order, run.layout)
    if rows.cells is not None:
        return UNIT * network.log_p(rows.cells.T, n_jobs).astype(np.float64)
    bits = rows.bits.unpack()
    if rows.missing is None:
        return UNIT * network.log_p(bits, n_jobs).astype(np.float64)
    each = network.log_p_each(bits, n_jobs)
    return UNIT * np.where(rows.missing.unpack().T, 0, each).sum(axis=0).astype(np.float64)
