"""The examples of the documentation: how they are found in a page, run, and compared with what the page shows.

A page's ``python`` blocks run in order, in one namespace. A ``text`` block right after one is what it prints; a block that prints
must have one. In a ``console`` block the lines that begin with ``$ `` are run by the shell, and the others are their output. As
in doctest, ``...`` stands for anything and white space counts as one space. Nothing is downloaded: the tables that stories of the gallery take from
OpenML and UCI are read from tables/ in the folder LBARN_DATA, or else in ../shared/data beside the project, NAME-train.csv.gz and NAME-test.csv.gz, which
are the splits on which generators of tables are compared.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

LIKE_DOCTEST = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
TABLES = Path(os.environ.get("LBARN_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")) / "tables"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
FILES = {
    f"{UCI}00381/PRSA_data_2010.1.1-2014.12.31.csv": "beijing",
    f"{UCI}00468/online_shoppers_intention.csv": "shoppers",
}

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
        with downloads(), contextlib.redirect_stdout(io.StringIO()) as printed:
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


def lacking(page: Path) -> Path | None:
    """The folder that a page needs and that is absent, if so: it stands for what a reader downloads."""
    text = page.read_text(encoding="utf-8")
    return TABLES if ("fetch_openml" in text or UCI in text) and not TABLES.is_dir() else None


@contextlib.contextmanager
def downloads() -> Iterator[None]:
    """Inside it, ``fetch_openml`` and ``pandas.read_csv`` give what a reader would download, from files."""
    if not TABLES.is_dir():  # nor does a page run that needs them
        yield
        return
    import pandas as pd

    read_csv = pd.read_csv

    def parts(name: str, *order: str, **options: Any) -> Any:
        return pd.concat([read_csv(TABLES / f"{name}-{part}.csv.gz", **options) for part in order], ignore_index=True)

    def as_published(name: str) -> Any:
        """In the order before the shuffle, with this seed, after which training and test rows were cut."""
        rows = parts(name, "train", "test")
        places = np.arange(len(rows))
        np.random.RandomState(1234).shuffle(places)
        return rows.iloc[np.argsort(places)].reset_index(drop=True)

    def adult() -> Any:
        """The test rows come first."""
        people = parts("adult", "test", "train", na_values="?").rename(columns={"income": "class"})
        return people.astype(dict.fromkeys(people.select_dtypes(exclude="number"), "category"))

    def credit() -> Any:
        return as_published("default").set_axis([*(f"x{k}" for k in range(1, 24)), "y"], axis=1)

    def fetch_openml(name: str | None = None, *, data_id: int | None = None, **_: Any) -> SimpleNamespace:
        return SimpleNamespace(frame={"adult": adult, 42477: credit}[name or data_id]())

    def read(path: Any, **options: Any) -> Any:
        return as_published(FILES[path]) if isinstance(path, str) and path in FILES else read_csv(path, **options)

    with mock.patch("sklearn.datasets.fetch_openml", fetch_openml), mock.patch.object(pd, "read_csv", read):
        yield


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
