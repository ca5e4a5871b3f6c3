"""The densities that densities.py compares, each a function of training rows that gives the log-likelihood of others and what was chosen."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logsumexp
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import StandardScaler

import lbarn
from lbarn.baselines import IndependentColumns

_HELD_OUT = 0.2  # of the training rows, to choose on
_POINTS = 8  # within the step of a grid, where a density is looked at

Frame = Any
Floats = NDArray[np.float64]
LogDensity = Callable[[Floats], Floats]


class How(NamedTuple):
    """What a model is given beside the rows."""

    seed: int
    jobs: int
    seconds: float
    smoke: bool


Scores = Callable[[Frame], Floats]  # the log-likelihood of every row
Fit = Callable[[Frame, How], tuple[Scores, dict[str, Any]]]  # and what was chosen


def divided(n: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on, and rows to choose on."""
    rows = np.random.default_rng(seed).permutation(n)
    return rows[round(_HELD_OUT * n) :], rows[: round(_HELD_OUT * n)]


def doubling(values: Callable[[int], float], most: int, first: int = 1) -> Iterator[tuple[int, float]]:
    """first, twice that, ... and their values, up to the first that is no better than the one before."""
    best, k = -np.inf, first
    while k <= most:
        value = values(k)
        yield k, value
        if value <= best:
            return
        best, k = value, 2 * k


# ---------------------------------------------------------------------- any table: mass on the grid


def _lbarn(kind: type[Any]) -> Fit:
    def fit(train: Frame, how: How) -> tuple[Scores, dict[str, Any]]:
        parameters = {"max_iter": 20, "n_orders": 2} if how.smoke and kind is lbarn.LBARNEnsemble else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = kind(n_jobs=how.jobs, random_state=how.seed, **parameters).fit(train)
        return model.score_samples, {}

    return fit


def _independent(train: Frame, how: How) -> tuple[Scores, dict[str, Any]]:
    return IndependentColumns().fit(train).score_samples, {}


class Products:
    """A mixture of products of columns, whose values are the cells of lbarn's; within a cell all components agree."""

    def __init__(self, n_components: int, pseudocount: float, seed: int) -> None:
        self.n_components, self.pseudocount, self.seed = n_components, pseudocount, seed

    def fit(self, cells: Any, sizes: list[int]) -> Products:
        """``cells``: a sparse matrix of ones, (n, all cells); ``sizes``: the cells of every column."""
        starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        column = np.repeat(np.arange(len(sizes)), sizes)
        seen = np.maximum(np.asarray(cells.sum(axis=0)).ravel(), 0.25)  # a cell without rows is possible all the same
        prior = (self.pseudocount * seen / np.add.reduceat(seen, starts)[column])[:, None]
        n, last = cells.shape[0], -np.inf
        picked = np.random.default_rng(self.seed).choice(n, self.n_components, replace=False)
        clusters = (cells @ cells[picked].T).toarray().argmax(axis=1)  # the picked row that has most cells in common
        shares = np.full((n, self.n_components), 0.1 / self.n_components)
        shares[np.arange(n), clusters] += 0.9
        across = cells.T.tocsr()
        for _ in range(60):
            self.log_weights = np.log(shares.mean(axis=0) + 1e-9)
            counts = across @ shares + prior
            self.log_cells = np.log(counts / np.add.reduceat(counts, starts)[column])
            joint = self.joint(cells)
            scores = logsumexp(joint, axis=1)
            if scores.mean() - last < 0.005:
                break
            last = scores.mean()
            shares = np.exp(joint - scores[:, None])
        return self

    def joint(self, cells: Any) -> Floats:
        return cells @ self.log_cells + self.log_weights

    def score_samples(self, cells: Any) -> Floats:
        return logsumexp(self.joint(cells), axis=1)


def _mixture(train: Frame, how: How) -> tuple[Scores, dict[str, Any]]:
    columns = IndependentColumns().fit(train)
    sizes = [code.n_cells for code in columns.codebook_.codes]

    def coded(frame: Frame) -> tuple[Any, Floats]:
        """Cells, and the log-likelihood of the values inside them."""
        chunks = list(columns._ready(frame).chunks())
        cells = np.concatenate([chunk.cells for chunk in chunks]).astype(np.int64)
        at = cells + np.concatenate([[0], np.cumsum(sizes)])[:-1]
        upto = np.arange(len(cells) + 1) * len(sizes)
        ones = sparse.csr_matrix((np.ones(at.size), at.ravel(), upto), (len(cells), sum(sizes)))
        return ones, np.concatenate([np.zeros(len(chunk)) + chunk.log_inside for chunk in chunks])

    cells, _ = coded(train)
    own, held = divided(len(train), how.seed)

    def value(k: int, pseudocount: float) -> float:
        return float(Products(k, pseudocount, how.seed).fit(cells[own], sizes).score_samples(cells[held]).mean())

    pseudocount = max((2.0, 20.0, 100.0), key=lambda count: value(8, count))
    found = dict(doubling(lambda k: value(k, pseudocount), 4 if how.smoke else 256))
    k = max(found, key=lambda own: found[own])
    model = Products(k, pseudocount, how.seed).fit(cells, sizes)

    def scores(frame: Frame) -> Floats:
        ones, inside = coded(frame)
        return model.score_samples(ones) + inside

    return scores, {"K": k, "pseudocount": pseudocount}


def _argn(train: Frame, how: How) -> tuple[Scores, dict[str, Any]]:
    import torch
    from mostlyai.engine import TabularARGN

    torch.set_num_threads(how.jobs)
    model = TabularARGN(
        max_training_time=0.8 * how.seconds / 60 / how.jobs,
        max_epochs=2 if how.smoke else 100,
        enable_flexible_generation=False,
        value_protection=False,
        tgt_encoding_types={c: argn_type(train[c]) for c in train},
        device="cpu",
        random_state=how.seed,
    ).fit(train)
    folder = Path(model.workspace_path_) / "ModelStore"
    stats = json.loads((folder / "tgt-stats" / "stats.json").read_text())["columns"]
    bins = ArgnBins(stats, train)
    return ArgnScores(model.log_prob, bins), {"columns": bins.kinds}


def argn_type(column: Any) -> str:
    """As TabularARGN chooses it when it protects rare values: numbers are tokens unless some of them are too rare for that."""
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return "TABULAR_CATEGORICAL"
    counts = column.value_counts()
    rare = len(counts) < 200 and counts[counts < 5].sum() > 0.001 * len(column)
    return "TABULAR_NUMERIC_BINNED" if rare else "TABULAR_NUMERIC_AUTO"


class ArgnBins:
    """What a value has of the bin that it is in, of TabularARGN's ``stats``."""

    def __init__(self, stats: dict[str, Any], train: Frame) -> None:
        self.stats, self.train = stats, train
        self.kinds = {c: own["encoding_type"].removeprefix("TABULAR_").lower() for c, own in stats.items()}
        self.columns = IndependentColumns().fit(train)

    def log_share(self, frame: Frame, filled: bool) -> Floats:
        """Of whole rows: any value of the bin is as likely as the others, or (``filled``) as likely as it is to independent columns."""
        found = np.zeros(len(frame))
        alone = -self.columns.surprise(frame) if filled else None
        for k, (c, own) in enumerate(self.stats.items()):
            values = frame[c].to_numpy()
            if self.kinds[c] == "numeric_discrete":
                found -= np.log(_values_in_tokens(values, own))
            elif self.kinds[c] == "numeric_binned":
                bins, widths = _in_bins(values, own)
                inner = bins >= 0  # the ends of the range are tokens of their own
                if alone is None:
                    found -= np.where(inner, np.log(widths[bins]), 0.0)
                else:
                    own_bins = _in_bins(self.train[c].to_numpy(), own)[0]
                    rows = np.bincount(own_bins[own_bins >= 0], minlength=len(widths))
                    found += np.where(inner, alone[:, k] - np.log(np.maximum(rows[bins], 0.5) / len(self.train)), 0.0)
        return found


def _in_bins(values: Floats, stats: Any) -> tuple[NDArray[np.intp], Floats]:
    """The bin of every value, -1 for the ends of the range; and how many values each bin has on its grid."""
    edges = np.array(stats["bins"])
    widths = np.maximum(np.diff(np.round(edges / 10.0 ** stats["min_decimal"])), 1)
    widths[0] = max(widths[0] - 1, 1)
    bins = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(widths) - 1)
    return np.where(np.isin(values, edges[[0, -1]]), -1, bins), widths


def _values_in_tokens(values: Floats, stats: Any) -> Floats:
    """Where every value is a token, all others share one: those of the range."""
    known = np.array([float(token) for token in stats["codes"] if token[:1] not in "_<"])
    others = round((known.max() - known.min()) / 10.0 ** stats["min_decimal"]) + 1 - len(known)
    return np.where(np.isin(values, known), 1.0, max(others, 1))


class ArgnScores(NamedTuple):
    """TabularARGN's likelihood, as it draws inside its bins; ``filled``: as lbarn would."""

    log_prob: Scores
    bins: ArgnBins

    def __call__(self, frame: Frame) -> Floats:
        return self.log_prob(frame) + self.bins.log_share(frame, filled=False)

    def filled(self, frame: Frame) -> Floats:
        return self.log_prob(frame) + self.bins.log_share(frame, filled=True)


# ---------------------------------------------------------------------- numbers: densities


def steps(train: Frame) -> Floats:
    """Of the grids of the columns; 1 where there is none, and the likelihood is of a density already."""
    return np.array(
        [1.0 if own.measure == "density" else float(own.resolution) for own in IndependentColumns().fit(train).columns_]
    )


def _in_units(fit: Fit) -> Fit:
    def again(train: Frame, how: How) -> tuple[Scores, dict[str, Any]]:
        scores, chosen = fit(train, how)
        log_step = np.log(steps(train)).sum()
        return lambda frame: scores(frame) - log_step, chosen

    return again


def linear(X: Floats, whiten: bool) -> tuple[Callable[[Floats], Floats], float]:
    """Rows standardised or whitened, and the log of how much densities grow in the way back."""
    if whiten:
        own = PCA(whiten=True).fit(X)
        return own.transform, -0.5 * float(np.log(own.explained_variance_).sum())
    scaler = StandardScaler().fit(X)
    return scaler.transform, -float(np.log(scaler.scale_).sum())


def _dequantised(choose: Callable[[Floats, Floats, How], tuple[LogDensity, dict[str, Any]]]) -> Fit:
    """Rows with noise within the step; and for test rows the mean density over it."""

    def fit(train: Frame, how: How) -> tuple[Scores, dict[str, Any]]:
        rng = np.random.default_rng(how.seed)
        step = steps(train)

        def noisy(frame: Frame) -> Floats:
            values = frame.to_numpy(np.float64)
            return values + step * rng.uniform(-0.5, 0.5, values.shape)

        rows = noisy(train)
        own, held = divided(len(rows), how.seed)
        density, chosen = choose(rows[own], rows[held], how)
        return (
            lambda frame: logsumexp([density(noisy(frame)) for _ in range(_POINTS)], axis=0) - np.log(_POINTS),
            chosen,
        )

    return fit


def _gaussians(train: Floats, valid: Floats, how: How) -> tuple[LogDensity, dict[str, Any]]:
    whole = np.concatenate([train, valid])

    def fitted(X: Floats, k: int, kind: str, floor: float) -> LogDensity:
        scale, log_det = linear(X, whiten=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = GaussianMixture(k, covariance_type=kind, reg_covar=floor, random_state=how.seed).fit(scale(X))
        return lambda rows: model.score_samples(scale(rows)) + log_det

    def upto(most: int, kind: str, floor: float, first: int = 1) -> dict[tuple[int, str, float], float]:
        values = doubling(lambda k: float(fitted(train, k, kind, floor)(valid).mean()), most, first)
        return {(k, kind, floor): value for k, value in values}

    found: dict[tuple[int, str, float], float] = {}
    for kind in ("full", "tied", "diag"):
        for floor in (1e-6, 1e-3, 1e-2, 1e-1):
            found |= upto(1 if how.smoke else 8, kind, floor)
    best = max(found, key=lambda own: found[own])
    if best[0] == 8:  # more than that of this kind only: they take time
        found |= upto(128, best[1], best[2], 16)
        best = max(found, key=lambda own: found[own])
    return fitted(whole, *best), dict(zip(("K", "covariance", "floor"), best))


def _kernels(train: Floats, valid: Floats, how: How) -> tuple[LogDensity, dict[str, Any]]:
    def fitted(X: Floats, whiten: bool, bandwidth: float) -> LogDensity:
        scale, log_det = linear(X, whiten)
        model = KernelDensity(bandwidth=bandwidth, rtol=1e-3).fit(scale(X))
        return lambda rows: model.score_samples(scale(rows)) + log_det

    widths = [float(width) for width in np.round(np.geomspace(0.05, 1.6, 11), 3)]
    found = {
        (whiten, width): float(fitted(train, whiten, width)(valid).mean())
        for whiten in (False, True)
        for width in widths
    }
    best = max(found, key=lambda own: found[own])
    return fitted(np.concatenate([train, valid]), *best), dict(zip(("whitened", "bandwidth"), best))


def _flow(train: Floats, valid: Floats, how: How) -> tuple[LogDensity, dict[str, Any]]:
    import torch
    import zuko

    torch.set_num_threads(how.jobs)
    scale, log_det = linear(train, whiten=False)
    X, X_valid = (torch.tensor(scale(rows), dtype=torch.float32) for rows in (train, valid))
    sizes = ((5, 128), (3, 64), (2, 32), (1, 16))  # the largest may take half of the time, and so on

    def trained(transforms: int, hidden: int, seconds: float) -> tuple[float, Any, int]:
        """The best on the held-out rows, and after how many epochs: the rate is halved where it stalls."""
        torch.manual_seed(how.seed)
        flow = zuko.flows.NSF(X.shape[1], transforms=transforms, hidden_features=(hidden, hidden))
        optimizer = torch.optim.AdamW(flow.parameters(), lr=3e-3, weight_decay=1e-2)
        best, weights, best_epoch, end = -np.inf, flow.state_dict(), 0, process_time() + seconds
        for epoch in range(1, 2 if how.smoke else 1000):
            for rows in torch.randperm(len(X)).split(256):
                loss = -flow().log_prob(X[rows]).mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(flow.parameters(), 5.0)
                optimizer.step()
            with torch.no_grad():
                value = float(flow().log_prob(X_valid).mean())
            if value > best:
                best, best_epoch = value, epoch
                weights = {key: own.clone() for key, own in flow.state_dict().items()}
            elif (epoch - best_epoch) % 10 == 0:
                for group in optimizer.param_groups:
                    group["lr"] /= 2
            if epoch - best_epoch > 30 or process_time() > end:
                break
        flow.load_state_dict(weights)
        return best, flow, best_epoch

    found, end = {}, process_time() + 0.8 * how.seconds
    for size in sizes:
        found[size] = trained(*size, (end - process_time()) / 2)
    size = max(found, key=lambda own: found[own][0])
    flow = found[size][1]

    def density(rows: Floats) -> Floats:
        with torch.no_grad():
            return flow().log_prob(torch.tensor(scale(rows), dtype=torch.float32)).double().numpy() + log_det

    return density, {"transforms": size[0], "hidden": size[1], "epochs": found[size][2]}


# ---------------------------------------------------------------------- all of them

MODELS: dict[str, dict[str, Fit]] = {
    "mass": {
        "LBARN": _lbarn(lbarn.LBARN),
        "LBARNEnsemble": _lbarn(lbarn.LBARNEnsemble),
        "independent": _independent,
        "mixture": _mixture,
        "TabularARGN": _argn,
    },
    "density": {
        "LBARN": _in_units(_lbarn(lbarn.LBARN)),
        "LBARNEnsemble": _in_units(_lbarn(lbarn.LBARNEnsemble)),
        "independent": _in_units(_independent),
        "Gaussians": _dequantised(_gaussians),
        "kernels": _dequantised(_kernels),
        "spline flow": _dequantised(_flow),
    },
}
NEEDS = {"TabularARGN": "mostlyai.engine", "spline flow": "zuko"}
