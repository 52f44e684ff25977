#!/usr/bin/env bash
# usage: enter.sh [--contained] ROOT LAYER COMMAND…
# Runs a command in a root file system, in mount and network namespaces of its own: it reaches itself, and no other machine.
# What it writes goes to LAYER/upper, where the next command finds it; ROOT stays as it is. Nothing of this machine's
# environment comes along. --contained: as in a container, that is as process 1 of a PID namespace, and with the layer's root
# as the only one of its mount namespace; with this script's end it ends.
set -euo pipefail
contained=
namespaces=(--mount --net)
if [ "$1" = --contained ]; then
    contained=1 namespaces+=(--pid --fork --kill-child)
    shift
fi
root=$1 layer=$2
shift 2
mkdir -p "$layer/upper" "$layer/work" "$layer/merged"
# shellcheck disable=SC2016  # the inner shell's own variables
exec unshare "${namespaces[@]}" --propagation private bash -euc '
root=$1 layer=$2 contained=$3
shift 3
ip link set lo up
mount -t overlay overlay -o "lowerdir=$root,upperdir=$layer/upper,workdir=$layer/work" "$layer/merged"
mount -t proc proc "$layer/merged/proc"
mount --rbind /sys "$layer/merged/sys"
mount --rbind /dev "$layer/merged/dev"
cd "$layer/merged"
if [ -n "$contained" ]; then
    pivot_root . .
    PATH=/usr/sbin:/usr/bin:/sbin:/bin umount --lazy .
fi
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
    DEBIAN_FRONTEND=noninteractive chroot . "$@"
' enter "$root" "$layer" "$contained" "$@"
