"""Numbers as people read them: true minus signs, and one notation for probabilities."""

from __future__ import annotations

__all__ = ["chance", "number"]


def number(value: float, digits: int) -> str:
    """A number with this many digits after the point.

    Examples
    --------
    >>> number(-1234.567, 1)
    '−1,234.6'
    """
    text = f"{value:,.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}") if float(text.replace(",", "")) else text.lstrip("-")


def chance(p: float) -> str:
    """A probability, or a share: a percentage, or 1 in so many if it is small or close to one.

    Examples
    --------
    >>> [chance(p) for p in (0, 1e-9, 0.0001, 0.25, 0.99, 0.9999, 1)]
    ['0%', 'below 1 in 1,000,000', '1 in 10,000', '25%', '99%', 'all but 1 in 10,000', '100%']
    """
    if p <= 0 or p >= 1:
        return "0%" if p <= 0 else "100%"
    if p > 0.999:
        return f"all but {chance(1 - p).removeprefix('below ')}"
    if p < 1e-6:
        return "below 1 in 1,000,000"
    if p < 0.000_999_5:
        return f"1 in {float(f'{1 / p:.3g}'):,.0f}"
    percent = f"{100 * p:.1f}"
    return f"{percent.removesuffix('.0')}%"
