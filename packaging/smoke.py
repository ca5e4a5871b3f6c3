"""Shows that an installed lbarn works: fit, score, sample, file, command line and report, on a machine without a compiler.

python packaging/smoke.py              needs lbarn[plots] and nothing of this repository
python packaging/smoke.py --compiler   where lbarn was built from source
"""

import csv
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import lbarn

COMPILERS = ("cc", "gcc", "c++", "g++", "clang", "clang++", "cl")
SCRIPTS = str(Path(sys.executable).parent)


def command(*words: str, folder: Path) -> str:
    """What a command of lbarn prints; it must succeed."""
    program = shutil.which("lbarn", path=SCRIPTS)
    assert program is not None, "the command is not installed"
    return subprocess.run([program, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def write_table(path: Path) -> None:
    """A table of a category, a number that depends on it, and another with gaps."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["city", "rent", "rooms"])
        for _ in range(600):
            city = rng.choice(["Bonn", "Kiel", "Ulm"])
            rent = round(float(rng.normal({"Bonn": 12, "Kiel": 9, "Ulm": 10}[city], 1)), 2)
            rows.writerow([city, rent, "" if rng.random() < 0.1 else rng.integers(1, 6)])


def main() -> None:
    """Every step; what goes wrong is an exception."""
    found = [name for name in COMPILERS if shutil.which(name)]
    assert "--compiler" in sys.argv[1:] or not found, f"a compiler is on the PATH: {', '.join(found)}"

    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (500, 6))
    X[:, 5] = X[:, 0] ^ X[:, 1]
    model = lbarn.LBARN(random_state=0).fit(X)
    score = model.score(X)
    assert score > -3.6, score
    assert model.sample(3, given={5: 1}, random_state=0).shape == (3, 6)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder / "bits.lbarn")
        assert lbarn.load(folder / "bits.lbarn").score(X) == score
        write_table(folder / "rents.csv")
        command("fit", "rents.csv", "-o", "rents.lbarn", "--random-state", "0", folder=folder)
        scores = command("score", "rents.lbarn", "rents.csv", folder=folder)
        assert len(scores.splitlines()) >= 600
        drawn = command(
            "sample", "rents.lbarn", "-n", "5", "--given", "city=Kiel", "--random-state", "0", folder=folder
        )
        assert drawn.count("Kiel") == 5, drawn
        command("report", "rents.lbarn", "--data", "rents.csv", "-o", "report.html", folder=folder)
        assert (folder / "report.html").stat().st_size > 10_000
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    own = f"lbarn {lbarn.__version__}, Python {platform.python_version()}, {platform.machine()}, {lbarn.simd_path()}"
    print(f"{own}: works; {score:.12f} nats, {sizes['rents.lbarn']:,} bytes of model")


if __name__ == "__main__":
    main()
