#!/usr/bin/env bash
# Brings and builds whatever tests need and is not in the cache: wheels, engines, emulated machines, kernels. Each script
# takes an instant when its part is there; whoever needs a part meanwhile waits for its lock. A failure is told by the
# test that needs the part.
set -uo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")" || exit

# One lane waits for the network, the other for the compilers.
downloads() {
    local arch series script
    local -a words
    engines/install_wheel.sh
    for script in engines/install_*.sh html/browser.sh targets/install_unicorn.sh; do
        "$script"
    done
    # Name and packages as the test has them; Spark is half a gigabyte.
    for script in SPARK DUCKDB PYARROW; do
        mapfile -t words < <(sed -n "s/^const $script: .*&\[\(.*\)\];/\1/p" net/export.rs root/python.rs | tr -d '" ' | tr , '\n')
        engines/python_environment.sh "${words[@]}"
    done
    mapfile -t words < <(sed -n 's/^const PACKAGES: .*= \[\(.*\)\];/\1/p' receiver/mod.rs | tr -d '" ' | tr , '\n')
    engines/python_environment.sh otlp "${words[@]}"
    # Suites and wheels as the test has them.
    while read -r script words; do
        # shellcheck disable=SC2086  # several words
        installed/$script $words
    done < <(sed -n 's/.*suite: "\(.*\)", python: "\(.*\)", wheel: "\(.*\)".*/root.sh \1\nwheel.sh \2 \3/p' engines/installed.rs)
    kernels/get.sh emulator
    kernels/get.sh toolchain
    kernels/get.sh python
    mapfile -t words < <(sed -n '/^const WHEELS/,/^];/s/^ *"\(.*\)",/\1/p' kernels/arm64_wheels.rs)
    kernels/wheels.sh "${words[@]}"
    for arch in amd64 arm64; do
        kernels/get.sh busybox "$arch"
        for series in 5.10 6.1 6.12 6.18; do
            kernels/get.sh kernel "$arch" "$series"
        done
    done
    for series in 6.1 6.18; do
        kernels/get.sh drivers "$series"
    done
}
builds() {
    local configuration
    # The tests that come first want this one.
    engines/build_llama.sh shared
    engines/build_ncnn.sh
    engines/build_whisper.sh
    for configuration in symbols inlined plugins blas; do
        engines/build_llama.sh "$configuration"
    done
}
downloads &
builds
wait
