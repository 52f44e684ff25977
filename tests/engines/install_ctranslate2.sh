#!/usr/bin/env bash
# Installs CTranslate2 as its users do, from a wheel on PyPI: the newest release, or with `older` one of a year before.
# Prints the path of a Python that has it. Instant when it is there.
set -euo pipefail
readonly -A builds=([newest]=ctranslate2==4.8.5 [older]=ctranslate2==4.6.0)
exec "$(dirname "$0")/python_environment.sh" ctranslate2 "${builds[${1:-newest}]}" numpy==2.4.6 setuptools==80.9.0
