"""``lbarn.tune``: a network whose parameters were chosen on the validation rows, within a time that the user gives.

Dimensions are independent problems, so a setting is tried on a part of them, with few rounds at a high learning rate. What
is left of the time goes into the network itself, with as low a learning rate as it allows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.lbarn import LBARN
from lbarn._models.members import log_likelihood_before_refit
from lbarn._training.auto import LEAF_GRID, in_sequence
from lbarn._training.averaging import averaged
from lbarn._training.counts import kinds_of_ones
from lbarn._training.curves import curves, is_rising, padded, with_peers
from lbarn._training.data import GivenRows
from lbarn._training.order import resolve_order
from lbarn._training.run import settle, shared_trees, train_network
from lbarn.parameters import takes

if TYPE_CHECKING:
    from rich.table import Table as RichTable

__all__ = ["cross_validated", "tune"]

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
MOST_ROUNDS = 2000  # of the network
_MEMBERS_ROUNDS = 1000  # of a network among many
_MOST_BAGS = 4  # networks of an order

_FOLDS = 5
_SHARE_OF_TRIALS = 0.4  # of the time
_SHARE_BEFORE_AN_ENSEMBLE = 0.25  # which gains more from networks than from settings
_SHARE_OF_ORDERS = 0.5  # of the time for trials that is left
_RANDOM_ORDERS = 4
_EXPECTED_TRIALS = 30
_FIRST_DIMENSIONS = 8  # to see how long a trial takes
_MORE_DIMENSIONS = 4  # times as many as before
_REFIT = 1.3  # how much longer a fit takes with it
_SAFETY = 0.75
_SLOWEST = 5.0  # how much lower than that of a trial the learning rate may be; rounds beyond that go further
_PATIENCE = 2.5  # of a column, in rounds times learning rate: that of the defaults, so that neither is favoured
_DEFAULT_ROUNDS = 3 * ROUNDS  # that a column takes with the defaults, mostly
_SHARE_OF_COMPARISON = 0.25  # of the time that trials leave
_SHARE_OF_DEFAULTS = 0.2  # of the time, at most
_SHOWN = 15  # trials, the last ones and the best: a taller table does not fit into a terminal
_TINY = np.finfo(float).tiny
_REPEATS = 50  # of settings already tried, after which there is nothing left to try


_OF_DATA = LBARN.data_parameters() - {"verbose", "warm_start"}


@takes(LBARN, _OF_DATA)
def tune(
    X: Any,
    X_val: Any = None,
    *,
    minutes: float,
    effort: str = "fast",
    ensemble: int | None = None,
    sample_weight: ArrayLike | None = None,
    sample_weight_val: ArrayLike | None = None,
    verbose: int = 1,
    **parameters: Any,
) -> LBARN | LBARNEnsemble:
    """A network with the order, leaves, learning rate, split bits and regularisation that validate best.

    The search begins at the defaults. If there is time to train the network of the defaults too, and nothing validates better, that is returned.

    Parameters
    ----------
    X : table
    X_val : table like X, optional
        Rows to choose on; else ``validation_fraction`` of ``X`` is held out.
    minutes : float
        How long all of it may take: up to two fifths for trials (a quarter, if there is to be an ensemble), the rest for the network. If that is too
        little, the network takes longer: one that is learned in fewer than a hundred rounds would be worse than that of the defaults.
    effort : {"fast", "thorough"}, default="fast"
        One parameter after the other, on a part of the columns and then on more; or after that all together, by optuna, as long
        as there is time for trials.
    ensemble : int, optional
        Spend the rest of the time on an ensemble of so many orders instead, each the average of up to four networks.
    sample_weight, sample_weight_val : array-like of shape (n,), optional
    verbose : int, default=1
        Show a table of the trials as they come.
    {parameters}

    Returns
    -------
    LBARN or LBARNEnsemble
        Fitted, and refitted on training and validation rows together. ``trials_`` is a list with what was tried:
        parameters, ``valid_log_likelihood`` (cross-validated over the validation rows, of all columns by what was seen on
        ``n_dimensions`` of them) and ``seconds``.

    Notes
    -----
    The trials depend on ``random_state`` and on how many there is time for.

    Examples
    --------
    >>> import numpy as np
    >>> import lbarn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (300, 5))
    >>> X[:, 4] = X[:, 0] & X[:, 1]
    >>> model = lbarn.tune(X, minutes=0.02, random_state=0, verbose=0)
    >>> model.max_leaf_nodes in {trial["max_leaf_nodes"] for trial in model.trials_}
    True
    """
    if isinstance(minutes, bool) or not isinstance(minutes, Real) or not 0 < minutes < float("inf"):
        raise ValueError(f"minutes must be a number above 0; got {minutes!r}")
    if effort not in ("fast", "thorough"):
        raise ValueError(f"effort must be 'fast' or 'thorough'; got {effort!r}")
    if ensemble is not None and (isinstance(ensemble, bool) or not isinstance(ensemble, Integral) or ensemble < 1):
        raise ValueError(f"ensemble must be a whole number above 0, or None; got {ensemble!r}")
    optuna = _optuna() if effort == "thorough" else None
    start = monotonic()
    unknown = sorted(parameters.keys() - _OF_DATA)
    if unknown:
        raise TypeError(f"tune() got an unexpected keyword argument {unknown[0]!r}")
    model = LBARN(**parameters, verbose=verbose)
    if not isinstance(model.random_state, (int, np.integer)):
        model.random_state = int(check_random_state(model.random_state).randint(2**31 - 1))
    model.random_state = int(model.random_state)
    model.validated()
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    rows = GivenRows.read(model, X, X_val, sample_weight, sample_weight_val)
    data = rows.divided(model.validation_fraction, seed).filled(seed, model.groups)  # as the network will see them
    if model.counts is not False:
        data = replace(data, counted=kinds_of_ones(data, rows.shared_levels()))
    columns, data = data, data.in_order(np.arange(rows.n_columns)).merged(model.merge_rows)
    places, learning = range(rows.n_columns), monotonic()
    data = replace(data, shared=shared_trees(model, data, np.arange(rows.n_columns), places))
    fixed = monotonic() - learning  # seconds that every other network takes, whatever its rounds
    how, data = settle(model, data, places)
    fixed = fixed if data.shared is not None else 0.0
    model.set_params(max_leaf_nodes=how.max_leaf_nodes, counts=bool(data.counted), neighbours=data.shared is not None)

    def fitted(model: LBARN, data: TrainingData) -> tuple[LBARN, float]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the time says how many rounds there are
            model.fit_rows(rows, shared=data.shared)
        judged = cross_validated(model.run_.conditionals, data.layout, data.valid, model.n_jobs)
        return model, judged

    end, default = start + 60 * minutes, None
    with _shown(verbose) as show:
        share = _SHARE_OF_TRIALS if ensemble is None else _SHARE_BEFORE_AN_ENSEMBLE
        trials = _Trials(how, data, start + share * 60 * minutes, model.n_jobs, show)
        trials.begin()
        seconds = _DEFAULT_ROUNDS * _seconds_per_round(trials.best, rows.n_columns)
        if ensemble is None and seconds < _SHARE_OF_DEFAULTS * (end - monotonic()):
            default = fitted(LBARN(**model.get_params() | {"verbose": 0}), data)  # the table is shown now
        if ensemble is None and model.image_shape is None:
            counted = columns.counted if data.counted else ()
            order = trials.best_order(replace(columns, counted=counted), model.merge_rows)
            if order is not None:
                model.order, data = order.tolist(), trials.data
        try:
            trials.climb_higher()
            if optuna is not None:
                trials.explore(optuna, seed)
        except _TimeIsUp:
            pass
    best, left = trials.best, end - monotonic()
    if ensemble is not None:
        found = {name: getattr(model, name) for name in ("random_state", "counts", "neighbours")}
        mixed = LBARNEnsemble(**parameters | found, n_orders=int(ensemble), n_bags=_MOST_BAGS, verbose=verbose)
        settings = _member_settings(best, left, fixed, mixed.n_orders, model, rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            if len(settings) > 1:
                settings.sort(key=lambda setting: _average_of_two(model, setting, rows), reverse=True)
            mixed.set_params(**settings[0]).fit_rows(rows, deadline=end)
        mixed.trials_ = trials.done
        return mixed
    model.set_params(**_network(best, left, rows.n_columns, MOST_ROUNDS))
    model, judged = fitted(model, data)
    if default is not None and default[1] >= judged:
        model = default[0].set_params(verbose=verbose)
    model.trials_ = trials.done
    return model


def _member_settings(
    best: Trial, seconds: float, fixed: float, n_orders: int, model: LBARN, rows: GivenRows
) -> list[Setting]:
    """What the networks of an ensemble may be like: the settings found, and the defaults if there is time to compare the two.

    There are to be two networks for every order, or fewer if they would have hardly any rounds; and more, if that leaves time. Each takes ``fixed``
    seconds, whatever its rounds.
    """
    rounds = min(ROUNDS, _affordable_rounds(seconds / 4, best, rows.n_columns))
    share = max(seconds / (2 * n_orders) - fixed, rounds * _seconds_per_round(best, rows.n_columns) / _SAFETY)
    found = _network(best, share, rows.n_columns, _MEMBERS_ROUNDS)
    compared = 2 * (_DEFAULT_ROUNDS + found["max_iter"]) * _seconds_per_round(best, rows.n_columns) + 4 * fixed
    if compared > _SHARE_OF_COMPARISON * seconds:
        return [found]
    return [found, {name: getattr(model, name) for name in found}]


def _average_of_two(model: LBARN, setting: Setting, rows: GivenRows) -> float:
    """Of held-out rows, log-likelihood under the average of two networks: what is best alone need not be best among many."""
    seed = int(model.random_state)
    divided = rows.divided(model.validation_fraction, seed)
    own = model.get_params() | setting | {"refit": False, "verbose": 0}
    runs = [LBARN(**own | {"random_state": seed + k}).fit_rows(divided).run_ for k in range(2)]
    average = averaged(runs, [run.select(own["selection"]) for run in runs])
    valid = divided.filled(seed).valid
    n_trees = np.array([len(trees) for trees in average.trees], dtype=np.intp)
    log_p = log_likelihood_before_refit(average, n_trees, valid, model.n_jobs)
    return float(np.average(log_p, weights=valid.weight))


def _network(best: Trial, seconds: float, n_columns: int, most_rounds: int) -> Setting:
    """The parameters of a network of all columns for which there are so many seconds."""
    rounds = min(_affordable_rounds(seconds, best, n_columns), most_rounds)
    rate = min(1.0, best["learning_rate"] / min(rounds / ROUNDS, _SLOWEST))
    return _setting(best) | {
        "max_iter": rounds,
        "learning_rate": rate,
        "n_iter_no_change": math.ceil(_PATIENCE / rate),
    }


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise ImportError("effort='thorough' needs optuna: pip install 'lbarn[tune]'; or use effort='fast'") from error
    return optuna


def _seconds_per_round(trial: Trial, n_columns: int) -> float:
    """Of a fit of all columns."""
    return float(max(trial["seconds"], 1e-3) / trial["max_iter"] * n_columns / trial["n_dimensions"] * _REFIT)


def _affordable_rounds(seconds: float, trial: Trial, n_columns: int) -> int:
    """How many rounds a fit of all columns has time for."""
    return int(np.clip(_SAFETY * seconds / _seconds_per_round(trial, n_columns), ROUNDS // 2, MOST_ROUNDS))


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
        chosen = with_peers(others, share, layout.peers[nodes], n * (1 - 1 / len(parts)), LBARN.pooling).argmax(axis=1)
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


def _setting(trial: Trial) -> Setting:
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


class _Trials:
    """Settings tried on a part of the dimensions, always the same part, until the time is up."""

    def __init__(
        self,
        base: Boosting,
        data: TrainingData,
        deadline: float,
        n_jobs: int | None,
        show: Callable[[list[Trial]], None],
    ) -> None:
        self.base = replace(base, n_iter_no_change=None)  # stopping would flatter what stops early
        self.grid, self.start = _grid(base, data.train.n_rows), {name: getattr(base, name) for name in GRID}
        self.data, self.deadline, self.n_jobs, self.show = data, deadline, n_jobs, show
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

    def climb_higher(self) -> None:
        """Climb, and again from there on more of the dimensions, until it was on all of them."""
        self.climb()
        while len(self.positions) < self.n_columns:
            best = self.best
            self.positions = self.shuffled[: _MORE_DIMENSIONS * len(self.positions)]
            try:
                self._try(_setting(best))
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
                    params=_setting(trial), distributions=distributions, value=trial["valid_log_likelihood"]
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
        moved = _setting(setting)
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
def _shown(verbose: int) -> Iterator[Callable[[list[Trial]], None]]:
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
