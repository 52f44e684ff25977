"""Runs operators of PyTorch whose costs are known by construction.

run_torch_costs.py FOLDER RUNS

A product of one row by a matrix larger than the caches, products of matrices that are all computed, a convolution,
attention, and operators element by element; each function of the library is called once a run, with one thread.
FOLDER/costs.json has operations and bytes of each operator by its type, from the extents.
"""

import json
import os
import sys
import time

import torch

WIDE, SQUARE, HEADS, ROWS, DEPTH, CHANNELS, SIDE = 4096, 1024, 3, 40, 72, 32, 28
FLOAT, KERNEL = 4, 9
COSTS = {}


def cost(op, flops, numbers):
    """`numbers`: elements of its inputs and its result together."""
    COSTS[op] = {"op": op, "flops": flops, "bytes": FLOAT * numbers}


def main() -> None:
    folder, runs = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    row, weights, bias = torch.rand(1, WIDE), torch.rand(WIDE, WIDE) / WIDE, torch.rand(WIDE)
    square = torch.rand(SQUARE, SQUARE)
    heads = torch.rand(1, HEADS, ROWS, DEPTH)
    image, kernel = torch.rand(1, CHANNELS, SIDE, SIDE), torch.rand(CHANNELS, CHANNELS, 3, 3)
    turned = heads[0].transpose(1, 2).contiguous()

    cost("addmm", 2 * WIDE * WIDE + WIDE, WIDE * WIDE + 3 * WIDE)
    cost("mm", 2 * SQUARE**3, 3 * SQUARE**2)
    across = HEADS * ROWS * ROWS
    cost("bmm", 2 * across * DEPTH, 2 * HEADS * DEPTH * ROWS + across)
    cost("_softmax", 5 * across, 2 * across)
    pixels = CHANNELS * SIDE * SIDE
    cost("mkldnn_convolution", 2 * pixels * CHANNELS * KERNEL, 2 * pixels + CHANNELS * CHANNELS * KERNEL)
    cost("_scaled_dot_product_flash_attention_for_cpu", 4 * across * DEPTH, 4 * HEADS * ROWS * DEPTH)
    cost("native_layer_norm", 5 * WIDE, 2 * WIDE)
    cost("mul_Tensor", SQUARE**2, 2 * SQUARE**2 + SQUARE)
    cost("gelu", pixels, 2 * pixels)
    cost("sum_dim_IntList", SQUARE**2, SQUARE**2 + SQUARE)
    cost("add__Tensor", pixels, 3 * pixels)
    # One calls another, also one that is given the result.
    cost("relu", SQUARE**2, 2 * SQUARE**2)
    cost("clamp_out", SQUARE**2, 2 * SQUARE**2)
    cost("stack", 0, 4 * WIDE)

    with torch.inference_mode():
        for _ in range(runs):
            torch.nn.functional.layer_norm(row, (WIDE,))
            torch.addmm(bias, row, weights)
            torch.mm(square, square)
            torch.softmax(torch.bmm(heads[0], turned), -1)
            full = torch.nn.functional.conv2d(image, kernel, padding=1)
            full += image
            torch.nn.functional.gelu(full)
            torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
            torch.mul(square, square[0]).sum(-1)
            torch.relu(square)
            torch.nn.functional.hardtanh(square)
            torch.stack([row, row])
            time.sleep(0.02)
    with open(os.path.join(folder, "costs.json"), "w", encoding="utf-8") as out:
        json.dump({"version": torch.__version__, "costs": COSTS}, out)


if __name__ == "__main__":
    main()
