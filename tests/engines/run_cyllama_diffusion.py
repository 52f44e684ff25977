#!/usr/bin/env python3
"""Makes an image with the stable-diffusion.cpp of the PyPI wheel `cyllama-vulkan`, on a GPU.

Without a GPU the device is Mesa's lavapipe, which computes on the processor: the backend takes it only if
GGML_VK_VISIBLE_DEVICES names it. The model is make_diffusion_model.py's. Equal arguments give equal work. Prints one
JSON line.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="the folder of tiny-diffusion-*.safetensors")
    parser.add_argument("--gpu-layers", type=int, default=99, metavar="N", help="0: everything on the CPU")
    parser.add_argument("--text-on-cpu", action="store_true", help="the text encoder on the CPU")
    parser.add_argument("--decoder-on-cpu", action="store_true", help="the decoder of images on the CPU")
    parser.add_argument("--steps", type=int, default=3, metavar="K", help="sampling steps (default 3)")
    parser.add_argument("--guidance", type=float, default=1.0, help="above 1 each step computes the model twice")
    parser.add_argument("--size", type=int, default=64, metavar="PIXELS", help="(default 64)")
    parser.add_argument("--method", default="EULER", help="(default EULER)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--contexts", type=int, default=1, metavar="N", help="models loaded one beside the other")
    parser.add_argument("--log", action="store_true", help="the engine's own messages on stderr")
    options = parser.parse_args()
    # The backend must not see a device if there is to be none.
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")
    if options.gpu_layers == 0:
        os.environ["GGML_VK_VISIBLE_DEVICES"] = ""
    from cyllama import sd

    said = []
    sd.set_log_callback(lambda level, text: sys.stderr.write(text) if options.log else None)
    sd.set_progress_callback(lambda step, steps, seconds: said.append(step) if steps == options.steps else None)
    params = sd.SDContextParams()
    params.diffusion_model_path = str(options.model / "tiny-diffusion-transformer.safetensors")
    params.llm_path = str(options.model / "tiny-diffusion-text.safetensors")
    params.taesd_path = str(options.model / "tiny-diffusion-decoder.safetensors")
    params.n_threads = options.threads
    params.free_params_immediately = False
    params.keep_clip_on_cpu = options.text_on_cpu
    params.keep_vae_on_cpu = options.decoder_on_cpu
    contexts = [sd.SDContext(params) for _ in range(options.contexts)]
    work = sd.SDImageGenParams()
    work.prompt = "a red square"
    work.width = work.height = options.size
    work.seed = 1
    work.sample_params.sample_steps = options.steps
    work.sample_params.cfg_scale = options.guidance
    work.sample_params.sample_method = getattr(sd.SampleMethod, options.method)
    began = time.monotonic_ns()
    images = [context.generate_with_params(work)[0] for context in contexts]
    spent = time.monotonic_ns() - began
    sizes = [[image.width, image.height] for image in images]
    print(json.dumps({"images": sizes, "ms": spent / 1e6, "steps": said}), flush=True)


if __name__ == "__main__":
    main()
