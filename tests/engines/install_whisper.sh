#!/usr/bin/env bash
# Installs whisper.cpp and llama.cpp as users of both do, from wheels on PyPI, into one environment. Prints the path
# of a Python that has them. Instant when they are there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" whisper pywhispercpp==1.5.1 xllamacpp==2026.10.11549 numpy==2.4.6
