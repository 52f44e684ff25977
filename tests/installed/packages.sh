#!/usr/bin/env bash
# Builds the packages of these sources by `scripts/package`, as for users but with less optimisation and with the objects of
# one probeset, since these take most of the time, into a cache outside the clone. Prints the folder. Instant when they are
# there: it is found by the contents of all that goes into them.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly arch=${2:-x86_64}
if [ $# -eq 0 ] || [ $# -gt 2 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
    cat <<'USAGE'
usage: packages.sh PROGRAM [x86_64|aarch64]    a profinfer of these sources, which compiles the objects

  PROFINFER_CACHE  where to put them (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
USAGE
    exit 0
fi
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}/packaging"
mkdir -p "$cache/built"
cache=$(cd "$cache" && pwd)
readonly program cache
readonly parts=(Cargo.toml Cargo.lock src crates benches probesets templates bpf-runtime grammar queries python packaging
    scripts/package tests/installed/packages.sh README.md LICENSE-MIT LICENSE-APACHE)
key=$(find "${parts[@]}" -type f -not -path '*/__pycache__/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum |
    cut -c 1-16)
readonly place="$cache/built/$key-$arch"
if [ ! -e "$place/SHA256SUMS" ]; then
    exec 9>"$cache/.lock-built"
    flock 9
fi
if [ ! -e "$place/SHA256SUMS" ]; then # unless another has built them while we waited
    # Dependencies are compiled once for all clones; what is of clones of long ago goes.
    find "$cache/target" -name '*profinfer*' -mtime +2 -prune -exec rm -rf {} + 2>/dev/null || true
    # Ours are compiled anew: cargo takes another clone's for these, by the times of that clone's files.
    find "$cache/target" -path '*/.fingerprint/profinfer*' -prune -exec rm -rf {} + 2>/dev/null || true
    work=$(mktemp -d "$cache/built/.new-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    # The same date after each commit: C libraries are built anew when it changes.
    export SOURCE_DATE_EPOCH=1767225600
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=256 \
        CARGO_PROFILE_RELEASE_STRIP=symbols PROFINFER_PROBESETS=llama DPKG_DEB_COMPRESSOR_LEVEL=1
    # As in the tests' own program, what reads binaries, names and probesets is optimised where it runs in emulated machines.
    # Traces are analysed outside of these.
    if [ "$arch" = aarch64 ]; then
        sed -n '/^\[profile\.dev\.package\]$/,/^\[/ {
            s/^\[profile\.dev\.package\]/[profile.release.package]/p; /^profinfer-analysis/d
            s/ = { \(opt-level = .\), .*/.\1/; /^[a-z].*opt-level/p
        }' Cargo.toml >"$work/cargo.toml"
        export PROFINFER_CARGO="$work/cargo.toml"
    fi
    PROFINFER_NATIVE=$program CARGO_TARGET_DIR="$cache/target" scripts/package -o "$work/packages" "$arch" >&2 9>&-
    # Those of older sources.
    find "$cache/built" -mindepth 1 -maxdepth 1 -type d -not -name '.new-*' -not -name "$key-*" -exec rm -rf {} +
    mv "$work/packages" "$place"
fi
printf '%s\n' "$place"
