"""Classification by Bayes' rule: one density per class, and how common the classes are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted

from lbarn._models.density import Density, all_or_nothing
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.estimators import parameters_from_json, parameters_to_json
from lbarn._models.lbarn import LBARN
from lbarn._network import modelfile
from lbarn._network.container import Tensors, expect
from lbarn._tables.table import Table, read_like, read_table, take_rows
from lbarn._training.data import checked_weights
from lbarn.baselines.independent import IndependentBits
from lbarn.errors import ModelFileError

__all__ = ["MIN_CLASS_ROWS", "LBARNClassifier"]

MIN_CLASS_ROWS = 10  # a class with fewer rows gets independent bits


class LBARNClassifier(modelfile.SavedModel, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """``P(c | x) = P(c) P(x | c) / sum_c' P(c') P(x | c')``, with a density for every ``P(x | c)``.

    Every class holds out a share of its own rows, so the hold-out is stratified. A class of fewer than 10 rows, or too
    small to hold out any, gets smoothed independent bits (:class:`lbarn.baselines.IndependentBits`).

    Parameters
    ----------
    estimator : LBARN or LBARNEnsemble, default=None
        What learns the distribution of a class; a clone of it is fitted for each. None is
        ``LBARN(l2_regularization=3.0)``: a class has few rows, and a value
        that it considers all but impossible outvotes all others.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    class_prior_ : ndarray of shape (K,)
        P(c): the share of each class of the rows, or of their weight.
    networks_ : list of K models
        P(x | c), in the order of ``classes_``: each can be sampled, explained or refitted on its own.

    Notes
    -----
    Missing values (NaN) are no obstacle: training leaves them out as LBARN's does, and a row is classified by the values
    that it has (see :meth:`lbarn.LBARN.score_samples`).

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN, LBARNClassifier
    >>> X = np.random.default_rng(0).integers(0, 2, (500, 4))
    >>> y = np.where(X[:, 0] ^ X[:, 3], "odd", "even")
    >>> network = LBARN(max_leaf_nodes=4, learning_rate=0.3, max_iter=50, random_state=0)
    >>> model = LBARNClassifier(network).fit(X, y)
    >>> model.predict([[0, 1, 1, 0], [0, 1, 1, 1]])
    array(['even', 'odd'], dtype='<U4')
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"estimator": [Density, None]}

    def __init__(self, estimator: LBARN | LBARNEnsemble | None = None) -> None:
        self.estimator = estimator

    classes_: NDArray[Any]
    class_prior_: NDArray[np.float64]
    networks_: list[Density]
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    @property
    def threshold(self) -> float | None:
        """Above which a value of a table is 1."""
        return self._estimator().binarize

    def _estimator(self) -> LBARN | LBARNEnsemble:
        if self.estimator is None:
            return LBARN(l2_regularization=3.0)
        return self.estimator

    # ------------------------------------------------------------------ fit

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=False)
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
            Labels: numbers or strings.
        X_val, y_val : like X and y, optional
            Rows to choose the numbers of trees on; a class that has none of them holds out rows of its own.
        sample_weight : array-like of shape (n,), optional
            Rows of weight 0 are left out.
        checkpoint : path, optional
            A folder for finished columns: the same fit started again continues from there.
        """
        estimator = self._estimator()
        table = read_table(X, binarize=estimator.binarize)
        labels = self._labels(y, table.n_rows, "y")
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        there = np.ones(table.n_rows, bool) if weight is None else weight > 0
        classes = np.unique(labels[there])
        of_class = [np.flatnonzero(there & (labels == label)) for label in classes]
        of_class_val = self._validation_rows(X_val, y_val, table, classes)
        before = self._to_continue(classes)

        share = there if weight is None else weight / weight.max()  # so that no sum overflows
        total = np.array([share[rows].sum() for rows in of_class])
        networks: list[Density] = []
        for k, (rows, rows_val) in enumerate(zip(of_class, of_class_val)):
            X_class, weight_class = take_rows(X, rows), None if weight is None else weight[rows]
            if self._is_too_small(len(rows), len(rows_val)):
                bits = IndependentBits(binarize=estimator.binarize, n_jobs=estimator.n_jobs)
                networks.append(bits.fit(X_class, sample_weight=weight_class))
                continue
            network = clone(estimator) if before is None else before[k].set_params(**estimator.get_params())
            network.fit(
                X_class,
                X_val=take_rows(X_val, rows_val) if len(rows_val) else None,
                sample_weight=weight_class,
                checkpoint=None if checkpoint is None else Path(checkpoint) / f"class-{k}",
            )
            networks.append(network)
        return self.restored(classes, total / total.sum(), networks)

    def restored(
        self, classes: NDArray[Any], class_prior: NDArray[np.float64], networks: list[Density]
    ) -> LBARNClassifier:
        """Fitted with densities that are there already."""
        first = networks[0]
        self.classes_, self.class_prior_, self.networks_ = classes, class_prior, networks
        self.n_features_in_ = first.n_features_in_
        self.__dict__.pop("feature_names_in_", None)
        if first.table_format_.feature_names is not None:
            self.feature_names_in_ = first.table_format_.feature_names
        return self

    def _labels(self, y: Any, n_rows: int, name: str) -> NDArray[Any]:
        if y is None:
            raise ValueError("LBARNClassifier requires y to be passed, but the target y is None")
        labels = _check_y(y, estimator=self)
        check_classification_targets(labels)
        if len(labels) != n_rows:
            raise ValueError(f"inconsistent numbers of samples: {n_rows} rows, but {name} has {len(labels)} labels")
        return labels

    def _validation_rows(self, X_val: Any, y_val: Any, table: Table, classes: NDArray[Any]) -> list[NDArray[np.intp]]:
        """The rows of ``X_val`` of every class."""
        if (X_val is None) != (y_val is None):
            raise ValueError(f"X_val and y_val go together; {'X_val' if X_val is None else 'y_val'} is missing")
        if X_val is None:
            return [np.zeros(0, np.intp) for _ in classes]
        table_val = read_like(X_val, table.format, table.n_columns, binarize=table.binarize)
        labels = self._labels(y_val, table_val.n_rows, "y_val")
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise ValueError(f"y_val holds the class {unknown[0].item()!r}, which y does not")
        return [np.flatnonzero(labels == label) for label in classes]

    def _is_too_small(self, n: int, n_val: int) -> bool:
        fraction = self._estimator().validation_fraction
        return n < MIN_CLASS_ROWS or (n_val == 0 and not 0 < round(fraction * n) < n)

    def _to_continue(self, classes: NDArray[Any]) -> list[Density] | None:
        """The densities of the fit before this one, if it is to be continued."""
        estimator = self._estimator()
        if not (isinstance(estimator, LBARN) and estimator.warm_start and hasattr(self, "networks_")):
            return None
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                "warm_start=True continues on the same data; these have other classes: set warm_start=False"
            )
        return [_twin(network) for network in self.networks_]

    # ------------------------------------------------------------------ predict

    def predict_joint_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log P(c) P(x | c), in nats, one column per class; of the values that are there, if some are missing."""
        check_is_fitted(self, "networks_")
        first, estimator = self.networks_[0], self._estimator()
        table = read_like(X, first.table_format_, first.n_features_in_, binarize=estimator.binarize)
        joint = np.empty((table.n_rows, len(self.classes_)))
        for start, values, missing in table.chunks():
            for k, network in enumerate(self.networks_):
                log_p = network.distribution.log_likelihood(values, estimator.n_jobs, missing)
                joint[start : start + len(values), k] = log_p
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
        return max(network.distribution.most_trees for network in self.networks_)


def _twin(model: Density) -> Any:
    """Another model with the same fitted attributes: fitting one leaves the other as it was."""
    twin = object.__new__(type(model))
    twin.__dict__.update(model.__dict__)
    return twin


# ---------------------------------------------------------------------- files


def _to_parts(model: LBARNClassifier, trim: bool) -> tuple[dict[str, Any], Tensors]:
    check_is_fitted(model, "networks_")
    parts = [modelfile.to_parts(network, trim) for network in model.networks_]
    header: dict[str, Any] = {
        "estimator": None,
        "classes": _labels_to_json(model.classes_),
        "networks": [{"kind": kind, **part} for kind, part, _ in parts],
    }
    if model.estimator is not None:
        kind = type(model.estimator).__name__
        header["estimator"] = {"kind": kind, "parameters": parameters_to_json(model.estimator)}
    return header, {"class_prior": model.class_prior_, **modelfile.nest([arrays for _, _, arrays in parts])}


def _from_parts(header: dict[str, Any], tensors: Tensors) -> LBARNClassifier:
    with modelfile.sensible():
        model = LBARNClassifier(_estimator_from_json(header))
        classes = _labels_from_json(header["classes"])
        parts = [dict(part) for part in header["networks"]]
    K = len(classes)
    if len(parts) != K:
        raise ModelFileError(f"it has {K} classes and {len(parts)} networks")
    class_prior = expect(tensors, "class_prior", np.float64, (K,))
    if not (class_prior > 0).all() or not np.isclose(class_prior.sum(), 1, rtol=0, atol=1e-9):
        raise ModelFileError("the class prior is not a distribution")
    networks: list[Density] = []
    for k, part in enumerate(parts):
        part.setdefault("binarize", model.threshold)  # which version 0.1 kept in one place
        network = modelfile.from_parts(part.pop("kind", None), part, modelfile.nested(tensors, k))
        if not isinstance(network, Density):
            raise ModelFileError(f"a class has a {type(network).__name__}, which is not a density")
        networks.append(network)
    if any(network.n_features_in_ != networks[0].n_features_in_ for network in networks):
        raise ModelFileError("its networks have different numbers of columns")
    return model.restored(classes, class_prior, networks)


def _estimator_from_json(header: dict[str, Any]) -> LBARN | LBARNEnsemble | None:
    if "parameters" in header:  # version 0.1 had the parameters of the networks in one list
        return parameters_from_json(LBARN, header["parameters"])
    if header["estimator"] is None:
        return None
    kinds: dict[str, type[LBARN | LBARNEnsemble]] = {"LBARN": LBARN, "LBARNEnsemble": LBARNEnsemble}
    return parameters_from_json(kinds[header["estimator"]["kind"]], header["estimator"]["parameters"])


_LABELS = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}  # what they are in JSON, by kind of array


def _labels_to_json(classes: NDArray[Any]) -> dict[str, Any]:
    labels = classes.tolist()
    if not all(type(label) is _LABELS.get(classes.dtype.kind) for label in labels):
        raise ValueError(f"class labels of type {classes.dtype} cannot be saved; use numbers or strings")
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


modelfile.register(LBARNClassifier, _to_parts, _from_parts)
