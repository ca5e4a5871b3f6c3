"""The one list of parameters: what is derived from it, and the settings of version 0.1, which are the paper's."""

from __future__ import annotations

import ast
import inspect
import json
import pickle
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lbarn
from lbarn import LBARN, LBARNClassifier, LBARNEnsemble, LBARNOutlierDetector, errors
from lbarn.baselines import IndependentBits, LogisticNetwork
from lbarn.parameters import EnsembleParameters, LearnerParameters, NetworkParameters, constraints
from networks import assert_same_network, quick, quick_ensemble, rows, still_rising, tensors

pytestmark = still_rising

X = rows(200, 5)

LEARNER_0_1: dict[str, Any] = {
    "max_leaf_nodes": 16,
    "learning_rate": 0.02,
    "max_iter": 1000,
    "selection": "individual",
    "init": "half",
    "boosting": "newton",
    "splits": "fast",
    "split_bits": 6,
    "min_gain": 0.0,
    "l2_regularization": 0.0,
    "max_features": 1.0,
    "refit": False,
    "n_iter_no_change": None,
    "validation_fraction": 0.2,
    "binarize": None,
    "n_jobs": None,
    "random_state": None,
    "verbose": 0,
}
YOUNGER: dict[str, Any] = {  # with the values that change nothing
    "init_rate": None,
    "pooling": 0.0,
    "l1_regularization": 0.0,
    "cap": False,
    "sharpen": False,
    "merge_rows": False,
    "columns": None,
    "max_cells": 256,
    "missing": "unknown",
    "groups": None,
    "counts": False,
    "image_shape": None,
    "neighbours": False,
    "repeats": False,
}


def test_the_settings_of_the_paper_are_the_defaults_of_version_0_1() -> None:
    network = {**LEARNER_0_1, "order": "given", "warm_start": False}
    assert LBARN.paper().get_params() == {**network, **YOUNGER}
    own = {"n_orders": 8, "n_bags": 1, "orders": "random", "weights": "equal", "bagging": False}
    assert LBARNEnsemble.paper().get_params() == {**LEARNER_0_1, **own, **YOUNGER}


def test_the_settings_of_the_paper_can_be_replaced_one_by_one() -> None:
    model = LBARN.paper(max_leaf_nodes=4, refit=True)
    assert type(model) is LBARN
    assert model.get_params() == {**LBARN.paper().get_params(), "max_leaf_nodes": 4, "refit": True}
    with pytest.raises(TypeError, match="depth"):
        LBARN.paper(depth=3)


@pytest.mark.parametrize(("model", "parameters"), [(LBARN, NetworkParameters), (LBARNEnsemble, EnsembleParameters)])
def test_signature_help_and_constraints_tell_of_every_parameter(model: Any, parameters: Any) -> None:
    names = set(parameters.__dataclass_fields__)
    signature = inspect.signature(model)
    assert set(signature.parameters) == names == set(model().get_params()) == set(constraints(parameters))
    for name, own in signature.parameters.items():
        assert own.kind is inspect.Parameter.KEYWORD_ONLY
        assert own.default == model().get_params()[name]
        assert f"\n{name} : " in model.__doc__
    assert set(LearnerParameters.__dataclass_fields__) < names


def test_help_is_found_without_numpy_and_scikit_learn() -> None:
    code = "import sys, lbarn.parameters; print({'numpy', 'sklearn'} & set(sys.modules) or 'none')"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "none\n"


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "LBARNError"])
def test_every_error_is_an_lbarn_error_and_a_value_error(name: str) -> None:
    error = getattr(lbarn, name)
    assert issubclass(error, lbarn.LBARNError)
    assert issubclass(error, ValueError)


class TestLargestWeights:
    """Only their ratios matter, even if no sum of them is a number."""

    HUGE = np.full(len(X), 1.7e308)
    UNEVEN = np.resize([1.7e308, 1.7e308 / 2, 0.0], len(X))

    def test_of_networks(self) -> None:
        assert_same_network(quick().fit(X, sample_weight=self.HUGE), quick().fit(X))
        uneven = quick(refit=True).fit(X, sample_weight=self.UNEVEN)
        assert_same_network(uneven, quick(refit=True).fit(X, sample_weight=self.UNEVEN / 1.7e308))
        both = quick().fit(X, X_val=X, sample_weight=self.HUGE, sample_weight_val=self.HUGE)
        assert_same_network(both, quick().fit(X, X_val=X))
        assert_same_network(quick().fit(X).refit_leaves(X, sample_weight=self.HUGE), quick().fit(X).refit_leaves(X))
        assert uneven.score(X, sample_weight=self.HUGE) == pytest.approx(uneven.score(X))

    @pytest.mark.parametrize("parameters", [{}, {"weights": "em"}, {"bagging": True}], ids=str)
    def test_of_ensembles(self, parameters: dict[str, Any]) -> None:
        huge = quick_ensemble(**parameters).fit(X, sample_weight=self.UNEVEN)
        small = quick_ensemble(**parameters).fit(X, sample_weight=self.UNEVEN / 1.7e308)
        found, expected = tensors(huge), tensors(small)
        for name in expected:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)

    def test_of_classifiers_and_detectors(self) -> None:
        y = np.where(np.arange(len(X)) < 8, 2, X[:, 0])  # one class too small for a network
        huge = LBARNClassifier(quick()).fit(X, y, sample_weight=self.UNEVEN)
        small = LBARNClassifier(quick()).fit(X, y, sample_weight=self.UNEVEN / 1.7e308)
        np.testing.assert_array_equal(huge.predict_joint_log_proba(X), small.predict_joint_log_proba(X))
        detector = LBARNOutlierDetector(quick()).fit(X, sample_weight=self.HUGE)
        assert detector.offset_ == LBARNOutlierDetector(quick()).fit(X).offset_

    @pytest.mark.parametrize("model", [IndependentBits(), LogisticNetwork(l2_regularization=(10, 1))], ids=str)
    def test_of_baselines(self, model: Any) -> None:
        huge = model.fit(X, sample_weight=self.UNEVEN).score_samples(X)
        np.testing.assert_allclose(huge, model.fit(X, sample_weight=self.UNEVEN / 1.7e308).score_samples(X), atol=1e-6)


def test_parameters_survive_pickling_and_json(tmp_path: Any) -> None:
    model = quick(order=np.array([3, 1, 0, 2, 4]), learning_rate=np.float32(0.25), max_iter=np.int64(5)).fit(X)
    assert pickle.loads(pickle.dumps(model)).learning_rate == 0.25
    model.save(tmp_path / "model")
    loaded = lbarn.load(tmp_path / "model").get_params()
    assert json.loads(json.dumps(loaded)) == {**model.get_params(), "order": [3, 1, 0, 2, 4]}


# ---------------------------------------------------------------------- written once


def names_listed(node: ast.AST) -> set[Any]:
    """What a piece of code lists: keywords, arguments, items, keys or fields."""
    if isinstance(node, ast.Call):
        return {own.arg for own in node.keywords}
    if isinstance(node, ast.FunctionDef):
        return {own.arg for own in (*node.args.args, *node.args.kwonlyargs)}
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return {own.value if isinstance(own, ast.Constant) else getattr(own, "attr", None) for own in node.elts}
    if isinstance(node, ast.Dict):
        return {own.value for own in node.keys if isinstance(own, ast.Constant)}
    if isinstance(node, ast.ClassDef):
        return {
            own.target.id for own in node.body if isinstance(own, ast.AnnAssign) and isinstance(own.target, ast.Name)
        }
    return set()


@pytest.mark.parametrize("kind", [LBARN, LBARNEnsemble])
def test_a_name_that_is_not_one_is_told_with_the_one_that_was_meant(kind: Any) -> None:
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\(\) got an unexpected .* 'max_iters'; did you mean 'max_iter'\?$"
    ):
        kind(max_iters=3)
    with pytest.raises(TypeError, match=r"argument 'zzz'$"):
        kind(zzz=3)


def test_subclasses_may_have_parameters_of_their_own() -> None:
    class Named(LBARN):
        def __init__(self, name: str = "", *, max_iter: int = 5) -> None:
            super().__init__(max_iter=max_iter)
            self.name = name

    assert Named("x", max_iter=3).get_params() == {"name": "x", "max_iter": 3}
    with pytest.raises(TypeError, match="Named"):
        Named(names="x")  # type: ignore[call-arg]


def test_lists_of_parameters_are_few() -> None:
    """The list itself, what the core is told, and what ``tune`` chooses from; baselines have parameters of their own."""
    package = Path(lbarn.__file__).parent
    own = {field.name for field in fields(NetworkParameters)}
    found = []
    for path in sorted(package.rglob("*.py")):
        if path.parent.name != "baselines":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found += [str(path.relative_to(package)) for node in ast.walk(tree) if len(names_listed(node) & own) >= 5]
    assert found == [str(Path("_engine", "conditional.py")), str(Path("_models", "tuningtrials.py")), "parameters.py"]


def test_tune_takes_the_parameters_that_it_does_not_choose() -> None:
    signature = inspect.signature(lbarn.tune).parameters
    taken = LBARN.data_parameters() - {"warm_start"}
    assert taken <= signature.keys()
    defaults = {field.name: field.default for field in fields(NetworkParameters)}
    assert all(signature[name].default == defaults[name] for name in taken - {"verbose"})
    assert all(f"\n{name} :" in str(lbarn.tune.__doc__) for name in taken)
    with pytest.raises(TypeError, match="unexpected keyword argument 'learning_rate'"):
        lbarn.tune(X, minutes=1, learning_rate=0.1)
