"""A live copy of ONNX Runtime that runs a model when it is told to: ort_turns.py ROWS WIDTH [profile]

The model is a chain of 17 matrix products, each with a Relu: 34 operators of random weights. As turns.cpp does, it
says `ready`, then answers each number of runs by the nanoseconds of wall and CPU time. With `profile` the engine's own
profiler is on; at the end of the input one line of JSON says how many operators that has written down.
"""

import json
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

PRODUCTS = 17


def model(rows: int, width: int) -> bytes:
    random = np.random.default_rng(1)
    nodes, weights = [], []
    for i in range(PRODUCTS):
        matrix = (random.random((width, width), dtype=np.float32) * 2 - 1) * np.float32((6.0 / width) ** 0.5)
        weights.append(numpy_helper.from_array(matrix, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"y{i}"], name=f"product{i}"))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"], name=f"relu{i}"))
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, width])
    graph = helper.make_graph(nodes, "turns", [value("x0")], [value(f"x{PRODUCTS}")], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def main() -> None:
    rows, width = int(sys.argv[1]), int(sys.argv[2])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = sys.argv[3:] == ["profile"]
    session = onnxruntime.InferenceSession(model(rows, width), options, providers=["CPUExecutionProvider"])
    feed = {"x0": np.ones((rows, width), dtype=np.float32)}
    print("ready", flush=True)
    runs = 0
    for line in sys.stdin:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        for _ in range(int(line)):
            session.run(None, feed)
        wall, cpu = time.perf_counter_ns() - wall, time.thread_time_ns() - cpu
        print(wall, cpu, flush=True)
        runs += int(line)
    if options.enable_profiling:
        with open(session.end_profiling(), encoding="utf-8") as file:
            names = [event["name"] for event in json.load(file) if event.get("cat") == "Node"]
        operators = [name for name in names if name.endswith("_kernel_time")]
        told = {"version": onnxruntime.__version__, "events": len(operators), "operators_a_run": len(set(operators))}
        print(json.dumps(told))


if __name__ == "__main__":
    main()
