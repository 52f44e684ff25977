#!/usr/bin/env bash
# Builds profinfer for arm64 on x86-64 and prints the folder of the program.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")/../.."

[ $# -eq 1 ] || { printf 'usage: build_arm64.sh TARGET-FOLDER\n' >&2; exit 2; }
tools=$(tests/kernels/get.sh toolchain)
export RUSTC="$tools/rustc" CARGO_PROFILE_DEV_DEBUG=line-tables-only
# What of cargo's environment the caller's own build has set is not for this one.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_TARGET RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTUP_TOOLCHAIN
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$tools/cc"
export CC_aarch64_unknown_linux_gnu="$tools/cc" AR_aarch64_unknown_linux_gnu="$tools/ar"
export PKG_CONFIG_ALLOW_CROSS=1 PKG_CONFIG_SYSROOT_DIR="$tools/sysroot"
export PKG_CONFIG_LIBDIR="$tools/sysroot/usr/lib/aarch64-linux-gnu/pkgconfig"
cargo build --locked --quiet --target aarch64-unknown-linux-gnu --target-dir "$1" >&2
printf '%s\n' "$1/aarch64-unknown-linux-gnu/debug"
