"""The members of an ensemble, trained one after the other, and what they say of rows that they have not learned from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from time import monotonic

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from lbarn._engine.rows import TrainingRows
from lbarn._models.lbarn import LBARN
from lbarn._network.network import Network
from lbarn._network.repeats import Repeats
from lbarn._training.averaging import averaged
from lbarn._training.data import GivenRows
from lbarn._training.order import grids, read_as_grid
from lbarn._training.progress import fit_progress
from lbarn._training.repeats import find_repeats
from lbarn._training.run import TrainingRun, is_auto, log_likelihood_before_refit, train_run
from lbarn.parameters import EnsembleParameters, LearnerParameters

__all__ = ["Members"]

Floats = NDArray[np.float64]
Order = str | NDArray[np.intp]
_ASKED = 5  # networks, as long as which each finds out for itself
_GRIDS = 6  # at most, as which the columns are read if random orders do not help
_SHORT = {"max_iter": 50, "learning_rate": 0.3, "refit": False, "sharpen": False}
_AS_LONG_AS = 3  # networks, at most: what short networks of all these readings take
_CLEARLY = 2.0  # standard errors: the best of some readings has a little luck


class Members:
    """Networks of several orders, and of each order some that hold out other rows.

    Groups of columns are found once. Whether to count, and with how many leaves, is what most of the first few networks have found.
    """

    def __init__(
        self,
        parameters: EnsembleParameters,
        rows: GivenRows,
        seed: int,
        targets: Sequence[int] | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> None:
        self.base_rates = rows.base_rates()
        self.rising = self.n_trained = 0
        self._parameters, self._seed, self._targets = parameters, seed, targets
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._own = {own.name: getattr(parameters, own.name) for own in fields(LearnerParameters)}
        self._alone = parameters.bagging and parameters.n_bags == 1  # each member divides the rows for itself
        if self._alone and rows.valid is not None:
            rows = replace(rows, train=rows.train + rows.valid, valid=None)
        self._rows = rows
        if not self._alone:
            self._rows = replace(rows, groups=self.bag(0).filled(seed, parameters.groups).groups)
        self._found: list[tuple[bool, int | None]] = []  # by the networks: whether to count, leaves
        self._log_p: dict[tuple[int, int], Floats] = {}  # of the rows held out, by member and bag
        self._weight: dict[int, NDArray[np.float64] | None] = {}
        self._trained: dict[tuple[int, int], tuple[TrainingRun, NDArray[np.intp]]] = {}  # with the numbers of trees
        self._models: dict[int, LBARN] = {}  # of the first bags, without what they have learned
        self._first: Network | None = None  # before its leaves were renewed
        self._names: dict[int, str] = {}  # of their checkpoints
        self._longest = 0.0  # seconds that a network took

    def bag(self, number: int) -> GivenRows:
        """The rows, divided in one of many ways."""
        return self._rows.bag(number, self._parameters.validation_fraction, self._seed)

    def train(self, orders: Sequence[Order], *, compare: bool, deadline: float | None) -> list[LBARN]:
        """One member for every order; if they are to be compared, for those that pay.

        After the deadline no network is begun but the first.
        """
        n_bags = self._parameters.n_bags
        if compare and len(orders) > 1 and not self._mixing_pays(orders, deadline):
            n_networks = n_bags * len(orders)
            orders = [orders[0], *self._readings(len(orders) - 1, deadline)]
            n_bags = n_networks // len(orders)
        for bag in range(n_bags):
            for k, order in enumerate(orders):
                if (k, bag) not in self._trained and self._in_time(deadline):
                    self._train(self._trained[k, 0][0].order if bag else order, k, bag)
        return [self._member(k) for k in range(len(orders)) if (k, 0) in self._trained]

    def _mixing_pays(self, orders: Sequence[Order], deadline: float | None) -> bool:
        """Whether held-out rows are likelier under a mixture of the first two orders than under the first alone."""
        for k, order in enumerate(orders[:2]):
            if self._in_time(deadline):
                self._train(order, k, 0)
        return (1, 0) in self._trained and self._last_pays(1)

    def _last_pays(self, k: int) -> bool:
        """Whether held-out rows are likelier with this member than with those before it alone."""
        without, both = (self.valid_log_likelihood(np.full(n, 1 / n)) for n in (k, k + 1))
        return both > without

    def _readings(self, n: int, deadline: float | None) -> list[NDArray[np.intp]]:
        """Other ways to read columns that were written from a grid, up to ``n``, each of which pays beside the given order and those before it.

        Short networks find the grid, if there is one, and which of its scans to try first.
        """
        rows, n_columns = self.bag(0), self._rows.n_columns
        data = rows.filled(self._seed)
        sizes = grids(n_columns, data.groups)[:_GRIDS]
        self._forget(1)
        if not sizes or not self._in_time(deadline, networks=_AS_LONG_AS):
            return []

        def short(order: NDArray[np.intp]) -> Floats:
            return self._short(order, rows, data.valid)

        given = short(np.arange(n_columns))
        scans = [read_as_grid(size, n_columns, data.groups) for size in sizes]
        across = [self._gain(given, short(own[1])) for own in scans]
        best = int(np.argmax(across))
        if across[best] <= 0:
            return []
        gains = [self._gain(given, short(order)) for order in scans[best][2:]]
        promising = sorted(zip([across[best], *gains], scans[best][1:]), key=lambda own: own[0], reverse=True)
        kept: list[NDArray[np.intp]] = []
        for i, (gain, order) in enumerate(promising):
            if len(kept) < n and gain > 0 and self._in_time(deadline):
                k = len(kept) + 1
                self._names[k] = f"reading-{i}"
                self._train(order, k, 0)
                if self._last_pays(k):
                    kept.append(order)
                else:
                    self._forget(k)
        return kept

    def _gain(self, given: Floats, other: Floats) -> float:
        """How much likelier, at the least, rows that the first bag holds out are under a mixture of two networks than under the first of them."""
        gains = np.logaddexp(given, other) - np.log(2) - given
        weight = np.ones(len(gains)) if self._weight[0] is None else self._weight[0]
        mean = np.average(gains, weights=weight)
        error = np.sqrt((weight**2 * (gains - mean) ** 2).sum()) / weight.sum()
        return float(mean - _CLEARLY * error)

    def _short(self, order: NDArray[np.intp], rows: GivenRows, valid: TrainingRows) -> Floats:
        """log p of the rows that are held out, by a network of few rounds."""
        counts, leaves = self._found[0]
        model = self._model(order, 0, 0).set_params(**_SHORT, counts=counts, max_leaf_nodes=leaves)
        run = train_run(model, rows)
        return log_likelihood_before_refit(run, run.select(model.selection), valid, model.n_jobs)

    def _forget(self, k: int) -> None:
        """A member that does not pay."""
        self._trained.pop((k, 0), None)
        self._log_p.pop((k, 0), None)
        self._models.pop(k, None)

    def _in_time(self, deadline: float | None, networks: int = 1) -> bool:
        return deadline is None or not self._trained or monotonic() + networks * self._longest < deadline

    def _member(self, k: int) -> LBARN:
        """One network, or the average of several."""
        bags = [self._trained[own] for own in sorted(self._trained) if own[0] == k]
        run, chosen = bags[0]
        if len(bags) > 1:
            run = averaged(*zip(*bags))
            chosen = _all_trees(run)
        model, rows = self._models[k], self._rows
        return model.restored(run, model.selection, chosen, rows.format, self.base_rates, rows.book)

    def held_out(self, n: int) -> tuple[Floats, Floats | None]:
        """log p of all rows that some bag held out, (rows, members), of the first ``n`` members; and the weights of the rows."""
        bags = [b for k, b in sorted(self._log_p) if k == 0 and all((other, b) in self._log_p for other in range(n))]
        log_p = [np.stack([self._log_p[k, b] for k in range(n)], axis=1) for b in bags]
        weight = [self._weight[b] for b in bags]
        known = [np.ones(len(own)) if w is None else w for own, w in zip(log_p, weight)]
        return np.concatenate(log_p), None if all(w is None for w in weight) else np.concatenate(known)

    def valid_log_likelihood(self, weights: Floats) -> float:
        """Of a mixture of the first members, on the rows that the first bag holds out, before any refit."""
        log_p = np.stack([self._log_p[k, 0] for k in range(len(weights))], axis=1)
        return float(np.average(logsumexp(log_p + np.log(weights), axis=1), weights=self._weight[0]))

    def repeats(self, weights: Floats) -> Repeats | None:
        """The rows that new ones repeat, by what the first members say of the rows that the first bag holds out, mixed."""
        if self._parameters.bagging:
            return None

        def log_p_of(numbers: NDArray[np.intp]) -> Floats:
            log_p = np.stack([self._log_p[k, 0][numbers] for k in range(len(weights))], axis=1)
            return logsumexp(log_p + np.log(weights), axis=1)

        assert self._first is not None
        return find_repeats(self._parameters, self.bag(0), self._first, log_p_of)

    def _model(self, order: Order, k: int, bag: int) -> LBARN:
        seeds = np.random.default_rng([self._seed, 1, *([bag] if bag else [])]).integers(2**31 - 1, size=k + 1)
        return LBARN(**{**self._own, "order": order, "random_state": int(seeds[k])})

    def _train(self, order: Order, k: int, bag: int) -> None:
        start = monotonic()
        own, targets = self._parameters, self._targets
        rows = self._rows if self._alone else self.bag(bag + (k * own.n_bags if own.bagging else 0))
        model = self._model(order, k, bag)
        self._models.setdefault(k, model)
        name = self._names.setdefault(k, f"member-{k}")
        folder = None if self._checkpoint is None else self._checkpoint / f"{name}{f'-{bag}' if bag else ''}"
        total = None if is_auto(model) else rows.n_columns if targets is None else len(targets)
        with fit_progress(model, total, own.verbose) as progress:
            run = train_run(model, rows, targets=targets, checkpoint=folder, progress=progress)
        self._remember(run)
        chosen = run.select(own.selection)
        self.n_trained += 1
        self.rising += run.is_rising
        if not own.bagging:
            valid = rows.filled(self._seed).valid
            self._log_p[k, bag] = log_likelihood_before_refit(run, chosen, valid, own.n_jobs)
            self._weight[bag] = valid.weight
        if (k, bag) == (0, 0):
            self._first = run.network(chosen, renewed=False)
        if own.n_bags > 1:  # what was not selected is not needed
            run = averaged([run], [chosen])
            chosen = _all_trees(run)
        self._trained[k, bag] = run, chosen
        self._longest = max(self._longest, monotonic() - start)

    def _remember(self, run: TrainingRun) -> None:
        """What paid in some networks does in others."""
        counts = any(trained.trees.counts is not None for trained in run.conditionals)
        self._found.append((counts, run.boosting.max_leaf_nodes))
        if len(self._found) != _ASKED:
            return
        if self._own["counts"] == "auto":
            self._own["counts"] = sum(own for own, _ in self._found) > _ASKED / 2
        if self._own["max_leaf_nodes"] is None:
            leaves = [own for _, own in self._found if own is not None]
            self._own["max_leaf_nodes"] = sorted(leaves)[len(leaves) // 2] if leaves else None


def _all_trees(run: TrainingRun) -> NDArray[np.intp]:
    return np.array([len(own) for own in run.trees], dtype=np.intp)
