#!/usr/bin/env bash
# Builds llama.cpp from its PyPI source package, with full DWARF, into a cache
# outside the clone, and prints that folder (lib/ and include/) on stdout.
#
#   shared   shared libraries, RelWithDebInfo, no OpenMP: ggml starts the worker
#            threads of each graph anew.
#   symbols  the same, but ggml-cpu keeps functions that are called only once, so
#            that `ggml_compute_forward` is a symbol of its own. Nothing but
#            libggml-cpu differs: the rest is taken from `shared`.
#   inlined  the same, but ggml-cpu's C is compiled by clang -O3 as it is by default:
#            `ggml_compute_forward` is put into its caller, whole. The rest is
#            taken from `shared`.
#   plugins  backends are loaded with dlopen when the program runs, as in the
#            releases for many processors. Only libllama is taken from `shared`.
#   blas     the same, and a backend that has products of large matrices computed by
#            OpenBLAS, which must be installed. Like `symbols` it keeps functions that
#            are called only once, each product of matrices being one. The rest is
#            taken from `plugins`.
set -euo pipefail

readonly package=llama-cpp-python version=0.3.36
readonly sdist_sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
readonly -a options=(
    -DCMAKE_BUILD_TYPE=RelWithDebInfo
    -DBUILD_SHARED_LIBS=ON
    # The libraries find each other beside themselves, wherever the folder goes.
    -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON
    # Other distributions' linkers write no build-id unless they are asked to.
    '-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--build-id'
    -DGGML_OPENMP=OFF
    # The same instructions on every machine (ggml then takes AVX2 on x86-64), so
    # that the same kernels run: with AMX, Q4_0 weights would not be repacked.
    -DGGML_NATIVE=OFF
    -DGGML_CCACHE=OFF
    -DLLAMA_BUILD_COMMON=OFF
    -DLLAMA_BUILD_TESTS=OFF
    -DLLAMA_BUILD_TOOLS=OFF
    -DLLAMA_BUILD_EXAMPLES=OFF
    -DLLAMA_BUILD_SERVER=OFF
    -DLLAMA_BUILD_APP=OFF
)

usage() {
    cat <<'USAGE'
usage: build_llama.sh shared|symbols|inlined|plugins|blas

Prints the folder of the finished engine; instant when it is built already.
  PROFINFER_CACHE  where to keep it (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
  JOBS             compilers to run at once (default: one per processor)
USAGE
}

case "${1-}" in
    -h | --help) usage; exit 0 ;;
    shared) config=shared keep_functions='' ;;
    symbols) config=symbols keep_functions=' -fno-inline-functions-called-once' ;;
    inlined) config=inlined keep_functions='' ;;
    plugins) config=plugins keep_functions='' ;;
    blas) config=blas keep_functions=' -fno-inline-functions-called-once' ;;
    *) usage >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { usage >&2; exit 2; }

# shellcheck source-path=SCRIPTDIR disable=SC1091
. "$(dirname "${BASH_SOURCE[0]}")/source_package.sh"

if [ "$config" = blas ]; then
    pkg-config --exists openblas || die "OpenBLAS is missing; on Debian: apt install libopenblas-dev pkg-config"
fi
key=$({
    printf '%s\n' "$version" "$sdist_sha256" "${options[@]}" "$keep_functions"
    cc --version
    c++ --version
    uname -m
    if [ "$config" = inlined ]; then clang --version; fi
    if [ "$config" = blas ]; then pkg-config --modversion openblas; fi
} | sha256sum | cut -c 1-12)
readonly engine="$cache/engines/llama.cpp-$version-$config-$key"
if [ -e "$engine/.finished" ]; then
    printf '%s\n' "$engine"
    exit 0
fi

exec 9>"$cache/engines/.lock-$config"
if ! flock --nonblock 9; then
    say "waiting for another build of '$config'"
    flock 9
    if [ -e "$engine/.finished" ]; then # the other one was ours, too
        printf '%s\n' "$engine"
        exit 0
    fi
fi

# What `shared` has is built before the temporary folder is made: it is a build of its own.
case "$config" in
    shared) ;;
    blas)
        plugins=$("$0" plugins 9>&-)
        ;;
    *) shared=$("$0" shared 9>&-) ;;
esac
begin
unpack '77 MB' "llama_cpp_python-$version/vendor/llama.cpp"

# shellcheck disable=SC2178  # what is sourced has an array of this name, within a function
case "$config" in
    shared) targets=llama variant=() ;;
    symbols) targets=ggml-cpu variant=() ;;
    inlined)
        targets=ggml-cpu
        variant=(-DCMAKE_C_COMPILER=clang '-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O3 -g -DNDEBUG')
        ;;
    plugins) targets='ggml ggml-cpu' variant=(-DGGML_BACKEND_DL=ON) ;;
    blas)
        targets=ggml-blas
        variant=(-DGGML_BACKEND_DL=ON -DGGML_CPU=OFF -DGGML_BLAS=ON -DGGML_BLAS_VENDOR=OpenBLAS)
        ;;
esac
# shellcheck disable=SC2128
compile llama.cpp "$keep_functions" "$targets" "${options[@]}" "${variant[@]}"

# Only what is used at run time and to compile against: object files are pruned.
mkdir -p "$work/engine/lib"
case "$config" in
    shared) ;;
    symbols | inlined) cp -a "$shared/lib/." "$work/engine/lib/" && rm "$work"/engine/lib/libggml-cpu.so* ;;
    plugins) cp -a "$shared"/lib/libllama.so* "$work/engine/lib/" ;;
    blas) cp -a "$plugins/lib/." "$work/engine/lib/" ;;
esac
for built in "$work"/build/bin/*.so*; do
    # These have libggml-base built as well, but no more than one library differs.
    case "$config" in
        symbols | inlined) new='*/libggml-cpu.so*' ;;
        blas) new='*/libggml-blas.so*' ;;
        *) new='*' ;;
    esac
    # shellcheck disable=SC2053 # a pattern
    if [[ "$built" == $new ]]; then
        cp -a "$built" "$work/engine/lib/"
    fi
done
cp -r "$work/source/include" "$work/engine/include"
cp -r "$work/source/ggml/include/." "$work/engine/include/"
keep "$engine"
printf '%s\n' "$engine"
