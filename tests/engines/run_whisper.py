#!/usr/bin/env python3
"""Has whisper.cpp (the wheel pywhispercpp) transcribe a tone, and with --llama a model of llama.cpp (the wheel
xllamacpp) answer in the same process. What the engine says of its own times is written to standard error by itself."""

import argparse
import inspect
import sys
import types

# The binding of 2024 imports it for files of sound.
sys.modules.setdefault("pydub", types.SimpleNamespace(AudioSegment=None))
import _pywhispercpp
import numpy
import pywhispercpp.model

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True, help="a model of whisper.cpp")
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--tokens", type=int, default=8)
parser.add_argument("--llama", help="a model of llama.cpp")
arguments = parser.parse_args()

llama = None
if arguments.llama:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = arguments.llama
    params.n_ctx = 256
    params.warmup = False
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    params.verbosity = -1
    llama = xllamacpp.Server(params)

more = {"redirect_whispercpp_logs_to": False}
more = more if "redirect_whispercpp_logs_to" in inspect.signature(pywhispercpp.model.Model).parameters else {}
whisper = pywhispercpp.model.Model(arguments.model, n_threads=arguments.threads, **more)
tone = 0.1 * numpy.sin(440 * 2 * numpy.pi * numpy.arange(32000) / 16000)


def transcribe():
    options = dict(
        max_tokens=arguments.tokens, audio_ctx=256, single_segment=True, no_context=True, no_timestamps=True,
        suppress_blank=False, temperature_inc=0.0, greedy={"best_of": 1}, print_progress=False,
    )
    # Older releases lack some.
    known = {name: value for name, value in options.items() if hasattr(_pywhispercpp.whisper_full_params, name)}
    whisper.transcribe(tone.astype(numpy.float32), **known)


def decode(past):
    # A model without weights has nothing to say: it is given its tokens.
    if _pywhispercpp.whisper_decode(whisper._ctx, 7, 1, past, arguments.threads) != 0:
        raise SystemExit("run_whisper: whisper_decode failed")


transcribe()
for number in range(arguments.tokens):
    decode(4 + number)
if llama:
    llama.handle_completions({"prompt": "one two three four", "n_predict": arguments.tokens, "ignore_eos": True})
    transcribe()
whisper.print_timings()
