#!/usr/bin/env bash
# Installs ncnn as its users do, from a wheel on PyPI. Prints the path of a Python that has it. Instant when it is there.
set -euo pipefail
exec "$(dirname "$0")/python_environment.sh" ncnn ncnn==1.0.20261020 numpy==2.4.6
