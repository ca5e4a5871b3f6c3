"""The examples of the documentation: how they are found in a page, run, and compared with what the page shows.

A page's ``python`` blocks run in order, in one namespace. A ``text`` block right after one is what it prints; a block that prints
must have one. In a ``console`` block the lines that begin with ``$ `` are run by the shell, and the others are their output. As
in doctest, ``...`` stands for anything and white space counts as one space.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIKE_DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

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


def bring_data(page: Path, folder: Path) -> None:
    """Put the tables that lie beside a page into the folder in which it runs."""
    for table in page.parent.glob("*.csv.gz"):
        shutil.copy(table, folder)


def disagreements(page: Path, namespace: dict[str, Any]) -> Iterator[str]:
    """Runs a page, and tells where it prints something else than it shows."""
    for example in examples(page):
        where = f"{page.name}, line {example.line + 1}"
        if example.text["language"] == "console":
            if not same(example.source, printed := example.run_in_shell()):
                yield f"{where}: the commands give\n\n{printed}"
        elif example.source.startswith(">>>"):
            yield from example.run_as_session(namespace)
        elif not same(example.expected, printed := example.run(namespace)):
            yield f"{where}: the page shows\n\n{example.expected}\nbut it prints\n\n{printed}"
