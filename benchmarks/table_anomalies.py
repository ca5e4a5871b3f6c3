"""Strange rows of tables, found by LBARN and by what people use; and which of their cells is the strange one.

    python benchmarks/table_anomalies.py [--only magic adult] [--models LBARN ECOD] [--repeats 3] [--jobs 2] [--smoke]

Everybody learns from usual rows alone, which are training rows, and scores test rows. Strange are

    magic      hadrons among gammas
    shoppers   visitors who buy among those who do not
    mushrooms  poisonous ones among edible ones
    breast     malignant tumours among benign ones, of which a random half is learned from
    digits     one digit among the nine others, each of the ten in turn; 64 pixels as numbers, a random half is learned from
    adult      rows in which one cell has the value of another row, another value: 5% of the test rows
    adult3     the same with three cells

The target is left out, but for Adult. The first two and Adult are read from the folder LBARN_DATA, or else from ../shared/data beside the
project; Mushrooms may come from the web. Nobody has parameters set, but that LBARN is told that pixels are numbers. For the others, categories are one-hot and numbers but for
pixels are standardised. ECOD and COPOD, from pyod, see the test rows while they score them. They too can tell how strange every column is.

Finished cells are kept in docs/results/table_anomalies.json and not measured again; its tables go into docs/anomalies.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from math import comb
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import IsolationForest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from lbarn import LBARN, explain
from pages import Bits, arguments, command, commit, load, measured_before, publish, table
from tables import Frame, read

STRANGE = 0.05  # of the test rows, where they are made

# Mushrooms' 112 bits are the levels of these columns.
MUSHROOM_LEVELS = {
    "cap-shape": 6, "cap-surface": 4, "cap-color": 10, "bruises": 2, "odor": 9, "gill-attachment": 2, "gill-spacing": 2, "gill-size": 2,
    "gill-color": 12, "stalk-shape": 2, "stalk-surface-above-ring": 4, "stalk-surface-below-ring": 4, "stalk-color-above-ring": 9,
    "stalk-color-below-ring": 9, "veil-type": 1, "veil-color": 4, "ring-number": 3, "ring-type": 5, "spore-print-color": 9, "population": 6,
    "habitat": 7,
}  # fmt: skip


class Task(NamedTuple):
    train: Frame  # usual rows
    test: Frame
    strange: NDArray[np.bool_]  # which of the test rows
    planted: NDArray[np.bool_] | None = None  # which of their cells, if that is known
    scaled: bool = True  # numbers, for those who measure distances
    columns: dict[str, str] | None = None  # what LBARN is told of them


# ---------------------------------------------------------------------- tasks


def kinds(train: Frame, test: Frame, target: str, usual: Any) -> Task:
    return Task(
        train[train[target] == usual].drop(columns=target),
        test.drop(columns=target),
        (test[target] != usual).to_numpy(),
    )


def halves(X: Frame, strange: NDArray[np.bool_], seed: int, **options: Any) -> Task:
    """A random half to learn from, without what is strange there."""
    train = np.random.default_rng(seed).permutation(len(X)) % 2 == 0
    return Task(X[train & ~strange], X[~train], strange[~train], **options)


def breast(seed: int) -> Task:
    found = load_breast_cancer(as_frame=True)
    return halves(found.data, found.target.to_numpy() == 0, seed)


def digits(seed: int) -> Task:
    found = load_digits(as_frame=True)
    # A pixel that is 0 or 1 in every training row would be taken for binary, and refuse a 2.
    ordered = dict.fromkeys(found.data, "ordered")
    return halves(found.data.astype(int), found.target.to_numpy() == seed, seed, scaled=False, columns=ordered)


def mushrooms() -> Task:
    """Columns from bits; which are poisonous is not among them, but the rules that come with the data tell of all 8,124."""
    split = load("mushrooms")
    ends = np.cumsum(list(MUSHROOM_LEVELS.values()))[:-1]

    def decoded(X: Bits) -> tuple[Frame, NDArray[np.bool_]]:
        level = {name: bits.argmax(axis=1) for name, bits in zip(MUSHROOM_LEVELS, np.split(X, ends, axis=1))}
        poisonous = ~np.isin(level["odor"], [0, 4, 5])  # almond, anise, none
        poisonous |= level["spore-print-color"] == 5  # green
        scaly, brown = level["stalk-surface-below-ring"] == 0, level["stalk-color-above-ring"] == 5
        poisonous |= (level["odor"] == 5) & scaly & ~brown
        poisonous |= (level["habitat"] == 3) & (level["cap-color"] == 8)  # leaves, white
        return pd.DataFrame(level).map("level {}".format), poisonous

    train, strange = decoded(np.concatenate([split.train, split.valid]))
    return Task(train[~strange], *decoded(split.test))


def planted(train: Frame, test: Frame, n_cells: int, seed: int) -> Task:
    """In some test rows, some cells get the values of another row."""
    rng = np.random.default_rng(seed)
    changed, where = test.copy(), np.zeros(test.shape, bool)
    for i in rng.permutation(len(test))[: round(STRANGE * len(test))]:
        for j in rng.choice(test.shape[1], n_cells, replace=False):
            column = test.iloc[:, j]
            changed.iat[i, j] = rng.choice(column[column != column.iat[i]])
            where[i, j] = True
    return Task(train, changed, where.any(axis=1), where)


class Set(NamedTuple):
    title: str
    repeats: int
    task: Callable[[int], Task]  # given a seed


SETS = {
    "magic": Set("Magic: hadrons among gammas", 3, lambda seed: kinds(*read("magic"), "class", "g")),
    "shoppers": Set("Shoppers: buyers among others", 3, lambda seed: kinds(*read("shoppers"), "Revenue", False)),
    "mushrooms": Set("Mushrooms: poisonous among edible", 3, lambda seed: mushrooms()),
    "breast": Set("Breast cancer: malignant among benign", 10, breast),
    "digits": Set("Digits: one among nine others", 10, digits),
    "adult": Set("Adult: one cell of another row", 3, lambda seed: planted(*read("adult"), 1, seed)),
    "adult3": Set("Adult: three cells of other rows", 3, lambda seed: planted(*read("adult"), 3, seed)),
}
SMOKE = {
    "wine": Set("Wine: others among class 0", 1, lambda seed: kinds(*read("wine"), "target", "class 0")),
    "planted": Set("Wine: one cell of another row", 1, lambda seed: planted(*read("wine"), 1, seed)),
}


# ---------------------------------------------------------------------- detectors


class Found(NamedTuple):
    scores: NDArray[Any]  # of the test rows, the strangest highest
    columns: NDArray[Any] | None  # of the rows with planted cells, the three strangest columns, the strangest first
    seconds: tuple[float, float]  # of learning and of scoring


def by_lbarn(task: Task, seed: int, jobs: int) -> Found:
    start = perf_counter()
    model = LBARN(columns=task.columns, n_jobs=jobs, random_state=seed).fit(task.train)
    fitted = perf_counter()
    scores = -model.score_samples(task.test)
    seconds = fitted - start, perf_counter() - fitted
    if task.planted is None:
        return Found(scores, None, seconds)
    shown = task.test[task.strange]
    columns = np.empty((len(shown), 3), int)
    for anomaly in explain(model, shown, n_rows=len(shown), n_values=3):
        columns[anomaly.row] = [shown.columns.get_loc(bit.column) for bit in anomaly.values]
    return Found(scores, columns, seconds)


def by(make: Callable[[int, int], Any]) -> Callable[[Task, int, int], Found]:
    """Detectors of scikit-learn and pyod."""

    def find(task: Task, seed: int, jobs: int) -> Found:
        train, test, owner = coded(task)
        model = make(seed, jobs)
        start = perf_counter()
        model.fit(train)
        fitted = perf_counter()
        scores = model.decision_function(test) if hasattr(model, "decision_scores_") else -model.score_samples(test)
        seconds = fitted - start, perf_counter() - fitted
        if task.planted is None or not hasattr(model, "O"):
            return Found(scores, None, seconds)
        strangeness = np.stack([model.O[-len(test) :, owner == j].sum(axis=1) for j in range(owner[-1] + 1)], axis=1)
        return Found(scores, np.argsort(-strangeness[task.strange], axis=1)[:, :3], seconds)

    return find


def coded(task: Task) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows of numbers, to learn from and to score, and which column each of theirs is made of."""
    whole = pd.concat([task.train, task.test])
    pieces = []
    for name in whole:
        if not pd.api.types.is_numeric_dtype(whole[name]):
            pieces.append(pd.get_dummies(whole[[name]], dtype=float))
            continue
        numbers = whole[[name]].astype(float)
        usual = numbers[: len(task.train)]
        pieces.append((numbers - usual.mean()) / usual.std().replace(0, 1) if task.scaled else numbers)
    X = np.hstack(pieces)
    owner = np.repeat(np.arange(len(pieces)), [piece.shape[1] for piece in pieces])
    return X[: len(task.train)], X[len(task.train) :], owner


def ecod(seed: int, jobs: int) -> Any:
    from pyod.models.ecod import ECOD

    return ECOD()


def copod(seed: int, jobs: int) -> Any:
    from pyod.models.copod import COPOD

    return COPOD()


DETECTORS: dict[str, Callable[[Task, int, int], Found]] = {
    "LBARN": by_lbarn,
    "IsolationForest": by(lambda seed, jobs: IsolationForest(n_jobs=jobs, random_state=seed)),
    "LocalOutlierFactor": by(lambda seed, jobs: LocalOutlierFactor(novelty=True, n_jobs=jobs)),
    **({"ECOD": by(ecod), "COPOD": by(copod)} if find_spec("pyod") else {}),
}


def measure(task: Task, found: Found) -> dict[str, Any]:
    result: dict[str, Any] = {
        "AUC": float(roc_auc_score(task.strange, found.scores)),
        "AP": float(average_precision_score(task.strange, found.scores)),
        "fit seconds": found.seconds[0],
        "score seconds": found.seconds[1],
    }
    if task.planted is None or found.columns is None:
        return result
    where = task.planted[task.strange]
    right = np.take_along_axis(where, found.columns, axis=1)
    highest = found.scores >= np.sort(found.scores)[-task.strange.sum()]
    caught = highest[task.strange]
    result |= {
        "named first": float(right[:, 0].mean()),
        "named of three": float(right.any(axis=1).mean()),
        "caught": float(caught.mean()),
        "named first if caught": float(right[caught, 0].mean()),
    }
    if where.sum(axis=1).max() == 1:
        usual = found.scores[~task.strange]
        result["columns"] = {
            name: {
                "AUC": float(np.mean(np.searchsorted(np.sort(usual), found.scores[task.strange][own]) / len(usual))),
                "named first": float(right[own, 0].mean()),
                "named of three": float(right[own].any(axis=1).mean()),
            }
            for name, own in zip(task.test, where.T)
            if own.any()
        }
    return result


# ---------------------------------------------------------------------- tables


def mean(cells: dict[str, Any], key: str) -> float:
    return float(np.mean([cell[key] for cell in cells.values()]))


def report(sets: dict[str, Any]) -> str:
    names = [name for name in DETECTORS if any(name in one["models"] for one in sets.values())]
    text = ""
    for title, key in (("area under the ROC curve", "AUC"), ("average precision", "AP")):
        lines = []
        for one in sets.values():
            values = {name: f"{mean(cells, key):.3f}" for name, cells in one["models"].items()}
            best = max(values.values())
            shown = [f"**{values[n]}**" if values.get(n) == best else values.get(n, "") for n in names]
            lines.append([one["title"], f"{one['test rows']:,}", f"{one['strange']:.1%}", *shown])
        text += f"{table([title, 'test rows', 'strange', *names], lines)}\n"
    lines = []
    for one in sets.values():
        seconds = {
            n: [mean(cells, f"{what} seconds") for what in ("fit", "score")] for n, cells in one["models"].items()
        }
        lines.append([one["title"], *(f"{sum(seconds[n]):.1f}" if n in seconds else "" for n in names)])
    text += f"{table(['seconds to fit and score', *names], lines)}\n"
    lines = []
    for one in (one for one in sets.values() if "planted" in one):
        d, k = one["columns"], one["planted"]
        lines.append(
            [one["title"], "chance", f"{STRANGE:.1%}", f"{k / d:.1%}", "", f"{1 - comb(d - k, 3) / comb(d, 3):.1%}"]
        )
        for name in names:
            cells = one["models"].get(name, {})
            if cells and "caught" in next(iter(cells.values())):
                keys = ("caught", "named first", "named first if caught", "named of three")
                lines.append(["", name, *(f"{mean(cells, key):.1%}" for key in keys)])
    headings = [
        "a changed cell",
        "",
        f"row among the strangest {STRANGE:.0%}",
        "cell named first",
        "if the row is among them",
        "cell among the first three",
    ]
    text += f"{table(headings, lines, texts=2)}\n"
    for one in sets.values():
        cells = one["models"].get("LBARN", {})
        if any("columns" in cell for cell in cells.values()):
            text += by_column([cell["columns"] for cell in cells.values()])
    return text


def by_column(cells: list[dict[str, Any]]) -> str:
    """What LBARN makes of a change in each column."""
    lines = []
    for name in cells[0]:
        values = [
            np.mean([cell[name][key] for cell in cells if name in cell])
            for key in ("AUC", "named first", "named of three")
        ]
        lines.append((values[0], [name, f"{values[0]:.3f}", f"{values[1]:.0%}", f"{values[2]:.0%}"]))
    lines.sort(reverse=True)
    headings = ["LBARN, one cell changed in", "area under the ROC curve", "named first", "among the first three"]
    return table(headings, [line for _, line in lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--models", nargs="+", choices=DETECTORS, default=list(DETECTORS), metavar="MODEL")
    parser.add_argument("--repeats", type=int, help="with other seeds; by default 3, or 10 of the small sets")
    options = arguments(parser)
    known = SMOKE if options.smoke else SETS
    sets = measured_before("table_anomalies", options)
    for name in SMOKE if options.smoke else options.only:
        title, repeats, make = known[name]
        for seed in range(options.repeats or repeats):
            task = make(seed)
            found = sets.setdefault(name, {"title": title, "models": {}})
            found |= {"test rows": len(task.test), "strange": float(task.strange.mean()), "columns": task.test.shape[1]}
            if task.planted is not None:
                found["planted"] = int(task.planted[task.strange][0].sum())
            for key in options.models:
                own = found["models"].setdefault(key, {})
                if str(seed) in own:
                    continue
                own[str(seed)] = measure(task, DETECTORS[key](task, seed, options.jobs))
                own[str(seed)] |= {"load": os.getloadavg()[0], "commit": commit()}
                print(name, key, seed, own[str(seed)], file=sys.stderr, flush=True)
                found["command"] = command()
            sets = {name: sets[name] for name in known if name in sets}
            publish({"sets": sets}, report(sets), options, "table_anomalies", "anomalies")


if __name__ == "__main__":
    main()
