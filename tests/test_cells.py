"""Training on cells gives what training on their bits gives, bit for bit, on every SIMD path."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbarn import _core
from lbarn._engine.bits import PackedBits, pack
from lbarn._engine.codetree import CodeTree, Layout
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.rows import TrainingRows

VARIANTS = {
    "fast": Boosting(),
    "three bits": Boosting(split_bits=3),
    "exact": Boosting(splits="exact"),
    "gradient": Boosting(boosting="gradient"),
    "regularised": Boosting(min_gain=0.5, l2_regularization=1.0, l1_regularization=0.1, cap=True),
    "enormous l2": Boosting(l2_regularization=1e30),
    "some features": Boosting(max_features=0.4),
    "few features": Boosting(max_features=0.02),
    "from a logistic regression": Boosting(init="linear"),
    "stumps": Boosting(max_leaf_nodes=2),
    "no split": Boosting(max_leaf_nodes=1),
    "many leaves": Boosting(max_leaf_nodes=200),
}
VARIANTS = {name: replace(how, max_iter=6, learning_rate=0.3) for name, how in VARIANTS.items()}


@dataclass
class CellTable:
    """Columns of cells, each with its intervals; plain bits lie between them, and the target is the last column."""

    cells: np.ndarray
    first: list[int]
    intervals: list[np.ndarray]
    bits: PackedBits

    @property
    def position(self) -> int:
        return self.bits.n_columns - 1

    @property
    def core(self) -> _core.CellColumns:
        sizes = [len(some) for some in self.intervals]
        every = np.concatenate([*self.intervals, np.zeros((0, 2), np.uint16)]).astype(np.uint16)
        return _core.CellColumns(
            self.cells,
            np.array(self.first, np.uint32),
            np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32),
            np.ascontiguousarray(every[:, 0]),
            np.ascontiguousarray(every[:, 1]),
        )


def thermometer(cells: int) -> np.ndarray:
    return np.stack([np.arange(1, cells), np.full(cells - 1, cells)], axis=1)


def levels(cells: int, rng: np.random.Generator) -> np.ndarray:
    """Every level against the rest, and some runs of levels, among them empty ones and all levels."""
    single = np.stack([np.arange(cells), np.arange(1, cells + 1)], axis=1)
    runs = np.sort(rng.integers(0, cells + 1, (cells, 2)), axis=1)
    return rng.permutation(np.concatenate([single, runs]))


def random_table(n: int, seed: int, columns: int = 12, largest: int = 300, plain: int = 5) -> CellTable:
    """Cells of skewed frequency, a target that depends on some of them, and all sorts of intervals."""
    rng = np.random.default_rng(seed)
    cells, first, intervals, parts = [], [], [], []
    width = 0
    for c in range(columns):
        size = int(rng.choice([2, 3, 5, 17, 60, largest]))
        x = np.minimum((rng.random(n) ** rng.choice([0.3, 1.0, 4.0]) * size).astype(np.uint16), size - 1)
        if cells and rng.random() < 0.3:
            x = np.minimum(cells[-1], size - 1).astype(np.uint16)
        kind = int(rng.integers(5))
        some = [
            thermometer(size),
            thermometer(size)[::-1],
            levels(size, rng),
            thermometer(size)[:0],
            levels(size, rng),
        ][kind]
        if c % 3 == 0:
            extra = rng.integers(0, 2, (n, plain))
            parts.append(extra)
            width += plain
        cells.append(x)
        first.append(width)
        intervals.append(some)
        parts.append((x[:, None] >= some[:, 0]) & (x[:, None] < some[:, 1]))
        width += len(some)
    score = sum(np.sin(x * rng.uniform(0.05, 0.5)) for x in cells[: columns // 2]) + parts[0][:, :1].sum(axis=1)
    parts.append((score + rng.normal(0.0, 0.5, n) > np.median(score))[:, None] if n else np.zeros((0, 1)))
    return CellTable(np.array(cells).reshape(columns, n), first, intervals, pack(np.concatenate(parts, axis=1)))


def arrays(c: Conditional) -> list[np.ndarray]:
    return [c.trees.splits, c.trees.gains, c.trees.values, c.trees.offsets, c.train_curve, c.valid_curve]


def check(table: CellTable, how: Boosting, weight: np.ndarray | None = None, position: int | None = None) -> int:
    valid = table.bits.take(np.arange(0, table.bits.n_rows, 7))
    position = table.position if position is None else position
    bits, cells = (
        Conditional.train(table.bits, valid, position, how, weight=weight, cells=given, seed=3)
        for given in (None, table.core)
    )
    for a, b in zip(arrays(bits), arrays(cells), strict=True):
        assert a.tobytes() == b.tobytes()
    return len(cells.trees.splits)


@pytest.mark.parametrize("n", [100, 1000, 5000])
@pytest.mark.parametrize("how", VARIANTS.values(), ids=VARIANTS)
def test_cells_give_the_same_trees_as_bits(simd, how, n):
    splits = [check(random_table(n, seed), how) for seed in range(4)]
    assert sum(splits) > 0 or how in (VARIANTS["no split"], VARIANTS["few features"], VARIANTS["regularised"])


@pytest.mark.parametrize("how", [VARIANTS["fast"], VARIANTS["exact"], VARIANTS["some features"]])
def test_weights_make_no_difference_to_that(simd, how):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = random_table(700, seed)
        assert check(table, how, rng.uniform(0.0, 3.0, 700)) > 0
        assert check(table, how, (rng.random(700) < 0.3).astype(float)) > 0


@settings(max_examples=80)
@given(
    n=st.integers(0, 200),
    columns=st.integers(1, 20),
    plain=st.integers(0, 3),
    how=st.sampled_from(list(VARIANTS.values())),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_tables(simd, n, columns, plain, how, seed):
    check(random_table(n, seed, columns, 40, plain), how)


def test_columns_at_and_after_the_position_are_not_looked_at(simd):
    table = random_table(300, 1)
    for position in range(0, table.position, 41):
        check(table, VARIANTS["fast"], position=position)
        check(table, VARIANTS["some features"], position=position)


def test_columns_of_many_cells_need_wider_slots(simd):
    rng = np.random.default_rng(5)
    cells = rng.integers(0, 3000, (4, 6000)).astype(np.uint16)
    table = CellTable(cells, [0, 2999, 5998, 8997], [thermometer(3000)] * 4, pack(np.zeros((1, 1))))
    parts = [x[:, None] >= np.arange(1, 3000) for x in cells]
    table.bits = pack(np.concatenate([*parts, (np.sin(cells[1] * 0.01) > rng.normal(size=6000))[:, None]], axis=1))
    assert check(table, replace(VARIANTS["fast"], max_iter=2)) > 0


def test_taking_rows_takes_their_cells(simd):
    table = random_table(900, 2)
    index = np.random.default_rng(0).integers(0, 900, 250).astype(np.int32)
    taken = replace_rows(table, index)
    given = table.core.take(index)
    valid, how = taken.bits.take(np.arange(0)), VARIANTS["fast"]
    ours = Conditional.train(taken.bits, valid, table.position, how, cells=given)
    assert arrays(ours)[0].tobytes() == arrays(Conditional.train(taken.bits, valid, table.position, how))[0].tobytes()


@pytest.mark.parametrize("how", ["fast", "exact", "some features"])
def test_columns_with_empty_values_are_learned_from_as_their_bits_are(how, simd):
    rng = np.random.default_rng(5)
    nodes = [(0, 1, 9), (1, 2, 9), (2, 8, 9), (2, 5, 8), (2, 3, 5), (3, 4, 5), (5, 6, 8), (6, 7, 8)]
    ordered = CodeTree.of(9, nodes, ordered=True, fixed={1: 9.0, 2: -9.0}, missing=True)
    named = CodeTree.of(4, [(0, 1, 4), (1, 3, 4), (1, 2, 3)], one_hot=range(4), missing=True)
    layout = Layout((ordered, named, ordered, CodeTree.of(2, [(0, 1, 2)])))
    cells = np.stack([rng.integers(0, tree.n_cells, 900) for tree in layout.columns]).astype(np.uint16)
    cells[3] = (cells[0] >= 5) | (cells[0] == 0) | (rng.random(900) < 0.1)  # empty goes with what is large
    rows = TrainingRows(layout.pack(cells.T), cells=cells, common=np.ones(4, np.uint16))
    position, valid = int(layout.first_bit[3]), rows.bits.take(np.arange(100))
    ours, theirs = (
        Conditional.train(rows.bits, valid, position, VARIANTS[how], cells=given)
        for given in (rows.cell_columns(layout, 3), None)
    )
    assert [own.tobytes() for own in arrays(ours)] == [own.tobytes() for own in arrays(theirs)]
    first = int(ours.trees.splits[0, 1])
    assert ordered.around[first], "one split says it"
    assert ordered.ones_low[first] == 5


def replace_rows(table: CellTable, index: np.ndarray) -> CellTable:
    return CellTable(np.ascontiguousarray(table.cells[:, index]), table.first, table.intervals, table.bits.take(index))


def test_the_core_refuses_cells_that_do_not_fit():
    cells, one = np.zeros((1, 4), np.uint16), np.ones(1, np.uint16)
    first, offsets = np.zeros(1, np.uint32), np.array([0, 1], np.uint32)
    fine = _core.CellColumns(cells, first, offsets, one, one)
    with pytest.raises(ValueError, match="no such row"):
        fine.take(np.array([4], np.int32))
    with pytest.raises(ValueError, match="one per row"):
        _core.WeightedRows(np.zeros((2, 8), np.uint64), 5, None, fine)
    for wrong in (
        lambda: _core.CellColumns(cells, first, offsets, one, one[:0]),
        lambda: _core.CellColumns(cells, first, offsets[:1], one, one),
        lambda: _core.CellColumns(cells, first[:0], offsets, one, one),
        lambda: _core.CellColumns(cells, first, offsets[::-1].copy(), one, one),
        lambda: _core.CellColumns(
            np.zeros((2, 4), np.uint16), np.zeros(2, np.uint32), np.array([0, 2, 1], np.uint32), one, one
        ),
    ):
        with pytest.raises(ValueError, match="do not add up"):
            wrong()
    with pytest.raises(ValueError, match="not an interval"):
        _core.CellColumns(cells, first, offsets, one, one * 0)
    with pytest.raises(ValueError, match="not an interval"):
        _core.CellColumns(cells, first, offsets, one, one * 65_535)
    with pytest.raises(ValueError, match="at most 65,535"):
        _core.CellColumns(cells + 65_535, first, offsets, one, one)
    with pytest.raises(ValueError, match="share no bit"):
        _core.CellColumns(
            np.zeros((2, 4), np.uint16),
            np.zeros(2, np.uint32),
            np.array([0, 1, 2], np.uint32),
            np.ones(2, np.uint16),
            np.ones(2, np.uint16),
        )
