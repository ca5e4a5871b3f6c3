"""Synthetic tables: lbarn beside what others have published, on the same rows, with the same measures.

    python benchmarks/tables.py [--only adult magic] [--models LBARN LBARNEnsemble independent] [--seeds 3] [--jobs 2] [--smoke]

The sets on which generators of tabular data are compared (Adult, Default, Shoppers, Magic, Beijing; TabSyn's split), read from the
folder LBARN_DATA, or else from ../shared/data beside the project. As many rows are sampled as there are training rows, and

    C2ST     an XGBoost classifier tries to tell samples from training rows, three folds: 1 - 2 max(AUC - 1/2, 0)
    shape    how alike single columns are, trend: pairs of columns (SDMetrics' definitions)
    use      XGBoost trained on the samples, tested on real test rows: AUC, or for Beijing RMSE of log(1 + pm2.5); and trained on real rows
    nearer   share of samples nearer to training rows than to as many held-out rows: 0.5 is ideal; copies: exact ones
    nats     mean log-likelihood of the test rows: mass on the grids that ``columns_`` tells

No parameters are set. Finished cells are kept in docs/results/tables.json and not measured again; its table goes into docs/tables.md.
Rivals that are installed can be added with --models: arf (arfpy), forest (ForestDiffusion), unmasking (utrees), each in a process
of its own that is given up after --minutes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import sys
from collections.abc import Callable
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

import lbarn
from pages import DATA, arguments, command, commit, measured_before, publish, table

SETS = {  # name: target
    "adult": "income",
    "default": "default payment next month",
    "shoppers": "Revenue",
    "magic": "class",
    "beijing": "pm2.5",
}
TARGETS = {**SETS, "wine": "target"}
PUBLISHED = ("TabSyn", "TabDiff", "TabPC")
PUBLISHED_FILE = DATA.parent / "tables" / "published.json"
_NEAR_ROWS = 2000  # samples whose neighbours are looked for

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


# ---------------------------------------------------------------------- generators


def _lbarn(kind: type[Any], **parameters: Any) -> Callable[[Frame, int, int], tuple[Frame, Any]]:
    def make(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
        model = kind(n_jobs=jobs, random_state=seed, **parameters).fit(train)
        return model.sample(len(train), random_state=seed), model

    return make


def _independent(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    rng = np.random.default_rng(seed)
    return train.apply(lambda column: column.to_numpy()[rng.permutation(len(column))]), None


def _arf(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    from arfpy import arf

    np.random.seed(seed)  # noqa: NPY002  arfpy draws from it
    model = arf.arf(x=train, random_state=seed)
    model.forde()
    return model.forge(n=len(train)), None


def _coded(train: Frame) -> tuple[Any, list[int], Callable[[Any], Frame]]:
    """Numbers for generators that take nothing else, where the categories are, and the way back."""
    levels = {k: sorted(train[c].unique()) for k, c in enumerate(train) if not pd.api.types.is_numeric_dtype(train[c])}
    values = np.column_stack(
        [train[c].map(levels[k].index) if k in levels else train[c] for k, c in enumerate(train)]
    ).astype(float)

    def back(made: Any) -> Frame:
        found = {}
        for k, c in enumerate(train):
            if k in levels:
                found[c] = [levels[k][int(np.clip(round(v), 0, len(levels[k]) - 1))] for v in made[:, k]]
            else:
                found[c] = made[:, k].astype(float)
                if pd.api.types.is_integer_dtype(train[c]):
                    found[c] = np.rint(found[c]).astype(np.int64)
        return pd.DataFrame(found)

    return values, sorted(levels), back


def _forest(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    from ForestDiffusion import ForestDiffusionModel

    values, categories, back = _coded(train)
    model = ForestDiffusionModel(
        values, n_t=50, duplicate_K=10, bin_indexes=[], cat_indexes=categories, int_indexes=[], diffusion_type="flow",
        n_jobs=jobs, seed=seed,
    )  # fmt: skip
    return back(model.generate(batch_size=len(train))), None


def _unmasking(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    from utrees import UnmaskingTrees

    values, categories, back = _coded(train)
    model = UnmaskingTrees(random_state=seed)
    model.fit(
        values, quantize_cols=["categorical" if k in categories else "continuous" for k in range(values.shape[1])]
    )
    return back(model.generate(n_generate=len(train))), None


GENERATORS: dict[str, Callable[[Frame, int, int], tuple[Frame, Any]]] = {
    "LBARN": _lbarn(lbarn.LBARN),
    "LBARNEnsemble": _lbarn(lbarn.LBARNEnsemble),
    "independent": _independent,
    "arf": _arf,
    "forest": _forest,
    "unmasking": _unmasking,
}


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
    return 1 - 2 * max(float(np.mean(scores)) - 0.5, 0)


def use(train: Frame, test: Frame, target: str, jobs: int) -> float:
    """AUC, or RMSE of the logarithm if the target is a number."""
    k = list(train).index(target)
    X, X_test = _for_xgboost(train.drop(columns=target), test.drop(columns=target))
    y, y_test = train.iloc[:, k], test.iloc[:, k]
    if target == "pm2.5":
        from xgboost import XGBRegressor

        model = XGBRegressor(enable_categorical=True, random_state=0, n_jobs=jobs).fit(X, np.log1p(np.maximum(y, 0)))
        return float(np.sqrt(np.mean((model.predict(X_test) - np.log1p(y_test)) ** 2)))
    positive = sorted(y_test.unique())[-1]
    if not (y == positive).any() or (y == positive).all():
        return 0.5
    model = _classifier(jobs).fit(X, (y == positive).astype(int))
    return float(roc_auc_score(y_test == positive, model.predict_proba(X_test)[:, 1]))


def measure(name: str, made: Frame, train: Frame, test: Frame, seed: int, jobs: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    like = lbarn.fidelity(test, made.iloc[rng.permutation(len(made))[:20_000]], train=train, random_state=seed)
    return {
        "c2st": c2st(train, made, seed, jobs),
        "shape": like.shape,
        "trend": like.trend,
        "use": use(made, test, TARGETS[name], jobs),
        "use_real": use(train, test, TARGETS[name], jobs),
        "nearer": like.nearer_to_training,
        "copies": like.copied_synthetic,
    }


def cell(name: str, key: str, seed: int, jobs: int, rows: int | None) -> dict[str, Any]:
    train, test = read(name)
    train, test = train[:rows], test[:rows]
    start = perf_counter()
    made, model = GENERATORS[key](train, seed, jobs)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = measure(name, made, train, test, seed, jobs)
    if model is not None:
        found["nats"] = model.score(test)
    return {**found, "seconds": seconds, "megabytes": peak}


def _put(queue: Any, arguments: tuple[Any, ...]) -> None:
    try:
        queue.put(cell(*arguments))
    except Exception as error:
        queue.put({"failed": f"{type(error).__name__}: {error}"[:300]})


def in_a_process(arguments: tuple[Any, ...], minutes: float) -> dict[str, Any]:
    """So that memory is its own, and that it can be given up."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_put, args=(queue, arguments))
    process.start()
    deadline = perf_counter() + 60 * minutes
    while perf_counter() < deadline:
        if not queue.empty():
            break
        process.join(0.2)
        if not process.is_alive() and queue.empty():
            return {"failed": f"ended with code {process.exitcode}"}
    if queue.empty():
        process.terminate()
        process.join()
        return {"failed": f"not finished after {minutes:g} minutes"}
    found: dict[str, Any] = queue.get()
    process.join()
    return found


# ---------------------------------------------------------------------- the table


def _published(metric: str, method: str, name: str) -> float | None:
    if not PUBLISHED_FILE.exists():
        return None
    figures = json.loads(PUBLISHED_FILE.read_text())[metric].get(method, {}).get(name)
    return None if figures is None else figures[0]


def report(sets: dict[str, Any]) -> str:
    names = [name for name in TARGETS if name in sets]
    text = ""
    for title, own, published, form in (
        ("C2ST, 1 is best", "c2st", "c2st_xgboost", ".3f"),
        ("seconds to train and sample", "seconds", "training_seconds", ",.0f"),
        ("XGBoost trained on samples (AUC; Beijing: RMSE)", "use", "mle", ".3f"),
        ("share of samples nearer to training rows, 0.5 is ideal", "nearer", "dcr_share", ".3f"),
        ("test nats per row", "nats", "", ".2f"),
    ):
        lines = []
        for key in GENERATORS:
            values = []
            for name in names:
                cells = list(sets[name]["models"].get(key, {}).values())
                found = [one[own] for one in cells if one.get(own) is not None]
                failed = [one["failed"] for one in cells if "failed" in one]
                values.append(format(float(np.mean(found)), form) if found else failed[0] if failed else "")
            if any(values):
                lines.append([key, *values])
        if own == "use":
            real = [next(iter(sets[name]["models"].values())) for name in names]
            lines.append(["real rows", *(format(next(iter(one.values()))["use_real"], form) for one in real)])
        for method in PUBLISHED if published else ():
            figures = [_published(published, method, name) for name in names]
            if any(value is not None for value in figures):
                lines.append([f"{method}, published", *("" if v is None else format(v, form) for v in figures)])
        text += f"\n{table([title, *names], lines)}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=GENERATORS, default=["LBARN", "independent"], metavar="MODEL")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=30.0, help="after which a cell is given up")
    options = arguments(parser)
    rows = 80 if options.smoke else None
    if options.smoke:
        options.only, options.seeds = ["wine"], 1
    sets = measured_before("tables", options)
    for name in options.only:
        found = sets.setdefault(name, {"models": {}})
        for key in options.models:
            own = found["models"].setdefault(key, {})
            for seed in range(options.seeds):
                if str(seed) in own:
                    continue
                arguments_ = (name, key, seed, options.jobs, rows)
                own[str(seed)] = in_a_process(arguments_, options.minutes) if not options.smoke else cell(*arguments_)
                own[str(seed)] |= {"load": os.getloadavg()[0], "commit": commit()}
                print(name, key, seed, own[str(seed)], file=sys.stderr, flush=True)
                found |= {"command": command()}
                sets = {name: sets[name] for name in TARGETS if name in sets}
                publish({"sets": sets}, report(sets), options, "tables")


if __name__ == "__main__":
    main()
