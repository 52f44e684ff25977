#!/usr/bin/env bash
# Installs an emulated arm64 processor, from a wheel on PyPI, into a private Python
# environment in the cache, outside the clone. Prints the path of that environment's
# Python. Instant when it is there.
set -euo pipefail

readonly package=unicorn==2.1.4
say() { printf 'install_unicorn: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

readonly cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}"
command -v python3 >/dev/null || die "'python3' is missing; on Debian: apt install python3 python3-venv"
# Another Python or another version makes another environment.
key=$({ echo "$package"; python3 -c 'import sys; print(sys.version, sys.base_prefix)'; } | sha256sum | cut -c 1-12)
readonly venv="$cache/engines/unicorn-$key"
mkdir -p "$cache/engines"
exec 9>"$cache/engines/.lock-unicorn"
flock 9
if [ ! -e "$venv/.finished" ]; then
    say "installing $package into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" >&2 || die "'python3 -m venv' failed; on Debian: apt install python3-venv"
    # Wheels only: nothing is compiled, and no package's own code runs while it is installed.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "$package" >&2 9>&- || {
        rm -rf "$venv"
        die "pip could not install $package; is PyPI (or PIP_INDEX_URL) reachable?"
    }
    touch "$venv/.finished"
fi
printf '%s\n' "$venv/bin/python"
