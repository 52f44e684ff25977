// A live copy of the engine that decodes when it is told to. Says `ready` when the model is loaded; then each line
// of its input is a number of tokens to decode, and is answered by the time that took: wall and CPU time of the
// thread, ns. The same number is the same work every time.
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "llama.h"

// The sequence starts anew after so many tokens, so that a token's work does not grow with the turn's length.
constexpr long SEQUENCE = 64;

static int64_t now_ns(clockid_t clock) {
    timespec time;
    clock_gettime(clock, &time);
    return (int64_t) time.tv_sec * 1000000000 + time.tv_nsec;
}

[[noreturn]] static void fail(const char * what) {
    fprintf(stderr, "turns: %s\n", what);
    exit(1);
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fail("usage: turns MODEL THREADS");
    }
    llama_log_set(
        [](ggml_log_level level, const char * text, void *) {
            if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) {
                fputs(text, stderr);
            }
        },
        nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    llama_model * model = llama_model_load_from_file(argv[1], model_params);
    if (model == nullptr) {
        fail("cannot load the model");
    }
    llama_context_params params = llama_context_default_params();
    params.n_ctx = params.n_batch = params.n_ubatch = 256;
    params.n_threads = params.n_threads_batch = atoi(argv[2]);
    llama_context * context = llama_init_from_model(model, params);
    if (context == nullptr) {
        fail("the engine made no context");
    }
    puts("ready");
    fflush(stdout);
    long tokens;
    while (scanf("%ld", &tokens) == 1) {
        const int64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
        for (long i = 0; i < tokens; i++) {
            if (i % SEQUENCE == 0) {
                llama_memory_clear(llama_get_memory(context), false);
            }
            llama_token token = 259 + 37 * (i % SEQUENCE) % 200;
            if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0) {
                fail("llama_decode failed");
            }
        }
        printf("%lld %lld\n", (long long) (now_ns(CLOCK_MONOTONIC) - wall),
               (long long) (now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu));
        fflush(stdout);
    }
}
