"""What a model does, as arrays: fitted, used and read from a file as a table of cases says, and compared bit for bit.

Left out on purpose: LBARNOutlierDetector, which sets its threshold on rows that it holds out, and did not in version 0.1.

A case is a dictionary:

    name        of its files
    model       class
    parameters  of its constructor
    data        arguments of ``Rows.of``
    fit         "once" (default), "checkpoint" (half of the checkpoint removed, then fitted again), or a list of
                parameters to continue with, one ``set_params`` and ``fit`` after the other
    steps       what to record, where it is not what ``STEPS`` says of the class
    files       which model files there are, where it is not both or the class has none: "lbarn", "trimmed.lbarn"
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import lbarn
from lbarn import anomalies, baselines, inspection, synthesis

SHARED = Path(os.environ.get("LBARN_DATA", "../shared/data"))
SELECTIONS = ("individual", "common", "linearized", "linearized-backward")

Case = dict[str, Any]
Found = Iterator[tuple[str, Any]]


# ---------------------------------------------------------------- rows


@dataclass(frozen=True)
class Rows:
    """What a case is fitted on and used on."""

    train: Any
    valid: Any
    test: Any
    labels: NDArray[Any]
    labels_val: NDArray[Any]
    weight: NDArray[np.float64] | None
    weight_val: NDArray[np.float64] | None
    plain: NDArray[Any]  # the test rows as an array
    kind: str

    @classmethod
    def of(
        cls,
        source: str,
        *,
        columns: tuple[int, int],
        n: int,
        n_val: int = 0,
        n_test: int = 24,
        kind: str = "numpy",
        missing: float = 0.0,
        weighted: bool = False,
        tiny: int = 0,
    ) -> Rows:
        """Rows of ``source``, cut to a range of columns; ``tiny`` rows are given a class of their own."""
        parts, labels = _source(source, n, n_val, n_test)
        parts = [part[:, slice(*columns)] for part in parts]
        plain = parts[2]
        if missing:
            rng = np.random.default_rng(7)
            parts[:2] = [np.where(rng.random(part.shape) < missing, np.nan, part) for part in parts[:2]]
        rng = np.random.default_rng(3)
        weights = [np.where(rng.random(len(part)) < 0.1, 0.0, 2 * rng.random(len(part))) for part in parts[:2]]
        if tiny:
            labels[:tiny] = labels.max() + 1
        return cls(
            as_kind(parts[0], kind),
            as_kind(parts[1], kind) if n_val else None,
            as_kind(plain, kind),
            labels[:n],
            labels[n:],
            weights[0] if weighted else None,
            weights[1] if weighted and n_val else None,
            plain,
            kind,
        )

    def digest(self) -> str:
        """Of all that the case is given, to tell other rows from other results."""
        digest = hashlib.sha256()
        for part in (self.train, self.valid, self.test, self.weight, self.weight_val):
            digest.update(b"-" if part is None else flat(part)[0].astype(float).tobytes())
        digest.update(repr((self.labels.tolist(), self.labels_val.tolist())).encode())
        return digest.hexdigest()

    def with_holes(self, order: NDArray[np.intp]) -> Any:
        """Test rows with no, few and many bits missing, and with prefixes of ``order`` alone."""
        X = self.plain.astype(float)
        rng = np.random.default_rng(11)
        for i, row in enumerate(X):
            if i % 4 == 1:
                row[rng.choice(len(row), min(2 + i % 11, len(row)), replace=False)] = np.nan
            elif i % 4 == 2:
                row[order[i // 2 % max(1, len(row) - 13) :]] = np.nan
            elif i % 4 == 3:
                row[rng.random(len(row)) < 0.75] = np.nan
        return as_kind(X, self.kind)

    def prefixes(self, order: NDArray[np.intp]) -> Any:
        """Test rows of which the first bits of ``order`` are kept, from none to all."""
        X = self.plain[:6].astype(float)
        for row, stop in zip(X, np.linspace(0, len(order), len(X)).astype(int)):
            row[order[stop:]] = np.nan
        return as_kind(X, self.kind)


def _source(name: str, n: int, n_val: int, n_test: int) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """Training, validation and test rows, and labels of the first two."""
    ends = n, n + n_val, n + n_val + n_test
    if name in ("digits", "grey digits"):
        X, y = load_digits(return_X_y=True)
        X = X if name == "grey digits" else (X >= 8).astype(np.uint8)
        return np.split(X[: ends[2]], ends[:2]), y[: ends[1]] % 3
    if name == "linked":
        rng = np.random.default_rng(0)
        X = (rng.random((ends[2], 32)) < 0.3).astype(np.uint8)
        for d in range(1, 32):
            X[:, d] ^= X[:, d - 1] if d % 3 else X[:, d // 2] & X[:, d // 3]
        return np.split(X, ends[:2]), np.array(["even", "odd"])[(X[:, 3] ^ X[:, 9])[: ends[1]]]
    with np.load(SHARED / f"{name}.npz") as z:
        X, X_val, X_test = (np.unpackbits(z[part], axis=1, count=int(z["dim"])) for part in ("train", "valid", "test"))
    labels = np.concatenate([X[:n, -1], X_val[:n_val, -1]]).astype(int)
    return [X[:n], X_val[:n_val], X_test[:n_test]], labels


def as_kind(X: NDArray[Any], kind: str) -> Any:
    """The rows as another sort of table, columns named where it has names."""
    if kind == "numpy":
        return X
    if kind == "bool":
        return X if X.dtype == float else X.astype(bool)
    if kind == "list":
        return X.tolist()
    if kind == "sparse":
        return X if np.isnan(X).any() else sparse.csr_array(X)
    columns = {f"column {j}": column for j, column in enumerate(X.T)}
    if X.dtype == np.uint8:
        columns |= {name: column.astype(bool) for name, column in list(columns.items())[::3]}
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(columns).fill_nan(None)
    if kind == "pyarrow":
        import pyarrow as pa

        return pa.table({name: pa.array(column, from_pandas=True) for name, column in columns.items()})
    raise ValueError(kind)


def flat(value: Any) -> tuple[NDArray[Any], dict[str, Any] | None]:
    """A table of any sort as an array, and what it was where it was no array."""
    if sparse.issparse(value):
        return value.toarray(), None
    frame = nw.from_native(value, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return np.asarray(value), None
    about = {
        "library": frame.implementation.name.lower(),
        "columns": list(frame.columns),
        "dtypes": [str(dtype) for dtype in frame.schema.values()],
    }
    return np.column_stack([column.to_numpy().astype(float) for column in frame.iter_columns()]), about


# ---------------------------------------------------------------- models


def build(name: str, parameters: dict[str, Any]) -> Any:
    """A model with version 0.1's defaults, of this version or of that one."""
    given = {k: np.array(v) if k == "order" and not isinstance(v, str) else v for k, v in parameters.items()}
    has_paper = hasattr(lbarn.LBARN, "paper")
    if hasattr(baselines, name):
        return getattr(baselines, name)(**given)
    if name in ("LBARN", "LBARNEnsemble"):
        model = getattr(lbarn, name)
        return model.paper(**given) if has_paper else model(**given)
    own = {k: given.pop(k) for k in ("output", "n_particles") if k in given}
    if not has_paper:
        return getattr(lbarn, name)(**own, **given)
    if name == "LBARNClassifier":
        given = {"selection": "common", "l2_regularization": 3.0, **given}
    return getattr(lbarn, name)(estimator=build("LBARN", given), **own)


def fitted(case: Case, rows: Rows) -> tuple[Any, bool]:
    """The model of a case, and whether it said that it needs more rounds."""
    how = case.get("fit", "once")
    model = build(case["model"], case["parameters"])
    arguments: dict[str, Any] = {"X": rows.train}
    optional = {"X_val": rows.valid, "sample_weight": rows.weight, "sample_weight_val": rows.weight_val}
    arguments |= {name: value for name, value in optional.items() if value is not None}
    if case["model"] == "LBARNClassifier":
        arguments |= {"y": rows.labels} | ({"y_val": rows.labels_val} if rows.valid is not None else {})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if how == "checkpoint":
            with tempfile.TemporaryDirectory() as folder:
                model.fit(**arguments, checkpoint=folder)
                parts = sorted(path for path in Path(folder).rglob("*") if path.is_file() and path.suffix != ".json")
                if len(parts) < 2:
                    raise RuntimeError("a checkpoint without parts: there is nothing to take away")
                for path in parts[::2]:
                    path.unlink()
                model = build(case["model"], case["parameters"]).fit(**arguments, checkpoint=folder)
        else:
            model.fit(**arguments)
        for more in how if isinstance(how, list) else ():
            known = model.get_params()
            model.set_params(**{k if k in known else f"estimator__{k}": v for k, v in more.items()}).fit(**arguments)
    return model, any(issubclass(warning.category, ConvergenceWarning) for warning in said)


# ---------------------------------------------------------------- steps


def _order(model: Any) -> NDArray[np.intp]:
    return model.members_[0].order_ if hasattr(model, "members_") else model.order_


def _fit(model: Any, rows: Rows) -> Found:
    """What a fit leaves behind."""
    names = "order_ n_trees_ train_curve_ valid_curve_ feature_importances_ weights_ means_ coef_ intercept_"
    names += " seed_ selection_ max_leaf_nodes_ learning_rate_ search_results_ pseudocount_ offset_ n_iter_"
    names += " classes_ class_prior_ n_features_in_ feature_names_in_ l2_regularization_"
    for name in names.split():
        if hasattr(model, name):
            value = getattr(model, name)
            yield name, value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind == "O" else value
    parts = [*getattr(model, "members_", ()), *getattr(model, "networks_", ())]
    parts += [getattr(model, name) for name in ("network_", "estimator_") if hasattr(model, name)]
    for k, part in enumerate(parts):
        for name, value in _fit(part, rows):
            yield f"{k}.{name}", value


def _score(model: Any, rows: Rows) -> Found:
    yield "samples", model.score_samples(rows.test)
    yield "mean", model.score(rows.test)
    yield "mean_weighted", model.score(rows.test, sample_weight=np.arange(len(rows.plain)) % 3)
    for name in ("surprise", "cumulative_score"):
        if hasattr(model, name):
            yield name, getattr(model, name)(rows.test)


def _sample(model: Any, rows: Rows) -> Found:
    yield "free", model.sample(20, random_state=1)
    yield "state", model.sample(3, random_state=np.random.RandomState(5))


def _given(model: Any, rows: Rows) -> Found:
    effort = {"n_particles": 2000, "tolerance": 0.002}  # as it was when it was recorded
    yield "prefixes", model.sample(3, given=rows.prefixes(_order(model)), random_state=2, **effort)


def _impute(model: Any, rows: Rows) -> Found:
    X, few = rows.with_holes(_order(model)), {"n_particles": 40, "random_state": 3}
    for output in ("sample", "mode", "probability"):
        yield output, model.impute(X, output=output, **few)
    draws, diagnostics = model.impute(X, n_draws=3, return_diagnostics=True, **few)
    yield "draws", draws
    yield "method", diagnostics["method"]
    yield "effective", diagnostics["effective_sample_size"]
    yield "log_marginal", model.log_marginal(X, **few)


def _denoise(model: Any, rows: Rows) -> Found:
    X, few = rows.with_holes(_order(model))[:8], {"n_particles": 30, "random_state": 4}
    for output in ("mode", "probability"):
        yield output, model.denoise(X, flip=0.1, output=output, **few)
    draws, diagnostics = model.denoise(X, flip=0.02, output="sample", n_draws=2, return_diagnostics=True, **few)
    yield "draws", draws
    yield "method", diagnostics["method"]
    yield "effective", diagnostics["effective_sample_size"]


def _compress(model: Any, rows: Rows) -> Found:
    blob = model.compress(rows.test)
    yield "blob", blob
    yield "back", model.decompress(blob)


def _select(model: Any, rows: Rows) -> Found:
    early = model.get_params().get("n_iter_no_change") is not None
    for method in SELECTIONS[: 1 if early else None]:
        chosen = copy.deepcopy(model).select(method)
        for k, member in enumerate(getattr(chosen, "members_", [chosen])):
            yield f"{method}.{k}.n_trees", member.n_trees_
        if hasattr(chosen, "weights_"):
            yield f"{method}.weights", chosen.weights_
        yield f"{method}.samples", chosen.score_samples(rows.test)


def _refit(model: Any, rows: Rows) -> Found:
    weight = np.arange(len(rows.plain)) % 4 / 2
    for name, own in (("plain", None), ("weighted", weight)):
        renewed = copy.deepcopy(model).refit_leaves(rows.test, sample_weight=own)
        yield f"{name}.samples", renewed.score_samples(rows.test)
        yield f"{name}.fingerprints", [part["fingerprint"] for part in _described(renewed)]
    renewed = copy.deepcopy(model).refit_leaves(rows.with_holes(_order(model)))
    yield "missing.samples", renewed.score_samples(rows.test)


def _described(model: Any) -> list[dict[str, Any]]:
    about = inspection.describe(model)
    return about.get("members") or about.get("classes") or [about]


def _describe(model: Any, rows: Rows) -> Found:
    for k, part in enumerate(_described(model)):
        part.pop("parameters", None)  # a model has other ones in every version
        for name, value in part.items():
            yield f"{k}.{name}", value
    yield "column", inspection.describe_column(model, "5", n_trees=2)


def _explain(model: Any, rows: Rows) -> Found:
    found = anomalies.explain(model, rows.test, n_rows=4, n_values=3)
    yield "rows", [[row, score, [bit[:4] for bit in bits]] for row, score, bits in found]


def _reconstruct(model: Any, rows: Rows) -> Found:
    yield "draws", synthesis.reconstruct(model, rows.test, share=0.3, n_draws=2, random_state=6)


def _fidelity(model: Any, rows: Rows) -> Found:
    found = lbarn.fidelity(rows.test, model.sample(40, random_state=8), train=rows.train)
    yield "numbers", asdict(found) if is_dataclass(found) else found


def _predict(model: Any, rows: Rows) -> Found:
    holes = rows.with_holes(np.arange(rows.plain.shape[1]))
    for name, X in (("complete", rows.test), ("missing", holes)):
        yield f"{name}.label", model.predict(X)
        yield f"{name}.proba", model.predict_proba(X)
        yield f"{name}.log_proba", model.predict_log_proba(X)
        yield f"{name}.joint", model.predict_joint_log_proba(X)


def _networks(model: Any, rows: Rows) -> Found:
    for k, network in enumerate(model.networks_):
        yield f"{k}.samples", network.score_samples(rows.test)
        yield f"{k}.drawn", network.sample(5, random_state=k)


def _transform(model: Any, rows: Rows) -> Found:
    yield "rows", model.transform(rows.with_holes(_order(model.network_)))


ACTIONS = {
    "fit": _fit,
    "score": _score,
    "sample": _sample,
    "given": _given,
    "impute": _impute,
    "denoise": _denoise,
    "compress": _compress,
    "select": _select,
    "refit": _refit,
    "describe": _describe,
    "explain": _explain,
    "reconstruct": _reconstruct,
    "fidelity": _fidelity,
    "predict": _predict,
    "networks": _networks,
    "transform": _transform,
}
_NETWORK = ["fit", "score", "sample", "given", "impute", "denoise", "compress", "describe"]
STEPS = {
    "LBARN": [*_NETWORK, "select", "refit", "explain", "reconstruct"],
    "LBARNEnsemble": [*_NETWORK, "select", "refit", "explain"],
    "LBARNClassifier": ["fit", "predict", "networks", "describe"],
    "LBARNImputer": ["fit", "transform"],
    "IndependentBits": _NETWORK,
    "SingleTreeNetwork": _NETWORK,
    "BernoulliMixture": ["fit", "score", "sample"],
    "LogisticNetwork": ["fit", "score", "sample"],
}
HAS_FILE = ("LBARN", "LBARNEnsemble", "LBARNClassifier")
TRIMMED = ("score", "sample", "given", "compress", "impute", "predict", "networks", "reconstruct")
# Log-likelihoods of these come from whole numbers alone, and are the same on every machine.
WHOLE_MODELS = ("LBARN", "LBARNImputer", "IndependentBits")
WHOLE_STEPS = ("fit", "score", "select", "refit", "describe")


MAX_ENUMERATED = 12  # missing values of a row; beyond that it is estimated
MONTE_CARLO_ERROR = 0.05  # nats


def steps(case: Case) -> list[str]:
    return case.get("steps", STEPS[case["model"]])


def files(case: Case) -> list[str]:
    return case.get("files", ["lbarn", "trimmed.lbarn"] if case["model"] in HAS_FILE else [])


def file_steps(case: Case, file: str) -> list[str]:
    """What a model from a file does as the fitted one does. Weights are found on rows that a file does not have."""
    own = [step for step in steps(case) if not (step == "select" and case["parameters"].get("weights") == "em")]
    return [step for step in own if step in TRIMMED] if file == "trimmed.lbarn" else own


# ---------------------------------------------------------------- recording and comparing


@dataclass(frozen=True)
class Record:
    """Arrays, bytes and what JSON can hold, by step and name."""

    arrays: dict[str, NDArray[Any]]
    blobs: dict[str, bytes]
    values: dict[str, Any]

    @classmethod
    def of(cls, model: Any, rows: Rows, taken: Iterable[str]) -> Record:
        record = cls({}, {}, {})
        for step in taken:
            for name, value in ACTIONS[step](model, rows):
                record.put(f"{step}.{name}", value)
        return record

    def put(self, name: str, value: Any) -> None:
        is_plain = isinstance(value, (str, int, float, list, dict, type(None)))
        if isinstance(value, bytes):
            self.blobs[name] = value
        elif is_plain or isinstance(value, np.generic):
            value = value.item() if isinstance(value, np.generic) else value
            self.values[name] = json.loads(json.dumps(value))
        else:
            array, about = flat(value)
            self.arrays[name] = array
            if about is not None:
                self.values[f"{name}.table"] = about

    def differences(self, found: Record, tolerance: float = 0.0) -> list[str]:
        """Names of what ``found`` lacks or has otherwise; what it has besides is of no concern."""
        pairs = [(self.arrays, found.arrays), (self.blobs, found.blobs), (self.values, found.values)]
        return [
            name
            for mine, other in pairs
            for name, value in mine.items()
            if name not in other or not _same(value, other[name], tolerance)
        ]

    def only(self, step: str) -> Record:
        """Of one step alone."""
        parts = (self.arrays, self.blobs, self.values)
        return Record(*({k: v for k, v in part.items() if k.startswith(f"{step}.")} for part in parts))


def _same(a: Any, b: Any, tolerance: float) -> bool:
    """Equal, to the last bit; a number that is not whole may be off by ``tolerance``, where there is one."""
    if isinstance(a, dict) and isinstance(b, dict):
        return all(k in b and _same(v, b[k], tolerance) for k, v in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_same(v, w, tolerance) for v, w in zip(a, b))
    if not isinstance(a, (np.ndarray, float)):
        return bool(a == b)
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or (a.dtype != b.dtype and a.dtype.kind != "U"):
        return False
    is_float = a.dtype.kind == "f"
    if is_float and tolerance:
        return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
    return bool(np.array_equal(a, b, equal_nan=is_float))


def path_of(folder: Path, case: Case, what: str) -> Path:
    """``what`` is the end of a file's name: "npz", "lbz", or one of ``files``."""
    return folder / f"{case['name']}.{what}"


@dataclass(frozen=True)
class Kept:
    """A case as it was recorded."""

    case: Case
    digest: str
    rising: bool
    record: Record
    folder: Path

    def rows(self) -> Rows:
        rows = Rows.of(**self.case["data"])
        if rows.digest() != self.digest:
            raise RuntimeError(f"{self.case['name']}: the rows are not those that were recorded")
        return rows

    def fit_again(self, exact: bool = True) -> list[str]:
        """What a fit does otherwise than it did."""
        rows = self.rows()
        model, rising = fitted(self.case, rows)
        different = self._differences(model, rows, steps(self.case), exact)
        return different + (["warning"] if rising != self.rising else [])

    def open_again(self, file: str, exact: bool = True) -> list[str]:
        """What a model file does otherwise than the model that wrote it did."""
        rows = self.rows()
        model = lbarn.load(path_of(self.folder, self.case, file))
        different = self._differences(model, rows, file_steps(self.case, file), exact)
        for name, blob in self.record.blobs.items():
            if not np.array_equal(flat(model.decompress(blob))[0], self.record.arrays["compress.back"]):
                different.append(f"{name} decompressed")
        return different

    def _differences(self, model: Any, rows: Rows, taken: list[str], exact: bool) -> list[str]:
        """Without ``exact``, what goes through exp and log may differ in the last bits: they are the processor's affair."""
        different = []
        for step in taken:
            is_whole = self.case["model"] in WHOLE_MODELS and step in WHOLE_STEPS
            found = Record.of(model, rows, [step])
            if step == "predict":
                self._settle_estimates(found, rows)
            different += self.record.only(step).differences(found, 0.0 if exact or is_whole else 1e-9)
        return different

    def _settle_estimates(self, found: Record, rows: Rows) -> None:
        """Put the record's values where they count as alike: a class is given rows with more than 12 values missing by Monte
        Carlo, with other random numbers than version 0.1 had. All other rows are the same to the bit."""
        holes, _ = flat(rows.with_holes(np.arange(rows.plain.shape[1])))
        estimated = np.isnan(holes.astype(float)).sum(axis=1) > MAX_ENUMERATED
        for name in ("joint", "log_proba", "proba"):
            before, now = self.record.arrays[f"predict.missing.{name}"], found.arrays[f"predict.missing.{name}"]
            alike = estimated & (np.abs(now - before).max(axis=1) < MONTE_CARLO_ERROR)
            now[alike] = before[alike]


def kept(folder: Path) -> list[Kept]:
    """Every case of a folder that ``make`` has filled."""
    found = []
    for entry in json.loads((folder / "manifest.json").read_text())["cases"]:
        case = entry["case"]
        with np.load(path_of(folder, case, "npz"), allow_pickle=False) as z:
            arrays = {name: z[name] for name in entry["arrays"]}
        blobs = {name: path_of(folder, case, "lbz").read_bytes() for name in entry["blobs"]}
        record = Record(arrays, blobs, entry["values"])
        found.append(Kept(case, entry["rows"], entry["rising"], record, folder))
    return found
