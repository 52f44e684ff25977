"""Runs a small ONNX model of random weights, and has the engine's own profiler say what it ran.

run_onnxruntime.py FOLDER RUNS [profile|edges]

The model has products, sums, norms and activations in three blocks, with a Resize and an If of its own kernels at the
end: a few dozen nodes, most of them far longer than a probe. FOLDER/small.onnx is it, and made where it is not there.
With `profile` the engine writes FOLDER/profile.json. With `edges` it writes the model as it runs it, after its fusions,
and FOLDER/edges.json has which nodes and weights each node reads; one of them has two results.
"""

import json
import os
import sys

import numpy as np

ROWS, WIDTH, BLOCKS = 64, 256, 3


def model(several: bool = False) -> bytes:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(1)
    nodes, weights = [], []

    def weight(name, *shape):
        values = (random.random(shape, dtype=np.float32) * 2 - 1) * np.float32((3.0 / WIDTH) ** 0.5)
        weights.append(numpy_helper.from_array(values, name))
        return name

    def node(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name + ":out"], name=name, **attributes))
        return name + ":out"

    x = "x"
    for block in range(BLOCKS):
        p = f"block{block}/"
        normed = node("LayerNormalization", [x, weight(p + "scale", WIDTH), weight(p + "bias", WIDTH)], p + "norm")
        up = node("MatMul", [normed, weight(p + "up_w", WIDTH, 4 * WIDTH)], p + "up")
        act = node("Sigmoid", [up], p + "sigmoid")
        gated = node("Mul", [up, act], p + "gate")
        down = node("MatMul", [gated, weight(p + "down_w", 4 * WIDTH, WIDTH)], p + "down")
        soft = node("Softmax", [down], p + "softmax", axis=-1)
        turned = node("Transpose", [soft], p + "transpose", perm=[1, 0])
        scores = node("MatMul", [down, turned], p + "scores")
        mixed = node("MatMul", [scores, down], p + "mix")
        x = node("Add", [x, mixed], p + "a_residual_sum_whose_name_is_longer_than_what_a_short_string_holds")
    # A node of several results, each of which another one reads.
    if several:
        parts = ["split:a", "split:b"]
        nodes.append(helper.make_node("Split", [x], parts, name="split", axis=1))
        x = node("Concat", [node("Sin", parts[:1], "sin"), node("Cos", parts[1:], "cos")], "concat", axis=1)
    # Its kernel calls its base's on the same object.
    weights.append(numpy_helper.from_array(np.ones(2, dtype=np.float32), "scales"))
    x = node("Resize", [x, "", "scales"], "resize", mode="linear")
    value = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    shape = [ROWS, WIDTH]
    branch = lambda kind, name: helper.make_graph(
        [helper.make_node(kind, [x], [name + ":branch"], name=name)], name, [],
        [value(name + ":branch", TensorProto.FLOAT, shape)])
    nodes.append(helper.make_node("If", ["choice"], ["y"], name="choose",
                                  then_branch=branch("Exp", "chosen"), else_branch=branch("Neg", "not_chosen")))
    inputs = [value("x", TensorProto.FLOAT, shape), value("choice", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "small", inputs, [value("y", TensorProto.FLOAT, shape)], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def inputs() -> dict:
    return {"x": np.linspace(-1, 1, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH), "choice": np.array(True)}


def write_down(folder: str, version: str, profile: str) -> None:
    """What the engine wrote of its run, in short: each node's computation in microseconds since it began to look."""
    with open(profile, encoding="utf-8") as file:
        events = json.load(file)
    def shape(event: dict) -> list | None:
        """Of the first result: `[{"float": [64, 256]}]`."""
        results = event["args"].get("output_type_shape") or [{}]
        return next(iter(results[0].values()), None)

    kernels = [
        {"name": event["name"].removesuffix("_kernel_time"), "op": event["args"]["op_name"], "shape": shape(event),
         "start": event["ts"], "us": event["dur"]}
        for event in events if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")
    ]
    runs = [event["dur"] for event in events if event["name"] == "model_run"]
    with open(os.path.join(folder, "profile.json"), "w", encoding="utf-8") as file:
        json.dump({"version": version, "kernels": kernels, "runs": runs}, file)


def write_edges(folder: str, optimized: str) -> None:
    """Of each node of the model that the engine wrote: the nodes whose results it reads, and how many weights, and inputs."""
    import onnx

    edges = {}

    def walk(graph, makers):
        makers = makers | {tensor.name: "weight" for tensor in graph.initializer}
        for node in graph.node:
            makers |= {output: node.name for output in node.output if output}
        for node in graph.node:
            edges[node.name] = [makers.get(name, "input") for name in node.input if name]
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    walk(attribute.g, makers)

    walk(onnx.load(optimized).graph, {})
    with open(os.path.join(folder, "edges.json"), "w", encoding="utf-8") as file:
        json.dump(edges, file)


def main() -> None:
    import onnxruntime

    folder, runs = sys.argv[1], int(sys.argv[2])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling = sys.argv[3:] == ["profile"]
    if sys.argv[3:] == ["edges"]:
        options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
    options.profile_file_prefix = os.path.join(folder, "ort")
    path = os.path.join(folder, "small.onnx")
    if not os.path.exists(path):
        with open(path, "wb") as file:
            file.write(model(sys.argv[3:] == ["edges"]))
    with open(path, "rb") as file:
        made = file.read()
    session = onnxruntime.InferenceSession(made, options, providers=["CPUExecutionProvider"])
    feed = inputs()
    for _ in range(runs):
        session.run(None, feed)
    if options.enable_profiling:
        write_down(folder, onnxruntime.__version__, session.end_profiling())
    if sys.argv[3:] == ["edges"]:
        write_edges(folder, options.optimized_model_filepath)


if __name__ == "__main__":
    main()
