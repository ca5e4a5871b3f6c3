"""Synthetic tables: lbarn beside what others have published, on the same rows, with the same measures.

    python benchmarks/tables.py [--only adult magic] [--models LBARN LBARNEnsemble independent] [--seeds 5] [--minutes 30] [--jobs 2] [--smoke]

The sets on which generators of tabular data are compared (Adult, Default, Shoppers, Magic, Beijing; TabSyn's split), read from the
folder LBARN_DATA, or else from ../shared/data beside the project. As many rows are sampled as there are training rows, and

    C2ST     an XGBoost classifier tries to tell samples from training rows, three folds: 1 - 2 max(AUC - 1/2, 0)
    shape    how alike single columns of samples and training rows are, trend: pairs of columns (SDMetrics' definitions)
    use      XGBoost trained on the samples, tested on real test rows: AUC, or for Beijing RMSE of log(1 + pm2.5)
    mle      the same as others publish it: settings (trees, depth, weight of a leaf, least gain) chosen on a ninth of the samples, categories one-hot,
             for Beijing RMSE of log(max(pm2.5, 1))
    nearer   share of samples nearer to training rows than to as many test rows, 0.5 is ideal: by lbarn.fidelity, and (dcr) with the distance that others
             publish, differences of numbers as shares of their range and 2 for another category. copies: exact ones
    nats     mean log-likelihood of the test rows: mass on the grids that ``columns_`` tells

No parameters are set (generators.py tells more, and what to install for the rivals). A cell is one generator, table and seed, in a process of its own,
which is given up after --minutes of CPU time; who is given up is not tried on larger tables. Means are shown of the seeds, and the least of their seconds. Finished cells are kept in docs/results/tables.json and not measured again; its tables go into docs/tables.md and docs/how-good.md.
Alpha-precision and beta-recall, which others publish, are left out: synthcity, which defines them, wants NumPy 1 and a PyTorch of 2024.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Callable
from itertools import pairwise, product
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import OneHotEncoder

import lbarn
from cells import Stopwatch, in_a_process
from generators import GENERATORS, is_number
from lbarn.comparison.copies import Neighbours, nearer_share
from pages import DATA, arguments, measured_before, publish, put_into, stamp, table

SETS = {  # name: target
    "adult": "income",
    "default": "default payment next month",
    "shoppers": "Revenue",
    "magic": "class",
    "beijing": "pm2.5",
}
TARGETS = {**SETS, "wine": "target"}
BY_CELLS = ("wine", "magic", "shoppers", "beijing", "adult", "default")  # from the smallest to the largest
CODES = {  # columns of numbers that are categories to those who publish
    "default": ["SEX", "EDUCATION", "MARRIAGE", "PAY_0", *(f"PAY_{k}" for k in range(2, 7)), SETS["default"]],
    "shoppers": ["OperatingSystems", "Browser", "Region", "TrafficType"],
    "beijing": ["year", "month", "day", "hour"],
}
PUBLISHED = ("TabSyn", "TabDiff", "TabPC", "TabDDPM", "GReaT", "CTGAN", "TVAE")
PUBLISHED_FILE = DATA.parent / "tables" / "published.json"
_ROWS = 20_000  # samples whose likeness is measured
_FEWER_ROWS = 10_000  # and those that are compared with every row
_TREES = (10, 50, 100)

Frame = Any


def read(name: str) -> tuple[Frame, Frame]:
    if name == "wine":  # for --smoke: always there
        frame = load_wine(as_frame=True).frame.assign(target=lambda own: own["target"].map("class {}".format))
        return frame[::2].reset_index(drop=True), frame[1::2].reset_index(drop=True)
    folder = DATA / "tables"
    if not folder.is_dir():
        sys.exit(f"{folder} is absent; set LBARN_DATA to the folder that holds tables/{name}-train.csv.gz")
    train, test = (pd.read_csv(folder / f"{name}-{part}.csv.gz") for part in ("train", "test"))
    return train, test


# ---------------------------------------------------------------------- measures


def _for_xgboost(*frames: Frame) -> list[Frame]:
    whole = pd.concat(frames, ignore_index=True)
    whole.columns = [str(k) for k in range(whole.shape[1])]
    for name in whole:
        if not pd.api.types.is_numeric_dtype(whole[name]):
            whole[name] = whole[name].astype("category")
    ends = np.cumsum([0, *map(len, frames)])
    return [whole.iloc[a:b] for a, b in pairwise(ends)]


def _classifier(jobs: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(eval_metric="logloss", enable_categorical=True, random_state=0, n_jobs=jobs)


def c2st(real: Frame, made: Frame, seed: int, jobs: int) -> float:
    both = pd.concat(_for_xgboost(real, made))
    label = np.repeat([1, 0], [len(real), len(made)])
    scores = []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=seed).split(both, label):
        model = _classifier(jobs).fit(both.iloc[train], label[train])
        scores.append(roc_auc_score(label[test], model.predict_proba(both.iloc[test])[:, 1]))
    return float(np.mean([1 - 2 * max(auc - 0.5, 0) for auc in scores]))


def use(train: Frame, test: Frame, target: str, jobs: int) -> float:
    """AUC, or RMSE of the logarithm if the target is a number."""
    if target == "pm2.5":
        from xgboost import XGBRegressor

        X, X_test = _for_xgboost(train.drop(columns=target), test.drop(columns=target))
        y, y_test = train[target], test[target]
        model = XGBRegressor(enable_categorical=True, random_state=0, n_jobs=jobs).fit(X, np.log1p(np.maximum(y, 0)))
        return float(np.sqrt(np.mean((model.predict(X_test) - np.log1p(y_test)) ** 2)))
    positive = sorted(test[target].unique())[-1]
    if not 0 < (train[target] == positive).sum() < len(train):
        return 0.5
    return float(roc_auc_score(test[target] == positive, chances(train, test, target, positive, jobs)))


def chances(train: Frame, test: Frame, target: str, positive: Any, jobs: int) -> NDArray[np.float64]:
    """The probability of a level in test rows, by a classifier."""
    X, X_test = _for_xgboost(train.drop(columns=target), test.drop(columns=target))
    model = _classifier(jobs).fit(X, (train[target] == positive).astype(int))
    return np.asarray(model.predict_proba(X_test)[:, 1])


def _categories(name: str, rows: Frame) -> list[str]:
    return [c for c in rows if c in CODES.get(name, ()) or not is_number(rows[c])]


def use_as_published(name: str, train: Frame, test: Frame, seed: int, jobs: int) -> float:
    """As ``use``, but of the model that is best on a ninth of the training rows among TabSyn's 36."""
    from xgboost import XGBClassifier, XGBRegressor

    target = TARGETS[name]
    is_regression = target == "pm2.5"
    positive = sorted(test[target].unique())[-1]
    y, y_test = (
        np.log(np.clip(rows[target], 1, None)) if is_regression else (rows[target] == positive).astype(int)
        for rows in (train, test)
    )
    X, X_test = (rows.drop(columns=target) for rows in (train, test))
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False), _categories(name, X)
    code = make_column_transformer(one_hot, remainder="passthrough").fit(X)
    X, X_test = (code.transform(rows).astype(np.float32) for rows in (X, X_test))
    chosen_on = np.random.default_rng(seed).permutation(len(X)) < len(X) // 9
    if y[~chosen_on].nunique() < 2 or y[chosen_on].nunique() < 2:
        return float(np.sqrt(np.mean((y_test - y.mean()) ** 2))) if is_regression else 0.5

    def error(model: Any, trees: int, X: Frame, y: Any) -> float:
        if is_regression:
            return float(np.sqrt(np.mean((model.predict(X, iteration_range=(0, trees)) - y) ** 2)))
        return -float(roc_auc_score(y, model.predict_proba(X, iteration_range=(0, trees))[:, 1]))

    tried = []
    for depth, weight, gain in product((5, 10, 20), (1, 10), (0, 1)):
        settings = {"max_depth": depth, "min_child_weight": weight, "gamma": gain, "n_jobs": jobs}
        model = (XGBRegressor if is_regression else XGBClassifier)(n_estimators=_TREES[-1], **settings)
        model.fit(X[~chosen_on], y[~chosen_on])
        tried += [(error(model, n, X[chosen_on], y[chosen_on]), error(model, n, X_test, y_test)) for n in _TREES]
    found = min(tried, key=lambda one: one[0])[1]  # test rows choose nothing
    return found if is_regression else -found


def nearer_as_published(name: str, made: Frame, train: Frame, test: Frame) -> float:
    """As ``lbarn.fidelity`` has it, but by the distance that others publish."""
    categories = _categories(name, train)
    numbers = [c for c in train if c not in categories]
    widths = (train[numbers].max() - train[numbers].min()).to_numpy(float)
    levels = {c: sorted(train[c].astype(str).unique()) for c in categories}

    def placed(rows: Frame) -> tuple[Any, Any]:
        codes = [pd.Categorical(rows[c].astype(str), levels[c]).codes for c in categories]
        return rows[numbers].to_numpy(float) / np.where(widths > 0, widths, 1), np.array(codes).reshape(-1, len(rows))

    def neighbours(known: tuple[Any, Any]) -> Neighbours:
        found = []
        for start in range(0, len(made), 100):
            own = slice(start, start + 100)
            distance = cdist(own_numbers[own], known[0], "cityblock")
            for a, b in zip(own_codes[:, own], known[1]):
                distance += 2.0 * (a[:, None] != b)
            least = distance.min(axis=1)
            found.append((least, (distance <= least[:, None] + 1e-9).sum(axis=1)))
        first, ties = map(np.concatenate, zip(*found))
        return Neighbours(first, first, ties)

    own_numbers, own_codes = placed(made)
    return nearer_share(neighbours(placed(train)), neighbours(placed(test)), len(train), len(test))


def measure(name: str, made: Frame, train: Frame, test: Frame, seed: int, jobs: int) -> dict[str, float]:
    some = made.iloc[np.random.default_rng(seed).permutation(len(made))[:_ROWS]]
    like = lbarn.fidelity(train, some, random_state=seed)
    near = lbarn.fidelity(test, some, train=train, random_state=seed)
    return {
        "c2st": c2st(train, made, seed, jobs),
        "shape": like.shape,
        "trend": like.trend,
        "use": use(made, test, TARGETS[name], jobs),
        "mle": use_as_published(name, made, test, seed, jobs),
        "nearer": near.nearer_to_training,
        "dcr": nearer_as_published(name, some[:_FEWER_ROWS], train, test),
        "copies": near.copied_synthetic,
    }


def cell(name: str, key: str, seed: int, jobs: int, rows: int | None) -> dict[str, Any]:
    train, test = read(name)
    train, test = train[:rows], test[:rows]
    watch = Stopwatch()
    made, model = GENERATORS[key](train, seed, jobs)
    seconds = watch.read()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = measure(name, made, train, test, seed, jobs)
    if model is not None:
        found["nats"] = model.score(test)
    return {**found, **seconds, "megabytes": peak}


# ---------------------------------------------------------------------- the table


class Figure(NamedTuple):
    mean: float
    deviation: float | None  # of the seeds, if there are several


def _published(metric: str | None, method: str, name: str) -> Figure | None:
    if metric is None or not PUBLISHED_FILE.exists():
        return None
    figures = json.loads(PUBLISHED_FILE.read_text())[metric].get(method, {}).get(name)
    return None if figures is None else Figure(*figures)


def _found(sets: dict[str, Any], name: str, key: str, measure: str) -> Figure | None:
    """Over the seeds that were finished."""
    cells = sets[name]["models"].get(key, {}).values()
    values = [cell[measure] for cell in cells if "failed" not in cell and cell.get(measure) is not None]
    if not values:
        return None
    if measure == "cpu_seconds":  # machines differ, and some were busy with other things
        return Figure(min(values), None)
    return Figure(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None)


def _why_not(sets: dict[str, Any], name: str, key: str) -> str:
    """Why there is nothing to measure: who does not finish a table is not tried again on it, nor on larger ones."""
    for other in BY_CELLS[BY_CELLS.index(name) :: -1]:
        for cell in sets.get(other, {"models": {}})["models"].get(key, {}).values():
            failed = cell.get("failed", "")
            if failed and (other == name or failed.startswith("not finished")):
                failed = failed.partition(":")[0]
                return failed if other == name else f"{failed} on {other}"
    return ""


def _lines(
    sets: dict[str, Any], value: Callable[[str, str], str], published: Callable[[str, str], str]
) -> list[list[str]]:
    """One for each generator that has been run or published."""
    names = [name for name in TARGETS if name in sets]
    lines = [[key, *(value(key, name) for name in names)] for key in GENERATORS]
    lines += [[f"{method}, published", *(published(method, name) for name in names)] for method in PUBLISHED]
    return [line for line in lines if any(line[1:])]


def _form(figure: Figure | None, form: str, *, spread: bool = False) -> str:
    if figure is None:
        return ""
    deviation = f" ± {figure.deviation:{form}}" if spread and figure.deviation is not None else ""
    return f"{figure.mean:{form}}{deviation}"


def summary(sets: dict[str, Any]) -> str:
    """How well a classifier tells samples from training rows, and after how many CPU seconds, or published ones."""

    def cell(score: Figure | None, seconds: Figure | None) -> str:
        return " in ".join(
            text for text in (_form(score, ".3f"), "" if seconds is None else f"{seconds.mean:,.0f} s") if text
        )

    lines = _lines(
        sets,
        lambda key, name: (
            cell(_found(sets, name, key, "c2st"), _found(sets, name, key, "cpu_seconds")) or _why_not(sets, name, key)
        ),
        lambda method, name: (
            ""
            if _published("c2st_xgboost", method, name) is None
            else cell(_published("c2st_xgboost", method, name), _published("training_seconds", method, name))
        ),
    )
    return table(["C2ST, 1 is best", *(name for name in TARGETS if name in sets)], lines)


MEASURES = (  # title, own name, published name, form
    ("C2ST, 1 is best, ± standard deviation among seeds", "c2st", "c2st_xgboost", ".3f"),
    (
        "CPU seconds to train and sample, of the fastest seed; published: seconds on a GPU",
        "cpu_seconds",
        "training_seconds",
        ",.0f",
    ),
    ("XGBoost trained on samples, chosen on a ninth of them (AUC; Beijing: RMSE)", "mle", "mle", ".3f"),
    ("XGBoost trained on samples, with its defaults", "use", None, ".3f"),
    ("single columns: shape, 1 is best", "shape", "shape", ".3f"),
    ("pairs of columns: trend, 1 is best", "trend", "trend", ".3f"),
    ("share of samples nearer to training rows, 0.5 is ideal", "dcr", "dcr_share", ".3f"),
    ("the same by lbarn's own distance", "nearer", None, ".3f"),
    ("exact copies of training rows", "copies", None, ".2%"),
    ("test nats per row", "nats", None, ".2f"),
    ("peak memory, MB", "megabytes", None, ",.0f"),
)
SPREAD = ("c2st", "mle", "dcr")  # whose standard deviation among seeds is shown


def of_measure(sets: dict[str, Any], title: str, own: str, published: str | None, form: str) -> str:
    names = [name for name in TARGETS if name in sets]
    lines = _lines(
        sets,
        lambda key, name: (
            _form(_found(sets, name, key, own), form, spread=own in SPREAD)
            or (_why_not(sets, name, key) if own == "cpu_seconds" else "")
        ),
        lambda method, name: _form(_published(published, method, name), form, spread=own in SPREAD),
    )
    return table([title, *names], lines)


def show(sets: dict[str, Any], options: Any) -> None:
    sets = {name: sets[name] for name in TARGETS if name in sets}
    publish({"sets": sets}, "\n".join(of_measure(sets, *measure) for measure in MEASURES), options, "tables")
    if not options.results and not options.smoke:
        short = {"command": "python benchmarks/tables.py --models " + " ".join(map(quote, GENERATORS))}
        put_into("how-good", summary(sets), short)  # those of the cells are in the other page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=GENERATORS, default=["LBARN", "independent"], metavar="MODEL")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=30.0, help="of CPU time, after which a cell is given up")
    options = arguments(parser)
    rows = 80 if options.smoke else None
    if options.smoke:
        options.only, options.seeds = ["wine"], 1
    sets = measured_before("tables", options)
    for name in sorted(options.only, key=BY_CELLS.index):
        for key in options.models:
            for seed in range(options.seeds):
                if str(seed) in sets.get(name, {"models": {}})["models"].get(key, {}) or _why_not(sets, name, key):
                    continue
                job = name, key, seed, options.jobs, rows
                found = cell(*job) if options.smoke else in_a_process(cell, job, options.minutes)
                found |= stamp()
                print(name, key, seed, found, file=sys.stderr, flush=True)
                sets = measured_before("tables", options) or sets  # another run may have added to them
                sets.setdefault(name, {"models": {}})["models"].setdefault(key, {})[str(seed)] = found
                show(sets, options)
    show(sets, options)  # also if nothing was left to measure


if __name__ == "__main__":
    main()
