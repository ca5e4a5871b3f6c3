"""Two tables compared, from reading them to all figures."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.utils import check_random_state

from lbarn._tables.table import take_rows
from lbarn.comparison.classifiers import Classifier, Target, check_classifier, find_target, trained_score, two_sample
from lbarn.comparison.copies import Neighbours, Space, copied_share, nearer_share, repeated_share
from lbarn.comparison.distributions import distribution
from lbarn.comparison.encoding import Floats, Schema, encode
from lbarn.comparison.likeness import compare_correlations, missing_similarity, pairs_of, shapes, trends
from lbarn.comparison.result import ColumnLikeness, Fidelity, PairLikeness, RealAgainstReal
from lbarn.comparison.tables import Columns, match, read_columns

__all__ = ["Scorer", "compare_tables", "fidelity"]

_LEAST_ROWS = 10
_MOST_CELLS = 50_000_000  # of a table that is looked at as a whole
_TREND_ROWS, _TREND_PAIRS = 50_000, 5000
_CLASSIFIER_ROWS, _CLASSIFIER_CELLS = 5000, 1_000_000  # at most so many cells, but at least so many rows
_NEIGHBOUR_ROWS = 5000  # whose neighbours are looked for
_NEIGHBOUR_WORK = 5_000_000_000  # differences of numbers
_KNOWN_ROWS = 2000, 50_000  # among which they are looked for
_SCORED_ROWS = 5000


class Scorer(Protocol):
    """A model with a likelihood."""

    def score_samples(self, X: Any) -> Any:
        """Log-likelihood of every row."""
        ...


def fidelity(
    real_holdout: Any,
    synthetic: Any,
    *,
    train: Any = None,
    target: str | None = None,
    model: Scorer | None = None,
    classifier: Classifier = "scikit-learn",
    random_state: Any = 0,
) -> Fidelity:
    """Compare synthetic rows with real ones: are they alike, are they as useful, and were they copied?

    Any two tables of the same columns, whoever made them: numbers, dates, booleans, categories, empty cells. Beside every
    figure stands the same one for real rows against real rows, which is what to expect of a good generator.

    Parameters
    ----------
    real_holdout, synthetic : tables
        Of pandas, polars, pyarrow or NumPy; columns are matched by name if both have names. If the generator has not seen
        the rows of ``real_holdout``, give ``train`` as well.
    train : table, optional
        The rows that the generator was fitted on. Without them, copies of the rows of ``real_holdout`` are looked for, and
        the real rows are divided in two for comparison.
    target : str, optional
        The column that is predicted from the others, by a model trained on synthetic rows; by default the last one.
    model : optional
        Something with ``score_samples``, to compare the likelihoods of ``train`` and ``real_holdout``.
    classifier : {"scikit-learn", "xgboost"}, default="scikit-learn"
        Which boosted trees try to tell synthetic rows from real ones.
    random_state : int, RandomState instance or None, default=0
        For folds, halves, and which rows of long tables are looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from lbarn.baselines import IndependentBits
    >>> X = np.repeat(np.random.default_rng(0).integers(0, 2, (900, 2)), 2, axis=1)
    >>> synthetic = IndependentBits().fit(X[:600]).sample(300, random_state=0)
    >>> found = fidelity(X[600:], synthetic, train=X[:600])
    >>> found.shape > 0.9  # every column is as it should be ...
    True
    >>> found.two_sample_auc > 0.7  # ... but not together
    True
    """
    titles = ("real_holdout", "synthetic", "train")
    return compare_tables(
        real_holdout,
        synthetic,
        train,
        titles,
        target=target,
        model=model,
        classifier=classifier,
        random_state=random_state,
    )


def compare_tables(
    real: Any,
    synthetic: Any,
    train: Any,
    titles: tuple[str, str, str],
    *,
    target: str | None = None,
    model: Scorer | None = None,
    classifier: Classifier = "scikit-learn",
    random_state: Any = 0,
) -> Fidelity:
    """As :func:`fidelity`, of tables that the user calls by these titles."""
    check_classifier(classifier)
    if model is not None and train is None:
        raise ValueError("the likelihood gap of a model needs both training rows and held-out rows")
    rng = np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))
    given = [(real, titles[0]), (synthetic, titles[1]), *([] if train is None else [(train, titles[2])])]
    tables = [read_columns(X, title) for X, title in given]
    for table in tables:
        if table.n_rows < _LEAST_ROWS:
            raise ValueError(f"{table.title} has {table.n_rows} rows; at least {_LEAST_ROWS} are needed to compare")
    matched = [match(tables[0], table) for table in tables]
    schema, matrices = encode([_some_columns(table, rng) for table in matched])
    work = _Work(schema, matrices[0], matrices[1], matrices[2] if len(matrices) > 2 else None, classifier, rng)
    return work.result([table.n_rows for table in tables], target, _gaps(model, real, train, rng))


def _some_columns(table: Columns, rng: np.random.Generator) -> Columns:
    most = max(_LEAST_ROWS, _MOST_CELLS // len(table.arrays))
    return table if table.n_rows <= most else table.take(np.sort(rng.choice(table.n_rows, most, replace=False)))


def _gaps(
    model: Scorer | None, holdout: Any, train: Any, rng: np.random.Generator
) -> tuple[float | None, float | None]:
    """Between training and held-out rows, and between two halves of the held-out rows."""
    if model is None:
        return None, None
    means = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of gaps in rows, which are scored by the values that are there
        for X in (train, holdout):
            n = len(X) if hasattr(X, "__len__") else X.shape[0]
            rows = rng.permutation(n)[:_SCORED_ROWS]
            try:
                means.append(np.asarray(model.score_samples(take_rows(X, rows)), np.float64))
            except (ValueError, TypeError) as error:
                raise ValueError(f"the model cannot score these rows: {error}") from error
    half = len(means[1]) // 2
    return float(means[0].mean() - means[1].mean()), float(means[1][:half].mean() - means[1][half:].mean())


@dataclass(frozen=True)
class _Halves:
    """Real rows that stand in for synthetic ones, and those that they are compared with."""

    stand_in: Floats
    real: Floats


class _Work:
    """The matrices of a comparison, and what is computed from them."""

    def __init__(
        self,
        schema: Schema,
        real: Floats,
        synthetic: Floats,
        train: Floats | None,
        classifier: Classifier,
        rng: np.random.Generator,
    ) -> None:
        self.schema, self.real, self.synthetic, self.train = schema, real, synthetic, train
        self.classifier, self.rng = classifier, rng
        self.seed = int(rng.integers(2**31 - 1))
        self.notes: list[str] = []
        if train is None:
            shuffled = real[rng.permutation(len(real))]
            self.halves = _Halves(shuffled[: len(real) // 2], shuffled[len(real) // 2 :])
        else:
            self.halves = _Halves(self._some(train, len(synthetic)), real)

    def _some(self, rows: Floats, most: int) -> Floats:
        return rows if len(rows) <= most else rows[np.sort(self.rng.choice(len(rows), most, replace=False))]

    def result(self, n_rows: list[int], target: str | None, gaps: tuple[float | None, float | None]) -> Fidelity:
        schema, real, synthetic, halves = self.schema, self.real, self.synthetic, self.halves
        shape, shape_real = shapes(schema, real, synthetic), shapes(schema, halves.real, halves.stand_in)
        pairs, trend, trend_real = self._trends()
        related = compare_correlations(schema, real, synthetic)
        judged, judged_real = self._judged(real, synthetic), self._judged(halves.real, halves.stand_in)
        neighbours, nearer, nearer_real = self._neighbours()
        chosen = find_target(schema, real, target)
        if isinstance(chosen, str):
            if target is not None:
                raise ValueError(chosen)
            self.notes.append(chosen)
        used = self._useful(chosen) if isinstance(chosen, Target) else (None, None)
        missing, missing_real = missing_similarity(real, synthetic), missing_similarity(halves.real, halves.stand_in)
        empty = np.isnan(real).mean(axis=0), np.isnan(synthetic).mean(axis=0)
        if self.train is None:
            self.notes.append(
                "Without held-out rows, the figures of real against real are those of two random halves of the real rows, "
                "and a third of the real rows is kept to test models on."
            )
        return Fidelity(
            marginal_difference_max=float(1 - shape.min()),
            marginal_difference_mean=float(1 - shape.mean()),
            correlation_difference_mean=related.difference,
            correlation_agreement=related.agreement,
            two_sample_auc=judged.auc,
            **neighbours,
            shape=float(shape.mean()),
            trend=_mean(trend),
            missing=float(missing.mean()),
            c2st=judged.c2st,
            target=chosen.name if isinstance(chosen, Target) else None,
            measure=chosen.measure if isinstance(chosen, Target) else None,
            trained_on_synthetic=used[0],
            trained_on_real=used[1],
            nearer_to_training=nearer,
            likelihood_gap=gaps[0],
            real_against_real=RealAgainstReal(
                float(shape_real.mean()),
                _mean(trend_real),
                float(missing_real.mean()),
                judged_real.c2st,
                judged_real.auc,
                nearer_real,
                gaps[1],
            ),
            n_real=n_rows[0],
            n_synthetic=n_rows[1],
            n_train=n_rows[2] if self.train is not None else None,
            columns=tuple(
                ColumnLikeness(
                    name,
                    schema.kinds[j],
                    float(shape[j]),
                    float(shape_real[j]),
                    float(empty[0][j]),
                    float(empty[1][j]),
                    distribution(schema, j, real, synthetic),
                )
                for j, name in enumerate(schema.names)
            ),
            pairs=tuple(
                PairLikeness(schema.names[i], schema.names[j], _number(own), _number(reference))
                for (i, j), own, reference in zip(pairs.tolist(), trend, trend_real)
            ),
            notes=tuple(self.notes),
        )

    def _trends(self) -> tuple[Any, Floats, Floats]:
        n = len(self.schema.names)
        pairs = pairs_of(n, _TREND_PAIRS, self.rng)
        if len(pairs) < n * (n - 1) // 2:
            self.notes.append(f"The trend is that of {len(pairs):,} of {n * (n - 1) // 2:,} pairs, drawn at random.")
        found = [
            trends(self.schema, self._some(a, _TREND_ROWS), self._some(b, _TREND_ROWS), pairs)
            for a, b in ((self.real, self.synthetic), (self.halves.real, self.halves.stand_in))
        ]
        return pairs, found[0], found[1]

    def _judged(self, real: Floats, other: Floats) -> Any:
        most = self._classifier_rows()
        return two_sample(self.schema, self._some(real, most), self._some(other, most), self.classifier, self.seed)

    def _classifier_rows(self) -> int:
        return max(_CLASSIFIER_ROWS, _CLASSIFIER_CELLS // len(self.schema.names))

    def _useful(self, target: Target) -> tuple[float, float]:
        """The scores of models trained on synthetic and on real rows, as many of each."""
        if self.train is None:
            shuffled = self.real[self.rng.permutation(len(self.real))]
            test, train = shuffled[: len(shuffled) // 3], shuffled[len(shuffled) // 3 :]
        else:
            test, train = self.real, self.train
        n = min(len(train), len(self.synthetic), self._classifier_rows())
        test = self._some(test, self._classifier_rows())
        scores = [
            trained_score(self.schema, target, self._some(rows, n), test, self.seed) for rows in (self.synthetic, train)
        ]
        return scores[0], scores[1]

    def _neighbours(self) -> tuple[dict[str, float], float | None, float | None]:
        """Distances and copies; the share of synthetic rows nearer to training than to held-out rows, and that of held-out
        rows, each compared with the others."""
        most = self._known_rows()
        synthetic, real = self._some(self.synthetic, _NEIGHBOUR_ROWS), self._some(self.real, most)
        own = self.rng.permutation(len(real))[:_NEIGHBOUR_ROWS]
        space = Space(self.schema, self.real if self.train is None else np.concatenate([self.real, self.train]))
        made, fresh = space.neighbours(synthetic, real), space.neighbours(real[own], real, own)
        if self.train is None:
            return _near(made, fresh, copied_share(self.synthetic, self.real), repeated_share(self.real)), None, None
        train = self._some(self.train, most)
        made_train, fresh_train = space.neighbours(synthetic, train), space.neighbours(real[own], train)
        return (
            _near(
                made_train, fresh_train, copied_share(self.synthetic, self.train), copied_share(self.real, self.train)
            ),
            nearer_share(made_train, made, len(train), len(real)),
            nearer_share(fresh_train, fresh, len(train), len(real) - 1),
        )

    def _known_rows(self) -> int:
        n_numbers = int((~self.schema.discrete).sum())
        least, most = _KNOWN_ROWS
        return int(np.clip(_NEIGHBOUR_WORK // (_NEIGHBOUR_ROWS * (n_numbers + 1)), least, most))


def _near(made: Neighbours, fresh: Neighbours, copied: float, copied_fresh: float) -> dict[str, float]:
    return {
        "nearest_synthetic": float(made.first.mean()),
        "nearest_holdout": float(fresh.first.mean()),
        "copied_synthetic": copied,
        "copied_holdout": copied_fresh,
        "neighbour_ratio_synthetic": made.mean_ratio(),
        "neighbour_ratio_holdout": fresh.mean_ratio(),
    }


def _mean(scores: Floats) -> float | None:
    known = scores[~np.isnan(scores)]
    return float(known.mean()) if len(known) else None


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
