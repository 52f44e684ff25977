"""Runs an OpenVINO model whose operators have costs that are known by construction, in f32 on the CPU.

run_openvino_costs.py FOLDER RUNS

A product of one row by a matrix larger than the caches, products of square matrices and of a transposed one,
convolutions with and without groups, pools, sums, moves, and nodes element by element. FOLDER/costs.json has operations and bytes of each node by its name, from the
extents that the model is made of.
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

WIDE, SQUARE, HEADS, ROWS, DEPTH, CHANNELS, SIDE = 4096, 1024, 3, 40, 72, 32, 28
FLOAT, KERNEL = 4, 9
COSTS = {}


def known(kind, name, flops, numbers):
    """`numbers`: elements of its inputs and its result together."""
    COSTS[name] = {"op": kind, "flops": flops, "bytes": FLOAT * numbers}
    return {"name": name}


def model() -> ov.Model:
    random = np.random.default_rng(1)

    def weight(*shape):
        return ops.constant((random.random(shape, dtype=np.float32) - np.float32(0.5)) / np.float32(64))

    def parameter(name, *shape):
        return ops.parameter(list(shape), np.float32, name=name)

    row_in, square_in = parameter("row_in", 1, WIDE), parameter("square_in", SQUARE, SQUARE)
    row = ops.matmul(row_in, weight(WIDE, WIDE), False, True,
                     **known("FullyConnected", "row", 2 * WIDE * WIDE, 2 * WIDE + WIDE * WIDE))
    square = ops.matmul(square_in, square_in, False, False, **known("MatMul", "square", 2 * SQUARE**3, 3 * SQUARE**2))
    heads_in = parameter("heads_in", HEADS, DEPTH, ROWS)
    across = HEADS * ROWS * ROWS
    scores = ops.matmul(heads_in, heads_in, True, False,
                        **known("MatMul", "scores", 2 * across * DEPTH, 2 * HEADS * DEPTH * ROWS + across))
    image_in, image = parameter("image_in", 1, CHANNELS, SIDE, SIDE), CHANNELS * SIDE * SIDE
    same = [[1, 1], [1, 1], [1, 1], [1, 1]]
    full = ops.convolution(image_in, weight(CHANNELS, CHANNELS, 3, 3), *same,
                           **known("Convolution", "full", 2 * image * CHANNELS * KERNEL,
                                   2 * image + CHANNELS * CHANNELS * KERNEL))
    deep = ops.group_convolution(full, weight(CHANNELS, 1, 1, 3, 3), *same,
                                 **known("GroupConvolution", "deep", 2 * image * KERNEL, 2 * image + CHANNELS * KERNEL))
    # Nodes with numbers as a further input, such as axes, which do not count.
    numbers = lambda *values: ops.constant(np.array(values, dtype=np.int64))
    quarter = image // 4
    pool = ops.max_pool(image_in, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2],
                        **known("MaxPool", "pool", image, image + quarter))
    mean = ops.avg_pool(image_in, [2, 2], [0, 0], [0, 0], [2, 2], True,
                        **known("AvgPool", "mean", image, image + quarter))
    whole = ops.reduce_mean(image_in, numbers(2, 3), True, **known("ReduceMean", "whole", image, image + CHANNELS))
    turned = ops.transpose(image_in, numbers(0, 2, 3, 1), **known("Transpose", "turned", 0, 2 * image))
    twice = ops.tile(image_in, numbers(1, 2, 1, 1), **known("Tile", "twice", 0, 3 * image))
    edge = CHANNELS * (SIDE + 2) ** 2
    edged = ops.pad(image_in, numbers(0, 0, 1, 1), numbers(0, 0, 1, 1), "constant",
                    **known("Pad", "edged", 0, image + edge))
    part = ops.strided_slice(image_in, numbers(0, 0, 0, 0), numbers(1, CHANNELS // 2, SIDE, SIDE), numbers(1, 1, 1, 1),
                             [0] * 4, [0] * 4, **known("StridedSlice", "part", 0, image))
    even = ops.mvn(image_in, numbers(2, 3), True, 1e-5, "inside_sqrt", **known("MVN", "even", 5 * image, 2 * image))
    summed = ops.add(image_in, image_in, **known("Subgraph", "summed", image, 3 * image))
    results = [row, square, scores, deep, pool, mean, whole, turned, twice, edged, part, even, summed]
    return ov.Model([result.output(0) for result in results], [row_in, square_in, heads_in, image_in], "costs")


def main() -> None:
    folder, runs = sys.argv[1], int(sys.argv[2])
    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = ov.Core().compile_model(model(), "CPU", settings).create_infer_request()
    shapes = [[1, WIDE], [SQUARE, SQUARE], [HEADS, DEPTH, ROWS], [1, CHANNELS, SIDE, SIDE]]
    feed = {index: np.full(shape, 0.01, dtype=np.float32) for index, shape in enumerate(shapes)}
    for _ in range(runs):
        request.infer(feed)
    with open(os.path.join(folder, "costs.json"), "w", encoding="utf-8") as file:
        json.dump({"version": ov.__version__, "costs": COSTS}, file)


if __name__ == "__main__":
    main()
