#!/usr/bin/env bash
# What drives a browser in the tests: prints the path of a Python that has Playwright.
# The browser itself is the system's Chromium. Instant when it is there.
set -euo pipefail
command -v chromium >/dev/null || {
    echo "browser: 'chromium' is missing; on Debian: apt install chromium" >&2
    exit 1
}
exec "$(dirname "$0")/../engines/python_environment.sh" playwright playwright==1.56.0
