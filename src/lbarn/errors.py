"""Errors of ours. All are ValueErrors: the input is wrong, and the message says how to mend it."""

__all__ = ["CheckpointError", "CompressedDataError", "DatasetError", "ModelFileError", "TableFileError"]


class ModelFileError(ValueError):
    """A model file cannot be read: damaged, of another version, or not one of ours."""


class CheckpointError(ValueError):
    """A checkpoint belongs to another fit."""


class CompressedDataError(ValueError):
    """Compressed data is damaged or was made with another model."""


class DatasetError(ValueError):
    """A data set is absent, cannot be fetched, or is not what it should be."""


class TableFileError(ValueError):
    """A file does not hold a table of numbers, or cannot be read at all."""
