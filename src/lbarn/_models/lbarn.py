"""LBARN, the LogitBoost autoregressive network, as a scikit-learn density estimator."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.bits import PackedBits
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._models.autoregressive import AutoregressiveNetwork, checked_weights
from lbarn._network import modelfile
from lbarn._tables.rows import hold_out
from lbarn._tables.table import Kind
from lbarn._training.auto import LEAF_GRID, RATE_LADDER, curves, is_rising, search, search_each
from lbarn._training.checkpoint import Checkpoint, described
from lbarn._training.entropy import entropy_order
from lbarn._training.order import ORDERS, resolve_order
from lbarn._training.progress import CallbackSupport, fit_progress
from lbarn._training.run import refit_network, train_network
from lbarn._training.selection import SELECTIONS, select
from lbarn.errors import CheckpointError, ModelFileError

__all__ = ["LBARN"]


class LBARN(CallbackSupport, modelfile.SavedModel, AutoregressiveNetwork):
    """The distribution of binary rows as a product of conditionals, each learned by LogitBoost.

    ``P(x) = prod_d P(x_d | x_1..x_{d-1})``; every conditional is the logistic function of a sum of shrunken regression
    trees, started at 1/2 (or as ``init`` says) and grown on the training rows; how many trees each one gets is chosen on validation rows.

    Parameters
    ----------
    max_leaf_nodes : int, "auto" or "auto-each", default=16
        Leaves per tree; "auto" takes the best of 2, 4, ..., 128 on the validation rows, "auto-each" the best for every column.
    learning_rate : float or "auto", default=0.02
        Shrinkage; "auto" starts at 0.02 and raises it while validation still improves at ``max_iter``.
    max_iter : int, default=1000
        Trees per dimension.
    selection : {"individual", "common", "linearized", "linearized-backward"}, default="individual"
        How the number of trees per dimension is chosen.
    order : {"given", "random", "entropy-decreasing", "entropy-increasing"} or permutation, default="given"
        The order in which the columns are modelled: position ``k`` holds column ``order[k]``.
    init : {"half", "prior", "linear"}, default="half"
        Where every conditional starts: at 1/2, at its base rate, or at a logistic regression on the columns before it, boosted from
        stumps at ten times the learning rate until validation stalls, for 200 rounds at most. They count among ``max_iter``.
    boosting : {"newton", "gradient"}, default="newton"
        Objective of the splits: LogitBoost's, or the gradient alone.
    splits : {"fast", "exact"}, default="fast"
        Choose splits on sums of stochastically rounded gradients (``split_bits`` bits), or on 24-bit ones.
    split_bits : int, default=6
        Bits of a rounded gradient, 2 to 6; fewer are often better.
    min_gain : float, default=0.0
        A split must gain more than this.
    l2_regularization : float, default=0.0
        Added to the summed hessian of every leaf.
    max_features : float, default=1.0
        Share of the columns before it that a tree may split on, drawn for each tree: below 1, trees differ more.
    refit : bool, default=False
        Renew the leaf values on training and validation rows together after selection.
    n_iter_no_change : int or None, default=None
        Stop a dimension whose validation curve has not improved for so many rounds (individual selection only).
    validation_fraction : float, default=0.2
        Share of the rows held out when ``fit`` is given no ``X_val``.
    binarize : float or None, default=None
        Threshold: values above it are 1. None takes 0 and 1 only.
    warm_start : bool, default=False
        ``fit`` on the same data with a larger ``max_iter`` continues, with the same result as one longer run.
    n_jobs : int or None, default=None
        Threads (or workers of the selected joblib backend) over dimensions, as in scikit-learn.
    random_state : int, RandomState instance or None, default=None
        Seeds the hold-out, the random order and the rounding.
    verbose : int, default=0
        Show a progress bar.

    Attributes
    ----------
    order_ : ndarray of shape (D,)
        The column at each position.
    n_trees_ : ndarray of shape (D,)
        Selected number of trees of every column.
    train_curve_, valid_curve_ : ndarray of shape (D, max_iter + 1)
        Mean log-likelihood per row of every column after 0, 1, ... trees.
    feature_importances_ : ndarray of shape (D, D)
        ``[i, j]``: summed gain of predictor ``j`` for variable ``i`` over the selected trees.
    search_results_ : list of dict
        What ``"auto"`` tried, with the validation log-likelihood over the dimensions trained by then.
    trials_ : list of dict
        What :func:`lbarn.tune` tried, where the network comes from there.
    seed_, selection_, max_leaf_nodes_, learning_rate_ : the values in use; of "auto-each" the largest number of leaves.

    Notes
    -----
    A missing value (NaN) in training data: a row whose target is missing is left out of that conditional, and a missing
    predictor reads as its column's most common value.

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

    _file_kind = "LBARN"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "max_leaf_nodes": [Interval(Integral, 2, 65_535, closed="both"), StrOptions({"auto", "auto-each"})],
        "learning_rate": [Interval(Real, 0, 1, closed="right"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "selection": [StrOptions(set(SELECTIONS))],
        "order": [StrOptions(set(ORDERS)), "array-like"],
        "init": [StrOptions({"half", "prior", "linear"})],
        "boosting": [StrOptions({"newton", "gradient"})],
        "splits": [StrOptions({"fast", "exact"})],
        "split_bits": [Interval(Integral, 2, 6, closed="both")],
        "min_gain": [Interval(Real, 0, None, closed="left")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
        "max_features": [Interval(Real, 0, 1, closed="right")],
        "refit": ["boolean"],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "binarize": [Interval(Real, None, None, closed="neither"), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        max_leaf_nodes: int | str = 16,
        learning_rate: float | str = 0.02,
        max_iter: int = 1000,
        selection: str = "individual",
        order: str | Sequence[int] | NDArray[Any] = "given",
        init: str = "half",
        boosting: str = "newton",
        splits: str = "fast",
        split_bits: int = 6,
        min_gain: float = 0.0,
        l2_regularization: float = 0.0,
        max_features: float = 1.0,
        refit: bool = False,
        n_iter_no_change: int | None = None,
        validation_fraction: float = 0.2,
        binarize: float | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.max_leaf_nodes = max_leaf_nodes
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.selection = selection
        self.order = order
        self.init = init
        self.boosting = boosting
        self.splits = splits
        self.split_bits = split_bits
        self.min_gain = min_gain
        self.l2_regularization = l2_regularization
        self.max_features = max_features
        self.refit = refit
        self.n_iter_no_change = n_iter_no_change
        self.validation_fraction = validation_fraction
        self.binarize = binarize
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    seed_: int
    trials_: list[dict[str, Any]]
    _trained: list[Conditional]  # before any refit, to continue from
    _trained_identity: dict[str, str]
    _leaves: dict[int, int]  # by position, where they are chosen for each

    # ------------------------------------------------------------------ fit

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
            Rows to choose the numbers of trees on; else ``validation_fraction`` of ``X`` is held out.
        sample_weight, sample_weight_val : array-like of shape (n,), optional
        checkpoint : path, optional
            A folder for finished dimensions: the same fit started again continues from there.
        """
        if self.n_iter_no_change is not None and self.selection != "individual":
            raise ValueError(f"n_iter_no_change works with selection='individual' only, not {self.selection!r}")
        table, table_val, weight, weight_val = self._read_all(X, X_val, sample_weight, sample_weight_val)
        given = np.arange(table.n_columns)
        train, valid = table.pack(given), None if table_val is None else table_val.pack(given)
        fingerprint = _fingerprint(train, valid, weight, weight_val)
        continues = self.warm_start and hasattr(self, "_trained")
        if continues:
            self._check_continues(self._identity(fingerprint))
        seed = self.seed_ if continues else int(check_random_state(self.random_state).randint(2**31 - 1))
        store = None
        if checkpoint is not None:
            store = Checkpoint(checkpoint, self._identity(fingerprint), seed)
            if continues and store.seed != seed:
                raise CheckpointError(
                    f"{checkpoint} was begun with another seed than the fit that warm_start=True continues; choose an empty "
                    "folder"
                )
            seed = store.seed
        self.seed_ = seed

        samples = self._split(train, valid, weight, weight_val)
        self.order_ = resolve_order(
            self.order, table.n_columns, seed, lambda decreasing: self._entropy_order(samples[0], decreasing, store)
        )
        data = TrainingData(_in_order(samples[0], self.order_), _in_order(samples[1], self.order_), seed)
        self._kind = table.kind
        start = self._trained if continues else None
        how, conditionals = self._train(data, start, store)
        self.max_leaf_nodes_, self.learning_rate_ = how.max_leaf_nodes, how.learning_rate

        train_curve, valid_curve = curves(conditionals, self.max_iter)
        if is_rising(valid_curve) and self.n_iter_no_change is None:
            warnings.warn(
                f"validation log-likelihood is still rising at max_iter={self.max_iter}; raise max_iter (warm_start=True "
                "continues this fit), or learning_rate, or set learning_rate='auto'",
                ConvergenceWarning,
                stacklevel=3,
            )
        position = np.argsort(self.order_)
        self.train_curve_, self.valid_curve_ = train_curve[position], valid_curve[position]
        self._conditionals = conditionals
        self._trained, self._trained_identity = conditionals, self._identity(fingerprint)
        self.select(self.selection)
        if self.refit:
            self._conditionals = refit_network(conditionals, how, data.train + data.valid, n_jobs=self.n_jobs)
        return self

    def _split(
        self,
        train: _Packed,
        valid: _Packed | None,
        weight: NDArray[np.float64] | None,
        weight_val: NDArray[np.float64] | None,
    ) -> tuple[TrainingRows, TrainingRows]:
        """Training and validation rows, columns as given, missing values filled."""
        if valid is not None:
            sample, sample_val = TrainingRows(*train, weight), TrainingRows(*valid, weight_val)
        else:
            whole = TrainingRows(*train, weight)
            rows, rows_val = hold_out(train[0].n_rows, self.validation_fraction, self.seed_, weight)
            sample, sample_val = whole.take(rows), whole.take(rows_val)
        fill = sample.common_values()
        return sample.filled(fill), sample_val.filled(fill)

    def _entropy_order(self, sample: TrainingRows, decreasing: bool, store: Checkpoint | None) -> NDArray[np.intp]:
        known = store.load_array("order") if store else None
        if known is None:
            known = entropy_order(sample, decreasing=decreasing, seed=self.seed_, n_jobs=self.n_jobs)
            if store:
                store.save_array("order", known)
        return known

    def _train(
        self, data: TrainingData, start: list[Conditional] | None, store: Checkpoint | None
    ) -> tuple[Boosting, list[Conditional]]:
        D = data.train.bits.n_columns
        before = None if start is None else {c.position: c for c in start}
        auto_leaves, auto_rate = self.max_leaf_nodes in ("auto", "auto-each"), self.learning_rate == "auto"
        how = self._boosting(
            LEAF_GRID[0] if auto_leaves else self.max_leaf_nodes, RATE_LADDER[0] if auto_rate else self.learning_rate
        )
        searching = (auto_leaves or auto_rate) and before is None
        if before is None:
            for name in ("search_results_", "trials_"):
                self.__dict__.pop(name, None)  # of an earlier fit
        else:
            how = self._boosting(self.max_leaf_nodes_, self.learning_rate_)
        chosen = self._leaves if before is not None else {}
        with fit_progress(self, None if searching else D, self.verbose) as progress:

            def train(positions: Sequence[int], candidate: Boosting) -> dict[int, Conditional]:
                return train_network(
                    positions, candidate, data, start=before, n_jobs=self.n_jobs, checkpoint=store, progress=progress
                )

            leaves = LEAF_GRID if auto_leaves else (how.max_leaf_nodes,)
            rates = RATE_LADDER if auto_rate else (how.learning_rate,)
            if searching and self.max_leaf_nodes == "auto-each":
                how, trained, chosen, self.search_results_ = search_each(D, how, leaves, rates, train)
            elif searching:
                how, trained, self.search_results_ = search(D, how, leaves, rates, self.selection, train)
            else:
                trained = {}
                for J in sorted(set(chosen.values())) or [how.max_leaf_nodes]:
                    own = [d for d in range(D) if chosen.get(d, J) == J]
                    trained |= train(own, replace(how, max_leaf_nodes=J))
        self._leaves = chosen
        return how, [trained[d] for d in range(D)]

    def _boosting(self, max_leaf_nodes: Any, learning_rate: Any) -> Boosting:
        return Boosting(
            max_leaf_nodes=int(max_leaf_nodes),
            learning_rate=float(learning_rate),
            max_iter=int(self.max_iter),
            init=self.init,
            boosting=self.boosting,
            splits=self.splits,
            split_bits=int(self.split_bits),
            min_gain=float(self.min_gain),
            l2_regularization=float(self.l2_regularization),
            max_features=float(self.max_features),
            n_iter_no_change=None if self.n_iter_no_change is None else int(self.n_iter_no_change),
        )

    def _identity(self, fingerprint: str) -> dict[str, str]:
        """What determines the model: data and every parameter that affects it."""
        return {"data": fingerprint, **described(self)}

    def _check_continues(self, identity: dict[str, str]) -> None:
        different = {name for name in identity if identity[name] != self._trained_identity[name]}
        if "data" in different:
            raise ValueError("warm_start=True continues on the same data; these are others: set warm_start=False")
        different -= {"max_iter", "selection", "refit", "random_state", "binarize"}
        if different:
            raise ValueError(
                f"warm_start=True continues the same fit, but {', '.join(sorted(different))} changed: set warm_start=False"
            )
        trained = len(self.train_curve_[0]) - 1
        if self.max_iter < trained:
            raise ValueError(
                f"warm_start=True: max_iter={self.max_iter} is less than the {trained} rounds already trained"
            )

    # ------------------------------------------------------------------ select and refit

    def select(self, method: str) -> LBARN:
        """Choose the numbers of trees again, by any of the selections, from the same training run."""
        check_is_fitted(self, "_conditionals")
        if method not in SELECTIONS:
            raise ValueError(f"selection must be one of {', '.join(SELECTIONS)}; got {method!r}")
        if not hasattr(self, "train_curve_"):
            raise ValueError(
                "a trimmed model keeps the selected trees only and cannot select again; use the untrimmed one"
            )
        if self.n_iter_no_change is not None and method != "individual":
            raise ValueError(f"n_iter_no_change works with selection='individual' only, not {method!r}")
        chosen = select(method, self.train_curve_, self.valid_curve_)
        counts = np.array([len(c.trees) for c in self._conditionals])[np.argsort(self.order_)]
        self.n_trees_ = np.minimum(chosen, counts)
        self.selection_ = method
        return self

    def refit_leaves(self, X: Any, *, sample_weight: ArrayLike | None = None) -> LBARN:
        """Renew the leaf values of all trees on ``X``, round by round, their splits kept.

        A leaf that meets no row gets 0. ``select`` still works, on the curves of the training run.
        """
        check_is_fitted(self, "_conditionals")
        table = self._read(X, reset=False)
        bits, missing = table.pack(np.arange(table.n_columns))
        sample = TrainingRows(bits, missing, checked_weights(sample_weight, table.n_rows, "sample_weight"))
        sample = _in_order(sample.filled(sample.common_values()), self.order_)
        how = self._boosting(self.max_leaf_nodes_, self.learning_rate_)
        self._conditionals = refit_network(self._conditionals, how, sample, n_jobs=self.n_jobs)
        return self

    # ------------------------------------------------------------------ files

    def _to_parts(self, trim: bool) -> tuple[dict[str, Any], modelfile.Tensors]:
        check_is_fitted(self, "_conditionals")
        trimmed = trim or not hasattr(self, "train_curve_")
        header = {
            "parameters": modelfile.parameters_to_json(self),
            "fitted": {
                "max_leaf_nodes": int(self.max_leaf_nodes_),
                "learning_rate": float(self.learning_rate_),
                "selection": self.selection_,
                "seed": int(self.seed_),
                "search_results": getattr(self, "search_results_", None),
                "trials": _without_times(getattr(self, "trials_", None)),
            },
            "columns": asdict(self._kind),
            "trimmed": trimmed,
        }
        counts = self._trees_by_position()
        trees = [c.trees.head(t) if trim else c.trees for c, t in zip(self._conditionals, counts)]
        tensors = {
            **modelfile.pack_trees(trees),
            "order": self.order_.astype(np.int64),
            "n_trees": counts.astype(np.int64),
        }
        if any(c.n_start for c in self._conditionals):
            tensors["n_start"] = np.array([min(c.n_start, len(t)) for c, t in zip(self._conditionals, trees)], np.int64)
        if not trimmed:
            tensors |= {"train_curve": self.train_curve_, "valid_curve": self.valid_curve_}
        return header, tensors

    @classmethod
    def _from_parts(cls, header: dict[str, Any], tensors: modelfile.Tensors) -> LBARN:
        order = modelfile.expect(tensors, "order", np.int64, (None,))
        D = len(order)
        if D == 0 or not np.array_equal(np.sort(order), np.arange(D)):
            raise ModelFileError("the order is not a permutation")
        trees = modelfile.unpack_trees(tensors, D)
        counts = modelfile.expect(tensors, "n_trees", np.int64, (D,))
        if (counts < 0).any() or (counts > [len(t) for t in trees]).any():
            raise ModelFileError("a dimension has fewer trees than were selected")
        try:
            model = modelfile.parameters_from_json(cls, header["parameters"])
            model._kind = _kind(header["columns"], D)
            fitted = header["fitted"]
            model.max_leaf_nodes_, model.learning_rate_ = int(fitted["max_leaf_nodes"]), float(fitted["learning_rate"])
            model.selection_, model.seed_ = str(fitted["selection"]), int(fitted["seed"])
            if fitted["search_results"] is not None:
                model.search_results_ = list(fitted["search_results"])
            if fitted.get("trials") is not None:
                model.trials_ = list(fitted["trials"])
            trimmed = bool(header["trimmed"])
            if model.selection_ not in SELECTIONS:
                raise ValueError(f"unknown selection {model.selection_!r}")
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ModelFileError(f"its description does not make sense ({error})") from error
        model.n_features_in_ = D
        if model._kind.names is not None and all(isinstance(name, str) for name in model._kind.names):
            model.feature_names_in_ = np.array(model._kind.names, dtype=object)
        model.order_ = order.astype(np.intp)
        model.n_trees_ = np.empty(D, np.intp)
        model.n_trees_[model.order_] = counts
        none = np.zeros(0)
        starts = np.zeros(D, np.int64)
        if "n_start" in tensors:
            starts = modelfile.expect(tensors, "n_start", np.int64, (D,))
            if (starts < 0).any() or (starts > [len(t) for t in trees]).any():
                raise ModelFileError("a start is longer than its trees")
        model._conditionals = [Conditional(d, t, none, none, int(n)) for d, (t, n) in enumerate(zip(trees, starts))]
        if not trimmed:
            model.train_curve_ = modelfile.expect(tensors, "train_curve", np.float64, (D, None))
            rounds = model.train_curve_.shape[1]
            model.valid_curve_ = modelfile.expect(tensors, "valid_curve", np.float64, (D, rounds))
            if rounds < 1 or any(len(t) >= rounds for t in trees):
                raise ModelFileError("the curves are shorter than the trees")
            if not (np.isfinite(model.train_curve_).all() and np.isfinite(model.valid_curve_).all()):
                raise ModelFileError("a curve is not of numbers")
        return model


def _without_times(trials: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """A file depends on the model alone."""
    return trials and [{name: value for name, value in trial.items() if name != "seconds"} for trial in trials]


_Packed = tuple[PackedBits, PackedBits | None]


def _in_order(sample: TrainingRows, order: NDArray[np.intp]) -> TrainingRows:
    """The same sample with its columns permuted."""
    if np.array_equal(order, np.arange(len(order))):
        return sample
    return replace(
        sample,
        bits=sample.bits.permuted(order),
        missing=None if sample.missing is None else sample.missing.permuted(order),
    )


def _fingerprint(train: _Packed, valid: _Packed | None, *weights: NDArray[np.float64] | None) -> str:
    digest = hashlib.sha256()
    for part in (*train, *(valid or (None, None))):
        digest.update(b"-" if part is None else f"{part.rows.shape} {part.n_columns}".encode() + part.rows.tobytes())
    for weight in weights:
        digest.update(b"-" if weight is None else weight.tobytes())
    return digest.hexdigest()


def _kind(columns: dict[str, Any], n_columns: int) -> Kind:
    library, names = columns["library"], columns["names"]
    kind = Kind(library, None if names is None else tuple(names), tuple(columns["dtypes"]))
    if library not in ("numpy", "pandas", "polars", "pyarrow"):
        raise ValueError(f"unknown kind of table {library!r}")
    for dtype in kind.dtypes:
        if not re.fullmatch(r"bool|u?int\d+|float\d+|>[iuf]\d", dtype):
            raise ValueError(f"{dtype!r} is not a type of 0 and 1")
        np.dtype(dtype)  # refuses sizes that do not exist
    if len(kind.dtypes) != (1 if kind.names is None else n_columns):
        raise ValueError("column types do not fit the number of columns")
    if kind.names is not None:
        if len(kind.names) != n_columns or len(set(kind.names)) != n_columns:
            raise ValueError("column names do not fit the number of columns")
        for name in kind.names:
            if isinstance(name, str):
                name.encode()  # refuses what is no text
            elif type(name) is not int or library != "pandas":
                raise ValueError(f"{name!r} is not the name of a column")
    return kind
