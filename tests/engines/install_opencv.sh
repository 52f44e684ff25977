#!/usr/bin/env bash
# Installs OpenCV as its users do, from a wheel on PyPI, and what makes its models. Prints the path of a Python that has
# them. Instant when they are there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" opencv opencv-python-headless==5.0.0.93 onnx==1.23.2 numpy==2.4.6
