"""Questions to a model and their answers, ready for JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lbarn._engine.codetree import UNKNOWN, Cells
from lbarn._network.conditioning import Answer, Effort
from lbarn._network.network import Given
from lbarn._tables.codes import BinaryCode, CategoricalCode, ColumnCode, ContinuousCode, GridCode
from lbarn._tables.column import Column
from lbarn.explorer.charts import Chart, level_texts, quantiles, shown
from lbarn.explorer.conditions import Conditions, QuestionError
from lbarn.explorer.links import strongest_links
from lbarn.explorer.subject import Subject
from lbarn.explorer.typed import read_row

__all__ = ["MAX_ROWS", "ask", "describe", "draw_rows", "strangeness"]

Floats = NDArray[np.float64]

MAX_ROWS = 10_000  # drawn for one question

_ENOUGH_QUICK = 100  # drawn rows that meet the conditions, with which a first answer is good enough
_ENOUGH = 1000  # and a final one
_CLOUDS = 8  # independent runs of the Monte Carlo: how far they differ is its error
_QUICK_PARTICLES, _PARTICLES = 60, 2500  # of each
_PARTICLE_VALUES = 40_000  # particles x columns of each: of wide tables there are fewer particles
_MAX_TRIED = 100_000  # rows that are drawn to find some that meet the conditions, before particles are used
_STRATA = 8  # points inside a cell at which its law is looked at
_INNER = (0.1, 0.5, 0.9)


# ---------------------------------------------------------------------- what there is


def describe(subject: Subject) -> dict[str, Any]:
    """The columns with their bars, what was left out, and the strongest links."""
    model, book = subject.model, subject.book
    infos = model.columns_
    columns = []
    for j, name, chart in zip(book.taken.tolist(), subject.names, subject.charts):
        info = infos[j]
        columns.append(
            {
                "name": name,
                "kind": info.kind,
                "values": info.values,
                "numeric": chart.is_numeric,
                "share_empty": round(float(chart.code.share_missing), 6),
                "bars": [bar.to_json() for bar in chart.bars],
                "ticks": chart.ticks(),
                "n_levels": None if chart.is_numeric else len(level_texts(chart.code)),
            }
        )
    labels = model.table_format_.labels(model.n_features_in_)
    rows = max((code.n_rows for code in book.codes), default=0.0)
    return {
        "name": subject.name,
        "kind": type(model).__name__,
        "rows": round(rows),
        "columns": columns,
        "left_out": [{"name": str(labels[j]), "why": why} for j, why in sorted(book.left_out.items())],
        "max_rows": MAX_ROWS,
        **strongest_links(subject.distribution),
    }


# ---------------------------------------------------------------------- what changes if


@dataclass(frozen=True)
class _Shares:
    """P(cell) of every column under the conditions, how many independent rows that is worth, and P(conditions)."""

    cells: list[Floats]
    effective: Floats  # by column
    probability: float
    error: float  # standard error of the probability
    method: str


def ask(subject: Subject, conditions: Conditions, *, refined: bool = False) -> dict[str, Any]:
    """The distribution of every column under the conditions, with standard errors, and the probability of the conditions."""
    start = time.perf_counter()
    shares = {j: condition.shares(subject.charts[j]) for j, condition in conditions.items()}
    found = _counted(subject, shares)
    if conditions and found.effective.min() < (_ENOUGH if refined else _ENOUGH_QUICK):
        most = max(_PARTICLE_VALUES // subject.n_columns, _QUICK_PARTICLES)
        other = _by_particles(subject, shares, min(_PARTICLES, most) if refined else _QUICK_PARTICLES)
        if np.median(other.effective) > np.median(found.effective):
            found = other
    if not found.probability > 0:
        raise QuestionError("no row of the model meets these conditions together")
    columns = []
    for j, (chart, cells, effective) in enumerate(zip(subject.charts, found.cells, found.effective.tolist())):
        condition = conditions.get(j)
        weights = chart.weights if condition is None else condition.weights(chart)
        p = cells @ weights
        possible = (cells > 0) @ (weights > 0) > 0
        unsure = possible & (np.count_nonzero(possible) > 1)
        columns.append(
            {
                "p": _rounded(p),
                "error": _rounded(np.where(unsure, _standard_error(p, effective), 0.0)),
                "summary": _summary(chart.code, cells),
            }
        )
    return {
        "probability": found.probability,
        "error": found.error,
        "effective": float(np.median(found.effective)),
        "method": found.method,
        "columns": columns,
        "complete": subject.is_complete,
        "seconds": round(time.perf_counter() - start, 4),
    }


def _standard_error(p: Floats, effective: float) -> Floats:
    """Of shares in so many independent rows. Half a row is added to either side: a share of 0 is not certain."""
    if not np.isfinite(effective):
        return np.zeros_like(p)
    drawn_in = (p * effective + 0.5) / (effective + 1.0)
    return np.asarray(np.sqrt(drawn_in * (1.0 - drawn_in) / (effective + 1.0)))


def _counted(subject: Subject, shares: Mapping[int, Floats]) -> _Shares:
    """By the rows of the pool that meet the conditions."""
    pool = subject.pool
    weight = np.ones(len(pool))
    for j, own in shares.items():
        weight *= own[pool[:, j]]
    met = np.flatnonzero(weight)
    probability = float(weight.mean())
    error = float(weight.std() / np.sqrt(len(weight)))
    if not len(met):
        nothing = [np.zeros(code.n_cells) for code in subject.book.codes]
        return _Shares(nothing, np.zeros(subject.n_columns), 0.0, 0.0, "counted")
    weight = weight[met] / weight[met].sum()
    everyone = len(met) == len(pool)
    cells = []
    for j, code in enumerate(subject.book.codes):
        own_cells = pool[:, j] if everyone else pool[met, j]
        cells.append(np.bincount(own_cells, weight, code.n_cells).astype(np.float64, copy=False))
    effective = np.full(subject.n_columns, 1.0 / float(np.square(weight).sum()))
    return _Shares(cells, effective, probability, error, "counted")


def _by_particles(subject: Subject, shares: Mapping[int, Floats], n_particles: int) -> _Shares:
    """By sequential Monte Carlo, several times: the answers differ by as much as they are off."""
    n = subject.n_columns
    given = Given(np.zeros((_CLOUDS, n), np.uint16), np.ones((_CLOUDS, n), np.bool_), shares, False)
    answer = _condition(subject, given, n_particles)
    p_each = np.exp(np.minimum(answer.log_marginal - subject.log_possible, 0.0))
    probability = float(p_each.mean())
    weight = np.exp(answer.log_marginal - answer.log_marginal.max())
    weight /= weight.sum()
    cells, effective = [], np.empty(n)
    for j, code in enumerate(subject.book.codes):
        each = _cells(answer, j, code)
        mean = weight @ each
        mean /= mean.sum()
        variance = np.square(weight[:, None] * (each - mean)).sum() * _CLOUDS / (_CLOUDS - 1)
        spread = float((mean * (1.0 - mean)).sum())
        most = _CLOUDS * n_particles
        effective[j] = most if variance * most <= spread else spread / variance
        cells.append(mean)
    error = float(p_each.std(ddof=1) / np.sqrt(_CLOUDS))
    return _Shares(cells, effective, probability, error, "particles")


def _condition(subject: Subject, given: Given, n_particles: int) -> Answer:
    """All rows together, in this thread: one block, for which others would not be worth starting."""
    ((_, answer),) = subject.distribution.condition([(0, given)], subject.seed(), effort=Effort(n_particles), n_jobs=1)
    return answer


def _cells(answer: Answer, j: int, code: ColumnCode) -> Floats:
    """P of every cell of a column, (rows, cells)."""
    if code.n_cells != 2:
        return answer.cells[j]
    ones = np.nan_to_num(answer.probability[:, j])
    return np.stack([1.0 - ones, ones], axis=1)


def _summary(code: ColumnCode, cells: Floats) -> list[str] | None:
    """Of numbers and dates, the values with a tenth, half and nine tenths of the rows below."""
    if not isinstance(code, (GridCode, ContinuousCode)) or code.plain.sort == "string":
        return None
    possible = np.where(code.tree.present, cells, 0.0)
    if not possible.sum() > 0:
        return None
    return shown(code, quantiles(code, possible, _INNER).tolist())


def _rounded(values: Floats) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


# ---------------------------------------------------------------------- rows


def draw_rows(subject: Subject, conditions: Conditions, n: int) -> pa.Table:
    """New rows that meet the conditions."""
    if type(n) is not int or not 1 <= n <= MAX_ROWS:
        raise QuestionError(f"the number of rows must be a whole number from 1 to {MAX_ROWS:,}")
    shares = {j: condition.shares(subject.charts[j]) for j, condition in conditions.items()}
    cells = _accepted(subject, shares, n)
    if cells is None:
        blank = Given(
            np.zeros((1, subject.n_columns), np.uint16), np.ones((1, subject.n_columns), np.bool_), shares, False
        )
        cells, _, _ = subject.distribution.draw_given(
            blank, n, subject.seed(), effort=Effort(min(max(20 * n, 5000), 50_000)), n_jobs=subject.model.n_jobs
        )
    rng = np.random.default_rng(subject.seed().randint(2**31 - 1))
    columns = []
    for j, code in enumerate(subject.book.codes):
        condition = conditions.get(j)
        own = code.decode(cells[:, j], rng) if condition is None else condition.decode(code, cells[:, j], rng)
        columns.append(own.arrow())
    return pa.Table.from_arrays(columns, names=subject.names)


def _accepted(subject: Subject, shares: Mapping[int, Floats], n: int) -> Cells | None:
    """Drawn rows of which those are kept that meet the conditions, exact draws; None if these are too rare."""
    probability = _counted(subject, shares).probability
    found: list[Cells] = []
    kept, left = 0, _MAX_TRIED
    while kept < n:
        wanted = int(1.2 * (n - kept) / max(probability, 1e-9)) + 50
        if wanted > left:
            return None
        rows = subject.distribution.draw(wanted, subject.seed(), subject.model.n_jobs)
        chance = np.ones(len(rows))
        for j, own in shares.items():
            chance *= own[rows[:, j]]
        rows = rows[subject.seed().random_sample(len(rows)) < chance]
        found.append(rows)
        kept, left = kept + len(rows), left - wanted
    return np.concatenate(found)[:n]


# ---------------------------------------------------------------------- how strange


def strangeness(subject: Subject, text: str) -> dict[str, Any]:
    """How likely a typed row is among rows, and every value of it given the others, the most surprising first."""
    model, book = subject.model, subject.book
    labels = [str(label) for label in model.table_format_.labels(model.n_features_in_)]
    values = read_row(text, labels, book.left_out)
    cells, inside, told = np.full(book.n_columns, UNKNOWN, np.uint16), np.zeros(book.n_columns), {}
    for j, (name, code) in enumerate(zip(subject.names, book.codes)):
        if name not in values:
            continue
        own, log_p = code.encode(_typed(values[name], code))
        cells[j], inside[j] = own[0], log_p[0]
        told[j] = values[name] or "empty"
    known = np.flatnonzero(cells != UNKNOWN)
    if not len(known):
        raise QuestionError("no value of the row is one that the model knows")
    unknown = (cells == UNKNOWN)[None]
    some_unknown = bool(unknown.any())
    rows = np.where(unknown, 0, cells[None]).astype(np.uint16)
    log_p = subject.distribution.log_likelihood(rows, model.n_jobs, unknown if some_unknown else None)
    total = float(log_p[0] + inside.sum())
    reasons = _reasons(subject, rows, unknown, known, inside, told)
    answer: dict[str, Any] = {
        "log_likelihood": total,
        "unknown": [subject.names[j] for j in np.flatnonzero(unknown[0])],
        "left_out": [labels[j] for j in book.left_out if labels[j] in values],
        "columns": reasons,
    }
    if not some_unknown:
        typical = subject.log_likelihoods
        below = int(np.searchsorted(typical, total))
        answer |= {
            "share_below": below / len(typical),
            "compared": len(typical),
            "usual": _rounded(np.quantile(typical, _INNER)),
        }
    return answer


def _typed(text: str, code: ColumnCode) -> Column:
    """A value as it was typed."""
    if isinstance(code, BinaryCode):
        text = {"true": "1", "false": "0"}.get(text.lower(), text)
    column = Column.of_strings([text])
    return column.with_values(column.values, np.array([text == ""]))


def _reasons(
    subject: Subject,
    rows: Cells,
    unknown: NDArray[np.bool_],
    known: NDArray[np.intp],
    inside: Floats,
    told: Mapping[int, str],
) -> list[dict[str, Any]]:
    """Of every value that is there: what was expected from all others, and how surprising it is."""
    gone = np.repeat(unknown, len(known), axis=0)
    gone[np.arange(len(known)), known] = True
    answer = _condition(subject, Given(np.repeat(rows, len(known), axis=0), gone, {}, False), 1000)
    found = []
    for k, j in enumerate(known.tolist()):
        code = subject.book.codes[j]
        p = _with_unseen(code, _cells(answer, j, code)[k])
        with np.errstate(divide="ignore"):
            points = np.log(p)[:, None] + _laws(subject.charts[j])
            surprise = float(-np.log(p[rows[0, j]]) - inside[j])
        mass = np.repeat(p[:, None] / points.shape[1], points.shape[1], axis=1)
        drawn = mass > 0
        usual = float(-(mass[drawn] * points[drawn]).sum())
        as_strange = float(mass[points <= -surprise + 1e-9].sum())
        found.append(
            {
                "column": j,
                "name": subject.names[j],
                "value": told[j],
                "surprise": round(surprise, 4),
                "usual": round(usual, 4),
                "excess": round(surprise - usual, 4),
                "as_strange": float(f"{min(as_strange, 1.0):.3g}"),
                "expected": _expected(subject.charts[j], p),
                "unseen": not bool(code.tree.drawn[rows[0, j]]),
            }
        )
    return sorted(found, key=lambda one: -one["excess"])


def _with_unseen(code: ColumnCode, p: Floats) -> Floats:
    """P(cell) with the share of what was never seen, which is the same in every row."""
    outside = ~code.tree.drawn
    share = 0.5 / (code.n_rows + 1.0)
    total = p[~outside].sum()
    p = p / total if total > 0 else p
    return np.where(outside, share, p * (1.0 - share * outside.sum()))


def _laws(chart: Chart) -> Floats:
    """(cells, points): the log-likelihood of typical values inside every cell."""
    code = chart.code
    if isinstance(code, CategoricalCode):
        weights = chart.level_weights
        points = np.zeros((code.n_cells, _STRATA))
        shared = np.flatnonzero((weights > 0).sum(axis=1) > 1)
        for cell in shared.tolist():
            own = np.sort(weights[cell][weights[cell] > 0])[::-1]
            place = np.searchsorted(np.cumsum(own), (np.arange(_STRATA) + 0.5) / _STRATA)
            points[cell] = np.log(own[np.minimum(place, len(own) - 1)])
        return points
    if not chart.is_numeric:
        return np.zeros((code.n_cells, 1))
    assert isinstance(code, (GridCode, ContinuousCode))
    points = np.zeros((code.n_cells, _STRATA))
    present = np.flatnonzero(code.tree.present)
    for k in range(_STRATA):
        values = code.quantiles(present, np.full(len(present), (k + 0.5) / _STRATA))
        points[present, k] = code.encode(code.column(values))[1]
    return points


def _expected(chart: Chart, p: Floats) -> str:
    """What was expected, in words."""
    code = chart.code
    if isinstance(code, (GridCode, ContinuousCode)) and chart.is_numeric:
        possible = np.where(code.tree.present, p, 0.0)
        low, middle, high = shown(code, quantiles(code, possible, _INNER).tolist())
        empty = f"; empty in {p[0]:.0%}" if code.missing and p[0] >= 0.005 else ""
        return (middle if low == high else f"about {middle} (80% are {low} to {high})") + empty
    shares = p @ chart.weights
    best: Sequence[int] = np.argsort(-shares, kind="stable")[:3].tolist()
    kept = [b for b in best if shares[b] >= 0.01] or best[:1]
    return ", ".join(f"{chart.bars[b].label} ({_percent(float(shares[b]))})" for b in kept)


def _percent(share: float) -> str:
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"
