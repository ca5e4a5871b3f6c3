"""Tables compressed under a network, beside gzip, xz, zstd, brotli and Parquet: bytes, and speed both ways.

    python benchmarks/table_compression.py [--only adult magic] [--repeat 3] [--jobs 2] [--smoke]

The five tables of benchmarks/tables.py as CSV, from the folder LBARN_DATA, or else from ../shared/data beside the project. Two questions:

    one file    the training part, and nothing known before. LBARN learns from it, and its model file (packed by xz) counts as well.
    new rows    the test part, where whoever reads it has the model. Then xz has seen the training part too: what the test part adds to
                an xz file of it.

LBARN has no parameters set; "small" has those of SMALL, so that the model is small too. gzip and xz are at level 9, zstd at 19 (in Parquet too), brotli at 11. Every CSV file is checked
to come back to the last byte; from Parquet, the values. Speeds are of CSV bytes, from CSV and to CSV. xz, brotli, gzip and zstd have one thread.

Finished sets are kept in docs/results/table_compression.json and not measured again; its tables go into docs/compression.md.
"""

from __future__ import annotations

import argparse
import gzip
import io
import lzma
import os
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import tables
from bench_compression import seconds
from lbarn import LBARN
from pages import DATA, arguments, command, commit, measured_before, publish, table

SMALL: dict[str, Any] = {"max_iter": 10, "max_leaf_nodes": 8, "max_cells": 32, "learning_rate": 0.3}
PARQUET = "Parquet, zstd"

Result = dict[str, Any]
Coder = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]


def read(name: str) -> tuple[bytes, bytes]:
    """Training and test part."""
    if name == "wine":  # for --smoke: always there
        return tuple(frame.to_csv(index=False).encode() for frame in tables.read(name))
    return tuple(gzip.open(DATA / "tables" / f"{name}-{part}.csv.gz").read() for part in ("train", "test"))


# ---------------------------------------------------------------------- what people use


def xz(content: bytes) -> bytes:
    return lzma.compress(content, preset=9)


def arrow(content: bytes) -> pa.Table:
    return pa.csv.read_csv(io.BytesIO(content))


def to_parquet(content: bytes) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(arrow(content), file, compression="zstd", compression_level=19)
    return file.getvalue()


def from_parquet(data: bytes) -> bytes:
    file = io.BytesIO()
    pa.csv.write_csv(pa.parquet.read_table(io.BytesIO(data)), file, pa.csv.WriteOptions(quoting_style="needed"))
    return file.getvalue()


def coders() -> dict[str, Coder]:
    known: dict[str, Coder] = {
        "gzip": (lambda content: gzip.compress(content, 9, mtime=0), gzip.decompress),
        "xz": (xz, lzma.decompress),
    }
    if find_spec("zstandard"):
        import zstandard

        known["zstd"] = zstandard.ZstdCompressor(level=19).compress, zstandard.ZstdDecompressor().decompress
    if find_spec("brotli"):
        import brotli

        known["brotli"] = brotli.compress, brotli.decompress
    return {**known, PARQUET: (to_parquet, from_parquet)}


def measure(name: str, coder: Coder, content: bytes, repeat: int) -> Result:
    to, data = seconds(lambda: coder[0](content), repeat)
    back, same = seconds(lambda: coder[1](data), repeat)
    if same != content and not (name == PARQUET and arrow(content).equals(pa.parquet.read_table(io.BytesIO(data)))):
        sys.exit(f"{name}: another table came back")
    return {"bytes": len(data), "compress": to, "decompress": back}


# ---------------------------------------------------------------------- networks


def rows(content: bytes) -> tables.Frame:
    """Every cell as it is written."""
    return pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False)


def by_lbarn(train: bytes, test: bytes, options: argparse.Namespace, **parameters: Any) -> Result:
    start = perf_counter()
    model = LBARN(n_jobs=options.jobs, random_state=0, **parameters).fit(rows(train))
    fitted = perf_counter() - start
    coder = (
        lambda content: model.compress(rows(content)),
        lambda data: model.decompress(data).to_csv(index=False).encode(),
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model"
        model.save(file, trim=True)
        saved = file.read_bytes()
    return {
        "fit": fitted,
        "model": len(saved),
        "packed model": len(xz(saved)),
        "train": measure("LBARN", coder, train, options.repeat),
        "test": measure("LBARN", coder, test, options.repeat),
    }


def measured(name: str, options: argparse.Namespace) -> Result:
    train, test = read(name)
    others = {part: {} for part in ("train", "test")}
    for part, content in (("train", train), ("test", test)):
        for other, coder in coders().items():
            others[part][other] = measure(other, coder, content, options.repeat)
    body = test.partition(b"\n")[2]
    return {
        "bytes": {"train": len(train), "test": len(test)},
        "rows": {"train": train.count(b"\n") - 1, "test": test.count(b"\n") - 1},
        "others": others,
        "xz after the training part": len(xz(train + body)) - len(xz(train)),
        "LBARN": by_lbarn(train, test, options),
        "LBARN, small": by_lbarn(train, test, options, **SMALL),
        "load": os.getloadavg()[0],
        "commit": commit(),
        "command": command(),
    }


# ---------------------------------------------------------------------- tables


def sized(title: str, lines: dict[str, dict[str, int]], first: str) -> str:
    """Bytes, the least of every line in bold, but for ``first``: what they are of."""
    headings = list(next(iter(lines.values())))
    shown = []
    for name, line in lines.items():
        best = min(size for heading, size in line.items() if heading != first)
        shown.append([name, *(f"**{size:,}**" if size == best else f"{size:,}" for size in line.values())])
    return table([title, *headings], shown)


def report(sets: dict[str, Result]) -> str:
    own = ("LBARN", "LBARN, small")
    whole, new = {}, {}
    for name, one in sets.items():
        whole[name] = {"CSV": one["bytes"]["train"]}
        whole[name] |= {f"{key}, with its model": one[key]["packed model"] + one[key]["train"]["bytes"] for key in own}
        whole[name] |= {key: cell["bytes"] for key, cell in one["others"]["train"].items()}
        new[name] = {"CSV": one["bytes"]["test"], **{key: one[key]["test"]["bytes"] for key in own}}
        new[name] |= {"xz after the training part": one["xz after the training part"]}
        new[name] |= {key: cell["bytes"] for key, cell in one["others"]["test"].items()}
    text = f"{sized('one file, bytes', whole, 'CSV')}\n{sized('new rows, bytes', new, 'CSV')}\n"
    lines = []
    for name, one in sets.items():
        n = one["rows"]["test"]
        best = min(size for key, size in new[name].items() if key not in ("CSV", *own))
        line = {}
        for key in own:
            saved, size = (best - new[name][key]) / n, one[key]["packed model"]
            line[f"{key}: model, bytes"] = f"{size:,}"
            line[f"{key}: rows that pay for it"] = f"{size / saved:,.0f}" if saved > 0 else "never"
        lines.append([name, *line.values()])
    text += f"{table(['', *line], lines)}\n"
    lines = []
    for name, one in sets.items():
        size, own_cell = one["bytes"]["train"] / 1e6, one["LBARN"]["train"]
        line = {"LBARN with fitting": speed(size, one["LBARN"]["fit"] + own_cell["compress"])}
        for key, cell in {"LBARN": own_cell, **one["others"]["train"]}.items():
            line[key] = f"{speed(size, cell['compress'])} / {speed(size, cell['decompress'])}"
        lines.append([name, *line.values()])
    return text + table(["compress / decompress, MB/s", *line], lines)


def speed(megabytes: float, seconds: float) -> str:
    return format(megabytes / seconds, ".2f" if megabytes < seconds else ".1f" if megabytes < 10 * seconds else ",.0f")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tables.SETS, default=list(tables.SETS), metavar="SET")
    parser.add_argument("--repeat", type=int, default=3, help="the fastest of so many runs counts")
    options = arguments(parser)
    if not options.smoke and not (DATA / "tables").is_dir():
        sys.exit(f"{DATA / 'tables'} is absent; set LBARN_DATA to the folder that holds tables/adult-train.csv.gz")
    sets = measured_before("table_compression", options)
    names = ["wine"] if options.smoke else options.only
    for name in [name for name in names if name not in sets] or names[:1]:
        if name not in sets:
            sets[name] = measured(name, options)
        sets = {name: sets[name] for name in tables.TARGETS if name in sets}
        publish({"sets": sets}, report(sets), options, "table_compression", "compression")


if __name__ == "__main__":
    main()
