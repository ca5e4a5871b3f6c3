"""Every example in the documentation runs and prints what the page shows; every link leads somewhere.

How they are run is in docs/assets/examples.py. Pages that link to ``index.md#set-up`` go on from there.

    python tests/test_docs.py [PAGE ...]    writes what the examples print, and the pictures that they draw, into the documentation
"""

from __future__ import annotations

import copy
import doctest
import functools
import importlib
import importlib.util
import os
import pkgutil
import re
import shutil
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

import pytest

import lbarn

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
GALLERY = DOCS / "gallery"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(GALLERY.glob("*.md"))]
LINKING = sorted({*PAGES, *ROOT.glob("*.md"), *DOCS.glob("*/*.md")})
EXTRAS = {  # what a page imports
    "anomalies.md": ["pandas"],
    "classification.md": ["pandas"],
    "clusters.md": ["distributed"],
    "dask.md": ["distributed", "matplotlib", "pandas"],
    "fitting.md": ["pandas"],
    "imputation.md": ["pandas"],
    "notebooks.md": ["pandas"],
    "other-libraries.md": ["duckdb", "mlflow", "pandas", "sdmetrics", "skops"],
    "plots.md": ["matplotlib", "pandas"],
    "report.md": ["jinja2", "matplotlib", "pandas"],
    "scikit-learn.md": ["pandas", "polars"],
    "synthesis.md": ["pandas"],
    "tables.md": ["pandas"],
    "groups.md": ["pandas"],
}
STORY = ["matplotlib", "pandas"]  # of the gallery
SET_UP = "index.md#set-up"


def asset(name: str) -> types.ModuleType:
    """A module of the site's."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "assets" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


checks, examples = asset("checks"), asset("examples")

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(lbarn.__path__, "lbarn.")
    if not module.name.rpartition(".")[2].startswith("_")
)


@functools.cache
def set_up() -> dict[str, Any]:
    """The names that the index page leaves behind, computed once."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for example in examples.examples(INDEX):
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
    for extra in EXTRAS.get(page.name, STORY if page.parent == GALLERY else []):
        pytest.importorskip(extra)
    if folder := examples.lacking(page):
        pytest.skip(f"{folder} is absent (set LBARN_DATA to the folder that holds tables/)")
    if page.name == "other-libraries.md":
        warnings.simplefilter("ignore")  # theirs
    namespace = fresh_namespace(page)
    monkeypatch.chdir(tmp_path)
    assert list(examples.disagreements(page, namespace)) == []


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_give_what_they_say(name: str) -> None:
    if name.startswith(("lbarn.plots", "lbarn.report")):
        pytest.importorskip("matplotlib")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as the site and GitHub name them."""
    headings = re.findall(r"^#+ +(.+?) *$", without_code(page), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", re.sub(r"\]\([^)]*\)", "]", heading)) for heading in headings]
    return {re.sub(r"[-\s]+", "-", heading.strip().lower()) for heading in plain}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    links = [link.partition("#") for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page))]
    relative = [(page.parent / name if name else page, anchor) for name, _, anchor in links if ":" not in name]
    assert [path for path, _ in relative if not path.exists()] == []
    to_headings = [(path, anchor) for path, anchor in relative if anchor and path.suffix == ".md"]
    assert [f"{path}#{anchor}" for path, anchor in to_headings if anchor not in anchors(path)] == []


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
    for example in examples.examples(page):
        if example.text["language"] == "console":
            shown = example.run_in_shell()
            new = example.text[0] if examples.same(example.source, shown) else f"```console\n{shown}```\n"
        elif example.source.startswith(">>>"):
            print(*example.run_as_session(namespace), sep="", end="")
            new = example.text[0]
        else:
            printed = example.run(namespace)
            new = example.text[0]
            if not examples.same(example.expected, printed):
                output = "\n".join(line.rstrip() for line in printed.splitlines())
                new = f"```python\n{example.source}```\n" + (f"\n```text\n{output}\n```\n" if printed else "")
        replaced.append((example.text.span(), new))
    for (begin, end), new in reversed(replaced):
        text = text[:begin] + new + text[end:]
    page.write_text(text, encoding="utf-8")
    if page.parent == GALLERY:
        for picture in Path.cwd().glob("*.png"):
            shutil.copy(picture, GALLERY)


if __name__ == "__main__":
    for page in [Path(name).resolve() for name in sys.argv[1:]] or PAGES:
        print(page.name, flush=True)
        os.chdir(tempfile.mkdtemp(prefix="lbarn-docs-"))
        rewrite(page)
