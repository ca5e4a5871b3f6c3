"""Prints the oldest version of everything that pyproject.toml lets lbarn and its tests run with, as requirements.

python packaging/oldest.py > oldest.txt
"""

import re
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def main() -> None:
    """One line for each."""
    content = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    project = content["project"]
    extras = [own for name, extra in project["optional-dependencies"].items() if name != "all" for own in extra]
    for requirement in project["dependencies"] + extras + content["dependency-groups"]["test"]:
        name, bound = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
        print(f"{name}=={bound}")


if __name__ == "__main__":
    main()
