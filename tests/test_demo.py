"""The demo fits, compares and ends with a report."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

import lbarn
from lbarn import demo
from networks import still_rising


@still_rising
def test_runs_and_says_where_the_report_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = demo.run(tmp_path / "demo", max_iter=20)
    page = tmp_path / "demo" / "report.html"
    assert "<title>Handwritten digits</title>" in page.read_text(encoding="utf-8")
    shown = capsys.readouterr().out
    assert page.as_uri() in shown
    assert "grape                 categorical" in shown
    assert scores["independent columns"] < scores["LBARN of wines"]
    assert lbarn.load(tmp_path / "demo" / "wines.lbarn").columns_["grape"].kind == "categorical"
    assert (tmp_path / "demo" / "wines.csv").read_text().startswith("grape,alcohol,")
    assert scores["independent bits"] < scores["single trees"]
    assert lbarn.load(tmp_path / "demo" / "digits.lbarn").n_features_in_ == 64
