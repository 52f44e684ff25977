#!/usr/bin/env python3
"""Has the whisper.cpp of the PyPI wheel `cyllama-vulkan` transcribe a tone, on a GPU.

Without a GPU the device is Mesa's lavapipe, which computes on the processor: the backend takes it only if
GGML_VK_VISIBLE_DEVICES names it. The model has random weights and is written if it is not there: equal arguments give
equal work. Prints one JSON line.
"""

import argparse
import ctypes
import json
import os
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

# The vocabulary's size makes it a model of English: the tokens that begin and end a text have fixed numbers.
VOCABULARY, AUDIO_CONTEXT, TEXT_CONTEXT, WIDTH, HEADS, LAYERS, MELS, BINS = 51864, 256, 64, 64, 2, 4, 80, 201
MAGIC, F32, F16 = 0x67676D6C, 0, 1
RATE = 16000


def write_model(path: Path) -> None:
    """A whole model in the engine's own format, of some megabytes."""

    def integers(*numbers: int) -> bytes:
        return np.array(numbers, dtype=np.int32).tobytes()

    def weights(name: str, *shape: int) -> np.ndarray:
        random = np.random.default_rng(zlib.crc32(name.encode()))
        fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
        return (random.random(shape, dtype=np.float32) * 2 - 1) * np.float32((3.0 / fan_in) ** 0.5)

    with open(path, "wb") as file:

        def tensor(name: str, data: np.ndarray, kind: int) -> None:
            file.write(integers(data.ndim, len(name), kind, *reversed(data.shape)) + name.encode())
            file.write(data.astype(np.float16 if kind == F16 else np.float32).tobytes())

        def both(name: str, bias_shape: tuple, data: np.ndarray, kind: int) -> None:
            tensor(f"{name}.weight", data, kind)
            tensor(f"{name}.bias", np.zeros(bias_shape, dtype=np.float32), F32)

        def norm(name: str) -> None:
            both(name, (WIDTH,), np.ones(WIDTH, dtype=np.float32), F32)

        def linear(name: str, to: int, of: int) -> None:
            both(name, (to,), weights(name, to, of), F16)

        def attention(name: str) -> None:
            norm(f"{name}_ln")
            for part in ("query", "value", "out"):
                linear(f"{name}.{part}", WIDTH, WIDTH)
            tensor(f"{name}.key.weight", weights(f"{name}.key", WIDTH, WIDTH), F16)

        file.write(integers(MAGIC, VOCABULARY, AUDIO_CONTEXT, WIDTH, HEADS, LAYERS, TEXT_CONTEXT, WIDTH, HEADS, LAYERS))
        file.write(integers(MELS, F16, MELS, BINS))
        # Bands of equal width.
        bands = np.zeros((MELS, BINS), dtype=np.float32)
        for bin_ in range(BINS):
            bands[bin_ * MELS // BINS, bin_] = 1
        file.write(bands.tobytes())
        # The engine gives the other tokens names.
        file.write(integers(256) + b"".join(integers(1) + bytes([byte]) for byte in range(256)))
        for side, context in (("encoder", AUDIO_CONTEXT), ("decoder", TEXT_CONTEXT)):
            name = f"{side}.positional_embedding"
            tensor(name, weights(name, context, WIDTH), F32)
            for layer in range(LAYERS):
                block = f"{side}.blocks.{layer}"
                attention(f"{block}.attn")
                if side == "decoder":
                    attention(f"{block}.cross_attn")
                norm(f"{block}.mlp_ln")
                linear(f"{block}.mlp.0", 4 * WIDTH, WIDTH)
                linear(f"{block}.mlp.2", WIDTH, 4 * WIDTH)
        both("encoder.conv1", (WIDTH, 1), weights("encoder.conv1", WIDTH, MELS, 3), F16)
        both("encoder.conv2", (WIDTH, 1), weights("encoder.conv2", WIDTH, WIDTH, 3), F16)
        norm("encoder.ln_post")
        norm("decoder.ln")
        tensor("decoder.token_embedding.weight", weights("token_embedding", VOCABULARY, WIDTH), F16)


def log_everything() -> None:
    """The engine leaves out what its libraries say for debugging, such as their graphs (GGML_SCHED_DEBUG)."""
    paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libggml-base" in line}
    for path in paths:
        ctypes.CDLL(path).ggml_log_set(None, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a file of the engine; written if it is not there")
    parser.add_argument("--gpu-layers", type=int, default=99, metavar="N", help="0: everything on the CPU")
    parser.add_argument("--tokens", type=int, default=4, metavar="K", help="tokens to generate at most (default 4)")
    parser.add_argument("--contexts", type=int, default=1, metavar="N", help="models loaded one beside the other")
    parser.add_argument("--alternate", action="store_true", help="every second context computes on the CPU")
    parser.add_argument("--log", action="store_true", help="the engine's own messages on stderr")
    options = parser.parse_args()
    if not options.model.exists():
        options.model.parent.mkdir(parents=True, exist_ok=True)
        # Renamed when whole: a reader never sees half a model.
        with tempfile.TemporaryDirectory(prefix=".making-", dir=options.model.parent) as folder:
            whole = Path(folder) / options.model.name
            write_model(whole)
            os.replace(whole, options.model)
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    from cyllama.whisper import whisper_cpp

    whisper_cpp.ggml_backend_load_all()
    if not options.log:
        whisper_cpp.disable_logging()
    context_params = whisper_cpp.WhisperContextParams()
    contexts = []
    for number in range(options.contexts):
        context_params.use_gpu = options.gpu_layers > 0 and not (options.alternate and number % 2)
        contexts.append(whisper_cpp.WhisperContext(str(options.model), context_params))
    if options.log:
        log_everything()
    tone = (0.1 * np.sin(440 * 2 * np.pi * np.arange(2 * RATE) / RATE)).astype(np.float32)
    params = whisper_cpp.WhisperFullParams()
    params.n_threads = 1
    params.max_tokens = options.tokens
    params.single_segment = params.no_context = params.no_timestamps = True
    params.suppress_blank = params.print_progress = params.print_timestamps = False
    # One try: a model with random weights is sure of nothing.
    params.temperature_inc = 0.0
    params.greedy_best_of = 1
    began = time.monotonic_ns()
    texts = []
    for context in contexts:
        context.full(tone, params)
        texts.append(sum(context.full_n_tokens(segment) for segment in range(context.full_n_segments())))
    spent = time.monotonic_ns() - began
    print(json.dumps({"tokens": texts, "ms": spent / 1e6}), flush=True)
    # How often it encoded and decoded, by its own count.
    for context in contexts:
        context.print_timings()


if __name__ == "__main__":
    main()
