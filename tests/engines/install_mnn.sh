#!/usr/bin/env bash
# Installs MNN as its users do, from a wheel on PyPI, and what run_mnn.py makes a model
# with. Prints the path of a Python that has them. Instant when they are there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" mnn MNN==3.6.1 onnx==1.23.2 numpy==2.4.6
