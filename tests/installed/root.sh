#!/usr/bin/env bash
# Makes the root file system of a Debian release as a machine without developers has it: Python, what wheels of engines expect
# of the system, and systemd; no compiler, no headers. Everything comes from Debian's archive, its signatures checked, into
# a cache outside the clone. Prints the folder. Instant when it is there. Tests never write to it: enter.sh puts a layer
# above it.
set -euo pipefail

# shellcheck disable=SC2054  # a word of several options
readonly recipe=(--mode=root --variant=minbase --format=directory --include=libgomp1,python3-venv,systemd
    --hook-dir=/usr/share/mmdebstrap/hooks/maybe-merged-usr
    '--aptopt=APT::Install-Recommends "false"' '--aptopt=Acquire::Languages "none"' '--aptopt=Acquire::Retries "3"'
    --dpkgopt=force-unsafe-io)

if [ $# -ne 1 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
    cat <<'USAGE'
usage: root.sh SUITE    such as bookworm

  PROFINFER_CACHE   where to put it (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
  PROFINFER_DEBIAN  a mirror of Debian's archive (default: the one that this machine's apt uses)
USAGE
    exit 0
fi
readonly suite=$1
say() { printf 'root: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}/installed"
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
# Another recipe makes another one.
key=$(printf '%s\n' "$suite" "${recipe[@]}" | sha256sum | cut -c 1-12)
readonly cache key place="$cache/$suite-$key"
if [ ! -e "$place" ]; then
    [ "$(id -u)" -eq 0 ] || die "making a root file system needs root"
    command -v mmdebstrap >/dev/null || die "'mmdebstrap' is missing; install it with: apt-get install mmdebstrap"
    exec 9>"$cache/.lock-$suite"
    flock 9
fi
if [ ! -e "$place" ]; then # unless another has made it while we waited
    # shellcheck disable=SC2016  # apt's own words
    mirror=${PROFINFER_DEBIAN:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
        grep '/debian/$' | head -n 1)}
    [ -n "$mirror" ] || die "apt names no mirror of Debian's archive; run apt-get update, or set PROFINFER_DEBIAN"
    work=$(mktemp -d "$cache/.new-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    say "bringing Debian's $suite to $place"
    mmdebstrap --quiet "${recipe[@]}" "$suite" "$work/root" "$mirror" </dev/null >&2 9>&- ||
        die "Debian's $suite could not be brought from $mirror: is it reached, and has it this release?"
    rm -rf "$cache/$suite"-*
    mv "$work/root" "$place"
fi
printf '%s\n' "$place"
