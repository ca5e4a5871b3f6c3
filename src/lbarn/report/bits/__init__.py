"""The report on a table that is 0 and 1 throughout."""
