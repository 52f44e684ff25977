"""Makes small CTranslate2 models of random weights, and runs them.

run_ctranslate2.py FOLDER generate|translate TOKENS [RUNS [LAYERS]]

`generate` is a decoder alone, which takes a prompt of five words and makes TOKENS more, one by one; `translate` has an
encoder before it. RUNS times the same, with so many LAYERS. Prints what was made. With MKL_VERBOSE=1 MKL writes each of
its matrix products to the output.
"""

import json
import os
import sys

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

WORDS, WIDTH, HEADS, LAYERS, INNER = 96, 64, 4, 2, 256


def fill(spec) -> None:
    """Gives every weight that the spec asks for random numbers of the right shape."""
    random = np.random.default_rng(1)
    shapes = {
        "embeddings/weight": (WORDS, WIDTH), "embeddings_0/weight": (WORDS, WIDTH), "projection/weight": (WORDS, WIDTH),
        "ffn/linear_0/weight": (INNER, WIDTH), "ffn/linear_1/weight": (WIDTH, INNER),
        "self_attention/linear_0/weight": (3 * WIDTH, WIDTH), "self_attention/linear_1/weight": (WIDTH, WIDTH),
        "attention/linear_0/weight": (WIDTH, WIDTH), "attention/linear_1/weight": (2 * WIDTH, WIDTH),
        "attention/linear_2/weight": (WIDTH, WIDTH), "gamma": (WIDTH,), "beta": (WIDTH,),
    }

    def visit(layer, name, value):
        if value is not None or name.endswith("bias"):
            return
        shape = next((shape for end, shape in shapes.items() if name.endswith(end)), None)
        if shape is None:
            return
        numbers = np.ones(shape) if name.endswith("gamma") else random.normal(0, 0.1, shape)
        setattr(layer, name.rsplit("/", 1)[-1], numbers.astype(np.float32))

    def walk(layer, path):
        for name, value in list(layer.__dict__.items()):
            if name.startswith("_"):
                continue
            place = f"{path}/{name}" if path else name
            if hasattr(value, "variables"):
                walk(value, place)
            elif isinstance(value, list) and value and hasattr(value[0], "variables"):
                for index, item in enumerate(value):
                    walk(item, f"{place}_{index}")
            else:
                visit(layer, place, value)

    walk(spec, "")


def make(kind: str, folder: str, layers: int) -> str:
    path = os.path.join(folder, kind)
    words = ["<unk>", "<s>", "</s>"] + [f"w{n}" for n in range(WORDS - 3)]
    arguments = dict(pre_norm=True, activation=common_spec.Activation.GELU)
    if kind == "generate":
        spec = transformer_spec.TransformerDecoderModelSpec.from_config(layers, HEADS, **arguments)
        spec.register_vocabulary(words)
    else:
        spec = transformer_spec.TransformerSpec.from_config(layers, HEADS, **arguments)
        spec.register_source_vocabulary(words)
        spec.register_target_vocabulary(words)
    positions = np.random.default_rng(2).normal(0, 0.1, (64, WIDTH)).astype(np.float32)
    for part in [getattr(spec, "encoder", None), spec.decoder]:
        if part is not None and hasattr(part, "position_encodings"):
            part.position_encodings.encodings = positions
    fill(spec)
    spec.validate()
    os.makedirs(path, exist_ok=True)
    spec.save(path)
    return path


def main() -> None:
    folder, kind, tokens = sys.argv[1], sys.argv[2], int(sys.argv[3])
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    path = make(kind, folder, int(sys.argv[5]) if len(sys.argv) > 5 else LAYERS)
    arguments = dict(device="cpu", inter_threads=1, intra_threads=1, compute_type="float32")
    prompt = ["<s>", "w1", "w2", "w3", "w4"]
    if kind == "generate":
        model = ctranslate2.Generator(path, **arguments)
        run = lambda: model.generate_batch([prompt], max_length=tokens, min_length=tokens, beam_size=1,
                                           include_prompt_in_result=False)[0].sequences[0]
    else:
        model = ctranslate2.Translator(path, **arguments)
        run = lambda: model.translate_batch([prompt], max_decoding_length=tokens, min_decoding_length=tokens,
                                            beam_size=1)[0].hypotheses[0]
    made = sum(len(run()) for _ in range(runs))
    print(json.dumps({"version": ctranslate2.__version__, "made": made}))


if __name__ == "__main__":
    main()
