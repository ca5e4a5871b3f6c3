"""A little of ``make torture``: fits that are killed at random moments end with the same bytes."""

from __future__ import annotations

import pytest

from torture import Torture

pytest.importorskip("distributed", reason="Dask is an extra: pip install 'lbarn[dask]'")

pytestmark = pytest.mark.filterwarnings("ignore")


def test_fits_that_are_killed_at_random_moments_end_with_the_same_bytes() -> None:
    torture = Torture(seed=1)
    torture.run(n_kills=6)
    assert torture.failed == []
