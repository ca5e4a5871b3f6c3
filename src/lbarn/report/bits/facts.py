"""What the report on a table of bits says, as plain data: computed here, drawn and written elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import check_random_state

from lbarn._models.calibration import Calibration, CalibrationTally, cells, completed
from lbarn._models.density import Density
from lbarn._tables.table import Table, read_like, read_table, take_rows
from lbarn.baselines.mixture import BernoulliMixture
from lbarn.plots.columns import column_names
from lbarn.plots.graph import strongest_pairs
from lbarn.plots.samples import nearest_rows
from lbarn.report.training import Training, training_facts

__all__ = [
    "COINS",
    "INDEPENDENT",
    "Cell",
    "Columns",
    "Dependencies",
    "Dependency",
    "Explanation",
    "Facts",
    "Fit",
    "Folded",
    "Samples",
    "Strange",
    "collect",
    "explanations",
    "fold_pairs",
    "folded_columns",
]

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]
Model = Density | BernoulliMixture

COINS, INDEPENDENT = "fair coins", "independent columns"
_MAX_ROWS, _MAX_CELLS = 5000, 20_000_000  # to compare columns and rows with each other
_PAIRS = 12  # dependencies in the list
_SAMPLES = 1000  # to draw at least
_POINTS = 600  # in a scatter plot at most
_STRANGE_ROWS, _EXPLANATIONS, _CELLS = 20, 4, 5
_FEW = 5  # rows that both values of a column need before it counts as a copy of another


@dataclass(frozen=True)
class Fit:
    """Log-likelihoods of all rows, of the values that are there."""

    scores: dict[str, float]
    """Mean per row, in nats, best first: this model (by the name of its class), and what it is compared with."""
    gain: float
    """Mean log-likelihood of this model less that of the best of the others, and the standard error of that."""
    gain_error: float
    validated: float | None
    """What it was on the validation rows, of the training run."""


@dataclass(frozen=True)
class Dependency:
    """A column and one that the model predicts it from."""

    column: int
    predictor: int
    share: float  # of all importance
    equal: float  # share of rows in which the two values are equal
    information: float  # normalised mutual information, estimated from the rows


@dataclass(frozen=True)
class Folded:
    """Columns that say the same: the first, and those that are always equal to it or always its opposite."""

    column: int
    copies: tuple[int, ...]
    opposites: tuple[int, ...]


@dataclass(frozen=True)
class Dependencies:
    """The strongest, columns that say the same counted once."""

    strongest: list[Dependency]
    pairs: NDArray[np.intp]  # (column, predictor), for a graph
    strength: Floats
    folded: list[Folded]


@dataclass(frozen=True)
class Samples:
    """New rows, and how their frequencies compare with those of the real rows."""

    n_drawn: int
    shown: Bits
    nearest: Bits  # the real row nearest to each
    nearest_numbers: NDArray[np.intp]
    marginals: Floats  # (2, columns): shares of ones in the real rows, and in the samples
    marginal_difference: float  # mean absolute difference
    marginal_noise: float  # what it would be by chance alone
    correlations: Floats  # (2, pairs)


@dataclass(frozen=True)
class Cell:
    """A value, the range of its probabilities in rows that share it, and its share among the training rows."""

    column: int
    value: int
    lowest: float
    highest: float
    base_rate: float | None


@dataclass(frozen=True)
class Explanation:
    """Unlikely rows that are unlikely for the same reason, least likely first."""

    rows: list[int]
    scores: list[float]
    cells: list[Cell]
    bits: Bits  # of the first row
    surprise: Floats


@dataclass(frozen=True)
class Strange:
    scores: Floats  # of all rows
    explanations: list[Explanation]


@dataclass(frozen=True)
class Columns:
    """By column: the share of ones, of missing values, and of its uncertainty that other columns explain."""

    ones: Floats  # NaN if all values are missing
    missing: Floats
    explained: Floats | None  # NaN if there is nothing to explain


@dataclass(frozen=True)
class Facts:
    names: list[str]
    named: bool
    shape: tuple[int, int] | None
    n_rows: int
    n_compared: int  # rows that columns and rows were compared on
    share_of_ones: float
    share_missing: float
    fit: Fit
    calibration: list[Calibration] | None
    dependencies: Dependencies | None
    samples: Samples
    strange: Strange | None
    training: Training
    columns: Columns


def collect(model: Model, X: Any, shape: tuple[int, int] | None, seed: int) -> Facts:
    """Everything that is said about ``model`` and the rows of ``X``."""
    table = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize)
    counts = _count(table, model.base_rates_)
    if not counts.known.any():
        raise ValueError("every value of X is missing; there is nothing to report on")
    if not isinstance(model, Density) and counts.known.sum() < table.n_rows * table.n_columns:
        raise ValueError(f"X has missing values, which {type(model).__name__} cannot fill; give complete rows")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="some rows have missing values")  # the page says so
        scores = model.score_samples(X)
    rows = _some_rows(model, X, table, seed)
    names = column_names(model, shape)
    if model.table_format_.names is None:
        names = [f"{'pixel' if shape else 'column'} {name}" for name in names]
    training = training_facts(model)
    calibration, surprise = _predictions(model, X, seed) if isinstance(model, Density) else (None, None)
    importance = model.distribution.importance() if isinstance(model, Density) else None
    return Facts(
        names=names,
        named=model.table_format_.names is not None,
        shape=shape,
        n_rows=table.n_rows,
        n_compared=len(rows.numbers),
        share_of_ones=float(counts.ones.sum() / counts.known.sum()),
        share_missing=float(1 - counts.known.sum() / (table.n_rows * table.n_columns)),
        fit=_fit(type(model).__name__, scores, counts, training.validated),
        calibration=calibration,
        dependencies=None if importance is None else _dependencies(importance, rows, shape),
        samples=_samples(model, rows, importance, 6 if shape else 4, seed),
        strange=_strange(model, X, scores, seed) if isinstance(model, Density) else None,
        training=training,
        columns=_columns(counts, table.n_rows, model.base_rates_, surprise),
    )


# ---------------------------------------------------------------------- one pass over all rows


@dataclass(frozen=True)
class _Counts:
    ones: NDArray[np.intp]  # by column
    known: NDArray[np.intp]
    known_in_row: NDArray[np.intp]
    independent: Floats | None  # log-likelihood of every row, if its columns are independent


def _count(table: Table, base_rates: Floats | None) -> _Counts:
    ones, known = np.zeros(table.n_columns, np.intp), np.zeros(table.n_columns, np.intp)
    known_in_row, independent = np.zeros(table.n_rows, np.intp), np.zeros(table.n_rows)
    for start, values, missing in table.chunks():
        there = np.ones_like(values) if missing is None else ~missing
        chunk = slice(start, start + len(values))
        ones += (values & there).sum(axis=0)
        known += there.sum(axis=0)
        known_in_row[chunk] = there.sum(axis=1)
        if base_rates is not None:
            independent[chunk] = (values & there) @ np.log(base_rates) + (~values & there) @ np.log1p(-base_rates)
    return _Counts(ones, known, known_in_row, None if base_rates is None else independent)


def _predictions(model: Density, X: Any, seed: int) -> tuple[list[Calibration], Floats]:
    """Calibration, and the surprise of every column summed over the rows."""
    tally, surprise = CalibrationTally(), np.zeros(model.n_features_in_)
    for part in cells(model, X, random_state=seed):
        tally.add(part)
        surprise += part.weight * (part.surprise * part.known).sum(axis=0)
    return tally.result(), surprise


def _fit(own: str, scores: Floats, counts: _Counts, validated: float | None) -> Fit:
    each = {COINS: -np.log(2) * counts.known_in_row}
    if counts.independent is not None:
        each[INDEPENDENT] = counts.independent
    means = {own: float(scores.mean()), **{name: float(others.mean()) for name, others in each.items()}}
    best = max(each, key=lambda name: means[name])
    gain = scores - each[best]
    error = float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("nan")
    ranked = dict(sorted(means.items(), key=lambda item: -item[1]))
    return Fit(ranked, float(gain.mean()), error, validated)


def _columns(counts: _Counts, n_rows: int, base_rates: Floats | None, surprise: Floats | None) -> Columns:
    with np.errstate(invalid="ignore", divide="ignore"):
        ones = counts.ones / counts.known
    explained = None
    if base_rates is not None and surprise is not None:
        alone = -(counts.ones * np.log(base_rates) + (counts.known - counts.ones) * np.log1p(-base_rates))
        constant = (counts.ones == 0) | (counts.ones == counts.known)
        explained = np.where(constant, np.nan, np.maximum(1 - surprise / np.where(constant, 1, alone), 0))
    return Columns(ones, 1 - counts.known / n_rows, explained)


# ---------------------------------------------------------------------- rows and columns compared with each other


@dataclass(frozen=True)
class _Rows:
    numbers: NDArray[np.intp]
    bits: Bits  # what is missing has its likelier value
    known: Bits


def _some_rows(model: Model, X: Any, table: Table, seed: int) -> _Rows:
    most = max(200, min(_MAX_ROWS, _MAX_CELLS // table.n_columns))
    numbers = np.arange(table.n_rows)
    if table.n_rows > most:
        numbers = np.sort(np.random.default_rng([seed, 0]).choice(table.n_rows, most, replace=False))
    return _Rows(numbers, *_filled(model, X, numbers, seed))


def _filled(model: Model, X: Any, numbers: NDArray[np.intp], seed: int) -> tuple[Bits, Bits]:
    """Rows with their likelier values where they are missing, and which values are there."""
    chosen = take_rows(X, numbers)
    bits, missing = read_like(chosen, model.table_format_, model.n_features_in_, binarize=model.binarize).all_rows()
    if missing is None:
        return bits, np.ones_like(bits)
    assert isinstance(model, Density)
    _, likelier = completed(model.distribution, bits, missing, check_random_state(seed), model.n_jobs)
    return likelier, ~missing


def folded_columns(bits: Bits, known: Bits) -> list[Folded]:
    """Groups of columns that are copies or opposites of each other in all rows, values missing in the same ones.

    A column of which one value is seen in fewer than five rows is left alone: it may agree with another by accident.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.random.default_rng(0).integers(0, 2, (2, 100)).astype(bool)
    >>> bits = np.stack([x, y, ~x, x], axis=1)
    >>> folded_columns(bits, np.ones_like(bits))
    [Folded(column=0, copies=(3,), opposites=(2,))]
    """
    first = bits[known.argmax(axis=0), np.arange(bits.shape[1])]
    flipped = (bits ^ first) & known  # a column and its opposite are the same here
    count, total = flipped.sum(axis=0), known.sum(axis=0)
    packed, there = (np.packbits(each.T, axis=1) for each in (flipped, known))
    groups: dict[tuple[bytes, bytes], list[int]] = {}
    for j in np.flatnonzero(np.minimum(count, total - count) >= _FEW).tolist():
        groups.setdefault((packed[j].tobytes(), there[j].tobytes()), []).append(j)
    return [
        Folded(
            own[0],
            tuple(j for j in own[1:] if first[j] == first[own[0]]),
            tuple(j for j in own[1:] if first[j] != first[own[0]]),
        )
        for own in groups.values()
        if len(own) > 1
    ]


def fold_pairs(importance: csr_array, folded: Sequence[Folded]) -> csr_array:
    """The importance of columns that say the same as that of the first of them, in the direction that was stronger.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> importance = csr_array([[0.0, 0, 0], [2, 0, 0], [5, 3, 0]])  # column 2 is a copy of column 0
    >>> fold_pairs(importance, [Folded(0, (2,), ())]).toarray()
    array([[0., 5., 0.],
           [0., 0., 0.],
           [0., 0., 0.]])
    """
    n = importance.shape[0]
    first = np.arange(n)
    for group in folded:
        first[[*group.copies, *group.opposites]] = group.column
    entries = importance.tocoo()
    i, j = first[entries.row], first[entries.col]
    i, j, gain = i[i != j], j[i != j], entries.data[i != j]
    pairs, own = np.unique(np.minimum(i, j) * n + np.maximum(i, j), return_inverse=True)
    total = np.bincount(own, gain, len(pairs))
    later_by_earlier = np.bincount(own, gain * (i > j), len(pairs)) >= total / 2
    earlier, later = np.divmod(pairs, n)
    index = np.where(later_by_earlier, (later, earlier), (earlier, later))
    return csr_array((total, tuple(index)), shape=(n, n))


def _dependencies(importance: csr_array, rows: _Rows, shape: tuple[int, int] | None) -> Dependencies:
    folded = folded_columns(rows.bits, rows.known)
    importance = fold_pairs(importance, folded)
    n_drawn = max(60, importance.shape[0] // 4) if shape else 15
    pairs, strength = strongest_pairs(importance, max(n_drawn, _PAIRS))
    strongest = []
    for (i, j), gain in zip(pairs[:_PAIRS].tolist(), strength.tolist()):
        both = rows.known[:, i] & rows.known[:, j]
        a, b = rows.bits[both, i], rows.bits[both, j]
        equal = float((a == b).mean()) if both.any() else float("nan")
        strongest.append(Dependency(i, j, gain / float(importance.sum()), equal, _mutual_information(a, b)))
    shown = {j for pair in strongest for j in (pair.column, pair.predictor)}
    return Dependencies(
        strongest, pairs[:n_drawn], strength[:n_drawn], [group for group in folded if group.column in shown]
    )


def _mutual_information(a: Bits, b: Bits) -> float:
    """Divided by the mean of the two entropies: 0 if the columns are independent, 1 if each tells the other."""
    joint = np.array([[(a & b).sum(), (a & ~b).sum()], [(~a & b).sum(), (~a & ~b).sum()]], np.float64)
    joint /= max(joint.sum(), 1)
    entropy = _entropy(joint.sum(axis=0)) + _entropy(joint.sum(axis=1))
    return 0.0 if entropy == 0 else max(0.0, 2 * (entropy - _entropy(joint.ravel())) / entropy)


def _entropy(p: Floats) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


# ---------------------------------------------------------------------- samples


def _samples(model: Model, rows: _Rows, importance: csr_array | None, n_shown: int, seed: int) -> Samples:
    n = max(_SAMPLES, len(rows.bits))
    drawn = read_table(model.sample(n, random_state=seed)).complete()
    nearest = nearest_rows(drawn[:n_shown], rows.bits)
    rng = np.random.default_rng([seed, 1])
    n_known = rows.known.sum(axis=0)
    some = np.flatnonzero(n_known)
    if len(some) > _POINTS:
        some = np.sort(rng.choice(some, _POINTS, replace=False))
    known = rows.known[:, some]
    real, made = (rows.bits[:, some] & known).sum(axis=0) / n_known[some], drawn[:, some].mean(axis=0)
    pooled = (real * n_known[some] + made * n) / (n_known[some] + n)
    noise = np.sqrt(2 / np.pi * pooled * (1 - pooled) * (1 / n_known[some] + 1 / n))
    pairs = _some_pairs(model.n_features_in_, importance, rng)
    correlations = np.stack(
        [_correlations(rows.bits, rows.known, pairs), _correlations(drawn, np.ones_like(drawn), pairs)]
    )
    return Samples(
        n,
        drawn[:n_shown],
        rows.bits[nearest],
        rows.numbers[nearest],
        np.stack([real, made]),
        float(np.abs(real - made).mean()),
        float(noise.mean()),
        correlations[:, np.isfinite(correlations).all(axis=0)],
    )


def _some_pairs(n: int, importance: csr_array | None, rng: np.random.Generator) -> NDArray[np.intp]:
    """All pairs of columns, if they are few; otherwise the most important ones, and others at random."""
    if n * (n - 1) // 2 <= _POINTS:
        return np.stack(np.triu_indices(n, 1), axis=1)
    pairs = np.stack([rng.integers(n, size=2 * _POINTS), rng.integers(n, size=2 * _POINTS)], axis=1)
    if importance is not None:
        pairs = np.concatenate([strongest_pairs(importance, _POINTS // 2)[0], pairs])
    pairs = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    _, where = np.unique(pairs, axis=0, return_index=True)
    return pairs[np.sort(where)[:_POINTS]]


def _correlations(bits: Bits, known: Bits, pairs: NDArray[np.intp]) -> Floats:
    """Of pairs of columns, over the rows that have both; NaN if one of them is constant there."""
    i, j = pairs.T
    both = known[:, i] & known[:, j]
    n = both.sum(axis=0)
    a, b, ab = ((each & both).sum(axis=0) for each in (bits[:, i], bits[:, j], bits[:, i] & bits[:, j]))
    with np.errstate(invalid="ignore", divide="ignore"):
        correlation: Floats = (n * ab - a * b) / np.sqrt(a.astype(np.float64) * (n - a) * b * (n - b))
    return correlation


# ---------------------------------------------------------------------- strange rows


def _strange(model: Density, X: Any, scores: Floats, seed: int) -> Strange:
    numbers = np.argsort(scores, kind="stable")[:_STRANGE_ROWS]
    bits, known = _filled(model, X, numbers, seed)
    surprise = model.distribution.surprise(bits, model.n_jobs)
    found = explanations(numbers, scores[numbers], bits, np.where(known, surprise, 0), model.base_rates_)
    return Strange(scores, found[:_EXPLANATIONS])


def explanations(
    numbers: NDArray[np.intp], scores: Floats, bits: Bits, surprise: Floats, base_rates: Floats | None
) -> list[Explanation]:
    """Rows grouped by what explains them: their most surprising values, up to half of the surprise, five at most."""
    groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for k, nats in enumerate(surprise):
        worst = np.argsort(-nats, kind="stable")[:_CELLS]
        enough = int(np.searchsorted(np.cumsum(nats[worst]), nats.sum() / 2)) + 1
        groups.setdefault(tuple(sorted((j, int(bits[k, j])) for j in worst[:enough].tolist())), []).append(k)
    found = []
    for reason, group in groups.items():
        own = []
        for j, value in sorted(reason, key=lambda cell: -surprise[group[0], cell[0]]):
            p = np.exp(-surprise[group, j])
            rate = None if base_rates is None else float(base_rates[j] if value else 1 - base_rates[j])
            own.append(Cell(j, value, float(p.min()), float(p.max()), rate))
        first = group[0]
        found.append(Explanation(numbers[group].tolist(), scores[group].tolist(), own, bits[first], surprise[first]))
    return found
