"""The learners that bench_engine.py compares: each trains one column from the columns before it, on one thread.

All of them minimise the same thing in the same way: Newton boosting of the log-likelihood from log-odds 0, best-first
trees of J leaves, no L2, no minimum leaf, every split of positive gain allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEARNERS", "Learner", "Problem", "Table", "Trained", "log_likelihood"]

Table = NDArray[np.uint8]


@dataclass(frozen=True)
class Problem:
    """The last column of ``table`` (0 and 1, one byte each) from the others."""

    table: Table
    max_leaf_nodes: int
    n_trees: int
    learning_rate: float = 0.02


@dataclass(frozen=True)
class Trained:
    """``seconds`` are those of the trees; ``log_odds`` takes a table like the problem's."""

    seconds: float
    model: Any
    log_odds: Callable[[Table], NDArray[Any]]


@dataclass(frozen=True)
class Learner:
    module: str  # absent: the learner is skipped
    train: Callable[[Problem], Trained]


def log_likelihood(log_odds: NDArray[Any], y: Table) -> float:
    """Mean over the rows, in nats."""
    return float(np.mean(y * log_odds - np.logaddexp(0.0, log_odds)))


def train_lbarn(problem: Problem, splits: str, split_bits: int = 3) -> Trained:
    """Set-up is left out, as with the others: what a training of one tree takes more than a tree."""
    from lbarn._engine.bits import pack
    from lbarn._engine.conditional import Boosting, Conditional
    from lbarn._engine.trees import LOG_ODDS_UNIT

    bits, none = pack(problem.table), pack(problem.table[:0])
    _ = bits.columns, none.columns

    def fit(n_trees: int) -> tuple[float, Conditional]:
        how = Boosting(problem.max_leaf_nodes, problem.learning_rate, n_trees, splits=splits, split_bits=split_bits)
        start = perf_counter()
        conditional = Conditional.train(bits, none, bits.n_columns - 1, how)
        return perf_counter() - start, conditional

    fixed, _ = fit(1)
    whole, conditional = fit(problem.n_trees)
    seconds = (whole - fixed) * problem.n_trees / max(problem.n_trees - 1, 1)
    trees = conditional.trees
    return Trained(seconds, conditional, lambda table: trees.log_odds(pack(table).columns, len(table)) * LOG_ODDS_UNIT)


def train_lightgbm(problem: Problem, layout: str, quantised: bool) -> Trained:
    """The data set and the booster are made before the clock starts."""
    import lightgbm

    params = {
        "objective": "binary",
        "boost_from_average": False,
        "learning_rate": problem.learning_rate,
        "num_leaves": problem.max_leaf_nodes,
        "max_depth": -1,
        "min_data_in_leaf": 0,
        "min_sum_hessian_in_leaf": 0.0,
        "lambda_l2": 0.0,
        "min_gain_to_split": 0.0,
        "max_bin": 2,  # as fast as 15 and 255
        "min_data_in_bin": 1,
        "feature_pre_filter": False,
        f"force_{layout}_wise": True,
        "use_quantized_grad": quantised,
        "num_threads": 1,
        "verbose": -1,
    }
    y = problem.table[:, -1]
    data = lightgbm.Dataset(problem.table[:, :-1].astype(np.float32), y, params=params).construct()
    booster = lightgbm.Booster(params, data)
    start = perf_counter()
    for _ in range(problem.n_trees):
        booster.update()
    seconds = perf_counter() - start
    return Trained(
        seconds, booster, lambda table: booster.predict(table[:, :-1].astype(np.float32), raw_score=True, num_threads=1)
    )


def train_xgboost(problem: Problem, missing: float) -> Trained:
    """The quantised matrix is made before the clock starts.

    With zeros ``missing`` the histogram visits the ones only; a missing value goes to either side, so the splits are
    the same.
    """
    import xgboost

    params = {
        "objective": "binary:logistic",
        "base_score": 0.5,
        "tree_method": "hist",
        "grow_policy": "lossguide",
        "max_leaves": problem.max_leaf_nodes,
        "max_depth": 0,
        "eta": problem.learning_rate,
        "lambda": 0.0,
        "min_child_weight": 0.0,
        "max_bin": 2,  # a third faster than 256
        "nthread": 1,
        "verbosity": 1,
    }
    y = problem.table[:, -1]
    data = xgboost.QuantileDMatrix(problem.table[:, :-1], y, max_bin=2, missing=missing, nthread=1)
    booster = xgboost.Booster(params, [data])
    start = perf_counter()
    for i in range(problem.n_trees):
        booster.update(data, i)
    seconds = perf_counter() - start

    def log_odds(table: Table) -> NDArray[Any]:
        return booster.predict(xgboost.DMatrix(table[:, :-1], missing=missing, nthread=1), output_margin=True)

    return Trained(seconds, booster, log_odds)


def train_sklearn(problem: Problem) -> Trained:
    """It bins inside of ``fit``, so a fit of one tree is subtracted."""
    from sklearn._loss import HalfBinomialLoss
    from sklearn.ensemble import HistGradientBoostingClassifier

    class FromOneHalf(HalfBinomialLoss):
        def fit_intercept_only(self, y_true: NDArray[Any], sample_weight: NDArray[Any] | None = None) -> NDArray[Any]:
            return np.zeros(1, y_true.dtype)

    def fit(n_trees: int) -> tuple[float, HistGradientBoostingClassifier]:
        start = perf_counter()
        model = HistGradientBoostingClassifier(
            loss=FromOneHalf(),
            learning_rate=problem.learning_rate,
            max_iter=n_trees,
            max_leaf_nodes=problem.max_leaf_nodes,
            max_depth=None,
            min_samples_leaf=1,
            l2_regularization=0.0,
            max_bins=2,
            early_stopping=False,
        ).fit(problem.table[:, :-1], problem.table[:, -1])
        return perf_counter() - start, model

    fixed, _ = fit(1)
    whole, model = fit(problem.n_trees)
    seconds = (whole - fixed) * problem.n_trees / max(problem.n_trees - 1, 1)
    return Trained(seconds, model, lambda table: model.decision_function(table[:, :-1]))


LEARNERS = {
    "lbarn fast": Learner("lbarn", partial(train_lbarn, splits="fast")),
    "lbarn 6 bits": Learner("lbarn", partial(train_lbarn, splits="fast", split_bits=6)),
    "lbarn exact": Learner("lbarn", partial(train_lbarn, splits="exact")),
    "LightGBM rows": Learner("lightgbm", partial(train_lightgbm, layout="row", quantised=False)),
    "LightGBM columns": Learner("lightgbm", partial(train_lightgbm, layout="col", quantised=False)),
    "LightGBM rows, quantised": Learner("lightgbm", partial(train_lightgbm, layout="row", quantised=True)),
    "LightGBM columns, quantised": Learner("lightgbm", partial(train_lightgbm, layout="col", quantised=True)),
    "XGBoost": Learner("xgboost", partial(train_xgboost, missing=np.nan)),
    "sparse XGBoost": Learner("xgboost", partial(train_xgboost, missing=0.0)),
    "HistGradientBoosting": Learner("sklearn", train_sklearn),
}
