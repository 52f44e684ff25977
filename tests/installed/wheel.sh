#!/usr/bin/env bash
# Brings llama.cpp's wheel for a version of Python into a cache outside the clone, to be installed where there is no network.
# Prints the folder. Instant when it is there.
set -euo pipefail

if [ $# -ne 2 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
    printf 'usage: wheel.sh PYTHON PACKAGE==VERSION    such as 3.11\n'
    exit 0
fi
say() { printf 'wheel: %s\n' "$*" >&2; }
cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}/installed"
mkdir -p "$cache"
readonly cache place="$cache/$2-python$1"
if [ ! -e "$place" ]; then
    exec 9>"$cache/.lock-wheel"
    flock 9
fi
if [ ! -e "$place" ]; then
    work=$(mktemp -d "$cache/.new-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version "$1" \
        --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 --dest "$work/wheels" "$2" >&2 9>&- || {
        say "pip could not download $2 for Python $1; is PyPI (or PIP_INDEX_URL) reachable?"
        exit 1
    }
    mv "$work/wheels" "$place"
fi
printf '%s\n' "$place"
