"""Runs an ONNX model whose operators have costs that are known by construction.

run_onnxruntime_costs.py FOLDER RUNS

A product of one row by a matrix larger than the caches, whose weights the engine packs; products of matrices that are
all computed, also of one with several and with a vector, a sum with a matrix, convolutions with and without groups,
products of bytes and of half bytes, recurrent operators, and operators element by element.
FOLDER/costs.json has operations and bytes of each node by its name, from the extents that the model is made of.
"""

import json
import os
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx_weights import Weights

WIDE, SQUARE, HEADS, ROWS, DEPTH, CHANNELS, SIDE, TIMES, HIDDEN = 4096, 1024, 3, 40, 72, 32, 28, 20, 48
MATRICES, HIGH, DEEP, BROAD = 8, 64, 32, 48
FLOAT, KERNEL = 4, 9
COSTS = {}


def model():
    nodes, weight = [], Weights()

    def node(kind, name, inputs, flops, numbers, outputs=(), **attributes):
        """`numbers`: elements of its inputs and its result together; `outputs`: results beside the first."""
        COSTS[name] = {"op": kind, "flops": flops, "bytes": FLOAT * numbers}
        nodes.append(helper.make_node(kind, inputs, [name + ":out", *outputs], name=name, **attributes))
        return name + ":out"

    row = node("MatMul", "row", ["row_in", weight("row_w", WIDE, WIDE)], 2 * WIDE * WIDE, 2 * WIDE + WIDE * WIDE)
    square = node("MatMul", "square", ["square_in", "square_in"], 2 * SQUARE**3, 3 * SQUARE**2)
    summed = node("Gemm", "summed", ["square_in", weight("sum_w", SQUARE, SQUARE), weight("sum_b", SQUARE)],
                  2 * SQUARE**3 + SQUARE**2, 3 * SQUARE**2 + SQUARE)
    across = HEADS * ROWS * ROWS
    scores = node("MatMul", "scores", ["heads_in", "turned_in"], 2 * across * DEPTH, 2 * HEADS * DEPTH * ROWS + across)
    # One matrix with each of several, and with a vector.
    each = node("MatMul", "each", ["one_in", "several_in"], 2 * MATRICES * HIGH * DEEP * BROAD,
                HIGH * DEEP + MATRICES * DEEP * BROAD + MATRICES * HIGH * BROAD)
    vector = node("MatMul", "vector", ["one_in", "vector_in"], 2 * HIGH * DEEP, HIGH * DEEP + DEEP + HIGH)
    # What optimisations make of others.
    joined = node("FusedGemm", "joined", ["one_in", weight("join_w", DEEP, BROAD), weight("join_b", BROAD)],
                  2 * HIGH * DEEP * BROAD + HIGH * BROAD, HIGH * DEEP + DEEP * BROAD + BROAD + HIGH * BROAD,
                  domain="com.microsoft", activation="Relu")
    ordered = node("ReorderInput", "ordered", ["image_in"], 0, 2 * CHANNELS * SIDE * SIDE,
                   domain="com.microsoft.nchwc")
    back = node("ReorderOutput", "back", [ordered], 0, 2 * CHANNELS * SIDE * SIDE, domain="com.microsoft.nchwc",
                channels=CHANNELS)
    # Of half a byte each.
    halves = weight.constant("bits_w", np.full((HIDDEN, WIDE // 32, 16), 0x37, dtype=np.uint8))
    few_bits = node("MatMulNBits", "bits", ["row_in", halves, weight("bits_s", HIDDEN * WIDE // 32)],
                    2 * WIDE * HIDDEN, 0, domain="com.microsoft", K=WIDE, N=HIDDEN, bits=4, block_size=32)
    COSTS["bits"]["bytes"] = WIDE * HIDDEN // 2 + FLOAT * (WIDE + HIDDEN + WIDE * HIDDEN // 32)
    local = node("LRN", "local", ["image_in"], 5 * CHANNELS * SIDE * SIDE, 2 * CHANNELS * SIDE * SIDE, size=5)
    soft = node("Softmax", "soft", [scores], 5 * across, 2 * across, axis=-1)
    image = CHANNELS * SIDE * SIDE
    full = node("Conv", "full", ["image_in", weight("full_w", CHANNELS, CHANNELS, 3, 3)],
                2 * image * CHANNELS * KERNEL, 2 * image + CHANNELS * CHANNELS * KERNEL, pads=[1, 1, 1, 1])
    between = node("Tanh", "between", [full], image, 2 * image)
    deep = node("Conv", "deep", [between, weight("deep_w", CHANNELS, 1, 3, 3)], 2 * image * KERNEL,
                2 * image + CHANNELS * KERNEL, pads=[1, 1, 1, 1], group=CHANNELS)
    # Numbers of one byte, and of four.
    few, many = SQUARE * SQUARE, FLOAT * SQUARE * SQUARE
    quantised = node("DynamicQuantizeLinear", "quantised", ["square_in"], 3 * few, 0, outputs=["scale", "zero"])
    COSTS["quantised"]["bytes"] = many + few
    whole = node("MatMulInteger", "whole", [quantised, weight("whole_w", SQUARE, SQUARE, kind=np.int8), "zero"],
                 2 * SQUARE**3, 0)
    COSTS["whole"]["bytes"] = few + few + 1 + many
    constants = [weight.constant(name, number) for name, number in
                 (("a_scale", np.float32(0.1)), ("a_zero", np.uint8(0)), ("b_scale", np.float32(0.1)),
                  ("b_zero", np.int8(0)), ("y_scale", np.float32(1)), ("y_zero", np.uint8(0)))]
    linear = node("QLinearMatMul", "linear",
                  [quantised, *constants[:2], weight("linear_w", SQUARE, SQUARE, kind=np.int8), *constants[2:]],
                  2 * SQUARE**3, 0)
    COSTS["linear"]["bytes"] = 3 * few
    recurrent = []
    for kind, gates in (("LSTM", 4), ("GRU", 3)):
        weights = [weight(kind + "_w", 1, gates * HIDDEN, SIDE), weight(kind + "_r", 1, gates * HIDDEN, HIDDEN)]
        numbers = gates * HIDDEN * (SIDE + HIDDEN)
        recurrent.append(node(kind, kind.lower(), ["times_in", *weights], 2 * numbers * TIMES,
                              TIMES * (SIDE + HIDDEN) + numbers, hidden_size=HIDDEN))
    split = node("Split", "split", ["square_in"], 0, 2 * SQUARE**2, outputs=["split:1"], axis=0)
    log = node("LogSoftmax", "log", ["square_in"], 5 * SQUARE**2, 2 * SQUARE**2)
    value = lambda name, *shape, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, shape)
    inputs = [value("row_in", 1, WIDE), value("square_in", SQUARE, SQUARE), value("heads_in", HEADS, ROWS, DEPTH),
              value("turned_in", HEADS, DEPTH, ROWS), value("image_in", 1, CHANNELS, SIDE, SIDE),
              value("times_in", TIMES, 1, SIDE), value("one_in", HIGH, DEEP),
              value("several_in", MATRICES, DEEP, BROAD), value("vector_in", DEEP)]
    outputs = [value(row, 1, WIDE), value(square, SQUARE, SQUARE), value(summed, SQUARE, SQUARE),
               value(soft, HEADS, ROWS, ROWS), value(deep, 1, CHANNELS, SIDE, SIDE),
               value(whole, SQUARE, SQUARE, kind=TensorProto.INT32),
               value(linear, SQUARE, SQUARE, kind=TensorProto.UINT8),
               *(value(result, TIMES, 1, 1, HIDDEN) for result in recurrent),
               value(split, SQUARE // 2, SQUARE), value(log, SQUARE, SQUARE),
               value(each, MATRICES, HIGH, BROAD), value(vector, HIGH), value(joined, HIGH, BROAD), value(back, 1, CHANNELS, SIDE, SIDE),
               value(few_bits, 1, HIDDEN), value(local, 1, CHANNELS, SIDE, SIDE)]
    graph = helper.make_graph(nodes, "costs", inputs, outputs, weight.tensors)
    opsets = [helper.make_opsetid(*of) for of in (("", 17), ("com.microsoft", 1), ("com.microsoft.nchwc", 1))]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.checker.check_model(made)
    shape = lambda info: [extent.dim_value for extent in info.type.tensor_type.shape.dim]
    return made.SerializeToString(), {info.name: shape(info) for info in inputs}


def main():
    folder, runs = sys.argv[1], int(sys.argv[2])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # Further ones replace convolutions by those of other layouts.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    made, shapes = model()
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    feed = {name: np.full(shape, 0.01, dtype=np.float32) for name, shape in shapes.items()}
    for _ in range(runs):
        session.run(None, feed)
    with open(os.path.join(folder, "costs.json"), "w", encoding="utf-8") as file:
        json.dump({"version": onnxruntime.__version__, "costs": COSTS}, file)


if __name__ == "__main__":
    main()
