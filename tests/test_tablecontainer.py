"""Compression of tables of any kind: every value comes back as it was, and damaged data is never other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from lbarn import LBARN
from lbarn._models import tablecodec
from lbarn._network.envelope import Envelope
from lbarn.errors import CompressedDataError
from mixed import brief, brief_ensemble, people
from networks import still_rising

pytestmark = still_rising

TABLE = people(300)
MODELS: dict[str, Any] = {"network": brief(max_iter=8), "mixture": brief_ensemble(max_iter=4)}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest) -> Any:
    return MODELS[request.param].fit(TABLE)


@pytest.fixture(scope="module")
def network() -> LBARN:
    return brief(max_iter=8).fit(TABLE)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tablecodec, "_GROUP_ROWS", 64)


def strange(n: int) -> pd.DataFrame:
    """Rows with values that no code has: unseen levels, numbers off the grid or far away, a negative zero, gaps."""
    table = people(n, seed=7)
    table.loc[0, "town"] = "Zürich, \n'\"\N{GRINNING FACE}"
    table.loc[1, "income"] = -0.0
    table.loc[2, "income"] = 1e300
    table.loc[3, "income"] = np.nextafter(table.loc[3, "income"], np.inf)
    table.loc[4, "age"] = -(2**62)
    table.loc[5, "since"] = pd.Timestamp("1900-01-01")
    table.loc[n - 1, "hours"] = 1_000_003
    return table


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    other = other.reset_index(drop=True)
    pd.testing.assert_frame_equal(one, other)
    bits = [own["income"].to_numpy().view(np.int64)[own["income"].notna()] for own in (one, other)]
    np.testing.assert_array_equal(*bits)


@pytest.mark.parametrize("n", [1, 64, 150, 192])
def test_any_rows_come_back_to_the_last_bit(model: Any, n: int, small_groups: None) -> None:
    table = people(n, seed=3) if n == 1 else strange(n)
    assert_same(model.decompress(model.compress(table)), table)


def test_the_bytes_do_not_depend_on_how_the_rows_come(model: Any, small_groups: None) -> None:
    table = strange(150)
    pieces = [table[start:stop] for start, stop in ((0, 1), (1, 64), (64, 140), (140, 150))]
    assert model.compress(iter(pieces)) == model.compress(table)


def test_the_rows_of_many_tables_are_not_kept(network: LBARN, small_groups: None) -> None:
    def tables() -> Any:
        for k in range(20):
            yield people(64, seed=k)
            assert len(coded) >= k - 1, "a group is coded as soon as it is whole"

    coded: list[int] = []
    pushed = tablecodec._pushed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tablecodec, "_pushed", lambda *args: coded.append(len(args[1])) or pushed(*args))
        data = network.compress(tables())
    assert coded == [64] * 20
    assert len(network.decompress(data)) == 20 * 64


def test_damaged_data_is_never_other_rows(model: Any, small_groups: None) -> None:
    data = model.compress(strange(100))
    for at in np.linspace(0, len(data) - 1, 40).astype(int).tolist():
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(CompressedDataError):
            model.decompress(bytes(changed))
    with pytest.raises(CompressedDataError, match="truncated"):
        model.decompress(data[:30])


def claiming(model: Any, table: pd.DataFrame, n_rows: int) -> bytes:
    """Rows whose container claims to hold others, checksums and all."""
    envelope: Envelope = tablecodec._ENVELOPE
    own = model.codebook_.fingerprint()
    _, checksum, content = envelope.opened(model.compress(table), own, None)
    return envelope.sealed(own, n_rows, checksum, content)


@pytest.mark.parametrize("n", [0, 1, 149, 151, 65_536, 30_000_000, 2**40])
def test_a_claim_of_other_numbers_of_rows_is_refused(model: Any, n: int) -> None:
    with pytest.raises(CompressedDataError, match=r"damaged|claims"):
        model.decompress(claiming(model, strange(150), n))


def test_more_rows_than_the_caller_is_ready_for_are_refused(network: LBARN) -> None:
    data = network.compress(strange(150))
    with pytest.raises(CompressedDataError, match="claims to hold 150 rows, more than max_rows=149"):
        network.decompress(data, max_rows=149)
    assert_same(network.decompress(data, max_rows=150), strange(150))


def test_another_model_is_named_as_the_reason(network: LBARN) -> None:
    other = brief(max_iter=2).fit(people(200, seed=9))
    with pytest.raises(CompressedDataError, match="compressed with another model"):
        other.decompress(network.compress(TABLE))
