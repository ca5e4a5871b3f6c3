"""Settings tried on a part of the columns, and judged on the validation rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._training.auto import LEAF_GRID, in_sequence
from lbarn._training.curves import curves, is_rising, padded, with_peers
from lbarn._training.order import resolve_order
from lbarn._training.run import train_network
from lbarn.parameters import LearnerParameters

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = ["GRID", "ROUNDS", "Setting", "Trial", "Trials", "cross_validated", "setting_of", "shown_to"]

Setting = dict[str, Any]
Trial = dict[str, Any]

# Neighbours in a grid are alike: the search goes along one as long as that helps.
GRID: dict[str, tuple[Any, ...]] = {
    "max_leaf_nodes": LEAF_GRID,
    "split_bits": (2, 3, 4, 6),
    "max_features": (0.125, 0.25, 0.5, 1.0),
    "l1_regularization": (0.25, 0.5, 1.0, 2.0),
    "l2_regularization": (0.0, 1.0, 3.0),
}
# Along the grids. More leaves often want more noise beside them, so some steps go along two at once.
STEPS: tuple[dict[str, int], ...] = (
    *({name: step} for name in GRID for step in (1, -1)),
    {"max_leaf_nodes": 1, "split_bits": -1},
    {"max_leaf_nodes": 1, "max_features": -1},
    {"split_bits": -1, "max_features": -1},
)
RATES = (0.1, 0.2, 0.5, 1.0)
ROUNDS = 200  # of a trial

_FOLDS = 5
_SHARE_OF_ORDERS = 0.5  # of the time for trials that is left
_RANDOM_ORDERS = 4
_EXPECTED_TRIALS = 30
_FIRST_DIMENSIONS = 8  # to see how long a trial takes
_MORE_DIMENSIONS = 4  # times as many as before
_SHOWN = 15  # trials, the last ones and the best: a taller table does not fit into a terminal
_TINY = np.finfo(float).tiny
_REPEATS = 50  # of settings already tried, after which there is nothing left to try


def cross_validated(
    conditionals: Sequence[Conditional],
    layout: Layout,
    valid: TrainingRows,
    n_jobs: int | None = None,
) -> float:
    """The log-likelihood of validation rows other than those that the numbers of trees are selected on, in nats per row.

    The rows are cut into a few parts; the numbers of trees are chosen on all but one of them and judged on that one.
    """
    learned = [own for own in conditionals if not own.constant]
    if not learned:
        return 0.0
    node = {int(position): k for k, position in enumerate(layout.node_position)}
    nodes = np.array([node[own.position] for own in learned], dtype=np.intp)
    n, rounds = valid.n_rows, max(len(own.trees) for own in learned)
    parts = [valid.take(np.arange(k, n, _FOLDS)) for k in range(min(_FOLDS, n))]
    for part in parts:
        part.bits.columns  # noqa: B018  transposed once, before the threads share them
    found = Parallel(n_jobs=n_jobs, require="sharedmem")(
        delayed(_sums)(own, layout, int(k), parts, rounds) for own, k in zip(learned, nodes)
    )
    sums, mass = (np.stack(arrays, axis=1) for arrays in zip(*found))  # (parts, nodes, rounds), (parts, nodes)
    total = np.maximum(mass.sum(axis=0), _TINY)
    share = total / (n if valid.weight is None else valid.weight.sum())
    judged = np.zeros(len(learned))
    for p in range(len(parts)):
        others = (sums.sum(axis=0) - sums[p]) / np.maximum(total - mass[p], _TINY)[:, None] * share[:, None]
        chosen = with_peers(
            others, share, layout.peers[nodes], n * (1 - 1 / len(parts)), LearnerParameters.pooling
        ).argmax(axis=1)
        judged += sums[p, np.arange(len(judged)), chosen]
    return float((share * (judged / total)).sum())


def _sums(
    conditional: Conditional, layout: Layout, node: int, parts: list[TrainingRows], rounds: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """In every part, the summed log-likelihood after 0, 1, ... trees, and the weight of the rows that reach the node."""
    sums, mass = np.zeros((len(parts), rounds + 1)), np.zeros(len(parts))
    column = int(layout.node_column[node])
    for p, part in enumerate(parts):
        closers = conditional.trees.closers
        own = node - int(layout.first_node[column])
        rows = part.at_node(layout, column, own, None, closers, conditional.trees.counts)
        mass[p] = rows.n_rows if rows.weight is None else rows.weight.sum()
        if mass[p] > 0:
            sums[p] = mass[p] * padded(conditional.curve(rows.bits, rows.weight), rounds)
    return sums, mass


def setting_of(trial: Trial) -> Setting:
    """What of a trial was chosen."""
    return {name: trial[name] for name in GRID}


def _grid(how: Boosting, n_rows: int) -> dict[str, tuple[Any, ...]]:
    """What to choose from. Leaves that go by the rows of a conditional are beside the number that goes with all rows."""
    if how.max_leaf_nodes is not None:
        return GRID
    i = LEAF_GRID.index(how.for_rows(n_rows).max_leaf_nodes or 0)
    return GRID | {"max_leaf_nodes": (*LEAF_GRID[:i], None, *LEAF_GRID[i:])}


def _best(trials: list[Trial]) -> Trial:
    return max(trials, key=lambda trial: trial["valid_log_likelihood"])


class _TimeIsUp(Exception):
    pass


class Trials:
    """Settings tried on a part of the dimensions, always the same part, until the time is up."""

    def __init__(
        self,
        base: Boosting,
        data: TrainingData,
        deadline: float,
        n_jobs: int | None,
    ) -> None:
        self.base = replace(base, n_iter_no_change=None)  # stopping would flatter what stops early
        self.grid, self.start = _grid(base, data.train.n_rows), {name: getattr(base, name) for name in GRID}
        self.data, self.deadline, self.n_jobs = data, deadline, n_jobs
        self.show: Callable[[list[Trial]], None] = lambda trials: None
        self.n_columns = data.layout.n_columns
        self.shuffled = np.random.default_rng(0).permutation(self.n_columns).tolist()
        self.learning_rate = RATES[0]
        self.done: list[Trial] = []

    @property
    def current(self) -> list[Trial]:
        """Those that compare: on the dimensions that are tried now."""
        return [trial for trial in self.done if trial["n_dimensions"] == len(self.positions)]

    @property
    def best(self) -> Trial:
        return _best(self.current)

    def begin(self) -> None:
        """Find how many dimensions there is time for, and the lowest learning rate that is high enough."""
        self.positions = self.shuffled[:_FIRST_DIMENSIONS]
        start = monotonic()
        trained = self._train(self.start)
        seconds = monotonic() - start
        at_a_time = (self.deadline - monotonic()) / _EXPECTED_TRIALS / max(seconds, 1e-3)
        n = int(np.clip(at_a_time * len(self.positions), len(self.positions), self.n_columns))
        for rate in RATES:
            self.learning_rate = rate
            if rate != RATES[0]:
                trained = self._train(self.start)
            if not is_rising(curves(trained, ROUNDS + self.data.n_shared)[1]) or monotonic() > self.deadline:
                break
        self.positions = self.shuffled[: n if 2 * n < self.n_columns else None]
        self._try(self.start, limited=False)

    def best_order(self, columns: TrainingData, merge_rows: bool) -> NDArray[np.intp] | None:
        """Of a few orders, the one in which a short network of all columns validates best; it is that of all further trials. None is the given one."""
        start, first, given, positions = monotonic(), self.done[0], self.data, self.positions
        seconds = first["seconds"] * self.n_columns / first["n_dimensions"]
        end = start + _SHARE_OF_ORDERS * (self.deadline - start)
        is_known = first["n_dimensions"] == self.n_columns
        if start + (1.5 if is_known else 2.5) * seconds > end:
            return None
        best, found, chosen = -math.inf, None, given
        self.positions = self.shuffled
        for k, name in enumerate(("given", "entropy-decreasing", *["random"] * _RANDOM_ORDERS)):
            if name == "given" and is_known:
                best = first["valid_log_likelihood"]
                continue
            if monotonic() + seconds > end:
                break
            order = resolve_order(
                name, columns.train, columns.layout, columns.groups, seed=columns.seed + k, n_jobs=self.n_jobs
            )
            self.data = given if name == "given" else columns.in_order(order).merged(merge_rows)
            judged = cross_validated(self._train(self.start), self.data.layout, self.data.valid, self.n_jobs)
            if judged > best:
                best, found, chosen = judged, order, self.data
        self.data, self.positions = chosen, positions
        if chosen is given:
            return None
        self.done.clear()  # of other conditionals
        self._try(self.start, limited=False)
        return found

    def search(self, optuna: Any | None, seed: int) -> None:
        """Go on until nothing is left to try or the time is up."""
        try:
            self.climb_higher()
            if optuna is not None:
                self.explore(optuna, seed)
        except _TimeIsUp:
            pass

    def climb_higher(self) -> None:
        """Climb, and again from there on more of the dimensions, until it was on all of them."""
        self.climb()
        while len(self.positions) < self.n_columns:
            best = self.best
            self.positions = self.shuffled[: _MORE_DIMENSIONS * len(self.positions)]
            try:
                self._try(setting_of(best))
            except _TimeIsUp:
                self.positions = self.positions[: best["n_dimensions"]]
                raise
            self.climb()

    def climb(self) -> None:
        """One step after the other, each as often as it helps, until none does."""
        tried, next_one = 0, 0
        while tried < len(STEPS):
            best = self.best
            setting = self._moved(best, STEPS[next_one])
            if setting is not None:
                self._try(setting)
            if self.best is best:
                tried, next_one = tried + 1, (next_one + 1) % len(STEPS)
            else:
                tried = 0

    def explore(self, optuna: Any, seed: int) -> None:
        """All parameters together, by a tree-structured Parzen estimator that knows what was tried before."""
        distributions = {name: optuna.distributions.CategoricalDistribution(grid) for name, grid in self.grid.items()}
        shown = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
            for trial in self.current:
                known = optuna.trial.create_trial(
                    params=setting_of(trial), distributions=distributions, value=trial["valid_log_likelihood"]
                )
                study.add_trial(known)
            repeats = 0
            while repeats < _REPEATS:
                asked = study.ask(distributions)
                n = len(self.done)
                study.tell(asked, self._try(asked.params)["valid_log_likelihood"])
                repeats = repeats + 1 if len(self.done) == n else 0
        finally:
            optuna.logging.set_verbosity(shown)

    def _try(self, setting: Setting, *, limited: bool = True) -> Trial:
        for trial in self.current:
            if all(trial[name] == value for name, value in setting.items()):
                return trial
        start = monotonic()
        conditionals = self._train(setting, limited=limited)
        judged = cross_validated(conditionals, self.data.layout, self.data.valid, self.n_jobs)
        seconds = monotonic() - start
        trial = {
            **setting,
            "learning_rate": self.learning_rate,
            "max_iter": ROUNDS,
            "valid_log_likelihood": judged * self.n_columns / len(self.positions),
            "n_dimensions": len(self.positions),
            "seconds": seconds,
        }
        self.done.append(trial)
        self.show(self.done)
        return trial

    def _moved(self, setting: Setting, step: dict[str, int]) -> Setting | None:
        """The setting after a step; None beyond the end of a grid."""
        moved = setting_of(setting)
        for name, by in step.items():
            i = self.grid[name].index(setting[name]) + by
            if not 0 <= i < len(self.grid[name]):
                return None
            moved[name] = self.grid[name][i]
        return moved

    def _train(self, setting: Setting, *, limited: bool = False) -> list[Conditional]:
        def stop_in_time() -> None:
            if limited and monotonic() > self.deadline:
                raise _TimeIsUp

        rounds = ROUNDS + self.data.n_shared
        how = replace(self.base, learning_rate=self.learning_rate, max_iter=rounds, **setting)
        stop_in_time()
        return in_sequence(train_network(self.positions, how, self.data, n_jobs=self.n_jobs, progress=stop_in_time))


@contextmanager
def shown_to(verbose: int) -> Iterator[Callable[[list[Trial]], None]]:
    """A function that shows all trials so far, in a table that grows."""
    if not verbose:
        yield lambda trials: None
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True)) as live:
        yield lambda trials: live.update(_table(trials), refresh=True)


def _table(trials: list[Trial]) -> RichTable:
    from rich.table import Table

    table = Table("leaves", "bits", "features", "L1", "L2", "columns", "nats a row")
    best = _best([trial for trial in trials if trial["n_dimensions"] == trials[-1]["n_dimensions"]])
    shown = [trial for trial in trials[:-_SHOWN] if trial is best] + trials[-_SHOWN:]
    for trial in shown:
        values = ["by rows" if trial[name] is None else trial[name] for name in GRID]
        numbers = str(trial["n_dimensions"]), f"{trial['valid_log_likelihood']:.3f}"
        table.add_row(*map(str, values), *numbers, style="bold" if trial is best else None)
    return table
