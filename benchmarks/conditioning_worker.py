"""One version of lbarn at work for bench_conditioning.py: a model, rows and settings in, probabilities and seconds out.

    python benchmarks/conditioning_worker.py MODEL ROWS.npy OUT.npy SETTINGS

SETTINGS is JSON: the method to call, the number of threads and the arguments. The seconds (CPU, wall) are printed as JSON, with what tells
which version this is: the settings that the method has by default, and a digest of the core.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import lbarn
from lbarn import _core


def main() -> None:
    model_file, rows_file, out_file, settings = sys.argv[1:]
    chosen = json.loads(settings)
    model = lbarn.load(model_file)
    model.set_params(n_jobs=chosen["jobs"])
    rows = np.load(rows_file)
    call = getattr(model, chosen["method"])
    call(rows[:1], output="probability", n_particles=2, **chosen["given"])  # what is made once for a network
    cpu, wall = process_time(), perf_counter()
    found = call(rows, output="probability", **chosen["given"], **chosen["arguments"])
    seconds = process_time() - cpu, perf_counter() - wall
    known = inspect.signature(call).parameters
    defaults = {name: known[name].default for name in ("n_particles", "tolerance") if name in known}
    digest = hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()[:12]
    print(json.dumps({"seconds": seconds, "defaults": defaults, "core": digest}))
    np.save(out_file, found)


if __name__ == "__main__":
    main()
