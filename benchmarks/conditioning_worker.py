"""One version of lbarn at work for bench_conditioning.py: a model, rows and settings in, probabilities and seconds out.

    python benchmarks/conditioning_worker.py MODEL ROWS.npy OUT.npy SETTINGS

SETTINGS is JSON: the method to call, the number of threads and the arguments. The seconds (CPU, wall) are printed as JSON.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter, process_time

import numpy as np

import lbarn


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
    print(json.dumps([process_time() - cpu, perf_counter() - wall]))
    np.save(out_file, found)


if __name__ == "__main__":
    main()
