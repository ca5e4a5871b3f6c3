"""LBARN, the LogitBoost autoregressive network, as a scikit-learn density estimator."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.conditional import Conditional
from lbarn._engine.rows import TrainingRows
from lbarn._models.density import Density, all_or_nothing
from lbarn._models.estimators import DerivedParameters, parameters_from_json, parameters_to_json
from lbarn._network import modelfile
from lbarn._network.container import Tensors, expect
from lbarn._network.network import Network
from lbarn._tables.table import TableFormat
from lbarn._training.data import GivenRows, checked_weights
from lbarn._training.order import is_permutation
from lbarn._training.progress import CallbackSupport, fit_progress
from lbarn._training.run import TrainingRun, boosting, is_auto, train_run
from lbarn._training.selection import SELECTIONS
from lbarn.errors import ModelFileError
from lbarn.parameters import NetworkParameters

__all__ = ["LBARN"]


class LBARN(CallbackSupport, modelfile.SavedModel, DerivedParameters, NetworkParameters, Density):
    """The distribution of binary rows as a product of conditionals, each learned by LogitBoost.

    ``P(x) = prod_d P(x_d | x_1..x_{d-1})``; every conditional is the logistic function of a sum of shrunken regression
    trees, started at 1/2 (or as ``init`` says) and grown on the training rows; how many trees each one gets is chosen on
    validation rows [1]_.

    {parameters}

    Attributes
    ----------
    order_ : ndarray of shape (D,)
        The column at each position.
    n_trees_ : ndarray of shape (D,)
        Selected number of trees of every column.
    train_curve_, valid_curve_ : ndarray of shape (D, max_iter + 1)
        Mean log-likelihood per row of every column after 0, 1, ... trees.
    base_rates_ : ndarray of shape (D,)
        The share of ones of every column, among the rows given to ``fit``.
    feature_importances_ : ndarray of shape (D, D)
        ``[i, j]``: summed gain of predictor ``j`` for variable ``i`` over the selected trees.
    network_ : Network
        The trained network as a value of its own.
    search_results_ : list of dict
        What ``"auto"`` tried, with the validation log-likelihood over the dimensions trained by then.
    trials_ : list of dict
        What :func:`lbarn.tune` tried, if the network comes from there.
    seed_, selection_, max_leaf_nodes_, learning_rate_ : the values in use; of "auto-each" the largest number of leaves.

    Notes
    -----
    A missing value (NaN) in training data: a row whose target is missing is left out of that conditional, and a missing
    predictor reads as its column's most common value.

    References
    ----------
    .. [1] M. Goessling, "LogitBoost autoregressive networks", Computational Statistics & Data Analysis 112 (2017).

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (500, 4))
    >>> X[:, 3] = X[:, 0] ^ X[:, 1]
    >>> model = LBARN(max_leaf_nodes=4, learning_rate=0.3, max_iter=50, random_state=0).fit(X)
    >>> bool(model.score(X) > -3 * np.log(2) - 0.1)
    True
    >>> model.sample(2, random_state=0).shape
    (2, 4)
    """

    run_: TrainingRun
    network_: Network
    order_: NDArray[np.intp]
    n_trees_: NDArray[np.intp]
    train_curve_: NDArray[np.float64]
    valid_curve_: NDArray[np.float64]
    search_results_: list[dict[str, Any]]
    trials_: list[dict[str, Any]]
    seed_: int
    selection_: str
    max_leaf_nodes_: int
    learning_rate_: float

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    @property
    def distribution(self) -> Network:
        """The trained network, apart from tables and parameters."""
        check_is_fitted(self)
        return self.network_

    # ------------------------------------------------------------------ fit

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: None = None,
        *,
        X_val: Any = None,
        sample_weight: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> LBARN:
        """Learn the distribution of the rows of ``X``.

        Parameters
        ----------
        X : table of 0 and 1
            NumPy, scipy.sparse, pandas, polars, pyarrow or nested lists.
        y : ignored
        X_val : table like X, optional
            Rows to choose the numbers of trees on; otherwise ``validation_fraction`` of ``X`` is held out.
        sample_weight, sample_weight_val : array-like of shape (n,), optional
        checkpoint : path, optional
            A folder for finished columns: the same fit started again continues from there.
        """
        if isinstance(self.n_iter_no_change, int) and self.selection != "individual":
            raise ValueError(f"n_iter_no_change works with selection='individual' only, not {self.selection!r}")
        rows = GivenRows.read(X, X_val, sample_weight, sample_weight_val, binarize=self.binarize)
        before = self.run_ if self.warm_start and hasattr(self, "run_") else None
        total = None if is_auto(self) and before is None else rows.n_columns
        with fit_progress(self, total, self.verbose) as progress:
            run = train_run(self, rows, before=before, checkpoint=checkpoint, progress=progress)
        if run.is_rising and run.boosting.n_iter_no_change is None:
            warnings.warn(
                f"validation log-likelihood is still rising at max_iter={self.max_iter}; raise max_iter (warm_start=True "
                "continues this fit), or learning_rate, or set learning_rate='auto'",
                ConvergenceWarning,
                stacklevel=4,
            )
        self._remember(rows.format, rows.n_columns, rows.base_rates())
        self.__dict__.pop("trials_", None)  # of an earlier fit
        self._take(run, self.selection, run.select(self.selection))
        return self

    def _take(self, run: TrainingRun, selection: str, n_trees: NDArray[np.intp]) -> None:
        """Make a selection of a run the model; ``n_trees`` go by position."""
        position = np.argsort(run.order)
        fitted: dict[str, Any] = {
            "run_": run,
            "network_": run.network(n_trees),
            "order_": run.order,
            "n_trees_": n_trees[position],
            "selection_": selection,
            "seed_": run.seed,
            "max_leaf_nodes_": run.boosting.max_leaf_nodes,
            "learning_rate_": run.boosting.learning_rate,
        }
        if run.train_curve is not None and run.valid_curve is not None:
            fitted |= {"train_curve_": run.train_curve[position], "valid_curve_": run.valid_curve[position]}
        if run.search_results is not None:
            fitted["search_results_"] = run.search_results
        else:
            self.__dict__.pop("search_results_", None)
        self.__dict__.update(fitted)

    def restored(
        self,
        run: TrainingRun,
        selection: str,
        n_trees: NDArray[np.intp],
        table_format: TableFormat,
        base_rates: NDArray[np.float64] | None,
        trials: list[dict[str, Any]] | None = None,
    ) -> LBARN:
        """Fitted with a run that is there already; ``n_trees`` go by position."""
        self._remember(table_format, len(run.order), base_rates)
        self._take(run, selection, n_trees)
        if trials is not None:
            self.trials_ = trials
        return self

    # ------------------------------------------------------------------ select and refit

    def select(self, method: str) -> LBARN:
        """Choose the numbers of trees again, by any of the selections, from the same training run."""
        check_is_fitted(self)
        self._take(self.run_, method, self.run_.select(method))
        return self

    def refit_leaves(self, X: Any, *, sample_weight: ArrayLike | None = None) -> LBARN:
        """Renew the leaf values of all trees on ``X``, round by round, their splits kept.

        A leaf that meets no row gets 0. ``select`` still works, on the curves of the training run.
        """
        table = self._ready(X)
        rows = TrainingRows(*table.pack(), checked_weights(sample_weight, table.n_rows, "sample_weight"))
        rows = rows.filled(rows.common_values()).in_order(self.order_)
        run = self.run_.refitted(rows, n_jobs=self.n_jobs)
        self._take(run, self.selection_, self.n_trees_[self.order_])
        return self

    def cumulative_score(self, X: Any) -> NDArray[np.float64]:
        """Mean log-likelihood of the first 1, 2, ..., D variables of the order; the last one is ``score(X)``."""
        return self.distribution.cumulative((values for _, values in self._ready(X).complete_chunks()), self.n_jobs)


# ---------------------------------------------------------------------- files


def _to_parts(model: LBARN, trim: bool) -> tuple[dict[str, Any], Tensors]:
    check_is_fitted(model)
    run, counts = model.run_, model.n_trees_[model.order_]
    trimmed = trim or run.train_curve is None
    trees = [own.head(int(count)) if trim else own for own, count in zip(run.trees, counts)]
    trials = getattr(model, "trials_", None)
    header = {
        "parameters": parameters_to_json(model),
        "fitted": {
            "max_leaf_nodes": int(model.max_leaf_nodes_),
            "learning_rate": float(model.learning_rate_),
            "selection": model.selection_,
            "seed": int(model.seed_),
            "search_results": run.search_results,
            # Without the times, a file depends on the model alone.
            "trials": trials and [{k: v for k, v in trial.items() if k != "seconds"} for trial in trials],
        },
        "columns": model.table_format_.to_json(),
        "trimmed": trimmed,
    }
    tensors = {
        **modelfile.pack_trees(trees),
        "order": model.order_.astype(np.int64),
        "n_trees": counts.astype(np.int64),
    }
    if any(own.n_start for own in run.conditionals):
        starts = [min(own.n_start, len(kept)) for own, kept in zip(run.conditionals, trees)]
        tensors["n_start"] = np.array(starts, np.int64)
    if model.base_rates_ is not None:
        tensors["base_rates"] = model.base_rates_
    if not trimmed:
        tensors |= {"train_curve": model.train_curve_, "valid_curve": model.valid_curve_}
    return header, tensors


def _from_parts(header: dict[str, Any], tensors: Tensors) -> LBARN:
    order = expect(tensors, "order", np.int64, (None,)).astype(np.intp)
    D = len(order)
    if D == 0 or not is_permutation(order, D):
        raise ModelFileError("the order is not a permutation")
    trees = modelfile.unpack_trees(tensors, D)
    lengths = np.array([len(own) for own in trees])
    counts = expect(tensors, "n_trees", np.int64, (D,)).astype(np.intp)
    if (counts < 0).any() or (counts > lengths).any():
        raise ModelFileError("a column has fewer trees than were selected")
    starts = np.zeros(D, np.int64)
    if "n_start" in tensors:
        starts = expect(tensors, "n_start", np.int64, (D,))
        if (starts < 0).any() or (starts > lengths).any():
            raise ModelFileError("a start is longer than its trees")
    with modelfile.sensible():
        model = parameters_from_json(LBARN, header["parameters"])
        table_format = TableFormat.from_json(header["columns"], D)
        fitted = header["fitted"]
        how = boosting(
            model, max_leaf_nodes=int(fitted["max_leaf_nodes"]), learning_rate=float(fitted["learning_rate"])
        )
        selection, seed, trimmed = str(fitted["selection"]), int(fitted["seed"]), bool(header["trimmed"])
        if selection not in SELECTIONS:
            raise ValueError(f"unknown selection {selection!r}")
        if not 0 < how.learning_rate <= 1 or not 1 <= how.max_leaf_nodes <= 65_535:
            raise ValueError("its learning rate or number of leaves is out of range")
        found, trials = _records(fitted["search_results"]), _records(fitted.get("trials"))
    train_curve = valid_curve = None
    if not trimmed:
        train_curve = expect(tensors, "train_curve", np.float64, (D, None))
        rounds = train_curve.shape[1]
        valid_curve = expect(tensors, "valid_curve", np.float64, (D, rounds))
        if rounds < 1 or (lengths >= rounds).any():
            raise ModelFileError("the curves are shorter than the trees")
        if not (np.isfinite(train_curve).all() and np.isfinite(valid_curve).all()):
            raise ModelFileError("a curve is not of numbers")
        train_curve, valid_curve = train_curve[order], valid_curve[order]
    base_rates = None
    if "base_rates" in tensors:
        base_rates = expect(tensors, "base_rates", np.float64, (D,))
        if not ((base_rates > 0) & (base_rates < 1)).all():
            raise ModelFileError("the base rates are not probabilities")
    none = np.zeros(0)
    conditionals = tuple(Conditional(d, own, none, none, int(n)) for d, (own, n) in enumerate(zip(trees, starts)))
    run = TrainingRun(order, conditionals, how, seed, train_curve, valid_curve, search_results=found)
    return model.restored(run, selection, counts, table_format, base_rates, trials)


def _records(content: Any) -> list[dict[str, Any]] | None:
    """A list of what was tried, as tables are."""
    if content is None:
        return None
    if not isinstance(content, list) or not all(isinstance(record, dict) for record in content):
        raise ValueError("what was tried is not a list of records")
    if any(isinstance(value, list | dict) for record in content for value in record.values()):
        raise ValueError("what was tried is not a list of flat records")
    return content


modelfile.register(LBARN, _to_parts, _from_parts)
