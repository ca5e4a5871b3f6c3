"""Every example in the documentation runs and says what it prints; every link leads somewhere."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lbarn

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = {  # what a page imports
    "clusters.md": ["distributed"],
    "fitting.md": ["pandas"],
    "plots.md": ["matplotlib", "pandas"],
    "report.md": ["jinja2", "matplotlib", "pandas"],
}

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(lbarn.__path__, "lbarn.")
    if not module.name.rpartition(".")[2].startswith("_")
)


def python_blocks(page: Path) -> Iterator[tuple[int, str]]:
    """(lines before it, source) of every block marked as Python."""
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, match.start(1)), match[1]


def run_block(page: Path, line: int, source: str, namespace: dict[str, Any]) -> None:
    """A session (``>>>``) has its output compared; anything else only has to run. Tracebacks name the page's lines."""
    if not source.lstrip().startswith(">>>"):
        exec(compile("\n" * line + source, str(page), "exec"), namespace)
        return
    session = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), line)
    session.globs = namespace
    report: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(
        session, out=report.append, clear_globs=False
    )
    assert outcome.failed == 0, "\n".join(report)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_in_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in EXTRAS.get(page.name, []):
        pytest.importorskip(extra)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, source in python_blocks(page):
        run_block(page, line, source, namespace)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_give_what_they_say(name: str) -> None:
    if name.startswith(("lbarn.plots", "lbarn.report")):
        pytest.importorskip("matplotlib")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    relative = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    assert [target for target in relative if not (page.parent / target).exists()] == []


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    others = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert {name for name in others if f"]({name})" not in index} == set()
