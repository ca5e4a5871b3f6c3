"""Whether probabilities are right, in a picture and in words."""

from __future__ import annotations

import numpy as np
from scipy.stats import poisson

from lbarn.inspection import Calibration
from lbarn.plots import CalibrationDisplay
from lbarn.plots.numbers import chance
from lbarn.report.pictures import draw_picture
from lbarn.report.words import WIDTH, Content

__all__ = ["calibration_section"]

_SURE = 0.001  # chance below which a deviation from calibration is called one


def calibration_section(lines: list[Calibration]) -> Content:
    """What the page says about calibration."""
    decades = [line for line in lines if line.n_cells and np.isclose(np.log10(line.threshold) % 1, [0, 1]).any()]
    alt = "Observed against predicted frequency of the rarer value. " + "; ".join(
        f"below {chance(line.threshold)}: {_count(line.expected)} expected, {_count(line.observed)} observed"
        for line in decades[:-1]
    )
    return {
        "picture": draw_picture(CalibrationDisplay(lines).plot, (WIDTH, 3.4), alt),
        "verdict": _verdict(decades),
        "lines": [
            {
                "below": "any" if line.threshold >= 1 else f"below {chance(line.threshold)}",
                "cells": f"{line.n_cells:,.0f}",
                "expected": _count(line.expected),
                "observed": _count(line.observed),
            }
            for line in decades
        ],
    }


def _verdict(lines: list[Calibration]) -> str:
    """The largest deviation, if it is hardly an accident."""
    too_many = [float(poisson.sf(line.observed - 1, line.expected)) for line in lines]
    too_few = [float(poisson.cdf(line.observed, line.expected)) for line in lines]
    if min(too_many + too_few) >= _SURE:
        return "Unlikely values occur about as often as the model says."
    certain = min(too_many) <= min(too_few)
    worst = lines[int(np.argmin(too_many if certain else too_few))]
    what = "the less likely value of a cell"
    if worst.threshold < 1:
        what = f"values that it gives less than {chance(worst.threshold)}"
    than = "more certain than it should be" if certain else "less certain than it could be"
    counts = f"occurred {_times(worst.observed)}, where {_count(worst.expected)} were expected"
    return f"The model is {than}: {what} {counts}."


def _count(value: float) -> str:
    """A number of cells, whole or not."""
    if value >= 10 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 0.95 else f"{value:.1g}" if value >= 1e-3 else "<0.001"


def _times(value: float) -> str:
    return "once" if value == 1 else f"{_count(value)} times"
