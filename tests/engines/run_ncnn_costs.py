"""Runs a net of ncnn whose layers have costs that are known by construction.

run_ncnn_costs.py FOLDER RUNS

A product of one row by a matrix larger than the caches, convolutions with and without groups, and layers element by
element, with one thread. FOLDER/costs.json has operations and bytes of each layer by its name, from the net's extents.
"""

import json
import os
import struct
import sys

import ncnn
import numpy as np

WIDE, CHANNELS, SIDE, KERNEL = 4096, 64, 112, 9
FLOAT, HALF = 4, 2
COSTS = {}


def layer(kind, name, bottom, top, parameters, flops, numbers):
    COSTS[name] = {"op": kind, "flops": flops, "bytes": numbers}
    return f"{kind} {name} 1 1 {bottom} {top} {parameters}".rstrip()


def make(path):
    pixels = CHANNELS * SIDE * SIDE
    full, deep, row = CHANNELS * CHANNELS * KERNEL, CHANNELS * KERNEL, WIDE * WIDE
    both = 2 * pixels * FLOAT
    layers = [
        "Input image 0 1 image",
        "Input vector 0 1 vector",
        layer("Convolution", "full", "image", "full", f"0={CHANNELS} 1=3 4=1 5=0 6={full}",
              2 * full * SIDE * SIDE, both + full * FLOAT),
        layer("ReLU", "relu", "full", "relu", "", pixels, both),
        layer("ConvolutionDepthWise", "deep", "relu", "deep", f"0={CHANNELS} 1=3 4=1 5=0 6={deep} 7={CHANNELS}",
              2 * deep * SIDE * SIDE, both + deep * FLOAT),
        layer("Pooling", "pool", "deep", "pool", "0=1 1=2 2=2", pixels, (pixels + pixels // 4) * FLOAT),
        # The engine's default is to have them as fp16.
        layer("InnerProduct", "row", "vector", "row", f"0={WIDE} 1=0 2={row}", 2 * row, 2 * WIDE * FLOAT + row * HALF),
        layer("Softmax", "soft", "row", "soft", "0=0", 5 * WIDE, 2 * WIDE * FLOAT),
    ]
    with open(path + ".param", "w", encoding="utf-8") as out:
        out.write(f"7767517\n{len(layers)} {len(layers)}\n" + "\n".join(layers) + "\n")
    random = np.random.default_rng(1)
    with open(path + ".bin", "wb") as out:
        for numbers in (full, deep, row):
            out.write(struct.pack("<I", 0))
            out.write(((random.random(numbers, dtype=np.float32) - np.float32(0.5)) / np.float32(64)).tobytes())


def main():
    folder, runs = sys.argv[1], int(sys.argv[2])
    path = os.path.join(folder, "net")
    make(path)
    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    # Layers are then those of the net, and a convolution has no smaller products in its place.
    net.opt.use_packing_layout = False
    net.opt.use_winograd_convolution = False
    net.load_param(path + ".param")
    net.load_model(path + ".bin")
    random = np.random.default_rng(2)
    image = ncnn.Mat(random.random((CHANNELS, SIDE, SIDE), dtype=np.float32))
    vector = ncnn.Mat(random.random(WIDE, dtype=np.float32))
    for _ in range(runs):
        with net.create_extractor() as extractor:
            extractor.input("image", image)
            extractor.input("vector", vector)
            extractor.extract("pool")
            extractor.extract("soft")
    with open(os.path.join(folder, "costs.json"), "w", encoding="utf-8") as out:
        json.dump({"version": ncnn.__version__, "costs": COSTS}, out)


if __name__ == "__main__":
    main()
