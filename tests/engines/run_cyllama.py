#!/usr/bin/env python3
"""Runs a model on the llama.cpp of the PyPI wheels `cyllama-vulkan` and `cyllama-cuda12`, on a GPU, and of `cyllama`.

One prompt of P tokens and K - 1 more tokens, greedily: K calls of `llama_decode`. Without a GPU Vulkan's device is Mesa's
lavapipe, which computes on the processor: the backend takes it only if GGML_VK_VISIBLE_DEVICES names it. The prompt is
given as token ids, so that equal arguments give equal work. Prints one JSON line.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

# Syllables of make_models.py's vocabulary.
FIRST_SYLLABLE, SYLLABLES = 259, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a GGUF file")
    parser.add_argument("--device", choices=["Vulkan", "CUDA", "CPU"], default="Vulkan", help="(default Vulkan)")
    parser.add_argument("--gpu-layers", type=int, default=99, metavar="N", help="(default all)")
    parser.add_argument("--prompt-tokens", type=int, default=8, metavar="P", help="(default 8)")
    parser.add_argument("--tokens", type=int, default=4, metavar="K", help="tokens to generate (default 4)")
    parser.add_argument("--log", action="store_true", help="the engine's own messages on stderr")
    options = parser.parse_args()
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    from cyllama.llama import llama_cpp as cy

    cy.ggml_backend_load_all()
    devices = [info["name"] if isinstance(info, dict) else str(info) for info in cy.ggml_backend_dev_info()]
    if not any(device.startswith(options.device) for device in devices):
        sys.exit(f"run_cyllama: no {options.device} device among {devices}; Vulkan on Debian: apt install mesa-vulkan-drivers")
    if not options.log and hasattr(cy, "disable_logging"):
        cy.disable_logging()
    params = cy.LlamaModelParams()
    params.n_gpu_layers = options.gpu_layers
    model = cy.LlamaModel(str(options.model), params)
    context_params = cy.LlamaContextParams()
    context_params.n_ctx = context_params.n_batch = context_params.n_ubatch = 512
    context_params.n_threads = context_params.n_threads_batch = 1
    context = cy.LlamaContext(model, context_params)
    sampler = cy.LlamaSampler(cy.LlamaSamplerChainParams())
    sampler.add_greedy()
    tokens = [FIRST_SYLLABLE + 37 * i % SYLLABLES for i in range(options.prompt_tokens)]
    chosen, position = [], 0
    began = time.monotonic_ns()
    for _ in range(options.tokens):
        context.decode(cy.llama_batch_get_one(tokens, position))
        position += len(tokens)
        chosen.append(sampler.sample(context, -1))
        tokens = chosen[-1:]
    spent = time.monotonic_ns() - began
    print(json.dumps({"steps": options.tokens, "tokens": chosen, "ms": spent / 1e6, "devices": devices}), flush=True)


if __name__ == "__main__":
    main()
