#!/usr/bin/env bash
# Builds profinfer for arm64 on x86-64 into a folder, and prints the program. Dependencies are compiled once, in the cache.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

[ $# -eq 1 ] || { printf 'usage: build_arm64.sh FOLDER\n' >&2; exit 2; }
tools=$(tests/kernels/get.sh toolchain)
export RUSTC="$tools/rustc" CARGO_PROFILE_DEV_DEBUG=none CARGO_INCREMENTAL=0
# What of cargo's environment the caller's own build has set is not for this one.
unset RUSTC_BOOTSTRAP RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTUP_TOOLCHAIN
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$tools/cc"
export CC_aarch64_unknown_linux_gnu="$tools/cc" AR_aarch64_unknown_linux_gnu="$tools/ar"
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR="$tools/sysroot"
export PKG_CONFIG_LIBDIR="$tools/sysroot/usr/lib/aarch64-linux-gnu/pkgconfig"
readonly target="$(dirname "$tools")/arm64-build"
mkdir -p "$target" "$1"
# Another clone may build there, too: its program must not be taken for this one's.
exec 9>"$target/.lock"
flock 9
cargo build --locked --quiet --target aarch64-unknown-linux-gnu --target-dir "$target" 9>&- >&2
cp "$target/aarch64-unknown-linux-gnu/debug/profinfer" "$1/profinfer"
printf '%s\n' "$1/profinfer"
