#!/usr/bin/env bash
# Installs llama.cpp in a Python module that has all of it, hides its functions and is stripped, from a wheel on PyPI.
# Prints the path of a Python that has it. Instant when it is there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" cyllama cyllama==0.2.18 numpy==2.4.6
