"""Anomalies: the least likely rows, and what is strange about each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lbarn._models.density import Density, check_counts
from lbarn._models.outliers import LBARNOutlierDetector
from lbarn._models.predicted import ConditionalDistribution
from lbarn._models.wording import Expectation, in_words, percent
from lbarn._tables.coded import CodedTable
from lbarn._tables.codes import GridCode
from lbarn._tables.table import read_like
from lbarn.errors import warn_deprecated

__all__ = ["Anomaly", "LBARNOutlierDetector", "SurprisingValue", "explain"]


def __getattr__(name: str) -> Any:
    if name == "SurprisingBit":
        warn_deprecated("lbarn.anomalies.SurprisingBit", "lbarn.anomalies.SurprisingValue")
        return SurprisingValue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class SurprisingValue(NamedTuple):
    """A value of a row, and what the model thought of it given the columns before it in the order."""

    column: str | int  # its name, or its number if neither the table nor the model has names
    value: Any  # 0 or 1; in other tables a number, a string, True or False, or None if it is empty
    surprise: float  # -log p(value), in nats
    probability: float | None  # p(value); None for a column without a grid, which has a density
    base_rate: float | None  # the share of this value in the column, among the rows that the model was fitted on
    expected: str = ""  # in words: a range that holds 90%, or the likely values with their probabilities
    excess: float = 0.0  # by how much the surprise is more than that of a typical value, in nats

    @property
    def reason(self) -> str:
        """All of it in words."""
        return f"{self.column} is {in_words(self.value)}; expected {self.expected}"


class Anomaly(NamedTuple):
    """An unlikely row and its most surprising values."""

    row: int
    log_likelihood: float
    values: list[SurprisingValue]

    @property
    def bits(self) -> list[SurprisingValue]:
        """Deprecated: ``values``."""
        warn_deprecated("Anomaly.bits", "Anomaly.values")
        return self.values


def explain(model: Density, X: Any, *, n_rows: int = 10, n_values: int = 5, n_bits: int | None = None) -> list[Anomaly]:
    """The ``n_rows`` least likely rows of ``X``, least likely first, each with its ``n_values`` most surprising values.

    In a table that is not of bits alone, columns differ in how surprising their values always are: with thousands of possible values,
    each is unlikely. There the values come first whose surprise is most in ``excess`` of what is typical.

    ``n_bits`` is the former name of ``n_values``.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn import LBARN
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (300, 1)), 3, axis=1)
    >>> X[7] = [0, 1, 0]
    >>> model = LBARN(max_leaf_nodes=2, learning_rate=0.2, random_state=0).fit(X[10:])
    >>> [(strange.row, strange.values[0].column, strange.values[0].value) for strange in explain(model, X, n_rows=1)]
    [(7, 1, 1)]
    """
    if n_bits is not None:
        warn_deprecated("n_bits", "n_values")
        n_values = n_bits
    check_counts(n_rows=n_rows, n_values=n_values)
    distribution, book = model.distribution, model.codebook_
    table = read_like(X, model.table_format_, model.n_features_in_, binarize=model.binarize, optional=book.left_out)
    scores = np.concatenate(
        [
            distribution.log_likelihood(chunk.cells, model.n_jobs) + chunk.log_inside
            for chunk in CodedTable(table, book).complete_chunks()
        ]
    )
    rows = np.argsort(scores, kind="stable")[:n_rows]
    chosen = CodedTable(table.take(rows), book)
    names = (table.format if table.format.names else model.table_format_).labels(table.n_columns)
    strange = (_Bits if book.is_binary else _Values)(model, chosen, [names[j] for j in book.taken])
    anomalies = []
    for i, row in enumerate(rows):
        most = np.argsort(-strange.excess[i], kind="stable")[:n_values]
        found = [strange.value(i, j) for j in most.tolist()]
        anomalies.append(Anomaly(int(row), float(scores[row]), found))
    return anomalies


class _Bits:
    """What to tell about rows of bits."""

    def __init__(self, model: Density, table: CodedTable, names: list[Any]) -> None:
        chunks = list(table.complete_chunks())
        self.names = names
        self.cells = np.concatenate([chunk.cells for chunk in chunks])
        self.surprise = model.distribution.surprise(self.cells, model.n_jobs)
        if chunks[0].inside is not None:
            self.surprise -= np.concatenate([chunk.inside for chunk in chunks])
        self.excess = self.surprise
        self._base_rates = model.base_rates_

    def value(self, i: int, j: int) -> SurprisingValue:
        value, nats = int(self.cells[i, j]), float(self.surprise[i, j])
        rate = None if self._base_rates is None else float(self._base_rates[j])
        share = rate if rate is None or value else 1 - rate
        p = float(np.exp(-nats))
        expected = f"{value if p >= 0.5 else 1 - value} ({percent(max(p, 1 - p))})"
        return SurprisingValue(self.names[j], value, nats, p, share, expected, nats)


class _Values(_Bits):
    """What to tell about the rows of any other table."""

    def __init__(self, model: Density, table: CodedTable, names: list[Any]) -> None:
        super().__init__(model, table, names)
        book = model.codebook_
        self._codes = book.codes
        self._columns = list(table.columns())
        self._values = [code.shown(column) for code, column in zip(book.codes, self._columns)]
        self._inside = [code.encode(column)[1] for code, column in zip(book.codes, self._columns)]
        self._predicted = model.distribution.predictions(self.cells)
        self._expectations = [
            Expectation(code, ConditionalDistribution(code, cells, model.table_format_, int(number)), column)
            for code, cells, number, column in zip(book.codes, self._predicted, book.taken, self._columns)
        ]
        typical = [
            np.sum(p * (code.entropy_inside - np.log(np.maximum(p, 1e-300))), axis=1)
            for code, p in zip(book.codes, self._predicted)
        ]
        self.excess = self.surprise - np.stack(typical, axis=1)

    def value(self, i: int, j: int) -> SurprisingValue:
        code, nats = self._codes[j], float(self.surprise[i, j])
        density = code.measure == "density"
        return SurprisingValue(
            self.names[j],
            self._values[j][i],
            nats,
            None if density else float(np.exp(-nats)),
            None if density else self._share(i, j),
            self._expected(i, j),
            float(self.excess[i, j]),
        )

    def _share(self, i: int, j: int) -> float | None:
        """Of rows with this value; None if only those with a value near it were counted."""
        code = self._codes[j]
        if isinstance(code, GridCode) and code.has_choice(int(self.cells[i, j])):
            return None
        mass = code.mass[int(self.cells[i, j])] * np.exp(self._inside[j][i])
        return float(mass / max(code.n_rows, 1e-300))

    def _expected(self, i: int, j: int) -> str:
        code, value = self._codes[j], self._values[j][i]
        if code.missing:
            empty = float(self._predicted[j][i, 0])
            if value is None:
                return f"a value ({percent(1 - empty)})"
            if empty > 0.5:
                return f"nothing ({percent(empty)})"
        return self._expectations[j].words(i, is_there=value is not None)
