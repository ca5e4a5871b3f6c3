"""A saved network gives the same answers, as the same bytes everywhere; a damaged file is refused with the reason."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

import lbarn
from lbarn import LBARN, ModelFileError
from lbarn.baselines import IndependentBits
from mutations import mutate_bytes, mutate_meaning, put_together, take_apart
from networks import assert_same_network, quick, rows, still_rising

pytestmark = still_rising

X, TEST = rows(300, 6), rows(100, 6, seed=1)
VARIANTS = [
    {},
    {"order": "random", "refit": True, "selection": "linearized"},
    {
        "order": np.array([5, 3, 1, 0, 2, 4]),
        "learning_rate": np.float32(0.25),
        "random_state": np.random.RandomState(1),
    },
    {"n_iter_no_change": 3, "max_iter": 60, "binarize": 0.5},
    {"max_leaf_nodes": "auto", "learning_rate": "auto", "splits": "exact"},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "network.lbarn"


@pytest.fixture
def saved(path: Path) -> bytes:
    quick().fit(X).save(path)
    return path.read_bytes()


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
def test_a_loaded_network_gives_the_same_answers_bit_for_bit(
    simd: str, variant: int, path: Path, on_portable: Any
) -> None:
    model = quick(**VARIANTS[variant]).fit(X)
    model.save(path)
    scores, drawn = model.score_samples(TEST), model.sample(50, random_state=0)
    for copy in (LBARN.load(path), on_portable(lambda: lbarn.load(path))):
        assert type(copy) is LBARN
        assert_same_network(copy, model)
        np.testing.assert_array_equal(copy.score_samples(TEST), scores)
        np.testing.assert_array_equal(on_portable(lambda copy=copy: copy.score_samples(TEST)), scores)
        np.testing.assert_array_equal(copy.sample(50, random_state=0), drawn)
        np.testing.assert_array_equal(copy.surprise(TEST), model.surprise(TEST))
        np.testing.assert_array_equal(copy.feature_importances_, model.feature_importances_)
        for name in ("max_leaf_nodes_", "learning_rate_", "selection_", "seed_", "n_features_in_"):
            assert getattr(copy, name) == getattr(model, name)
        assert getattr(copy, "search_results_", None) == getattr(model, "search_results_", None)


@pytest.mark.parametrize("variant", [0, 1, 4])
def test_a_loaded_network_selects_and_refits_as_the_original(variant: int, path: Path) -> None:
    model = quick(**VARIANTS[variant]).fit(X)
    model.save(path)
    copy = LBARN.load(path)
    for method in ("common", "linearized-backward", "individual"):
        assert_same_network(copy.select(method), model.select(method))
    assert_same_network(copy.refit_leaves(TEST), model.refit_leaves(TEST))


def test_parameters_come_back(path: Path) -> None:
    model = quick(order=[5, 4, 3, 2, 1, 0], refit=True, l2_regularization=1.5, n_jobs=2).fit(X)
    model.save(path)
    assert LBARN.load(path).get_params() == {**model.get_params(), "n_jobs": None}


def test_a_file_that_is_older_than_a_parameter_opens_with_its_default(path: Path) -> None:
    model = quick().fit(X)
    model.save(path)
    content, tensors = take_apart(path.read_bytes())
    del content["parameters"]["max_features"]
    path.write_bytes(put_together(content, tensors))
    loaded = LBARN.load(path)
    assert loaded.max_features == 1.0
    assert_same_network(loaded, model)


@pytest.mark.parametrize("trim", [False, True])
def test_a_linear_start_comes_back_and_is_refitted_alike(path: Path, trim: bool) -> None:
    model = quick(init="linear", max_iter=80, learning_rate=0.1).fit(X)
    assert any(0 < own.n_start < len(own.trees) for own in model.run_.conditionals)
    model.save(path, trim=trim)
    loaded = LBARN.load(path)
    np.testing.assert_array_equal(loaded.refit_leaves(X).score_samples(X), model.refit_leaves(X).score_samples(X))
    content, tensors = take_apart(path.read_bytes())
    tensors["n_start"][3] = 1000
    path.write_bytes(put_together(content, tensors))
    with pytest.raises(ModelFileError, match="a start is longer than its trees"):
        LBARN.load(path)


def test_parameters_set_after_the_fit_are_saved_and_do_no_harm(path: Path) -> None:
    model = quick().fit(X).set_params(order=[1, 0, 5, 4, 3, 2], max_leaf_nodes="auto", selection="common")
    model.save(path)
    copy = LBARN.load(path)
    assert copy.get_params() == model.get_params()
    assert_same_network(copy, model)


@pytest.mark.parametrize("variant", range(len(VARIANTS)))
@pytest.mark.parametrize("trim", [False, True])
def test_saving_again_gives_the_same_bytes(variant: int, trim: bool, path: Path) -> None:
    model = quick(**VARIANTS[variant]).fit(X)
    model.save(path, trim=trim)
    first = path.read_bytes()
    model.save(path, trim=trim)
    assert path.read_bytes() == first
    LBARN.load(path).save(path)
    assert path.read_bytes() == first
    pickle.loads(pickle.dumps(model)).save(path, trim=trim)
    assert path.read_bytes() == first


def test_another_process_with_other_jobs_and_a_progress_bar_gives_the_same_bytes(path: Path) -> None:
    frame = pd.DataFrame(X, columns=list("abcdef"))
    quick(order="random").fit(frame).save(path)
    other = path.with_name("other")
    code = f"""
import warnings; warnings.simplefilter("ignore")
import pandas as pd
from networks import quick, rows
frame = pd.DataFrame(rows(300, 6), columns=list("abcdef"))
quick(order="random", n_jobs=2, verbose=1).fit(frame).save({str(other)!r})
"""
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=path.parent, capture_output=True)
    assert other.read_bytes() == path.read_bytes()


def test_trimming_keeps_the_selected_trees_only_with_the_same_scores(path: Path) -> None:
    model = quick(max_iter=60).fit(X)
    model.save(path)
    size = path.stat().st_size
    model.save(path, trim=True)
    trimmed = LBARN.load(path)
    assert path.stat().st_size < 0.7 * size
    np.testing.assert_array_equal(trimmed.score_samples(TEST), model.score_samples(TEST))
    np.testing.assert_array_equal(trimmed.sample(20, random_state=0), model.sample(20, random_state=0))
    np.testing.assert_array_equal(trimmed.feature_importances_, model.feature_importances_)
    np.testing.assert_array_equal([len(trees) for trees in trimmed.run_.trees], trimmed.n_trees_)
    with pytest.raises(ValueError, match="trimmed model keeps the selected trees only and cannot select again"):
        trimmed.select("common")


def test_an_interrupted_save_leaves_the_old_file(path: Path, saved: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space left"):
        quick(max_leaf_nodes=2).fit(X).save(path)
    assert path.read_bytes() == saved
    assert os.listdir(path.parent) == [path.name], "nothing is left lying about"


class Pickled:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('executed')",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged or not a model file"),
        (b"lbarn", "damaged or not a model file"),
        (b"\xff" * 100, "damaged or not a model file"),
        (b"\0" * 100, "damaged or not a model file"),
        (pickle.dumps(Pickled()), "damaged or not a model file"),
    ],
    ids=["empty", "short", "ones", "zeros", "pickle"],
)
def test_what_is_no_model_file_is_refused(content: bytes, message: str, path: Path) -> None:
    path.write_bytes(content)
    for load in (lbarn.load, LBARN.load):
        with pytest.raises(ModelFileError, match=rf"{path.name}: {message}"):
            load(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for nothing in (tmp_path / "missing", tmp_path, str(tmp_path / "missing")):
        with pytest.raises(ModelFileError, match="no such model file"):
            lbarn.load(nothing)


def test_a_foreign_safetensors_file_is_refused(path: Path) -> None:
    save_file({"weights": np.zeros(3)}, path)
    with pytest.raises(ModelFileError, match="not a model of lbarn"):
        lbarn.load(path)


def test_a_truncated_file_is_refused_wherever_it_ends(path: Path, saved: bytes) -> None:
    for length in np.linspace(0, len(saved) - 1, 50, dtype=int):
        path.write_bytes(saved[:length])
        with pytest.raises(ModelFileError, match="damaged"):
            lbarn.load(path)


def test_a_flipped_bit_in_the_arrays_is_found_by_the_checksum(path: Path, saved: bytes) -> None:
    start = 8 + int.from_bytes(saved[:8], "little")
    for at in np.linspace(start, len(saved) - 1, 50, dtype=int):
        path.write_bytes(saved[:at] + bytes([saved[at] ^ 4]) + saved[at + 1 :])
        with pytest.raises(ModelFileError, match="its checksum does not match"):
            lbarn.load(path)


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_version_is_refused_by_its_number(path: Path, saved: bytes, version: Any) -> None:
    content, tensors = take_apart(saved)
    path.write_bytes(put_together({**content, "version": version}, tensors))
    with pytest.raises(ModelFileError, match=f"of version {version}; this lbarn reads version 1"):
        lbarn.load(path)


def test_another_kind_of_model_is_refused_by_name(path: Path, saved: bytes) -> None:
    content, tensors = take_apart(saved)
    path.write_bytes(put_together({**content, "kind": "Oracle"}, tensors))
    for load in (lbarn.load, LBARN.load):
        with pytest.raises(ModelFileError, match="kind 'Oracle'"):
            load(path)


def changed_description(content: dict[str, Any], where: str, value: Any) -> dict[str, Any]:
    *parents, last = where.split(".")
    content = json.loads(json.dumps(content))
    node = content
    for key in parents:
        node = node[key]
    node[last] = value
    return content


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("parameters.threads", 100_000),
        ("parameters.max_iter", -3),
        ("parameters.order", ["a", "b"]),
        ("parameters.order", [[0], 1]),
        ("columns.dtypes", ["S2000000000"]),
        ("columns.dtypes", ["(1000,1000)f8"]),
        ("columns.library", "os"),
        ("columns.names", ["a", "b", "c", "d", "e", "a"]),
        ("fitted.learning_rate", 10**400),
        ("fitted.selection", "best"),
        ("fitted.max_leaf_nodes", 65_536),
        ("fitted.trials", "a text"),
        ("fitted.trials", [{"deep": [[]]}]),
        ("parameters.binarize", 10**400),
        ("fitted", []),
    ],
    ids=str,
)
def test_a_description_that_makes_no_sense_is_refused(path: Path, saved: bytes, where: str, value: Any) -> None:
    content, tensors = take_apart(saved)
    path.write_bytes(put_together(changed_description(content, where, value), tensors))
    with pytest.raises(ModelFileError, match="its description does not make sense"):
        lbarn.load(path)


def test_a_file_does_not_say_how_many_threads_there_are(path: Path, saved: bytes) -> None:
    content, tensors = take_apart(saved)
    assert not content["parameters"].keys() & LBARN.run_time_parameters()
    path.write_bytes(put_together(changed_description(content, "parameters.n_jobs", 100_000), tensors))
    assert lbarn.load(path).n_jobs is None


@pytest.mark.parametrize("threshold", ["inf", "nan", [1], 10**400], ids=repr)
def test_a_threshold_of_independent_bits_is_a_number(path: Path, threshold: Any) -> None:
    IndependentBits().fit(X).save(path)
    content, tensors = take_apart(path.read_bytes())
    path.write_bytes(put_together({**content, "binarize": threshold}, tensors))
    with pytest.raises(ModelFileError, match="its description does not make sense"):
        lbarn.load(path)


@pytest.mark.parametrize(
    ("name", "at", "value", "message"),
    [
        ("splits", (-1, 1), 5, "variable that comes later"),
        ("splits", (0, 0), 1, "leaf that does not exist"),
        ("values", (3,), 2**31 - 1, "too large"),
        ("values", (3,), -(2**31), "too large"),
        ("gains", (0,), np.nan, "not a number"),
        ("tree_counts", (0,), -1, "do not add up"),
        ("tree_counts", (0,), 2**62, "do not add up"),
        ("tree_splits", (-1,), 65_535, "do not add up"),
        ("n_trees", (2,), 21, "fewer trees than were selected"),
        ("n_trees", (2,), -1, "fewer trees than were selected"),
        ("order", (0,), 3, "not a permutation"),
        ("valid_curve", (1, 1), np.inf, "not of numbers"),
    ],
)
def test_arrays_that_would_lead_out_of_bounds_are_refused(
    path: Path, saved: bytes, name: str, at: tuple[int, ...], value: float, message: str
) -> None:
    content, tensors = take_apart(saved)
    tensors[name][at] = value
    path.write_bytes(put_together(content, tensors))
    with pytest.raises(ModelFileError, match=message):
        lbarn.load(path)


@pytest.fixture
def little_memory() -> Iterator[None]:
    """A wild allocation fails here instead of bringing the machine down."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 2**32, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def use(model: LBARN) -> None:
    """All that reads the arrays; the answers of a changed file may be odd, but they are numbers and bits."""
    D = model.n_features_in_
    rows = np.eye(D, dtype=int)
    names = getattr(model, "feature_names_in_", None)
    scores = model.score_samples(rows if names is None else pd.DataFrame(rows, columns=names))
    assert np.isfinite(scores).all()
    drawn = model.sample(3, random_state=0)
    assert drawn.shape == (3, D)
    assert np.isin(np.asarray(drawn), [0, 1]).all()
    assert np.isfinite(model.feature_importances_).all()
    if hasattr(model, "train_curve_"):
        model.select("individual")


@pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is read from /proc")
@pytest.mark.parametrize("part", range(4))
def test_ten_thousand_damaged_files_are_refused_or_harmless(part: int, path: Path, little_memory: None) -> None:
    tiny = {"max_iter": 4, "max_leaf_nodes": 3}
    quick(**tiny).fit(rows(60, 4)).save(path)
    files = [path.read_bytes()]
    for trim in (False, True):
        model = quick(**tiny, order=[3, 1, 0, 2]).fit(pd.DataFrame(rows(60, 4), columns=list("abcd")))
        model.save(path, trim=trim)
        files.append(path.read_bytes())
    originals = []
    for file in files:
        path.write_bytes(file)
        originals.append(lbarn.load(path))

    harmless = 0
    for seed in range(part * 2500, (part + 1) * 2500):
        rng = random.Random(seed)
        original = rng.randrange(3)
        by_bytes = rng.random() < 0.4
        path.write_bytes((mutate_bytes if by_bytes else mutate_meaning)(files[original], rng))
        try:
            model = lbarn.load(path)
        except ModelFileError:
            continue
        if by_bytes:  # nothing but white space can have changed: all else is under the checksum
            assert_same_network(model, originals[original])
        use(model)
        harmless += 1
    assert harmless > 100, "mutations that are all refused test little"
