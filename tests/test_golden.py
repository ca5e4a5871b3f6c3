"""What version 0.1 learned, drew, filled in and wrote comes out the same: tests/golden holds a record of it.

What depends on random numbers of conditioning (draws of what is missing, and probabilities by Monte Carlo) was recorded again when particles
went into the core, which has random numbers of its own. What was enumerated is as it was in version 0.1.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.recording import Kept, files, kept

KEPT = kept(Path(__file__).parent / "golden")
FILES = [(case, file) for case in KEPT for file in files(case.case)]


@pytest.mark.parametrize("case", KEPT, ids=lambda case: case.case["name"])
def test_a_fit_comes_out_as_with_version_0_1(case: Kept) -> None:
    assert case.fit_again(exact=False) == []


@pytest.mark.parametrize(("case", "file"), FILES, ids=[f"{case.case['name']}.{file}" for case, file in FILES])
def test_files_of_version_0_1_open_and_score_alike(case: Kept, file: str) -> None:
    assert case.open_again(file, exact=False) == []
