"""What commands read: a model, and rows for it, a batch at a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from lbarn import load
from lbarn._models.density import Density
from lbarn._tables.files import Rows, TableFile, open_table
from lbarn._tables.table import some
from lbarn._training.progress import bar
from lbarn.cli.terminal import remark
from lbarn.errors import ModelFileError, NotBinaryError, TableFileError

__all__ = [
    "InputRows",
    "about",
    "batch_rows",
    "incomplete",
    "input_rows",
    "names_of",
    "open_input",
    "open_model",
    "output_names",
    "row_bar",
    "stacked",
    "tell_notes",
]

_BATCH_VALUES = 4_000_000
_PATIENCE = 2.0  # seconds without a bar
_ROW = re.compile(r"\((?:Input X contains (?:NaN|infinity), )?row (\d+), counted from 0\)")


def open_model(path: str, n_jobs: int, data: str | None = None) -> Density:
    """The model in a file; ``data`` is what the command was given besides."""
    try:
        model = load(path)
    except ModelFileError:
        if data is not None and data.endswith(".lbarn") and not path.endswith(".lbarn"):
            raise ValueError(f"{path}: is not a model; the model comes first, then the data ({data})") from None
        raise
    if not isinstance(model, Density):
        raise ValueError(f"{path}: holds an {type(model).__name__}; this command takes LBARN and LBARNEnsemble")
    model.set_params(n_jobs=n_jobs)
    return model


def batch_rows(n_columns: int, most: int = 10_000) -> int:
    """How many rows are looked at together."""
    return max(1, min(most, max(100, _BATCH_VALUES // n_columns)))


def names_of(model: Density) -> list[str] | None:
    """Those of a model's columns, None if they are merely numbered."""
    names = model.table_format_.feature_names
    return None if names is None else names.tolist()


def output_names(model: Density) -> list[str] | None:
    """The same, of the columns that the model gives back."""
    names = names_of(model)
    return None if names is None else [names[j] for j in model.codebook_.taken]


def open_input(
    data: str,
    header: bool | None,
    model: Density,
    *,
    partial: bool = False,
    optional: Collection[int] = (),
    others: bool = False,
) -> TableFile:
    """The table in a file, of which columns that the model does not know are left out, unless ``others``.

    It must have all columns of the model, but for ``optional`` ones, unless ``partial``.
    """
    names = names_of(model)
    table = open_table(
        data, header=header, n_columns=model.n_features_in_, columns=names, sorts=_sorts(model, optional), others=others
    )
    if names is None:
        table.names = None  # columns go by position
    elif table.names is not None:
        _check_names(table, names, model, partial, optional)
    tell_notes(table)
    return table


def _sorts(model: Density, optional: Collection[int]) -> dict[str | int, str]:
    """What the columns of a text file are, by name and by number."""
    book, labels = model.codebook_, model.table_format_.labels(model.n_features_in_)
    sorts = dict.fromkeys(range(model.n_features_in_), "cell")
    for j, code in zip(book.taken.tolist(), book.codes):
        if j in optional:
            continue  # it is not looked at
        is_text = code.plain.written or pa.types.is_string(code.plain.type) or pa.types.is_large_string(code.plain.type)
        sorts[j] = "time" if code.plain.sort == "time" else "string" if is_text else "number"
    by_label: dict[str | int, str] = {labels[j]: sort for j, sort in sorts.items()}
    return by_label | dict(sorts)


def _check_names(table: TableFile, names: list[str], model: Density, partial: bool, optional: Collection[int]) -> None:
    assert table.names is not None
    known = set(table.names)
    absent = [
        name
        for j, name in enumerate(names)
        if name not in known and j not in model.codebook_.left_out and j not in optional
    ]
    extra = table.ignored or [name for name in table.names if name not in set(names)]
    new = f"; it has {some(extra)}, which the model does not have" if extra else ""
    if absent and (not partial or not known & set(names)):
        raise TableFileError(f"{table.name}: has no column {some(absent)}, which the model has{new}")


def tell_notes(table: TableFile) -> None:
    """How a file was read, if that needs a word; every note once."""
    remark(f"lbarn: note: {' '.join(note.split())}" for note in table.notes)
    table.notes.clear()


class InputRows:
    """The rows of a file in batches; errors about them name the file, and the row in it."""

    def __init__(self, table: TableFile, n_rows: int, done: Callable[[int], None], model: Density) -> None:
        self.table = table
        self.start = 0  # of the batch that is being looked at
        self.n_rows = 0  # that have been read
        self._size, self._done, self._model = n_rows, done, model

    def __iter__(self) -> Iterator[Rows]:
        for rows in self.table.batches(self._size):
            self.start, self.n_rows = self.n_rows, self.n_rows + rows.shape[0]
            yield rows
            self._done(rows.shape[0])

    def complete(self) -> Iterator[Rows]:
        """The same; a missing cell is an error, unless that is a value of the model."""
        for rows in self:
            holes = incomplete(rows, self._model)
            if holes.any():
                where = self.table.row(self.start + int(holes.argmax()))
                raise TableFileError(
                    f"{self.table.name}: {where} has missing cells; complete rows are needed here: lbarn impute fills them"
                )
            yield rows


@contextmanager
def input_rows(
    data: str,
    header: bool | None,
    model: Density,
    doing: str,
    most: int = 10_000,
    *,
    partial: bool = False,
    optional: Collection[int] = (),
    others: bool = False,
) -> Iterator[InputRows]:
    """Rows for a model, with a bar for those that are done."""
    with (
        open_input(data, header, model, partial=partial, optional=optional, others=others) as table,
        row_bar(doing, table.expected_rows) as done,
    ):
        rows = InputRows(table, batch_rows(table.n_columns, most), done, model)
        with about(table, rows):
            yield rows
    tell_notes(table)


@contextmanager
def row_bar(doing: str, expected: Callable[[], int | None] = lambda: None) -> Iterator[Callable[[int], None]]:
    """A bar that counts rows, if somebody looks and it takes long."""
    is_shown = sys.stderr.isatty()
    with bar(doing, expected() if is_shown else None, shown=is_shown, patience=_PATIENCE) as done:
        yield done


@contextmanager
def about(table: TableFile, rows: InputRows | None = None) -> Iterator[None]:
    """Errors name the file, the row in it, and what to do on the command line."""
    try:
        yield
    except NotBinaryError as error:
        where = table.row((rows.start if rows else 0) + error.row)
        raise TableFileError(
            f"{table.name}: {error.column} holds {error.value!r} in {where}; it was 0 and 1 when the model was fitted"
        ) from error
    except TableFileError:
        raise  # it names its file
    except ValueError as error:
        start = rows.start if rows else 0
        text = _ROW.sub(lambda found: f"in {table.row(start + int(found[1]))}", str(error).removeprefix("given: "))
        raise TableFileError(f"{table.name}: {text}") from error


def incomplete(rows: Rows, model: Density) -> NDArray[np.bool_]:
    """Which rows have missing cells that are no values of the model."""
    if sp.issparse(rows):
        return np.isnan(np.asarray(abs(rows).sum(axis=1), float)).ravel()
    book = model.codebook_
    known = {*book.left_out, *(int(j) for j, code in zip(book.taken, book.codes) if code.missing)}
    if isinstance(rows, np.ndarray):
        if rows.dtype.kind != "f":
            return np.zeros(len(rows), bool)
        needed = [j for j in range(rows.shape[1]) if j not in known]
        return np.asarray(np.isnan(rows[:, needed]).any(axis=1))
    names = names_of(model)
    labels = {str(j) if names is None else names[j] for j in known}
    found = np.zeros(rows.num_rows, bool)
    for label, column in zip(rows.schema.names, rows.columns):
        if label not in labels and (column.null_count or pa.types.is_floating(column.type)):
            found |= pc.is_null(column, nan_is_null=True).to_numpy()
    return found


def stacked(above: Rows, below: Rows) -> Rows:
    """The rows of two batches of a file."""
    if isinstance(above, pa.Table):
        return pa.concat_tables([above, below], promote_options="permissive")
    return sp.vstack([above, below], format="csr") if sp.issparse(above) else np.concatenate([above, below])
