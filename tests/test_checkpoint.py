"""A checkpoint continues the same fit to the same bits, and no other one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from fit_process import DEADLINE, finished_dimensions, linked_rows, model_bytes, start, wait_until
from lbarn import LBARN, CheckpointError
from lbarn._engine.bits import pack
from lbarn._engine.conditional import Boosting, Conditional
from lbarn._training import jobs as training
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
        {"order": "entropy-increasing", "refit": True},
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
    monkeypatch.setattr("lbarn._models.lbarn.entropy_order", None)
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
    assert first.seed_ == model.seed_
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
    "order": list(range(8))[::-1],
    "init": "linear",
    "boosting": "gradient",
    "splits": "exact",
    "split_bits": 5,
    "min_gain": 0.5,
    "l2_regularization": 1.0,
    "max_features": 0.5,
    "refit": True,
    "n_iter_no_change": 3,
    "validation_fraction": 0.3,
    "binarize": 0.5,
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


# ---------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"version": 1}',
        b'{"version": 1, "identity": 5, "seed": 1}',
        b'{"version": 1, "identity": {}, "seed": "one"}',
        b'{"version": 1, "identity": {}, "seed": -1}',
        b'{"version": 1, "identity": {}, "seed": 1e999}',
        b'{"version": 2, "identity": {}, "seed": 1}',
        b'{"version": 1, "identity": {}, "seed": 1}',
    ],
    ids=lambda text: text[:45].decode(errors="replace"),
)
def test_a_damaged_or_foreign_head_is_refused(text: bytes, finished: Path) -> None:
    (finished / "checkpoint.json").write_bytes(text)
    with pytest.raises(CheckpointError, match="choose an empty folder"):
        LBARN(**SHORT).fit(X, checkpoint=finished)


def test_dimensions_trained_with_another_seed_are_not_read(finished: Path) -> None:
    head = finished / "checkpoint.json"
    described = json.loads(head.read_text())
    seed = described["seed"] = described["seed"] ^ 1
    head.write_text(json.dumps(described))
    before = set(finished_dimensions(finished))
    assert LBARN(**SHORT).fit(X, checkpoint=finished).seed_ == seed
    assert len(set(finished_dimensions(finished)) - before) == X.shape[1]


def test_truncated_and_empty_dimensions_are_trained_again(finished: Path) -> None:
    files = sorted(finished.glob("*.npz"))
    for path, size in zip(files, (0, 1, 100, 1000, -1), strict=False):
        os.truncate(path, size % path.stat().st_size)
    assert model_bytes(LBARN(**SHORT).fit(X, checkpoint=finished)) == model_bytes(LBARN(**SHORT).fit(X))
    assert all(path.stat().st_size > 1000 for path in files)


def test_a_damaged_dimension_is_either_whole_or_not_there(tmp_path: Path) -> None:
    how = Boosting(max_leaf_nodes=4, max_iter=5)
    bits = pack(X)
    trained = Conditional.train(bits, bits, 5, how)
    checkpoint = Checkpoint(tmp_path, {}, seed=0)
    checkpoint.save(how, trained)
    (path,) = tmp_path.glob("*.npz")
    intact = path.read_bytes()
    rng = np.random.default_rng(0)
    lost = 0
    for _ in range(400):
        damaged = bytearray(intact[: rng.integers(len(intact))] if rng.random() < 0.2 else intact)
        for at in rng.integers(len(damaged), size=min(len(damaged), rng.integers(1, 4))) if damaged else ():
            damaged[at] ^= 1 << rng.integers(8)
        path.write_bytes(damaged)
        found = checkpoint.load(how, 5)
        lost += found is None
        if found is not None:
            for name in ("splits", "gains", "values", "offsets"):
                np.testing.assert_array_equal(getattr(found.trees, name), getattr(trained.trees, name))
            np.testing.assert_array_equal(found.train_curve, trained.train_curve)
            np.testing.assert_array_equal(found.valid_curve, trained.valid_curve)
    assert lost > 200
