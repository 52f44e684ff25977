// Runs a small net with ncnn, which tests record. Prints the layers of the net, `TYPE NAME` a line, then `ran N`.
//
// usage: run NET RUNS   NET.param and NET.bin; the blob `out` of an input of ones, computed, RUNS times
#include <net.h>

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int argc, char** argv)
{
    if (argc < 3) {
        std::fprintf(stderr, "usage: run NET RUNS\n");
        return 2;
    }
    const std::string path = argv[1];
    const int runs = std::atoi(argv[2]);
    ncnn::Net net;
    net.opt.num_threads = 1;
    // Values and layers are then those of any other build.
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = false;
    net.opt.use_packing_layout = false;
    if (net.load_param((path + ".param").c_str()) != 0 || net.load_model((path + ".bin").c_str()) != 0) {
        std::fprintf(stderr, "%s cannot be loaded\n", path.c_str());
        return 1;
    }
    for (const ncnn::Layer* layer : net.layers()) std::printf("%s %s\n", layer->type.c_str(), layer->name.c_str());
    double sum = 0;
    for (int run = 0; run < runs; run++) {
        ncnn::Mat in(16, 16, 3), out;
        in.fill(1.0f);
        ncnn::Extractor extractor = net.create_extractor();
        if (extractor.input("in", in) != 0 || extractor.extract("out", out) != 0) {
            std::fprintf(stderr, "run %d failed\n", run);
            return 1;
        }
        for (int i = 0; i < out.w; i++) sum += out[i] * (i + 1);
    }
    std::printf("ran %d, %.3f\n", runs, sum);
    return 0;
}
