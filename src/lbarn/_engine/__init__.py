"""Packed bits and one boosted conditional."""
