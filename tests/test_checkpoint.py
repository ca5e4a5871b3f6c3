"""A checkpoint continues the same fit to the same bits, and no other one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from fit_process import DEADLINE, finished_dimensions, linked_rows, model_bytes, start, wait_until
from lbarn import LBARN, CheckpointError
from lbarn._engine.bits import pack
from lbarn._engine.codetree import Layout
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._network import container
from lbarn._training import run as training
from lbarn._training.checkpoint import Checkpoint

# The fits are short, for speed: their curves still rise.
pytestmark = pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising")

X = linked_rows(200, 8)
SHORT: dict[str, Any] = {"max_leaf_nodes": 4, "learning_rate": 0.1, "max_iter": 10, "random_state": 3}


def stop_after(finished: int, monkeypatch: pytest.MonkeyPatch, fit: Callable[[], Any]) -> None:
    """Ctrl-C in place of the dimension that would be written next."""
    save = Checkpoint.save
    saved = 0

    def save_or_stop(*args: Any) -> None:
        nonlocal saved
        if saved == finished:
            raise KeyboardInterrupt
        saved += 1
        save(*args)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", save_or_stop)
        with pytest.raises(KeyboardInterrupt):
            fit()


# ---------------------------------------------------------------- continuing


def test_a_fit_killed_again_and_again_ends_with_the_same_model_file(tmp_path: Path) -> None:
    shape, parameters = (4000, 24), {"max_leaf_nodes": 16, "max_iter": 300, "n_jobs": 2, "random_state": 0}
    checkpoint, file = tmp_path / "checkpoint", tmp_path / "model"
    rng = np.random.default_rng(11)
    finished: dict[str, int] = {}
    for goal in (0, *np.sort(rng.choice(np.arange(2, 20), 3, replace=False))):
        process = start(shape, parameters, checkpoint=checkpoint)
        wait_until((checkpoint / "checkpoint.json").exists, "the checkpoint's first file")
        wait_until(lambda: len(finished_dimensions(checkpoint)) >= goal, f"{goal} finished dimensions")  # noqa: B023
        process.kill()
        assert process.wait() == -signal.SIGKILL
        now = finished_dimensions(checkpoint)
        assert finished.items() <= now.items()  # nothing was lost, and nothing was trained again
        assert len(now) < shape[1]
        finished = now
    last = start(shape, parameters, checkpoint=checkpoint, model=file)
    assert last.wait(DEADLINE) == 0
    assert finished.items() <= finished_dimensions(checkpoint).items()
    assert file.read_bytes() == model_bytes(LBARN(**parameters).fit(linked_rows(*shape)))


def test_a_finished_checkpoint_trains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = model_bytes(LBARN(**SHORT).fit(X, checkpoint=tmp_path))
    monkeypatch.setattr(training, "_train", None)
    assert model_bytes(LBARN(**SHORT).fit(X, checkpoint=tmp_path)) == expected


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"max_leaf_nodes": "auto"},
        {"learning_rate": "auto", "max_iter": 30},
        {"order": "random"},
        {"order": "entropy-decreasing"},
        {"order": "entropy-increasing", "refit": False},
        {"n_iter_no_change": 2},
    ],
    ids=str,
)
def test_a_fit_stopped_on_the_way_ends_with_the_same_model_file(
    parameters: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LBARN(**(SHORT | parameters))
    expected = model_bytes(model.fit(X))
    stop_after(5, monkeypatch, lambda: model.fit(X, checkpoint=tmp_path))
    assert model_bytes(model.fit(X, checkpoint=tmp_path)) == expected


def test_an_entropy_order_is_kept_and_not_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = LBARN(**SHORT, order="entropy-decreasing")
    expected = model_bytes(model.fit(X, checkpoint=tmp_path))
    monkeypatch.setattr("lbarn._training.run.resolve_order", None)
    assert model_bytes(model.fit(X, checkpoint=tmp_path)) == expected


def test_a_warm_start_stopped_on_the_way_continues_in_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LBARN(**SHORT, warm_start=True).fit(X, checkpoint=tmp_path / "first")
    model.set_params(max_iter=25)
    stop_after(4, monkeypatch, lambda: model.fit(X, checkpoint=tmp_path / "second"))
    expected = model_bytes(LBARN(**(SHORT | {"max_iter": 25, "warm_start": True})).fit(X))
    assert model_bytes(model.fit(X, checkpoint=tmp_path / "second")) == expected


@pytest.mark.parametrize("source", [lambda: None, np.random.RandomState], ids=["None", "RandomState"])
def test_a_fit_without_a_seed_keeps_the_one_it_drew(
    source: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = SHORT | {"random_state": source()}
    model = LBARN(**parameters)
    stop_after(3, monkeypatch, lambda: model.fit(X, checkpoint=tmp_path / "a"))
    first, second = LBARN(**parameters), LBARN(**parameters)
    assert model_bytes(first.fit(X, checkpoint=tmp_path / "a")) == model_bytes(second.fit(X, checkpoint=tmp_path / "a"))
    assert first.seed_ == json.loads((tmp_path / "a" / "checkpoint.json").read_text())["seed"]
    assert LBARN(**parameters).fit(X, checkpoint=tmp_path / "b").seed_ != first.seed_


@pytest.mark.parametrize(
    "other", [{"n_jobs": 2}, {"n_jobs": 1}, {"verbose": 1}, {"warm_start": True}, {"backend": "threading"}], ids=str
)
def test_what_does_not_affect_the_model_may_differ(
    other: dict[str, Any], finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "_train", None)
    backend = other.pop("backend", "loky")
    with joblib.parallel_config(backend, n_jobs=2):
        LBARN(**SHORT, **other).fit(X, checkpoint=finished)


# ---------------------------------------------------------------- another fit


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    LBARN(**SHORT).fit(X, checkpoint=folder)
    return folder


@pytest.fixture
def finished(once: Path, tmp_path: Path) -> Path:
    """A finished checkpoint of ``LBARN(**SHORT).fit(X)`` to spoil."""
    return Path(shutil.copytree(once, tmp_path / "finished"))


def content(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


OTHER: dict[str, Any] = {
    "max_leaf_nodes": 5,
    "learning_rate": 0.2,
    "max_iter": 11,
    "selection": "common",
    "pooling": 30.0,
    "order": list(range(8))[::-1],
    "init": "linear",
    "init_rate": 0.3,
    "boosting": "gradient",
    "splits": "exact",
    "split_bits": 5,
    "min_gain": 0.5,
    "l2_regularization": 1.0,
    "l1_regularization": 0.25,
    "cap": False,
    "sharpen": False,
    "merge_rows": False,
    "max_features": 0.75,
    "refit": False,
    "n_iter_no_change": 3,
    "validation_fraction": 0.3,
    "binarize": 0.5,
    "columns": {0: "binary"},
    "max_cells": 16,
    "missing": "unknown",
    "groups": [[0, 1]],
    "counts": False,
    "image_shape": (2, 4),
    "neighbours": False,
    "repeats": False,
    "random_state": 4,
}


def test_every_parameter_is_looked_at() -> None:
    assert OTHER.keys() | {"n_jobs", "verbose", "warm_start"} == LBARN().get_params().keys()


@pytest.mark.parametrize("name", OTHER)
def test_another_parameter_is_refused_by_name(name: str, finished: Path) -> None:
    before = content(finished)
    with pytest.raises(CheckpointError, match=rf"another fit: {name} differ"):
        LBARN(**(SHORT | {name: OTHER[name]})).fit(X, checkpoint=finished)
    assert content(finished) == before


def one_bit_flipped() -> Any:
    other = X.copy()
    other[17, 5] ^= 1
    return other


@pytest.mark.parametrize(
    "arguments",
    [
        {"X": one_bit_flipped()},
        {"X": X[:-1]},
        {"X": np.where(np.arange(200 * 8).reshape(200, 8) == 77, np.nan, X)},
        {"X": X, "sample_weight": np.ones(200) + np.eye(1, 200)[0]},
        {"X": X, "X_val": X[:20]},
    ],
    ids=["a bit", "a row less", "a missing value", "weights", "validation rows"],
)
def test_other_data_is_refused(arguments: dict[str, Any], finished: Path) -> None:
    before = content(finished)
    with pytest.raises(CheckpointError, match="another fit: data differ"):
        LBARN(**SHORT).fit(**arguments, checkpoint=finished)
    assert content(finished) == before


def test_other_validation_weights_are_refused(tmp_path: Path) -> None:
    LBARN(**SHORT).fit(X, X_val=X[:20], checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="another fit: data differ"):
        LBARN(**SHORT).fit(X, X_val=X[:20], sample_weight_val=np.arange(1, 21), checkpoint=tmp_path)


def test_a_warm_start_does_not_continue_into_a_checkpoint_with_another_seed(tmp_path: Path) -> None:
    parameters = SHORT | {"random_state": None, "warm_start": True}
    LBARN(**(parameters | {"max_iter": 25})).fit(X, checkpoint=tmp_path)
    model = LBARN(**parameters).fit(X)
    with pytest.raises(CheckpointError, match="seed"):
        model.set_params(max_iter=25).fit(X, checkpoint=tmp_path)


# ---------------------------------------------------------------- folders and heads


def test_a_checkpoint_without_a_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="an empty name; name a folder"):
        LBARN(**SHORT).fit(X, checkpoint="")
    assert os.listdir(tmp_path) == []


def resealed(content: dict[str, Any]) -> bytes:
    """A head with a right checksum."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    return json.dumps({**content, "checksum": digest.hexdigest()}).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"version": 3}',
        b'{"version": 3, "identity": {}, "seed": 1}',
        b'{"version": 3, "identity": {}, "seed": 1, "checksum": 5}',
        resealed({"version": 3, "identity": 5, "seed": 1}),
        resealed({"version": 3, "identity": [["a", "b"]], "seed": 1}),
        resealed({"version": 3, "identity": {"a": {"b": []}}, "seed": 1}),
        resealed({"version": 3, "identity": {}, "seed": "one"}),
        resealed({"version": 3, "identity": {}, "seed": None}),
        resealed({"version": 3, "identity": {}, "seed": True}),
        resealed({"version": 3, "identity": {}, "seed": float("nan")}),
        resealed({"version": 3, "identity": {}, "seed": 1, "more": 1}),
        b'{"version": 2, "identity": {}, "seed": 1}',
        b'{"version": 1, "identity": {}, "seed": 1}',
    ],
    ids=lambda text: text[:60].decode(errors="replace"),
)
def test_a_damaged_or_foreign_head_is_refused(text: bytes, finished: Path) -> None:
    (finished / "checkpoint.json").write_bytes(text)
    with pytest.raises(CheckpointError, match="choose an empty folder"):
        LBARN(**SHORT).fit(X, checkpoint=finished)


def test_a_checkpoint_of_an_older_lbarn_is_refused_by_its_version(finished: Path) -> None:
    (finished / "checkpoint.json").write_text('{"version": 2, "identity": {}, "seed": 1}')
    with pytest.raises(CheckpointError, match="is of version 2, this lbarn writes 5"):
        LBARN(**SHORT).fit(X, checkpoint=finished)


def test_another_seed_in_the_head_is_noticed(finished: Path) -> None:
    head = finished / "checkpoint.json"
    described = json.loads(head.read_text())
    described["seed"] ^= 1
    head.write_text(json.dumps(described))
    with pytest.raises(CheckpointError, match="checksum does not match"):
        LBARN(**SHORT).fit(X, checkpoint=finished)


def with_another_seed(folder: Path) -> int:
    """A sound head of the same fit, begun with another seed; which seed that is."""
    head = folder / "checkpoint.json"
    described = json.loads(head.read_text())
    del described["checksum"]
    seed = described["seed"] = described["seed"] ^ 1
    head.write_bytes(resealed(described))
    return int(seed)


def test_dimensions_that_belong_to_another_head_are_not_read(tmp_path: Path) -> None:
    anyhow = {**SHORT, "random_state": None}
    LBARN(**anyhow).fit(X, checkpoint=tmp_path)
    seed = with_another_seed(tmp_path)
    before = set(finished_dimensions(tmp_path))
    assert LBARN(**anyhow).fit(X, checkpoint=tmp_path).seed_ == seed
    assert len(set(finished_dimensions(tmp_path)) - before) == X.shape[1]


def test_a_head_whose_seed_is_not_that_of_random_state_is_refused(finished: Path) -> None:
    with_another_seed(finished)
    with pytest.raises(CheckpointError, match="its seed is not that of random_state"):
        LBARN(**SHORT).fit(X, checkpoint=finished)


def to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("plant", [to_itself, to_nowhere, Path.mkdir, os.mkfifo], ids=lambda plant: plant.__name__)
@pytest.mark.parametrize("head", [False, True], ids=["folder", "head"])
def test_what_is_no_folder_and_no_head_is_refused(plant: Callable[[Path], None], head: bool, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    if head:
        folder.mkdir()
        plant(folder / "checkpoint.json")
    elif plant is not Path.mkdir:
        plant(folder)
    else:
        folder.write_text("a file")
    with pytest.raises(CheckpointError, match="choose an"):
        LBARN(**SHORT).fit(X, checkpoint=folder)


# ---------------------------------------------------------------- damage


def dimensions(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def fitted(folder: Path) -> bytes:
    return model_bytes(LBARN(**SHORT).fit(X, checkpoint=folder))


@pytest.fixture(scope="module")
def expected() -> bytes:
    return model_bytes(LBARN(**SHORT).fit(X))


def test_truncated_and_empty_dimensions_are_trained_again(finished: Path, expected: bytes) -> None:
    before = content(finished)
    for path, size in zip(dimensions(finished), (0, 1, 100, 500, -1), strict=False):
        os.truncate(path, size % path.stat().st_size)
    assert fitted(finished) == expected
    assert content(finished) == before


def test_a_dimension_that_is_a_link_is_replaced_and_not_followed(finished: Path, expected: bytes) -> None:
    victim = finished / "victim"
    victim.write_text("precious")
    first, second, third, *_ = dimensions(finished)
    for path, target in ((first, first.name), (second, "victim"), (third, "nowhere")):
        path.unlink()
        path.symlink_to(target)
    assert fitted(finished) == expected
    assert victim.read_text() == "precious"
    assert not any(path.is_symlink() for path in (first, second, third))


def test_a_folder_in_the_place_of_a_dimension_is_refused(finished: Path) -> None:
    path = dimensions(finished)[0]
    path.unlink()
    path.mkdir()
    with pytest.raises(CheckpointError, match="is a folder"):
        fitted(finished)


def test_dimensions_that_were_swapped_are_trained_again(finished: Path, expected: bytes) -> None:
    *_, one, other = dimensions(finished)
    content = one.read_bytes()
    other.replace(one)
    other.write_bytes(content)
    assert fitted(finished) == expected


def test_a_damaged_dimension_is_either_whole_or_not_there(tmp_path: Path) -> None:
    how = Boosting(max_leaf_nodes=4, max_iter=5)
    bits = pack(X)
    trained = Conditional.train(bits, bits, 5, how)
    checkpoint = Checkpoint(tmp_path, {}, seed=0)
    checkpoint.save(how, 5, (trained,))
    (path,) = dimensions(tmp_path)
    intact = path.read_bytes()
    rng = np.random.default_rng(0)
    lost = 0
    for _ in range(400):
        damaged = bytearray(intact[: rng.integers(len(intact))] if rng.random() < 0.2 else intact)
        for at in rng.integers(len(damaged), size=min(len(damaged), rng.integers(1, 4))) if damaged else ():
            damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        found = checkpoint.load(how, Layout.binary(8), 5)
        lost += found is None
        if found is not None:
            assert_same(found[0], trained)
    assert lost > 200


def assert_same(a: Conditional, b: Conditional) -> None:
    for name in ("splits", "gains", "values", "offsets"):
        np.testing.assert_array_equal(getattr(a.trees, name), getattr(b.trees, name))
    np.testing.assert_array_equal(a.train_curve, b.train_curve)
    np.testing.assert_array_equal(a.valid_curve, b.valid_curve)
    assert a.n_start == b.n_start


def item(name: str, at: Any, value: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def alter(header: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors[name][at] = value

    return alter


def whole(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def alter(header: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors[name] = change(tensors[name])

    return alter


# What can be told from the file alone, its checksum being right.
OUT_OF_BOUNDS = {
    "leaf 60000": item("splits", (slice(None), 0), 60_000),
    "leaf 300": item("splits", (3, 0), 300),
    "variable 60000": item("splits", (slice(None), 1), 60_000),
    "its own variable": item("splits", (0, 1), 5),
    "a split more": item("tree_splits", 0, 7),
    "a split less": item("tree_splits", 2, 0),
    "many splits": item("tree_splits", -1, 65_535),
    "no numbers of splits": whole("tree_splits", lambda a: a[:0]),
    "fewer numbers of splits": whole("tree_splits", lambda a: a[:-1]),
    "more trees": item("tree_counts", 0, 1000),
    "a negative number of trees": item("tree_counts", 0, -5),
    "trees of another column": whole("tree_counts", lambda a: np.append(a, 0)),
    "fewer splits": whole("splits", lambda a: a[:-1]),
    "fewer values": whole("values", lambda a: a[:-1]),
    "more values": whole("values", lambda a: np.append(a, a[:1])),
    "fewer gains": whole("gains", lambda a: a[1:]),
    "a gain that is no number": item("gains", 0, np.nan),
    "huge values": whole("values", lambda a: np.full_like(a, 2**31 - 1)),
    "the least value": item("values", 0, -(2**31)),
    "splits of another type": whole("splits", lambda a: a.astype(np.int64)),
    "splits in one row": whole("splits", lambda a: a.reshape(-1)),
    "values of another type": whole("values", lambda a: a.astype(np.float64)),
    "numbers of splits of another type": whole("tree_splits", lambda a: a.astype(np.int32)),
    "gains of another type": whole("gains", lambda a: a.astype(np.float16)),
    "a short curve": whole("train_curve", lambda a: a[:-1]),
    "an empty curve": whole("valid_curve", lambda a: a[:0]),
    "a long curve": whole("valid_curve", lambda a: np.append(a, a)),
    "a curve with a hole": item("valid_curve", 2, np.nan),
    "an infinite curve": item("train_curve", 2, np.inf),
    "a curve of another type": whole("train_curve", lambda a: a.astype(np.float32)),
    "a start that is too long": item("n_start", 0, 1000),
    "a negative start": item("n_start", 0, -1),
    "a start that is a fraction": whole("n_start", lambda a: a + 0.5),
    "no start": lambda header, tensors: tensors.pop("n_start"),
    "a negative limit": item("limits", 0, -1),
    "a limit of another type": whole("limits", lambda a: a.astype(np.int64)),
    "a share above 1": item("shares", (0, 0), 1.5),
    "a share that is no number": item("shares", (0, 1), np.nan),
    "no shares": lambda header, tensors: tensors.pop("shares"),
    "not learned": item("constant", 0, 1),
    "none is learned or not": lambda header, tensors: tensors.pop("constant"),
    "no values": lambda header, tensors: tensors.pop("values"),
    "another place": lambda header, tensors: header.update(belongs_to="elsewhere"),
}
# What looks right: only the checksum can tell.
PLAUSIBLE = {
    "a value": item("values", 0, 5),
    "a leaf": item("splits", (slice(None), 0), 0),
    "a variable": item("splits", (slice(None), 1), 0),
    "a gain": item("gains", 0, 0.5),
    "a curve": item("valid_curve", 0, 0.0),
    "another start": item("n_start", 0, 1),
    "another limit": item("limits", 0, 1000),
    "no limit": lambda header, tensors: tensors.pop("limits"),
    "another share": item("shares", (0, 0), 0.5),
    "values in another order": whole("values", lambda a: a[::-1].copy()),
}


def altered(path: Path, alter: Callable[[Any, Any], Any], seal: bool) -> None:
    """The file with something else in it; sealed, its checksum is right."""
    kind, header, tensors = container.read(path)
    original = path.read_bytes()
    alter(header, tensors)
    container.write(path, kind, {name: value for name, value in header.items() if name != "version"}, tensors)
    if not seal:
        checksum = re.compile(rb'checksum\\": \\"[0-9a-f]{64}')
        (right,) = checksum.findall(original)
        path.write_bytes(checksum.sub(lambda _: right, path.read_bytes()))
    assert path.read_bytes() != original


@pytest.mark.parametrize(
    ("name", "seal"),
    [*((name, True) for name in OUT_OF_BOUNDS), *((name, False) for name in OUT_OF_BOUNDS | PLAUSIBLE)],
)
def test_a_dimension_that_was_altered_is_trained_again(name: str, seal: bool, finished: Path, expected: bytes) -> None:
    (path,) = finished.glob("*-00005.safetensors")
    before = path.read_bytes()
    altered(path, (OUT_OF_BOUNDS | PLAUSIBLE)[name], seal)
    assert fitted(finished) == expected
    assert path.read_bytes() == before


def test_more_trees_than_the_fit_has_rounds_are_not_read(tmp_path: Path) -> None:
    bits = pack(X)
    how = Boosting(max_leaf_nodes=4, max_iter=5)
    checkpoint = Checkpoint(tmp_path, {}, seed=0)
    checkpoint.save(how, 5, (Conditional.train(bits, bits, 5, Boosting(max_leaf_nodes=4, max_iter=6)),))
    assert checkpoint.load(how, Layout.binary(8), 5) is None


@pytest.mark.parametrize("seal", [True, False], ids=["sealed", "not sealed"])
@pytest.mark.parametrize(
    "change",
    [
        lambda order: order[[0, 0, *range(2, len(order))]],
        lambda order: order + 1,
        lambda order: order - 1,
        lambda order: order * 10**12,
        lambda order: order[:-1],
        lambda order: np.append(order, len(order)),
        lambda order: order[None],
        lambda order: order.astype(np.float64),
        lambda order: order.astype(np.int32),
    ],
    ids=["twice", "plus one", "minus one", "far", "shorter", "longer", "two-dimensional", "floats", "int32"],
)
def test_an_order_that_was_altered_is_found_again(change: Callable[[Any], Any], seal: bool, tmp_path: Path) -> None:
    model = LBARN(**SHORT, order="entropy-decreasing")
    expected = model_bytes(model.fit(X, checkpoint=tmp_path))
    (path,) = tmp_path.glob("*-order.safetensors")
    altered(path, whole("order", change), seal)
    assert model_bytes(model.fit(X, checkpoint=tmp_path)) == expected


def test_another_permutation_is_noticed(tmp_path: Path) -> None:
    model = LBARN(**SHORT, order="entropy-decreasing")
    expected = model_bytes(model.fit(X, checkpoint=tmp_path))
    (path,) = tmp_path.glob("*-order.safetensors")
    altered(path, whole("order", lambda order: order[::-1].copy()), seal=False)
    assert model_bytes(model.fit(X, checkpoint=tmp_path)) == expected


# ---------------------------------------------------------------- others in the folder, and no room


def test_fits_in_threads_and_in_processes_share_a_folder(tmp_path: Path) -> None:
    """The processes believe that they all have the same number, as in containers."""
    shape, parameters = (500, 16), {**SHORT, "max_iter": 40}
    expected = model_bytes(LBARN(**parameters).fit(linked_rows(*shape)))
    files = [tmp_path / f"model {k}" for k in range(2)]
    processes = [
        start(shape, parameters, checkpoint=tmp_path / "fit", model=file, n_fits=3, environment={"LBARN_TEST_PID": "1"})
        for file in files
    ]
    assert [process.wait(DEADLINE) for process in processes] == [0, 0]
    assert [file.read_bytes() for file in files] == [expected] * 2
    assert not list((tmp_path / "fit").glob(".*"))


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    code = """
import resource, sys, warnings
warnings.simplefilter("ignore")
from fit_process import linked_rows
from lbarn import LBARN
X = linked_rows(200, 8)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
LBARN(max_iter=50).fit(X, checkpoint=sys.argv[1])
"""
    process = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert re.search(rf"OSError: .*File too large: '{tmp_path}/\w+-00007.safetensors'", process.stderr)
    assert os.listdir(tmp_path) == ["checkpoint.json"]
