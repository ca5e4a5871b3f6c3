"""Whatever is read may be damaged or crafted: it is refused, or does no harm. ``make fuzz`` runs many more cases."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fuzz import ATTACKS, attack, results_of, table_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is read from /proc")


def test_two_hundred_attacks_do_no_harm() -> None:
    results = attack(200, seed=0, jobs=2)
    assert [result.case for result in results] == list(range(200))
    assert not [result for result in results if result.is_fault], table_of(results)
    assert {result.kind for result in results} == set(ATTACKS)
    outcomes = [result.outcome for result in results]
    assert min(outcomes.count(outcome) for outcome in ("refused", "same", "other")) >= 10, table_of(results)


def test_what_goes_wrong_in_a_child_is_seen_and_the_rest_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "faulty.py"
    script.write_text(
        f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import fuzz

def run_case(originals, seed, case):
    if case == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if case == 2:
        bytearray(1 << 40)
    if case == 3:
        {{}}["a key"]
    if case == 4:
        fuzz.expect(1 == 2, "one is not two")
    while case == 5:
        pass
    return "same"

fuzz.SECONDS, fuzz.run_case = 2, run_case
fuzz.main()
"""
    )
    results = list(results_of(0, range(7), str(script)))
    assert [result.case for result in results] == list(range(7))
    assert [result.outcome for result in results] == [
        "same",
        "crash SIGSEGV",
        "memory",
        "traceback",
        "wrong",
        "hang",
        "same",
    ]
    assert "a key" in results[3].detail
    assert "one is not two" in results[4].detail
