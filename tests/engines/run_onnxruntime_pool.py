"""Runs products that are large enough for two threads, and prints what the kernel counted of the pool's thread.

run_onnxruntime_pool.py FOLDER RUNS

Prints `{"tid": TID, "cpu_ns": NS, "delay_ns": NS}`: time on a CPU, and in the run queue, of the thread that the session
made, over all runs but the first. The thread sleeps while it has nothing to compute.
"""

import json
import os
import sys

import numpy as np

WIDTH, PRODUCTS = 512, 4


def model() -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(1)
    nodes, weights, x = [], [], "x"
    for number in range(PRODUCTS):
        values = (random.random((WIDTH, WIDTH), dtype=np.float32) - 0.5) / 8
        weights.append(numpy_helper.from_array(values, f"w{number}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{number}"], [f"m{number}"], name=f"product{number}"))
        nodes.append(helper.make_node("Sigmoid", [f"m{number}"], [f"s{number}"], name=f"sigmoid{number}"))
        x = f"s{number}"
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [WIDTH, WIDTH])
    graph = helper.make_graph(nodes, "pool", [value("x")], [value(x)], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return made.SerializeToString()


def threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def counted(tid: str) -> tuple[int, int]:
    with open(f"/proc/self/task/{tid}/schedstat", encoding="utf-8") as file:
        cpu, delay = file.read().split()[:2]
    return int(cpu), int(delay)


def main() -> None:
    import onnxruntime

    made = model()
    before = threads()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 2, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    [tid] = threads() - before
    feed = {"x": np.linspace(-1, 1, WIDTH * WIDTH, dtype=np.float32).reshape(WIDTH, WIDTH)}
    session.run(None, feed)
    start = counted(tid)
    for _ in range(int(sys.argv[2]) - 1):
        session.run(None, feed)
    end = counted(tid)
    print(json.dumps({"tid": int(tid), "cpu_ns": end[0] - start[0], "delay_ns": end[1] - start[1]}))


if __name__ == "__main__":
    main()
