"""One column given the others: whole distributions of numbers, and probabilities of classes, beside what people use.

    python benchmarks/distributional_regression.py [--only pm2.5 income] [--models LBARN] [--seeds 5] [--minutes 30] [--jobs 2]
    python benchmarks/distributional_regression.py --picture      only draws docs/results/distributional_regression.png
    python benchmarks/distributional_regression.py --smoke

Numbers: scikit-learn's diabetes, Beijing's pm2.5, Adult's hours-per-week, Magic's Length and Alpha (the tables are read from the folder
LBARN_DATA, or else from ../shared/data beside the project), and two simulated sets whose truth is known. LBARNRegressor without
parameters, and of an ensemble; NGBoost with two families (LogNormal where numbers are positive); CatBoost with a Normal; LightGBM with a
model for each of 19 quantiles.

    NLL       of the test rows, nats, as density. Numbers on a grid are treated alike: LBARN's mass of a value, and the integral of a
              rival's density over the step around the value, both divided by the step
    CRPS      twice the mean quantile loss at 5%, 10%, ..., 95%, for everybody
    coverage  share of the test rows from the 5% to the 95% quantile, and the mean width of that interval

Classes: Adult, Default, Shoppers, Magic, scikit-learn's breast cancer and digits. LBARNClassifier, both methods, LightGBM, and logistic
regression (one-hot, scaled). Accuracy, log-loss, and the calibration error: how far confidence is from accuracy, over 15 bins.

Rivals choose their number of rounds (NGBoost also the depth of its trees, 3 or 6) on a fifth of the training rows, logistic regression its
penalty on three folds of them, and are then fitted again on all of them with that. Small sets are split five times at random, large ones have their own split. NGBoost, which takes numbers only, gets
categories as means of the target (cross-fitted), and learns at rate 0.01 below 5,000 rows, 0.1 above. Seconds are those of fitting
and predicting. Finished cells are kept in docs/results/distributional_regression.json; the tables go into docs/uncertainty.md.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder
from sklearn.tree import DecisionTreeRegressor

from cells import Stopwatch, in_a_process
from lbarn import LBARN, LBARNClassifier, LBARNEnsemble, LBARNRegressor
from pages import ROOT, arguments, measured_before, publish, stamp, table
from to_predict import CLASSES, NUMBERS, SETS, Floats, Frame, Problem

NAME = "distributional_regression"
LEVELS = np.arange(1, 20) / 20
_PATIENCE = 50  # rounds without a gain after which a rival stops


class Predicted(NamedTuple):
    """The distribution of y in every test row."""

    quantiles: Floats  # (n, levels)
    log_density: Floats | None  # of the true values


# ---------------------------------------------------------------------- regressors


def _lbarn(kind: type[Any]) -> Callable[..., Predicted]:
    def predict(problem: Problem, seed: int, jobs: int, rounds: int) -> Predicted:
        density = kind(max_iter=2 * rounds, n_jobs=jobs, random_state=seed)  # 2,000 rounds, the default
        model = LBARNRegressor(density).fit(problem.X, problem.y)
        own = model.conditional(problem.X_test)
        y = model.network_.columns_[-1]
        if (float(y.resolution) if y.measure == "mass" else 0.0) != problem.step:
            raise ValueError(f"y is on a grid of step {problem.step:g}, but LBARN found {y.resolution}")
        log_step = np.log(problem.step) if problem.step else 0.0
        return Predicted(own.quantile(LEVELS), own.log_prob(problem.y_test) - log_step)

    return predict


def _of_family(distribution: Any, problem: Problem, shift: float = 0.0) -> Predicted:
    """Of a scipy distribution; ``shift`` has been added to y."""
    y, step = problem.y_test + shift, problem.step
    density = distribution.logpdf(y)
    if step:
        low, high = y - step / 2, y + step / 2
        upper = distribution.sf(low) - distribution.sf(high)  # exact in the upper tail
        lower = distribution.cdf(high) - distribution.cdf(low)
        share = np.where(distribution.cdf(y) > 0.5, upper, lower)
        density = np.where(share > 1e-300, np.log(np.maximum(share, 1e-300) / step), density)
    return Predicted(np.stack([distribution.ppf(level) for level in LEVELS], axis=1) - shift, density)


def _ngboost(family: str) -> Callable[..., Predicted]:
    def predict(problem: Problem, seed: int, jobs: int, rounds: int) -> Predicted:
        from ngboost import NGBRegressor, distns

        shift = problem.step / 2 if family == "LogNormal" else 0.0  # a count may be 0
        if family == "LogNormal" and problem.y.min() + shift <= 0:
            raise ValueError("not positive")
        is_large = len(problem.X) > 5000

        def boosted(X: Frame, y: Floats, n: int, depth: int, *valid: Any) -> tuple[Any, Any]:
            means = TargetEncoder(target_type="continuous", random_state=seed)
            code = make_column_transformer((means, problem.categories), remainder="passthrough")
            model = NGBRegressor(
                Dist=getattr(distns, family),
                Base=DecisionTreeRegressor(max_depth=depth),
                n_estimators=n,
                learning_rate=0.1 if is_large else 0.01,
                verbose=False,
                random_state=seed,
            )
            coded = code.fit_transform(X, y)
            if valid:
                check = code.transform(valid[0]), valid[1] + shift
                return model.fit(coded, y + shift, *check, early_stopping_rounds=_PATIENCE), code
            return model.fit(coded, y + shift), code

        X, X_val, y, y_val = problem.parts(seed)
        most = min(rounds, 500) if is_large else 2 * rounds
        tried = [boosted(X, y, most, depth, X_val, y_val)[0] for depth in (3, 6)]
        best = min(tried, key=lambda model: min(model.evals_result["val"]["LOGSCORE"]))
        model, code = boosted(problem.X, problem.y, best.best_val_loss_itr + 1, best.Base.max_depth)
        return _of_family(model.pred_dist(code.transform(problem.X_test)).dist, problem, shift)

    return predict


def _lightgbm_quantiles(problem: Problem, seed: int, jobs: int, rounds: int) -> Predicted:
    found = [
        _lightgbm("LGBMRegressor", problem, seed, jobs, rounds, objective="quantile", alpha=float(level))
        for level in LEVELS
    ]
    X_test = _with_categories(problem, problem.X_test)
    return Predicted(np.sort(np.stack([model.predict(X_test) for model in found], axis=1), axis=1), None)


def _lightgbm(kind: str, problem: Problem, seed: int, jobs: int, rounds: int, **options: Any) -> Any:
    import lightgbm

    options |= {"random_state": seed, "n_jobs": jobs, "verbose": -1}
    X, X_val, y, y_val = problem.parts(seed)
    X, X_val, whole = (_with_categories(problem, part) for part in (X, X_val, problem.X))
    model = getattr(lightgbm, kind)(n_estimators=rounds, **options)
    model.fit(X, y, eval_set=[(X_val, y_val)], callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)])
    n = max(model.best_iteration_, 1)
    return getattr(lightgbm, kind)(n_estimators=n, **options).fit(whole, problem.y)


def _with_categories(problem: Problem, X: Frame) -> Frame:
    """As LightGBM takes them."""
    kinds = {name: pd.CategoricalDtype(sorted(problem.X[name].unique())) for name in problem.categories}
    return X.astype(kinds)


def _catboost(problem: Problem, seed: int, jobs: int, rounds: int) -> Predicted:
    from catboost import CatBoostRegressor

    options = {
        "loss_function": "RMSEWithUncertainty",
        "random_seed": seed,
        "thread_count": jobs,
        "verbose": False,
        "allow_writing_files": False,
        "cat_features": problem.categories,
    }
    X, X_val, y, y_val = problem.parts(seed)
    model = CatBoostRegressor(iterations=rounds, early_stopping_rounds=_PATIENCE, **options)
    model.fit(X, y, eval_set=(X_val, y_val))
    options |= {"iterations": max(model.tree_count_, 1), "learning_rate": model.learning_rate_}
    model = CatBoostRegressor(**options).fit(problem.X, problem.y)
    mean, variance = model.predict(problem.X_test, prediction_type="RMSEWithUncertainty").T
    return _of_family(norm(mean, np.sqrt(variance)), problem)


def _truth(problem: Problem, seed: int, jobs: int, rounds: int) -> Predicted:
    if problem.truth is None:
        raise ValueError("not known")
    quantiles = np.stack([problem.truth.quantile(level) for level in LEVELS], axis=1)
    return Predicted(quantiles, np.log(problem.truth.density(problem.y_test)))


# ---------------------------------------------------------------------- classifiers


def _lbarn_classes(method: str) -> Callable[..., Any]:
    def fit(problem: Problem, seed: int, jobs: int, rounds: int) -> tuple[Any, Floats]:
        own = {"l2_regularization": 3.0} if method == "generative" else {}  # as without an estimator
        density = LBARN(max_iter=2 * rounds, n_jobs=jobs, random_state=seed, **own)
        model = LBARNClassifier(density, method=method)
        model.fit(problem.X, problem.y)
        return model.classes_, model.predict_proba(problem.X_test)

    return fit


def _lightgbm_classes(problem: Problem, seed: int, jobs: int, rounds: int) -> tuple[Any, Floats]:
    model = _lightgbm("LGBMClassifier", problem, seed, jobs, rounds)
    return model.classes_, model.predict_proba(_with_categories(problem, problem.X_test))


def _logistic(problem: Problem, seed: int, jobs: int, rounds: int) -> tuple[Any, Floats]:
    one_hot = OneHotEncoder(handle_unknown="ignore"), problem.categories
    model = make_pipeline(
        make_column_transformer(one_hot, remainder=StandardScaler()), LogisticRegression(max_iter=rounds)
    )
    search = GridSearchCV(model, {"logisticregression__C": [0.01, 0.1, 1.0, 10.0]}, scoring="neg_log_loss", cv=3)
    search.fit(problem.X, problem.y)
    return search.classes_, search.predict_proba(problem.X_test)


REGRESSORS: dict[str, tuple[str | None, Callable[..., Predicted]]] = {  # name: what must be installed, method
    "LBARN": (None, _lbarn(LBARN)),
    "LBARNEnsemble": (None, _lbarn(LBARNEnsemble)),
    "NGBoost, Normal": ("ngboost", _ngboost("Normal")),
    "NGBoost, LogNormal": ("ngboost", _ngboost("LogNormal")),
    "CatBoost, Normal": ("catboost", _catboost),
    "LightGBM, quantiles": ("lightgbm", _lightgbm_quantiles),
    "the truth": (None, _truth),
}
CLASSIFIERS: dict[str, tuple[str | None, Callable[..., Any]]] = {
    "LBARN, generative": (None, _lbarn_classes("generative")),
    "LBARN, discriminative": (None, _lbarn_classes("discriminative")),
    "LightGBM": ("lightgbm", _lightgbm_classes),
    "logistic regression": (None, _logistic),
}


# ---------------------------------------------------------------------- measures


def of_numbers(predicted: Predicted, y: Floats) -> dict[str, Any]:
    quantiles, density = predicted
    above = y[:, None] - quantiles
    inside = (y >= quantiles[:, 0]) & (y <= quantiles[:, -1])
    return {
        "nll": None if density is None else float(-density.mean()),
        "crps": float(2 * np.maximum(LEVELS * above, (LEVELS - 1) * above).mean()),
        "coverage": float(inside.mean()),
        "width": float((quantiles[:, -1] - quantiles[:, 0]).mean()),
        "below": (above <= 0).mean(axis=0).round(4).tolist(),
    }


def of_classes(predicted: tuple[Any, Floats], y: NDArray[Any], bins: int = 15) -> dict[str, Any]:
    classes, probability = predicted
    right, confidence = classes[probability.argmax(axis=1)] == y, probability.max(axis=1)
    bin_ = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = np.bincount(bin_, right - confidence, minlength=bins)
    return {
        "accuracy": float(right.mean()),
        "log-loss": float(log_loss(y, probability, labels=classes)),
        "calibration error": float(np.abs(gaps).sum() / len(y)),
    }


def cell(name: str, key: str, seed: int, jobs: int, smoke: bool) -> dict[str, Any]:
    problem = SETS[name][1](seed)
    if smoke:
        problem = problem.first(100)
    package, model = (REGRESSORS if name in NUMBERS else CLASSIFIERS)[key]
    if package:
        import_module(package)  # which takes its time
    watch = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predicted = model(problem, seed, jobs, 10 if smoke else 1000)
    seconds = watch.read()
    found = (of_numbers if name in NUMBERS else of_classes)(predicted, problem.y_test)
    return {**found, **seconds, "rows": len(problem.X)}


def is_possible(name: str, key: str) -> bool:
    if key == "the truth":
        return name in ("heteroscedastic", "bimodal")
    if key == "NGBoost, LogNormal":
        return name in ("diabetes", "pm2.5", "hours", "Length")  # positive
    return True


# ---------------------------------------------------------------------- the tables


def _shown(
    title: str, sets: dict[str, Any], names: list[str], keys: list[str], measure: str, form: str, best: Any
) -> str:
    """One measure: a line per model, a column per set; the best in bold, but for the truth."""
    means: dict[tuple[str, str], float] = {}
    for key in keys:
        for name in names:
            found = [one.get(measure) for one in sets[name]["models"].get(key, {}).values()]
            if found and all(value is not None for value in found):
                means[key, name] = float(np.mean(found))
    lines = []
    for key in keys:
        line = []
        for name in names:
            own = sets[name]["models"].get(key, {}).values()
            text = next((one["failed"].partition(":")[0] for one in own if "failed" in one), "")
            if (key, name) in means:
                text = format(means[key, name], form)
                rivals = [value for (k, n), value in means.items() if n == name and k != "the truth"]
                if best and key != "the truth" and text == format(best(rivals), form):
                    text = f"**{text}**"
                if measure == "coverage":
                    text += f" ({np.mean([one['width'] for one in own]):.3g})"
            line.append(text)
        if any(line):
            lines.append([key, *line])
    return table([title, *names], lines) + "\n"


def report(sets: dict[str, Any]) -> str:
    numbers, classes = ([name for name in kind if name in sets] for kind in (NUMBERS, CLASSES))
    text = ""
    for title, measure, form, best in (
        ("NLL, nats", "nll", ".3f", min),
        ("CRPS", "crps", ".4g", min),
        ("in the 90% interval (its width)", "coverage", ".1%", None),
        ("CPU seconds", "cpu_seconds", ".2g", None),
    ):
        text += _shown(title, sets, numbers, list(REGRESSORS), measure, form, best) if numbers else ""
    for title, measure, form, best in (
        ("accuracy", "accuracy", ".2%", max),
        ("log-loss, nats", "log-loss", ".4f", min),
        ("calibration error", "calibration error", ".3f", min),
        ("CPU seconds", "cpu_seconds", ".2g", None),
    ):
        text += _shown(title, sets, classes, list(CLASSIFIERS), measure, form, best) if classes else ""
    return text


def draw(sets: dict[str, Any], path: Path) -> None:
    """Three rows of the bimodal set, and how often test values are below the quantiles that were predicted."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt
    from ngboost import NGBRegressor

    problem = SETS["bimodal"][1](0)
    assert problem.truth is not None
    ours = LBARNRegressor(LBARN(n_jobs=2, random_state=0)).fit(problem.X, problem.y)
    normal = NGBRegressor(verbose=False, random_state=0).fit(problem.X.to_numpy(), problem.y)
    apart = problem.X_test["x2"].to_numpy()
    rows = [int(np.abs(apart - share).argmin()) for share in (0.05, 0.5, 0.95)]
    edges = np.linspace(-4, 4, 81)
    middles = (edges[1:] + edges[:-1]) / 2
    own = ours.conditional(problem.X_test.iloc[rows])
    mass = np.stack([own.between(a, b) for a, b in pairwise(edges)], axis=1)
    figure, axes = plt.subplots(1, 4, figsize=(12, 2.8), layout="constrained")
    for k, (row, axis) in enumerate(zip(rows, axes)):
        truth = problem.truth.take([row])
        axis.fill_between(middles, [truth.density(np.array([y]))[0] for y in middles], alpha=0.25, label="the truth")
        axis.stairs(mass[k] / np.diff(edges), edges, label="LBARN", color="C0")
        theirs = normal.pred_dist(problem.X_test.to_numpy()[[row]]).dist
        axis.plot(middles, theirs.pdf(middles), color="C1", label="NGBoost, Normal")
        axis.set(title=f"bimodal, test row {row}", xlabel="y", yticks=[])
    axes[0].legend(fontsize=8)
    for key in ("LBARN", "NGBoost, Normal", "LightGBM, quantiles"):
        below = np.mean([one["below"] for one in sets["bimodal"]["models"][key].values()], axis=0)
        axes[3].plot(100 * LEVELS, 100 * (below - LEVELS), label=key)
    axes[3].axhline(0, color="0.7", zorder=0)
    axes[3].set(title="below a quantile, percent too many", xlabel="quantile, percent")
    axes[3].legend(fontsize=8)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=[*REGRESSORS, *CLASSIFIERS], metavar="MODEL")
    parser.add_argument("--seeds", type=int, help="splits or seeds; 1 to 5 otherwise, by the size of the set")
    parser.add_argument("--minutes", type=float, default=30.0, help="of CPU time, after which a cell is given up")
    parser.add_argument("--picture", action="store_true", help="draw the picture, measure nothing")
    options = arguments(parser)
    if options.smoke:
        options.only, options.seeds, options.jobs = ["diabetes", "bimodal", "cancer"], 1, 1
        options.models = options.models or ["LBARN", "the truth", *CLASSIFIERS]
    sets = measured_before(NAME, options)
    if options.picture:
        return draw(sets, ROOT / "docs" / "results" / f"{NAME}.png")
    for name in options.only:
        found = sets.setdefault(name, {"models": {}})
        for key, (package, _) in (REGRESSORS if name in NUMBERS else CLASSIFIERS).items():
            if (options.models and key not in options.models) or not is_possible(name, key):
                continue
            if package and not find_spec(package):
                print(f"{key} is left out: {package} is not installed", file=sys.stderr)
                continue
            own = found["models"].setdefault(key, {})
            for seed in range(options.seeds or SETS[name][0]):
                if str(seed) in own:
                    continue
                cell_ = name, key, seed, options.jobs, options.smoke
                own[str(seed)] = cell(*cell_) if options.smoke else in_a_process(cell, cell_, options.minutes)
                own[str(seed)] |= stamp()
                print(name, key, seed, own[str(seed)], file=sys.stderr, flush=True)
                sets = {name: sets[name] for name in SETS if name in sets}
                publish({"sets": sets}, report(sets), options, NAME, "uncertainty")
    publish({"sets": sets}, report(sets), options, NAME, "uncertainty")  # also if nothing was left to measure


if __name__ == "__main__":
    main()
