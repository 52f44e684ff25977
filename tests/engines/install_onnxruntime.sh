#!/usr/bin/env bash
# Installs ONNX Runtime as its users do, from a wheel on PyPI, and what makes its models: the newest release, or with
# `older` one of two years before. Prints the path of a Python that has them. Instant when they are there.
set -euo pipefail
readonly -A builds=([newest]=onnxruntime==1.31.1 [older]=onnxruntime==1.20.1)
exec "$(dirname "$0")/python_environment.sh" onnxruntime "${builds[${1:-newest}]}" onnx==1.23.2 numpy==2.4.6
