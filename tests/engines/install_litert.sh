#!/usr/bin/env bash
# Installs LiteRT as its users do, from a wheel on PyPI, and what run_litert.py makes a
# model with. Prints the path of a Python that has them. Instant when they are there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" litert ai-edge-litert==2.3.0 numpy==2.4.6
