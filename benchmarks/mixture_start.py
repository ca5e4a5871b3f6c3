"""Whether it pays to start every conditional at what a mixture of Bernoulli distributions says about it, given the columns before it.

    python benchmarks/mixture_start.py [--only nips dna] [--components 8 24 40] [--repeats 8] [--smoke]

A mixture sees topics and clusters that trees have to piece together column by column. Its log-odds depend on earlier columns alone, so
the likelihood stays exact. They are cross-fitted: those of a training row are the mean over mixtures that were fitted without it, those of
a validation row over as many. ``start`` boosts from there (a first tree has a leaf for each of 32 levels of the mixture's log-odds);
``bits`` starts at 1/2 and lets trees split on these levels. Both are compared with the default network, with its groups, counts and
leaves, on validation rows: the numbers of trees are chosen on four fifths of them and judged on the last, in turn. Test rows are not used.

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project; ``digits`` are scikit-learn's. What was
measured is written to docs/results/mixture_start.json, set by set, and its table into docs/fitting.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lbarn import LBARN
from lbarn._engine.bits import PackedBits, PickedRows, pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingRows
from lbarn._engine.trees import LOG_ODDS_UNIT, Trees
from lbarn._training.curves import padded, with_peers
from lbarn._training.run import TrainingRun
from lbarn.baselines import BernoulliMixture
from pages import Split, arguments, command, commit, load, measured_before, publish, table, train

SETS = {
    "digits": 1,
    "mushrooms": 1,
    "nips": 1,
    "dna": 1,
    "adult": 1,
    "web": 6,
    "ocr_letters": 8,
}  # one column in so many
FOLDS = 8  # of cross-fitting
PARTS = 5  # of the validation rows
LEVELS = 32
MOST = 12.0  # log-odds of a mixture
CHUNK = 4096  # rows at a time

Floats = NDArray[np.float32]
Bits = PackedBits | PickedRows


def log_odds(mixture: BernoulliMixture, X: NDArray[np.uint8]) -> Floats:
    """Of every value given those before it."""
    ones, zeros = (np.log(own).astype(np.float32) for own in (mixture.means_, 1 - mixture.means_))
    found = np.empty(X.shape, np.float32)
    for start in range(0, len(X), CHUNK):
        rows = X[start : start + CHUNK]
        score = np.tile(np.log(mixture.weights_).astype(np.float32), (len(rows), 1))
        for d in range(X.shape[1]):
            score -= score.max(axis=1, keepdims=True)
            share = np.exp(score)
            one, zero = share @ np.exp(ones[:, d]), share @ np.exp(zeros[:, d])
            found[start : start + CHUNK, d] = np.log(one) - np.log(zero)
            score += np.where(rows[:, d : d + 1] == 1, ones[:, d], zeros[:, d])
    return found.clip(-MOST, MOST)


def cross_fitted(data: Split, K: int, repeats: int) -> tuple[Floats, Floats]:
    """Log-odds for training and validation rows by mixtures of ``K`` components."""
    ours, theirs = np.zeros(data.train.shape, np.float32), np.zeros(data.valid.shape, np.float32)
    for repeat in range(repeats):
        fold = np.random.default_rng([repeat]).permutation(len(data.train)) % FOLDS
        for f in range(FOLDS):
            out = fold == f
            mixture = BernoulliMixture(n_components=K, n_init=1, n_jobs=1, random_state=repeat * FOLDS + f)
            mixture.fit(data.train[~out], X_val=data.train[out])
            ours[out] += log_odds(mixture, data.train[out]) / repeats
            if f == 0:
                theirs += log_odds(mixture, data.valid) / repeats
    return ours, theirs


def nats(X: NDArray[np.uint8], odds: Floats) -> float:
    return float(-np.logaddexp(0, np.where(X == 1, -odds, odds)).sum(axis=1).mean())


def with_levels(bits: Bits, target: int, odds: Floats, cuts: Floats) -> PickedRows:
    """Rows to learn from, with a bit for each level that the mixture's log-odds reach, before the target."""
    levels = pack(odds[:, None] >= cuts).columns
    return PickedRows(np.concatenate([bits.columns[:target], levels, bits.columns[target : target + 1]]), bits.n_rows)


def first_tree(target: int, odds: Floats, cuts: Floats) -> Trees:
    """A leaf for each level, with the mean of its log-odds."""
    level = np.searchsorted(cuts, odds, side="right")
    count = np.bincount(level, minlength=len(cuts) + 1)
    mean = np.bincount(level, odds, len(cuts) + 1) / np.maximum(count, 1)
    splits = np.array([(k, target + k) for k in range(len(cuts))], np.uint16).reshape(-1, 2)
    gains, values = np.zeros(len(cuts), np.float32), (mean / LOG_ODDS_UNIT).round().astype(np.int32)
    return Trees(splits, gains, values, np.array([0, len(cuts)], np.int64))


def trained(
    kind: str, learn: Bits, validate: Bits, target: int, odds: Floats, cuts: Floats, how: Boosting
) -> Conditional:
    """``odds`` are those of the rows to learn from."""
    if kind != "start":
        return Conditional.train(learn, validate, target, how)
    own = replace(Conditional.untrained(target), trees=first_tree(target - len(cuts), odds, cuts))
    own = replace(own, train_curve=own.curve(learn), valid_curve=own.curve(validate))
    return own.extend(learn, validate, how)


def judged(sums: NDArray[np.float64], rows: NDArray[np.float64], pooling: float) -> NDArray[np.float64]:
    """Nats per row of every column; ``sums`` are those of its curve in each part of the rows, and ``rows`` their numbers."""
    n = rows.sum(axis=0).max()
    found = np.zeros(sums.shape[1])
    peers = np.zeros(sums.shape[1], np.intp)
    for p in range(len(sums)):
        others, there = sums.sum(axis=0) - sums[p], rows.sum(axis=0) - rows[p]
        rest = n * (1 - 1 / len(sums))
        curves = with_peers(others / rest, there / rest, peers, rest, pooling)
        found += sums[p, np.arange(len(found)), curves.argmax(axis=1)]
    return found / n


def compared(run: TrainingRun, data: Split, odds: tuple[Floats, Floats], step: int) -> dict[str, Any]:
    """The network of a run, trained again without and with the mixture, on one column in ``step``."""
    learn, validate = (TrainingRows(pack(part)) for part in (data.train, data.valid))
    part_of = np.arange(len(data.valid)) % PARTS
    places = [k for k in range(step // 2, len(run.conditionals), step) if not run.conditionals[k].constant]
    kinds = ("default", "start", "bits")
    curves: dict[str, list[list[NDArray[np.float64]]]] = {kind: [] for kind in kinds}
    rows = np.zeros((PARTS, len(places)))
    for i, place in enumerate(places):
        told = run.conditionals[place]
        closers, counts, target = told.trees.closers, told.trees.counts, told.target
        there = [own.reached(run.layout, place, 0, closers) for own in (learn, validate)]
        bits = [own.at_node(run.layout, place, 0, None, closers, counts).bits for own in (learn, validate)]
        own_odds = [odds[k][there[k], place] for k in (0, 1)]
        cuts = np.unique(np.quantile(own_odds[0], np.linspace(0, 1, LEVELS + 1)[1:-1]).astype(np.float32))
        how = run.boosting.for_rows(len(data.train))
        rows[:, i] = [np.count_nonzero(there[1] & (part_of == p)) for p in range(PARTS)]
        for kind in kinds:
            plain = kind == "default"
            both = bits if plain else [with_levels(b, target, o, cuts) for b, o in zip(bits, own_odds)]
            own_target = target if plain else target + len(cuts)
            own = trained(kind, both[0], both[1], own_target, own_odds[0], cuts, how)
            parts = (np.flatnonzero(part_of[there[1]] == p) for p in range(PARTS))
            curves[kind].append([len(part) * own.curve(picked(both[1], part)) for part in parts])
    values = {}
    for kind in kinds:
        longest = max(len(own[0]) for own in curves[kind]) - 1
        sums = np.array([[padded(own[p], longest) for own in curves[kind]] for p in range(PARTS)])
        values[kind] = judged(sums, rows, run.pooling)
    gains = {kind: values[kind] - values["default"] for kind in kinds[1:]}
    return {
        "columns": len(places),
        "default": float(values["default"].sum()),
        "gain": {kind: float(own.sum()) for kind, own in gains.items()},
        "error": {kind: float(np.sqrt((own**2).sum())) for kind, own in gains.items()},
    }


def picked(bits: Bits, index: NDArray[np.intp]) -> PickedRows:
    """Some of the rows, in columns as before."""
    values = np.unpackbits(bits.columns.view(np.uint8), axis=1, count=bits.n_rows, bitorder="little")
    return PickedRows(pack(values[:, index].T).columns, len(index))


def measure(name: str, data: Split, components: Sequence[int], repeats: int, **few: Any) -> dict[str, Any]:
    model = LBARN(random_state=0, n_jobs=1, merge_rows=False, refit=False, sharpen=False, **few)
    train(model, data)
    tried = {K: cross_fitted(data, K, repeats) for K in components}
    mixture = {K: nats(data.valid, own[1]) for K, own in tried.items()}
    K = max(mixture, key=lambda own: mixture[own])
    return {"components": K, "mixture": mixture[K], **compared(model.run_, data, tried[K], SETS[name])}


def report(sets: dict[str, Any]) -> str:
    def gain(found: dict[str, Any], kind: str) -> str:
        return f"{found['gain'][kind]:+.2f} ± {found['error'][kind]:.2f}"

    lines = [
        [
            name,
            str(own["columns"]),
            str(own["components"]),
            f"{own['default']:.2f}",
            gain(own, "start"),
            gain(own, "bits"),
        ]
        for name, own in sets.items()
    ]
    headings = ["learned columns", "components", "default", "mixture as the start", "as predicting bits"]
    return table(["validation nats", *headings], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    parser.add_argument("--components", nargs="+", type=int, default=[8, 24, 40], metavar="K")
    parser.add_argument("--repeats", type=int, default=8, help="mixtures whose log-odds are averaged for every row")
    options = arguments(parser)
    few = {}
    if options.smoke:
        options.only, options.components, options.repeats, few = ["digits"], [4], 1, {"max_iter": 5}
    sets = measured_before("mixture_start", options)
    for name in options.only:
        found = measure(name, load(name), options.components, options.repeats, **few)
        sets[name] = found | {"command": command(), "commit": commit()}
        print(name, sets[name], file=sys.stderr, flush=True)
        sets = {key: sets[key] for key in SETS if key in sets}
        publish({"sets": sets}, report(sets), options, "mixture_start", "fitting")


if __name__ == "__main__":
    main()
