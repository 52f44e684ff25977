#!/usr/bin/env bash
# Builds ncnn from its PyPI source package, with full DWARF and without Vulkan, into a cache outside the clone, and
# prints that folder (lib/, include/ and `run`, the program that tests record) on stdout. Instant when it is built.
#
# Only the layers that the test's net has, and those that they are made of, are compiled: a tenth of the engine. `lib/`
# has the library twice: as it is built, and in `lib/stripped/` as distributions ship it.
set -euo pipefail

readonly package=ncnn version=1.0.20261020
readonly sdist_sha256=ad8cdd63e9755cfa8e23b9b6d9ce46156077d80298a89e7c3ba325ffccfca200
# By its address: the package calls itself by the day on which it is built, which pip takes for another version.
readonly sdist_url=https://files.pythonhosted.org/packages/b7/50/32b5172afe7d3e0dce410b7d8f4a5b7b84b942a0d69affbaedf669de52bc/$package-$version.tar.gz
readonly layers='input convolution relu pooling innerproduct softmax split concat binaryop convolutiondepthwise padding packing
    flatten cast reshape dropout noop clip sigmoid hardswish mish bias scale crop'
readonly -a options=(
    -DCMAKE_BUILD_TYPE=RelWithDebInfo
    "-DNCNN_VERSION=${version##*.}"
    -DNCNN_SHARED_LIB=ON
    '-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--build-id'
    -DNCNN_VULKAN=OFF
    -DNCNN_OPENMP=OFF
    -DNCNN_RUNTIME_CPU=OFF
    -DNCNN_AVX=OFF
    -DNCNN_INT8=OFF
    -DNCNN_BF16=OFF
    -DNCNN_PIXEL=OFF
    -DNCNN_BUILD_TOOLS=OFF
    -DNCNN_BUILD_EXAMPLES=OFF
    -DNCNN_BUILD_BENCHMARK=OFF
    -DNCNN_BUILD_TESTS=OFF
)

if [ $# -ne 0 ]; then
    cat <<'USAGE'
usage: build_ncnn.sh

Prints the folder of the finished engine.
  PROFINFER_CACHE  where to keep it (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
  JOBS             compilers to run at once (default: one per processor)
USAGE
    [ "$1" = -h ] || [ "$1" = --help ] && exit 0
    exit 2
fi
# shellcheck source-path=SCRIPTDIR disable=SC1091
. "$(dirname "${BASH_SOURCE[0]}")/source_package.sh"
key=$({ printf '%s\n' "$version" "$sdist_sha256" "$layers" "${options[@]}"; cc --version; c++ --version; uname -m; } |
    sha256sum | cut -c 1-12)
readonly engine="$cache/engines/ncnn-$version-$key"

# The program is small and changes more often than the engine: compiled beside it, by its own text.
program() {
    local program unfinished
    program="$engine/run-$(cat "$here/run_ncnn.cpp" "$here/build_ncnn.sh" | sha256sum | cut -c 1-12)"
    if [ ! -e "$program" ]; then
        unfinished=$(mktemp "$engine/.run-XXXXXX")
        # It takes the library that LD_LIBRARY_PATH has, else the one beside it. $ORIGIN is the dynamic linker's word.
        # shellcheck disable=SC2016
        c++ -std=c++17 -O2 -g -Wall -Wextra -I "$engine/include/ncnn" "$here/run_ncnn.cpp" -o "$unfinished" \
            -L "$engine/lib" -lncnn -Wl,--enable-new-dtags,-rpath,'$ORIGIN/lib'
        chmod 755 "$unfinished"
        mv "$unfinished" "$program"
    fi
    ln -sfn "${program##*/}" "$engine/run"
}
finish() {
    program
    printf '%s\n' "$engine"
    exit 0
}
exec 9>"$cache/engines/.lock-ncnn"
flock 9
if [ -e "$engine/.finished" ]; then finish; fi

begin
unpack '5 MB' "$package-$version"
mapfile -t all < <(sed -nE 's/^ncnn_add_layer\(([A-Za-z0-9]+).*/\L\1/p' "$work/source/src/CMakeLists.txt")
[ "${#all[@]}" -gt 50 ] || die "the source's list of layers is not where it was"
words=" ${layers//$'\n'/ } "
without=()
for layer in "${all[@]}"; do
    case "$words" in
    *" $layer "*) without+=("-DWITH_LAYER_$layer=ON") ;;
    *) without+=("-DWITH_LAYER_$layer=OFF") ;;
    esac
done
compile ncnn '' install "${options[@]}" "${without[@]}" "-DCMAKE_INSTALL_PREFIX=$work/engine" -DCMAKE_INSTALL_LIBDIR=lib
mkdir "$work/engine/lib/stripped"
cp -a "$work"/engine/lib/libncnn.so* "$work/engine/lib/stripped/"
strip --strip-all "$(readlink -f "$work/engine/lib/stripped/libncnn.so")"
keep "$engine"
finish
