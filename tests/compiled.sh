#!/usr/bin/env bash
# Keeps what cargo has made of the dependencies for other clones, in a cache outside of them: it takes as long as the rest.
# Copies, as cargo writes into its files. What it is made from is in its name: another one is none.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'USAGE'
usage: compiled.sh take|keep

  take   puts it into `target`, if there is nothing yet
  keep   puts it into the cache, if it is not there yet

  PROFINFER_CACHE  the cache (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
USAGE
}
[[ "$#:${1-}" =~ ^1:(take|keep)$ ]] || { usage >&2; exit 2; }
cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}/dependencies"
mkdir -p "$cache"
key=$({ rustc -vV; env | grep '^CARGO_PROFILE\|^RUSTFLAGS' || true; cat Cargo.lock Cargo.toml crates/*/Cargo.toml fuzz/Cargo.toml; } | sha256sum | cut -c 1-16)
readonly cache place="$cache/$key"

case "$1" in
    take)
        [ ! -e target/debug ] && [ -e "$place" ] || exit 0
        mkdir -p target
        cp -a "$place" target/debug
        ;;
    keep)
        [ ! -e "$place" ] || exit 0
        work=$(mktemp -d "$cache/.new-XXXXXX")
        trap 'rm -rf "$work"' EXIT
        mkdir "$work/debug"
        cp -a target/debug/{deps,build,.fingerprint} "$work/debug/"
        # Without what is of this repository: libraries, and programs.
        rm -rf "$work"/debug/{deps,build,.fingerprint}/*profinfer*
        find "$work/debug/deps" -maxdepth 1 -type f -executable -not -name '*.so' -delete
        # Those of other sources.
        find "$cache" -mindepth 1 -maxdepth 1 -type d -not -name '.new-*' -exec rm -rf {} +
        mv -T "$work/debug" "$place" 2>/dev/null || true # another has kept them
        ;;
esac
