#!/usr/bin/env python3
"""Two engines in one process: xllamacpp at once, onnxruntime once a line comes. Each further line has the first compute a
request of 16 tokens, and the second 7 runs; what was done is printed."""

import sys

import xllamacpp

TOKENS, RUNS = 16, 7


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_gpu_layers = 0
    params.n_ctx = 512
    params.warmup = params.fit_params = params.cache_prompt = params.ui = False
    params.n_parallel = params.n_threads_http = params.verbosity = 1
    server = xllamacpp.Server(params)
    print("ready", flush=True)
    sys.stdin.readline()

    import numpy
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    shape = [400, 400]
    given, made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("given", "made"))
    graph = helper.make_graph([helper.make_node("MatMul", ["given", "given"], ["made"])], "one", [given], [made])
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    print("both", flush=True)
    for _ in sys.stdin:
        answer = server.handle_completions(
            {"prompt": [300 + i for i in range(8)], "n_predict": TOKENS, "temperature": 0, "ignore_eos": True}
        )
        for _ in range(RUNS):
            session.run(None, {"given": numpy.ones(shape, dtype=numpy.float32)})
        print(answer["usage"]["completion_tokens"], RUNS, flush=True)


if __name__ == "__main__":
    main()
