"""Runs a small OpenVINO model of random weights on the CPU, and writes the engine's own profile of its last run.

run_openvino.py FOLDER RUNS [BLOCKS [asynchronous] [dynamic]]

With `asynchronous` every second run is computed by a thread of the engine's, while the program waits. With `dynamic`
the model does not state how many images it takes.

FOLDER/profile.json has `version`, `nodes`: what `get_profiling_info` lists as executed, in the order of execution, and
`edges`: the names of the nodes that each node reads, by the model as it is executed.
"""

import json
import os
import sys

import numpy as np
import openvino as ov

try:
    from openvino import opset13 as ops
except ImportError:
    from openvino.runtime import opset13 as ops

CHANNELS, SIZE, CLASSES = 16, 32, 10


def model(blocks: int, images: int) -> ov.Model:
    random = np.random.default_rng(1)

    def weight(*shape):
        return ops.constant(random.normal(0, 0.1, shape).astype(np.float32))

    x = ops.parameter([images, 3, SIZE, SIZE], np.float32, name="image")
    y = ops.relu(ops.convolution(x, weight(CHANNELS, 3, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], name="stem"))
    for number in range(blocks):
        end = str(number) if number else ""
        z = ops.convolution(y, weight(CHANNELS, CHANNELS, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], name="block" + end)
        y = ops.add(ops.sigmoid(z), y, name="residual" + end)
    y = ops.max_pool(y, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], name="pool")
    y = ops.reshape(y.output(0), ops.constant(np.array([-1, CHANNELS * SIZE * SIZE // 4], dtype=np.int64)), False, name="flat")
    y = ops.matmul(y, weight(CHANNELS * SIZE * SIZE // 4, CLASSES), False, False, name="classes")
    y = ops.softmax(y, 1, name="scores")
    return ov.Model([y], [x], "small")


def main() -> None:
    folder, runs = sys.argv[1], int(sys.argv[2])
    blocks = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    core = ov.Core()
    images = -1 if "dynamic" in sys.argv[4:] else 1
    compiled = core.compile_model(model(blocks, images), "CPU", {"PERF_COUNT": True, "INFERENCE_NUM_THREADS": 1,
                                                   "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    image = np.linspace(-1, 1, 3 * SIZE * SIZE, dtype=np.float32).reshape(1, 3, SIZE, SIZE)
    for number in range(runs):
        if number % 2 and "asynchronous" in sys.argv[4:]:
            request.start_async({0: image})
            request.wait()
        else:
            request.infer({0: image})
    nodes = [
        {"name": node.node_name, "type": node.node_type, "kernel": node.exec_type,
         "us": node.real_time.total_seconds() * 1e6}
        for node in request.get_profiling_info() if "EXECUTED" in str(node.status)
    ]
    reads = lambda node: [value.get_source_output().get_node().get_friendly_name() for value in node.inputs()]
    edges = {node.get_friendly_name(): reads(node) for node in compiled.get_runtime_model().get_ops()}
    with open(os.path.join(folder, "profile.json"), "w", encoding="utf-8") as file:
        json.dump({"version": ov.__version__, "nodes": nodes, "edges": edges}, file)
    print(f"ran {runs}")


if __name__ == "__main__":
    main()
