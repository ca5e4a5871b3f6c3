"""What the build of the site checks besides links: every public name is documented, and no page loads anything from another host."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, get_origin

MODULES = (
    "lbarn",
    "lbarn.anomalies",
    "lbarn.baselines",
    "lbarn.datasets",
    "lbarn.errors",
    "lbarn.inspection",
    "lbarn.plots",
    "lbarn.report",
    "lbarn.synthesis",
)
ASSETS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
FOREIGN = re.compile(r"(?:https?:)?//")

log = logging.getLogger("mkdocs.hooks.checks")  # warnings of mkdocs' loggers fail a strict build


def public_names() -> Iterator[tuple[str, Any]]:
    """(dotted name, object) of every class and function that a public module lists, each once."""
    seen: set[int] = set()
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            found = getattr(module, name)
            is_class = inspect.isclass(found) and get_origin(found) is None  # an alias is a class, to Python 3.10
            if id(found) not in seen and (is_class or inspect.isroutine(found)):
                seen.add(id(found))
                yield f"{module.__name__}.{name}", found


def undocumented(name: str, found: Any) -> Iterator[str]:
    """The name itself, and the public methods and properties of a class, if they have no docstring of ours."""
    if not (found.__doc__ or "").strip():
        yield name
    if not inspect.isclass(found):
        return
    for member, value in inspect.getmembers(found):
        ours = (getattr(value, "__module__", None) or getattr(getattr(value, "fget", None), "__module__", "")) or ""
        is_method = inspect.isroutine(value) or isinstance(value, property)
        if not member.startswith("_") and is_method and ours.startswith("lbarn") and not inspect.getdoc(value):
            yield f"{name}.{member}"


def referenced(docs: Path) -> set[str]:
    """The names that the pages of the reference show."""
    return {
        name
        for page in (docs / "reference").glob("*.md")
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)
    }


class _Assets(HTMLParser):
    """Collects the addresses from which a page loads something."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get(ASSETS.get(tag, ""))
        if address and values.get("rel") != "canonical":
            self.found.append(address)


def foreign_assets(site: Path) -> Iterator[str]:
    """Everything that a built page or style sheet would load from another host."""
    for page in sorted(site.rglob("*.html")):
        assets = _Assets()
        assets.feed(page.read_text(encoding="utf-8"))
        yield from (f"{page.relative_to(site)}: {found}" for found in assets.found if FOREIGN.match(found))
    for sheet in sorted(site.rglob("*.css")):
        found = re.findall(
            r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)", sheet.read_text("utf-8")
        )
        yield from (f"{sheet.relative_to(site)}: {''.join(one)}" for one in found)


def missing_names(docs: Path) -> Iterator[str]:
    """What is wrong with the reference: public names that no page shows, or that have no docstring."""
    shown = [_imported(name) for name in referenced(docs)]
    for name, found in public_names():
        if not any(found is one for one in shown):
            yield f"{name} is public, but no page of the reference shows it"
        for one in undocumented(name, found):
            yield f"{one} is public and has no docstring"


def _imported(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def on_pre_build(config: Any) -> None:
    """Called by mkdocs before the build."""
    for one in missing_names(Path(config.docs_dir)):
        log.warning(one)


def on_post_build(config: Any) -> None:
    """Called by mkdocs after the build."""
    for one in foreign_assets(Path(config.site_dir)):
        log.warning("loaded from another host: %s", one)
