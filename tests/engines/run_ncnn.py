"""Runs a small net of random weights with ncnn's wheel, as run_ncnn.cpp does with the library.

run_ncnn.py make NET        writes NET.param and NET.bin
run_ncnn.py run NET RUNS    prints the layers, `TYPE NAME` a line, then `ran RUNS`
run_ncnn.py packed NET RUNS the same with the engine's own choice of options, as it packs blobs
run_ncnn.py edges NET       prints, of each layer, its name and those of the layers that it reads
run_ncnn.py shapes NET      prints `TYPE NAME`, width, height, depth and channels of each layer's first blob, as the
                            engine gives it

One layer is made of others (a convolution of groups), one has a name that is longer than what a short string holds.
"""

import struct
import sys

LAYERS = [
    # type, name, inputs, outputs, parameters, numbers of weights: a list is preceded by its flag
    ("Input", "in", [], ["in"], "0=16 1=16 2=3", []),
    ("Convolution", "conv1", ["in"], ["c1"], "0=8 1=3 4=1 5=1 6=216", [[216], 8]),
    ("ReLU", "relu1", ["c1"], ["r1"], "", []),
    ("Split", "split1", ["r1"], ["r1a", "r1b"], "", []),
    ("ConvolutionDepthWise", "groups", ["r1a"], ["d1"], "0=8 1=3 4=1 5=1 6=144 7=4", [[144], 8]),
    ("BinaryOp", "residual", ["d1", "r1b"], ["a1"], "0=0", []),
    ("Pooling", "pool", ["a1"], ["p1"], "0=1 1=2 2=2", []),
    ("Convolution", "a_convolution_with_a_long_name", ["p1"], ["c2"], "0=8 1=1 5=1 6=64", [[64], 8]),
    ("Flatten", "flat", ["c2"], ["f1"], "", []),
    ("InnerProduct", "dense", ["f1"], ["l1"], "0=10 1=1 2=5120", [[5120], 10]),
    ("Softmax", "prob", ["l1"], ["out"], "0=0", []),
]


def make(path, layers=LAYERS):
    seed = 1

    def weights(count):
        nonlocal seed
        values = []
        for _ in range(count):
            seed = (seed * 1103515245 + 12345) % 2**31
            values.append((seed / 2**31 - 0.5) / 8)
        return struct.pack(f"<{count}f", *values)

    with open(path + ".param", "w") as param, open(path + ".bin", "wb") as data:
        blobs = sum(len(outputs) for _, _, _, outputs, _, _ in layers)
        param.write(f"7767517\n{len(layers)} {blobs}\n")
        for kind, name, inputs, outputs, parameters, numbers in layers:
            words = [kind, name, str(len(inputs)), str(len(outputs)), *inputs, *outputs, parameters]
            param.write(" ".join(words).rstrip() + "\n")
            for count in numbers:
                if isinstance(count, list):
                    data.write(struct.pack("<I", 0))
                data.write(weights(count[0] if isinstance(count, list) else count))


def loaded(path, packed):
    import ncnn

    net = ncnn.Net()
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = 1
    # Values and layers are then those of any other build.
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.use_packing_layout = packed
    if net.load_param(path + ".param") != 0 or net.load_model(path + ".bin") != 0:
        sys.exit(f"{path} cannot be loaded")
    return net


def shapes(path):
    import ncnn
    import numpy as np

    net = loaded(path, False)
    extractor = net.create_extractor()
    extractor.set_light_mode(False)
    extractor.input("in", ncnn.Mat(np.ones((3, 16, 16), np.float32)).clone())
    for kind, name, _, outputs, _, _ in LAYERS:
        status, blob = extractor.extract(outputs[0])
        if status != 0:
            sys.exit(f"there is no {outputs[0]}")
        print(f"{kind} {name}", blob.w, blob.h, blob.d, blob.c)


def edges(path):
    """By the net's own file: its layers name the blobs that they read and make."""
    makers = {}
    with open(path + ".param") as param:
        for words in map(str.split, list(param)[2:]):
            name, inputs, outputs = words[1], int(words[2]), int(words[3])
            blobs = words[4:4 + inputs + outputs]
            print(name, *(makers[blob] for blob in blobs[:inputs]))
            makers |= {blob: name for blob in blobs[inputs:]}


def run(path, runs, packed=False):
    import ncnn
    import numpy as np

    net = loaded(path, packed)
    for layer in net.layers():
        print(layer.type, layer.name)
    total = 0.0
    ones = np.ones((3, 16, 16), np.float32)
    for _ in range(runs):
        extractor = net.create_extractor()
        extractor.input("in", ncnn.Mat(ones).clone())
        status, out = extractor.extract("out")
        if status != 0:
            sys.exit("a run failed")
        total += float(np.array(out) @ np.arange(1, 11))
        del extractor
    print(f"ran {runs}, {total:.3f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(sys.argv[2])
    elif sys.argv[1:2] == ["run"]:
        run(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["packed"]:
        run(sys.argv[2], int(sys.argv[3]), True)
    elif sys.argv[1:2] == ["edges"]:
        edges(sys.argv[2])
    elif sys.argv[1:2] == ["shapes"]:
        shapes(sys.argv[2])
    else:
        sys.exit(__doc__)
