"""No trees that are out of bounds are ever walked, wherever they come from."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lbarn import _core
from lbarn._engine.bits import pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._engine.trees import Trees

POSITION = 20
HOW = Boosting(max_leaf_nodes=8, learning_rate=0.3, max_iter=6)


def table() -> np.ndarray:
    X = np.random.default_rng(0).integers(0, 2, (700, POSITION + 3))
    X[:, POSITION] = X[:, 3] & X[:, 11] | X[:, 5]
    return X


BITS = pack(table())
TRAINED = Conditional.train(BITS, BITS, POSITION, HOW)


def altered(name: str, change: Callable[[np.ndarray], None]) -> Trees:
    array = getattr(TRAINED.trees, name).copy()
    change(array)
    return replace(TRAINED.trees, **{name: array})


def put(name: str, at: object, value: float) -> Trees:
    return altered(name, lambda array: array.__setitem__(at, value))


OFFSETS = TRAINED.trees.offsets
BROKEN = {
    "a leaf of a later split": (put("splits", (0, 0), 1), "a leaf that does not exist"),
    "a leaf of another tree": (put("splits", (OFFSETS[1] + 2, 0), 3), "a leaf that does not exist"),
    "the last leaf there can be": (put("splits", (3, 0), 65_535), "a leaf that does not exist"),
    "leaves everywhere": (put("splits", (slice(None), 0), 60_000), "a leaf that does not exist"),
    "offsets that do not start at 0": (put("offsets", 0, 1), "do not add up"),
    "a negative offset": (put("offsets", 2, -5), "do not add up"),
    "descending offsets": (put("offsets", 2, OFFSETS[1] - 1), "do not add up"),
    "an offset beyond the end": (put("offsets", 2, 2**62), "do not add up"),
    "a last offset short of the end": (put("offsets", -1, OFFSETS[-1] - 1), "do not add up"),
    "a leaf too large": (put("values", 0, 2**31 - 1), "too large"),
    "the integer without an opposite": (put("values", 0, -(2**31)), "too large"),
    "large leaves in all trees": (put("values", slice(None), 2**30), "too large"),
    "too few values": (replace(TRAINED.trees, values=TRAINED.trees.values[:-1]), "do not add up"),
    "too few splits": (replace(TRAINED.trees, splits=TRAINED.trees.splits[1:]), "do not add up"),
    "too few gains": (replace(TRAINED.trees, gains=TRAINED.trees.gains[1:]), "do not add up"),
    "no offsets": (replace(TRAINED.trees, offsets=OFFSETS[:0]), "shape"),
    "splits of three": (replace(TRAINED.trees, splits=np.zeros((len(TRAINED.trees.splits), 3), np.uint16)), "shape"),
    "flat splits": (replace(TRAINED.trees, splits=TRAINED.trees.splits.ravel()), "type or shape"),
    "splits of another type": (replace(TRAINED.trees, splits=TRAINED.trees.splits.astype(np.int64)), "type or shape"),
    "values that are not whole": (replace(TRAINED.trees, values=TRAINED.trees.values + 0.5), "type or shape"),
    "no limit at all": (replace(TRAINED.trees, limit=0), "limit"),
    "a negative limit": (replace(TRAINED.trees, limit=-(2**31)), "limit"),
    "a limit beyond 31 bits": (replace(TRAINED.trees, limit=2**31), "type or shape"),
    "a tree of 65,536 leaves": (
        Trees(
            np.zeros((65_535, 2), np.uint16),
            np.zeros(65_535, np.float32),
            np.zeros(65_536, np.int32),
            np.array([0, 65_535]),
        ),
        "65,535 leaves",
    ),
}
LATER = {"its own column": POSITION, "the next column": POSITION + 1, "the last there can be": 65_535}


@pytest.mark.parametrize(("trees", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_trees_are_refused_by_every_way_into_the_core(trees, message):
    broken = replace(TRAINED, trees=trees)
    for use in (
        lambda: trees.check(POSITION),
        lambda: trees.log_odds(BITS.columns, BITS.n_rows),
        lambda: broken.extend(BITS, BITS, replace(HOW, max_iter=9)),
        lambda: broken.refit(BITS, HOW),
        lambda: broken.curve(BITS),
    ):
        with pytest.raises(ValueError, match=message):
            use()


@pytest.mark.parametrize("column", LATER.values(), ids=LATER)
def test_trees_that_split_on_columns_from_the_position_on_are_refused(column):
    trees = put("splits", (-1, 1), column)
    broken = replace(TRAINED, trees=trees)
    with pytest.raises(ValueError, match="comes later in the order"):
        trees.check(POSITION)
    for use in (
        lambda: broken.extend(BITS, BITS, replace(HOW, max_iter=9)),
        lambda: broken.refit(BITS, HOW),
        lambda: broken.curve(BITS),
    ):
        with pytest.raises(ValueError, match="at or after the position"):
            use()


def test_trees_that_split_on_columns_that_are_not_there_are_refused():
    last = int(TRAINED.trees.splits[:, 1].max())
    assert len(TRAINED.trees.log_odds(BITS.columns[: last + 1], BITS.n_rows)) == BITS.n_rows
    with pytest.raises(ValueError, match="not there"):
        TRAINED.trees.log_odds(BITS.columns[:last], BITS.n_rows)


def test_trees_at_the_bounds_are_walked(simd):
    n = 65_534
    splits = np.zeros((n, 2), np.uint16)
    splits[:, 0] = np.arange(n)
    splits[:, 1] = np.arange(n) % BITS.n_columns
    values = np.zeros(n + 1, np.int32)
    values[[0, -1]] = -(2**31 - 1), 2**31 - 1
    trees = Trees(splits, np.zeros(n, np.float32), values, np.array([0, n]))
    trees.check(BITS.n_columns)
    X = BITS.unpack()
    expected = np.where(X[:, 0] == 0, -(2**31 - 1), np.where(X.all(axis=1), 2**31 - 1, 0))
    np.testing.assert_array_equal(trees.log_odds(BITS.columns, BITS.n_rows), expected)


def test_a_gain_that_is_not_a_number_fails_the_check():
    for gain in (np.nan, np.inf):
        with pytest.raises(ValueError, match="gain"):
            put("gains", 0, gain).check(POSITION)


def test_what_training_gives_passes_the_check_whole_and_in_part():
    Trees.empty().check(0)
    for count in range(len(TRAINED.trees) + 1):
        TRAINED.trees.head(count).check(POSITION)
    TRAINED.refit(BITS, HOW).trees.check(POSITION)


def test_pickling_leaves_the_cores_object_behind():
    assert TRAINED.trees.core is TRAINED.trees.core  # checked once
    again = pickle.loads(pickle.dumps(TRAINED.trees))
    assert "core" not in vars(again)
    np.testing.assert_array_equal(
        again.log_odds(BITS.columns, BITS.n_rows), TRAINED.trees.log_odds(BITS.columns, BITS.n_rows)
    )


def test_entropies_are_refused_for_columns_that_are_picked_or_not_there():
    columns, n = BITS.columns, BITS.n_rows
    with pytest.raises(ValueError, match="same columns"):
        _core.ConditionalEntropies(columns, n, columns[:-1], n, 0)
    state = _core.ConditionalEntropies(columns, n, columns, n, 0)
    state.pick(4)
    for column in (4, BITS.n_columns):
        with pytest.raises(ValueError, match="picked, or not there"):
            state.pick(column)
        with pytest.raises(ValueError, match="picked, or not there"):
            state.update([column])
