#!/usr/bin/env python3
"""Answers requests with the server of the PyPI wheel `xllamacpp`, in this process or over HTTP.

One JSON line on stdout for each request: the server's own timings. Requests
begin `--stagger` milliseconds after one another, so that some arrive while
others decode. `--cancel` sends one more, whose client hangs up while it
decodes; `--again` repeats the first prompt, of which the server has a part.
"""

import argparse
import json
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import xllamacpp

FIRST_SYLLABLE, SYLLABLES = 259, 200


def server(options: argparse.Namespace) -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_gpu_layers = 0
    params.n_ctx = 1024 * options.slots
    params.n_parallel = options.slots
    params.warmup = False
    params.fit_params = False
    params.cache_idle_slots = False
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    params.ui = False
    params.n_threads_http = 8
    params.verbosity = 1
    params.port = 0
    return xllamacpp.Server(params)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--requests", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=12)
    parser.add_argument("--stagger", type=float, default=60.0)
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--cancel", action="store_true")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    engine = server(options)

    def body(request: int, **more) -> dict:
        prompt = [FIRST_SYLLABLE + (37 * i + request) % SYLLABLES for i in range(options.prompt_tokens)]
        wanted = {"prompt": prompt, "n_predict": options.tokens, "temperature": 0, "ignore_eos": True}
        return wanted | {"cache_prompt": options.again} | more

    def post(content: dict):
        data = json.dumps(content).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(engine.listening_address + "/completion", data, headers)
        return urllib.request.urlopen(request, timeout=60)

    def complete(request: int) -> dict:
        if options.http:
            with post(body(request)) as answer:
                return json.load(answer)["timings"]
        return engine.handle_completions(body(request))["timings"]

    def late(request: int) -> dict:
        time.sleep(options.stagger * request / 1000)
        return complete(request)

    def cancel() -> None:
        time.sleep(options.stagger / 2000)
        answer = post(body(99, stream=True, n_predict=400))
        for _ in range(3):
            answer.readline()
        answer.close()

    with ThreadPoolExecutor(options.requests + 1) as pool:
        others = [pool.submit(cancel)] if options.cancel else []
        timings = list(pool.map(late, range(options.requests)))
        for other in others:
            other.result()
    if options.again:
        timings.append(complete(0))
    for timing in timings:
        print(json.dumps(timing), flush=True)


if __name__ == "__main__":
    main()
