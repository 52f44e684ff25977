"""Has onnxruntime-genai generate with a small decoder of random weights, and the engine's own profiler say what it ran.

run_onnxruntime_genai.py FOLDER TOKENS profile

A prompt of eight tokens, then TOKENS - 1 steps of one. The engine writes FOLDER/profile.json.
"""

import glob
import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from run_onnxruntime import write_down

WORDS, WIDTH, HEADS, SIZE = 64, 32, 2, 16


def model() -> bytes:
    random = np.random.default_rng(1)
    nodes, weights = [], []

    def constant(name, values):
        weights.append(numpy_helper.from_array(values, name))
        return name

    def weight(name, *shape):
        return constant(name, (random.random(shape, dtype=np.float32) * 2 - 1) * np.float32((3.0 / WIDTH) ** 0.5))

    def node(kind, inputs, name, output=None, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output or name + ":out"], name=name, **attributes))
        return output or name + ":out"

    # [batch, words, heads, size] to [batch, heads, words, size]
    split = constant("split", np.array([0, 0, HEADS, SIZE], dtype=np.int64))
    join = constant("join", np.array([0, 0, WIDTH], dtype=np.int64))

    def heads(x, name):
        product = node("MatMul", [x, weight(name + "_w", WIDTH, WIDTH)], name)
        apart = node("Reshape", [product, split], name + "_split")
        return node("Transpose", [apart], name + "_turn", perm=[0, 2, 1, 3])

    x = node("Gather", [weight("embedding", WORDS, WIDTH), "input_ids"], "embed")
    query, key, value = (heads(x, name) for name in ("query", "key", "value"))
    key = node("Concat", ["past_key_values.0.key", key], "keys", "present.0.key", axis=2)
    value = node("Concat", ["past_key_values.0.value", value], "values", "present.0.value", axis=2)
    scores = node("MatMul", [query, node("Transpose", [key], "turn_keys", perm=[0, 1, 3, 2])], "scores")
    # What is masked: the mask is all ones.
    mask = node("ReduceSum", [node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)], "mask_sum", keepdims=0)
    scores = node("Add", [scores, mask], "masked")
    mixed = node("MatMul", [node("Softmax", [scores], "softmax", axis=-1), value], "mix")
    mixed = node("Reshape", [node("Transpose", [mixed], "turn", perm=[0, 2, 1, 3]), join], "join_heads")
    x = node("Add", [x, node("MatMul", [mixed, weight("out_w", WIDTH, WIDTH)], "out")], "residual")
    node("MatMul", [x, weight("head_w", WIDTH, WORDS)], "head", "logits")

    info = helper.make_tensor_value_info

    def past(name, words):
        shape = ["batch", HEADS, words, SIZE]
        return [info(f"{name}.0.{of}", TensorProto.FLOAT, shape) for of in ("key", "value")]

    inputs = [info("input_ids", TensorProto.INT64, ["batch", "words"]),
              info("attention_mask", TensorProto.INT64, ["batch", "all"]), *past("past_key_values", "past")]
    outputs = [info("logits", TensorProto.FLOAT, ["batch", "words", WORDS]), *past("present", "all")]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def config(prefix: str) -> dict:
    names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    present = {"present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    session = {"provider_options": [], "intra_op_num_threads": 1, "enable_profiling": prefix}
    decoder = {
        "session_options": session, "filename": "model.onnx", "head_size": SIZE, "hidden_size": WIDTH,
        "num_attention_heads": HEADS, "num_hidden_layers": 1, "num_key_value_heads": HEADS,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names},
        "outputs": {"logits": "logits", **present},
    }
    tokens = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "vocab_size": WORDS}
    search = {"max_length": 64, "do_sample": False, "past_present_share_buffer": False}
    return {"model": {**tokens, "context_length": 64, "type": "llama", "decoder": decoder}, "search": search}


def main() -> None:
    folder, tokens = sys.argv[1], int(sys.argv[2])
    prefix = os.path.join(folder, "ort")
    with open(os.path.join(folder, "model.onnx"), "wb") as file:
        file.write(model())
    with open(os.path.join(folder, "genai_config.json"), "w", encoding="utf-8") as file:
        json.dump(config(prefix), file)
    import onnxruntime_genai

    loaded = onnxruntime_genai.Model(folder)
    params = onnxruntime_genai.GeneratorParams(loaded)
    params.set_search_options(max_length=8 + tokens, min_length=8 + tokens, do_sample=False)
    generator = onnxruntime_genai.Generator(loaded, params)
    generator.append_tokens(np.arange(3, 11, dtype=np.int32).reshape(1, -1))
    for _ in range(tokens - 1):
        generator.generate_next_token()
    # The session writes its profile when it ends.
    del generator, params, loaded
    write_down(folder, onnxruntime_genai.__version__, glob.glob(prefix + "*.json")[0])


if __name__ == "__main__":
    main()
