"""Generators of synthetic tables, all of one form: ``(training rows, seed, threads) -> (as many samples, the model if it has a likelihood)``.

Everybody has the settings that its authors give as defaults, but ForestDiffusion repeats the rows 10 times instead of 100, to have a chance of
finishing, and TabularARGN does not hide rare values, as nobody else does. Rivals are imported when they are asked for; what they need beside lbarn:

    pip install --group rivals
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import lbarn

__all__ = ["GENERATORS", "is_number"]

Frame = Any
Generator = Callable[[Frame, int, int], tuple[Frame, Any]]

_TUNING_MINUTES = 3


def _lbarn(kind: type[Any]) -> Generator:
    def make(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
        model = kind(n_jobs=jobs, random_state=seed).fit(train)
        return model.sample(len(train), random_state=seed), model

    return make


def _tuned(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    model = lbarn.tune(train, minutes=_TUNING_MINUTES, verbose=0, n_jobs=jobs, random_state=seed)
    return model.sample(len(train), random_state=seed), model


def _the_same(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    return train, None


def _independent(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    rng = np.random.default_rng(seed)
    return train.apply(lambda column: column.to_numpy()[rng.permutation(len(column))]), None


def _arf(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    from arfpy import arf

    np.random.seed(seed)  # noqa: NPY002  arfpy draws from it
    model = arf.arf(x=_plain(train), random_state=seed, verbose=False, n_jobs=jobs)
    model.forde()
    return _typed(model.forge(n=len(train)), train), None


def _forest(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    from ForestDiffusion import ForestDiffusionModel

    values, categories, back = _coded(train)
    model = ForestDiffusionModel(
        values, n_t=50, duplicate_K=10, bin_indexes=[], cat_indexes=categories, int_indexes=[], diffusion_type="flow",
        n_jobs=jobs, seed=seed,
    )  # fmt: skip
    return back(model.generate(batch_size=len(train))), None


def _unmasking(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    from utrees import UnmaskingTrees

    values, categories, back = _coded(train)
    kinds = ["categorical" if k in categories else "continuous" for k in range(values.shape[1])]
    model = UnmaskingTrees(random_state=seed).fit(values, quantize_cols=kinds)
    return back(model.generate(n_generate=len(train))), None


def _argn(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
    import torch
    from mostlyai.engine import TabularARGN

    torch.set_num_threads(jobs)
    with tempfile.TemporaryDirectory() as folder:
        model = TabularARGN(workspace_dir=folder, value_protection=False, random_state=seed).fit(train)
        return _typed(model.sample(n_samples=len(train)), train), None


def _sdv(name: str, **parameters: Any) -> Generator:
    def make(train: Frame, seed: int, jobs: int) -> tuple[Frame, Any]:
        import torch
        from sdv import single_table
        from sdv.metadata import Metadata

        torch.set_num_threads(jobs)
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  SDV draws from it
        kinds = {c: "numerical" if is_number(train[c]) else "categorical" for c in train}
        columns = {c: {"sdtype": kind} for c, kind in kinds.items()}
        metadata = Metadata.load_from_dict({"tables": {"table": {"columns": columns}}})
        model = getattr(single_table, name)(metadata, **parameters)
        model.fit({"table": _plain(train)})
        return _typed(model.sample(num_rows=len(train))["table"], train), None

    return make


GENERATORS: dict[str, Generator] = {
    "LBARN": _lbarn(lbarn.LBARN),
    "LBARN, tuned": _tuned,
    "LBARNEnsemble": _lbarn(lbarn.LBARNEnsemble),
    "training rows": _the_same,
    "independent": _independent,
    "Gaussian copula": _sdv("GaussianCopulaSynthesizer"),
    "ARF": _arf,
    "UnmaskingTrees": _unmasking,
    "ForestDiffusion": _forest,
    "TabularARGN": _argn,
    "CTGAN": _sdv("CTGANSynthesizer"),
    "TVAE": _sdv("TVAESynthesizer"),
}


# ---------------------------------------------------------------------- what they take, and the way back


def is_number(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column)) and not pd.api.types.is_bool_dtype(column)


def _plain(train: Frame) -> Frame:
    """Strings and truth values as objects: some rivals do not know pandas' own types."""
    return train.astype({c: object for c in train if not is_number(train[c])})


def _typed(made: Frame, train: Frame) -> Frame:
    """The columns in their order, with the types of the training rows."""
    made = made[list(train)].reset_index(drop=True)
    for name in train:
        if pd.api.types.is_integer_dtype(train[name]):
            made[name] = np.rint(made[name].astype(float)).astype(np.int64)
        elif pd.api.types.is_bool_dtype(train[name]):
            made[name] = made[name].astype(str) == "True"
        else:
            made[name] = made[name].astype(train[name].dtype)
    return made


def _coded(train: Frame) -> tuple[Any, list[int], Callable[[Any], Frame]]:
    """Numbers for generators that take nothing else, where the categories are, and the way back."""
    levels = {k: sorted(train[c].unique()) for k, c in enumerate(train) if not is_number(train[c])}
    values = np.column_stack(
        [train[c].map(levels[k].index) if k in levels else train[c] for k, c in enumerate(train)]
    ).astype(float)

    def back(made: Any) -> Frame:
        found = {
            c: [levels[k][int(np.clip(round(v), 0, len(levels[k]) - 1))] for v in made[:, k]]
            if k in levels
            else made[:, k]
            for k, c in enumerate(train)
        }
        return _typed(pd.DataFrame(found), train)

    return values, sorted(levels), back
