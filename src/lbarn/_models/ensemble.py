"""Ensembles: the same rows learned in several orders of the columns, and the networks mixed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, softmax
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.rows import TrainingRows
from lbarn._engine.trees import UNIT
from lbarn._models.density import BinaryDensity, check_counts
from lbarn._models.lbarn import LBARN, _in_order
from lbarn._network import evaluation, modelfile
from lbarn._network.bitsback import MixtureCodec
from lbarn._network.conditioning import Answer
from lbarn._tables.rows import complete_chunks, hold_out, stack_rows, take_rows
from lbarn._tables.table import Table
from lbarn._training.auto import is_rising
from lbarn._training.checkpoint import Checkpoint, described
from lbarn._training.order import scans
from lbarn.errors import ModelFileError

__all__ = ["LBARNEnsemble"]

_EM_STEPS = 1000  # at most; it stops where a step gains less than the next line, in nats per row
_EM_GAIN = 1e-9

Floats = NDArray[np.float64]


class LBARNEnsemble(modelfile.SavedModel, BinaryDensity):
    """``P(x) = sum_k w_k P_k(x)``: :class:`lbarn.LBARN` networks that read the columns in different orders, mixed.

    Every order makes other mistakes, and a mixture is never worse than its members are on average, in log-likelihood.
    It takes as many times as long to train and to evaluate as there are members.

    Parameters
    ----------
    n_orders : int, default=8
        Number of members; a list of ``orders`` has its own.
    orders : {"random", "scans"} or list of permutations, default="random"
        "scans" are the eight ways to read an image, of which ``n_orders`` are used: by rows, by columns, both backwards, then
        those four with every row (or column) from its other end.
    image_shape : (int, int) or None, default=None
        Rows and columns of the images, for ``orders="scans"``; pixels are numbered row by row.
    weights : {"equal", "em"}, default="equal"
        All the same, or the best on the validation rows, by expectation maximisation.
    bagging : bool, default=False
        Every member holds out other rows: ``validation_fraction`` of ``X`` and ``X_val`` together. Better where rows are few;
        the weights are equal then.
    max_leaf_nodes, learning_rate, ... : the other parameters are those of :class:`lbarn.LBARN`
        They go to every member; ``random_state`` gives each one a seed of its own.

    Attributes
    ----------
    members_ : list of LBARN
        The networks, in the order in which they were trained; each can be used on its own.
    weights_ : ndarray of shape (K,)
    feature_importances_ : ndarray of shape (D, D)
        The weighted mean of the members'.
    seed_ : int
        What the hold-out and the members' seeds come from.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARNEnsemble
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 2, (500, 4))
    >>> X[:, 3] = X[:, 0] ^ X[:, 1]
    >>> model = LBARNEnsemble(n_orders=3, max_leaf_nodes=4, learning_rate=0.3, max_iter=50, random_state=0).fit(X)
    >>> bool(model.score(X) > np.mean([member.score(X) for member in model.members_]))
    True
    """

    _file_kind = "LBARNEnsemble"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_orders": [Interval(Integral, 1, None, closed="left")],
        "orders": [StrOptions({"random", "scans"}), "array-like"],
        "image_shape": ["array-like", None],
        "weights": [StrOptions({"equal", "em"})],
        "bagging": ["boolean"],
        **{
            name: allowed
            for name, allowed in LBARN._parameter_constraints.items()
            if name not in ("order", "warm_start")
        },
    }

    def __init__(
        self,
        *,
        n_orders: int = 8,
        orders: str | Sequence[Sequence[int]] | NDArray[Any] = "random",
        image_shape: tuple[int, int] | None = None,
        weights: str = "equal",
        bagging: bool = False,
        max_leaf_nodes: int | str = 16,
        learning_rate: float | str = 0.02,
        max_iter: int = 1000,
        selection: str = "individual",
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
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_orders = n_orders
        self.orders = orders
        self.image_shape = image_shape
        self.weights = weights
        self.bagging = bagging
        self.max_leaf_nodes = max_leaf_nodes
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.selection = selection
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    members_: list[LBARN]
    weights_: Floats
    seed_: int
    _validation: TrainingRows  # to find the weights on again, as long as the model has not been through a file

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

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
    ) -> LBARNEnsemble:
        """Learn the distribution of the rows of ``X`` in every order, one after the other.

        Parameters
        ----------
        X : table of 0 and 1
            NumPy, scipy.sparse, pandas, polars, pyarrow or nested lists.
        y : ignored
        X_val : table like X, optional
            Rows to choose the numbers of trees on, and the weights; else ``validation_fraction`` of ``X`` is held out, the
            same rows for all members unless ``bagging``.
        sample_weight, sample_weight_val : array-like of shape (n,), optional
        checkpoint : path, optional
            A folder for finished dimensions, with one in it for every member: the same fit started again continues.
        """
        if self.bagging and self.weights == "em":
            raise ValueError(
                "weights='em' needs rows that no member was trained on, and with bagging=True there are none; set "
                "weights='equal'"
            )
        table, table_val, weight, weight_val = self._read_all(X, X_val, sample_weight, sample_weight_val)
        orders = self._orders(table.n_columns)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if checkpoint is not None:
            seed = Checkpoint(checkpoint, described(self), seed).seed
        if self.bagging:
            if table_val is not None:
                if weight is not None or weight_val is not None:
                    parts = ((weight, table.n_rows), (weight_val, table_val.n_rows))
                    weight = np.concatenate([np.ones(n) if own is None else own for own, n in parts])
                X, X_val, weight_val = stack_rows(table, table_val), None, None
        elif X_val is None:
            rows, rows_val = hold_out(table.n_rows, self.validation_fraction, seed, weight)
            X, X_val = take_rows(X, rows), take_rows(X, rows_val)
            if weight is not None:
                weight, weight_val = weight[rows], weight[rows_val]
            table, table_val = self._read(X, reset=False), self._read(X_val, reset=False)

        members: list[LBARN] = []
        own = {name: value for name, value in self.get_params().items() if name in LBARN._parameter_constraints}
        seeds = np.random.default_rng([seed, 1]).integers(2**31 - 1, size=len(orders)).tolist()
        for k, (order, member_seed) in enumerate(zip(orders, seeds)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # said once, below
                members.append(
                    LBARN(**{**own, "order": order, "random_state": member_seed}).fit(
                        X,
                        X_val=X_val,
                        sample_weight=weight,
                        sample_weight_val=weight_val,
                        checkpoint=None if checkpoint is None else Path(checkpoint) / f"member-{k}",
                    )
                )
        rising = sum(is_rising(member.valid_curve_) for member in members)
        if rising and self.n_iter_no_change is None:
            warnings.warn(
                f"validation log-likelihood is still rising at max_iter={self.max_iter} in {rising} of {len(members)} "
                "members; raise max_iter or learning_rate, or set learning_rate='auto'",
                ConvergenceWarning,
                stacklevel=3,
            )
        for member in members:
            member._kind = table.kind  # of X, whatever it was put together with
        self.members_, self.seed_, self._kind = members, seed, table.kind
        self.__dict__.pop("_validation", None)  # of an earlier fit
        if self.weights == "em":
            self._validation = _validation_sample(table, weight, table_val, weight_val)
        self._weigh()
        return self

    def _orders(self, n_columns: int) -> Sequence[str | NDArray[np.intp]]:
        """What every member is given for its order."""
        if isinstance(self.orders, str):
            return ["random"] * self.n_orders if self.orders == "random" else self._scans(n_columns)
        orders = [np.asarray(order) for order in self.orders]
        if not orders:
            raise ValueError("orders is empty; give at least one permutation of the columns, or 'random' or 'scans'")
        for k, order in enumerate(orders):
            if order.shape != (n_columns,) or not np.array_equal(np.sort(order), np.arange(n_columns)):
                raise ValueError(f"orders[{k}] must be a permutation of 0..{n_columns - 1}")
        return orders

    def _scans(self, n_columns: int) -> list[NDArray[np.intp]]:
        if self.image_shape is None:
            raise ValueError("orders='scans' needs image_shape=(rows, columns)")
        shape = np.asarray(self.image_shape)
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 1).any():
            raise ValueError(f"image_shape must be two whole numbers, rows and columns; got {self.image_shape!r}")
        height, width = shape.tolist()
        if height * width != n_columns:
            raise ValueError(f"image_shape={height, width} has {height * width} pixels, but X has {n_columns} columns")
        all_scans = scans(height, width)
        if self.n_orders > len(all_scans):
            raise ValueError(
                f"there are {len(all_scans)} scans of an image, not n_orders={self.n_orders}; use fewer, or orders='random'"
            )
        return all_scans[: self.n_orders]

    def _weigh(self) -> None:
        """Set the weights, where what they depend on is there."""
        if self.weights == "equal":
            self.weights_ = np.full(len(self.members_), 1 / len(self.members_))
        elif hasattr(self, "_validation"):
            log_p = [_log_likelihood_before_refit(member, self._validation) for member in self._members()]
            self.weights_ = _em(np.stack(log_p, axis=1), self._validation.weight)

    # ------------------------------------------------------------------ select and refit

    def select(self, method: str) -> LBARNEnsemble:
        """Choose the numbers of trees of all members again, by any of the selections, from the same training run.

        With ``weights="em"`` the weights are found again too; a model that was loaded from a file has no validation rows
        and keeps the weights it had.
        """
        check_is_fitted(self)
        for member in self.members_:
            member.select(method)
        self._weigh()
        return self

    def refit_leaves(self, X: Any, *, sample_weight: ArrayLike | None = None) -> LBARNEnsemble:
        """Renew the leaf values of all members on ``X``, as ``LBARN.refit_leaves`` does; the weights stay."""
        self._ready(X)
        for member in self._members():
            member.refit_leaves(X, sample_weight=sample_weight)
        return self

    # ------------------------------------------------------------------ use

    def score_samples(self, X: Any) -> Floats:
        """log p(x) of every row, in nats."""
        return logsumexp(self._joint(X), axis=1)

    def surprise(self, X: Any) -> Floats:
        """The members' -log p_k(x_d | those before it), each weighted by P(member | x), in nats, shape (n, D).

        There is no -log p(x_d | ...) of the mixture: a row does not sum to -log p(x), but to less, by how far
        P(member | x) is from the weights (their Kullback-Leibler divergence, at most log K where they are equal).
        """
        table = self._ready(X)
        mixed = np.zeros((table.n_rows, table.n_columns))
        for start, values in complete_chunks(table):
            rows = slice(start, start + len(values))
            total = np.full(len(values), -np.inf)
            for member, log_weight in zip(self._members(), np.log(self.weights_)):
                bits = pack(values, member.order_)
                surprise = np.empty(values.shape)
                surprise[:, member.order_] = UNIT * member._surprise(bits).T
                joint = log_weight - surprise.sum(axis=1)
                total = np.logaddexp(total, joint)
                mixed[rows] += np.exp(joint - total)[:, None] * (surprise - mixed[rows])
        return mixed

    def sample(
        self, n_samples: int = 1, *, given: Any = None, n_particles: int = 1000, random_state: Any = None
    ) -> Any:
        """Draw rows: a member by its weight for each row, then the row from it, exactly.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows, for each row of ``given`` if there is one (grouped).
        given : table with NaN where free, optional
            Fixes any bits. What is free is drawn as by ``impute``: a prefix of one member's order is none of another's.
        n_particles : int, default=1000
            Particles per row of ``given`` and member, where more than 12 bits are free.
        random_state : int, RandomState instance or None

        Returns
        -------
        The kind of table that the model was fitted on.
        """
        check_is_fitted(self)
        check_counts(n_samples=n_samples, n_particles=n_particles)
        random = check_random_state(random_state)
        if given is not None:
            answers = self._answers(self._read(given, reset=False), 0.0, n_samples, n_particles, random)
            draws = np.concatenate([answer.draws for _, answer in answers], axis=1)  # (n_samples, rows of given, D)
            return self._kind.give(draws.swapaxes(0, 1).reshape(-1, self.n_features_in_))
        X = np.empty((n_samples, self.n_features_in_), np.uint8)
        chosen = random.choice(len(self.weights_), n_samples, p=self.weights_)
        for k, (member, seed) in enumerate(zip(self._members(), self._seeds(random))):
            rows = np.flatnonzero(chosen == k)
            if len(rows):
                drawn = evaluation.draw(member._conditionals, member._trees_by_position(), len(rows), seed, self.n_jobs)
                X[np.ix_(rows, member.order_)] = drawn
        return self._kind.give(X)

    def compress(self, X: Any) -> bytes:
        """The rows of ``X`` without loss, in about -log2 p(x) bits each; ``decompress`` needs this very model."""
        table = self._ready(X)
        return self._codec().compress(pack(values) for _, values in complete_chunks(table))

    def decompress(self, data: bytes) -> Any:
        """The rows that ``compress`` has put into ``data``, in the kind of table that the model was fitted on.

        Raises
        ------
        CompressedDataError
            If ``data`` is damaged or was made with another model: never are other rows returned.
        """
        check_is_fitted(self)
        return self._kind.give(self._codec().decompress(data))

    def _codec(self) -> MixtureCodec:
        members = self._members()

        def log_likelihoods(bits: PackedBits) -> NDArray[np.int64]:
            return np.stack([member._log_likelihood(bits.permuted(member.order_)) for member in members])

        return MixtureCodec([member._codec() for member in members], self.weights_, log_likelihoods, self.n_jobs)

    @property
    def feature_importances_(self) -> Floats:
        check_is_fitted(self)
        return np.average([member.feature_importances_ for member in self.members_], axis=0, weights=self.weights_)

    def _members(self) -> list[LBARN]:
        """The members, which work with as many threads as this model is to."""
        for member in self.members_:
            member.n_jobs = self.n_jobs
        return self.members_

    def _seeds(self, random: np.random.RandomState) -> list[int]:
        return random.randint(2**31 - 1, size=len(self.members_)).tolist()

    def _joint(self, X: Any) -> Floats:
        """log w_k p_k(x), shape (n, K)."""
        table = self._ready(X)
        joint = np.empty((table.n_rows, len(self.weights_)))
        for start, values in complete_chunks(table):
            for k, member in enumerate(self._members()):
                joint[start : start + len(values), k] = member._log_likelihood(pack(values, member.order_))
        return joint * UNIT + np.log(self.weights_)

    def _answers(
        self, table: Table, flip: float, n_draws: int, n_particles: int, random_state: Any
    ) -> Iterator[tuple[int, Answer]]:
        random = check_random_state(random_state)
        streams = [
            member._answers(table, flip, n_draws, n_particles, seed)
            for member, seed in zip(self._members(), self._seeds(random))
        ]
        for start, first in streams[0]:
            others = (next(stream)[1] for stream in streams[1:])
            yield start, _mixed(chain([first], others), self.weights_, random)

    # ------------------------------------------------------------------ files

    def _to_parts(self, trim: bool) -> tuple[dict[str, Any], modelfile.Tensors]:
        check_is_fitted(self)
        parts = [member._to_parts(trim) for member in self.members_]
        header = {
            "parameters": modelfile.parameters_to_json(self),
            "seed": self.seed_,
            "members": [described for described, _ in parts],
        }
        return header, {"weights": self.weights_, **modelfile.nest([arrays for _, arrays in parts])}

    @classmethod
    def _from_parts(cls, header: dict[str, Any], tensors: modelfile.Tensors) -> LBARNEnsemble:
        try:
            model = modelfile.parameters_from_json(cls, header["parameters"])
            model.seed_ = int(header["seed"])
            parts = [dict(part) for part in header["members"]]
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise ModelFileError(f"its description does not make sense ({error})") from error
        weights = modelfile.expect(tensors, "weights", np.float64, (len(parts),))
        if not (weights > 0).all() or not np.isclose(weights.sum(), 1):
            raise ModelFileError("the weights are not a distribution")
        model.members_ = [LBARN._from_parts(part, modelfile.nested(tensors, k)) for k, part in enumerate(parts)]
        first = model.members_[0]
        if any((m.n_features_in_, m._kind) != (first.n_features_in_, first._kind) for m in model.members_):
            raise ModelFileError("its members do not have the same columns")
        model.weights_, model._kind, model.n_features_in_ = weights, first._kind, first.n_features_in_
        if hasattr(first, "feature_names_in_"):
            model.feature_names_in_ = first.feature_names_in_
        return model


def _mixed(answers: Iterable[Answer], weights: Floats, random: np.random.RandomState) -> Answer:
    """The mixture's answer. One member after the other takes its share of what those before have said, so that no more
    than two answers are held at a time."""
    mixed: Answer | None = None
    for answer, log_weight in zip(answers, np.log(weights)):
        joint = log_weight + answer.log_marginal
        if mixed is None:
            mixed = replace(answer, log_marginal=joint)
            continue
        total = np.logaddexp(mixed.log_marginal, joint)
        share = np.exp(joint - total)
        taken = random.random_sample(answer.draws.shape[:2]) < share
        with np.errstate(divide="ignore"):
            effective = 1.0 / (share**2 / answer.effective + (1.0 - share) ** 2 / mixed.effective)
        mixed = Answer(
            mixed.probability + share[:, None] * (answer.probability - mixed.probability),
            np.where(taken[:, :, None], answer.draws, mixed.draws),
            total,
            np.where(answer.method == mixed.method, mixed.method, "monte-carlo"),
            effective,
        )
    assert mixed is not None
    return mixed


def _validation_sample(
    table: Table, weight: Floats | None, table_val: Table | None, weight_val: Floats | None
) -> TrainingRows:
    """The validation rows as members see them, columns as given: a missing bit reads as the training rows' most common."""
    assert table_val is not None
    given = np.arange(table.n_columns)
    sample = TrainingRows(*table_val.pack(given), weight_val)
    return sample if sample.missing is None else sample.filled(TrainingRows(*table.pack(given), weight).common_values())


def _log_likelihood_before_refit(member: LBARN, sample: TrainingRows) -> Floats:
    """log p of the bits of every row that are there, by leaves that have not learned from these rows."""
    ordered = _in_order(sample, member.order_)
    conditionals, n_trees = member._trained, member._trees_by_position()
    if ordered.missing is None:
        return UNIT * evaluation.log_likelihood(conditionals, n_trees, ordered.bits, member.n_jobs).astype(np.float64)
    surprise = evaluation.surprise(conditionals, n_trees, ordered.bits, member.n_jobs)
    return -UNIT * np.where(ordered.missing.unpack().T, 0, surprise).sum(axis=0).astype(np.float64)


def _em(log_p: Floats, row_weight: Floats | None) -> Floats:
    """The weights that make rows with log-likelihoods ``log_p``, (n, K), most likely; never worse than equal ones."""
    weights = np.full(log_p.shape[1], 1 / log_p.shape[1])
    before = -np.inf
    for _ in range(_EM_STEPS):
        joint = log_p + np.log(weights)
        evidence = np.average(logsumexp(joint, axis=1), weights=row_weight)
        if evidence - before < _EM_GAIN:
            break
        before = evidence
        weights = np.average(softmax(joint, axis=1), axis=0, weights=row_weight)
        weights = np.maximum(weights, np.finfo(float).tiny)  # a member without weight keeps a logarithm
        weights /= weights.sum()
    return weights
