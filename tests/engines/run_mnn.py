#!/usr/bin/env python3
"""Runs a small network of random weights on MNN, as its users do, and says what MNN itself says of it.

usage: run_mnn.py MODEL.mnn [--runs N] [--operators FILE] [--make]

  --make            writes the model first, where it is not there: ONNX by the `onnx` package, then MNN's own converter
  --operators FILE  runs once more with MNN's per-operator callback and writes what it says: name, type, shapes a line
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile

import numpy as np


def converted(model, folder):
    """The path of an ONNX model in MNN's format, in the same folder."""
    import onnx

    source, made = os.path.join(folder, "model.onnx"), os.path.join(folder, "model.mnn")
    onnx.save(model, source)
    # The converter itself: `MNN.tools` around it installs a package and reports to its makers.
    converter = "import sys, _tools; _tools.mnnconvert(sys.argv)"
    command = [sys.executable, "-c", converter, "-f", "ONNX", "--modelFile", source, "--MNNModel", made,
               "--bizCode", "test", "--keepInputFormat"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder)
    return made


def make_model(path):
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(7)
    weights = []

    def weight(name, *shape):
        values = (random.standard_normal(shape) * 0.1).astype(np.float32)
        weights.append(numpy_helper.from_array(values, name))
        return name

    nodes = [
        helper.make_node("Conv", ["image", weight("w1", 16, 3, 3, 3), weight("b1", 16)], ["c1"], "first_conv",
                         kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["c1"], ["s1"], "squash"),
        helper.make_node("MaxPool", ["s1"], ["p1"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p1", weight("w2", 16, 1, 3, 3), weight("b2", 16)], ["c2"], "depthwise_conv",
                         kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=16),
        helper.make_node("Conv", ["c2", weight("w3", 32, 16, 1, 1), weight("b3", 32)], ["c3"], "point_conv",
                         kernel_shape=[1, 1]),
        helper.make_node("Softmax", ["c3"], ["m3"], "soften", axis=1),
        helper.make_node("Mul", ["c3", "m3"], ["g3"], "gate"),
        helper.make_node("GlobalAveragePool", ["g3"], ["a4"], "average"),
        helper.make_node("Flatten", ["a4"], ["f4"], "flatten"),
        helper.make_node("Gemm", ["f4", weight("w5", 32, 10), weight("b5", 10)], ["scores"], "classify"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    with tempfile.TemporaryDirectory() as folder:
        made = converted(model, folder)
        os.replace(made, path) if os.stat(folder).st_dev == os.stat(os.path.dirname(path)).st_dev else _copy(made, path)


def _copy(source, target):
    import shutil

    shutil.copyfile(source, target + ".part")
    os.replace(target + ".part", target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--operators")
    parser.add_argument("--make", action="store_true")
    arguments = parser.parse_args()
    path = os.path.abspath(arguments.model)
    if arguments.make and not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        make_model(path)

    import MNN

    interpreter = MNN.Interpreter(path)
    session = interpreter.createSession({"numThread": arguments.threads, "backend": "CPU"})
    image = interpreter.getSessionInput(session)
    values = np.random.default_rng(1).standard_normal((1, 3, 32, 32)).astype(np.float32)
    host = MNN.Tensor((1, 3, 32, 32), MNN.Halide_Type_Float, values, MNN.Tensor_DimensionType_Caffe)
    image.copyFrom(host)
    for _ in range(arguments.runs):
        interpreter.runSession(session)
    if arguments.operators:
        said = []

        def before(tensors, operator):
            return True

        def after(tensors, operator):
            shapes = [list(tensor.getShape()) for tensor in tensors]
            said.append({"name": operator.getName(), "type": operator.getType(), "shapes": shapes})
            return True

        interpreter.runSessionWithCallBackInfo(session, before, after)
        with open(arguments.operators, "w", encoding="utf-8") as file:
            for operator in said:
                file.write(json.dumps(operator) + "\n")
    with contextlib.suppress(BrokenPipeError):
        print("ran", arguments.runs)


if __name__ == "__main__":
    main()
