"""Synthetic rows against real ones, for any two tables: facts here, the page that shows them in ``lbarn.report``."""
