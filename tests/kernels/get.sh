#!/usr/bin/env bash
# Brings what the emulated machines are made of into a cache outside the clone, and
# prints where it is. Everything comes from Debian's archive, its signatures checked, by
# a private configuration of apt: this machine's own sources and packages stay as they
# are, and nobody need be root.
set -euo pipefail

readonly mirror=${PROFINFER_DEBIAN:-http://deb.debian.org/debian}
readonly keys=/usr/share/keyrings/debian-archive-keyring.gpg

usage() {
    cat <<'USAGE'
usage: get.sh emulator              a folder with run-qemu-x86_64 and run-qemu-aarch64
       get.sh kernel ARCH SERIES    a kernel, such as 6.1, for amd64 or arm64
       get.sh drivers SERIES        an amd64 kernel with its drivers of GPUs: vmlinuz, and modules with
                                    their order of loading; of 6.1 also build, for modules of one's own
       get.sh busybox ARCH          a static busybox
       get.sh python                a folder with Python for arm64 and the libraries that wheels need
       get.sh toolchain             a folder with what builds Rust and C for arm64

Instant when it is there already.
  PROFINFER_CACHE   where to keep it (default: ~/.cache/profinfer, by XDG_CACHE_HOME)
  PROFINFER_DEBIAN  a mirror of Debian's archive (default: http://deb.debian.org/debian)
USAGE
}
say() { printf 'get: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

case "${1-}:$#" in
    emulator:1 | python:1 | toolchain:1 | drivers:2) ;;
    busybox:2 | kernel:3) case "$2" in amd64 | arm64) ;; *) usage >&2; exit 2 ;; esac ;;
    --help:1 | -h:1) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
esac
what=$(printf '%s-' "$@")
readonly what=${what%-}

cache="${PROFINFER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/profinfer}/kernels"
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)
readonly cache place="$cache/$what"
if [ -e "$place" ]; then
    printf '%s\n' "$place"
    exit 0
fi

for tool in apt-get apt-cache dpkg-deb flock; do
    command -v "$tool" >/dev/null || die "'$tool' is missing: on a system without Debian's packages, fill $place by hand"
done
[ -r "$keys" ] || die "Debian's keys are missing; install them with: apt-get install debian-archive-keyring"
exec 9>"$cache/.lock-$what"
flock 9
if [ -e "$place" ]; then # another one has brought it meanwhile
    printf '%s\n' "$place"
    exit 0
fi
work=$(mktemp -d "$cache/.new-XXXXXX")
trap 'rm -rf "$work"' EXIT

# private_apt SUITE ARCH…: from now on `apt_get` and `apt_cache` know that suite alone, and a machine on which nothing
# is installed.
private_apt() {
    local suite=$1 list
    shift
    list=$(IFS=,; printf '%s' "$*")
    mkdir -p "$work/apt/lists/partial" "$work/apt/archives/partial" "$work/apt/none"
    : >"$work/apt/status"
    printf 'deb [arch=%s signed-by=%s] %s %s main\n' "$list" "$keys" "$mirror" "$suite" >"$work/apt/sources.list"
    apt_options=(
        -o "Dir::State=$work/apt" -o "Dir::State::Lists=$work/apt/lists" -o "Dir::State::Status=$work/apt/status"
        -o "Dir::Cache=$work/apt" -o "Dir::Cache::Archives=$work/apt/archives"
        -o "Dir::Etc::SourceList=$work/apt/sources.list" -o "Dir::Etc::SourceParts=$work/apt/none"
        -o "Dir::Etc::Preferences=/dev/null" -o "Dir::Etc::PreferencesParts=$work/apt/none"
        -o "APT::Architecture=$1" -o "APT::Architectures=$list" -o "APT::Sandbox::User="
        -o "Acquire::Languages=none" -o "Acquire::GzipIndexes=true" -o "Acquire::Retries=3"
        -o "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"
    )
    apt_get -qq update || die "Debian's $suite cannot be reached at $mirror"
}
apt_get() { apt-get "${apt_options[@]}" "$@" </dev/null >&2; }
apt_cache() { apt-cache "${apt_options[@]}" "$@"; }
# unpack PACKAGE… FOLDER: these packages alone.
unpack() {
    local folder=${*: -1}
    mkdir -p "$folder" "$work/debs"
    (cd "$work/debs" && apt_get -qq download "${@:1:$#-1}") || die "some of these are not to be had: ${*:1:$#-1}"
    unpack_all "$work/debs" "$folder"
}
# unpack_with_all PACKAGE… FOLDER: and what they need.
unpack_with_all() {
    local folder=${*: -1}
    mkdir -p "$folder"
    apt_get -qq --yes --no-install-recommends --download-only install "${@:1:$#-1}" ||
        die "some of these are not to be had: ${*:1:$#-1}"
    unpack_all "$work/apt/archives" "$folder"
}
unpack_all() {
    local package
    for package in "$1"/*.deb; do
        dpkg-deb --extract "$package" "$2"
    done
    rm -f "$1"/*.deb
}
# A program of a foreign root folder, run with that folder's own dynamic linker and libraries.
wrap() {
    local root=$1 name=$2 program=$3 arguments=$4
    cat >"$root/$name" <<WRAPPER
#!/bin/sh
root=\$(dirname "\$(readlink -f "\$0")")
libraries="\$root/usr/lib/x86_64-linux-gnu:\$root/lib/x86_64-linux-gnu"
exec "\$root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --library-path "\$libraries" "\$root/$program" $arguments "\$@"
WRAPPER
    chmod +x "$root/$name"
}

suite_of_kernel() {
    case "$1" in
        5.10) echo bullseye ;;
        6.1) echo bookworm ;;
        6.12) echo trixie ;;
        6.18) echo trixie-backports ;;
        *) die "no release of Debian is known to have Linux $1" ;;
    esac
}

# drivers_of PACKAGE's-ROOT FOLDER MODULE…: these modules and all that they need, unpacked, and the order of loading.
drivers_of() {
    local root=$1 folder=$2
    shift 2
    mkdir -p "$folder"
    add() {
        local name=${1//-/_} file needed
        ! grep -qx "$name" "$folder/order" 2>/dev/null || return 0
        file=$(find "$root" -path "*/lib/modules/*" -name "${name//_/[-_]}.ko*" | head -n 1)
        if [ -z "$file" ]; then
            find "$root" -name modules.builtin -exec cat {} + | grep -q "/${name//_/[-_]}\\.ko\$" ||
                die "the kernel has no module $name"
            return 0
        fi
        case "$file" in
            *.xz) xz --decompress --stdout "$file" >"$folder/$name.ko" ;;
            *) cp "$file" "$folder/$name.ko" ;;
        esac
        # What a module says of itself ends with zeros.
        for needed in $(grep -zao '^depends=.*' "$folder/$name.ko" | tr -d '\0' | sed 's/^depends=//' | tr , ' '); do
            add "$needed"
        done
        printf '%s\n' "$name" >>"$folder/order"
    }
    for module in "$@"; do
        add "$module"
    done
}

say "bringing $* to $cache"
case "$1" in
    emulator)
        [ "$(uname -m)" = x86_64 ] || die "only for x86-64; put qemu-system-x86_64 and -aarch64 there yourself: $place"
        private_apt trixie amd64
        unpack_with_all qemu-system-x86 qemu-system-arm "$work/root"
        for machine in x86_64 aarch64; do
            # shellcheck disable=SC2016  # the wrapper's own variable
            wrap "$work/root" "run-qemu-$machine" "usr/bin/qemu-system-$machine" \
                '-L "$root/usr/share/qemu" -L "$root/usr/share/seabios"'
        done
        mv "$work/root" "$place"
        ;;
    kernel)
        private_apt "$(suite_of_kernel "$3")" "$2"
        pattern="^linux-image-${3//./\\.}\\.[0-9][^ ]*-cloud-$2(-unsigned)?\$"
        package=$(apt_cache pkgnames linux-image- | grep -E "$pattern" | sort -V | grep -v unsigned | tail -n 1 || true)
        [ -n "$package" ] || die "no package linux-image-$3.*-cloud-$2 in $(suite_of_kernel "$3")"
        unpack "$package" "$work/root"
        mv "$work"/root/boot/vmlinuz-* "$place"
        ;;
    drivers)
        private_apt "$(suite_of_kernel "$2")" amd64
        pattern="^linux-image-${2//./\\.}\.[0-9][^- ]*(-[0-9]+)?-amd64\$"
        package=$(apt_cache pkgnames linux-image- | grep -E "$pattern" | sort -V | tail -n 1 || true)
        [ -n "$package" ] || die "no package linux-image-$2.*-amd64 in $(suite_of_kernel "$2")"
        unpack "$package" "$work/root"
        drivers_of "$work/root" "$work/new/modules" gpu-sched vgem virtio_pci virtio-gpu
        mv "$work"/root/boot/vmlinuz-* "$work/new/vmlinuz"
        if [ "$2" = 6.1 ]; then
            headers=${package/image/headers}
            unpack "$headers" "${headers%-amd64}-common" "linux-kbuild-$2" "$work/headers"
            mv "$work/headers" "$work/new/headers"
            # They know each other by where they would be installed.
            find "$work/new/headers" -type l | while read -r link; do
                to=$(readlink "$link")
                case "$to" in
                    /usr/*) ln -sfn "$place/headers$to" "$link" ;;
                esac
            done
            sed -i "s|/usr/src/|$place/headers/usr/src/|g" "$work/new/headers/usr/src/$headers/Makefile"
            ln -s "headers/usr/src/$headers" "$work/new/build"
        fi
        mv "$work/new" "$place"
        ;;
    busybox)
        private_apt bookworm "$2"
        unpack busybox-static "$work/root"
        mv "$work/root/bin/busybox" "$place"
        ;;
    python)
        private_apt trixie arm64
        unpack_with_all python3 libstdc++6 libgomp1 "$work/root"
        # The machine has it all in memory.
        rm -rf "$work"/root/usr/share "$work"/root/var "$work/root/usr/lib/python3.13/test"
        mv "$work/root" "$place"
        ;;
    toolchain)
        [ "$(uname -m)" = x86_64 ] || die "only for x86-64"
        command -v clang >/dev/null || die "'clang' is missing; install it with: apt-get install clang"
        private_apt trixie amd64 arm64
        # First what the programs are linked with, then what runs here.
        unpack_with_all libc6-dev:arm64 libgcc-14-dev:arm64 libelf-dev:arm64 libgcc-s1:arm64 "$work/root/sysroot"
        unpack_with_all rustc-web binutils-aarch64-linux-gnu "$work/root"
        unpack libstd-rust-web-dev:arm64 "$work/root"
        [ -e "$work/root/sysroot/lib" ] || ln -s usr/lib "$work/root/sysroot/lib"
        rm -rf "$work"/root/usr/share "$work"/root/usr/libexec "$work/root/usr/lib/gcc"
        mkdir "$work/root/bin"
        # shellcheck disable=SC2016  # the wrapper's own variable
        wrap "$work/root" rustc usr/bin/rustc '--sysroot "$root/usr"'
        for tool in ld ar ranlib strip; do
            wrap "$work/root" "$tool" "usr/bin/aarch64-linux-gnu-$tool" ''
            ln -s "../$tool" "$work/root/bin/$tool"
        done
        cat >"$work/root/cc" <<'WRAPPER'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")
exec clang --target=aarch64-linux-gnu --sysroot="$root/sysroot" -B"$root/bin" -Qunused-arguments "$@"
WRAPPER
        chmod +x "$work/root/cc"
        mv "$work/root" "$place"
        ;;
esac
printf '%s\n' "$place"
