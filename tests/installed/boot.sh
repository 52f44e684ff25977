#!/usr/bin/env bash
# usage: boot.sh ROOT LAYER
# Boots a root file system, with the layer of enter.sh above it, under its own systemd until that turns the machine off. It
# has this machine's kernel, may load BPF programs, and reaches no other machine.
set -euo pipefail
root=$1 layer=$2
mkdir -p "$layer/upper" "$layer/work" "$layer/merged"
# shellcheck disable=SC2016  # the inner shell's own variables
exec unshare --mount --propagation private bash -euc '
root=$1 layer=$2
mount -t overlay overlay -o "lowerdir=$root,upperdir=$layer/upper,workdir=$layer/work" "$layer/merged"
exec timeout 170 systemd-nspawn --quiet --register=no --keep-unit --private-network --capability=all \
    --system-call-filter="bpf perf_event_open" --directory "$layer/merged" --boot
' boot "$root" "$layer" </dev/null
