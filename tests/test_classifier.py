"""The classifier is Bayes' rule over networks that each know one class; it can be saved, and refuses what it cannot do."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.naive_bayes import BernoulliNB
from sklearn.utils.estimator_checks import parametrize_with_checks

import lbarn
import networks
from fit_process import finished_dimensions
from lbarn import LBARN, CheckpointError, LBARNClassifier, ModelFileError
from lbarn.baselines import IndependentBits
from mutations import mutate_bytes, mutate_meaning, put_together, take_apart
from networks import all_states, assert_same_network, rows, still_rising

pytestmark = still_rising

DEFAULTS = {"selection": "common", "l2_regularization": 3.0}  # of version 0.1, where they differed from LBARN's


def labelled(n: int, seed: int = 0, n_columns: int = 6) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Two classes that differ in how their bits hang together, and a rare third one of few ones."""
    X = rows(n, n_columns, seed)
    rng = np.random.default_rng(seed + 100)
    y = np.array(["chain", "mirror", "rare"])[rng.choice(3, n, p=[0.5, 0.4, 0.1])]
    X[y == "mirror"] = X[y == "mirror", ::-1]
    X[y == "rare"] &= X[y == "rare", ::-1]
    return X, y


X, Y = labelled(400)
VALID, Y_VALID = labelled(150, seed=1)
TEST, Y_TEST = labelled(200, seed=2)


def alone(**parameters: Any) -> LBARN:
    """The network of one class."""
    return networks.quick(**{**DEFAULTS, **parameters})


def quick(**parameters: Any) -> LBARNClassifier:
    return LBARNClassifier(alone(**parameters))


def assert_same_classifier(a: LBARNClassifier, b: LBARNClassifier) -> None:
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_array_equal(a.class_prior_, b.class_prior_)
    for left, right in zip(a.networks_, b.networks_, strict=True):
        assert type(left) is type(right)
        if isinstance(left, LBARN):
            assert_same_network(left, right)
    np.testing.assert_array_equal(a.predict_joint_log_proba(TEST), b.predict_joint_log_proba(TEST))


EXCUSED = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "rows are held out one by one: a row repeated is partly held out, a row of weight 2 is held out or not",
)


@parametrize_with_checks([quick(binarize=0.0, max_iter=8)], expected_failed_checks=lambda _: EXCUSED)
def test_scikit_learns_own_checks_pass(estimator: LBARNClassifier, check: Any) -> None:
    check(estimator)


def test_it_clones_its_estimator_which_stays_unfitted() -> None:
    network = alone(order="random")
    model = LBARNClassifier(network).fit(X, Y)
    assert model.estimator is network
    assert not hasattr(network, "network_")
    assert all(own.get_params() == network.get_params() for own in model.networks_)
    for wrong in (3, "LBARN", BernoulliNB()):
        with pytest.raises(ValueError, match="The 'estimator' parameter of LBARNClassifier"):
            LBARNClassifier(wrong).fit(X, Y)


def test_without_an_estimator_networks_are_regularized() -> None:
    assert LBARNClassifier().get_params() == {"estimator": None, "method": "generative"}
    expected = LBARN(l2_regularization=3.0).get_params()
    for network in LBARNClassifier().fit(X[:60], Y[:60] == "mirror").networks_:
        assert network.get_params() == expected


def test_a_class_may_have_an_ensemble(tmp_path: Path) -> None:
    ensemble = networks.quick_ensemble(n_orders=2, max_iter=6)
    model = LBARNClassifier(ensemble).fit(X, Y)
    for k, label in enumerate(model.classes_):
        expected = clone(ensemble).fit(X[label == Y]).score_samples(TEST) + np.log(model.class_prior_[k])
        np.testing.assert_array_equal(model.predict_joint_log_proba(TEST)[:, k], expected)
    model.save(tmp_path / "model")
    copy = lbarn.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(TEST), model.predict_proba(TEST))
    assert repr(copy.estimator) == repr(ensemble)
    assert clone(copy).fit(X, Y).predict(TEST).tolist() == model.predict(TEST).tolist()


class TestBayes:
    @pytest.mark.parametrize("order", ["given", "random", "entropy-decreasing", [3, 1, 5, 0, 2, 4]], ids=str)
    def test_probabilities_follow_from_the_networks_and_the_prior(self, order: Any) -> None:
        model = quick(order=order, refit=True).fit(X, Y)
        assert list(model.classes_) == ["chain", "mirror", "rare"]
        np.testing.assert_allclose(model.class_prior_, [(c == Y).mean() for c in model.classes_])
        joint = np.column_stack([network.score_samples(TEST) for network in model.networks_])
        joint += np.log(model.class_prior_)
        np.testing.assert_allclose(model.predict_joint_log_proba(TEST), joint, atol=1e-12)
        posterior = joint - logsumexp(joint, axis=1, keepdims=True)
        np.testing.assert_allclose(model.predict_log_proba(TEST), posterior, atol=1e-12)
        np.testing.assert_allclose(model.predict_proba(TEST), np.exp(posterior), atol=1e-12)
        np.testing.assert_array_equal(model.predict(TEST), model.classes_[joint.argmax(axis=1)])
        assert model.score(TEST, Y_TEST) == np.mean(model.predict(TEST) == Y_TEST)

    def test_the_joint_probabilities_of_all_rows_and_classes_sum_to_one(self) -> None:
        model = quick().fit(X, Y)
        assert np.exp(model.predict_joint_log_proba(all_states(6))).sum() == pytest.approx(1.0, abs=1e-5)

    def test_it_sees_what_bits_say_together_and_naive_bayes_does_not(self) -> None:
        bits = np.random.default_rng(0).integers(0, 2, (600, 5))
        odd = bits[:, 0] ^ bits[:, 4]
        model = quick().fit(bits[:400], odd[:400])
        assert model.score(bits[400:], odd[400:]) == 1.0
        assert BernoulliNB().fit(bits[:400], odd[:400]).score(bits[400:], odd[400:]) < 0.7

    def test_one_class_is_certain(self) -> None:
        model = quick().fit(X, np.full(len(X), 7))
        np.testing.assert_array_equal(model.predict(TEST), 7)
        np.testing.assert_array_equal(model.predict_proba(TEST), 1.0)

    def test_the_number_of_jobs_changes_nothing(self) -> None:
        assert_same_classifier(quick(n_jobs=2).fit(X, Y), quick().fit(X, Y))


def test_scikit_learn_can_calibrate_it() -> None:
    calibrated = CalibratedClassifierCV(quick(), cv=2).fit(X, Y)
    np.testing.assert_allclose(calibrated.predict_proba(TEST).sum(axis=1), 1)


class TestEveryClassByItself:
    def test_has_the_network_of_its_own_rows_and_so_a_hold_out_of_its_own(self) -> None:
        model = quick(order="random", validation_fraction=0.3).fit(X, Y)
        for label, network in zip(model.classes_, model.networks_):
            assert_same_network(network, alone(order="random", validation_fraction=0.3).fit(X[label == Y]))

    def test_is_validated_on_its_own_rows_of_x_val(self) -> None:
        model = quick().fit(X, Y, X_val=VALID, y_val=Y_VALID)
        for label, network in zip(model.classes_, model.networks_):
            assert_same_network(network, alone().fit(X[label == Y], X_val=VALID[label == Y_VALID]))

    def test_holds_out_rows_where_x_val_has_none_of_it(self) -> None:
        known = Y_VALID != "rare"
        model = quick().fit(X, Y, X_val=VALID[known], y_val=Y_VALID[known])
        assert_same_network(model.networks_[0], alone().fit(X[Y == "chain"], X_val=VALID[Y_VALID == "chain"]))
        assert_same_network(model.networks_[2], alone().fit(X[Y == "rare"]))

    @pytest.mark.parametrize(("n", "kind"), [(1, IndependentBits), (9, IndependentBits), (10, LBARN)])
    def test_gets_independent_bits_below_ten_rows(self, n: int, kind: type) -> None:
        small = np.concatenate([np.flatnonzero(Y == "chain"), np.flatnonzero(Y == "rare")[:n]])
        model = quick().fit(X[small], Y[small])
        assert [type(network) for network in model.networks_] == [LBARN, kind]
        if kind is IndependentBits:
            p = (X[small[-n:]].sum(axis=0) + 0.5) / (n + 1)
            expected = np.where(TEST == 1, np.log(p), np.log(1 - p)).sum(axis=1)
            np.testing.assert_allclose(model.networks_[1].score_samples(TEST), expected, atol=1e-4)

    def test_gets_independent_bits_where_the_fraction_holds_out_none(self) -> None:
        kinds = [type(network) for network in quick(validation_fraction=0.01).fit(X, Y).networks_]
        assert kinds == [LBARN, LBARN, IndependentBits]


class TestWeights:
    def test_decide_the_prior_and_go_to_the_networks(self) -> None:
        weight = np.where(Y == "rare", 5.0, 1.0) + np.arange(len(Y)) % 3
        model = quick().fit(X, Y, sample_weight=weight)
        expected = [weight[label == Y].sum() / weight.sum() for label in model.classes_]
        np.testing.assert_allclose(model.class_prior_, expected)
        for label, network in zip(model.classes_, model.networks_):
            assert_same_network(network, alone().fit(X[label == Y], sample_weight=weight[label == Y]))

    def test_rows_without_weight_are_not_there(self) -> None:
        weight = (np.arange(len(Y)) % 4 > 0) & (Y != "rare")
        assert_same_classifier(quick().fit(X, Y, sample_weight=weight), quick().fit(X[weight], Y[weight]))

    def test_count_in_small_classes_too_whatever_their_unit(self) -> None:
        small = np.concatenate([np.flatnonzero(Y == "chain"), np.flatnonzero(Y == "rare")[:5]])
        weight = 1.0 + np.arange(len(small)) % 2
        of_class = weight[-5:, None] / weight[-5:].mean()
        p = ((X[small[-5:]] * of_class).sum(axis=0) + 0.5) / 6
        expected = np.where(TEST == 1, np.log(p), np.log(1 - p)).sum(axis=1)
        for unit in (1.0, 1e-300, 1e308 / 2):
            model = quick().fit(X[small], Y[small], sample_weight=weight * unit)
            np.testing.assert_allclose(model.networks_[1].score_samples(TEST), expected, atol=1e-4)
            assert model.class_prior_.sum() == pytest.approx(1.0)


class TestMissingBits:
    def test_a_row_is_classified_by_the_bits_that_it_has(self) -> None:
        model = quick(order="random").fit(X, Y)
        holes = TEST[:20].astype(float)
        holes[np.random.default_rng(0).random(holes.shape) < 0.4] = np.nan
        joint = model.predict_joint_log_proba(all_states(6))
        for row, found in zip(holes, model.predict_joint_log_proba(holes)):
            agrees = (np.isnan(row) | (all_states(6) == row)).all(axis=1)
            np.testing.assert_allclose(found, logsumexp(joint[agrees], axis=0), atol=1e-5)

    def test_nothing_known_leaves_the_prior(self) -> None:
        model = quick().fit(X, Y)
        np.testing.assert_allclose(model.predict_proba(np.full((1, 6), np.nan))[0], model.class_prior_, atol=1e-5)

    def test_the_last_ones_of_the_order_cost_nothing_and_are_exact(self) -> None:
        wide, y = labelled(300, n_columns=40)
        order = list(range(40))[::-1]
        model = quick(order=order).fit(wide, y)
        holes = wide[:30].astype(float)
        for i, row in enumerate(holes):
            row[: i + 5] = np.nan  # the reversed order's last ones
        joint = [-np.where(np.isnan(holes), 0, n.surprise(wide[:30])).sum(axis=1) for n in model.networks_]
        expected = np.column_stack(joint) + np.log(model.class_prior_)
        np.testing.assert_allclose(model.predict_joint_log_proba(holes), expected, atol=1e-6)

    def test_many_are_estimated_and_the_same_every_time(self) -> None:
        wide, y = labelled(300, n_columns=20)
        model = quick().fit(wide, y)
        holes = wide[:5].astype(float)
        holes[:, ::2] = np.nan
        holes[:, 1:8:2] = np.nan
        found = model.predict_log_proba(holes)
        np.testing.assert_array_equal(model.predict_log_proba(holes), found)
        marginal = np.column_stack([n.log_marginal(holes, n_particles=20_000, random_state=1) for n in model.networks_])
        marginal += np.log(model.class_prior_)
        np.testing.assert_allclose(found, marginal - logsumexp(marginal, axis=1, keepdims=True), atol=0.2)

    def test_may_be_in_training_rows_of_large_and_small_classes(self) -> None:
        holes = X.astype(float)
        holes[::5, 2] = np.nan
        small = np.concatenate([np.flatnonzero(Y == "chain"), np.flatnonzero(Y == "rare")[:6]])
        model = quick().fit(holes[small], Y[small])
        assert_same_network(model.networks_[0], alone().fit(holes[Y == "chain"]))
        seen = holes[small[-6:], 2]
        p = (np.nansum(seen) + 0.5) / (np.isfinite(seen).sum() + 1)
        surprise = model.networks_[1].surprise(TEST)[:, 2]
        np.testing.assert_allclose(surprise, -np.log(np.where(TEST[:, 2] == 1, p, 1 - p)), atol=1e-4)


TABLES: dict[str, Callable[[NDArray[Any]], Any]] = {
    "lists": lambda X: X.tolist(),
    "booleans": lambda X: X.astype(bool),
    "sparse": sp.csr_matrix,
    "sparse by columns": sp.csc_array,
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcdef")),
    "polars": lambda X: pytest.importorskip("polars").DataFrame(X, schema=list("abcdef")),
    "pyarrow": lambda X: pytest.importorskip("pyarrow").table({name: X[:, j] for j, name in enumerate("abcdef")}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_any_table_gives_the_same_classifier(kind: str) -> None:
    give = TABLES[kind]
    model = quick().fit(give(X), Y, X_val=give(VALID), y_val=Y_VALID)
    plain = quick().fit(X, Y, X_val=VALID, y_val=Y_VALID)
    for left, right in zip(model.networks_, plain.networks_):
        assert_same_network(left, right)
    np.testing.assert_array_equal(model.predict_proba(give(TEST)), plain.predict_proba(TEST))
    assert type(model.networks_[0].sample(3)) in (type(give(TEST)), np.ndarray)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0, 1, 2], np.int8),
        np.array([3.0, 5.0, 7.0]),
        np.array(["b", "é", "zz"]),
        np.array(["b", "é", "zz"], object),
        np.array([False, True, True]),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_of_any_type_come_back(labels: NDArray[Any], tmp_path: Path) -> None:
    y = labels[np.unique(Y, return_inverse=True)[1]]
    model = quick().fit(X, y)
    assert set(model.predict(TEST)) <= set(labels)
    model.save(tmp_path / "model")
    copy = LBARNClassifier.load(tmp_path / "model")
    assert copy.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(copy.predict(TEST), model.predict(TEST))


class TestWarmStart:
    def test_continued_equals_one_run(self) -> None:
        model = quick(max_iter=8, warm_start=True).fit(X, Y)
        assert_same_classifier(model.set_params(estimator__max_iter=20).fit(X, Y), quick().fit(X, Y))

    def test_other_classes_are_refused(self) -> None:
        model = quick(warm_start=True).fit(X, Y)
        with pytest.raises(ValueError, match="these have other classes"):
            model.fit(X, np.where(Y == "rare", "chain", Y))

    def test_other_rows_are_refused(self) -> None:
        with pytest.raises(ValueError, match="continues on the same data"):
            quick(warm_start=True).fit(X, Y).fit(X, Y[::-1])


class TestCheckpoint:
    @pytest.mark.parametrize("random_state", [0, None])
    def test_the_same_fit_continues(self, random_state: int | None, tmp_path: Path) -> None:
        first = quick(random_state=random_state).fit(X, Y, checkpoint=tmp_path)
        finished = finished_dimensions(tmp_path)
        assert len(finished) == 3 * 6
        again = quick(random_state=random_state).fit(X, Y, checkpoint=tmp_path)
        assert finished_dimensions(tmp_path) == finished
        assert_same_classifier(first, again)

    def test_another_fit_is_refused(self, tmp_path: Path) -> None:
        quick().fit(X, Y, checkpoint=tmp_path)
        with pytest.raises(CheckpointError, match="data differ"):
            quick().fit(X[::-1], Y[::-1], checkpoint=tmp_path)


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"y": Y[:-1]}, "400 rows, but y has 399 labels"),
            ({"y": np.linspace(0, 1, 400)}, "Unknown label type"),
            ({"y": np.where(Y == "rare", np.nan, 1.0)}, "contains NaN"),
            ({"X": np.where(X == 1, np.inf, X)}, "contains infinity"),
            ({"X_val": VALID}, "go together; y_val is missing"),
            ({"y_val": Y_VALID}, "go together; X_val is missing"),
            ({"X_val": VALID, "y_val": Y}, "150 rows, but y_val has 400 labels"),
            ({"X_val": VALID[:, :5], "y_val": Y_VALID}, "5 features"),
            ({"X_val": VALID, "y_val": np.where(Y_VALID == "rare", "new", "chain")}, "class 'new', which y does not"),
            ({"sample_weight": np.zeros(400)}, "zero"),
            ({"sample_weight": -np.ones(400)}, "Negative values"),
        ],
    )
    def test_of_what_cannot_be_learned_from(self, arguments: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            quick().fit(**{"X": X, "y": Y, **arguments})

    def test_of_rows_of_another_width(self) -> None:
        with pytest.raises(ValueError, match="5 features"):
            quick().fit(X, Y).predict(TEST[:, :5])

    def test_of_parameters_that_no_network_takes(self) -> None:
        with pytest.raises(ValueError, match="'learning_rate' parameter"):
            quick(learning_rate=0.0).fit(X, Y)


def with_a_small_class(**parameters: Any) -> LBARNClassifier:
    few = np.concatenate([np.flatnonzero(Y != "rare"), np.flatnonzero(Y == "rare")[:5]])
    return quick(**parameters).fit(X[few], Y[few])


class TestFiles:
    @pytest.mark.parametrize("trim", [False, True])
    @pytest.mark.parametrize("order", ["given", "entropy-increasing", [3, 1, 5, 0, 2, 4]], ids=str)
    def test_a_loaded_classifier_gives_the_same_answers(self, order: Any, trim: bool, tmp_path: Path) -> None:
        model = with_a_small_class(order=order, random_state=np.random.RandomState(3), binarize=0.5)
        model.networks_[0].refit_leaves(TEST)
        model.networks_[1].select("individual")
        model.save(tmp_path / "model", trim=trim)
        for copy in (LBARNClassifier.load(tmp_path / "model"), lbarn.load(tmp_path / "model")):
            assert type(copy) is LBARNClassifier
            np.testing.assert_array_equal(copy.predict_joint_log_proba(TEST), model.predict_joint_log_proba(TEST))
            np.testing.assert_array_equal(copy.networks_[2].sample(9, random_state=0) > 0.5, _ones(model))
            copy.save(tmp_path / "copy", trim=trim)
            assert (tmp_path / "copy").read_bytes() == (tmp_path / "model").read_bytes()

    def test_bytes_depend_on_the_model_alone(self, tmp_path: Path) -> None:
        with_a_small_class().save(tmp_path / "a")
        with_a_small_class(n_jobs=2).save(tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    def test_column_names_are_kept(self, tmp_path: Path) -> None:
        frame = pd.DataFrame(X, columns=list("abcdef"))
        quick().fit(frame, Y).save(tmp_path / "model")
        copy = LBARNClassifier.load(tmp_path / "model")
        assert list(copy.feature_names_in_) == list("abcdef")
        assert list(copy.networks_[0].sample(1).columns) == list("abcdef")
        with pytest.raises(ValueError, match="X has no column 'a'"):
            copy.predict(frame.rename(columns={"a": "z"}))

    def test_a_loaded_classifier_can_be_cloned_and_fitted(self, tmp_path: Path) -> None:
        model = quick(warm_start=True).fit(X, Y)
        model.save(tmp_path / "model")
        assert_same_classifier(clone(LBARNClassifier.load(tmp_path / "model")).fit(X, Y), model)
        assert_same_classifier(LBARNClassifier.load(tmp_path / "model").fit(X, Y), model)

    def test_each_load_names_the_kind_it_was_given(self, tmp_path: Path) -> None:
        model = quick().fit(X, Y)
        model.save(tmp_path / "classifier")
        model.networks_[0].save(tmp_path / "network")
        with pytest.raises(ModelFileError, match="kind 'LBARN', not LBARNClassifier"):
            LBARNClassifier.load(tmp_path / "network")
        with pytest.raises(ModelFileError, match="kind 'LBARNClassifier', not LBARN"):
            LBARN.load(tmp_path / "classifier")

    def test_labels_that_are_neither_numbers_nor_texts_are_not_saved(self, tmp_path: Path) -> None:
        dates = np.array(["2020-01-01", "2021-01-01", "2022-01-01"], "M8[D]")
        model = quick().fit(X, dates[np.unique(Y, return_inverse=True)[1]])
        with pytest.raises(ValueError, match="labels of type datetime64"):
            model.save(tmp_path / "model")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda c, t: c["networks"].pop(), "3 classes and 2 networks"),
            (lambda c, t: c["networks"].__setitem__(0, 5), "does not make sense"),
            (lambda c, t: c["networks"][0].update(kind="tree"), "unknown kind 'tree'"),
            (lambda c, t: c["networks"][0]["parameters"].update(colour="red"), "unknown parameters: colour"),
            (lambda c, t: c["estimator"]["parameters"].update(colour="red"), "unknown parameters: colour"),
            (lambda c, t: c["estimator"]["parameters"].update(max_iter=-1), "does not make sense"),
            (lambda c, t: c["estimator"]["parameters"].update(order=["a"]), "not of numbers"),
            (lambda c, t: c["estimator"].update(kind="SVC"), "does not make sense"),
            (lambda c, t: c.update(estimator=7), "does not make sense"),
            (lambda c, t: c.pop("estimator"), "does not make sense"),
            (lambda c, t: c["classes"]["labels"].reverse(), "not in order"),
            (lambda c, t: c["classes"].update(dtype="int64"), "not of type int64"),
            (lambda c, t: c["classes"].update(dtype="U2000000000"), "not a type of labels"),
            (lambda c, t: c["classes"].update(labels=[]), "not in order"),
            (lambda c, t: t.pop("class_prior"), "'class_prior' is missing"),
            (lambda c, t: t["class_prior"].__imul__(2), "not a distribution"),
            (lambda c, t: t["class_prior"].__setitem__(slice(3), [0, 0.5, 0.5]), "not a distribution"),
            (lambda c, t: t["class_prior"].__setitem__(0, np.nan), "not a distribution"),
            (lambda c, t: t.pop("2.log_odds"), "'log_odds' is missing"),
            (lambda c, t: t.update({"2.log_odds": np.zeros(0, np.int32)}), "do not make sense"),
            (lambda c, t: t["2.log_odds"].__setitem__(0, -(2**31)), "do not make sense"),
            (lambda c, t: t.update({"2.log_odds": np.zeros(5, np.int32)}), "different numbers of columns"),
            (lambda c, t: c["networks"][2].update(columns={}), "does not make sense"),
            (lambda c, t: t["1.order"].__setitem__(0, 3), "not a permutation"),
        ],
    )
    def test_what_does_not_make_sense_is_refused(self, change: Any, message: str, tmp_path: Path) -> None:
        with_a_small_class().save(tmp_path / "model")
        content, tensors = take_apart((tmp_path / "model").read_bytes())
        tensors = {name: array.copy() for name, array in tensors.items()}
        change(content, tensors)
        (tmp_path / "model").write_bytes(put_together(content, tensors))
        with pytest.raises(ModelFileError, match=message):
            lbarn.load(tmp_path / "model")

    @pytest.mark.parametrize("mutate", [mutate_bytes, mutate_meaning])
    def test_a_damaged_file_is_refused_or_harmless(self, mutate: Any, tmp_path: Path) -> None:
        with_a_small_class(max_iter=3).save(tmp_path / "model")
        original = (tmp_path / "model").read_bytes()
        rng = random.Random(0)
        for _ in range(400):
            (tmp_path / "model").write_bytes(mutate(original, rng))
            try:
                model = lbarn.load(tmp_path / "model")
            except ModelFileError:
                continue
            assert np.isfinite(model.predict_joint_log_proba(TEST)).all()


def _ones(model: LBARNClassifier) -> NDArray[np.bool_]:
    return model.networks_[2].sample(9, random_state=0) > 0.5


class TestBenchmark:
    def test_runs_and_writes_what_it_measured(self, run_benchmark: Callable[..., str], tmp_path: Path) -> None:
        printed = run_benchmark("bench_classification.py", "--smoke", "--results", tmp_path / "results.json")
        results = json.loads((tmp_path / "results.json").read_text())["digits"]
        assert {"LBARN", "logistic regression", "BernoulliNB"} <= results["models"].keys()
        for name, model in results["models"].items():
            assert name in printed
            assert 0.5 < model["accuracy"] <= 1
            assert model["log-loss"] > 0

    def test_the_page_shows_the_results_that_are_committed(self) -> None:
        from bench_classification import PAGE, RESULTS, table

        assert table(json.loads(RESULTS.read_text())) in PAGE.read_text()
