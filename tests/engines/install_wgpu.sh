#!/usr/bin/env bash
# Installs wgpu-py, which brings the library wgpu-native, as its users do, from a wheel on PyPI: the newest release, or
# with `older` one of the year before. Prints the path of a Python that has it. Instant when it is there. It computes on
# any Vulkan driver; without a GPU on Mesa's lavapipe, which is a processor (on Debian: apt install mesa-vulkan-drivers).
set -euo pipefail
readonly -A builds=([newest]=wgpu==0.32.0 [older]=wgpu==0.22.2)
exec "$(dirname "$0")/python_environment.sh" wgpu "${builds[${1:-newest}]}"
