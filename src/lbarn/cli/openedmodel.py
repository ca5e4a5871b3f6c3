"""A model file and tables that go with it, as the command line uses them: plain arrays, column names beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lbarn._tables import files as tablefile
from lbarn._tables.files import TableFile
from lbarn._tables.table import Kind
from lbarn.cli.terminal import show_bytes, waiting, writing
from lbarn.errors import TableFileError

if TYPE_CHECKING:
    from lbarn._models.ensemble import LBARNEnsemble
    from lbarn._models.lbarn import LBARN

    Density = TypeVar("Density", LBARN, LBARNEnsemble, LBARN | LBARNEnsemble)

__all__ = ["OpenedModel", "aligned", "read", "read_weights", "with_names", "write"]


@dataclass(frozen=True)
class OpenedModel:
    """A network that takes and gives arrays, and the names of its columns (None: it was fitted without)."""

    network: LBARN | LBARNEnsemble
    names: tuple[str, ...] | None

    @classmethod
    def open(cls, path: str, n_jobs: int) -> OpenedModel:
        from lbarn._models.classifier import LBARNClassifier  # not before a table was found to be bad
        from lbarn._models.opening import load

        model = load(path)
        if isinstance(model, LBARNClassifier):
            raise ValueError(f"{path}: holds an LBARNClassifier; this command takes LBARN and LBARNEnsemble")
        names = model._kind.names
        return cls(with_names(model.set_params(n_jobs=n_jobs), None), None if names is None else tuple(map(str, names)))

    def rows(self, data: str, header: bool | None) -> tuple[Any, NDArray[np.bool_]]:
        """The checked rows of a file, and which of them have missing cells."""
        D = int(self.network.n_features_in_)
        table = aligned(read(data, header, D), self.names, D)
        return table.values, table.check(self.network.binarize)

    def complete_rows(self, data: str, header: bool | None) -> Any:
        values, incomplete = self.rows(data, header)
        if incomplete.any():
            raise TableFileError(
                f"{data}: row {incomplete.argmax()} has missing cells; complete rows are needed here: lbarn impute fills them"
            )
        return values

    def write(self, out: str | None, rows: NDArray[Any]) -> None:
        write(out, rows, self.names)

    def column_name(self, j: int) -> str | int:
        return j if self.names is None else self.names[j]


def with_names(model: Density, names: tuple[str, ...] | None) -> Density:
    """The same model, giving arrays, with these names for its columns."""
    model.__dict__.pop("feature_names_in_", None)
    model._kind = Kind()
    if names is not None:
        model._kind = Kind("numpy", names, ("uint8",) * len(names))
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def read(data: str, header: bool | None, n_columns: int | None = None, *, default_part: str = "test") -> TableFile:
    with waiting(f"reading {data}"):
        return tablefile.read(data, header=header, n_columns=n_columns, default_part=default_part)


def write(out: str | None, values: NDArray[Any], names: tuple[str, ...] | None = None) -> None:
    """To a file, or to standard output as CSV."""
    if out is None:
        show_bytes(tablefile.to_csv(values, names))
    else:
        with writing(out):
            tablefile.write(out, values, names)


def aligned(table: TableFile, names: tuple[str, ...] | None, n_columns: int) -> TableFile:
    """The table with its columns in the order of ``names``; without names on either side they go by position."""
    if names is not None and table.names is not None and names != table.names:
        for name in table.names:
            if name not in names:
                raise TableFileError(f"{table.name}: there is no column {name!r} in the model")
        for name in names:
            if name not in table.names:
                raise TableFileError(f"{table.name}: has no column {name!r}, which the model has")
        return replace(table, values=table.values[:, [table.names.index(name) for name in names]], names=names)
    if table.values.shape[1] != n_columns:
        raise TableFileError(f"{table.name}: has {table.values.shape[1]} columns, and {n_columns} are needed")
    return table


def read_weights(name: str, n_rows: int) -> NDArray[np.float64]:
    """One weight for every row, from a table of one column."""
    values = tablefile.read(name).values
    if values.shape != (n_rows, 1):
        raise TableFileError(
            f"{name}: holds {values.shape[0]} x {values.shape[1]} values; one is needed for each of {n_rows} rows"
        )
    return np.asarray(values[:, 0], np.float64)
