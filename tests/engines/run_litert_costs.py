"""Runs a LiteRT model whose operators' costs follow from how it is made, on the interpreter's own kernels or, with
--delegate, on those of its default delegate (XNNPACK).

run_litert_costs.py [--delegate] FOLDER RUNS

A product of one row by a matrix larger than the caches, a product of square matrices, convolutions with and without
groups, and operators element by element. FOLDER/costs.json has operations and bytes of each node by the name of its
result, from the extents that the model is made of.
"""

import json
import os
import sys

import numpy as np
from run_litert import Network, litert, same_size, schema

WIDE, SQUARE, CHANNELS, SIDE = 4096, 1024, 32, 28
MATRICES, ROWS, DEPTH, COLUMNS = 8, 64, 32, 48
FLOAT, KERNEL = 4, 9
COSTS = {}


def node(network, kind, name, inputs, shape, flops, numbers, options=None):
    """`numbers`: elements of its inputs and its result together."""
    COSTS[name] = {"op": kind, "flops": flops, "bytes": FLOAT * numbers}
    return network.operator(kind, inputs, name, shape, options)


def make_model(path):
    network = Network()
    row_in, square_in = network.tensor("row_in", (1, WIDE)), network.tensor("square_in", (SQUARE, SQUARE))
    image_in = network.tensor("image_in", (1, SIDE, SIDE, CHANNELS))
    # A missing bias is -1.
    row = node(network, "FULLY_CONNECTED", "row", [row_in, network.weights("row_w", (WIDE, WIDE)), -1], (1, WIDE),
               2 * WIDE * WIDE, 2 * WIDE + WIDE * WIDE, schema.FullyConnectedOptionsT())
    square = node(network, "FULLY_CONNECTED", "square",
                  [square_in, network.weights("square_w", (SQUARE, SQUARE)), network.weights("square_b", (SQUARE,))],
                  (SQUARE, SQUARE), 2 * SQUARE**3, 3 * SQUARE**2 + SQUARE, schema.FullyConnectedOptionsT())
    # One matrix with each of several, as it is and transposed.
    wide_in, high_in, several_in = (network.tensor(name, shape) for name, shape in
                                    (("wide_in", (ROWS, DEPTH)), ("high_in", (DEPTH, ROWS)),
                                     ("several_in", (MATRICES, DEPTH, COLUMNS))))
    products = []
    for name, first in (("each", wide_in), ("turned", high_in)):
        options = schema.BatchMatMulOptionsT()
        options.adjX = first is high_in
        products.append(node(network, "BATCH_MATMUL", name, [first, several_in], (MATRICES, ROWS, COLUMNS),
                             2 * MATRICES * ROWS * DEPTH * COLUMNS,
                             ROWS * DEPTH + MATRICES * DEPTH * COLUMNS + MATRICES * ROWS * COLUMNS, options))
    image, shape = CHANNELS * SIDE * SIDE, (1, SIDE, SIDE, CHANNELS)
    options = same_size(schema.Conv2DOptionsT())
    options.dilationWFactor = options.dilationHFactor = 1
    weights = [network.weights("full_w", (CHANNELS, 3, 3, CHANNELS)), network.weights("full_b", (CHANNELS,))]
    full = node(network, "CONV_2D", "full", [image_in, *weights], shape, 2 * image * CHANNELS * KERNEL,
                2 * image + CHANNELS * CHANNELS * KERNEL + CHANNELS, options)
    between = node(network, "TANH", "between", [full], shape, image, 2 * image)
    options = same_size(schema.DepthwiseConv2DOptionsT())
    options.depthMultiplier = options.dilationWFactor = options.dilationHFactor = 1
    weights = [network.weights("deep_w", (1, 3, 3, CHANNELS)), network.weights("deep_b", (CHANNELS,))]
    deep = node(network, "DEPTHWISE_CONV_2D", "deep", [between, *weights], shape, 2 * image * KERNEL,
                2 * image + CHANNELS * KERNEL + CHANNELS, options)
    summed = node(network, "ADD", "summed", [deep, image_in], shape, image, 3 * image, schema.AddOptionsT())
    network.graph.inputs = [row_in, square_in, image_in, wide_in, high_in, several_in]
    network.graph.outputs = [row, square, summed, *products]
    network.write(path)


def main():
    folder, runs = sys.argv[-2], int(sys.argv[-1])
    path = os.path.join(folder, "costs.tflite")
    make_model(path)
    resolvers = litert.OpResolverType
    delegate = "--delegate" in sys.argv
    resolver = resolvers.AUTO if delegate else resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = litert.Interpreter(model_path=path, num_threads=1, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    for tensor in interpreter.get_input_details():
        interpreter.set_tensor(tensor["index"], np.full(tensor["shape"], 0.01, dtype=np.float32))
    for _ in range(runs):
        interpreter.invoke()
    with open(os.path.join(folder, "costs.json"), "w", encoding="utf-8") as file:
        json.dump({"costs": COSTS}, file)


if __name__ == "__main__":
    main()
