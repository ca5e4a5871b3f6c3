"""Whatever is generated stays in the range of its column, on its grid, in its type and in its categories."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbarn import LBARN, LBARNEnsemble

FEW = {"max_iter": 2, "max_leaf_nodes": 3, "learning_rate": 0.3, "random_state": 0}
pytestmark = [
    pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising"),
    pytest.mark.filterwarnings("ignore:some rows have missing values"),
    pytest.mark.filterwarnings("ignore:column .* has no values"),
]


def times(rng: np.random.Generator, n: int, unit: str, step: int) -> pd.Series:
    """Points in time that are so many units apart, from an odd one on."""
    start = (
        pd.Timestamp("2021-03-04 05:06:07").as_unit(unit).value // {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
    )
    return pd.Series((start + step * rng.integers(0, 10**6, n)).astype(f"datetime64[{unit}]"))


def column(kind: str, rng: np.random.Generator, n: int) -> pd.Series:
    if kind.startswith("decimals"):
        return pd.Series(np.round(rng.normal(size=n) * 10.0 ** rng.integers(-1, 4), int(kind[-1])))
    if kind.startswith("times"):
        _, unit, step = kind.split()
        return times(rng, n, unit, int(step))
    makers: dict[str, Any] = {
        "whole": lambda: pd.Series(rng.integers(-50, 50, n) ** 3),
        "bytes": lambda: pd.Series(rng.integers(0, 256, n).astype(np.uint8)),
        "wide": lambda: pd.Series(rng.integers(-(2**60), 2**60, n)),
        "heaped": lambda: pd.Series(np.where(rng.random(n) < 0.7, 0.0, rng.gamma(2, size=n))),
        "real": lambda: pd.Series(rng.standard_cauchy(n)),
        "single": lambda: pd.Series(rng.normal(size=n).astype(np.float32)),
        "level": lambda: pd.Series(pd.Categorical(rng.choice(["a", "b"], n), ["a", "b", "never"])),
        "rank": lambda: pd.Series(pd.Categorical(rng.choice(["b", "c"], n), ["a", "b", "c", "d"], ordered=True)),
        "written": lambda: pd.Series([f"{k / 100:.2f}" for k in rng.integers(0, 900, n)], dtype="str"),
    }
    return makers[kind]()


KINDS = ["decimals 1", "decimals 2", "decimals 6", "times ns 1", "times ns 1000", "times us 7", "times us 60000000"]
KINDS += ["times s 3600", "whole", "bytes", "wide", "heaped", "real", "single", "level", "rank", "written"]


def assert_in_column(found: pd.Series, known: pd.Series, kind: str, what: str) -> None:
    assert found.dtype == known.dtype, what
    if kind in ("level", "rank"):
        assert set(found) <= set(known), what
        return
    if kind == "written":
        assert found.str.fullmatch(r"\d\.\d\d").all(), what
        found, known = found.astype(float), known.astype(float)
    assert found.min() >= known.min(), what
    assert found.max() <= known.max(), what
    if what == "mean" and kind not in ("whole", "bytes", "wide"):
        return  # the mean of decimals has more of them
    if kind.startswith("decimals"):
        np.testing.assert_array_equal(np.round(found, int(kind[-1])), found, what)
    elif kind.startswith("times"):
        unit = known.dt.unit
        size = {"times ns 1000": 1000, "times us 60000000": 60_000_000, "times s 3600": 3600}.get(kind, 1)
        whole = [own.to_numpy().astype(f"M8[{unit}]").astype(np.int64) for own in (found, known)]
        assert ((whole[0] - whole[1][0]) % size == 0).all(), what


@settings(max_examples=30)
@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3), st.integers(0, 2**31), st.sampled_from([2, 5, 256]))
def test_what_is_generated_is_like_the_column(kinds: list[str], seed: int, max_cells: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 300))
    frame = pd.DataFrame({k: column(kind, rng, n) for k, kind in enumerate(kinds)})
    columns = {k: "ordered" for k, kind in enumerate(kinds) if kind == "written"}
    model = LBARN(**FEW, max_cells=max_cells, columns=columns).fit(frame)
    gaps = frame[:20].astype({k: float for k, kind in enumerate(kinds) if kind in ("whole", "bytes", "wide")})
    gaps = gaps.mask(rng.random(gaps.shape) < 0.7)
    made = {"sample": model.sample(100, random_state=0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for output in ("sample", "mode", "median", "mean"):
            filled = model.impute(gaps.astype(object), output=output, random_state=0)
            made[output] = filled.where(gaps.isna(), frame[:20]).astype(frame.dtypes.to_dict())
    for k, kind in enumerate(kinds):
        for what, table in made.items():
            assert_in_column(table[k], frame[k], kind, what)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("level",)])
def test_ranges_that_are_given_are_kept(kind: str) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": column(kind, rng, 200), "y": rng.integers(0, 9, 200)})
    model = LBARN(**FEW, max_cells=8, columns={"x": "ordered"} if kind == "written" else None).fit(frame)
    values = (
        frame["x"].cat.as_ordered() if kind == "rank" else frame["x"].astype(float) if kind == "written" else frame["x"]
    )
    low, high = values.sort_values().iloc[[60, 130]]
    drawn = model.sample(200, given={"x": slice(low, high)}, random_state=0)["x"]
    assert_in_column(drawn, frame["x"], kind, "given")
    compared = drawn.astype(float) if kind == "written" else drawn
    assert ((compared >= low) & (compared <= high)).all()


def test_an_ensemble_keeps_to_the_columns_too() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({kind: column(kind, rng, 120) for kind in KINDS})
    model = LBARNEnsemble(n_orders=2, orders="random", **FEW).fit(frame)
    drawn = model.sample(150, random_state=0)
    for kind in KINDS:
        assert_in_column(drawn[kind], frame[kind], kind, "sample")
