#!/bin/sh
# What somebody does on a fresh Debian, as root, where there is nothing but this repository:
#
#     packaging/fresh.sh wheel     python3-venv and a wheel from dist/ (make wheel), no compiler
#     packaging/fresh.sh source    python3-venv and a compiler, built from source
#
# In a container:  docker run --rm -v "$PWD":/lbarn:ro debian:12 /lbarn/packaging/fresh.sh wheel
# Without Docker:  packaging/chroot.sh bookworm wheel
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$(mktemp -d)"
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update

case $1 in
  wheel)
    apt-get -qq install -y --no-install-recommends python3-venv ca-certificates >/dev/null
    python3 -m venv env
    version=$(env/bin/python -c 'import sys; v = sys.version_info[:2]; print("cp%d%d-cp%d%d" % (v + v) if v < (3, 12) else "cp312-abi3")')
    env/bin/python -m pip install --quiet --only-binary :all: "$(echo "$here"/../dist/lbarn-*-"$version"-*.whl)[plots]"
    env/bin/python "$here/smoke.py"
    ;;
  source)
    apt-get -qq install -y --no-install-recommends python3-venv python3-dev g++ ca-certificates >/dev/null
    python3 -m venv env
    mkdir source
    tar -C "$here/.." --exclude=./build --exclude='./.venv*' --exclude=./dist --exclude=./.git -c . | tar -C source -x
    env/bin/python -m pip install --quiet "./source[plots]"
    env/bin/python "$here/smoke.py" --compiler
    ;;
esac
