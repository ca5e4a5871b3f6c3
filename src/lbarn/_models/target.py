"""P(y | x): a network whose last column is what is to be predicted, and all that is trained."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.utils import get_tags

from lbarn._engine.codetree import UNKNOWN
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.lbarn import LBARN
from lbarn._models.predicted import ConditionalDistribution
from lbarn._network.repeats import Repeating
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import ColumnCode
from lbarn._tables.column import Column
from lbarn._tables.table import Label, Table, TableFormat, read_like
from lbarn._training.data import GivenRows
from lbarn.errors import ModelFileError

__all__ = ["Predictor", "Target", "TargetNetwork", "named_target", "twin"]

Weights = NDArray[np.float64] | None
_Model = TypeVar("_Model")


@dataclass(frozen=True)
class Target:
    """The column that is to be predicted: how it is called, and what it is."""

    name: Label
    kind: str | None  # as detected if None
    dtype: str

    def after(self, table: Table, values: Column) -> Table:
        """A table with these values as its last column."""
        return table.with_last(self.name, values, self.dtype)


def named_target(y: Any, table: Table) -> Label:
    """What the column is called: as ``y`` is, if no other column has that name; where columns have no names, by its number."""
    if table.format.names is None:
        return table.n_columns
    name = getattr(y, "name", None)
    if not isinstance(name, str) or not name:
        name = "y"
    while name in table.format.names:
        name += "_"
    return name


@dataclass(frozen=True, eq=False)
class TargetNetwork:
    """A fitted density of x and y, in which y is last and each column of x is on its own."""

    model: LBARN | LBARNEnsemble

    @classmethod
    def fit(
        cls,
        model: LBARN | LBARNEnsemble,
        target: Target,
        train: tuple[Table, Column, Weights],
        valid: tuple[Table, Column] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> TargetNetwork:
        """Fit ``model`` itself, on (x, y, weights)."""
        kinds = None if target.kind is None else {target.name: target.kind}
        X, y, weight = train
        joined_val = None if valid is None else target.after(*valid)
        alone = target.kind == "categorical"  # levels are told no better by finer cells
        rows = GivenRows.read(model.validated(), target.after(X, y), joined_val, weight, kinds=kinds, alone=alone)
        model.fit_rows(rows, targets=[rows.n_columns - 1], checkpoint=checkpoint)
        return cls(model)

    @classmethod
    def checked(cls, model: object) -> TargetNetwork:
        """Of a model from a file, in which the last column may not be last in the order."""
        if not isinstance(model, (LBARN, LBARNEnsemble)):
            raise ModelFileError(f"a {type(model).__name__} is no network with a column to predict")
        members = model.members_ if isinstance(model, LBARNEnsemble) else [model]
        last = model.codebook_.n_columns - 1
        if last + len(model.codebook_.left_out) in model.codebook_.left_out or any(
            member.order_[-1] != last for member in members
        ):
            raise ModelFileError("the column to predict is not the last one")
        if model.repeats_ is not None:
            raise ModelFileError("rows that repeat do not go with a column to predict")
        return cls(model)

    @property
    def code(self) -> ColumnCode:
        """Of y."""
        return self.model.codebook_.codes[-1]

    @property
    def n_features(self) -> int:
        return self.model.n_features_in_ - 1

    @property
    def format(self) -> TableFormat:
        """Of x."""
        return self.model.table_format_.without_last()

    def conditional(self, X: Any) -> ConditionalDistribution:
        """The distribution of y in every row. A value that is not known reads as its column's most common one."""
        model, book = self.model, self.model.codebook_
        table = read_like(X, self.format, self.n_features, binarize=model.binarize, optional=book.left_out)
        y = self.code.plain.take(np.zeros(0, np.intp)).blank(table.n_rows)
        joined = table.with_last(model.table_format_.labels(model.n_features_in_)[-1], y, "object")
        common = np.array([int(code.mass.argmax()) for code in book.codes], np.uint16)
        own, parts = model.distribution, []
        assert not isinstance(own, Repeating)  # a column alone was trained
        for chunk in CodedTable(joined, book).without(book.n_columns - 1).chunks():
            cells = np.where(chunk.cells == UNKNOWN, common, chunk.cells)
            parts.append(np.exp(own.last_column(cells, model.n_jobs)))
        return ConditionalDistribution(self.code, np.concatenate(parts), model.table_format_, model.n_features_in_ - 1)


class Predictor(MetaEstimatorMixin, BaseEstimator):
    """What a regressor and a classifier have in common: an estimator that learns the table, and a target beside it."""

    estimator: LBARN | LBARNEnsemble | None
    n_features_in_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._estimator()).input_tags
        return tags

    def _estimator(self) -> LBARN | LBARNEnsemble:
        """What is fitted, or cloned for that."""
        return LBARN() if self.estimator is None else self.estimator

    def _continues(self) -> bool:
        """Whether a model that has been fitted goes on from there."""
        estimator = self._estimator()
        return isinstance(estimator, LBARN) and estimator.warm_start

    def _read_val(self, X_val: Any, y_val: Any, table: Table) -> Table | None:
        """The rows to validate on, in columns like those of ``table``."""
        if (X_val is None) != (y_val is None):
            raise ValueError(f"X_val and y_val go together; {'X_val' if X_val is None else 'y_val'} is missing")
        return None if X_val is None else read_like(X_val, table.format, table.n_columns, binarize=table.binarize)

    def _remember(self, table_format: TableFormat, n_features: int) -> None:
        """What ``X`` looked like."""
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if table_format.feature_names is not None:
            self.feature_names_in_ = table_format.feature_names


def twin(model: _Model) -> _Model:
    """Another model with the same fitted attributes: fitting one leaves the other as it was."""
    other: _Model = object.__new__(type(model))
    other.__dict__.update(model.__dict__)
    return other
