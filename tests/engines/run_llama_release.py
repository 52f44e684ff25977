#!/usr/bin/env python3
"""Runs a model on any release of a package that contains llama.cpp, in this process: the same prompt and some tokens.

run_llama_release.py PACKAGE MODEL TOKENS

PACKAGE is xllamacpp, cyllama, gpt4all or ctransformers. Options that a release does not have are left out. Unlike
run_xllamacpp.py it does not care how many steps the engine makes of it.
"""

import os
import sys

PROMPT = [259 + 37 * i % 200 for i in range(8)]
TEXT = "ba de ka lo"


def xllamacpp(model: str, tokens: int) -> None:
    import xllamacpp

    params = xllamacpp.CommonParams()
    if isinstance(params.model, str):
        params.model = model
    else:
        params.model.path = model
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    # One request and nothing beside it.
    wanted = {
        "n_gpu_layers": 0, "n_batch": 512, "n_ubatch": 512, "n_ctx": 512, "n_parallel": 1, "warmup": False,
        "fit_params": False, "cache_prompt": False, "cache_idle_slots": False, "cache_ram_mib": 0,
        "n_ctx_checkpoints": 0, "ui": False, "webui": False, "n_threads_http": 1, "verbosity": 1,
    }
    for name, value in wanted.items():
        if hasattr(params, name):
            setattr(params, name, value)
    server = xllamacpp.Server(params)
    request = {"prompt": PROMPT, "n_predict": tokens, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
    try:
        server.handle_completions(request)
    except TypeError:  # the first releases take and give text, and two functions
        import json

        request.update(prompt=TEXT, max_tokens=tokens, messages=[{"role": "user", "content": TEXT}])
        refused = []
        server.handle_completions(json.dumps(request), refused.append, lambda answer: None)
        if refused:
            sys.exit(f"run_llama_release: {refused[0]!r}")
    print("done", flush=True)


def cyllama(model: str, tokens: int) -> None:
    from cyllama.llama import llama_cpp as cy

    cy.ggml_backend_load_all()
    params = cy.LlamaModelParams()
    params.n_gpu_layers = 0
    loaded = cy.LlamaModel(model, params)
    context_params = cy.LlamaContextParams()
    context_params.n_ctx = context_params.n_batch = context_params.n_ubatch = 512
    context_params.n_threads = context_params.n_threads_batch = 1
    context = cy.LlamaContext(loaded, context_params)
    sampler = cy.LlamaSampler(cy.LlamaSamplerChainParams())
    sampler.add_greedy()
    given, position = PROMPT, 0
    for _ in range(tokens):
        context.decode(cy.llama_batch_get_one(given, position))
        position += len(given)
        given = [sampler.sample(context, -1)]


def gpt4all(model: str, tokens: int) -> None:
    from gpt4all import GPT4All

    folder, name = os.path.split(model)
    loaded = GPT4All(name, model_path=folder, allow_download=False, device="cpu", n_threads=1, n_ctx=512, verbose=False)
    loaded.generate(TEXT, max_tokens=tokens, temp=0, n_batch=8)


def ctransformers(model: str, tokens: int) -> None:
    import types

    # What it imports to fetch models, which it is not asked to.
    utils = types.SimpleNamespace(validate_repo_id=None, HFValidationError=ValueError)
    sys.modules["huggingface_hub"] = types.SimpleNamespace(HfApi=None, snapshot_download=None, utils=utils)
    sys.modules["huggingface_hub.utils"] = utils
    from ctransformers import AutoModelForCausalLM

    # Its libraries with AVX and without it are one source.
    loaded = AutoModelForCausalLM.from_pretrained(model, model_type="llama", threads=1, context_length=512, lib="avx2")
    given = PROMPT
    for _ in range(tokens):
        loaded.eval(given, threads=1)
        given = [loaded.sample(top_k=1)]


def main() -> None:
    package, model, tokens = sys.argv[1], os.path.abspath(sys.argv[2]), int(sys.argv[3])
    {"xllamacpp": xllamacpp, "cyllama": cyllama, "gpt4all": gpt4all, "ctransformers": ctransformers}[package](
        model, tokens
    )


if __name__ == "__main__":
    main()
