"""A training run: all conditionals of a network, trained, with their curves. Selecting from it gives the network."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from lbarn import _core
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._engine.trees import Trees
from lbarn._network.network import Network
from lbarn._training.auto import LEAF_GRID, RATE_LADDER, search, search_each
from lbarn._training.checkpoint import Checkpoint
from lbarn._training.curves import curves, is_rising
from lbarn._training.data import GivenRows
from lbarn._training.jobs import each_dimension
from lbarn._training.order import resolve_order
from lbarn._training.selection import SELECTIONS, select
from lbarn.errors import CheckpointError
from lbarn.parameters import LearnerParameters, NetworkParameters

__all__ = ["TrainingRun", "boosting", "identity", "is_auto", "train_network", "train_run"]

Progress = Callable[[], None]


@dataclass(frozen=True, eq=False)
class TrainingRun:
    """What training leaves behind, by position in the order.

    The curves are mean log-likelihoods per row after 0, 1, ... trees, shape (D, rounds + 1); a trimmed run has none. ``renewed``
    are the trees with leaf values refitted on more rows. ``identity`` tells what was trained on which rows; a run from a
    file has none, and cannot be continued.
    """

    order: NDArray[np.intp]
    conditionals: tuple[Conditional, ...]
    boosting: Boosting
    seed: int
    train_curve: NDArray[np.float64] | None
    valid_curve: NDArray[np.float64] | None
    renewed: tuple[Trees, ...] | None = None
    leaves: Mapping[int, int] = field(default_factory=dict)  # by position, if they were chosen for each
    search_results: list[dict[str, Any]] | None = None
    identity: Mapping[str, str] | None = None

    @property
    def trees(self) -> tuple[Trees, ...]:
        """All that were trained, with the leaf values in use."""
        return self.renewed or tuple(conditional.trees for conditional in self.conditionals)

    @property
    def is_rising(self) -> bool:
        """Whether the last rounds still made a difference."""
        return self.valid_curve is not None and is_rising(self.valid_curve)

    def select(self, method: str) -> NDArray[np.intp]:
        """The number of trees per position by one of the selections."""
        if method not in SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(SELECTIONS)}; got {method!r}")
        if self.train_curve is None or self.valid_curve is None:
            raise ValueError(
                "a trimmed model keeps the selected trees only and cannot select again; use the untrimmed one"
            )
        if self.boosting.n_iter_no_change is not None and method != "individual":
            raise ValueError(f"n_iter_no_change works with selection='individual' only, not {method!r}")
        return np.minimum(select(method, self.train_curve, self.valid_curve), [len(trees) for trees in self.trees])

    def network(self, n_trees: NDArray[np.intp], *, renewed: bool = True) -> Network:
        """The network of the first ``n_trees`` trees of every position, with refitted leaves if there are any."""
        trees = self.trees if renewed else tuple(conditional.trees for conditional in self.conditionals)
        return Network(self.order, tuple(own.head(int(count)) for own, count in zip(trees, n_trees)))

    def refitted(self, rows: TrainingRows, *, n_jobs: int | None) -> TrainingRun:
        """With the leaf values of all trees renewed on ``rows``, columns in the run's order."""
        current = [replace(own, trees=trees) for own, trees in zip(self.conditionals, self.trees)]
        renewed = list(self.trees)

        def done(position: int, conditional: Conditional) -> None:
            renewed[position] = conditional.trees

        arguments = [(own.position, own) for own in reversed(current)]
        each_dimension(_refit, arguments, self.boosting, rows, n_jobs=n_jobs, done=done)
        return replace(self, renewed=tuple(renewed))

    def check_continues(self, identity: Mapping[str, str], max_iter: int) -> None:
        """Refuse to continue with other data, other parameters, or fewer rounds."""
        before = self.identity
        if before is None:
            raise ValueError("warm_start=True: a model from a file cannot be continued; set warm_start=False")
        different = {name for name in identity if identity[name] != before[name]}
        if "data" in different:
            raise ValueError("warm_start=True continues on the same data; these are others: set warm_start=False")
        different -= {"max_iter", "selection", "refit", "random_state", "binarize"}
        if different:
            raise ValueError(
                f"warm_start=True continues the same fit, but {', '.join(sorted(different))} changed: set warm_start=False"
            )
        trained = 0 if self.train_curve is None else self.train_curve.shape[1] - 1
        if max_iter < trained:
            raise ValueError(f"warm_start=True: max_iter={max_iter} is less than the {trained} rounds already trained")


_PATIENCE = 50  # rounds, if n_iter_no_change is "auto"


_MANY_ROWS = 8_000  # from which trees have twice the leaves, if nobody says how many


def default_leaves(n_rows: int) -> int:
    """Leaves per tree for so many training rows."""
    return 32 if n_rows >= _MANY_ROWS else 16


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
            value = np.asarray(value).tolist()
        found[own.name] = repr(value)
    return found


def train_run(
    parameters: NetworkParameters,
    rows: GivenRows,
    *,
    before: TrainingRun | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress = lambda: None,
) -> TrainingRun:
    """Train a network on ``rows``, or continue the run ``before``, which had the same rows."""
    own = identity(parameters, rows.fingerprint())
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
    data = rows.divided(parameters.validation_fraction, seed).filled(seed)
    order = _order(parameters, data, store) if before is None else before.order
    data = data.in_order(order)
    run = _trained(parameters, data, order, before, store, progress)
    if parameters.refit:
        run = run.refitted(data.train + data.valid, n_jobs=parameters.n_jobs)
    return replace(run, identity=own)


def _trained(
    parameters: NetworkParameters,
    data: TrainingData,
    order: NDArray[np.intp],
    before: TrainingRun | None,
    store: Checkpoint | None,
    progress: Progress,
) -> TrainingRun:
    """All conditionals, with the leaves and the learning rate asked for, found by "auto", or used before."""
    D, n_jobs = len(order), parameters.n_jobs
    start = None if before is None else {own.position: own for own in before.conditionals}

    def train(positions: Sequence[int], how: Boosting) -> dict[int, Conditional]:
        return train_network(positions, how, data, start=start, n_jobs=n_jobs, checkpoint=store, progress=progress)

    found: list[dict[str, Any]] | None = None
    chosen: Mapping[int, int] = {}
    if before is not None:
        kept = {"max_leaf_nodes": before.boosting.max_leaf_nodes, "learning_rate": before.boosting.learning_rate}
        how, found, chosen = boosting(parameters, **kept), before.search_results, before.leaves
        trained = _train_chosen(chosen, D, how, train)
    elif is_auto(parameters):
        own_leaves = parameters.max_leaf_nodes or default_leaves(data.train.bits.n_rows)
        leaves = LEAF_GRID if isinstance(own_leaves, str) else (own_leaves,)
        rates = RATE_LADDER if isinstance(parameters.learning_rate, str) else (parameters.learning_rate,)
        how = boosting(parameters, max_leaf_nodes=leaves[0], learning_rate=rates[0])
        if parameters.max_leaf_nodes == "auto-each":
            how, trained, chosen, found = search_each(D, how, leaves, rates, train)
        else:
            how, trained, found = search(D, how, leaves, rates, parameters.selection, train)
    else:
        own_leaves = parameters.max_leaf_nodes or default_leaves(data.train.bits.n_rows)
        how = boosting(parameters, max_leaf_nodes=own_leaves)
        trained = train(range(D), how)
    conditionals = tuple(trained[d] for d in range(D))
    train_curve, valid_curve = curves(conditionals, parameters.max_iter)
    return TrainingRun(order, conditionals, how, data.seed, train_curve, valid_curve, None, chosen, found)


def is_auto(parameters: LearnerParameters) -> bool:
    """Whether some parameters are to be found on the validation rows."""
    return isinstance(parameters.max_leaf_nodes, str) or isinstance(parameters.learning_rate, str)


def _order(parameters: NetworkParameters, data: TrainingData, checkpoint: Checkpoint | None) -> NDArray[np.intp]:
    """Entropy orders take a while: a checkpoint keeps them."""
    costly = isinstance(parameters.order, str) and parameters.order.startswith("entropy")
    known = checkpoint.load_order(data.train.bits.n_columns) if checkpoint and costly else None
    if known is not None:
        return known
    order = resolve_order(parameters.order, data.train, seed=data.seed, n_jobs=parameters.n_jobs)
    if checkpoint and costly:
        checkpoint.save_order(order)
    return order


def _train_chosen(
    leaves: Mapping[int, int], D: int, how: Boosting, train: Callable[[Sequence[int], Boosting], dict[int, Conditional]]
) -> dict[int, Conditional]:
    """Every position with the number of leaves that was chosen for it."""
    trained: dict[int, Conditional] = {}
    for J in sorted(set(leaves.values())) or [how.max_leaf_nodes]:
        own = [d for d in range(D) if leaves.get(d, J) == J]
        trained |= train(own, replace(how, max_leaf_nodes=J))
    return trained


def train_network(
    positions: Iterable[int],
    how: Boosting,
    data: TrainingData,
    *,
    start: Mapping[int, Conditional] | None = None,
    n_jobs: int | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress = lambda: None,
) -> dict[int, Conditional]:
    """Train (or, from ``start``, continue) the conditionals at ``positions``, costly ones first."""
    conditionals: dict[int, Conditional] = {}
    arguments: list[tuple[int, Conditional | None]] = []
    for position in sorted(positions, reverse=True):
        finished = checkpoint.load(how, position) if checkpoint else None
        if finished is not None:
            conditionals[position] = finished
            progress()
        else:
            arguments.append((position, (start or {}).get(position)))

    def done(position: int, result: Conditional) -> None:
        conditionals[position] = result
        if checkpoint:
            checkpoint.save(how, result)
        progress()

    each_dimension(_train, arguments, how, data, n_jobs=n_jobs, done=done)
    return conditionals


def _train(
    position: int, start: Conditional | None, how: Boosting, data: TrainingData, *, cancel: _core.CancelFlag
) -> Conditional:
    train, valid = data.train, data.valid
    start = start or Conditional.untrained(position)
    return start.extend(
        train.bits,
        valid.bits,
        how,
        weight=train.weight_for(position),
        valid_weight=valid.weight_for(position),
        seed=data.seed,
        cancel=cancel,
    )


def _refit(
    position: int, conditional: Conditional, how: Boosting, rows: TrainingRows, *, cancel: _core.CancelFlag
) -> Conditional:
    return conditional.refit(rows.bits, how, weight=rows.weight_for(position), cancel=cancel)
