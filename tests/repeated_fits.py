"""The same model, however it is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lbarn import LBARN


def assert_the_same_however_fitted(X: Any, folder: Path, parameters: dict[str, Any]) -> tuple[LBARN, LBARN]:
    """By one job or two, resumed, or continued from half as many rounds; returns that of one job and the resumed one."""
    one, two = LBARN(n_jobs=1, **parameters).fit(X), LBARN(n_jobs=2, **parameters).fit(X)
    assert one.network_.fingerprint() == two.network_.fingerprint()
    resumed = [LBARN(**parameters).fit(X, checkpoint=folder / "c") for _ in range(2)]
    assert {own.network_.fingerprint() for own in resumed} == {one.network_.fingerprint()}
    n = parameters["max_iter"]
    warm = LBARN(warm_start=True, **{**parameters, "max_iter": n // 2}).fit(X)
    assert warm.set_params(max_iter=n).fit(X).network_.fingerprint() == one.network_.fingerprint()
    return one, resumed[1]
