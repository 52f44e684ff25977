"""Runs small nets of random weights with ncnn's wheel on its Vulkan device; those without one compute on the CPU.

run_ncnn_vulkan.py make NET [large]  writes NET.param and NET.bin
run_ncnn_vulkan.py run NET RUNS ...  prints a line of JSON: the layers as the engine lists them (`type`, `name`, and
                                     whether the device computes it), of each run when it began and ended, and the result
run_ncnn_vulkan.py shapes NET ...    prints `TYPE NAME`, width, height, depth and channels of each layer's first blob

fp16     blobs and weights of 16 bits, where the device has them
nets=N   as many nets in this process, which take turns
wait     waits for a line before the first run, and says `ready`

Most layers are computed on the device, `threshold` in their middle is not. In a large net all are, most of its time.
"""

import json
import os
import sys
import time

from run_ncnn import make

LAYERS = [
    # type, name, inputs, outputs, parameters, numbers of weights: a list is preceded by its flag
    ("Input", "in", [], ["in"], "0=16 1=16 2=3", []),
    ("Convolution", "conv1", ["in"], ["c1"], "0=8 1=3 4=1 5=1 6=216", [[216], 8]),
    ("ReLU", "relu1", ["c1"], ["r1"], "", []),
    ("Split", "split1", ["r1"], ["r1a", "r1b"], "", []),
    ("ConvolutionDepthWise", "depthwise", ["r1a"], ["d1"], "0=8 1=3 4=1 5=1 6=72 7=8", [[72], 8]),
    ("BinaryOp", "residual", ["d1", "r1b"], ["a1"], "0=0", []),
    ("Threshold", "threshold", ["a1"], ["t1"], "0=0.0", []),
    ("Pooling", "pool", ["t1"], ["p1"], "0=1 1=2 2=2", []),
    ("Split", "split2", ["p1"], ["p1a", "p1b"], "", []),
    ("Concat", "joined", ["p1a", "p1b"], ["j1"], "0=0", []),
    ("Convolution", "a_convolution_with_a_long_name", ["j1"], ["c2"], "0=8 1=1 5=1 6=128", [[128], 8]),
    ("Flatten", "flat", ["c2"], ["f1"], "", []),
    ("InnerProduct", "dense", ["f1"], ["l1"], "0=10 1=1 2=5120", [[5120], 10]),
    ("Softmax", "prob", ["l1"], ["out"], "0=0", []),
]

WIDE = ["0=128 1=3 4=1 5=1 6=147456", [[147456], 128]]
LARGE = [
    ("Input", "in", [], ["in"], "0=16 1=16 2=3", []),
    ("Convolution", "wide0", ["in"], ["w0"], "0=128 1=3 4=1 5=1 6=3456", [[3456], 128]),
    *(("Convolution", f"wide{i}", [f"w{i - 1}"], [f"w{i}"], *WIDE) for i in range(1, 7)),
    ("InnerProduct", "dense", ["w6"], ["out"], "0=10 1=1 2=327680", [[327680], 10]),
]


def loaded(path, fp16):
    import ncnn

    net = ncnn.Net()
    net.opt.use_vulkan_compute = True
    net.opt.num_threads = 1
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = fp16
    if net.load_param(path + ".param") != 0 or net.load_model(path + ".bin") != 0:
        sys.exit(f"{path} cannot be loaded")
    return net


def extractor_of(net):
    import ncnn
    import numpy as np

    extractor = net.create_extractor()
    extractor.input("in", ncnn.Mat(np.ones((3, 16, 16), np.float32)).clone())
    return extractor


def shapes(path, fp16):
    net = loaded(path, fp16)
    extractor = extractor_of(net)
    extractor.set_light_mode(False)
    for kind, name, _, outputs, _, _ in LAYERS:
        status, blob = extractor.extract(outputs[0])
        if status != 0:
            sys.exit(f"there is no {outputs[0]}")
        print(f"{kind} {name}", blob.w, blob.h, blob.d, blob.c)


def run(path, runs, words):
    import ncnn
    import numpy as np

    count = next((int(word[5:]) for word in words if word.startswith("nets=")), 1)
    nets = [loaded(path, "fp16" in words) for _ in range(count)]
    layers = [[layer.type, layer.name, bool(layer.support_vulkan)] for layer in nets[0].layers()]
    if "wait" in words:
        print("ready", flush=True)
        sys.stdin.readline()
    total, times = 0.0, []
    for _ in range(runs):
        for net in nets:
            begun = time.monotonic_ns()
            extractor = extractor_of(net)
            status, out = extractor.extract("out")
            ended = time.monotonic_ns()
            if status != 0:
                sys.exit("a run failed")
            times.append([begun, ended])
            total += float(np.array(out) @ np.arange(1, 11))
            del extractor
    said = {"layers": layers, "runs": times, "total": total, "devices": ncnn.get_gpu_count(), "pid": os.getpid()}
    print(json.dumps(said), flush=True)
    for net in nets:
        net.clear()
    nets.clear()
    del net
    ncnn.destroy_gpu_instance()


if sys.argv[1:2] == ["make"]:
    make(sys.argv[2], LARGE if sys.argv[3:] == ["large"] else LAYERS)
elif sys.argv[1:2] == ["run"]:
    run(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
elif sys.argv[1:2] == ["shapes"]:
    shapes(sys.argv[2], "fp16" in sys.argv[3:])
else:
    sys.exit(__doc__)
