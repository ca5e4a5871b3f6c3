"""Test rows compressed under a network, beside gzip, xz, zstd and PNG: bytes, and speed both ways.

    python benchmarks/bench_compression.py [--only nips dna] [--max-iter 1000] [--mnist MODELFILE]

The data is read from the folder LBARN_DATA, or else from ../shared/data beside the project. Networks have the paper's
numbers of leaves and learning rates and are refitted; they are trained once and kept in --cache. MNIST takes part only
where a model file is given for it. Every network's rows are checked to come back, and to take no more than the model's
entropy, 0.5% and 100 bytes.

What was measured is added to docs/results/compression.json; its tables and a picture are put into docs/compression.md.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import lzma
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from joblib import effective_n_jobs

import lbarn
from lbarn import LBARN
from pages import DATA, ROOT, Bits, Split, load

RESULTS = ROOT / "docs" / "results" / "compression.json"
PAGE = ROOT / "docs" / "compression.md"
BEGIN, END = "<!-- written by benchmarks/bench_compression.py -->\n", "<!-- end -->\n"

Result = dict[str, Any]


@dataclass(frozen=True)
class Set:
    max_leaf_nodes: int
    learning_rate: float
    image: tuple[int, int] | None = None


SETS = {
    "adult": Set(2, 0.1),
    "connect4": Set(4, 0.5),
    "dna": Set(16, 0.02),
    "mushrooms": Set(8, 0.02),
    "nips": Set(2, 0.02),
    "ocr_letters": Set(64, 0.02, (16, 8)),
    "web": Set(32, 0.02),
    "mnist": Set(32, 0.02, (28, 28)),
}


def made_up() -> Split:
    X = (np.random.default_rng(0).random((900, 12)) < 0.3).astype(np.uint8)
    X[:, 1:] ^= X[:, :-1]
    return Split(X[:300], X[300:400], X[400:])


# ---------------------------------------------------------------------- what people use


def packed(X: Bits) -> bytes:
    """Eight values to a byte, every row in whole bytes."""
    return np.packbits(X, axis=1).tobytes()


def text(X: Bits) -> bytes:
    """One row a line, values separated by commas."""
    characters = np.full((len(X), 2 * X.shape[1]), ord(","), np.uint8)
    characters[:, ::2] = X + ord("0")
    characters[:, -1] = ord("\n")
    return characters.tobytes()


def gzip_size(content: bytes) -> int:
    return len(gzip.compress(content, 9, mtime=0))


def xz_size(content: bytes) -> int:
    return len(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def zstd_size(content: bytes) -> int:
    import zstandard

    return len(zstandard.ZstdCompressor(level=19).compress(content))


def compressors() -> dict[str, Callable[[bytes], int]]:
    known = {"gzip": gzip_size, "xz": xz_size}
    return {**known, "zstd": zstd_size} if find_spec("zstandard") else known


def png_size(X: Bits, shape: tuple[int, int]) -> int:
    """All images side by side in one picture of one bit per pixel, as square as it gets."""
    from PIL import Image

    across = int(np.ceil(np.sqrt(len(X) * shape[0] / shape[1])))
    down = -(-len(X) // across)
    images = np.zeros((down * across, *shape), bool)
    images[: len(X)] = X.reshape(-1, *shape)
    picture = images.reshape(down, across, *shape).swapaxes(1, 2).reshape(down * shape[0], across * shape[1])
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG", optimize=True)
    return file.tell()


def others(rows: Split, image: tuple[int, int] | None) -> dict[str, int]:
    sizes = {}
    for form, write in (("packed", packed), ("text", text)):
        for name, size in compressors().items():
            sizes[f"{name} {form}"] = size(write(rows.test))
    # A network has seen the training rows. This is xz that has seen them too: what the test rows add to their file.
    before = packed(np.concatenate([rows.train, rows.valid]))
    sizes["xz after training rows"] = xz_size(before + packed(rows.test)) - xz_size(before)
    if image and find_spec("PIL"):
        sizes["PNG"] = png_size(rows.test, image)
    return sizes


# ---------------------------------------------------------------------- networks


def network(name: str, rows: Split, options: argparse.Namespace) -> LBARN:
    if name == "mnist":
        return lbarn.load(options.mnist)
    how = SETS[name]
    file = options.cache / f"{name}-{how.max_leaf_nodes}-{how.learning_rate}-{options.max_iter}.lbarn"
    if not file.exists():
        model = LBARN.paper(
            max_leaf_nodes=how.max_leaf_nodes,
            learning_rate=how.learning_rate,
            max_iter=options.max_iter,
            refit=True,
            n_jobs=options.jobs,
            random_state=0,
        )
        print(f"{name}: training", file=sys.stderr, flush=True)
        options.cache.mkdir(parents=True, exist_ok=True)
        model.fit(rows.train, X_val=rows.valid).save(file, trim=True)
    return lbarn.load(file)


def seconds(task: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """The shortest time of a few, and the result."""
    times = []
    for _ in range(repeat):
        start = perf_counter()
        result = task()
        times.append(perf_counter() - start)
    return min(times), result


def model_bytes(model: LBARN) -> int:
    """Of the file that a receiver needs."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model", trim=True)
        return (Path(folder) / "model").stat().st_size


def measure(name: str, rows: Split, model: LBARN, options: argparse.Namespace) -> Result:
    X = rows.test
    model.set_params(n_jobs=options.jobs)
    entropy = float(-model.score_samples(X).sum() / np.log(2))
    to, data = seconds(lambda: model.compress(X), options.repeat)
    back, Y = seconds(lambda: model.decompress(data), options.repeat)
    if not np.array_equal(X, Y):
        sys.exit(f"{name}: other rows came back")
    if len(data) > 1.005 * entropy / 8 + 100:
        sys.exit(f"{name}: {len(data)} bytes, but the model's entropy is {entropy / 8:.0f}")
    return {
        "rows": len(X),
        "columns": X.shape[1],
        "packed bytes": len(packed(X)),
        "text bytes": len(text(X)),
        "bytes": len(data),
        "entropy bits": entropy,
        "model bytes": model_bytes(model),
        "max_iter": int(model.max_iter),
        "seconds": {"compress": to, "decompress": back},
        "jobs": effective_n_jobs(options.jobs),
        "simd": lbarn.simd_path(),
        "load": os.getloadavg()[0],
        "others": others(rows, SETS[name].image if name in SETS else None),
    }


# ---------------------------------------------------------------------- tables


def markdown(head: list[str], body: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def size_table(results: dict[str, Result]) -> str:
    names = [f"{name} {form}" for form in ("packed", "text") for name in ("gzip", "xz", "zstd")]
    names += ["xz after training rows", "PNG"]
    head = ["test rows of", "rows x bits", "packed", "**LBARN**", *names]
    body = []
    for name, result in results.items():
        sizes = [result["others"].get(other) for other in names]
        best = min([result["bytes"], *(size for size in sizes if size is not None)])
        cells = [f"**{size:,}**" if size == best else f"{size:,}" if size else "" for size in [result["bytes"], *sizes]]
        shape = f"{result['rows']:,} x {result['columns']}"
        body.append([name, shape, f"{result['packed bytes']:,}", *cells])
    return markdown(head, body)


def speed_table(results: dict[str, Result]) -> str:
    head = ["test rows of", "entropy, bits a row", "coded, bits a row", "over entropy", "model file, bytes"]
    head += [f"{way}, {unit}" for way in ("compress", "decompress") for unit in ("MB/s", "rows/s")]
    body = []
    for name, result in results.items():
        n, entropy, bits = result["rows"], result["entropy bits"], 8 * result["bytes"]
        line = [name, f"{entropy / n:.2f}", f"{bits / n:.2f}", f"{100 * (bits / entropy - 1):.2f}%"]
        line.append(f"{result['model bytes']:,}")
        for time in result["seconds"].values():
            line += [f"{result['packed bytes'] / time / 1e6:.3g}", f"{n / time:,.0f}"]
        body.append(line)
    return markdown(head, body)


def draw(results: dict[str, Result], file: Path) -> None:
    """Bits left of every bit, per data set, for the better of the two forms of each compressor."""
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "lbarn"  # the same file from the same numbers
    from matplotlib import pyplot as plt

    labels = {"xz after training rows": ["xz after training rows"], "PNG": ["PNG"]}
    labels |= {name: [f"{name} packed", f"{name} text"] for name in ("xz", "zstd", "gzip")}
    bars = {"LBARN": [result["bytes"] for result in results.values()]}
    for label, names in labels.items():
        bars[label] = [min(result["others"].get(name, np.nan) for name in names) for result in results.values()]
    figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
    bits = np.array([result["rows"] * result["columns"] for result in results.values()])
    width = 0.8 / len(bars)
    for i, (name, sizes) in enumerate(bars.items()):
        axes.bar(
            np.arange(len(results)) + (i - len(bars) / 2 + 0.5) * width, 8 * np.array(sizes) / bits, width, label=name
        )
    axes.set_xticks(np.arange(len(results)), results)
    axes.set_ylabel("compressed bits per bit")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(ncols=3, frameon=False)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def put_into_page(tables: str) -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}{tables}{END}{after}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), help="these data sets")
    parser.add_argument("--max-iter", type=int, default=1000, help="trees per dimension")
    parser.add_argument("--mnist", type=Path, help="model file of a network trained on MNIST")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "lbarn-bench", help="trained networks")
    parser.add_argument("--jobs", type=int, default=-1, help="threads")
    parser.add_argument("--repeat", type=int, default=3, help="the fastest of so many runs counts")
    parser.add_argument("--results", type=Path, help="add to this JSON file instead, and leave the page alone")
    parser.add_argument("--smoke", action="store_true", help="a few seconds on made-up rows")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    file: Path = options.results or RESULTS
    results: dict[str, Result] = json.loads(file.read_text()) if file.exists() and not options.smoke else {}
    if options.smoke:
        rows = made_up()
        model = LBARN.paper(max_leaf_nodes=2, learning_rate=0.5, max_iter=100, random_state=0)
        results["smoke"] = measure("smoke", rows, model.fit(rows.train, X_val=rows.valid), options)
    elif not DATA.is_dir():
        print(f"no data in {DATA}: set LBARN_DATA to the folder that holds dna.npz and the others", file=sys.stderr)
        return 2
    for name in [] if options.smoke else options.only:
        if name == "mnist" and options.mnist is None:
            print("mnist is skipped: no --mnist MODELFILE", file=sys.stderr)
            continue
        rows = load(name)
        results[name] = measure(name, rows, network(name, rows, options), options)
    results = dict(sorted(results.items()))
    tables = f"{size_table(results)}\n{speed_table(results)}"
    print(tables)
    if options.results or not options.smoke:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(results, indent=1) + "\n")
        if find_spec("matplotlib"):
            draw(results, file.with_suffix(".svg"))
    if file == RESULTS and not options.smoke:
        put_into_page(tables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
