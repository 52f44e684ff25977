#!/usr/bin/env bash
# Installs ncnn as its users do, from a wheel on PyPI: the newest release, or with `older` one of two years before. Prints
# the path of a Python that has it. Instant when it is there.
set -euo pipefail
readonly -A builds=([newest]=ncnn==1.0.20261020 [older]=ncnn==1.0.20241226)
exec "$(dirname "$0")/python_environment.sh" ncnn "${builds[${1:-newest}]}" numpy==2.4.6
