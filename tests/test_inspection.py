"""What inspection tells of a model is what the model does."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lbarn import LBARN, LBARNClassifier, inspection
from lbarn._engine.bits import pack
from lbarn._engine.conditional import Conditional
from lbarn._engine.trees import LOG_ODDS_UNIT, Trees
from networks import quick, quick_ensemble, rows, still_rising

pytestmark = still_rising

X = rows(300, 6)


def follow(node: dict[str, Any], row: Any) -> float:
    while "value" not in node:
        node = node["one" if row[node["column"]] else "zero"]
    return node["value"]


def test_the_trees_told_add_up_to_the_log_odds_of_the_model() -> None:
    order = [3, 1, 0, 5, 4, 2]
    model = quick(order=order).fit(X)
    told = inspection.describe_column(model, "4", n_trees=1000)
    assert (told["position"], len(told["trees"])) == (4, model.n_trees_[4])
    expected = model.network_.trees[4].log_odds(pack(X, order).columns, len(X)) * LOG_ODDS_UNIT
    np.testing.assert_allclose([sum(follow(tree, row) for tree in told["trees"]) for row in X], expected)
    gains = model.feature_importances_[4]
    assert [one["gain"] for one in told["predictors"]] == sorted(gains[gains > 0], reverse=True)
    assert sum(one["share"] for one in told["predictors"]) == pytest.approx(1)


def test_the_log_likelihoods_told_are_those_of_the_rows() -> None:
    model = quick().fit(X[:200], X_val=X[200:])
    told = inspection.describe(model)["log_likelihood"]
    assert told["train"] == pytest.approx(model.score(X[:200]))
    assert told["valid"] == pytest.approx(model.score(X[200:]))


def test_a_classifier_tells_of_every_class() -> None:
    classifier = LBARNClassifier(quick(max_leaf_nodes=2, max_iter=5)).fit(X, np.where(X[:, 0], "yes", "no"))
    told = json.loads(json.dumps(inspection.describe(classifier)))
    assert [one["label"] for one in told["classes"]] == ["no", "yes"]
    assert any("class yes" in line for line in inspection.lines(told))
    column = inspection.describe_column(classifier, "3")
    assert [one["label"] for one in column["classes"]] == ["no", "yes"]
    assert any(line.strip().startswith("column 3: ") for line in inspection.column_lines(column))


def test_a_classifier_of_ensembles_tells_of_every_member_of_every_class() -> None:
    classifier = LBARNClassifier(quick_ensemble(n_orders=2, max_iter=5)).fit(X, X[:, 0])
    told = json.loads(json.dumps(inspection.describe(classifier)))
    assert [len(one["members"]) for one in told["classes"]] == [2, 2]
    assert told["parameters"]["estimator"] == "LBARNEnsemble"
    assert told["parameters"]["n_orders"] == 2
    assert sum("member 1" in line for line in inspection.lines(told)) == 2
    column = inspection.describe_column(classifier, "3")
    assert [len(one["members"]) for one in column["classes"]] == [2, 2]
    assert sum("member 1" in line for line in inspection.column_lines(column)) == 2


def test_an_ensemble_tells_of_every_member() -> None:
    ensemble = quick_ensemble(n_orders=2, max_leaf_nodes=2, max_iter=5).fit(X)
    told = json.loads(json.dumps(inspection.describe(ensemble)))
    assert [one["share"] for one in told["members"]] == [0.5, 0.5]
    assert any("member 1" in line for line in inspection.lines(told))
    column = inspection.describe_column(ensemble, "3")
    positions = [int(np.flatnonzero(member.order_ == 3)[0]) for member in ensemble.members_]
    assert [one["position"] for one in column["members"]] == positions


def test_an_unknown_column_is_refused() -> None:
    model = quick().fit(X)
    for column in ("6", "-1", "age"):
        with pytest.raises(ValueError, match="there is no column"):
            inspection.describe_column(model, column)
    assert "does not depend" in "\n".join(inspection.column_lines(inspection.describe_column(model, "0")))


def with_last_trees(trees: Trees) -> LBARN:
    """A network of six columns whose last one has these trees."""
    model = quick().fit(X)
    last = Conditional(5, trees, np.zeros(len(trees) + 1), np.zeros(len(trees) + 1))
    run = replace(model.run_, conditionals=(*model.run_.conditionals[:5], last), renewed=None)
    n_trees = np.array([len(own) for own in run.trees])
    return model.restored(run, "individual", n_trees, model.table_format_, None)


@pytest.mark.parametrize("leaf", ["first", "last"])
def test_a_tree_is_told_as_deep_as_can_be_read(leaf: str) -> None:
    n = 5000
    splits = np.zeros((n, 2), np.uint16)
    splits[:, 0] = np.arange(n) if leaf == "last" else 0
    chain = Trees(splits, np.ones(n, np.float32), np.arange(n + 1, dtype=np.int32), np.array([0, n]))
    told = inspection.describe_column(with_last_trees(chain), "5")
    assert json.loads(json.dumps(told)) == told
    hidden = [line for line in inspection.column_lines(told) if "more leaves" in line]
    assert [line.split(": ")[1] for line in hidden] == [f"{n + 1 - 100:,} more leaves"]


def test_shares_of_the_gain_add_up_to_one_if_some_gain_is_negative() -> None:
    splits, gains = np.array([[0, 0], [0, 1], [0, 2]], np.uint16), np.array([1, -1, 3], np.float32)
    model = with_last_trees(Trees(splits, gains, np.zeros(4, np.int32), np.array([0, 3])))
    assert [one["share"] for one in inspection.describe_column(model, "5")["predictors"]] == [0.75, 0.25]
