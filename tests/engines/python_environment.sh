#!/usr/bin/env bash
# Installs packages from PyPI into a private Python environment in the cache, outside
# the clone. Prints the path of that environment's Python. Instant when it is there.
set -euo pipefail

if [ $# -lt 2 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
    cat <<'USAGE'
usage: python_environment.sh NAME PACKAGE==VERSION...

Prints the path of a Python that has the packages.
  PROFINFER_CACHE  where to keep it (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
USAGE
    exit 0
fi
readonly name="$1"
shift
readonly -a packages=("$@")
say() { printf 'python_environment: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

readonly cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}"
command -v python3 >/dev/null || die "'python3' is missing; on Debian: apt install python3 python3-venv"
# Another Python or other packages make another environment.
key=$({ printf '%s\n' "${packages[@]}"; python3 -c 'import sys; print(sys.version, sys.base_prefix)'; } |
    sha256sum | cut -c 1-12)
readonly venv="$cache/engines/$name-$key"
if [ ! -e "$venv/.finished" ]; then
    mkdir -p "$cache/engines"
    exec 9>"$cache/engines/.lock-$name"
    flock 9
fi
if [ ! -e "$venv/.finished" ]; then # unless another has made it while we waited
    say "installing ${packages[*]} into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" >&2 || die "'python3 -m venv' failed; on Debian: apt install python3-venv"
    # Wheels only: nothing is compiled, and no package's own code runs while it is installed.
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: "${packages[@]}" >&2 9>&- || {
        rm -rf "$venv"
        die "pip could not install ${packages[*]}; is PyPI (or PIP_INDEX_URL) reachable, and Python 3.10 or newer?"
    }
    touch "$venv/.finished"
fi
printf '%s\n' "$venv/bin/python"
