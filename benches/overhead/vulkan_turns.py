"""A live copy of llama.cpp on Vulkan that decodes when it is told to: vulkan_turns.py MODEL

As turns.cpp does, it says `ready`, then answers each number of tokens by the nanoseconds of wall and CPU time. A token
ends when its results are there.
"""

import os
import sys
import time

TOKEN = 300


def main() -> None:
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    from cyllama.llama import llama_cpp as cy

    cy.ggml_backend_load_all()
    cy.disable_logging()
    params = cy.LlamaModelParams()
    params.n_gpu_layers = 99
    model = cy.LlamaModel(sys.argv[1], params)
    context_params = cy.LlamaContextParams()
    context_params.n_ctx = context_params.n_batch = context_params.n_ubatch = 512
    context_params.n_threads = context_params.n_threads_batch = 1
    context = cy.LlamaContext(model, context_params)
    sampler = cy.LlamaSampler(cy.LlamaSamplerChainParams())
    sampler.add_greedy()

    def decode() -> None:
        # The same position each time: the same work.
        context.decode(cy.llama_batch_get_one([TOKEN], 0))
        sampler.sample(context, -1)
        context.kv_cache_clear()

    decode()
    print("ready", flush=True)
    for line in sys.stdin:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        for _ in range(int(line)):
            decode()
        print(time.perf_counter_ns() - wall, time.thread_time_ns() - cpu, flush=True)


if __name__ == "__main__":
    main()
