"""What the benchmarks of uses share: the data, networks that train in a minute, and tables put into the documentation."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from lbarn import LBARN, DatasetError, LBARNEnsemble, datasets
from lbarn.datasets import Split

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("LBARN_DATA") or ROOT.parent / "shared" / "data")
END = "<!-- end -->\n"

Bits = NDArray[np.uint8]


def load(name: str) -> Split:
    """A set of LBARN_DATA or of the web, or ``digits``, which are always there: scikit-learn's 8 x 8 pixels."""
    if name == "digits":
        X = (load_digits().data >= 8).astype(np.uint8)
        return Split(X[:500], X[500:650], X[650:])
    try:
        return datasets.load(name, folder=DATA if DATA.is_dir() else None)
    except DatasetError as error:
        sys.exit(str(error))


def fitted(data: Split, **parameters: Any) -> tuple[LBARN, float]:
    """A network and the seconds that it took."""
    model = LBARN.paper(random_state=0, refit=True, **parameters)
    return model, train(model, data)


def train(model: LBARN | LBARNEnsemble, data: Split, **options: Any) -> float:
    """Fit on the training and validation rows; the seconds that it took. Runs that are short are short on purpose."""
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.train, X_val=data.valid, **options)
    return perf_counter() - start


def command() -> str:
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def commit() -> str:
    """The commit that is measured, with a plus where the code has been changed since."""

    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)

    head = git("rev-parse", "--short=9", "HEAD").stdout.strip() or "unknown"
    return head + ("+" if git("diff", "--quiet", "HEAD", "--", "src", "benchmarks").returncode else "")


def stamp() -> dict[str, Any]:
    """Of a cell: how it was measured."""
    return {"command": command(), "commit": commit(), "load": os.getloadavg()[0]}


def commands_in(results: Any) -> dict[str, None]:
    """The commands that gave these cells, each once; those of a set as a whole where its cells have none of their own."""
    if not isinstance(results, dict):
        return {}
    found = {command: None for value in results.values() for command in commands_in(value)}
    return found or ({results["command"]: None} if "command" in results else {})


def table(headings: list[str], lines: list[list[str]], *, texts: int = 1) -> str:
    """Markdown, the first ``texts`` columns to the left."""
    rule = ["---"] * texts + ["---:"] * (len(headings) - texts)
    return "\n".join(f"| {' | '.join(line)} |" for line in [headings, rule, *lines]) + "\n"


def best_in_bold(values: list[float], form: str) -> list[str]:
    """The smallest of them in bold, all that look like it too."""
    shown = [format(value, form) for value in values]
    best = format(min(values), form)
    return [f"**{text}**" if text == best else text for text in shown]


def publish(results: dict[str, Any], text: str, options: Any, name: str, page_name: str | None = None) -> None:
    """Print the table; keep the figures in a JSON file; put the table into a page (of that name), with its command.

    With ``options.results`` the figures go to that file and the page is left alone, as it is with ``options.smoke``.
    """
    print(text)
    results = {"command": command(), "commit": commit(), "load": os.getloadavg()[0], **results}
    if options.results or not options.smoke:
        file: Path = options.results or results_file(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
    if not options.results and not options.smoke:
        put_into(page_name or name, text, results)


def put_into(page_name: str, text: str, results: dict[str, Any]) -> None:
    """The table into a page, where the last one of this script was, with the commands that gave it."""
    page = ROOT / "docs" / f"{page_name}.md"
    begin = f"<!-- written by benchmarks/{Path(sys.argv[0]).name} -->\n"
    before, found, rest = page.read_text().partition(begin)
    if not found:
        sys.exit(f"{page} has no line {begin}")
    commands = "\n".join(f"    {command}" for command in commands_in(results.get("sets", results)))
    after = rest.partition(END)[2].lstrip()
    page.write_text(f"{before}{begin}{text}\n{commands}\n\n{END}" + (f"\n{after}" if after else ""))


def measured_before(name: str, options: Any) -> dict[str, Any]:
    """The sets that are in the JSON file already, so that some of them can be measured again."""
    file = results_file(name)
    return {} if options.results or options.smoke or not file.exists() else json.loads(file.read_text())["sets"]


def results_file(name: str) -> Path:
    return ROOT / "docs" / "results" / f"{name}.json"


def picture(strips: list[tuple[str, NDArray[Any]]], path: Path) -> None:
    """Strips of images, (n, height, width) each, from 0 white to 1 black."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    n, height, width = strips[0][1].shape
    figure, axes = plt.subplots(
        len(strips),
        1,
        figsize=(9, 9 * len(strips) * (height + 2) / (n * (width + 2)) + 0.3 * len(strips)),
        layout="constrained",
    )
    for axis, (title, images) in zip(axes, strips):
        framed = np.pad(images.astype(float), ((0, 0), (1, 1), (1, 1)), constant_values=0.2)
        axis.imshow(np.hstack(list(framed)), cmap="binary", vmin=0, vmax=1, interpolation="nearest")
        axis.set_title(title, loc="left", fontsize=10)
        axis.axis("off")
    figure.savefig(path, dpi=130)
    plt.close(figure)


def arguments(parser: Any) -> Any:
    """The options that all have."""
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--results", type=Path, help="write to this JSON file instead, and leave the page alone")
    parser.add_argument("--smoke", action="store_true", help="a few seconds on scikit-learn's digits, with few trees")
    return parser.parse_args()
