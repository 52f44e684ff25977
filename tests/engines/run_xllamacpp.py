#!/usr/bin/env python3
"""Runs a model on the llama.cpp in the PyPI wheel `xllamacpp`.

One completion, greedily, in this process; then one JSON line on stdout with
what was done and the engine's own timings. With `--draft` a second model drafts
tokens for the first; with `--parallel` several requests are answered at once;
the number of steps is then the engine's. The prompt is given as token ids and
the run never ends early, so that equal arguments give equal work, 1 + K steps
(calls of `llama_process`): one of two tokens, by which the engine tries its own
cache while it loads the model; one of the prompt's P tokens, which also gives
the first generated token; and K - 1 of one token each.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Syllables of make_models.py's vocabulary; reference.cpp makes the same prompt.
FIRST_SYLLABLE, SYLLABLES = 259, 200


def arguments(about: str) -> argparse.ArgumentParser:
    """What this script and the one that traces it have in common."""

    def positive(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
        return int(text)

    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--threads", type=positive, default=1, metavar="N", help="threads that compute (default 1)")
    parser.add_argument("--prompt-tokens", type=positive, default=8, metavar="P", help="(default 8)")
    parser.add_argument("--tokens", type=positive, default=16, metavar="K", help="tokens to generate (default 16)")
    parser.add_argument("--flash-attention", choices=["auto", "off", "on"], default="auto", help="(default auto)")
    return parser


def run_delays() -> dict[str, tuple[int, int]]:
    """By thread, the kernel's account: how long it ran, and how long it could have and did not, ns."""
    tasks = Path("/proc/self/task").iterdir()
    counts = {task.name: (task / "schedstat").read_text().split() for task in tasks}
    return {tid: (int(ran), int(waited)) for tid, (ran, waited, _) in counts.items()}


def run_delay(before: dict[str, tuple[int, int]]) -> int:
    """Since then, of the thread that ran most."""
    since = [(now[0] - before.get(tid, (0, 0))[0], now[1] - before.get(tid, (0, 0))[1]) for tid, now in run_delays().items()]
    return max(since)[1]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--draft", type=Path, help="a GGUF file of a model that drafts")
    parser.add_argument("--parallel", type=int, default=1, metavar="R", help="requests at once (default 1)")
    options = parser.parse_args()
    if not options.model.is_file():
        sys.exit(f"run_xllamacpp: there is no model {options.model}; make_models.py writes some")
    try:
        import xllamacpp
    except ImportError as missing:
        sys.exit(f"run_xllamacpp: {missing}; run: pip install xllamacpp")

    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.n_gpu_layers = 0
    params.flash_attn_type = {
        "auto": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_AUTO,
        "off": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED,
        "on": xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    }[options.flash_attention]
    # All of the prompt in one batch and one graph.
    params.n_batch = params.n_ubatch = max(512, options.prompt_tokens)
    params.n_ctx = max(512, options.prompt_tokens + options.tokens) * options.parallel
    # One request and nothing beside it: no run to warm up, no trial load to fit
    # the memory, nothing kept from or for other requests.
    params.n_parallel = options.parallel
    if options.draft is not None:
        params.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
        draft = params.speculative.draft
        draft.mparams.path = str(options.draft)
        draft.n_gpu_layers = 0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = options.threads
    params.warmup = False
    params.fit_params = False
    params.cache_prompt = False
    params.cache_idle_slots = False
    params.cache_ram_mib = 0
    params.n_ctx_checkpoints = 0
    params.ui = False
    params.n_threads_http = 1
    params.verbosity = 1  # errors

    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        sys.exit(f"run_xllamacpp: the engine does not load {options.model}: {error}")

    def complete(request: int) -> dict:
        return server.handle_completions(
            {
                "prompt": [FIRST_SYLLABLE + (37 * i + request) % SYLLABLES for i in range(options.prompt_tokens)],
                "n_predict": options.tokens,
                "temperature": 0,
                "ignore_eos": True,
                "cache_prompt": False,
            }
        )

    before = run_delays()
    with ThreadPoolExecutor(options.parallel) as pool:
        others = [pool.submit(complete, request) for request in range(1, options.parallel)]
        answer = complete(0)
        for other in others:
            other.result()
    if "usage" not in answer:
        sys.exit(f"run_xllamacpp: the engine answered {json.dumps(answer)}")
    usage, timings = answer["usage"], answer["timings"]
    print(
        json.dumps(
            {
                "engine": "xllamacpp",
                "version": xllamacpp.__version__,
                "threads": options.threads,
                "prompt_tokens": usage["prompt_tokens"],
                "generated_tokens": usage["completion_tokens"],
                "steps": 1 + usage["completion_tokens"],
                "prefill_ms": timings["prompt_ms"],
                "decode_ms": timings["predicted_ms"],
                "run_delay_ns": run_delay(before),
                # Of a model that drafts; the engine says nothing of them without one.
                "drafted": timings.get("draft_n", 0),
                "accepted": timings.get("draft_n_accepted", 0),
                "text": answer["choices"][0]["text"],
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
