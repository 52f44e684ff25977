#!/bin/sh
# perf_stat.sh SITES PID OUTPUT: counts how often each site is reached. SITES has a line `FILE:OFFSET` for each.
set -eu
[ "${PRIVATE-}" ] || PRIVATE=1 exec unshare --mount sh "$0" "$@"
mount -t tracefs nodev /sys/kernel/tracing
perf probe -q -d 'profinfer_overhead:*' 2>/dev/null || true
number=0
while read -r site; do
    echo "p:profinfer_overhead/site$number $site" >>/sys/kernel/tracing/uprobe_events
    number=$((number + 1))
done <"$1"
exec perf stat -x , -o "$3" -e 'profinfer_overhead:*' -p "$2"
