#!/usr/bin/env python3
"""Writes a small diffusion model with random weights for stable-diffusion.cpp: safetensors files for the engine tests.

It is an Ovis-Image, a transformer of the Flux family whose sizes the engine infers from the tensors: one block that
keeps text and image apart, one that does not, a text encoder of two layers, and the small decoder TAESD. It says
nothing sensible, but is a whole model. The same bytes come out at every run. Needs the PyPI package `numpy`.
"""

import argparse
import json
import os
import struct
import sys
import tempfile
import zlib
from pathlib import Path

try:
    import numpy as np
except ImportError as missing:
    sys.exit(f"make_diffusion_model: {missing}; run: pip install numpy")

# Heads have 128 numbers: the positions' three axes are fixed.
WIDTH, HEAD, FEED_FORWARD, DOUBLE, SINGLE = 128, 128, 512, 1, 1
# The text encoder's heads are fixed, too: 32 of 128 numbers, 8 of them for keys and values.
TEXT_WIDTH, TEXT_LAYERS, TEXT_FEED_FORWARD, VOCABULARY = 64, 2, 128, 151936
# Of an image's latent: channels, and what a patch of two by two has.
LATENT, PATCH = 16, 64
DECODER = 64
FILES = ("transformer", "text", "decoder")


def weights(name: str, *shape: int) -> np.ndarray:
    """Uniform around zero, scaled so that activations neither vanish nor grow; by the tensor's name alone."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    scale = np.float32((3.0 / np.prod(shape[1:])) ** 0.5)
    return (random.random(shape, dtype=np.float32) * np.float32(2) - np.float32(1)) * scale


class Tensors(dict):
    def linear(self, name: str, to: int, of: int, bias: bool = True) -> None:
        self[f"{name}.weight"] = weights(name, to, of).astype(np.float16)
        if bias:
            self[f"{name}.bias"] = np.zeros(to, dtype=np.float32)

    def convolution(self, name: str, to: int, of: int, bias: bool = True) -> None:
        self[f"{name}.weight"] = weights(name, to, of, 3, 3).astype(np.float16)
        if bias:
            self[f"{name}.bias"] = np.zeros(to, dtype=np.float32)

    def ones(self, name: str, size: int) -> None:
        self[name] = np.ones(size, dtype=np.float32)

    def write(self, path: Path) -> None:
        kinds = {"float16": "F16", "float32": "F32"}
        header, at = {}, 0
        for name, data in self.items():
            place = [at, at + data.nbytes]
            header[name] = {"dtype": kinds[data.dtype.name], "shape": data.shape, "data_offsets": place}
            at += data.nbytes
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for data in self.values():
                file.write(data.tobytes())


def transformer() -> Tensors:
    tensors = Tensors()

    def gated(name: str) -> None:
        tensors.linear(f"{name}.gate_proj", FEED_FORWARD, WIDTH)
        tensors.linear(f"{name}.up_proj", FEED_FORWARD, WIDTH)
        tensors.linear(f"{name}.down_proj", WIDTH, FEED_FORWARD)

    def norms(name: str) -> None:
        tensors.ones(f"{name}.query_norm.scale", HEAD)
        tensors.ones(f"{name}.key_norm.scale", HEAD)

    tensors.linear("img_in", WIDTH, PATCH)
    tensors.linear("time_in.in_layer", WIDTH, 256)
    tensors.linear("time_in.out_layer", WIDTH, WIDTH)
    tensors.ones("txt_norm.scale", TEXT_WIDTH)
    tensors.linear("txt_in", WIDTH, TEXT_WIDTH)
    for number in range(DOUBLE):
        for side in ("img", "txt"):
            block = f"double_blocks.{number}.{side}"
            tensors.linear(f"{block}_mod.lin", 6 * WIDTH, WIDTH)
            tensors.linear(f"{block}_attn.qkv", 3 * WIDTH, WIDTH)
            norms(f"{block}_attn.norm")
            tensors.linear(f"{block}_attn.proj", WIDTH, WIDTH)
            gated(f"{block}_mlp")
    for number in range(SINGLE):
        block = f"single_blocks.{number}"
        tensors.linear(f"{block}.linear1", 3 * WIDTH + 2 * FEED_FORWARD, WIDTH)
        tensors.linear(f"{block}.linear2", WIDTH, WIDTH + FEED_FORWARD)
        norms(f"{block}.norm")
        tensors.linear(f"{block}.modulation.lin", 3 * WIDTH, WIDTH)
    tensors.linear("final_layer.linear", PATCH, WIDTH)
    tensors.linear("final_layer.adaLN_modulation.1", 2 * WIDTH, WIDTH)
    return tensors


def text() -> Tensors:
    tensors = Tensors()
    tensors["model.embed_tokens.weight"] = weights("embed_tokens", VOCABULARY, TEXT_WIDTH).astype(np.float16)
    for number in range(TEXT_LAYERS):
        layer = f"model.layers.{number}"
        tensors.ones(f"{layer}.input_layernorm.weight", TEXT_WIDTH)
        tensors.linear(f"{layer}.self_attn.q_proj", 32 * 128, TEXT_WIDTH, bias=False)
        tensors.linear(f"{layer}.self_attn.k_proj", 8 * 128, TEXT_WIDTH, bias=False)
        tensors.linear(f"{layer}.self_attn.v_proj", 8 * 128, TEXT_WIDTH, bias=False)
        tensors.linear(f"{layer}.self_attn.o_proj", TEXT_WIDTH, 32 * 128, bias=False)
        tensors.ones(f"{layer}.self_attn.q_norm.weight", 128)
        tensors.ones(f"{layer}.self_attn.k_norm.weight", 128)
        tensors.ones(f"{layer}.post_attention_layernorm.weight", TEXT_WIDTH)
        tensors.linear(f"{layer}.mlp.gate_proj", TEXT_FEED_FORWARD, TEXT_WIDTH, bias=False)
        tensors.linear(f"{layer}.mlp.up_proj", TEXT_FEED_FORWARD, TEXT_WIDTH, bias=False)
        tensors.linear(f"{layer}.mlp.down_proj", TEXT_WIDTH, TEXT_FEED_FORWARD, bias=False)
    tensors.ones("model.norm.weight", TEXT_WIDTH)
    return tensors


def decoder() -> Tensors:
    tensors = Tensors()

    def block(number: int) -> None:
        for part in (0, 2, 4):
            tensors.convolution(f"decoder.layers.{number}.conv.{part}", DECODER, DECODER)

    tensors.convolution("decoder.layers.0", DECODER, LATENT)
    number = 2
    for _ in range(3):
        for _ in range(3):
            block(number)
            number += 1
        # One that enlarges has no weights.
        number += 1
        tensors.convolution(f"decoder.layers.{number}", DECODER, DECODER, bias=False)
        number += 1
    block(number)
    tensors.convolution(f"decoder.layers.{number + 1}", 3, DECODER)
    return tensors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outdir", type=Path, help="where to write tiny-diffusion-*.safetensors")
    options = parser.parse_args()
    options.outdir.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        path = options.outdir / f"tiny-diffusion-{name}.safetensors"
        # Renamed when whole: a reader never sees half a model.
        with tempfile.TemporaryDirectory(prefix=".making-", dir=options.outdir) as folder:
            whole = Path(folder) / path.name
            globals()[name]().write(whole)
            os.replace(whole, path)
        print(path)


if __name__ == "__main__":
    main()
