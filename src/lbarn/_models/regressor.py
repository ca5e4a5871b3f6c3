"""Regression with whole distributions: y as the last column of the table."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, _fit_context, clone
from sklearn.utils.validation import _check_y, check_is_fitted

from lbarn._models.density import Density, all_or_nothing
from lbarn._models.ensemble import LBARNEnsemble
from lbarn._models.estimators import estimator_from_json, estimator_to_json
from lbarn._models.lbarn import LBARN
from lbarn._models.predicted import ConditionalDistribution
from lbarn._models.target import Predictor, Target, TargetNetwork, named_target, twin
from lbarn._network import modelfile
from lbarn._network.container import Tensors, ToWrite
from lbarn._tables.codes import ContinuousCode, GridCode
from lbarn._tables.column import Column, plain_array
from lbarn._tables.table import read_table
from lbarn._training.data import checked_weights
from lbarn.errors import ModelFileError

__all__ = ["LBARNRegressor"]


class LBARNRegressor(modelfile.SavedModel, RegressorMixin, Predictor):
    """The distribution of a number ``y`` given the other columns of any table.

    ``y`` becomes the last column of a network, the only one that is trained, so its distribution has no shape that was assumed: it may
    be skewed, have several peaks, heavy values (zeros, caps), and be as wide as each row says.

    Parameters
    ----------
    estimator : LBARN or LBARNEnsemble, default=None
        What learns it; a clone of it is fitted. None is ``LBARN()``. Its order of the columns does not matter. ``columns`` may also say
        what ``y`` is, by the name that it has, or "y".

    Attributes
    ----------
    network_ : the fitted density
        Of all columns, ``y`` the last one: ``network_.columns_`` tells what each became, and the last row of
        ``network_.feature_importances_`` which of them predict ``y``. The others are not learned: each is on its own.

    Notes
    -----
    An empty cell is a value like others if the column had such in training (and ``missing`` is "value"); otherwise it reads as the
    column's most common value.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN, LBARNRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 10, (2000, 2))
    >>> y = X[:, 0] + rng.integers(0, 3, 2000)
    >>> model = LBARNRegressor(LBARN(random_state=0)).fit(X, y)
    >>> model.predict([[2, 5], [8, 5]]).round()
    array([3., 9.])
    >>> model.predict_quantile([[2, 5]], [0.1, 0.9])
    array([[2., 4.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"estimator": [Density, None]}

    def __init__(self, estimator: LBARN | LBARNEnsemble | None = None) -> None:
        self.estimator = estimator

    network_: LBARN | LBARNEnsemble

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
    ) -> LBARNRegressor:
        """Learn the distribution of ``y`` given the rows of ``X``.

        Parameters
        ----------
        X : table
            As :meth:`lbarn.LBARN.fit` takes it.
        y : array-like of shape (n,)
            Finite numbers, none missing.
        X_val, y_val : like X and y, optional
            Rows to choose the numbers of trees on; otherwise ``validation_fraction`` of the rows are held out.
        sample_weight : array-like of shape (n,), optional
        checkpoint : path, optional
            A folder for finished columns: the same fit started again continues from there.
        """
        estimator = self._estimator()
        table = read_table(X, binarize=estimator.binarize)
        values = self._numbers(y, table.n_rows, "y")
        weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
        table_val = self._read_val(X_val, y_val, table)
        valid = None if table_val is None else (table_val, self._numbers(y_val, table_val.n_rows, "y_val"))
        name = named_target(y, table)
        network = self._to_continue() or clone(estimator)
        target = Target(name, self._kind(name, values), str(values.values.dtype))
        fitted = TargetNetwork.fit(network, target, (table, values, weight), valid, checkpoint)
        return self.restored(fitted)

    def restored(self, fitted: TargetNetwork) -> LBARNRegressor:
        """Fitted with a network that is there already."""
        self.network_ = fitted.model
        self._remember(fitted.format, fitted.n_features)
        return self

    def _numbers(self, y: Any, n_rows: int, name: str) -> Column:
        if y is None:
            raise ValueError("LBARNRegressor requires y to be passed, but the target y is None")
        values = _check_y(y, y_numeric=True, estimator=self)
        if values.dtype.kind not in "biuf":
            raise ValueError(f"{name} is of type {values.dtype}; LBARNRegressor takes numbers")
        if len(values) != n_rows:
            raise ValueError(f"inconsistent numbers of samples: {n_rows} rows, but {name} has {len(values)} values")
        return plain_array(values.astype(np.int64 if values.dtype.kind == "b" else values.dtype), name)

    def _kind(self, name: Any, values: Column) -> str | None:
        """Numbers even if they are 0 and 1: others may come later."""
        own = (self._estimator().columns or {}).get(name)
        if own is not None:
            if own not in ("ordered", "continuous"):
                raise ValueError(f"columns: y ({name!r}) is a number; it can be 'ordered' or 'continuous', not {own!r}")
            return own
        return "ordered" if bool(((values.values == 0) | (values.values == 1)).all()) else None

    def _to_continue(self) -> LBARN | LBARNEnsemble | None:
        """The network of the fit before this one, if it is to be continued."""
        if not (self._continues() and hasattr(self, "network_")):
            return None
        return twin(self.network_).set_params(**self._estimator().get_params())

    # ------------------------------------------------------------------ predict

    def conditional(self, X: Any) -> ConditionalDistribution:
        """The distribution of ``y`` in every row: ``mean()``, ``quantile(q)``, ``log_prob(values)``, ``sample()`` and more."""
        check_is_fitted(self, "network_")
        return TargetNetwork(self.network_).conditional(X)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The mean of ``y`` in every row."""
        return self.conditional(X).mean()

    def predict_quantile(self, X: Any, q: float | ArrayLike = 0.5) -> NDArray[np.float64]:
        """The value up to which a share ``q`` of the distribution is: (n,), or (n, len(q)) for several shares."""
        return self.conditional(X).quantile(q)

    def log_prob(self, X: Any, y: Any) -> NDArray[np.float64]:
        """log p(y | x) of every row, in nats: mass if ``y`` is on a grid, density otherwise (``network_.columns_`` tells)."""
        return self.conditional(X).log_prob(y)

    @property
    def n_iter_(self) -> int:
        """Selected trees."""
        check_is_fitted(self, "network_")
        return self.network_.distribution.most_trees


# ---------------------------------------------------------------------- files


def _to_parts(model: LBARNRegressor, trim: bool) -> tuple[dict[str, Any], ToWrite]:
    check_is_fitted(model, "network_")
    kind, part, arrays = modelfile.to_parts(model.network_, trim)
    return {"estimator": estimator_to_json(model.estimator), "network": {"kind": kind, **part}}, arrays


def _from_parts(header: dict[str, Any], tensors: Tensors) -> LBARNRegressor:
    with modelfile.sensible():
        model = LBARNRegressor(
            estimator_from_json(header["estimator"], {"LBARN": LBARN, "LBARNEnsemble": LBARNEnsemble})
        )
        part = dict(header["network"])
    network = modelfile.from_parts(part.pop("kind", None), part, tensors)
    fitted = TargetNetwork.checked(network)
    if not isinstance(fitted.code, (GridCode, ContinuousCode)):
        raise ModelFileError("the column to predict is not of numbers")
    return model.restored(fitted)


modelfile.register(LBARNRegressor, _to_parts, _from_parts)
