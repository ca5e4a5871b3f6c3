"""Trees that all pixels of images share, learned from their neighbourhoods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lbarn
from lbarn import LBARN, LBARNEnsemble
from lbarn._engine.bits import pack
from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Boosting
from lbarn._engine.rows import TrainingData, TrainingRows
from lbarn._engine.sharedtrees import ONE, ZERO, SharedTrees
from lbarn._training.neighbours import learn_together, neighbourhoods
from lbarn._training.order import scans
from networks import all_states, assert_same_network, still_rising
from test_gather import random_trees

pytestmark = still_rising

SHAPE = (5, 4)
FEW = {"image_shape": SHAPE, "max_iter": 20, "learning_rate": 0.3, "random_state": 0}


def stripes(n: int, shape: tuple[int, int] = SHAPE, seed: int = 0) -> NDArray[np.uint8]:
    """Images in which every pixel tends to be what those above it and left of it make of it, by the same rule everywhere."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, shape[0] + 1, shape[1] + 1), np.uint8)
    for row in range(1, shape[0] + 1):
        for column in range(1, shape[1] + 1):
            above, left = X[:, row - 1, column], X[:, row, column - 1]
            X[:, row, column] = rng.random(n) < np.where(above ^ left, 0.9, 0.2)
    return X[:, 1:, 1:].reshape(n, -1)


def in_words(n: int, order: NDArray[np.intp], weight: NDArray[np.float64] | None = None, **bits: Any) -> TrainingData:
    X = bits.get("X", stripes(n))
    rows = TrainingRows(pack(X), weight=weight).in_order(order, Layout.binary(X.shape[1]))
    return TrainingData(
        Layout.binary(X.shape[1]),
        rows,
        TrainingRows(pack(stripes(320, seed=1))).in_order(order, Layout.binary(X.shape[1])),
        0,
    )


# ---------------------------------------------------------------------- neighbourhoods


@pytest.mark.parametrize("scan", range(8))
def test_a_neighbourhood_has_the_pixels_around_that_come_before_and_where_the_pixel_is(scan: int) -> None:
    order = scans(*SHAPE)[scan]
    features = neighbourhoods(order, SHAPE)
    assert features is not None
    height, width = SHAPE
    n_around = features.shape[1] - (height - 1) - (width - 1)
    assert n_around == (2 * height - 1) * (2 * width - 1) // 2  # half of all directions
    for place, pixel in enumerate(order):
        around, where = features[place, :n_around], features[place, n_around:]
        assert (around < place).all()
        assert sorted(around[around >= 0]) == list(range(place))  # a small image: nothing is too far away
        row, column = divmod(int(pixel), width)
        assert (where == ONE).sum() == row + column
        assert set(where) <= {ZERO, ONE}


def test_a_feature_is_the_same_direction_for_every_pixel() -> None:
    order = scans(*SHAPE)[3]
    features = neighbourhoods(order, SHAPE)
    assert features is not None
    row, column = np.divmod(order, SHAPE[1])
    for feature in features.T:
        there = np.flatnonzero(feature >= 0)
        steps = {(row[feature[p]] - row[p], column[feature[p]] - column[p]) for p in there}
        assert len(steps) <= 1


def test_far_pixels_are_no_neighbours() -> None:
    features = neighbourhoods(np.arange(1600), (40, 40))
    assert features is not None
    distance = np.arange(1600)[:, None] // 40 - features // 40
    assert distance[features >= 0].max() == 10


@pytest.mark.parametrize("size", [(4, 4), (1, 16), (28, 28)])
def test_an_order_that_jumps_about_has_no_neighbourhoods(size: tuple[int, int]) -> None:
    order = np.random.default_rng(0).permutation(size[0] * size[1])
    assert neighbourhoods(order, size) is None


def test_images_of_one_line_have_neighbours_too() -> None:
    features = neighbourhoods(np.arange(4), (1, 4))
    assert features is not None
    assert features[3].tolist() == [0, 1, 2, ONE, ONE, ONE]
    assert neighbourhoods(np.arange(1), (1, 1)) is None


# ---------------------------------------------------------------------- shared trees


def test_the_trees_of_a_place_say_what_the_shared_ones_say_of_its_features() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (300, 40))
    trees = random_trees(25, 30, 16, seed=1)
    known = rng.choice([ZERO, ONE], (10, 25))
    features = np.where(rng.random((10, 25)) < 0.4, known, rng.integers(0, 40, (10, 25))).astype(np.int32)
    features[0], features[1] = ZERO, ONE  # nothing is left to look at
    features[2] = np.arange(25)
    shared = SharedTrees(trees, features)
    for place, own in enumerate(features):
        seen = np.where(own >= 0, X[:, np.maximum(own, 0)], own == ONE)
        expected = trees.log_odds(pack(seen).columns, len(X))
        found = shared.at(place)
        found.check(40)
        np.testing.assert_array_equal(found.log_odds(pack(X).columns, len(X)), expected)
        assert len(found.splits) <= len(trees.splits)
    assert len(shared.at(0).splits) == len(shared.at(1).splits) == 0
    np.testing.assert_array_equal(shared.at(2).splits, trees.splits)


def test_rows_without_weight_teach_nothing() -> None:
    how, order = Boosting(max_iter=10, split_bits=3), np.arange(20)
    features = neighbourhoods(order, SHAPE)
    assert features is not None
    X, other = stripes(640), stripes(640)
    weight = np.ones(640)
    weight[::3] = 0
    other[::3] ^= 1
    both = [learn_together(in_words(640, order, weight, X=own), features, how, 1) for own in (X, other)]
    assert len(both[0]) > 0
    np.testing.assert_array_equal(both[0].trees.values, both[1].trees.values)


@pytest.mark.parametrize("n", [3, 63, 64, 100, 5000])
def test_every_image_is_learned_from_and_what_is_beyond_the_last_is_not(n: int) -> None:
    features = neighbourhoods(np.arange(20), SHAPE)
    assert features is not None
    found = learn_together(in_words(n, np.arange(20)), features, Boosting(max_iter=5, splits="exact"), 1)
    twice = learn_together(
        in_words(n, np.arange(20), X=np.tile(stripes(n), (64, 1))), features, Boosting(splits="exact"), 1
    )
    assert len(found) > 0
    if n < 4096:  # of many, the last few are left out
        np.testing.assert_array_equal(found.trees.splits[:5], twice.trees.splits[:5])


def test_of_large_images_a_few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_MOST_ROWS", "_MOST_VALID"):
        monkeypatch.setattr(f"lbarn._training.neighbours.{name}", 1)
    features = neighbourhoods(np.arange(20), SHAPE)
    assert features is not None
    assert len(learn_together(in_words(640, np.arange(20)), features, Boosting(max_iter=5), 1)) > 0


# ---------------------------------------------------------------------- networks


def test_pixels_that_follow_one_rule_are_learned_better_together() -> None:
    X, test = stripes(400), stripes(2000, seed=2)
    apart, together = (LBARN(image_shape=SHAPE, neighbours=own, random_state=0).fit(X) for own in (False, True))
    chosen = LBARN(image_shape=SHAPE, random_state=0).fit(X)
    assert together.score(test) > apart.score(test) + 0.1
    assert_same_network(chosen, together)


def test_what_does_not_validate_better_is_left_out() -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((900, 20)) < rng.random(20)).astype(np.uint8)  # every pixel on its own, each with another rate
    assert LBARN(image_shape=SHAPE, random_state=0).fit(X).run_.n_shared == 0


def test_probabilities_of_all_images_add_up_to_1() -> None:
    model = LBARN(**FEW | {"image_shape": (3, 3), "neighbours": True}).fit(stripes(400, (3, 3)))
    assert model.run_.n_shared > 0
    assert np.exp(model.score_samples(all_states(9))).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("scan", [0, 1, 6])
def test_a_fit_does_not_depend_on_jobs(scan: int) -> None:
    X, order = stripes(300), scans(*SHAPE)[scan]
    one, two = (LBARN(**FEW, neighbours=True, order=order, n_jobs=jobs).fit(X) for jobs in (1, 2))
    assert one.run_.n_shared > 0
    assert_same_network(one, two)


def test_a_fit_that_is_continued_is_the_same_as_a_longer_one(tmp_path: Path) -> None:
    X = stripes(300)
    whole = LBARN(**FEW, neighbours=True).fit(X)
    short = LBARN(**FEW | {"max_iter": 7}, neighbours=True, warm_start=True).fit(X, checkpoint=tmp_path / "a")
    assert_same_network(short.set_params(max_iter=20).fit(X), whole)
    with pytest.raises(ValueError, match="max_iter=5 is less than the 20 rounds"):
        short.set_params(max_iter=5).fit(X)
    LBARN(**FEW, neighbours=True).fit(X, checkpoint=tmp_path / "b")
    assert_same_network(LBARN(**FEW, neighbours=True).fit(X, checkpoint=tmp_path / "b"), whole)


def test_refitting_leaves_the_shared_trees_as_they_are() -> None:
    X = stripes(400)
    plain, renewed = (LBARN(**FEW, neighbours=True, refit=refit).fit(X) for refit in (False, True))
    n, later = renewed.run_.n_shared, 0
    for before, after in zip(plain.run_.trees, renewed.run_.trees):
        np.testing.assert_array_equal(before.head(n).values, after.head(n).values)
        later += (before.values != after.values).sum()
    assert later > 0


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    X = stripes(400)
    model = LBARN(**FEW, neighbours=True).fit(X)
    model.save(tmp_path / "a.lbarn")
    again = lbarn.load(tmp_path / "a.lbarn")
    assert isinstance(again, LBARN)
    assert_same_network(model, again)
    assert again.run_.n_shared == model.run_.n_shared > 0
    assert_same_network(model.refit_leaves(X[:200]), again.refit_leaves(X[:200]))
    assert (again.decompress(model.compress(X)) == X).all()
    assert (model.sample(50, random_state=0) == again.sample(50, random_state=0)).all()


def test_averaged_networks_keep_shared_trees() -> None:
    X = stripes(400)
    model = LBARNEnsemble(**FEW, neighbours=True, n_orders=2, n_bags=2).fit(X)
    for member in model.members_:
        run = member.run_
        assert run.n_shared > 0
        before = [own.trees.head(own.n_start).values for own in run.conditionals]
        member.refit_leaves(X)
        for values, own, conditional in zip(before, member.run_.trees, run.conditionals):
            np.testing.assert_array_equal(values, own.head(conditional.n_start).values)


def test_tuning_begins_with_shared_trees() -> None:
    model = lbarn.tune(stripes(400), minutes=0.02, image_shape=SHAPE, random_state=0, verbose=0)
    assert model.neighbours is True
    assert model.run_.n_shared > 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"image_shape": (3, 3)}, r"image_shape=\(3, 3\) has 9 pixels, but X has 20 columns"),
        ({"image_shape": (20,)}, "two whole numbers"),
        ({"neighbours": True, "order": "random"}, "an order that reads images line by line"),
        ({"neighbours": True, "init": "linear"}, "init='half'"),
    ],
)
def test_what_cannot_be_is_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LBARN(**FEW | parameters).fit(stripes(100))


def test_images_of_many_colours_are_learned_pixel_by_pixel() -> None:
    X = np.random.default_rng(0).integers(0, 5, (200, 20))
    assert LBARN(**FEW).fit(X).run_.n_shared == 0
    with pytest.raises(ValueError, match="columns of 0 and 1"):
        LBARN(**FEW, neighbours=True).fit(X)
