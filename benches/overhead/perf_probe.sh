#!/bin/sh
# perf_probe.sh LIBRARY PID OUTPUT: perf's own probes at the calls of operators, recorded. perf wants tracefs; it is
# mounted where nobody else sees it.
set -eu
[ "${PRIVATE-}" ] || PRIVATE=1 exec unshare --mount sh "$0" "$@"
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing
perf probe -q -d 'profinfer_overhead:*' 2>/dev/null || true
[ $# -eq 3 ] || exit 0 # without arguments: the probes are gone, and that was all
perf probe -q -x "$1" --add profinfer_overhead:operator=ggml_cpu_extra_compute_forward
perf probe -q -x "$1" --add profinfer_overhead:fused=ggml_compute_forward_rms_norm_mul_fused
exec perf record -o "$3" -e 'profinfer_overhead:*' -p "$2"
