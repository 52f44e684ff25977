#!/usr/bin/env bash
# Compiles reference.cpp against an engine that build_llama.sh built, beside that
# engine, and prints the program's path. Instant when it is there already.
set -euo pipefail

if [ $# -ne 1 ] || [ "$1" = -h ] || [ "$1" = --help ]; then
    echo "usage: build_reference.sh ENGINE_DIR    (the folder that build_llama.sh printed)"
    [ $# -eq 1 ] && exit 0 || exit 2
fi
[ -e "$1/.finished" ] || { echo "build_reference: $1 is no finished engine; see build_llama.sh" >&2; exit 1; }
command -v g++ >/dev/null || { echo "build_reference: 'g++' is missing; on Debian: apt install g++" >&2; exit 1; }

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
engine=$(cd "$1" && pwd)
key=$(cat "$here/build_reference.sh" "$here/reference.cpp" "$here/graph_trace.hpp" | sha256sum | cut -c 1-12)
readonly here engine program="$engine/reference-$key"
if [ ! -e "$program" ]; then
    # Renamed when whole, so that two callers do not meet in one file.
    unfinished=$(mktemp "$engine/.reference-XXXXXX")
    trap 'rm -f "$unfinished"' EXIT
    # $ORIGIN is the dynamic linker's word, not the shell's.
    # shellcheck disable=SC2016
    g++ -std=c++17 -O2 -g -Wall -Wextra -I "$engine/include" "$here/reference.cpp" -o "$unfinished" \
        -L "$engine/lib" -lllama -lggml -lggml-base -Wl,-rpath,'$ORIGIN/lib' -Wl,-rpath-link,"$engine/lib"
    chmod 755 "$unfinished"
    mv "$unfinished" "$program"
fi
printf '%s\n' "$program"
