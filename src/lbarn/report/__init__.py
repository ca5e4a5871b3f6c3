"""A report: one web page, complete in itself, that tells somebody who did not fit the model what it has learned."""

from lbarn.report.comparison import write_comparison
from lbarn.report.page import write_report

__all__ = ["write_comparison", "write_report"]
