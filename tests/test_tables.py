"""Any table: a model's masses sum to 1, its answers agree with enumeration, and its draws have its frequencies."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import chisquare

from lbarn import LBARN, LBARNEnsemble
from lbarn._tables.codes import CategoricalCode, ContinuousCode, GridCode
from lbarn._tables.codes.numeric import tail_mass

FEW = {"max_iter": 6, "max_leaf_nodes": 4, "learning_rate": 0.3, "random_state": 0}
pytestmark = [
    pytest.mark.filterwarnings("ignore:validation log-likelihood is still rising"),
    pytest.mark.filterwarnings("ignore:some rows have missing values"),
    pytest.mark.filterwarnings("ignore:column .* has no values"),
]


def mixed(n: int = 300, seed: int = 0, *, holes: bool = True) -> pd.DataFrame:
    """Columns that depend on each other, few values each."""
    rng = np.random.default_rng(seed)
    color = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.3, 0.2])
    size = rng.integers(0, 3, n) + 2 * (color == "red")
    grade = pd.Categorical.from_codes(np.clip(size // 2, 0, 2), ["lo", "mid", "hi"], ordered=True)
    frame = pd.DataFrame(
        {"color": color, "size": size.astype(float), "grade": grade, "bit": (size + rng.integers(0, 2, n)) % 2}
    )
    if holes:
        frame.loc[rng.random(n) < 0.15, "size"] = np.nan
        frame.loc[rng.random(n) < 0.1, "color"] = None
    return frame


def values_of(model: LBARN, j: int) -> tuple[list[Any], list[float]]:
    """All values of a column that can be told apart, and how many each stands for: the rest of a tail goes with its first value."""
    code = model.codebook_.codes[j]
    gap: list[Any] = [None] if code.missing else []
    if isinstance(code, CategoricalCode):
        return [*code.levels, "never seen", *gap], [1.0] * (len(code.levels) + 1 + len(gap))
    if not isinstance(code, GridCode):
        beyond = [-1, 2] if code.plain.sort == "number" else []
        first = np.exp(-tail_mass(np.ones(len(beyond)), 1.0)).tolist()
        return [0, 1, *beyond, *gap], [1.0, 1.0, *first, *[1.0] * len(gap)]
    if code.plain.sort == "string":
        values = [*(code.plain.categories or ()), "never seen"]
        return [*values, *gap], [1.0] * (len(values) + len(gap))
    column = code.column(code.grid.values(np.arange(code.law.starts[0] - 1, code.law.starts[-1] + 1)))
    cells, inside = code.encode(column)
    outside = (cells == code._first - 1) | (cells == code.n_cells - 1)
    return [*column.arrow().to_pylist(), *gap], [*np.where(outside, np.exp(-inside), 1.0).tolist(), *[1.0] * len(gap)]


def all_rows(model: LBARN, frame: pd.DataFrame) -> tuple[pd.DataFrame, Any]:
    """Every row that there can be, and how many each stands for."""
    parts = [values_of(model, j) for j in range(model.codebook_.n_columns)]
    rows = list(itertools.product(*(values for values, _ in parts)))
    stands_for = np.prod(list(itertools.product(*(many for _, many in parts))), axis=1)
    table = pd.DataFrame(rows, columns=list(frame.columns))
    for name, dtype in frame.dtypes.items():
        if isinstance(dtype, pd.CategoricalDtype):
            levels = [*dtype.categories, *({*table[name].dropna()} - set(dtype.categories))]
            table[name] = pd.Categorical(table[name], levels, ordered=dtype.ordered)
        elif dtype != np.dtype(object):
            table[name] = table[name].astype(dtype)
    return table, stands_for


def discrete(kind: str, n_levels: int, gaps: bool, rng: np.random.Generator, n: int) -> pd.Series:
    """A column with few values, some of them rare."""
    codes = np.minimum(rng.geometric(0.4, n) - 1, n_levels - 1)
    names = [f"level {k}" for k in range(n_levels + 2)]
    makers: dict[str, Any] = {
        "strings": lambda: pd.Series([names[k] for k in codes], dtype="str"),
        "objects": lambda: pd.Series([names[k] for k in codes], dtype=object),
        "categories": lambda: pd.Series(pd.Categorical.from_codes(codes, names)),
        "ordered categories": lambda: pd.Series(pd.Categorical.from_codes(codes + 1, names, ordered=True)),
        "numbers": lambda: pd.Series(3.0 * codes - 1),
        "nullable": lambda: pd.Series(2 * codes, dtype="Int64"),
        "decimals": lambda: pd.Series(codes / 4),
        "numbers as strings": lambda: pd.Series([f"{k / 2:.1f}" for k in codes], dtype="str"),
        "bits": lambda: pd.Series(codes % 2, dtype="Int64"),
        "booleans": lambda: pd.Series(codes > 0, dtype="boolean"),
        "days": lambda: pd.Series(pd.Timestamp("2020-02-28") + pd.to_timedelta(codes, "D")),
        "hours": lambda: pd.Series(pd.Timestamp("2020-02-28", tz="Europe/Berlin") + pd.to_timedelta(codes, "h")),
    }
    found = makers[kind]()
    return found.mask(rng.random(n) < 0.2) if gaps else found


DISCRETE = ["strings", "objects", "categories", "ordered categories", "numbers", "nullable", "decimals"]
DISCRETE += ["numbers as strings", "bits", "booleans", "days", "hours"]


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from(DISCRETE), st.integers(1, 4), st.booleans()), min_size=1, max_size=3),
    st.integers(0, 2**31),
    st.sampled_from([2, 3, 256]),
    st.booleans(),
)
def test_the_mass_of_all_rows_is_one(kinds: list[Any], seed: int, max_cells: int, weighed: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 120))
    frame = pd.DataFrame({f"{k} {kind[0]}": discrete(*kind, rng, n) for k, kind in enumerate(kinds)})
    order = rng.permutation(len(kinds)).tolist()
    weight = rng.integers(1, 4, n) if weighed else None
    model = LBARN(**FEW, order=order, max_cells=max_cells).fit(frame, sample_weight=weight)
    if model.codebook_.is_binary:
        table = pd.DataFrame(itertools.product([0, 1], repeat=len(kinds)), columns=frame.columns)
        stands_for: Any = np.ones(len(table))
    else:
        table, stands_for = all_rows(model, frame)
    scores = model.score_samples(table)
    assert np.isfinite(scores).all()
    assert np.exp(scores) @ stands_for == pytest.approx(1.0, abs=1e-6)
    found = model.conditional(table[:3], frame.columns[0])
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("heavy", [False, True])
def test_a_density_integrates_to_one(gaps: bool, heavy: bool) -> None:
    """Over the real numbers, tails and heavy values included, and over the levels of another column."""
    rng = np.random.default_rng(0)
    level = rng.choice(["a", "b", "b"], 400)
    x = rng.normal(np.where(level == "a", 0.0, 2.0))
    x = np.where(rng.random(400) < 0.2, 0.5, x) if heavy else x
    frame = pd.DataFrame({"x": x, "level": level})
    points, weights = np.polynomial.legendre.leggauss(120)
    if gaps:
        frame.loc[::9, "x"] = np.nan
    for order in ([0, 1], [1, 0]):
        model = LBARN(**FEW, order=order, max_cells=12).fit(frame)
        code = model.codebook_.codes[0]
        assert isinstance(code, ContinuousCode)

        def density(values: Any, model: LBARN = model) -> Any:
            """Of x alone."""
            values = np.atleast_1d(np.asarray(values, float))
            return sum(
                np.exp(model.score_samples(pd.DataFrame({"x": values, "level": own}))) for own in ("a", "b", "never")
            )

        low, high = code.edges[:-1], code.edges[1:]
        single = np.nextafter(low, np.inf) >= high
        assert single.any() == heavy
        inside = density(np.where(single, low, low / 2 + high / 2)) @ np.where(single, 1.0, high - low)
        scale = code.edges[-1] - code.edges[0]
        tails = []
        for side, end in ((-1, code.edges[0]), (1, code.edges[-1])):
            t = 7.0 * (points + 1.0)
            tails.append(density(end + side * scale * np.expm1(t)) @ (7.0 * weights * scale * np.exp(t)))
        empty = density(np.nan)[0] if gaps else 0.0
        assert min(tails) > 0
        assert inside + sum(tails) + empty == pytest.approx(1.0, abs=1e-5)
        assert (empty > 0.05) == gaps


def test_an_ensemble_of_tables_has_mass_one() -> None:
    frame = mixed(150)[["color", "size", "grade"]]
    model = LBARNEnsemble(n_orders=3, orders="random", **FEW).fit(frame)
    table, stands_for = all_rows(model.members_[0], frame)
    assert np.exp(model.score_samples(table)) @ stands_for == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(
        model.score_samples(frame),
        logsumexp([member.score_samples(frame) for member in model.members_], axis=0, b=model.weights_[:, None]),
    )
    pd.testing.assert_frame_equal(model.decompress(model.compress(frame)), frame)
    assert not model.impute(frame[:9], random_state=0).isna().any(axis=None)
    assert model.conditional(frame[:4], "size").probability.sum(axis=1) == pytest.approx(1)


# ---------------------------------------------------------------------- against enumeration


class Enumerated:
    """All rows of a model whose values it has seen, with their probabilities given that all is there and was seen."""

    def __init__(self, model: LBARN, frame: pd.DataFrame) -> None:
        table, stands_for = all_rows(model, frame)
        book = model.codebook_
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells = np.concatenate([chunk.cells for chunk in model._ready(table).chunks()])
        drawn = np.all([code.tree.drawn[cells[:, j]] for j, code in enumerate(book.codes)], axis=0)
        self.exact = table[drawn].reset_index(drop=True)
        self.there = self.exact.notna()
        self.p = np.exp(model.score_samples(self.exact)) * stands_for[drawn]
        self.table = self.exact.assign(bit=self.exact["bit"].clip(0, 1))  # numbers beyond are in these cells
        p = pd.Series(np.exp(model.score_samples(table)) * stands_for)
        self.odds = {}  # by column with gaps: that it is empty against that it is not, given those before it
        names = [frame.columns[j] for j in model.order_]
        for k, name in enumerate(names):
            if book.codes[list(frame.columns).index(name)].missing:
                before = texts(table[names[:k]]).agg("|".join, axis=1) if k else pd.Series("", table.index)
                gone = table[name].isna().to_numpy()
                empty, there = (p.where(own, 0.0).groupby(before.to_numpy()).sum() for own in (gone, ~gone))
                self.odds[name] = (empty / there)[before[drawn]].to_numpy()

    def given(self, row: pd.Series, *, gaps_are_values: bool = False) -> Any:
        """P of every row together with what is there in ``row``; what is not is there in some way."""
        match = np.ones(len(self.table), bool)
        for name, value in row.items():
            if pd.isna(value):
                match &= ~self.there[name].to_numpy() if gaps_are_values else self.there[name].to_numpy()
            else:
                match &= (self.exact[name] == value).to_numpy()
        return np.where(match, self.p, 0.0)

    def filled(self, row: pd.Series) -> Any:
        """The same where the gaps were seen to be gaps: each with the probability that it is one, and what would be there."""
        joint = self.given(row)
        for name in self.odds:
            joint = joint * (self.odds[name] if pd.isna(row[name]) else 1.0)
        return joint


@pytest.fixture(scope="module", params=[("value", None), ("value", [2, 0, 3, 1]), ("unknown", [1, 3, 0, 2])], ids=str)
def fitted(request: pytest.FixtureRequest) -> tuple[LBARN, pd.DataFrame, Enumerated]:
    missing, order = request.param
    frame = mixed(400)
    model = LBARN(**FEW, missing=missing, order=order or "given").fit(frame)
    return model, frame, Enumerated(model, frame)


def holed(frame: pd.DataFrame, n: int = 12) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return mixed(n, 9, holes=False).astype({"bit": float}).mask(rng.random((n, 4)) < 0.5)[list(frame.columns)]


def test_marginals_agree_with_enumeration(fitted: Any) -> None:
    model, frame, truth = fitted
    X = holed(frame)
    found = model.log_marginal(X)
    expected = [np.log(truth.given(row).sum()) for _, row in X.iterrows()]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_imputed_probabilities_agree_with_enumeration(fitted: Any) -> None:
    model, frame, truth = fitted
    X = holed(frame)
    found = model.impute(X, output="probability")
    for name, p in found.items():
        levels = model.conditional(X[:1], name).levels
        for i, (_, row) in enumerate(X.iterrows()):
            if pd.isna(row[name]):
                joint = truth.filled(row)
                own = [joint[(truth.table[name] == level).to_numpy()].sum() / joint.sum() for level in levels]
                np.testing.assert_allclose(p[i], own, atol=1e-6)


def test_the_conditional_agrees_with_enumeration(fitted: Any) -> None:
    model, frame, truth = fitted
    X = mixed(8, 3, holes=False)[list(frame.columns)]
    for name in frame.columns:
        found = model.conditional(X.drop(columns=name), name)
        np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)
        for i, (_, row) in enumerate(X.iterrows()):
            joint = truth.given(row.where(row.index != name, None))
            own = [joint[(truth.table[name] == level).to_numpy()].sum() / joint.sum() for level in found.levels]
            np.testing.assert_allclose(found.probability[i], own, atol=1e-6)


def test_draws_fill_gaps_with_the_frequencies_of_enumeration(fitted: Any) -> None:
    model, frame, truth = fitted
    row = mixed(1, 4, holes=False)[list(frame.columns)].astype({"bit": float})
    row[["color", "bit"]] = [None, np.nan]
    drawn = model.impute(pd.concat([row] * 3000, ignore_index=True), random_state=0)
    assert (drawn["size"] == row["size"][0]).all()
    joint = truth.filled(row.iloc[0])
    keys = truth.table["color"].astype(str) + truth.table["bit"].astype(int).astype(str)
    expected = pd.Series(joint / joint.sum()).groupby(keys).sum()
    counts = (drawn["color"].astype(str) + drawn["bit"].astype(int).astype(str)).value_counts()
    assert_frequencies(counts, expected[expected > 0])


def assert_frequencies(counts: pd.Series, expected: pd.Series) -> None:
    assert set(counts.index) <= set(expected.index)
    n = counts.sum()
    often = expected[expected * n >= 5].index
    observed = np.append(counts.reindex(often, fill_value=0), n - counts.reindex(often, fill_value=0).sum())
    wanted = np.append(expected[often], max(1 - expected[often].sum(), 1e-12)) * n
    kept = wanted >= 1
    assert observed[~kept].sum() <= 5
    if kept.sum() > 1:
        assert chisquare(observed[kept], wanted[kept] * observed[kept].sum() / wanted[kept].sum()).pvalue > 1e-5


def texts(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype(object).where(table.notna(), "nothing").astype(str)


def test_samples_have_the_frequencies_of_the_model(fitted: Any) -> None:
    model, frame, truth = fitted
    drawn = model.sample(4000, random_state=1)
    columns = list(frame.columns)
    expected = pd.Series(truth.p / truth.p.sum()).groupby(texts(truth.table[columns]).agg("|".join, axis=1)).sum()
    counts = texts(drawn.astype(truth.table.dtypes.to_dict())).agg("|".join, axis=1).value_counts()
    assert_frequencies(counts, expected)


@pytest.mark.parametrize(
    ("condition", "meets"),
    [
        ({"size": 2.0}, lambda t: t["size"] == 2),
        ({"size": slice(1, 3)}, lambda t: t["size"].between(1, 3)),
        ({"size": slice(None, 1)}, lambda t: t["size"] <= 1),
        ({"color": {"red", "blue"}}, lambda t: t["color"].isin(["red", "blue"])),
        ({"grade": {"lo", "hi"}, "bit": 1}, lambda t: t["grade"].isin(["lo", "hi"]) & (t["bit"] == 1)),
        (
            {"grade": slice("lo", "mid"), "size": {0, 1, 2}},
            lambda t: t["grade"].isin(["lo", "mid"]) & t["size"].isin([0, 1, 2]),
        ),
    ],
    ids=["a value", "a range", "half a range", "a set", "a set and a value", "a range and a set"],
)
def test_what_is_given_is_met_and_the_rest_follows(fitted: Any, condition: Any, meets: Any) -> None:
    model, _, truth = fitted
    drawn, about = model.sample(3000, given=condition, random_state=0, return_diagnostics=True)
    assert meets(drawn).all()
    assert np.isinf(about["effective_sample_size"]).all(), "few values are possible: exact"
    p = np.where(meets(truth.table), truth.p, 0.0)
    known, found = texts(truth.table), texts(drawn.astype(truth.table.dtypes.to_dict()))
    for name in ("color", "size", "bit"):
        expected = pd.Series(p / p.sum()).groupby(known[name]).sum()
        assert_frequencies(found[name].value_counts(), expected[expected > 0])


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ({"size": slice(3, 1)}, "the range of column 'size' is empty"),
        ({"size": slice(0, 3, 2)}, "no step"),
        ({"size": slice(50, 60)}, "no value of column 1 .*is in 50 to 60"),
        ({"color": slice("a", "b")}, "a range goes with numbers and dates only"),
        ({"color": set()}, "the set for column 'color' is empty"),
        ({"color": "pink"}, "has no level 'pink'; its levels are"),
        ({"colour": "red"}, "there is no column 'colour'"),
        ({"size": [1, 2], "bit": [1, 0, 1]}, "different lengths"),
    ],
    ids=str,
)
def test_what_cannot_be_given_is_refused_by_name(condition: Any, message: str) -> None:
    model = LBARN(**FEW).fit(mixed(100))
    with pytest.raises(ValueError, match=message):
        model.sample(2, given=condition)


# ---------------------------------------------------------------------- numbers


@pytest.fixture(scope="module")
def numbers() -> tuple[LBARN, pd.DataFrame]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    frame = pd.DataFrame(
        {"x": x, "y": np.round(2 * x + rng.normal(size=500), 1), "z": np.where(x > 0.5, 0.0, rng.gamma(2, size=500))}
    )
    return LBARN(**FEW, max_cells=24).fit(frame), frame


@pytest.mark.parametrize("name", ["x", "y", "z"])
def test_quantiles_are_monotone_and_agree_with_the_likelihood(numbers: Any, name: str) -> None:
    model, frame = numbers
    ahead = model.conditional(frame[:5], name)
    shares = np.linspace(0, 1, 41)
    q = ahead.quantile(shares)
    assert (np.diff(q, axis=1) >= 0).all()
    assert (q[:, 0] >= frame[name].min()).all()
    assert (q[:, -1] <= frame[name].max()).all()
    np.testing.assert_array_equal(ahead.quantile(0.5), q[:, 20])
    if name == "y":  # on a grid: masses can be added up
        grid = np.round(np.arange(frame["y"].min() - 1e-9, frame["y"].max() + 0.05, 0.1), 1)
        mass = np.stack([np.exp(ahead.log_prob(value)) for value in grid], axis=1)
        upto = np.cumsum(mass, axis=1) / mass.sum(axis=1, keepdims=True)
        for k in (4, 20, 36):
            at = np.searchsorted(grid, q[:, k] - 1e-6)
            assert (upto[np.arange(5), at] >= shares[k] - 1e-6).all()
            assert (upto[np.arange(5), np.maximum(at - 1, 0)] <= shares[k] + 1e-6)[at > 0].all()
    draws = np.stack([ahead.sample(seed) for seed in range(400)])
    assert ((draws <= q[:, 20]).mean(axis=0) >= 0.4).all()
    assert np.abs(draws.mean(axis=0) - ahead.mean()).max() < 0.5


@pytest.mark.parametrize("value", [1e300, -1e300, 1.7e308, 5e-324, 0.1234567, 2.0**53])
def test_every_score_is_finite(numbers: Any, value: float) -> None:
    model, frame = numbers
    for name in frame.columns:
        odd = frame[:4].assign(**{name: value})
        assert np.isfinite(model.score_samples(odd)).all()
        assert np.isfinite(model.surprise(odd)).all()
        assert np.isfinite(model.log_marginal(odd)).all()
        assert np.isfinite(model.conditional(frame[:4], name).log_prob(value)).all()


def test_levels_that_were_never_seen_and_empty_cells_have_finite_scores() -> None:
    frame = mixed(200)
    model = LBARN(**FEW).fit(frame)
    odd = frame[:3].astype({"bit": float, "grade": object})
    odd.loc[0, "color"], odd.loc[1, "grade"], odd.loc[2, "bit"] = "pink", "never", np.nan
    assert np.isfinite(model.score_samples(odd)).all()
    assert np.isfinite(model.log_marginal(odd)).all()
    filled = model.impute(odd, random_state=0)
    assert filled.loc[0, "color"] == "pink"
    assert filled.loc[1, "grade"] == "never"
    assert filled.loc[2, "bit"] in (0, 1)


@pytest.mark.parametrize("use", ["score_samples", "surprise", "impute", "log_marginal", "compress"])
def test_infinity_is_refused_by_name_everywhere(numbers: Any, use: str) -> None:
    model, frame = numbers
    with pytest.raises(ValueError, match=r"column 1 \('y'\) holds inf \(Input X contains infinity, row 2"):
        getattr(model, use)(frame[:4].assign(y=[0.0, 1.0, np.inf, 1.0]))


def test_surprises_sum_to_the_score(numbers: Any) -> None:
    model, frame = numbers
    np.testing.assert_allclose(-model.surprise(frame).sum(axis=1), model.score_samples(frame), atol=1e-8)


# ---------------------------------------------------------------------- weights, jobs, files


def test_weights_are_repeated_rows() -> None:
    frame, valid = mixed(150), mixed(60, 1)
    weight = np.arange(150) % 3
    often = frame.loc[np.repeat(np.arange(150), weight)]
    weighed = LBARN(**FEW, cap=False).fit(frame, X_val=valid, sample_weight=weight)
    repeated = LBARN(**FEW, cap=False).fit(often, X_val=valid)
    difference = weighed.score_samples(valid) - repeated.score_samples(valid)
    assert np.abs(difference).mean() < 0.1


def test_the_same_bits_with_any_number_of_jobs_and_on_every_path(on_portable: Any) -> None:
    frame = mixed(300)

    def answers(n_jobs: int | None) -> list[Any]:
        model = LBARN(**FEW, n_jobs=n_jobs, order="entropy-decreasing").fit(frame)
        holes = holed(frame)
        return [
            model.distribution.fingerprint(),
            model.compress(frame),
            model.score_samples(frame).tobytes(),
            repr(model.sample(50, random_state=0).to_dict("list")),
            repr(model.impute(holes, random_state=0).to_dict("list")),
        ]

    once = answers(None)
    assert answers(1) == once
    assert answers(2) == once
    assert on_portable(lambda: answers(1)) == once


def test_a_model_of_a_table_comes_back_from_its_file(tmp_path: Any, numbers: Any) -> None:
    import lbarn

    for model, frame in (numbers, (LBARN(**FEW).fit(mixed(120)), mixed(120))):
        for trim in (False, True):
            path = tmp_path / "model.lbarn"
            model.save(path, trim=trim)
            again = lbarn.load(path)
            assert again.score_samples(frame).tobytes() == model.score_samples(frame).tobytes()
            pd.testing.assert_frame_equal(again.sample(20, random_state=3), model.sample(20, random_state=3))
            assert repr(again.columns_) == repr(model.columns_)
            assert again.decompress(model.compress(frame)).equals(frame)
            again.save(tmp_path / "again.lbarn", trim=trim)
            assert (tmp_path / "again.lbarn").read_bytes() == path.read_bytes()


def test_a_fit_of_a_table_goes_on_from_its_checkpoint(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lbarn._training import run

    frame = mixed(200)
    whole = LBARN(**FEW).fit(frame)
    train, calls = run._train, []

    def stops(*args: Any, **kwargs: Any) -> Any:
        if len(calls) == 2:
            raise KeyboardInterrupt
        calls.append(args[0])
        return train(*args, **kwargs)

    monkeypatch.setattr(run, "_train", stops)
    with pytest.raises(KeyboardInterrupt):
        LBARN(**FEW, n_jobs=1).fit(frame, checkpoint=tmp_path)
    monkeypatch.setattr(run, "_train", train)
    continued = LBARN(**FEW, n_jobs=1).fit(frame, checkpoint=tmp_path)
    assert continued.distribution.fingerprint() == whole.distribution.fingerprint()
    assert continued.score_samples(frame).tobytes() == whole.score_samples(frame).tobytes()
