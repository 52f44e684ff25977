#!/usr/bin/env python3
"""usage: complete.py MODEL TOKENS [forever]: one completion, or one after the other, by llama.cpp as the wheel `xllamacpp`
has it, old or new. Prints what the engine says of it as one JSON line."""

import json
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.n_gpu_layers = 0
params.n_ctx = 512
params.n_parallel = 1
params.warmup = False
params.verbosity = 1
# Not in every version: a trial load that fits the memory.
if hasattr(params, "fit_params"):
    params.fit_params = False

server = xllamacpp.Server(params)
request = {"prompt": [259 + i for i in range(8)], "n_predict": int(sys.argv[2]), "temperature": 0, "ignore_eos": True}
answer = server.handle_completions(request)
while sys.argv[3:] == ["forever"]:
    server.handle_completions(request)
print(json.dumps({"version": xllamacpp.__version__, "usage": answer["usage"]}), flush=True)
