#!/usr/bin/env bash
# Installs the build of ONNX Runtime that sherpa-onnx brings, from its wheel on PyPI, and what makes
# models. Prints the path of a Python that has them. Instant when they are there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" sherpa-onnx sherpa-onnx-core==2.0.1 onnx==1.23.2 numpy==2.4.6
