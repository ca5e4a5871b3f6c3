"""``lbarn.tune``: a network whose parameters were chosen on the validation rows, within a time that the user gives.

Dimensions are independent problems, so a setting is tried on a part of them, with few rounds at a high learning rate. What
is left of the time goes into the network itself, with as low a learning rate as it allows. A network mostly takes less than
was set aside for it, as columns stop early: then there are more trials, and another network of what they find.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from numbers import Integral, Real
from operator import itemgetter
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from lbarn._engine.rows import TrainingData
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.lbarn import LBARN
from lbarn._models.tuningtrials import ROUNDS, Setting, Trial, Trials, cross_validated, setting_of, shown_to
from lbarn._training.averaging import averaged
from lbarn._training.counts import with_counts
from lbarn._training.data import GivenRows
from lbarn._training.run import log_likelihood_before_refit, settle, shared_trees
from lbarn.parameters import takes

__all__ = ["tune"]

MOST_ROUNDS = 2000  # of the network
_MEMBERS_ROUNDS = 1000  # of a network among many
_MOST_BAGS = 4  # networks of an order

_SHARE_OF_TRIALS = 0.4  # of the time
_SHARE_BEFORE_AN_ENSEMBLE = 0.25  # which gains more from networks than from settings
_REFIT = 1.3  # how much longer a fit takes with it
_SET_ASIDE = 2.5  # for another network, times what the one before took
_SAFETY = 0.75
_SLOWEST = 5.0  # how much lower than that of a trial the learning rate may be; rounds beyond that go further
_PATIENCE = 2.5  # of a column, in rounds times learning rate: that of the defaults, so that neither is favoured
_DEFAULT_ROUNDS = 3 * ROUNDS  # that a column takes with the defaults, mostly
_SHARE_OF_COMPARISON = 0.25  # of the time that trials leave
_SHARE_OF_DEFAULTS = 0.2  # of the time, at most

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
        How long all of it may take: up to two fifths for trials (a quarter, if there is to be an ensemble), then the network, and if that leaves time more
        trials and another network. If that is too little, the network takes longer: one that is learned in fewer than a hundred rounds would be
        worse than that of the defaults.
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
        data = with_counts(data, rows)
    columns, data = data, data.in_order(np.arange(rows.n_columns)).merged(model.merge_rows)
    places, learning = range(rows.n_columns), monotonic()
    data = replace(data, shared=shared_trees(model, data, np.arange(rows.n_columns), places))
    fixed = monotonic() - learning  # seconds that every other network takes, whatever its rounds
    how, data = settle(model, data, places)
    fixed = fixed if data.shared is not None else 0.0
    model.set_params(max_leaf_nodes=how.max_leaf_nodes, counts=data.has_counts, neighbours=data.shared is not None)

    def fitted(setting: Setting, data: TrainingData) -> tuple[LBARN, float]:
        one = LBARN(**model.get_params() | setting)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the time says how many rounds there are
            one.fit_rows(rows, shared=data.shared)
        judged = cross_validated(one.run_.conditionals, data.layout, data.valid, one.n_jobs)
        return one, judged + (0.0 if one.repeats_ is None else one.repeats_.gain)

    end, networks = start + 60 * minutes, []  # and how each validates
    share = _SHARE_OF_TRIALS if ensemble is None else _SHARE_BEFORE_AN_ENSEMBLE
    trials = Trials(how, data, start + share * 60 * minutes, model.n_jobs)
    with shown_to(verbose) as trials.show:
        trials.begin()
        seconds = _DEFAULT_ROUNDS * _seconds_per_round(trials.best, rows.n_columns)
        if ensemble is None and seconds < _SHARE_OF_DEFAULTS * (end - monotonic()):
            networks.append(fitted({"verbose": 0}, data))  # the table is shown now
        if ensemble is None and model.image_shape is None:
            order = trials.best_order(columns if data.has_counts else columns.without_counts(), model.merge_rows)
            if order is not None:
                model.order, data = order.tolist(), trials.data
        trials.search(optuna, seed)
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
    pace = 1.0  # how long a network takes, as a share of what was foreseen
    while True:
        setting, began = _network(best, left / pace, rows.n_columns, MOST_ROUNDS), monotonic()
        networks = [max([*networks, fitted(setting, data)], key=itemgetter(1))]  # the first of those that are level
        took = max(monotonic() - began, 1e-3)
        pace = min(1.0, took / (setting["max_iter"] * _seconds_per_round(best, rows.n_columns)))
        trials.deadline = end - _SET_ASIDE * took
        if monotonic() > trials.deadline:
            break
        with shown_to(verbose) as trials.show:
            trials.search(optuna, seed)
        if setting_of(trials.best) == setting_of(best):
            break
        best, left = trials.best, end - monotonic()
    model = networks[0][0].set_params(verbose=verbose)
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
    return setting_of(best) | {
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
