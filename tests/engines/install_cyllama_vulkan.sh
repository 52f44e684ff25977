#!/usr/bin/env bash
# Installs llama.cpp with its Vulkan backend as its users do, from a wheel on PyPI, and what make_models.py needs. Prints
# the path of a Python that has them. Instant when they are there. It computes on any Vulkan driver; without a GPU on
# Mesa's lavapipe, which is a processor (on Debian: apt install mesa-vulkan-drivers).
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" cyllama-vulkan cyllama-vulkan==0.2.18 gguf==0.19.0 numpy==2.4.6
