"""Ensembles: the same rows learned in several orders of the columns, and the networks mixed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.rows import TrainingRows
from lbarn._models.density import Density, all_or_nothing
from lbarn._models.estimators import DerivedParameters, parameters_from_json, parameters_to_json
from lbarn._models.lbarn import LBARN, records, untimed
from lbarn._models.members import Members
from lbarn._network import modelfile
from lbarn._network.container import Tensors, ToWrite, expect
from lbarn._network.mixture import Mixture, best_weights
from lbarn._network.repeats import Repeating, Repeats
from lbarn._training.checkpoint import Checkpoint
from lbarn._training.data import GivenRows, checked_weights, coded_rows
from lbarn._training.order import image_size, is_permutation, scans
from lbarn._training.repeats import check_repeats, renewed
from lbarn._training.run import identity, log_likelihood_before_refit
from lbarn.errors import ModelFileError
from lbarn.parameters import EnsembleParameters

__all__ = ["LBARNEnsemble"]

Floats = NDArray[np.float64]


class LBARNEnsemble(modelfile.SavedModel, DerivedParameters, EnsembleParameters, Density):
    """``P(x) = sum_k w_k P_k(x)``: :class:`lbarn.LBARN` networks that read the columns in different orders, mixed.

    Every order makes other mistakes, and a mixture is never worse than its members are on average, in log-likelihood. Networks with the
    same order are averaged to one. It takes as many times as long to train and to evaluate as there are networks. All parameters but the last
    six are those of :class:`lbarn.LBARN` and go to every network; ``random_state`` gives each one a seed of its own.

    {parameters}

    Attributes
    ----------
    members_ : list of LBARN
        The networks, in the order in which they were trained; each can be used on its own.
    weights_ : ndarray of shape (K,)
    mixture_ : Mixture
        The trained mixture as a value of its own.
    repeats_ : Repeats or None
        The training rows that are kept, once for all members, because new ones repeat them.
    feature_importances_ : ndarray of shape (D, D)
        The weighted mean of the members'.
    valid_log_likelihood_ : float
        Mean log p, in nats, of the rows that the first network of every order held out, by these networks before any refit and mixed; of
        whole cells. Not there with ``bagging``, after ``select``, and in a model that was loaded.
    trials_ : list of dict
        What :func:`lbarn.tune` tried, if the ensemble comes from there.
    seed_ : int
        What the hold-out and the members' seeds come from.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARNEnsemble
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (500, 4))
    >>> X[:, 3] = X[:, 0] ^ X[:, 1]
    >>> model = LBARNEnsemble(orders="random", learning_rate=0.3, max_iter=50, random_state=0).fit(X)
    >>> bool(model.score(X) > np.mean([member.score(X) for member in model.members_]))
    True
    """

    members_: list[LBARN]
    weights_: Floats
    mixture_: Mixture
    repeats_: Repeats | None
    seed_: int
    valid_log_likelihood_: float
    trials_: list[dict[str, Any]]
    _distribution: Mixture | Repeating
    _validation: TrainingRows | None  # to find the weights on again, as long as the model has not been through a file

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "mixture_")

    @property
    def distribution(self) -> Mixture | Repeating:
        """The trained mixture, and rows that repeat if there are any, apart from tables and parameters."""
        check_is_fitted(self)
        return self._distribution

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
    ) -> LBARNEnsemble:
        """Learn the distribution of the rows of ``X`` in every order, one after the other.

        Parameters
        ----------
        X : table
            pandas, polars, pyarrow, NumPy, scipy.sparse or nested lists; of numbers, categories, strings, booleans, dates.
        y : ignored
        X_val : table like X, optional
            Rows to choose the numbers of trees on, and the weights; otherwise ``validation_fraction`` of ``X`` is held out, the
            same rows for all members unless ``bagging``.
        sample_weight, sample_weight_val : array-like of shape (n,), optional
        checkpoint : path, optional
            A folder for finished columns, with one in it for every member: the same fit started again continues.
        """
        return self.fit_rows(
            GivenRows.read(self, X, X_val, sample_weight, sample_weight_val), checkpoint=checkpoint, stacklevel=5
        )

    def fit_rows(
        self,
        rows: GivenRows,
        *,
        targets: Sequence[int] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        deadline: float | None = None,
        stacklevel: int = 2,
    ) -> LBARNEnsemble:
        """Learn from rows that have been coded. If there are ``targets``, these columns alone are trained, given all others.

        They come last in every order, so that members differ by their rows and random numbers only. Networks that would not be
        finished before a ``deadline``, by the monotonic clock, are left out, but for the first.
        """
        if self.bagging and self.weights == "em":
            raise ValueError(
                "weights='em' needs rows that no member was trained on, and with bagging=True there are none; set "
                "weights='equal'"
            )
        if self.bagging and self.repeats and self.repeats != "auto":
            raise ValueError(
                "repeats=True needs rows that no member was trained on, and with bagging=True there are none; leave it at 'auto'"
            )
        if targets is None:
            check_repeats(self, rows)
        orders = ["given"] * self.n_orders if targets is not None else self._orders(rows.n_columns)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if checkpoint is not None:
            seed = Checkpoint(checkpoint, identity(self), seed).seed
        training = Members(self, rows, seed, targets, checkpoint)
        members = training.train(orders, compare=self._compares_orders(targets), deadline=deadline)
        if training.rising and members[0].run_.boosting.n_iter_no_change is None:
            warnings.warn(
                f"validation log-likelihood is still rising at max_iter={self.max_iter} in {training.rising} of "
                f"{training.n_trained} members; raise max_iter or learning_rate, or set learning_rate='auto'",
                ConvergenceWarning,
                stacklevel=stacklevel,
            )
        self._remember(rows.format, rows.n_given, training.base_rates, rows.book)
        self.__dict__.pop("trials_", None)  # of an earlier fit
        self.members_, self.seed_ = members, seed
        self._validation = None
        if self.weights == "em" and self.n_bags == 1:
            self._validation = training.bag(0).filled(seed).valid
        weights = np.full(len(members), 1 / len(members))
        if self.weights == "em":
            weights = best_weights(*training.held_out(len(members)))
        if not self.bagging:
            self.valid_log_likelihood_ = training.valid_log_likelihood(weights)
        self._mix(weights, training.repeats(weights) if targets is None else None)
        return self

    def _compares_orders(self, targets: Sequence[int] | None) -> bool:
        """Whether it is to be found out if other orders than the given one help."""
        auto = isinstance(self.orders, str) and self.orders == "auto" and self.image_shape is None
        return auto and targets is None and not self.bagging and self.n_orders > 1

    def _orders(self, n_columns: int) -> Sequence[str | NDArray[np.intp]]:
        """What every member is given for its order."""
        if isinstance(self.orders, str):
            if self.orders == "scans" or (self.orders == "auto" and self.image_shape is not None):
                return self._scans(n_columns)
            first = "given" if self.orders == "auto" else "random"
            return [first, *["random"] * (self.n_orders - 1)]
        orders = [np.asarray(order) for order in self.orders]
        if not orders:
            raise ValueError("orders is empty; give at least one permutation of the columns, or 'random' or 'scans'")
        for k, order in enumerate(orders):
            if not is_permutation(order, n_columns):
                raise ValueError(f"orders[{k}] must be a permutation of 0..{n_columns - 1}")
        return orders

    def _scans(self, n_columns: int) -> list[NDArray[np.intp]]:
        if self.image_shape is None:
            raise ValueError("orders='scans' needs image_shape=(rows, columns)")
        all_scans = scans(*image_size(self.image_shape, n_columns))
        if self.n_orders > len(all_scans):
            raise ValueError(
                f"there are {len(all_scans)} scans of an image, not n_orders={self.n_orders}; use fewer, or orders='random'"
            )
        return all_scans[: self.n_orders]

    def _mix(self, weights: Floats, repeats: Repeats | None) -> None:
        self.weights_, self.repeats_ = weights, repeats
        self.mixture_ = Mixture(tuple(member.network_ for member in self.members_), weights)
        self._distribution = self.mixture_ if repeats is None else Repeating(self.mixture_, repeats)

    def restored(
        self,
        members: list[LBARN],
        weights: Floats,
        seed: int,
        trials: list[dict[str, Any]] | None = None,
        repeats: Repeats | None = None,
    ) -> LBARNEnsemble:
        """Fitted with members that are there already."""
        first = members[0]
        self._remember(first.table_format_, first.n_features_in_, first.base_rates_, first.codebook_)
        self.members_, self.seed_, self._validation = members, seed, None
        if trials is not None:
            self.trials_ = trials
        self._mix(weights, repeats)
        return self

    # ------------------------------------------------------------------ select and refit

    @all_or_nothing
    def select(self, method: str) -> LBARNEnsemble:
        """Choose the numbers of trees of all members again, by any of the selections, from the same training run.

        With ``weights="em"`` the weights are found again too; a model that was loaded from a file has no validation rows
        and keeps the weights it had. Averaged networks (``n_bags``) have their selected trees only: set ``selection`` before ``fit``.
        """
        check_is_fitted(self)
        if self.n_bags > 1:
            raise ValueError(
                "averaged networks keep the selected trees only and cannot select again; set selection, and fit"
            )
        self.members_ = [copy(member).select(method) for member in self.members_]
        self.__dict__.pop("valid_log_likelihood_", None)
        weights = self.weights_
        if self._validation is not None:
            found = [(own.run_, np.array([len(trees) for trees in own.network_.trees])) for own in self.members_]
            log_p = [log_likelihood_before_refit(*own, self._validation, self.n_jobs) for own in found]
            weights = best_weights(np.stack(log_p, axis=1), self._validation.weight)
        self._mix(weights, self.repeats_)
        return self

    @all_or_nothing
    def refit_leaves(self, X: Any, *, sample_weight: ArrayLike | None = None) -> LBARNEnsemble:
        """Renew the leaf values of all members on ``X``, as ``LBARN.refit_leaves`` does, and the rows that repeat; the weights stay."""
        check_is_fitted(self)
        own = [copy(member).set_params(n_jobs=self.n_jobs) for member in self.members_]
        self.members_ = [member.refit_leaves(X, sample_weight=sample_weight) for member in own]
        repeats = self.repeats_
        if repeats is not None:
            table = self._ready(X)
            weight = checked_weights(sample_weight, table.n_rows, "sample_weight")
            repeats = renewed(repeats, coded_rows(table, weight))
        self._mix(self.weights_, repeats)
        return self


# ---------------------------------------------------------------------- files


def _to_parts(model: LBARNEnsemble, trim: bool) -> tuple[dict[str, Any], ToWrite]:
    check_is_fitted(model)
    parts = [modelfile.to_parts(member, trim) for member in model.members_]
    header = {
        "parameters": parameters_to_json(model),
        "seed": model.seed_,
        "members": [described for _, described, _ in parts],
    }
    if hasattr(model, "trials_"):
        header["trials"] = untimed(model.trials_)
    described, rows = modelfile.pack_repeats(model.repeats_)
    arrays = modelfile.nest([arrays for _, _, arrays in parts])
    return header | described, {"weights": model.weights_, **rows, **arrays}


def _from_parts(header: dict[str, Any], tensors: Tensors) -> LBARNEnsemble:
    with modelfile.sensible():
        model = parameters_from_json(LBARNEnsemble, header["parameters"])
        seed, trials = int(header["seed"]), records(header.get("trials"))
        parts = [dict(part) for part in header["members"]]
    weights = expect(tensors, "weights", np.float64, (len(parts),))
    if not len(parts) or not (weights > 0).all() or not np.isclose(weights.sum(), 1, rtol=0, atol=1e-9):
        raise ModelFileError("the weights are not a distribution")
    members: list[LBARN] = []
    for k, part in enumerate(parts):
        member = modelfile.from_parts("LBARN", part, modelfile.nested(tensors, k))
        assert isinstance(member, LBARN)
        members.append(member)
    first = members[0]
    if any((m.n_features_in_, m.table_format_) != (first.n_features_in_, first.table_format_) for m in members):
        raise ModelFileError("its members do not have the same columns")
    repeats = None
    if first.codebook_.is_binary:
        repeats = modelfile.unpack_repeats(header, tensors, first.codebook_.n_columns)
    return model.restored(members, weights, seed, trials, repeats)


modelfile.register(LBARNEnsemble, _to_parts, _from_parts)
