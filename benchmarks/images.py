"""What it is worth that the pixels of images begin with trees they share (``neighbours``), and what it costs.

    python benchmarks/images.py [--only digits mnist-1200] [--jobs 2] [--smoke]

Networks with the defaults, with and without, on black and white images: test nats, CPU seconds of fitting, megabytes of the file. "mnist-1200" has
1,200 of MNIST's training images and 300 of its validation images. The data is read from the folder LBARN_DATA, or else from ../shared/data beside the
project; ``digits`` are scikit-learn's. What was measured is written to docs/results/images.json, set by set, and its table into docs/fitting.md.
"""

from __future__ import annotations

import argparse
import sys
from time import process_time
from typing import Any

from lbarn import LBARN
from pages import Split, arguments, command, commit, load, measured_before, publish, table
from table1 import IMAGES, file_mb

SETS = ("digits", "mnist-1200", "ocr_letters", "mnist")
_FEW = 1200, 300  # images to train and to validate on


def images(name: str) -> tuple[Split, tuple[int, int]]:
    known, _, few = name.partition("-")
    data = load(known)
    if few:
        data = data._replace(train=data.train[: _FEW[0]], valid=data.valid[: _FEW[1]])
    return data, IMAGES[known]


def measure(name: str, jobs: int, **parameters: Any) -> dict[str, Any]:
    data, shape = images(name)
    found: dict[str, Any] = {"images": len(data.train)}
    for neighbours in (False, True):
        start = process_time()
        model = LBARN(image_shape=shape, neighbours=neighbours, n_jobs=jobs, random_state=0, **parameters)
        model.fit(data.train, X_val=data.valid)
        seconds = process_time() - start
        figures = {"valid": float(model.run_.selected_curve([len(own) for own in model.network_.trees])[-1])}
        figures |= {"test": float(model.score(data.test)), "cpu_seconds": seconds, "megabytes": file_mb(model)}
        found["together" if neighbours else "apart"] = figures
    return found


def report(sets: dict[str, Any]) -> str:
    def both(own: dict[str, Any], key: str, digits: int) -> list[str]:
        return [f"{own[kind][key]:.{digits}f}" for kind in ("apart", "together")]

    lines = [
        [name, f"{own['images']:,}", *both(own, "test", 2), *both(own, "cpu_seconds", 0), *both(own, "megabytes", 1)]
        for name, own in sets.items()
    ]
    headings = ["images", "test nats, apart", "together", "CPU s, apart", "together", "MB, apart", "together"]
    return table(["", *headings], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS), metavar="SET")
    options = arguments(parser)
    few: dict[str, Any] = {}
    if options.smoke:
        options.only, few = ["digits"], {"max_iter": 5}
    sets = measured_before("images", options)
    for name in options.only:
        sets[name] = measure(name, options.jobs, **few) | {"command": command(), "commit": commit()}
        print(name, sets[name], file=sys.stderr, flush=True)
        sets = {key: sets[key] for key in SETS if key in sets}
        publish({"sets": sets}, report(sets), options, "images", "fitting")


if __name__ == "__main__":
    main()
