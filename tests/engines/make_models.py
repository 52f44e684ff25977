#!/usr/bin/env python3
"""Writes small GGUF models with random weights for the engine tests.

They say nothing sensible, but are whole models: llama.cpp loads and runs them
as it would any other. The same bytes come out at every run. Needs the PyPI
packages `gguf` and `numpy`.
"""

import argparse
import os
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

try:
    import gguf
    import numpy as np
except ImportError as missing:
    sys.exit(f"make_models: {missing}; run: pip install gguf numpy")


@dataclass(frozen=True)
class Model:
    about: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    experts: int = 0
    experts_used: int = 0
    quant: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32
    # Layers whose matrices are half floats.
    f16_layers: tuple[int, ...] = ()


TINY = dict(layers=4, width=128, feed_forward=256, heads=4, kv_heads=2)
MODELS = {
    "tiny-dense": Model("the smallest whole graph", **TINY),
    "tiny-moe": Model("eight experts, two for each token", **TINY, experts=8, experts_used=2),
    # Llama.cpp repacks Q4_0 weights when it loads them, and then computes
    # their products on another way than all others.
    "tiny-dense-q4_0": Model("repacked weights", **TINY, quant=gguf.GGMLQuantizationType.Q4_0),
    # Large enough that a decode step takes milliseconds and the matrix
    # products, not the probes, are what costs.
    "small-dense": Model("for numbers worth looking at", layers=8, width=384, feed_forward=1024, heads=6, kv_heads=2),
    # The same weights, rounded. With eight bits it is nearly always of the same mind, and drafts for the former.
    "small-dense-q8_0": Model(
        "eight bits a weight", layers=8, width=384, feed_forward=1024, heads=6, kv_heads=2,
        quant=gguf.GGMLQuantizationType.Q8_0,
    ),
    "small-dense-q4_0": Model(
        "four bits a weight", layers=8, width=384, feed_forward=1024, heads=6, kv_heads=2,
        quant=gguf.GGMLQuantizationType.Q4_0,
    ),
    # The same as "small-dense" and "wide-dense", in the type that is advised for them.
    "small-dense-f16": Model(
        "half floats", layers=8, width=384, feed_forward=1024, heads=6, kv_heads=2, quant=gguf.GGMLQuantizationType.F16,
    ),
    "wide-dense-f16": Model(
        "half floats", layers=4, width=1280, feed_forward=3584, heads=20, kv_heads=4,
        quant=gguf.GGMLQuantizationType.F16,
    ),
    # One layer is unlike the others.
    "small-dense-one-f16": Model(
        "half floats in one layer", layers=8, width=384, feed_forward=1024, heads=6, kv_heads=2, f16_layers=(5,),
    ),
    # As long a token as a phone's and a small computer's: some 15 and 60 ms on one thread. Five bits a weight: most work
    # for the file's size, and no more of it than the memory can keep up with.
    "medium-dense": Model(
        "15 ms a token, 70 MB", layers=16, width=768, feed_forward=2048, heads=12, kv_heads=4,
        quant=gguf.GGMLQuantizationType.Q5_0,
    ),
    "large-dense": Model(
        "60 ms a token, 250 MB", layers=20, width=1280, feed_forward=3584, heads=20, kv_heads=4,
        quant=gguf.GGMLQuantizationType.Q5_0,
    ),
    # Few operations for each byte, and far more bytes than caches hold: what memory delivers is what limits it.
    "wide-dense": Model("280 MB of whole floats", layers=4, width=1280, feed_forward=3584, heads=20, kv_heads=4),
    # The same for caches of hundreds of megabytes.
    "widest-dense": Model("1.4 GB of whole floats", layers=20, width=1280, feed_forward=3584, heads=20, kv_heads=4),
}
CONTEXT_LENGTH = 2048

# The vocabulary: three control tokens, one token for each byte, and syllables.
CONTROL = [b"<unk>", b"<s>", b"</s>"]
BYTES = [f"<0x{byte:02X}>".encode() for byte in range(256)]
SYLLABLES = [
    (space + consonant + vowel).encode()
    for space in ("", "\u2581")
    for consonant in "bcdfghjklmnprstvwxyz"
    for vowel in "aeiou"
]
VOCABULARY = CONTROL + BYTES + SYLLABLES


def write_vocabulary(writer: gguf.GGUFWriter) -> None:
    kinds = (
        [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
        + [gguf.TokenType.BYTE] * len(BYTES)
        + [gguf.TokenType.NORMAL] * len(SYLLABLES)
    )
    writer.add_tokenizer_model("llama")
    writer.add_token_list(VOCABULARY)
    writer.add_token_scores([0.0] * len(VOCABULARY))
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def weights(name: str, *shape: int) -> np.ndarray:
    """Uniform around zero, scaled so that activations neither vanish nor grow.

    The seed is the tensor's name, so that a tensor does not depend on those
    written before it.
    """
    random = np.random.default_rng(zlib.crc32(name.encode()))
    scale = np.float32((3.0 / shape[-1]) ** 0.5)
    # Explicitly float32: llama.cpp does not compute with float64 tensors.
    return (random.random(shape, dtype=np.float32) * np.float32(2) - np.float32(1)) * scale


def write_model(name: str, model: Model, path: Path) -> None:
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    writer.add_vocab_size(len(VOCABULARY))
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(model.width)
    writer.add_block_count(model.layers)
    writer.add_feed_forward_length(model.feed_forward)
    writer.add_head_count(model.heads)
    writer.add_head_count_kv(model.kv_heads)
    writer.add_rope_dimension_count(model.width // model.heads)
    writer.add_layer_norm_rms_eps(1e-5)
    if model.experts:
        writer.add_expert_count(model.experts)
        writer.add_expert_used_count(model.experts_used)
    write_vocabulary(writer)

    def norm(tensor: str) -> None:
        writer.add_tensor(f"{tensor}.weight", np.ones(model.width, dtype=np.float32))

    def matrix(tensor: str, *shape: int, quantised: bool = True) -> None:
        data = weights(tensor, *shape)
        if tensor == "output":
            # Only syllables can be the likeliest token: the text stays ASCII
            # and no run ends early.
            data[: len(CONTROL) + len(BYTES)] = 0
        if any(tensor.startswith(f"blk.{layer}.") for layer in model.f16_layers):
            writer.add_tensor(f"{tensor}.weight", data.astype(np.float16))
        elif quantised and model.quant != gguf.GGMLQuantizationType.F32:
            writer.add_tensor(f"{tensor}.weight", gguf.quants.quantize(data, model.quant), raw_dtype=model.quant)
        else:
            writer.add_tensor(f"{tensor}.weight", data)

    kv_width = model.width // model.heads * model.kv_heads
    matrix("token_embd", len(VOCABULARY), model.width)
    norm("output_norm")
    matrix("output", len(VOCABULARY), model.width)
    for layer in range(model.layers):
        block = f"blk.{layer}"
        norm(f"{block}.attn_norm")
        matrix(f"{block}.attn_q", model.width, model.width)
        matrix(f"{block}.attn_k", kv_width, model.width)
        matrix(f"{block}.attn_v", kv_width, model.width)
        matrix(f"{block}.attn_output", model.width, model.width)
        norm(f"{block}.ffn_norm")
        if model.experts:
            # The router stays float32, as in published quantised models.
            matrix(f"{block}.ffn_gate_inp", model.experts, model.width, quantised=False)
            matrix(f"{block}.ffn_gate_exps", model.experts, model.feed_forward, model.width)
            matrix(f"{block}.ffn_up_exps", model.experts, model.feed_forward, model.width)
            matrix(f"{block}.ffn_down_exps", model.experts, model.width, model.feed_forward)
        else:
            matrix(f"{block}.ffn_gate", model.feed_forward, model.width)
            matrix(f"{block}.ffn_up", model.feed_forward, model.width)
            matrix(f"{block}.ffn_down", model.width, model.feed_forward)

    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, help="where to write NAME.gguf; made if it is not there")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help="which models (default: all): " + "; ".join(f"{name}: {model.about}" for name, model in MODELS.items()),
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in MODELS:
            parser.error(f"no model is called {name!r}; there are: {', '.join(MODELS)}")

    arguments.outdir.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or MODELS:
        path = arguments.outdir / f"{name}.gguf"
        # Renamed when whole: a reader never sees half a model.
        with tempfile.TemporaryDirectory(prefix=".making-", dir=arguments.outdir) as folder:
            whole = Path(folder) / path.name
            write_model(name, MODELS[name], whole)
            os.replace(whole, path)
        print(path)


if __name__ == "__main__":
    main()
