#!/usr/bin/env python3
"""Prints what a path leads to, by TLS.

usage: get_by_tls.py CERTIFICATE ADDRESS PATH
"""

import http.client
import ssl
import sys

certificate, address, path = sys.argv[1:]
context = ssl.create_default_context(cafile=certificate)
connection = http.client.HTTPSConnection(address, context=context, timeout=10)
connection.request("GET", path)
answer = connection.getresponse()
print(answer.read().decode(), end="")
sys.exit(0 if answer.status == 200 else f"{answer.status} {answer.reason}")
