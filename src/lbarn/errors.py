"""Errors of ours. All are ValueErrors: the input is wrong, and the message says how to mend it."""

from __future__ import annotations

import warnings

__all__ = [
    "CheckpointError",
    "CompressedDataError",
    "DatasetError",
    "LBARNError",
    "ModelFileError",
    "NotBinaryError",
    "TableFileError",
]


class LBARNError(ValueError):
    """The base of all errors of lbarn."""


class ModelFileError(LBARNError):
    """A model file cannot be read: damaged, of another version, or not one of ours."""


class CheckpointError(LBARNError):
    """A checkpoint belongs to another fit, or is damaged."""


class CompressedDataError(LBARNError):
    """Compressed data is damaged or was made with another model."""


class DatasetError(LBARNError):
    """A data set is absent, cannot be fetched, or is not what it should be."""


class TableFileError(LBARNError):
    """A file does not hold a table of numbers, or cannot be read at all."""


class NotBinaryError(LBARNError):
    """A value is neither 0 nor 1, and there is no threshold to compare it with."""

    def __init__(self, column: str, value: object, row: int) -> None:
        super().__init__(
            f"{column} holds {value!r} (row {row}, counted from 0); LBARN takes 0 and 1 only (set binarize= to threshold)"
        )
        self.column, self.value, self.row = column, value, row

    def __reduce__(self) -> tuple[type[NotBinaryError], tuple[object, ...]]:
        return type(self), (self.column, self.value, self.row)


def deprecation(old: str, new: str, *, version: str = "0.4", date: str = "2027-07-01") -> str:
    """What is said of a name that has another one by now: until when the old one works."""
    return f"{old} is deprecated: use {new}; it will be removed in version {version}, not before {date}"


def warn_deprecated(old: str, new: str) -> None:
    """Tell it to whoever called the caller."""
    warnings.warn(deprecation(old, new), FutureWarning, stacklevel=3)
