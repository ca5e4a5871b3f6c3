"""A page on this machine where a person asks a model: what changes if, how strange is this row, show me such rows."""

from lbarn.explorer.server import ExplorerServer

__all__ = ["ExplorerServer"]
