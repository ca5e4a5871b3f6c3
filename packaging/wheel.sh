#!/bin/sh
# Builds sdist and wheel in isolation into dist/, and tries the wheel in fresh environments without a compiler on the PATH.
#
#     packaging/wheel.sh PYTHON [OTHER ...]     built for PYTHON, tried with PYTHON and the others
set -eu
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$1" -m venv "$work/build"
"$work/build/bin/python" -m pip install --quiet --upgrade pip
"$work/build/bin/python" -m pip install --quiet --group wheel
PATH="$work/build/bin:$PATH" "$work/build/bin/python" -m build --outdir "$work/raw"

mkdir -p dist
cp "$work"/raw/*.tar.gz dist/
PATH="$work/build/bin:$PATH" auditwheel repair --strip --wheel-dir "$work/repaired" "$work"/raw/*.whl
for wheel in "$work"/repaired/*.whl; do
  test "$(wc -c <"$wheel")" -lt 1500000 || { echo "$wheel has more than 1.5 MB" >&2; exit 1; }
  cp "$wheel" dist/
done

for python in "$@"; do
  rm -rf "$work/fresh"
  "$python" -m venv "$work/fresh"
  "$work/fresh/bin/python" -m pip install --quiet --only-binary :all: "$(echo "$work"/repaired/*.whl)[plots]"
  (cd "$work" && env -i PATH="$work/fresh/bin" "$work/fresh/bin/python" "$OLDPWD/packaging/smoke.py")
done
ls -l dist
