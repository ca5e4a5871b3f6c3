"""LBARN, the LogitBoost autoregressive network, as a scikit-learn density estimator."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.codetree import Cells, Layout
from lbarn._engine.conditional import Conditional
from lbarn._engine.sharedtrees import SharedTrees
from lbarn._engine.trees import AS_THEY_ARE, KNEES, MOST_STRETCH, NO_STRETCH
from lbarn._models.density import Density, all_or_nothing
from lbarn._models.estimators import DerivedParameters, parameters_from_json, parameters_to_json
from lbarn._network import modelfile
from lbarn._network.container import Tensors, ToWrite, expect
from lbarn._network.network import Network
from lbarn._network.repeats import Repeating, Repeats
from lbarn._tables.codebook import Codebook
from lbarn._tables.table import TableFormat
from lbarn._training.data import GivenRows, checked_weights, coded_rows
from lbarn._training.order import is_permutation
from lbarn._training.progress import CallbackSupport, fit_progress
from lbarn._training.repeats import check_repeats, find_repeats, renewed
from lbarn._training.run import TrainingRun, boosting, is_auto, train_run
from lbarn._training.selection import SELECTIONS
from lbarn.errors import ModelFileError
from lbarn.parameters import NetworkParameters

__all__ = ["LBARN", "records", "untimed"]


class LBARN(CallbackSupport, modelfile.SavedModel, DerivedParameters, NetworkParameters, Density):
    """The distribution of the rows of any table as a product of conditionals, each learned by LogitBoost.

    ``P(x) = prod_d P(x_d | x_1..x_{d-1})``. A column that is not binary is a small tree of bits over its values, and its
    conditional the product of the bits on the way. The conditional of every bit is the logistic function of a sum of shrunken
    regression trees, started at 1/2 (or as ``init`` says) and grown on the training rows that reach it; how many trees each
    one gets is chosen on validation rows [1]_.

    {parameters}

    Attributes
    ----------
    order_ : ndarray of shape (D,)
        The column at each position.
    n_trees_ : ndarray of shape (D,)
        Selected number of trees of every column.
    train_curve_, valid_curve_ : ndarray of shape (D, max_iter + 1)
        Mean log-likelihood per row of every column after 0, 1, ... trees.
    columns_ : ColumnList
        What each column became: its kind, range or levels, cells, share of empty cells, and what its likelihood is of.
    base_rates_ : ndarray of shape (D,)
        The share of ones of every binary column, among the rows given to ``fit``.
    feature_importances_ : ndarray of shape (D, D)
        ``[i, j]``: summed gain of predictor ``j`` for variable ``i`` over the selected trees.
    network_ : Network
        The trained network as a value of its own.
    repeats_ : Repeats or None
        The training rows that are kept because new ones repeat them: ``len(repeats_)`` different ones, ``repeats_.share`` of new rows.
    search_results_ : list of dict
        What ``"auto"`` tried, with the validation log-likelihood over the dimensions trained by then.
    trials_ : list of dict
        What :func:`lbarn.tune` tried, if the network comes from there.
    seed_, selection_, max_leaf_nodes_, learning_rate_ : the values in use; of "auto-each" the largest number of leaves.

    Notes
    -----
    Likelihoods are of mass: of whole values, or of points on the grid that the numbers of a column are on; and of density for
    columns without a grid. ``columns_`` tells which. With ``missing="unknown"``, a row whose target is missing is left out of that
    conditional, and a missing predictor reads as its column's most common value.

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
    repeats_: Repeats | None
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
    _distribution: Network | Repeating

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "network_")

    @property
    def distribution(self) -> Network | Repeating:
        """The trained network, and rows that repeat if there are any, apart from tables and parameters."""
        check_is_fitted(self)
        return self._distribution

    def _explained(self) -> float | None:
        found = self.run_.log_likelihood([len(own) for own in self.network_.trees])
        if found is None or self.base_rates_ is None or self.missing != "value":
            return None
        rates = self.base_rates_
        bits = self.codebook_.is_binary
        shares = (
            np.stack([1 - rates, rates]) if bits else np.concatenate([_shares(c.mass) for c in self.codebook_.codes])
        )
        return found[1] + float(entr(shares).sum()) + (0.0 if self.repeats_ is None else self.repeats_.gain)

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
        X : table
            pandas, polars, pyarrow, NumPy, scipy.sparse or nested lists; of numbers, categories, strings, booleans, dates.
        y : ignored
        X_val : table like X, optional
            Rows to choose the numbers of trees on; otherwise ``validation_fraction`` of ``X`` is held out.
        sample_weight, sample_weight_val : array-like of shape (n,), optional
        checkpoint : path, optional
            A folder for finished columns: the same fit started again continues from there.
        """
        return self.fit_rows(
            GivenRows.read(self, X, X_val, sample_weight, sample_weight_val), checkpoint=checkpoint, stacklevel=5
        )

    def fit_rows(
        self,
        rows: GivenRows,
        *,
        targets: Sequence[int] | None = None,
        shared: SharedTrees | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        stacklevel: int = 2,
    ) -> LBARN:
        """Learn from rows that have been coded. If there are ``targets``, these columns alone are trained, given all others.

        ``shared`` are the trees that all columns begin with, if they are known from an earlier fit to the same rows.
        """
        if isinstance(self.n_iter_no_change, int) and self.selection != "individual":
            raise ValueError(f"n_iter_no_change works with selection='individual' only, not {self.selection!r}")
        if targets is None:
            check_repeats(self, rows)
        before = self.run_ if self.warm_start and hasattr(self, "run_") else None
        total = None if is_auto(self) and before is None else rows.n_columns if targets is None else len(targets)
        with fit_progress(self, total, self.verbose) as progress:
            run = train_run(
                self, rows, targets=targets, before=before, shared=shared, checkpoint=checkpoint, progress=progress
            )
        if run.boosting.n_iter_no_change is None and run.is_rising:
            warnings.warn(
                f"validation log-likelihood is still rising at max_iter={self.max_iter}; raise max_iter (warm_start=True "
                "continues this fit), or learning_rate, or set learning_rate='auto'",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        self._remember(rows.format, rows.n_given, rows.base_rates(), rows.book)
        self.__dict__.pop("trials_", None)  # of an earlier fit
        chosen = run.select(self.selection)
        self._take(run, self.selection, chosen, self._repeats(rows, run, chosen) if targets is None else None)
        return self

    def _repeats(self, rows: GivenRows, run: TrainingRun, chosen: NDArray[np.intp]) -> Repeats | None:
        return find_repeats(self, rows.divided(self.validation_fraction, run.seed), run.network(chosen, renewed=False))

    def _take(self, run: TrainingRun, selection: str, n_trees: NDArray[np.intp], repeats: Repeats | None) -> None:
        """Make a selection of a run the model; ``n_trees`` go by node."""
        position = np.argsort(run.order)
        network = run.network(n_trees)
        leaves = run.boosting.max_leaf_nodes
        if leaves is None:
            leaves = 1 + max(int(np.diff(own.offsets).max(initial=0)) for own in run.trees)
        fitted: dict[str, Any] = {
            "run_": run,
            "network_": network,
            "repeats_": repeats,
            "_distribution": network if repeats is None else Repeating(network, repeats),
            "order_": run.order,
            "n_trees_": network.column_trees[position],
            "selection_": selection,
            "seed_": run.seed,
            "max_leaf_nodes_": leaves,
            "learning_rate_": run.boosting.learning_rate,
        }
        curves = run.column_curves()
        if curves is not None:
            fitted |= {"train_curve_": curves[0][position], "valid_curve_": curves[1][position]}
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
        codebook: Codebook | None = None,
        trials: list[dict[str, Any]] | None = None,
        repeats: Repeats | None = None,
    ) -> LBARN:
        """Fitted with a run that is there already; ``n_trees`` go by node. Without a codebook all columns are binary."""
        n_given = len(run.order) if codebook is None else codebook.n_columns + len(codebook.left_out)
        self._remember(table_format, n_given, base_rates, codebook)
        self._take(run, selection, n_trees, repeats)
        if trials is not None:
            self.trials_ = trials
        return self

    # ------------------------------------------------------------------ select and refit

    def select(self, method: str) -> LBARN:
        """Choose the numbers of trees again, by any of the selections, from the same training run."""
        check_is_fitted(self)
        self._take(self.run_, method, self.run_.select(method), self.repeats_)
        return self

    def refit_leaves(self, X: Any, *, sample_weight: ArrayLike | None = None) -> LBARN:
        """Renew the leaf values of all trees on ``X``, round by round, their splits kept.

        A leaf that meets no row gets 0. ``select`` still works, on the curves of the training run. If there are rows that repeat, they are
        now those of ``X``.
        """
        table = self._ready(X)
        given = coded_rows(table, checked_weights(sample_weight, table.n_rows, "sample_weight"))
        if given.cells is None:
            rows = given.filled(given.common_values())
        else:
            rows = replace(given, common=given.common_cells(self.codebook_.layout))
        run = self.run_.refitted(rows.in_order(self.order_, self.run_.layout), n_jobs=self.n_jobs)
        repeats = None if self.repeats_ is None else renewed(self.repeats_, given)
        self._take(run, self.selection_, np.array([len(own) for own in self.network_.trees], dtype=np.intp), repeats)
        return self

    def cumulative_score(self, X: Any) -> NDArray[np.float64]:
        """Mean log-likelihood of the first 1, 2, ..., D variables of the order; the last one is ``score(X)``."""
        table = self._ready(X)
        inside = np.zeros(self.codebook_.n_columns)

        def cells() -> Iterator[Cells]:
            for chunk in table.complete_chunks():
                if chunk.inside is not None:
                    inside[:] += chunk.inside.sum(axis=0) / table.n_rows
                yield chunk.cells

        return self.distribution.cumulative(cells(), self.n_jobs) + np.cumsum(inside[self.order_])


def _shares(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    return mass / mass.sum()


# ---------------------------------------------------------------------- files

_MAX_ROUNDS = 100_000  # to which the curves of a model file are held flat


def _to_parts(model: LBARN, trim: bool) -> tuple[dict[str, Any], ToWrite]:
    check_is_fitted(model)
    run, counts = model.run_, np.array([len(own) for own in model.network_.trees])
    trimmed = trim or run.is_trimmed
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
            "trials": trials and untimed(trials),
        },
        "columns": model.table_format_.to_json(),
        "trimmed": trimmed,
    }
    tensors = {
        **modelfile.pack_trees(trees),
        "order": model.order_.astype(np.int64),
        "n_trees": counts.astype(np.int64),
    }
    described, rows = modelfile.pack_repeats(model.repeats_)
    header, tensors = header | described, {**tensors, **rows}
    if run.n_valid:
        header["n_valid"] = run.n_valid
    if run.stretch != NO_STRETCH:
        tensors["stretch"] = np.array(run.stretch, np.uint8)
    if any(own.n_start for own in run.conditionals):
        starts = [min(own.n_start, len(kept)) for own, kept in zip(run.conditionals, trees)]
        tensors["n_start"] = np.array(starts, np.int64)
    if model.base_rates_ is not None:
        tensors["base_rates"] = model.base_rates_
    if not model.codebook_.is_binary:
        described, own = model.codebook_.to_parts()
        header["codebook"] = described
        tensors |= {f"codebook.{name}": array for name, array in own.items()}
    if not model.codebook_.is_binary or model.network_.groups:  # not every row is one of every conditional
        header["rounds"] = run.boosting.max_iter
        tensors["constant"] = np.array([own.constant for own in run.conditionals], np.uint8)
        if not trimmed:
            shares = [(own.train_share, own.valid_share) for own in run.conditionals]
            tensors["shares"] = np.array(shares).reshape(-1, 2)
            tensors["train_curve"] = np.concatenate([own.train_curve for own in run.conditionals])
            tensors["valid_curve"] = np.concatenate([own.valid_curve for own in run.conditionals])
    elif not trimmed:
        tensors |= {"train_curve": model.train_curve_, "valid_curve": model.valid_curve_}
    return header, tensors


def _from_parts(header: dict[str, Any], tensors: Tensors) -> LBARN:
    order = expect(tensors, "order", np.int64, (None,)).astype(np.intp)
    D = len(order)
    if D == 0 or not is_permutation(order, D):
        raise ModelFileError("the order is not a permutation")
    book: Codebook | None = None
    layout = Layout.binary(D)
    if "codebook" in header:
        with modelfile.sensible():
            own = {name.removeprefix("codebook."): a for name, a in tensors.items() if name.startswith("codebook.")}
            book = Codebook.from_parts(header["codebook"], own)
            if book.n_columns != D:
                raise ValueError("the numbers of columns do not fit")
            layout = book.layout.permuted(order)
    nodes = layout.n_nodes
    trees = modelfile.unpack_trees(tensors, layout.node_position)
    lengths = np.array([len(own) for own in trees])
    counts = expect(tensors, "n_trees", np.int64, (nodes,)).astype(np.intp)
    if (counts < 0).any() or (counts > lengths).any():
        raise ModelFileError("a column has fewer trees than were selected")
    starts = np.zeros(nodes, np.int64)
    if "n_start" in tensors:
        starts = expect(tensors, "n_start", np.int64, (nodes,))
        if (starts < 0).any() or (starts > lengths).any():
            raise ModelFileError("a start is longer than its trees")
    with modelfile.sensible():
        model = parameters_from_json(LBARN, header["parameters"])
        n_given = D if book is None else D + len(book.left_out)
        table_format = TableFormat.from_json(header["columns"], n_given)
        fitted = header["fitted"]
        how = boosting(
            model, max_leaf_nodes=int(fitted["max_leaf_nodes"]), learning_rate=float(fitted["learning_rate"])
        )
        selection, seed, trimmed = str(fitted["selection"]), int(fitted["seed"]), bool(header["trimmed"])
        if selection not in SELECTIONS:
            raise ValueError(f"unknown selection {selection!r}")
        if not 0 < how.learning_rate <= 1 or not 1 <= (how.max_leaf_nodes or 0) <= 65_535:
            raise ValueError("its learning rate or number of leaves is out of range")
        found, trials = records(fitted["search_results"]), records(fitted.get("trials"))
        n_valid, rounds = float(header.get("n_valid", 0.0)), int(header.get("rounds", 0))
        if not 0 <= n_valid < np.inf:
            raise ValueError("its number of validation rows makes no sense")
    base_rates = None
    if "base_rates" in tensors:
        base_rates = expect(tensors, "base_rates", np.float64, (D,))
        rates = base_rates if book is None else base_rates[~np.isnan(base_rates)]
        if not ((rates > 0) & (rates < 1)).all():
            raise ModelFileError("the base rates are not probabilities")
    plain = "constant" not in tensors  # every row is one of every conditional
    curves = _curves(tensors, trimmed, order, lengths, plain)
    if not trimmed:  # as long as they were, whatever the parameters say now
        rounds = tensors["train_curve"].shape[1] - 1 if plain else rounds
        if not lengths.max(initial=0) <= rounds <= max(_MAX_ROUNDS, lengths.max(initial=0)):
            raise ModelFileError("the number of rounds makes no sense")
        how = replace(how, max_iter=rounds)
    constant, shares = np.zeros(nodes, np.uint8), np.ones((nodes, 2))
    if book is not None or not plain:
        constant = expect(tensors, "constant", np.uint8, (nodes,))
        if not trimmed:
            shares = expect(tensors, "shares", np.float64, (nodes, 2))
        if not ((shares >= 0) & (shares <= 1)).all() or (counts[constant > 0] != 1).any():
            raise ModelFileError("the shares of rows that reach a node make no sense")
    conditionals = tuple(
        Conditional(
            int(p), own, *curves[k], int(starts[k]), float(shares[k, 0]), float(shares[k, 1]), bool(constant[k])
        )
        for k, (p, own) in enumerate(zip(layout.node_position, trees))
    )
    stretch = NO_STRETCH
    if "stretch" in tensors:
        stretch = tuple(expect(tensors, "stretch", np.uint8, (len(KNEES),)).tolist())
        if not all(AS_THEY_ARE <= own <= MOST_STRETCH for own in stretch):
            raise ModelFileError("the stretch of the log-odds is out of range")
    run = TrainingRun(
        order, layout, conditionals, how, seed, n_valid, model.pooling, stretch=stretch, search_results=found
    )
    repeats = modelfile.unpack_repeats(header, tensors, D) if layout.is_binary else None
    return model.restored(run, selection, counts, table_format, base_rates, book, trials, repeats)


def _curves(
    tensors: Tensors, trimmed: bool, order: NDArray[np.intp], lengths: NDArray[np.intp], binary: bool
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Train and validation curve of every node."""
    if trimmed:
        return [(np.zeros(0), np.zeros(0))] * len(lengths)
    if not binary:
        ends = np.cumsum(lengths + 1)
        both = [expect(tensors, name, np.float64, (int(ends[-1]),)) for name in ("train_curve", "valid_curve")]
        if not all(np.isfinite(own).all() for own in both):
            raise ModelFileError("a curve is not of numbers")
        return list(zip(*(np.split(own, ends[:-1]) for own in both)))
    train_curve = expect(tensors, "train_curve", np.float64, (len(order), None))
    rounds = train_curve.shape[1]
    valid_curve = expect(tensors, "valid_curve", np.float64, (len(order), rounds))
    if rounds < 1 or (lengths >= rounds).any():
        raise ModelFileError("the curves are shorter than the trees")
    if not (np.isfinite(train_curve).all() and np.isfinite(valid_curve).all()):
        raise ModelFileError("a curve is not of numbers")
    return [(train_curve[d, : n + 1], valid_curve[d, : n + 1]) for d, n in zip(order, lengths)]


def untimed(trials: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was tried without the times: a file depends on the model alone."""
    return [{name: value for name, value in trial.items() if name != "seconds"} for trial in trials]


def records(content: Any) -> list[dict[str, Any]] | None:
    """A list of what was tried, as tables are."""
    if content is None:
        return None
    if not isinstance(content, list) or not all(isinstance(record, dict) for record in content):
        raise ValueError("what was tried is not a list of records")
    if any(isinstance(value, list | dict) for record in content for value in record.values()):
        raise ValueError("what was tried is not a list of flat records")
    return content


modelfile.register(LBARN, _to_parts, _from_parts)
