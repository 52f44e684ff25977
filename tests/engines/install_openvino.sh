#!/usr/bin/env bash
# Installs OpenVINO as its users do, from a wheel on PyPI: the newest release, or with `older` one of a year before.
# Prints the path of a Python that has it. Instant when it is there.
set -euo pipefail
readonly -A builds=([newest]=openvino==2026.4.1 [older]=openvino==2025.3.0)
exec "$(dirname "$0")/python_environment.sh" openvino "${builds[${1:-newest}]}" numpy==2.2.6
