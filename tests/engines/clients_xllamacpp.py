#!/usr/bin/env python3
"""Clients of the server of the PyPI wheel `xllamacpp`, who look at a clock.

Starts the server in this process, prints a line, and waits for one on standard
input: `once` has a client ask once, without a word of its times. After another
one `--clients` clients at a time ask it over HTTP, `--rounds` times
each, and read the tokens as they come. One JSON line for each request: time to
first token, time per further token and time to the last one, in seconds, by the
client's clock. At the end it waits for the end of its input.
"""

import argparse
import http.client
import json
import sys
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

from run_xllamacpp_server import FIRST_SYLLABLE, SYLLABLES, server

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--model", required=True)
parser.add_argument("--clients", type=int, default=4)
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--prompt-tokens", type=int, default=192)
parser.add_argument("--tokens", type=int, default=48)
options = parser.parse_args()
options.slots = options.clients
engine = server(options)
address = urllib.parse.urlsplit(engine.listening_address)


def ask(request: int) -> dict:
    prompt = [FIRST_SYLLABLE + (37 * i + 11 * request) % SYLLABLES for i in range(options.prompt_tokens)]
    body = {"prompt": prompt, "n_predict": options.tokens, "temperature": 0, "ignore_eos": True}
    body |= {"cache_prompt": False, "stream": True}
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
    connection.connect()
    times = [time.monotonic()]
    connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    tokens = 0
    for line in answer:
        if not line.startswith(b"data: "):
            continue
        now = time.monotonic()
        event = json.loads(line[6:])
        if event.get("tokens"):
            tokens += len(event["tokens"])
            times.append(now)
        if event.get("stop"):
            break
    connection.close()
    first, last = times[1] - times[0], times[-1] - times[0]
    return {"ttft": first, "tpot": (last - first) / (tokens - 1), "duration": last, "tokens": tokens}


def client(number: int) -> list:
    return [ask(number + options.clients * turn) for turn in range(options.rounds)]


print("ready", flush=True)
while sys.stdin.readline() == "once\n":
    ask(0)
    print("once", flush=True)
with ThreadPoolExecutor(options.clients) as pool:
    for times in pool.map(client, range(options.clients)):
        for of_request in times:
            print(json.dumps(of_request), flush=True)
print("done", flush=True)
sys.stdin.read()
