#!/usr/bin/env bash
# Boots a kernel in an emulated machine with a folder for its only file system, and
# prints what its console says. The machine has two processors, no disk and no network;
# it is no machine of this architecture's own, so that it is the same everywhere.
set -euo pipefail
cd -P "$(dirname "${BASH_SOURCE[0]}")"

# An emulated machine that takes longer than this will never answer, in seconds.
readonly patience=${PROFINFER_BOOT_SECONDS:-1800}

usage() {
    cat <<'USAGE'
usage: boot.sh amd64|arm64 SERIES FOLDER STEPS [counting|drivers|engines|guarded]

STEPS is the file in FOLDER/steps whose lines are run. A machine that is `counting` runs
one instruction at a time, on whichever processor: then arm64 counts cycles and
instructions. One with `drivers` (amd64) has a GPU of virtio, and the kernel of `get.sh drivers`. One with `engines` has
more memory. One that is `guarded` (arm64) has the newest processor, with pointer authentication and branch targets.
USAGE
}
[ $# -eq 4 ] || [[ "$#:${5-}:$1" =~ ^5:(counting:.*|drivers:amd64|engines:.*|guarded:arm64)$ ]] || { usage >&2; exit 2; }
readonly series=$2 folder=$3 steps=$4
# A busy host is late with an emulated timer's first ticks, for which Linux on x86 gives up unless told not to look.
# Without the features that Linux and the C library choose `rep movsb` for, of which the emulator does one byte at a time,
# and without mitigations, of which it has no need: two and a half times as fast.
case "$1" in
    amd64)
        emulator=run-qemu-x86_64 console='ttyS0 no_timer_check mitigations=off'
        machine=(-machine q35 -cpu 'max,erms=off,fsrm=off,la57=off')
        ;;
    arm64)
        emulator=run-qemu-aarch64 console='ttyAMA0 mitigations=off'
        machine=(-machine virt -cpu neoverse-n1)
        ;;
    *) usage >&2; exit 2 ;;
esac
# The clock goes by instructions, one a nanosecond: the same counts however busy the host is.
case "${5-}" in
    '' | drivers | engines) machine+=(-accel 'tcg,thread=multi') ;;
    counting) machine+=(-accel 'tcg,thread=single' -icount 'shift=0,sleep=off' -rtc 'base=2026-01-01,clock=vm' -seed 1) ;;
    guarded) machine=(-machine virt -cpu 'max,pauth-impdef=on' -accel 'tcg,thread=multi') ;;
esac
[ "${5-}" = engines ] && memory=4G || memory=1G
# Kernels from 6.13 on have a program's stack on the processor: there they preempt themselves, too.
case "$series" in
    5.* | 6.? | 6.1[0-2]) preemption= ;;
    *) preemption=preempt=full ;;
esac
emulators=$(./get.sh emulator)
if [ "${5-}" = drivers ]; then
    kernel=$(./get.sh drivers "$series")/vmlinuz
    machine+=(-device virtio-gpu-pci)
    # The emulator's own modules, which it looks for beside itself.
    export QEMU_MODULE_DIR="$emulators/usr/lib/x86_64-linux-gnu/qemu"
else
    kernel=$(./get.sh kernel "$1" "$series")
fi
busybox=$(./get.sh busybox "$(dpkg --print-architecture)")

files=$(mktemp)
trap 'rm -f "$files"' EXIT
(cd "$folder" && find . | "$busybox" cpio -o -H newc 2>/dev/null) >"$files"
status=0
# What the kernel does not know of its command line is in the environment of `init`.
timeout --foreground "$patience" "$emulators/$emulator" "${machine[@]}" -smp 2 -m "$memory" \
    -nodefaults -no-user-config -display none -serial stdio -no-reboot -kernel "$kernel" -initrd "$files" \
    -append "console=$console quiet loglevel=4 panic=-1 $preemption steps=$steps" </dev/null || status=$?
[ "$status" -eq 0 ] || { printf 'boot.sh: the emulator ended with status %s\n' "$status" >&2; exit 1; }
