"""Every column's code: cells there and back, masses that sum to 1, laws inside cells, and parts that are read again or refused."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import chisquare, kstest

from lbarn._engine.codetree import UNKNOWN, CodeTree
from lbarn._tables.codes import CategoricalCode, ColumnCode, ContinuousCode, GridCode, code_from_parts
from lbarn._tables.column import Column, of_arrow
from lbarn._tables.grids import Grid, Law, find_grid
from lbarn._tables.kinds import Coding, fit_code

RNG = np.random.default_rng(0)


def column(values: Any, **how: Any) -> Column:
    if isinstance(values, pd.Categorical):
        return of_arrow(pa.array(values), "column 0", ordered=values.ordered)
    return of_arrow(values if isinstance(values, pa.Array) else pa.array(values, from_pandas=True), "column 0", **how)


def code_of(values: Any, kind: str | None = None, **how: Any) -> ColumnCode:
    found = fit_code("column 0", column(values), kind, Coding(**how))
    assert isinstance(found, ColumnCode)
    return found


def holes(values: Any) -> list[Any]:
    return [None if k % 9 == 4 else value for k, value in enumerate(values)]


HEAPED = np.concatenate([np.full(300, 40), RNG.integers(1, 99, 300), np.full(60, 50), [0, 0, 400]])
COLUMNS: dict[str, Any] = {
    "bits": RNG.integers(0, 2, 50),
    "booleans": RNG.random(50) < 0.3,
    "bits with holes": holes(RNG.integers(0, 2, 50).tolist()),
    "heaped numbers": HEAPED,
    "numbers with holes": holes(HEAPED.tolist()),
    "decimals": np.round(RNG.normal(size=400), 2),
    "real numbers": RNG.normal(size=400),
    "real numbers with a heavy one": np.where(RNG.random(400) < 0.3, 0.0, RNG.normal(size=400)),
    "real numbers with holes": holes(RNG.normal(size=400).tolist()),
    "strings": RNG.choice(list("aabbbbcd"), 300),
    "rare strings": [*["often"] * 200, *(f"rare {k % 30}" for k in range(60))],
    "strings with holes": holes(RNG.choice(list("aabbbbcd"), 300).tolist()),
    "ordered categories": pd.Categorical(RNG.choice(["mid", "hi"], 60), ["lo", "mid", "hi", "top"], ordered=True),
    "days": pa.array(RNG.integers(18_000, 18_100, 90).astype(np.int32)).cast(pa.date32()),
    "hours": pa.array(1_600_000_000 + 3600 * RNG.integers(0, 999, 200)).cast(pa.timestamp("s", "Europe/Berlin")),
    "one value": [3.5] * 40,
    "one string": ["same"] * 40,
    "nothing": pa.array([None] * 30, pa.float64()),
    "a huge range": np.array([-1.7e308, 1.7e308, 0.0, 1e-300] * 20),
}


@pytest.fixture(params=COLUMNS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("max_cells", [4, 256])
def test_values_that_are_decoded_encode_to_their_cells(name: str, max_cells: int) -> None:
    code = code_of(COLUMNS[name], max_cells=max_cells)
    cells = np.repeat(np.flatnonzero(code.tree.drawn), 20)
    if name == "nothing":
        cells = np.zeros(20, int)
    back, inside = code.encode(code.decode(cells, np.random.default_rng(0)))
    np.testing.assert_array_equal(back, cells)
    assert np.isfinite(inside).all()


def test_training_values_come_back_from_their_place_inside_the_cell(name: str) -> None:
    own = column(COLUMNS[name])
    code = code_of(COLUMNS[name], max_cells=8)
    cells, inside = code.locate(own)
    np.testing.assert_array_equal(cells, code.encode(own)[0])
    plain = code.as_plain(own)
    again = code.from_inside(cells, inside)
    assert again.arrow().equals(plain.arrow())
    np.testing.assert_array_equal(again.missing, own.missing)


def test_the_chances_inside_cells_are_the_likelihoods_there(name: str) -> None:
    own = column(COLUMNS[name])
    code = code_of(COLUMNS[name], max_cells=8)
    cells, inside = code.locate(own)
    assert (inside is None) == (code.choices is None)
    if inside is None or code.choices is None:
        return
    symbols, (chances, starts, n_last) = inside[0], code.choices
    assert len(starts) == len(n_last) + 1 == code.n_cells + 1
    np.testing.assert_allclose(np.add.reduceat(chances, starts[:-1]), 1.0)
    if code.measure == "mass":
        there = ~own.missing
        at = starts[cells[there]] + symbols[there]
        is_last = at + 1 == starts[cells[there].astype(int) + 1]
        expected = np.log(chances[at]) - np.where(is_last, np.log(n_last[cells[there]].astype(float)), 0.0)
        np.testing.assert_allclose(code.encode(own)[1][there], expected, atol=1e-12)


def test_what_is_drawn_never_leaves_what_was_seen(name: str) -> None:
    tree = code_of(COLUMNS[name], max_cells=8).tree
    reached = {0} if tree.n_nodes else set()
    for node in range(tree.n_nodes):
        if node in reached:
            reached.update(tree.drawn_children[node].tolist())
    cells = {~end for end in reached if end < 0}
    assert not tree.n_nodes or cells == set(np.flatnonzero(tree.drawn).tolist())


def test_the_tree_leads_to_every_cell(name: str) -> None:
    tree = code_of(COLUMNS[name], max_cells=16).tree
    for cell in range(tree.n_cells):
        at, level = 0 if tree.n_nodes else ~0, 0
        while at >= 0:
            assert tree.low[at] <= cell < tree.high[at]
            assert tree.depth[at] == level < tree.n_levels
            at, level = int(tree.children[at, int(cell >= tree.cut[at])]), level + 1
        assert at == ~cell
    rows = tree.table
    assert len({tuple(row[: tree.n_nodes]) for row in rows}) == tree.n_cells, "cells differ in their bits"


def test_rows_in_cells_are_counted(name: str) -> None:
    own = column(COLUMNS[name])
    code = code_of(COLUMNS[name], max_cells=8)
    cells, _ = code.encode(own)
    np.testing.assert_array_equal(np.bincount(cells, minlength=code.n_cells), code.mass)
    weight = np.arange(len(own)) % 3 * 0.5
    weighed = fit_code("column 0", own, None, Coding(max_cells=8), weight)
    assert isinstance(weighed, ColumnCode)
    cells, _ = weighed.encode(own)
    np.testing.assert_allclose(np.bincount(cells, weight, weighed.n_cells), weighed.mass)


# ---------------------------------------------------------------------- what is likely inside a cell


def leaf_mass(code: ColumnCode) -> Any:
    """P of every cell if all learned bits are even: the fixed ones are as they are."""
    tree = code.tree
    p = np.ones(tree.n_cells)
    for k in range(tree.n_nodes):
        one = 0.5 if np.isnan(tree.fixed[k]) else 1 / (1 + np.exp(-tree.fixed[k]))
        p[tree.low[k] : tree.cut[k]] *= 1 - one
        p[tree.cut[k] : tree.high[k]] *= one
    return p


@pytest.mark.parametrize("max_cells", [3, 200])
@pytest.mark.parametrize("name", ["heaped numbers", "decimals", "numbers with holes", "one value"])
def test_masses_on_a_grid_sum_to_one(name: str, max_cells: int) -> None:
    code = code_of(COLUMNS[name], max_cells=max_cells)
    assert isinstance(code, GridCode)
    p = leaf_mass(code)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    far = 3000
    ticks = np.arange(code.law.starts[0] - far, code.law.starts[-1] + far)
    cells, inside = code.encode(code.column(code.grid.values(ticks)))
    mass = p[cells] * np.exp(inside)
    assert (mass > 0).all()
    # What is further out than that: the tail has (1 + distance / scale)^-3 left, on either side.
    rest = (1 + far / code._tail_scale) ** -3.0 * (p[code._first - 1] + p[-1])
    gone = p[0] if code.missing else 0.0
    assert mass.sum() + rest + gone == pytest.approx(1, abs=1e-9)
    for cell in range(code._first, code.n_cells - 1):
        assert np.exp(inside[cells == cell]).sum() == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("name", ["bits", "bits with holes"])
def test_masses_of_numbers_that_were_0_and_1_sum_to_one(name: str) -> None:
    code = code_of(COLUMNS[name])
    assert code.kind == "binary"
    numbers = np.arange(-3000, 3001)
    cells, inside = code.encode(column(numbers))
    np.testing.assert_array_equal(cells, (numbers > 0) + int(code.missing))
    assert (leaf_mass(code)[cells] @ np.exp(inside)) == pytest.approx(1 - leaf_mass(code)[0] * code.missing, abs=1e-9)
    assert inside[numbers == 1] > np.log(0.98)
    assert inside[numbers == 2] < np.log(0.02)
    near, far = code.encode(column([0.4, 0.6, 1e300, -1e300]))
    assert near.tolist() == [int(code.missing) + own for own in (0, 1, 1, 0)]
    assert np.isfinite(far).all()


def test_masses_of_levels_sum_to_one() -> None:
    for name in ("strings", "rare strings", "strings with holes", "one string"):
        code = code_of(COLUMNS[name], max_cells=4)
        assert isinstance(code, CategoricalCode)
        cells, inside = code.encode(
            column([*code.levels, "never seen", None] if code.missing else [*code.levels, "new"])
        )
        mass = leaf_mass(code)[cells] * np.exp(inside)
        assert (mass > 0).all()
        assert mass.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("name", ["real numbers", "real numbers with a heavy one", "real numbers with holes"])
def test_densities_integrate_to_one(name: str) -> None:
    code = code_of(COLUMNS[name], max_cells=12)
    assert isinstance(code, ContinuousCode)
    p = leaf_mass(code)

    def density(x: float) -> float:
        (cell,), (inside,) = code.encode(column([x]))
        return float(p[cell] * np.exp(inside))

    edges = code.edges
    low, high = edges[0], edges[-1]
    total = p[0] if code.missing else 0.0
    for a, b in itertools.pairwise(edges):
        single = np.nextafter(a, np.inf) >= b
        total += density(a) if single else quad(density, a, b, points=[(a + b) / 2], limit=50)[0]
    scale = (high - low) / 10
    for sign, end in ((-1, low), (1, high)):
        tail = quad(lambda t: density(end + sign * scale * (np.exp(t) - 1 + 1e-12)) * scale * np.exp(t), 0, 16)[0]  # noqa: B023
        total += tail
    assert total == pytest.approx(1, abs=1e-4)


@settings(max_examples=25)
@given(st.lists(st.integers(-40, 200), min_size=1, max_size=300), st.integers(2, 30), st.integers(0, 2**31))
def test_draws_inside_a_cell_follow_its_law(values: list[int], max_cells: int, seed: int) -> None:
    code = fit_code("x", column(values), "ordered", Coding(max_cells=max_cells, min_rows=2.0))
    assert isinstance(code, GridCode)
    law = code.law
    cell = int(np.argmax(np.diff(law.starts)))
    ticks = np.arange(law.starts[cell], law.starts[cell + 1])
    share = np.exp(law.log_share(ticks, np.full(len(ticks), cell)))
    assert share.sum() == pytest.approx(1, abs=1e-9)
    assert (share > 0).all()
    drawn = law.draw(np.full(4000, cell), np.random.default_rng(seed))
    counts = np.bincount(drawn - law.starts[cell], minlength=len(ticks))
    assert pooled_chisquare(counts, 4000 * share) > 1e-6
    between = law.draw(
        np.full(2000, cell), np.random.default_rng(seed), (float(ticks[0]), float(ticks[len(ticks) // 2]))
    )
    part = share[: len(ticks) // 2 + 1]
    counts = np.bincount(between - law.starts[cell], minlength=len(part))
    assert len(counts) == len(part)
    assert pooled_chisquare(counts, 2000 * part / part.sum()) > 1e-6
    np.testing.assert_allclose(law.share_between(float(ticks[0]), float(ticks[len(ticks) // 2]))[cell], part.sum())
    assert law.means[cell] == pytest.approx(share @ ticks)
    shares = np.linspace(0.01, 0.99, 99)
    at = law.quantile(np.full(99, cell), shares) - ticks[0]
    upto = np.append(0.0, np.cumsum(share))
    assert (upto[at + 1] > shares - 1e-9).all(), "that share is up to it"
    assert (upto[at] < shares + 1e-9).all(), "and not up to the one before it"


def pooled_chisquare(counts: Any, expected: Any) -> float:
    """The p-value, with places where little is expected taken together."""
    order = np.argsort(-np.asarray(expected))
    counts, expected = np.asarray(counts, float)[order], np.asarray(expected, float)[order]
    many = max(1, int((expected >= 5).sum()))
    counts = np.append(counts[:many], counts[many:].sum())
    expected = np.append(expected[:many], expected[many:].sum())
    kept = expected > 0
    if kept.sum() < 2:
        return 1.0
    return float(chisquare(counts[kept], expected[kept] * counts[kept].sum() / expected[kept].sum()).pvalue)


def test_draws_inside_a_cell_of_real_numbers_are_uniform() -> None:
    code = code_of(COLUMNS["real numbers"], max_cells=4)
    assert isinstance(code, ContinuousCode)
    for cell in range(code._first, code.n_cells - 1):
        low, high = code.ends[0][cell], code.ends[1][cell]
        drawn = code.decode(np.full(3000, cell), np.random.default_rng(cell)).values
        assert ((drawn >= low) & (drawn < high)).all()
        assert kstest((drawn - low) / (high - low), "uniform").pvalue > 1e-5
        np.testing.assert_allclose(code.quantiles(np.array([cell]), np.array([0.25])), low + 0.25 * (high - low))


def test_draws_of_rare_levels_follow_their_counts() -> None:
    values = [*["often"] * 200, *["one"], *["two"] * 2, *["three"] * 3]
    code = code_of(values)
    assert isinstance(code, CategoricalCode)
    assert code.rare
    cell = 1 + code.order.index(-1)
    drawn = pd.Series(code.decode(np.full(6000, cell), np.random.default_rng(0)).values.to_pylist()).value_counts()
    expected = np.array([1.5, 2.5, 3.5]) / 7.5
    assert chisquare(drawn[["one", "two", "three"]], 6000 * expected).pvalue > 1e-5


# ---------------------------------------------------------------------- far outside


@pytest.mark.parametrize("value", [1e300, -1e300, 1.79e308, -1.79e308, 5e-324, 1e18, -(2.0**63)])
@pytest.mark.parametrize("name", ["heaped numbers", "decimals", "real numbers", "one value", "a huge range"])
def test_a_number_far_outside_has_a_finite_likelihood(name: str, value: float) -> None:
    code = code_of(COLUMNS[name])
    cells, inside = code.encode(column([value]))
    assert np.isfinite(inside).all()
    assert 0 <= cells[0] < code.n_cells


def test_the_further_outside_the_less_likely() -> None:
    for name in ("heaped numbers", "real numbers"):
        code = code_of(COLUMNS[name])
        for sign in (1, -1):
            _, inside = code.encode(column(sign * np.array([1e3, 1e4, 1e6, 1e9, 1e12, 1e20, 1e100])))
            assert (np.diff(inside) < 0).all()


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 2**62, -(2**62), 10**18])
@pytest.mark.parametrize("name", ["heaped numbers", "decimals", "hours", "days"])
def test_whole_numbers_at_the_end_of_64_bits_are_outside(name: str, value: int) -> None:
    code = code_of(COLUMNS[name])
    assert isinstance(code, GridCode)
    if name in ("hours", "days"):
        own = Column("time", np.array([value]), np.zeros(1, bool), code.plain.type)
    else:
        own = column(np.array([value]))
    (cell,), (inside,) = code.encode(own)
    assert cell == (code.n_cells - 1 if value > 0 else code._first - 1)
    assert np.isfinite(inside)


def test_a_level_that_an_ordered_column_does_not_have_is_outside() -> None:
    code = code_of(COLUMNS["ordered categories"])
    cells, inside = code.encode(column(["lo", "mid", "top", "what"]))
    assert cells.tolist() == [0, 1, code.n_cells - 1, code.n_cells - 1]
    assert np.isfinite(inside).all()


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("heaped numbers", ["a", "b"], "column 0 holds 'a' .*it was numbers when the model was fitted"),
        ("heaped numbers", pd.to_datetime(["2020-01-01"]), "holds dates; it was numbers"),
        ("hours", [3, 4], "holds numbers; it was timestamp"),
        ("hours", ["what", "when"], "cannot be read as timestamp"),
        ("booleans", [0, 2], "holds 2"),
        ("bits", ["yes"], "holds 'yes'"),
        ("real numbers", [np.inf], "holds inf"),
    ],
)
def test_values_that_a_column_cannot_have_are_refused_by_name(name: str, values: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        code_of(COLUMNS[name]).encode(column(values))


def test_an_empty_cell_is_a_value_or_unknown() -> None:
    for name in COLUMNS:
        there = code_of(COLUMNS[name])
        cells, inside = there.encode(column(pa.array([None], pa.float64())))
        assert cells.tolist() == [0 if there.missing else UNKNOWN]
        assert inside.tolist() == [0.0]
        assert not code_of(COLUMNS[name], missing="unknown").missing


# ---------------------------------------------------------------------- grids


@pytest.mark.parametrize(
    ("values", "grid"),
    [
        ([1, 2, 3], Grid()),
        ([0.5, 1.25], Grid(2)),
        ([0.1, 0.2, 0.3], Grid(1)),
        ([1e9, 1e9 + 0.1], Grid(1)),
        ([1 / 3], None),
        ([1e300], None),
        ([2**61], None),
        ([-(2**63), 5], None),
        ([2**61 - 1], Grid()),
    ],
    ids=str,
)
def test_the_coarsest_decimal_grid_is_found(values: Any, grid: Grid | None) -> None:
    assert find_grid(column(values)) == grid


def test_ticks_and_values_go_there_and_back() -> None:
    for grid in (Grid(), Grid(2), Grid(0, 3600, 120), Grid(0, 86_400_000_000, 5)):
        ticks = np.array([-(2**20), -1, 0, 1, 7, 12_345])
        np.testing.assert_array_equal(grid.ticks(grid.values(ticks)), ticks)


# ---------------------------------------------------------------------- files


def test_a_code_comes_back_from_its_parts(name: str) -> None:
    code = code_of(COLUMNS[name], max_cells=16)
    again = code_from_parts(*code.to_parts())
    own = column(COLUMNS[name])
    for a, b in zip(code.encode(own), again.encode(own)):
        np.testing.assert_array_equal(a, b)
    cells = np.repeat(np.flatnonzero(code.tree.drawn), 3)
    drawn = [each.decode(cells, np.random.default_rng(0)).arrow() for each in (code, again)]
    assert drawn[0].equals(drawn[1])
    head, tensors = code.to_parts()
    head_again, tensors_again = again.to_parts()
    assert head_again == head
    assert all(np.array_equal(tensors_again[key], tensors[key]) for key in tensors)


def spoiled(array: Any) -> list[Any]:
    """The array in ways that no code has it."""
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    ways: list[Any] = [single, array[None], array[:-1], np.append(array, array[-1:], axis=0)]
    if array.size:
        for value in (-1, 2**62, -(2**62), np.nan, np.inf):
            if array.dtype.kind == "i" and not np.isfinite(value):
                continue
            for at in (0, array.size // 2, array.size - 1):
                changed = array.copy()
                with np.errstate(all="ignore"):
                    changed.flat[at] = np.array(value).astype(array.dtype)
                ways.append(changed)
        if len(array) > 1:
            ways.append(array[::-1].copy())
    return ways


def test_damaged_parts_are_refused_or_make_sense(name: str) -> None:
    """A ValueError, or a code that does all that a code does."""
    code = code_of(COLUMNS[name], max_cells=6)
    head, tensors = code.to_parts()
    refused = 0
    for key in tensors:
        for array in [*spoiled(tensors[key]), None]:
            parts = {other: value.copy() for other, value in tensors.items()}
            if array is None:
                del parts[key]
            else:
                parts[key] = array
            refused += is_refused(head, parts)
    for key in head:
        for value in (None, -1, 3, "x", "time", "number", "int64", [], [1], ["a", "a"], {}, True, float("nan")):
            if value != head[key]:
                refused += is_refused({**copy.deepcopy(head), key: value}, tensors)
    assert refused > 20


def is_refused(head: Any, tensors: Any) -> bool:
    try:
        code = code_from_parts(head, tensors)
    except (ValueError, KeyError, TypeError):  # what whoever reads a file expects
        return True
    cells = np.flatnonzero(code.tree.drawn)
    drawn = code.decode(np.repeat(cells, 3), np.random.default_rng(0))
    drawn.arrow()
    _, inside = code.encode(drawn)
    assert np.isfinite(inside).all()
    code.told_range()
    code.peaks[1].arrow()
    return False


def test_a_tree_is_of_intervals() -> None:
    tree = CodeTree.of(4, [(0, 1, 4), (1, 3, 4), (1, 2, 3)], ordered=True)
    assert tree.table.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 1, 1]]
    other = CodeTree.of(4, [(0, 1, 4), (1, 3, 4), (1, 2, 3)], one_hot=range(4))
    assert other.table.tolist() == [[0, 0, 0, 1, 0], [1, 0, 0, 0, 1], [1, 0, 1, 0, 0], [1, 1, 0, 0, 0]]


def test_an_empty_value_is_on_either_side_of_the_cuts_of_an_ordered_column() -> None:
    for name in ("bits with holes", "numbers with holes", "real numbers with holes"):
        tree = code_of(COLUMNS[name], max_cells=16).tree
        twice = np.flatnonzero(tree.table[0])
        assert (twice >= tree.n_nodes).all(), "what nodes say of an empty value is that it is none of theirs"
        cuts = tree.cut[np.isnan(tree.fixed) & (tree.cut > 1)]
        assert sorted(tree.ones_low[twice]) == sorted(cuts)
        assert len(cuts)
        for bit in twice:
            (usual,) = np.flatnonzero(tree.cut == tree.ones_low[bit])
            assert (tree.table[1:, bit] == tree.table[1:, usual]).all()


def test_of_many_cuts_the_upper_ones_are_there_twice() -> None:
    tree = code_of(holes(range(4000))).tree
    twice = np.flatnonzero(tree.around)
    assert tree.n_nodes > 100
    assert len(twice) == 31
    depth = {int(cut): int(level) for cut, level in zip(tree.cut, tree.depth)}
    level = max(depth[int(cut)] for cut in tree.ones_low[twice])
    rest = [own for own, odds in zip(tree.cut, tree.fixed) if np.isnan(odds) and own not in {1, *tree.ones_low[twice]}]
    assert all(depth[int(cut)] >= level for cut in rest)


def test_a_law_without_values_seen_is_uniform() -> None:
    law = Law(np.array([0, 4]), np.zeros(0, np.int64), np.zeros(0), np.zeros(1))
    np.testing.assert_allclose(np.exp(law.log_share(np.arange(4), np.zeros(4, int))), 0.25)
    assert set(law.draw(np.zeros(100, int), np.random.default_rng(0))) == {0, 1, 2, 3}
    assert law.share_between(1, 2)[0] == 0.5
