#!/usr/bin/env bash
# Brings wheels for arm64 from PyPI, unpacked, into the cache. Prints the folder, for PYTHONPATH of `get.sh python`.
# Instant when they are there.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")"

if [ $# -eq 0 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
    cat <<'USAGE'
usage: wheels.sh PACKAGE==VERSION...

  PROFINFER_CACHE  where to keep them (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
USAGE
    exit 0
fi
cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}/kernels"
mkdir -p "$cache"
key=$(printf '%s\n' "$@" | sha256sum | cut -c 1-12)
readonly cache place="$cache/wheels-$key"
if [ ! -e "$place" ]; then
    exec 9>"$cache/.lock-wheels"
    flock 9
fi
if [ ! -e "$place" ]; then # unless another has brought them while we waited
    printf 'wheels: bringing %s to %s\n' "$*" "$place" >&2
    python=$(../engines/install_wheel.sh 9>&-)
    work=$(mktemp -d "$cache/.new-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    platforms=()
    for glibc in 2_17 2_24 2_27 2_28; do
        platforms+=(--platform "manylinux_${glibc}_aarch64")
    done
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: "${platforms[@]}" \
        --platform manylinux2014_aarch64 --python-version 3.13 --dest "$work/wheels" "$@" >&2 9>&-
    for wheel in "$work"/wheels/*.whl; do
        "$python" -m zipfile -e "$wheel" "$work/unpacked"
    done
    mv "$work/unpacked" "$place"
fi
printf '%s\n' "$place"
