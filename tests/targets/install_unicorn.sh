#!/usr/bin/env bash
# Installs an emulated arm64 processor. Prints the path of a Python that has it.
# Instant when it is there.
set -euo pipefail
exec "$(dirname "$0")/../engines/python_environment.sh" unicorn unicorn==2.1.4
