#!/usr/bin/env bash
# Installs llama.cpp as its users do, from a wheel on PyPI, and what make_models.py
# needs. Prints the path of a Python that has them. Instant when they are there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" wheel xllamacpp==2026.10.11549 gguf==0.19.0 numpy==2.4.6
