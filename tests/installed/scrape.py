#!/usr/bin/env python3
"""usage: scrape.py URL METRIC…: waits until each of these metrics is above 0, and prints the page."""

import sys
import time
import urllib.error
import urllib.request

DEADLINE_S = 120


def value(page: str, metric: str) -> float:
    lines = (line for line in page.splitlines() if line.startswith((metric + "{", metric + " ")))
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def main() -> None:
    url, *metrics = sys.argv[1:]
    ends = time.monotonic() + DEADLINE_S
    page = ""
    while not page or not all(value(page, metric) > 0 for metric in metrics):
        if time.monotonic() > ends:
            sys.exit(f"scrape: {url} has not {', '.join(metrics)}:\n{page}")
        time.sleep(0.1)
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                page = answer.read().decode()
        except (urllib.error.URLError, OSError):
            continue
    print(page)


if __name__ == "__main__":
    main()
