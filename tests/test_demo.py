"""The demo fits, compares and ends with a report."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

import lbarn
from lbarn import demo

README = Path(__file__).resolve().parents[1] / "README.md"


def test_runs_and_says_where_the_report_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = demo.run(tmp_path / "demo")
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
    text = README.read_text(encoding="utf-8")
    names = {"independent bits": "independent bits", "a network of single trees": "single trees", "LBARN": "LBARN"}
    lines = [f"| {told} | {scores[name]:.2f} |" for told, name in names.items()]
    assert [line for line in lines if line not in text] == []
