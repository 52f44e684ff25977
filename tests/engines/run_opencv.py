"""Runs a small ONNX model of random weights with OpenCV's DNN module, and writes what the module prints of itself.

run_opencv.py FOLDER RUNS

FOLDER/profile.json gets the version, the layers that the module computes with their types, and its own times of the last
run in milliseconds, as far as the version has them.
"""

import json
import os
import sys

import numpy as np

CHANNELS, SIDE, BLOCKS = 16, 48, 3


def model() -> bytes:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(1)
    nodes, weights = [], []

    def weight(name, *shape):
        weights.append(numpy_helper.from_array(random.random(shape, dtype=np.float32) * 0.1 - 0.05, name))
        return name

    def node(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name + "_out"], name=name, **attributes))
        return name + "_out"

    x = node("Conv", ["x", weight("stem_w", CHANNELS, 3, 3, 3)], "stem", pads=[1, 1, 1, 1])
    for block in range(BLOCKS):
        p = f"block{block}_"
        y = node("Conv", [x, weight(p + "w", CHANNELS, CHANNELS, 3, 3)], p + "conv", pads=[1, 1, 1, 1])
        y = node("Sigmoid", [y], p + "sigmoid")
        y = node("Mul", [x, y], p + "gate")
        x = node("MaxPool", [y], p + "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    x = node("GlobalAveragePool", [x], "mean")
    x = node("Flatten", [x], "flat")
    x = node("Gemm", [x, weight("head_w", CHANNELS, 10)], "head")
    node("Softmax", [x], "scores", axis=1)
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes, "small", [value("x", [1, 3, SIDE, SIDE])], [value("scores_out", [1, 10])], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def main() -> None:
    import cv2

    folder, runs = sys.argv[1], int(sys.argv[2])
    cv2.setNumThreads(1)
    file = os.path.join(folder, "small.onnx")
    if not os.path.exists(file):
        with open(file, "wb") as out:
            out.write(model())
    net = cv2.dnn.readNetFromONNX(file)
    x = np.linspace(-1, 1, 3 * SIDE * SIDE, dtype=np.float32).reshape(1, 3, SIDE, SIDE)
    for _ in range(runs):
        net.setInput(x)
        net.forward()
    names = list(net.getLayerNames())
    kinds = [net.getLayer(net.getLayerId(name)).type for name in names]
    ticks, times = net.getPerfProfile()
    of_tick = 1000.0 / cv2.getTickFrequency()
    profile = {
        "version": cv2.__version__,
        "layers": [{"name": name, "type": kind} for name, kind in zip(names, kinds)],
        "ms": ticks * of_tick,
        "layer_ms": [float(time) * of_tick for time in np.array(times).flatten()],
    }
    with open(os.path.join(folder, "profile.json"), "w", encoding="utf-8") as out:
        json.dump(profile, out)


if __name__ == "__main__":
    main()
