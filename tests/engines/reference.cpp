// A small run of llama.cpp, linked against a source build: one prefill, then
// single-token decodes, greedily. With --trace it also writes what the engine's
// own evaluation callback is shown (graph_trace.hpp says how).
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <vector>

#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "llama.h"

#include "graph_trace.hpp"

static const char * usage =
    "usage: reference --model FILE [--threads N] [--prompt P] [--tokens K] [--trace FILE [--experts]] [--keep-workers]\n"
    "                 [--only-cpu]\n"
    "\n"
    "One llama_decode of P tokens (default 8), then K (default 16) of one token each,\n"
    "on N threads (default 1). Prints one JSON line.\n"
    "\n"
    "  --trace FILE     write the graphs' nodes as NDJSON; they are computed as without it\n"
    "  --experts        trace the experts' ids, too; this computes each graph in pieces\n"
    "  --keep-workers   one thread pool for the whole run, instead of one for each graph\n"
    "  --only-cpu       of backends that are plug-ins, load the CPU's and no other\n";

struct Options {
    const char * model = nullptr;
    const char * trace = nullptr;
    int threads = 1, prompt = 8, tokens = 16;
    bool experts = false, keep_workers = false, only_cpu = false;
};

[[noreturn]] static void fail(const std::string & what, int code = 1) {
    fprintf(stderr, "reference: %s\n", what.c_str());
    exit(code);
}

static Options parse(int argc, char ** argv) {
    Options options;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        const auto text = [&] {
            if (++i == argc) {
                fail(name + " needs a value", 2);
            }
            return argv[i];
        };
        const auto number = [&](int least) {
            const char * value = text();
            char * end;
            const long n = strtol(value, &end, 10);
            if (*value == 0 || *end != 0 || n < least || n > 1 << 16) {
                fail(name + " " + value + ": not a number of at least " + std::to_string(least), 2);
            }
            return (int) n;
        };
        if (name == "--help" || name == "-h") {
            fputs(usage, stdout);
            exit(0);
        } else if (name == "--model") {
            options.model = text();
        } else if (name == "--trace") {
            options.trace = text();
        } else if (name == "--threads") {
            options.threads = number(1);
        } else if (name == "--prompt") {
            options.prompt = number(1);
        } else if (name == "--tokens") {
            options.tokens = number(0);
        } else if (name == "--experts") {
            options.experts = true;
        } else if (name == "--keep-workers") {
            options.keep_workers = true;
        } else if (name == "--only-cpu") {
            options.only_cpu = true;
        } else {
            fail("unknown argument " + name + "\n" + usage, 2);
        }
    }
    if (options.model == nullptr) {
        fail(std::string("no --model\n") + usage, 2);
    }
    if (options.experts && options.trace == nullptr) {
        fail("--experts needs --trace", 2);
    }
    return options;
}

struct Observer {
    GraphTrace trace;
    bool experts;
    std::string backend;
};

// Asked of every node before the graph is computed. `false` to all of them leaves
// the graph whole, so that it is computed, and its operators fused, as ever.
static bool on_node(ggml_tensor * t, bool ask, void * user) {
    auto & observer = *(Observer *) user;
    if (ask) {
        observer.trace.node(t, observer.backend.c_str());
        return observer.experts && t->op == GGML_OP_MUL_MAT_ID;
    }
    observer.trace.experts(t);
    return true;
}

// A function of the CPU backend, which may be a plug-in that this program is not linked with.
template <typename Function>
static Function of_cpu(ggml_backend_dev_t cpu, const char * name) {
    auto function = (Function) ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), name);
    if (function == nullptr) {
        fail(std::string("the CPU backend has no ") + name);
    }
    return function;
}

int main(int argc, char ** argv) {
    const Options options = parse(argc, argv);

    llama_log_set(
        [](ggml_log_level level, const char * text, void *) {
            if (level >= GGML_LOG_LEVEL_ERROR && level != GGML_LOG_LEVEL_CONT) {
                fputs(text, stderr);
            }
        },
        nullptr);
    llama_backend_init();
    if (ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU) == nullptr) {
        // A build with backends as plug-ins has none until they are loaded.
        const auto libraries = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lib";
        if (options.only_cpu) {
            ggml_backend_load((libraries / "libggml-cpu.so").c_str());
        } else {
            ggml_backend_load_all_from_path(libraries.c_str());
        }
    }
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    if (cpu == nullptr) {
        fail("the engine has no CPU backend");
    }

    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    llama_model * model = llama_model_load_from_file(options.model, model_params);
    if (model == nullptr) {
        fail(std::string("cannot load the model ") + options.model);
    }
    const int n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));

    Observer observer{ { [](const ggml_tensor * t) { return ggml_op_name(t->op); },
                         [](const ggml_tensor * t) { return ggml_type_name(t->type); } },
                       options.experts,
                       // There is no other backend.
                       ggml_backend_dev_name(cpu) };

    llama_context_params params = llama_context_default_params();
    params.n_ctx = options.prompt + options.tokens;
    // One call, one graph: the prompt is never split.
    params.n_batch = params.n_ubatch = std::max(options.prompt, 512);
    params.n_threads = params.n_threads_batch = options.threads;
    if (options.trace != nullptr) {
        if (!observer.trace.open(options.trace)) {
            fail(std::string("cannot write ") + options.trace + ": " + strerror(errno));
        }
        params.cb_eval = on_node;
        params.cb_eval_user_data = &observer;
    }
    llama_context * context = llama_init_from_model(model, params);
    if (context == nullptr) {
        fail("the engine made no context");
    }
    ggml_threadpool * workers = nullptr;
    if (options.keep_workers) {
        ggml_threadpool_params pool = ggml_threadpool_params_default(options.threads);
        workers = of_cpu<decltype(&ggml_threadpool_new)>(cpu, "ggml_threadpool_new")(&pool);
        llama_attach_threadpool(context, workers, workers);
    }

    const auto decode = [&](std::vector<llama_token> & tokens) {
        const auto start = std::chrono::steady_clock::now();
        if (options.trace != nullptr) {
            observer.trace.begin_step();
            observer.trace.begin_graph((int) tokens.size());
        }
        const int status = llama_decode(context, llama_batch_get_one(tokens.data(), (int) tokens.size()));
        if (status != 0) {
            fail("llama_decode gave " + std::to_string(status));
        }
        if (options.trace != nullptr) {
            observer.trace.end_step("llama_decode");
        }
        const float * logits = llama_get_logits_ith(context, -1);
        const auto token = (llama_token) (std::max_element(logits, logits + n_vocab) - logits);
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        return std::pair(token, took.count());
    };

    // The prompt need not mean anything. These are syllables of make_models.py's
    // vocabulary; run_xllamacpp.py makes the same ones.
    std::vector<llama_token> tokens(options.prompt);
    for (int i = 0; i < options.prompt; i++) {
        tokens[i] = 259 + 37 * i % 200;
    }
    auto [token, prefill_ms] = decode(tokens);
    double decode_ms = 0;
    std::string generated;
    for (int i = 0; i < options.tokens; i++) {
        generated += (i ? "," : "") + std::to_string(token);
        tokens = { token };
        const auto [next, ms] = decode(tokens);
        token = next;
        decode_ms += ms;
    }
    printf("{\"engine\":\"llama.cpp\",\"threads\":%d,\"prompt_tokens\":%d,\"generated_tokens\":%d,\"steps\":%d,"
           "\"prefill_ms\":%.3f,\"decode_ms\":%.3f,\"token_ids\":[%s]}\n",
           options.threads, options.prompt, options.tokens, 1 + options.tokens, prefill_ms, decode_ms,
           generated.c_str());

    llama_free(context);
    if (workers != nullptr) {
        of_cpu<decltype(&ggml_threadpool_free)>(cpu, "ggml_threadpool_free")(workers);
    }
    llama_model_free(model);
    llama_backend_free();
}
