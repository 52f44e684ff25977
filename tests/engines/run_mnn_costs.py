"""Runs a network on MNN whose operators have costs that are known by construction.

run_mnn_costs.py FOLDER RUNS

A product of one row by a matrix larger than the caches, which MNN computes as a convolution, convolutions with and
without groups, and operators element by element, with one thread. FOLDER/costs.json has operations and bytes of each
operator by its name, from the model's extents.
"""

import json
import os
import sys

import numpy as np
from onnx import TensorProto, helper
from onnx_weights import Weights
from run_mnn import converted

WIDE, CHANNELS, SIDE, KERNEL, FLOAT = 4096, 64, 112, 9, 4
ROWS, DEPTH, COLUMNS = 64, 32, 48
INPUTS = {"image": (1, CHANNELS, SIDE, SIDE), "vector": (1, WIDE, 1, 1), "rows": (ROWS, DEPTH), "columns": (DEPTH, COLUMNS)}
COSTS = {}


def make(folder):
    nodes, weight = [], Weights()

    def node(kind, name, inputs, op, flops, numbers, **attributes):
        """`name`: of its result, by which MNN names the operator."""
        COSTS[name] = {"op": op, "flops": flops, "bytes": FLOAT * numbers}
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    pixels = CHANNELS * SIDE * SIDE
    full = node("Conv", "full", ["image", weight("full_w", CHANNELS, CHANNELS, 3, 3)], "Convolution",
                2 * pixels * CHANNELS * KERNEL, 2 * pixels + CHANNELS * CHANNELS * KERNEL, pads=[1, 1, 1, 1])
    squashed = node("Sigmoid", "squashed", [full], "UnaryOp", pixels, 2 * pixels)
    deep = node("Conv", "deep", [squashed, weight("deep_w", CHANNELS, 1, 3, 3)], "ConvolutionDepthwise",
                2 * pixels * KERNEL, 2 * pixels + CHANNELS * KERNEL, pads=[1, 1, 1, 1], group=CHANNELS)
    pool = node("MaxPool", "pool", [deep], "Pooling", pixels, pixels + pixels // 4, kernel_shape=[2, 2], strides=[2, 2])
    # Twice as wide and high; windows of two by two do not overlap.
    wider = node("ConvTranspose", "wider", ["image", weight("wide_w", CHANNELS, 3, 2, 2)], "Deconvolution",
                 2 * pixels * 3 * 4, pixels + 3 * 4 * SIDE * SIDE + CHANNELS * 3 * 4, strides=[2, 2])
    # Of a matrix that is not a weight.
    product = node("MatMul", "product", ["rows", "columns"], "MatMul", 2 * ROWS * DEPTH * COLUMNS,
                   ROWS * DEPTH + DEPTH * COLUMNS + ROWS * COLUMNS)
    row = node("Conv", "row", ["vector", weight("row_w", WIDE, WIDE, 1, 1)], "Convolution",
               2 * WIDE * WIDE, 2 * WIDE + WIDE * WIDE)
    value = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "costs", [value(name, *shape) for name, shape in INPUTS.items()],
                              [value(pool, 1, CHANNELS, SIDE // 2, SIDE // 2), value(row, 1, WIDE, 1, 1),
                               value(wider, 1, 3, 2 * SIDE, 2 * SIDE), value(product, ROWS, COLUMNS)], weight.tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return converted(model, folder)


def main():
    folder, runs = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    made = make(folder)
    import MNN

    interpreter = MNN.Interpreter(made)
    session = interpreter.createSession({"numThread": 1})
    for name, shape in INPUTS.items():
        values = np.random.default_rng(2).random(shape, dtype=np.float32)
        host = MNN.Tensor(shape, MNN.Halide_Type_Float, values, MNN.Tensor_DimensionType_Caffe)
        interpreter.getSessionInput(session, name).copyFrom(host)
    for _ in range(runs):
        interpreter.runSession(session)
    with open(os.path.join(folder, "costs.json"), "w", encoding="utf-8") as out:
        json.dump({"version": MNN.version(), "costs": COSTS}, out)


if __name__ == "__main__":
    main()
