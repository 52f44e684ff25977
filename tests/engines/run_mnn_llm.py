#!/usr/bin/env python3
"""Runs a language model of random weights by MNN-LLM, and says what MNN-LLM says of it.

usage: run_mnn_llm.py FOLDER [--make] [--prompt N] [--tokens N]

  --make  writes the model into FOLDER first. MNN's exporter makes such models of published ones; here ONNX by the `onnx`
          package goes through MNN's own converter, with an operator in the attention's place that no one knows, and what
          the converter makes of that becomes MNN's attention, as the exporter does it
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

HIDDEN, HEADS, LAYERS, WORDS = 64, 4, 2, 96


def graph():
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(7)
    nodes, constants = [], []

    def constant(name, array):
        constants.append(numpy_helper.from_array(array, name))
        return name

    def weight(name, *shape):
        return constant(name, (random.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32))

    def node(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name + ":out"], name, **attributes))
        return name + ":out"

    heads = constant("heads", np.array([1, -1, HEADS, HIDDEN // HEADS], np.int64))
    flat = constant("flat", np.array([-1, 1, HIDDEN], np.int64))
    # Positions take part, as they must; there is no need for them to mean much.
    column = constant("column", np.array([-1, 1, 1], np.int64))
    positions = node("Cast", ["position_ids"], "positions", to=TensorProto.FLOAT)
    positions = node("Mul", [node("Reshape", [positions, column], "position_column"), weight("turn", 1)], "position")
    x = node("Add", ["input_ids", positions], "placed")
    for layer in range(LAYERS):
        p = f"layers.{layer}."
        normed = node("LayerNormalization", [x, weight(p + "scale", HIDDEN), weight(p + "bias", HIDDEN)], p + "norm")
        q, k, v = (
            node("Reshape", [node("MatMul", [normed, weight(p + n + "_w", HIDDEN, HIDDEN)], p + n), heads], p + n + "_heads")
            for n in ("query", "key", "value"))
        mixed = node("Attention", [q, k, v, "attention_mask"], p + "attention", domain="later")
        mixed = node("Reshape", [mixed, flat], p + "attention_flat")
        x = node("Add", [x, node("MatMul", [mixed, weight(p + "out_w", HIDDEN, HIDDEN)], p + "out")], p + "first_sum")
        up = node("Relu", [node("MatMul", [x, weight(p + "up_w", HIDDEN, 2 * HIDDEN)], p + "up")], p + "relu")
        x = node("Add", [x, node("MatMul", [up, weight(p + "down_w", 2 * HIDDEN, HIDDEN)], p + "down")], p + "sum")
    end, axis = constant("end", np.array([2**31 - 1], np.int64)), constant("axis", np.array([0], np.int64))
    start = node("Cast", ["logits_index"], "first_of_interest", to=TensorProto.INT64)
    x = node("Slice", [x, start, end, axis], "of_interest")
    nodes.append(helper.make_node("MatMul", [x, weight("words_w", HIDDEN, WORDS)], ["logits"], "words"))
    value = helper.make_tensor_value_info
    inputs = [value("input_ids", TensorProto.FLOAT, ["n", 1, HIDDEN]),
              value("attention_mask", TensorProto.FLOAT, [1, 1, "n", "n"]),
              value("position_ids", TensorProto.INT32, ["n"]), value("logits_index", TensorProto.INT32, [1])]
    made = helper.make_graph(nodes, "llm", inputs, [value("logits", TensorProto.FLOAT, ["m", 1, WORDS])], constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("later", 1)]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def convert(folder, *options):
    # The converter itself: `MNN.tools` around it installs a package and reports to its makers.
    converter = "import sys, _tools; _tools.mnnconvert(sys.argv)"
    subprocess.run([sys.executable, "-c", converter, *options], check=True, stdout=subprocess.DEVNULL, cwd=folder)


def make(folder):
    import onnx

    with tempfile.TemporaryDirectory() as work:
        onnx.save(graph(), os.path.join(work, "llm.onnx"))
        convert(work, "-f", "ONNX", "--modelFile", "llm.onnx", "--MNNModel", "first.mnn", "--bizCode", "test",
                "--allowCustomOp", "--keepInputFormat")
        convert(work, "-f", "MNN", "--modelFile", "first.mnn", "--JsonFile", "llm.json")
        with open(os.path.join(work, "llm.json"), encoding="utf-8") as file:
            model = json.load(file)
        attentions = [op for op in model["oplists"] if op["type"] == "Extra"]
        assert len(attentions) == LAYERS, [op["type"] for op in model["oplists"]]
        for op in attentions:
            op.update(type="Attention", main_type="AttentionParam", main={"kv_cache": True})
        with open(os.path.join(work, "llm.json"), "w", encoding="utf-8") as file:
            json.dump(model, file)
        convert(work, "-f", "JSON", "--modelFile", "llm.json", "--MNNModel", os.path.join(folder, "llm.mnn"))
    open(os.path.join(folder, "llm.mnn.weight"), "wb").close()
    words = np.random.default_rng(8).standard_normal((WORDS, HIDDEN)).astype(np.float32)
    # The upper halves of floating-point numbers.
    (words.view(np.uint32) >> 16).astype(np.uint16).tofile(os.path.join(folder, "embeddings_bf16.bin"))
    # 430 is the file's mark, 1 its kind: a word a line. There is no special word.
    lines = ["430 1", "0 0 0", "", str(WORDS)]
    lines += [base64.b64encode(chr(32 + word % 95).encode() * (1 + word // 95)).decode() for word in range(WORDS)]
    with open(os.path.join(folder, "tokenizer.txt"), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    config = {"llm_model": "llm.mnn", "llm_weight": "llm.mnn.weight", "backend_type": "cpu", "thread_num": 1,
              "precision": "high", "memory": "high", "sampler_type": "greedy", "max_new_tokens": 8, "use_mmap": False}
    shape = {"hidden_size": HIDDEN, "layer_nums": LAYERS, "attention_mask": "float", "attention_type": "full",
             "key_value_shape": [2, 1, 0, HEADS, HIDDEN // HEADS], "is_visual": False}
    for name, of in (("config.json", config), ("llm_config.json", shape)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(of, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--prompt", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.folder)
    import MNN.llm

    model = MNN.llm.create(os.path.join(arguments.folder, "config.json"))
    model.set_config({"max_new_tokens": arguments.tokens})
    model.load()
    # Each letter is a word.
    model.response("abcdefghijklmnopqrstuvwxyz"[: arguments.prompt], False)
    said = model.context
    print(json.dumps({"prompt": said.prompt_len, "generated": len(said.output_tokens)}))


if __name__ == "__main__":
    main()
