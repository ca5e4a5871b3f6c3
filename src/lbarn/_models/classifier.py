"""Classification by Bayes' rule: one network per class, and how common the classes are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted, validate_data

from lbarn._engine.bits import pack
from lbarn._engine.trees import UNIT
from lbarn._models.autoregressive import AutoregressiveNetwork, checked_weights
from lbarn._models.lbarn import LBARN, _kind
from lbarn._network import evaluation, modelfile
from lbarn._network.conditioning import Evidence, condition
from lbarn._tables.rows import take_rows
from lbarn._tables.table import Table, read_table
from lbarn.baselines import IndependentBits
from lbarn.errors import ModelFileError

__all__ = ["MIN_CLASS_ROWS", "LBARNClassifier"]

MIN_CLASS_ROWS = 10  # a class with fewer rows gets independent bits
_PARTICLES = 1000  # for rows with missing bits, as in LBARN.log_marginal


class LBARNClassifier(modelfile.SavedModel, ClassifierMixin, BaseEstimator):
    """``P(c | x) = P(c) P(x | c) / sum_c' P(c') P(x | c')``, with an :class:`lbarn.LBARN` for every ``P(x | c)``.

    Every class holds out ``validation_fraction`` of its own rows, so the hold-out is stratified. A class of fewer than
    10 rows, or too small to hold out any, gets smoothed independent bits (:class:`lbarn.baselines.IndependentBits`).

    The parameters are those of :class:`lbarn.LBARN`, and go to the network of every class. Two defaults differ, because a
    class has few rows to choose numbers of trees on, and a bit that it holds for all but impossible outvotes all others:
    ``selection="common"`` and ``l2_regularization=3.0``.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    class_prior_ : ndarray of shape (K,)
        P(c): the share of each class of the rows, or of their weight.
    networks_ : list of K models
        P(x | c), in the order of ``classes_``: each can be sampled, explained or refitted on its own.

    Notes
    -----
    Missing values (NaN) are no obstacle: training leaves them out as LBARN's does, and a row is classified by the bits
    that it has. That is exact where up to 12 bits are missing before the last one that is there, in the network's order;
    otherwise P(x | c) is estimated as by ``LBARN.log_marginal``, with a fixed seed.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARNClassifier
    >>> X = np.random.default_rng(0).integers(0, 2, (500, 4))
    >>> y = np.where(X[:, 0] ^ X[:, 3], "odd", "even")
    >>> model = LBARNClassifier(max_leaf_nodes=4, learning_rate=0.3, max_iter=50, random_state=0).fit(X, y)
    >>> model.predict([[0, 1, 1, 0], [0, 1, 1, 1]])
    array(['even', 'odd'], dtype='<U4')
    """

    _file_kind = "LBARNClassifier"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = LBARN._parameter_constraints

    def __init__(
        self,
        *,
        max_leaf_nodes: int | str = 16,
        learning_rate: float | str = 0.02,
        max_iter: int = 1000,
        selection: str = "common",
        order: str | Sequence[int] | NDArray[Any] = "given",
        init: str = "half",
        boosting: str = "newton",
        splits: str = "fast",
        split_bits: int = 6,
        min_gain: float = 0.0,
        l2_regularization: float = 3.0,
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

    classes_: NDArray[Any]
    class_prior_: NDArray[np.float64]
    networks_: list[AutoregressiveNetwork]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    # ------------------------------------------------------------------ fit

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> LBARNClassifier:
        """Learn the distribution of the rows of every class.

        Parameters
        ----------
        X : table of 0 and 1
            NumPy, scipy.sparse, pandas, polars, pyarrow or nested lists.
        y : array-like of shape (n,)
            Labels: numbers or texts.
        X_val, y_val : like X and y, optional
            Rows to choose the numbers of trees on; a class that has none of them holds out rows of its own.
        sample_weight : array-like of shape (n,), optional
            Rows of weight 0 are left out.
        checkpoint : path, optional
            A folder for finished dimensions: the same fit started again continues from there.
        """
        table = read_table(X, binarize=self.binarize)
        validate_data(self, X, y, reset=True, skip_check_array=True)
        labels = self._labels(y, table.n_rows, "y")
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        there = np.ones(table.n_rows, bool) if weight is None else weight > 0
        classes = np.unique(labels[there])
        of_class = [np.flatnonzero(there & (labels == label)) for label in classes]
        of_class_val = self._validation_rows(X_val, y_val, classes)
        before = self._to_continue(classes)

        self.classes_ = classes
        share = there if weight is None else weight / weight.max()  # so that no sum overflows
        total = np.array([share[rows].sum() for rows in of_class])
        self.class_prior_ = total / total.sum()
        self.networks_ = []
        for k, (rows, rows_val) in enumerate(zip(of_class, of_class_val)):
            X_class, weight_class = take_rows(X, rows), None if weight is None else weight[rows]
            if self._is_too_small(len(rows), len(rows_val)):
                bits = IndependentBits(binarize=self.binarize, n_jobs=self.n_jobs)
                self.networks_.append(bits.fit(X_class, sample_weight=weight_class))
                continue
            network = LBARN(**self.get_params()) if before is None else before[k].set_params(**self.get_params())
            network.fit(
                X_class,
                X_val=take_rows(X_val, rows_val) if len(rows_val) else None,
                sample_weight=weight_class,
                checkpoint=None if checkpoint is None else Path(checkpoint) / f"class-{k}",
            )
            self.networks_.append(network)
        return self

    def _labels(self, y: Any, n_rows: int, name: str) -> NDArray[Any]:
        labels = _check_y(y, estimator=self)
        check_classification_targets(labels)
        if len(labels) != n_rows:
            raise ValueError(f"inconsistent numbers of samples: {n_rows} rows, but {name} has {len(labels)} labels")
        return labels

    def _validation_rows(self, X_val: Any, y_val: Any, classes: NDArray[Any]) -> list[NDArray[np.intp]]:
        """The rows of ``X_val`` of every class."""
        if (X_val is None) != (y_val is None):
            raise ValueError(f"X_val and y_val go together; {'X_val' if X_val is None else 'y_val'} is missing")
        if X_val is None:
            return [np.zeros(0, np.intp) for _ in classes]
        table = read_table(X_val, binarize=self.binarize)
        validate_data(self, X_val, reset=False, skip_check_array=True)
        labels = self._labels(y_val, table.n_rows, "y_val")
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise ValueError(f"y_val holds the class {unknown[0].item()!r}, which y does not")
        return [np.flatnonzero(labels == label) for label in classes]

    def _is_too_small(self, n: int, n_val: int) -> bool:
        return n < MIN_CLASS_ROWS or (n_val == 0 and not 0 < round(self.validation_fraction * n) < n)

    def _to_continue(self, classes: NDArray[Any]) -> list[AutoregressiveNetwork] | None:
        """The networks of the fit before this one, where it is to be continued."""
        if not (self.warm_start and hasattr(self, "networks_")):
            return None
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                "warm_start=True continues on the same data; these have other classes: set warm_start=False"
            )
        return self.networks_

    # ------------------------------------------------------------------ predict

    def predict_joint_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log P(c) P(x | c), in nats, one column per class; of the bits that are there, where some are missing."""
        table = self._ready(X)
        joint = np.empty((table.n_rows, len(self.classes_)))
        for start, values, missing in table.chunks():
            for k, network in enumerate(self.networks_):
                joint[start : start + len(values), k] = _log_marginal(network, values, missing, self.n_jobs)
        return joint + np.log(self.class_prior_)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log P(c | x), one column per class."""
        joint = self.predict_joint_log_proba(X)
        return joint - logsumexp(joint, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """P(c | x), one column per class."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row."""
        best = self.predict_joint_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    @property
    def n_iter_(self) -> int:
        """The most trees that any column of any class got."""
        check_is_fitted(self, "networks_")
        return max(int(network.n_trees_.max()) for network in self.networks_)

    def _ready(self, X: Any) -> Table:
        check_is_fitted(self, "networks_")
        table = read_table(X, binarize=self.binarize)
        validate_data(self, X, reset=False, skip_check_array=True)
        return table

    # ------------------------------------------------------------------ files

    def _to_parts(self, trim: bool) -> tuple[dict[str, Any], modelfile.Tensors]:
        check_is_fitted(self, "networks_")
        parts = [_network_to_parts(network, trim) for network in self.networks_]
        header = {
            "parameters": modelfile.parameters_to_json(self),
            "classes": _labels_to_json(self.classes_),
            "networks": [part for part, _ in parts],
        }
        return header, {"class_prior": self.class_prior_, **modelfile.nest([arrays for _, arrays in parts])}

    @classmethod
    def _from_parts(cls, header: dict[str, Any], tensors: modelfile.Tensors) -> LBARNClassifier:
        try:
            model = modelfile.parameters_from_json(cls, header["parameters"])
            model.classes_ = _labels_from_json(header["classes"])
            parts = [dict(part) for part in header["networks"]]
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ModelFileError(f"its description does not make sense ({error})") from error
        K = len(model.classes_)
        if len(parts) != K:
            raise ModelFileError(f"it has {K} classes and {len(parts)} networks")
        model.class_prior_ = modelfile.expect(tensors, "class_prior", np.float64, (K,))
        if not (model.class_prior_ > 0).all() or not np.isclose(model.class_prior_.sum(), 1):
            raise ModelFileError("the class prior is not a distribution")
        model.networks_ = [
            _network_from_parts(part, modelfile.nested(tensors, k), model.binarize) for k, part in enumerate(parts)
        ]
        first = model.networks_[0]
        if any(network.n_features_in_ != first.n_features_in_ for network in model.networks_):
            raise ModelFileError("its networks have different numbers of columns")
        model.n_features_in_ = first.n_features_in_
        if hasattr(first, "feature_names_in_"):
            model.feature_names_in_ = first.feature_names_in_
        return model


def _log_marginal(
    network: AutoregressiveNetwork, values: NDArray[np.bool_], missing: NDArray[np.bool_] | None, n_jobs: int | None
) -> NDArray[np.float64]:
    """log p of the bits of every row that are there."""
    conditionals, n_trees = network._conditionals, network._trees_by_position()
    if missing is None:
        bits = pack(values, network.order_)
        return UNIT * evaluation.log_likelihood(conditionals, n_trees, bits, n_jobs).astype(np.float64)
    values, missing = values[:, network.order_], missing[:, network.order_]
    # What follows the last bit that is there sums to one, whatever it may be: rows are grouped by where that is.
    end = np.where(missing.all(axis=1), 0, missing.shape[1] - np.argmin(missing[:, ::-1], axis=1))
    log_p = np.zeros(len(values))
    for stop in np.unique(end[end > 0]).tolist():
        rows = np.flatnonzero(end == stop)
        evidence = Evidence.of(values[rows, :stop], missing[rows, :stop], flip=0.0)
        log_p[rows] = condition(
            conditionals[:stop], n_trees[:stop], evidence, n_draws=1, n_particles=_PARTICLES, seed=0, n_jobs=n_jobs
        ).log_marginal
    return log_p


def _network_to_parts(network: AutoregressiveNetwork, trim: bool) -> tuple[dict[str, Any], modelfile.Tensors]:
    if isinstance(network, LBARN):
        header, tensors = network._to_parts(trim)
        return {"kind": "LBARN", **header}, tensors
    log_odds = np.concatenate([conditional.trees.values for conditional in network._conditionals])
    return {"kind": "IndependentBits", "columns": asdict(network._kind)}, {"log_odds": log_odds}


def _network_from_parts(
    header: dict[str, Any], tensors: modelfile.Tensors, binarize: float | None
) -> AutoregressiveNetwork:
    kind = header.get("kind")
    if kind == "LBARN":
        return LBARN._from_parts(header, tensors)
    if kind != "IndependentBits":
        raise ModelFileError(f"it holds a network of unknown kind {kind!r}")
    log_odds = modelfile.expect(tensors, "log_odds", np.int32, (None,))
    if not len(log_odds) or log_odds.min() == np.iinfo(np.int32).min:
        raise ModelFileError("the log-odds of independent bits do not make sense")
    try:
        columns = _kind(header["columns"], len(log_odds))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ModelFileError(f"its description does not make sense ({error})") from error
    network = IndependentBits(binarize=binarize)._hold(columns, log_odds)
    network.n_features_in_ = len(log_odds)
    if columns.names is not None and all(isinstance(name, str) for name in columns.names):
        network.feature_names_in_ = np.array(columns.names, dtype=object)
    return network


_LABELS = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}  # what they are in JSON, by kind of array


def _labels_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    labels = classes.tolist()
    if not all(type(label) is _LABELS.get(classes.dtype.kind) for label in labels):
        raise ValueError(f"class labels of type {classes.dtype} cannot be saved; use numbers or texts")
    return {"dtype": "str" if classes.dtype.kind == "U" else str(classes.dtype), "labels": labels}


def _labels_from_json(content: dict[str, Any]) -> NDArray[Any]:
    labels, dtype = list(content["labels"]), content["dtype"]
    if not re.fullmatch(r"bool|u?int\d+|float\d+|str|object", dtype):
        raise ValueError(f"{dtype!r} is not a type of labels")
    if not all(type(label) is _LABELS[np.dtype(dtype).kind] for label in labels):
        raise ValueError(f"a class label is not of type {dtype}")
    classes = np.array(labels, dtype)
    if not len(classes) or not np.array_equal(np.unique(classes), classes):
        raise ValueError("the class labels are not in order")
    return classes
