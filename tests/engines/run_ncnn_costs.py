"""Runs a net of ncnn whose layers have costs that are known by construction.

run_ncnn_costs.py FOLDER RUNS

A product of one row by a matrix larger than the caches, products of matrices, also with weights of one byte, convolutions
with and without groups, and layers element by element, with one thread. FOLDER/costs.json has operations and bytes of each layer by its name, from the net's extents.
"""

import json
import os
import struct
import sys

import ncnn
import numpy as np

WIDE, CHANNELS, SIDE, KERNEL = 4096, 64, 112, 9
LINES, LENGTH, COLUMNS = 48, 80, 24
FLOAT, HALF = 4, 2
COSTS = {}


def layer(kind, name, bottom, top, parameters, flops, numbers):
    """`bottom` and `top` may be several names."""
    COSTS[name] = {"op": kind, "flops": flops, "bytes": numbers}
    counts = f"{len(bottom.split())} {len(top.split())}"
    return f"{kind} {name} {counts} {bottom} {top} {parameters}".rstrip()


def make(path):
    pixels = CHANNELS * SIDE * SIDE
    full, deep, row = CHANNELS * CHANNELS * KERNEL, CHANNELS * KERNEL, WIDE * WIDE
    turned, line, columns = CHANNELS * 3 * 4, LINES * LINES * 3, COLUMNS * LENGTH
    both = 2 * pixels * FLOAT
    layers = [
        "Input image 0 1 image",
        "Input vector 0 1 vector",
        "Input table 0 1 table",
        "Input rows 0 1 rows",
        layer("Convolution", "full", "image", "full", f"0={CHANNELS} 1=3 4=1 5=0 6={full}",
              2 * full * SIDE * SIDE, both + full * FLOAT),
        layer("ReLU", "relu", "full", "relu", "", pixels, both),
        layer("ConvolutionDepthWise", "deep", "relu", "deep", f"0={CHANNELS} 1=3 4=1 5=0 6={deep} 7={CHANNELS}",
              2 * deep * SIDE * SIDE, both + deep * FLOAT),
        # What is read twice has to be split.
        layer("Split", "twice", "deep", "deep0 deep1 deep2 deep3 deep4", "", 0, 0),
        # Twice as wide and high; windows of two by two do not overlap.
        layer("Deconvolution", "wider", "deep0", "wider", f"0=3 1=2 2=1 3=2 4=0 5=0 6={turned}",
              2 * turned * SIDE * SIDE, (pixels + 3 * 4 * SIDE * SIDE + turned) * FLOAT),
        layer("Convolution1D", "line", "table", "line", f"0={LINES} 1=3 4=1 5=0 6={line}",
              2 * line * LENGTH, (2 * LINES * LENGTH + line) * FLOAT),
        layer("Gemm", "weighed", "line", "weighed", f"2=0 3=1 4=0 5=1 6=1 7=0 8={COLUMNS} 9={LENGTH} 10=-1",
              2 * LINES * COLUMNS * LENGTH, (LINES * LENGTH + COLUMNS * LENGTH + LINES * COLUMNS) * FLOAT),
        # With weights of one byte each.
        layer("Gemm", "small", "rows", "small", f"2=0 3=1 4=0 5=1 6=1 7=0 8={COLUMNS} 9={LENGTH} 10=-1 18=1",
              2 * LINES * COLUMNS * LENGTH, (LINES * LENGTH + LINES * COLUMNS) * FLOAT + COLUMNS * LENGTH),
        layer("BinaryOp", "sum", "deep1 deep2", "sum", "0=0", pixels, 3 * pixels * FLOAT),
        layer("BinaryOp", "more", "sum", "more", "0=0 1=1 2=2.0", pixels, both),
        layer("Concat", "joined", "deep3 more", "joined", "0=0", 0, 2 * both),
        layer("Slice", "parts", "joined", "part rest", f"-23300=2,{CHANNELS},-233 1=0", 0, 2 * both),
        layer("MatMul", "product", "part rest", "product", "", 2 * CHANNELS * SIDE**3, 3 * pixels * FLOAT),
        layer("Pooling", "pool", "deep4", "pool", "0=1 1=2 2=2", pixels, (pixels + pixels // 4) * FLOAT),
        # The engine's default is to have them as fp16.
        layer("InnerProduct", "row", "vector", "row", f"0={WIDE} 1=0 2={row}", 2 * row, 2 * WIDE * FLOAT + row * HALF),
        layer("Softmax", "soft", "row", "soft", "0=0", 5 * WIDE, 2 * WIDE * FLOAT),
    ]
    with open(path + ".param", "w", encoding="utf-8") as out:
        blobs = sum(int(line.split()[3]) for line in layers)
        out.write(f"7767517\n{len(layers)} {blobs}\n" + "\n".join(layers) + "\n")
    random = np.random.default_rng(1)
    with open(path + ".bin", "wb") as out:
        for numbers in (full, deep, turned, line, columns, None, row):
            if numbers is None:
                # Bytes have a mark of their own, and one scale follows.
                out.write(struct.pack("<I", 0x000D4B38))
                out.write(random.integers(-9, 9, columns, dtype=np.int8).tobytes() + struct.pack("<f", 16))
                continue
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
    table = ncnn.Mat(random.random((LINES, LENGTH), dtype=np.float32))
    vector = ncnn.Mat(random.random(WIDE, dtype=np.float32))
    for _ in range(runs):
        with net.create_extractor() as extractor:
            extractor.input("image", image)
            extractor.input("vector", vector)
            extractor.input("table", table)
            extractor.input("rows", table)
            extractor.extract("pool")
            extractor.extract("product")
            extractor.extract("wider")
            extractor.extract("weighed")
            extractor.extract("small")
            extractor.extract("soft")
    with open(os.path.join(folder, "costs.json"), "w", encoding="utf-8") as out:
        json.dump({"version": ncnn.__version__, "costs": COSTS}, out)


if __name__ == "__main__":
    main()
