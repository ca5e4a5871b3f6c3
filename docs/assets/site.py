"""What the build of the site adds to mkdocs: every public name is documented, no page loads anything from another host, and
types in docstrings are shown as they are written."""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import griffe

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

log = logging.getLogger("mkdocs.hooks.site")  # warnings of mkdocs' loggers fail a strict build


class PlainTypes(griffe.Extension):
    """Shows types in docstrings as they are written.

    ``int, "auto" or None`` would be read as a Python expression and lose its quotes. A zero-width space, which no expression has,
    prevents that. Sphinx's roles become code.
    """

    _TYPE = re.compile(r"^(\w[\w, *]* : .*? .*?)(\}?)(, default=.*)?$", re.MULTILINE)
    _ROLE = re.compile(r":\w+:`~?([\w.]+)`")

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called by griffe for everything that it finds."""
        if obj.docstring:
            text = self._ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = self._TYPE.sub("\\1\u200b\\2\\3", text)


def public_names() -> Iterator[tuple[str, Any]]:
    """(dotted name, object) of every class and function that a public module lists."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isclass(found) or inspect.isroutine(found):
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
    return {name for page in (docs / "reference").glob("*.md") for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)}


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
        found = re.findall(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)", sheet.read_text("utf-8"))
        yield from (f"{sheet.relative_to(site)}: {''.join(one)}" for one in found)


def on_pre_build(config: Any) -> None:
    """Called by mkdocs before the build."""
    shown = referenced(Path(config.docs_dir))
    objects = {}
    for name in shown:
        module, _, attribute = name.rpartition(".")
        objects[name] = getattr(importlib.import_module(module), attribute) if attribute else None
    for name, found in public_names():
        if not any(found is other for other in objects.values()):
            log.warning("%s is public, but no page of the reference shows it", name)
        for one in undocumented(name, found):
            log.warning("%s is public and has no docstring", one)


def on_post_build(config: Any) -> None:
    """Called by mkdocs after the build."""
    for one in foreign_assets(Path(config.site_dir)):
        log.warning("loaded from another host: %s", one)
