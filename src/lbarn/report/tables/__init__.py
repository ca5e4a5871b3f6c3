"""The report on a table of numbers, categories and dates."""
