"""Every example in the documentation runs and prints what the page shows; every link leads somewhere.

A page's ``python`` blocks run in order, in one namespace. A ``text`` block right after one is what it prints; a block that prints
must have one. In a ``console`` block the lines that begin with ``$ `` are run by the shell, and the others are their output. As
in doctest, ``...`` stands for anything and white space counts as one space. Pages that link to ``index.md#set-up`` go on from there.

    python tests/test_docs.py [PAGE ...]    writes what the examples print today into the pages
"""

from __future__ import annotations

import contextlib
import copy
import doctest
import functools
import importlib
import importlib.util
import io
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lbarn

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
LINKING = [*PAGES, ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*/*.md"))]
EXTRAS = {  # what a page imports
    "anomalies.md": ["pandas"],
    "classification.md": ["pandas"],
    "clusters.md": ["distributed"],
    "fitting.md": ["pandas"],
    "imputation.md": ["pandas"],
    "plots.md": ["matplotlib", "pandas"],
    "report.md": ["jinja2", "matplotlib", "pandas"],
    "synthesis.md": ["pandas"],
    "tables.md": ["pandas"],
    "groups.md": ["pandas"],
}
SET_UP = "index.md#set-up"
LIKE_DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

_spec = importlib.util.spec_from_file_location("checks", DOCS / "assets" / "checks.py")
assert _spec is not None
assert _spec.loader is not None
checks = importlib.util.module_from_spec(_spec)  # of the site
_spec.loader.exec_module(checks)

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(lbarn.__path__, "lbarn.")
    if not module.name.rpartition(".")[2].startswith("_")
)

_BLOCK = re.compile(
    r"^```(?P<language>python|console)\n(?P<source>.*?)^```\n(?:\n*```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Example:
    """A block of a page that runs, and the output that the page shows below it (None if it shows none)."""

    page: Path
    text: re.Match[str]

    @property
    def source(self) -> str:
        return self.text["source"]

    @property
    def expected(self) -> str:
        return self.text["output"] or ""

    @property
    def line(self) -> int:
        """The number of lines before the block."""
        return self.text.string.count("\n", 0, self.text.start("source"))

    def run(self, namespace: dict[str, Any]) -> str:
        """What it prints; tracebacks name the page's lines."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("\n" * self.line + self.source, str(self.page), "exec"), namespace)
        return printed.getvalue()

    def run_as_session(self, namespace: dict[str, Any]) -> list[str]:
        """What went wrong in a session of ``>>>`` lines."""
        session = doctest.DocTestParser().get_doctest(self.source, {}, self.page.name, str(self.page), self.line)
        session.globs = namespace
        report: list[str] = []
        doctest.DocTestRunner(optionflags=LIKE_DOCTEST).run(session, out=report.append, clear_globs=False)
        return report

    def run_in_shell(self) -> str:
        """The block as a terminal shows it today: commands, each with its output."""
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        commands = [line[2:] for line in self.source.splitlines() if line.startswith("$ ")]
        shown = ""
        for command in commands:
            done = subprocess.run(command, shell=True, capture_output=True, text=True, env={**os.environ, "PATH": path})
            assert done.returncode == 0, f"{self.page.name}: {command}\n{done.stderr}"
            shown += f"$ {command}\n{done.stdout}"
        return shown


def same(expected: str, printed: str) -> bool:
    """Whether it was printed, ``...`` standing for anything. White space may differ."""
    return doctest.OutputChecker().check_output(expected, printed, LIKE_DOCTEST)


def examples(page: Path) -> Iterator[Example]:
    for match in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield Example(page, match)


@functools.cache
def set_up() -> dict[str, Any]:
    """The names that the index page leaves behind, computed once."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for example in examples(INDEX):
        example.run(namespace)
    return namespace


def fresh_namespace(page: Path) -> dict[str, Any]:
    if SET_UP not in page.read_text(encoding="utf-8"):
        return {"__name__": "__main__"}
    return {name: value if _is_shared(value) else copy.deepcopy(value) for name, value in set_up().items()}


def _is_shared(value: Any) -> bool:
    """Code, which a page cannot change; unlike data and models."""
    return isinstance(value, types.ModuleType | types.FunctionType | type | str) or value is set_up().get(
        "__builtins__"
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_print_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for extra in EXTRAS.get(page.name, []):
        pytest.importorskip(extra)
    namespace = fresh_namespace(page)
    monkeypatch.chdir(tmp_path)
    for example in examples(page):
        where = f"{page.name}, line {example.line + 1}"
        if example.text["language"] == "console":
            assert same(example.source, printed := example.run_in_shell()), f"{where}: the commands give\n\n{printed}"
        elif example.source.startswith(">>>"):
            assert not (report := example.run_as_session(namespace)), "\n".join(report)
        else:
            printed = example.run(namespace)
            assert same(example.expected, printed), (
                f"{where}: the page shows\n\n{example.expected}\nbut it prints\n\n{printed}"
            )


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_give_what_they_say(name: str) -> None:
    if name.startswith(("lbarn.plots", "lbarn.report")):
        pytest.importorskip("matplotlib")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    relative = [target for target in targets if target and not re.match(r"[a-z]+:", target)]
    assert [target for target in relative if not (page.parent / target).exists()] == []


def test_the_index_names_every_page() -> None:
    index = INDEX.read_text(encoding="utf-8")
    others = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"index.md"}
    assert {name for name in others if f"]({name})" not in index} == set()


def test_the_navigation_names_every_page() -> None:
    named = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def test_every_public_name_is_documented_and_in_the_reference() -> None:
    assert list(checks.missing_names(DOCS)) == []


def test_a_public_name_without_a_docstring_is_found() -> None:
    class Described:
        """It is."""

        def fit(self) -> None: ...

    Described.fit.__module__ = "lbarn.somewhere"
    assert list(checks.undocumented("lbarn.Described", Described)) == ["lbarn.Described.fit"]


def test_assets_from_other_hosts_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<script src="https://cdn.example/x.js"></script><a href="https://x.example">a link</a>'
    )
    (tmp_path / "sheet.css").write_text(
        "@import '//fonts.example/font.css'; a { background: url(data:image/png;base64,) }"
    )
    assert list(checks.foreign_assets(tmp_path)) == [
        "page.html: https://cdn.example/x.js",
        "sheet.css: //fonts.example/font.css",
    ]


def rewrite(page: Path) -> None:
    """Put what the examples print today into a page. Output that still agrees, by its ellipses too, stays as it is."""
    text = page.read_text(encoding="utf-8")
    namespace = fresh_namespace(page)
    replaced = []
    for example in examples(page):
        if example.text["language"] == "console":
            shown = example.run_in_shell()
            new = example.text[0] if same(example.source, shown) else f"```console\n{shown}```\n"
        elif example.source.startswith(">>>"):
            print(*example.run_as_session(namespace), sep="", end="")
            new = example.text[0]
        else:
            printed = example.run(namespace)
            new = example.text[0]
            if not same(example.expected, printed):
                output = "\n".join(line.rstrip() for line in printed.splitlines())
                new = f"```python\n{example.source}```\n" + (f"\n```text\n{output}\n```\n" if printed else "")
        replaced.append((example.text.span(), new))
    for (begin, end), new in reversed(replaced):
        text = text[:begin] + new + text[end:]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        print(page.name, flush=True)
        os.chdir(tempfile.mkdtemp(prefix="lbarn-docs-"))
        rewrite(page)
