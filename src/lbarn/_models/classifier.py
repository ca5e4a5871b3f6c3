"""Classification: by Bayes' rule, one density per class; or by the classes as the last column of one network."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin, _fit_context, clone
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_y, check_is_fitted

from lbarn._models.density import Density, all_or_nothing
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.estimators import estimator_from_json, estimator_to_json, parameters_from_json
from lbarn._models.lbarn import LBARN
from lbarn._models.target import Predictor, Target, TargetNetwork, named_target, twin
from lbarn._network import modelfile
from lbarn._network.container import Tensors, ToWrite, expect
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import CategoricalCode
from lbarn._tables.column import Column, plain_array
from lbarn._tables.table import Table, TableFormat, read_like, read_table
from lbarn._training.data import GivenRows, checked_weights
from lbarn.baselines.independent import IndependentBits
from lbarn.baselines.independent_columns import IndependentColumns
from lbarn.errors import ModelFileError

__all__ = ["MIN_CLASS_ROWS", "LBARNClassifier"]

MIN_CLASS_ROWS = 10  # a class with fewer rows gets independent bits


class LBARNClassifier(modelfile.SavedModel, ClassifierMixin, Predictor):
    """``P(c | x)`` for the rows of any table, from a density of every class, or directly.

    "generative": ``P(c | x) = P(c) P(x | c) / sum_c' P(c') P(x | c')``, with a density for every ``P(x | c)``. Every class holds
    out a share of its own rows, so the hold-out is stratified. A class of fewer than 10 rows, or too small to hold out any,
    has columns that are independent of each other (:class:`lbarn.baselines.IndependentColumns`, or ``IndependentBits``). What the
    columns are is found on the rows of all classes together.

    "discriminative": the classes are the last column of one network, and all that is trained. It tells classes apart better if there
    are many rows, and takes a fraction of the time, but knows nothing of the rows themselves.

    Parameters
    ----------
    estimator : LBARN or LBARNEnsemble, default=None
        What learns the distribution; a clone of it is fitted (for every class). None is ``LBARN()``, but
        ``LBARN(l2_regularization=3.0)`` if generative: a class has few rows, and a value that it considers all but impossible
        outvotes all others.
    method : {"generative", "discriminative"}, default="generative"

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    class_prior_ : ndarray of shape (K,)
        P(c): the share of each class of the rows, or of their weight.
    networks_ : list of K models
        P(x | c), in the order of ``classes_``: each can be sampled, explained or refitted on its own. If generative.
    network_ : the fitted density
        Of all columns, the classes last; the others are not learned: each is on its own. If discriminative.

    Notes
    -----
    Missing values are no obstacle: they are values like others, or training leaves them out, as LBARN's does. A generative model
    classifies a row by the values that it has (see :meth:`lbarn.LBARN.score_samples`); to a discriminative one, an empty cell of a
    column that had none in training reads as that column's most common value.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [Density, None],
        "method": [StrOptions({"generative", "discriminative"})],
    }

    def __init__(self, estimator: LBARN | LBARNEnsemble | None = None, *, method: str = "generative") -> None:
        self.estimator = estimator
        self.method = method

    classes_: NDArray[Any]
    class_prior_: NDArray[np.float64]
    networks_: list[Density]
    network_: LBARN | LBARNEnsemble

    @property
    def threshold(self) -> float | None:
        """Above which a value of a table is 1."""
        return self._estimator().binarize

    def _estimator(self) -> LBARN | LBARNEnsemble:
        if self.estimator is None and self.method == "generative":
            return LBARN(l2_regularization=3.0)
        return super()._estimator()

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
        X : table
            As :meth:`lbarn.LBARN.fit` takes it.
        y : array-like of shape (n,)
            Labels: numbers or strings.
        X_val, y_val : like X and y, optional
            Rows to choose the numbers of trees on; if generative, a class that has none of them holds out rows of its own.
        sample_weight : array-like of shape (n,), optional
            Rows of weight 0 are left out.
        checkpoint : path, optional
            A folder for finished columns: the same fit started again continues from there.
        """
        table = read_table(X, binarize=self._estimator().binarize)
        labels = self._labels(y, table.n_rows, "y")
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        there = np.ones(table.n_rows, bool) if weight is None else weight > 0
        classes = np.unique(labels[there])
        valid = self._validation(X_val, y_val, table, classes)
        share = there if weight is None else weight / weight.max()  # so that no sum overflows
        total = np.array([share[there & (labels == label)].sum() for label in classes])
        before = self._to_continue(classes)
        content: list[Density] | TargetNetwork
        if self.method == "generative":
            content = self._fit_densities(table, labels, weight, valid, classes, before, checkpoint)
        else:
            name = named_target(y, table)
            if not there.all():
                kept = np.flatnonzero(there)
                assert weight is not None
                table, labels, weight = table.take(kept), labels[kept], weight[kept]
            content = self._fit_target(name, table, labels, weight, valid, classes, before, checkpoint)
        return self.restored(classes, total / total.sum(), content)

    def _fit_densities(
        self,
        table: Table,
        labels: NDArray[Any],
        weight: NDArray[np.float64] | None,
        valid: tuple[Table, NDArray[Any]] | None,
        classes: NDArray[Any],
        before: list[Density] | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> list[Density]:
        """P(x | c): one density per class, all with the codes that all rows together have."""
        estimator = self._estimator().validated()
        rows = GivenRows.read(estimator, table, None if valid is None else valid[0], weight, alone=True)
        networks: list[Density] = []
        for k, label in enumerate(classes):
            of_class = labels == label if weight is None else (labels == label) & (weight > 0)
            of_class_val = np.flatnonzero(valid[1] == label) if valid is not None else np.zeros(0, np.intp)
            own = rows.take(np.flatnonzero(of_class), of_class_val)
            if self._is_too_small(own.train.n_rows, len(of_class_val)):
                networks.append(self._independent(own))
                continue
            network = clone(estimator) if before is None else before[k].set_params(**estimator.get_params())
            folder = None if checkpoint is None else Path(checkpoint) / f"class-{k}"
            networks.append(network.fit_rows(own, checkpoint=folder))
        return networks

    def _independent(self, rows: GivenRows) -> IndependentBits | IndependentColumns:
        """For a class with few rows."""
        estimator = self._estimator()
        if rows.book.is_binary and not rows.book.left_out:
            bits = IndependentBits(binarize=estimator.binarize, n_jobs=estimator.n_jobs)
            return bits.fit_rows(rows.format, rows.train)
        columns = IndependentColumns()
        return columns.set_params(**{name: getattr(estimator, name) for name in columns.get_params()}).fit_rows(rows)

    def _fit_target(
        self,
        name: Any,
        table: Table,
        labels: NDArray[Any],
        weight: NDArray[np.float64] | None,
        valid: tuple[Table, NDArray[Any]] | None,
        classes: NDArray[Any],
        before: list[Density] | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> TargetNetwork:
        """P(c | x): the classes as the last column."""
        estimator = self._estimator()
        network: Any = clone(estimator) if before is None else before[0].set_params(**estimator.get_params())
        target = Target(name, "categorical", "object" if classes.dtype.kind in "OU" else str(classes.dtype))
        own_valid = None if valid is None else (valid[0], _column(valid[1], classes, table.format))
        train = table, _column(labels, classes, table.format), weight
        return TargetNetwork.fit(network, target, train, own_valid, checkpoint)

    def restored(
        self, classes: NDArray[Any], class_prior: NDArray[np.float64], content: list[Density] | TargetNetwork
    ) -> LBARNClassifier:
        """Fitted with densities, or a network, that are there already."""
        for name in ("networks_", "network_"):
            self.__dict__.pop(name, None)
        self.classes_, self.class_prior_ = classes, class_prior
        if isinstance(content, TargetNetwork):
            self.network_ = content.model
            self._remember(content.format, content.n_features)
        else:
            self.networks_ = content
            self._remember(content[0].table_format_, content[0].n_features_in_)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def _labels(self, y: Any, n_rows: int, name: str) -> NDArray[Any]:
        if y is None:
            raise ValueError("LBARNClassifier requires y to be passed, but the target y is None")
        labels = _check_y(y, estimator=self)
        check_classification_targets(labels)
        if len(labels) != n_rows:
            raise ValueError(f"inconsistent numbers of samples: {n_rows} rows, but {name} has {len(labels)} labels")
        return labels

    def _validation(
        self, X_val: Any, y_val: Any, table: Table, classes: NDArray[Any]
    ) -> tuple[Table, NDArray[Any]] | None:
        """The rows to validate on, and their classes."""
        table_val = self._read_val(X_val, y_val, table)
        if table_val is None:
            return None
        labels = self._labels(y_val, table_val.n_rows, "y_val")
        unknown = np.setdiff1d(labels, classes)
        if len(unknown):
            raise ValueError(f"y_val holds the class {unknown[0].item()!r}, which y does not")
        return table_val, labels

    def _is_too_small(self, n: int, n_val: int) -> bool:
        fraction = self._estimator().validation_fraction
        return n < MIN_CLASS_ROWS or (n_val == 0 and not 0 < round(fraction * n) < n)

    def _to_continue(self, classes: NDArray[Any]) -> list[Density] | None:
        """The densities of the fit before this one, if it is to be continued."""
        fitted = "networks_" if self.method == "generative" else "network_"
        if not (self._continues() and hasattr(self, fitted)):
            return None
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                "warm_start=True continues on the same data; these have other classes: set warm_start=False"
            )
        return [twin(network) for network in (self.networks_ if self.method == "generative" else [self.network_])]

    # ------------------------------------------------------------------ predict

    def predict_joint_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log P(c) P(x | c), in nats, one column per class; of the values that are there, if some are missing."""
        check_is_fitted(self)
        if not hasattr(self, "networks_"):
            raise ValueError("a discriminative model has no P(x | c); use predict_log_proba, or method='generative'")
        first, estimator = self.networks_[0], self._estimator()
        book = first.codebook_
        table = read_like(
            X, first.table_format_, first.n_features_in_, binarize=estimator.binarize, optional=book.left_out
        )
        joint = np.empty((table.n_rows, len(self.classes_)))
        for chunk in CodedTable(table, book).chunks():
            for k, network in enumerate(self.networks_):
                log_p = network.distribution.log_likelihood(chunk.cells, estimator.n_jobs, chunk.unknown)
                joint[chunk.start : chunk.start + len(chunk), k] = log_p + chunk.log_inside
        return joint + np.log(self.class_prior_)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log P(c | x), one column per class."""
        check_is_fitted(self)
        if hasattr(self, "networks_"):
            joint = self.predict_joint_log_proba(X)
        else:
            fitted = TargetNetwork(self.network_)
            assert isinstance(fitted.code, CategoricalCode)
            levels = fitted.code.level_codes(_column(self.classes_, self.classes_, fitted.format))
            joint = np.log(fitted.conditional(X).probability[:, levels])
        return joint - logsumexp(joint, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """P(c | x), one column per class."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row."""
        best = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[best]

    @property
    def n_iter_(self) -> int:
        """The most trees that any column of any network got."""
        check_is_fitted(self)
        networks = self.networks_ if hasattr(self, "networks_") else [self.network_]
        return max(network.distribution.most_trees for network in networks)


def _column(labels: NDArray[Any], classes: NDArray[Any], table_format: TableFormat) -> Column:
    """Labels as a column: as they are, but by their numbers if they are strings and the table is an array."""
    if table_format.names is None and classes.dtype.kind in "OU":
        return plain_array(np.searchsorted(classes, labels), "y")
    return plain_array(labels.astype(object) if classes.dtype.kind == "U" else labels, "y")


# ---------------------------------------------------------------------- files


def _to_parts(model: LBARNClassifier, trim: bool) -> tuple[dict[str, Any], ToWrite]:
    check_is_fitted(model)
    is_generative = hasattr(model, "networks_")
    parts = [modelfile.to_parts(own, trim) for own in (model.networks_ if is_generative else [model.network_])]
    header: dict[str, Any] = {
        "estimator": estimator_to_json(model.estimator),
        "classes": _labels_to_json(model.classes_),
        "networks": [{"kind": kind, **part} for kind, part, _ in parts],
    }
    if not is_generative:
        header["method"] = "discriminative"
    return header, {"class_prior": model.class_prior_, **modelfile.nest([arrays for _, _, arrays in parts])}


def _from_parts(header: dict[str, Any], tensors: Tensors) -> LBARNClassifier:
    with modelfile.sensible():
        method = header.get("method", "generative")
        model = LBARNClassifier(_estimator_from_json(header), method=method)
        if method not in ("generative", "discriminative"):
            raise ValueError(f"unknown method {method!r}")
        classes = _labels_from_json(header["classes"])
        parts = [dict(part) for part in header["networks"]]
    K = len(classes)
    if len(parts) != (K if method == "generative" else 1):
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
    if method == "discriminative":
        return model.restored(classes, class_prior, _target_from_file(networks[0], classes))
    if any(network.n_features_in_ != networks[0].n_features_in_ for network in networks):
        raise ModelFileError("its networks have different numbers of columns")
    if not all(network.codebook_.equals(networks[0].codebook_) for network in networks):
        raise ModelFileError("its networks have different columns")
    return model.restored(classes, class_prior, networks)


def _target_from_file(network: Density, classes: NDArray[Any]) -> TargetNetwork:
    fitted = TargetNetwork.checked(network)
    if not isinstance(fitted.code, CategoricalCode):
        raise ModelFileError("the last column of its network is not of classes")
    column = _column(classes, classes, fitted.format)
    if (fitted.code.level_codes(column) < 0).any():
        raise ModelFileError("its network does not know all classes")
    return fitted


def _estimator_from_json(header: dict[str, Any]) -> LBARN | LBARNEnsemble | None:
    if "parameters" in header:  # version 0.1 had the parameters of the networks in one list
        return parameters_from_json(LBARN, header["parameters"])
    kinds: dict[str, type[LBARN | LBARNEnsemble]] = {"LBARN": LBARN, "LBARNEnsemble": LBARNEnsemble}
    return estimator_from_json(header["estimator"], kinds)


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
