#!/usr/bin/env bash
# Installs llama.cpp with its CUDA backend as its users do, from a wheel on PyPI. Prints the path of a Python that has it.
# Instant when it is there. CUDA's own libraries are not installed: see ../targets/cuda_runtime.c.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" cyllama-cuda "cyllama-cuda12==${1:-0.2.18}"
