#!/usr/bin/env bash
# Installs PyTorch's wheel from PyPI, without the packages of CUDA that it asks for: they have gigabytes, and the tests
# compute on the CPU. Libraries of their names stand for them, in which each function fails. Prints the path of a script
# that is a Python with it. Instant when it is there.
set -euo pipefail
readonly version="${1:-2.15.0}"
readonly cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}"
readonly venv="$cache/engines/torch-$version"
say() { printf 'install_torch: %s\n' "$*" >&2; }

if [ ! -e "$venv/.finished" ]; then
    mkdir -p "$cache/engines"
    exec 9>"$cache/engines/.lock-torch"
    flock 9
fi
if [ ! -e "$venv/.finished" ]; then # unless another has made it while we waited
    say "installing torch $version into $venv"
    rm -rf "$venv"
    python3 -m venv "$venv" >&2
    pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary ":all:")
    "${pip[@]}" --no-deps "torch==$version" >&2 9>&-
    "${pip[@]}" numpy typing_extensions sympy networkx jinja2 fsspec filelock >&2 9>&-
    libraries=$(echo "$venv"/lib/python3*/site-packages/torch/lib)
    mkdir -p "$venv/cuda"
    nm -D --undefined-only "$libraries"/*.so* 2>/dev/null | awk '$1 == "U" { print $2 }' | sed 's/@.*//' |
        grep -E '^(_*cu[a-zA-Z]|nccl|nvrtc|nvshmem|cudnn|nvtx|nvml|nvJit)' | sort -u |
        sed 's/.*/int &(void) { return 100; }/' > "$venv/cuda/all.c"
    cc -w -O1 -shared -fPIC "$venv/cuda/all.c" -o "$venv/cuda/liball.so"
    for library in "$libraries"/*.so*; do readelf -d "$library" 2>/dev/null; done |
        sed -n 's/.*NEEDED.*\[\(lib\(cu\|nv\|nccl\)[^]]*\)\]/\1/p' | sort -u | while read -r name; do
        cc -w -shared -fPIC -x c /dev/null -o "$venv/cuda/$name" "-Wl,-soname,$name" -Wl,--no-as-needed \
            -L"$venv/cuda" -lall '-Wl,-rpath,$ORIGIN'
    done
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s/cuda" exec "%s/bin/python" "$@"\n' "$venv" "$venv" > "$venv/bin/with-torch"
    chmod +x "$venv/bin/with-torch"
    touch "$venv/.finished"
fi
printf '%s\n' "$venv/bin/with-torch"
