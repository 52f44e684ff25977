// A library to preload into a process with any release of ggml since 2023, under llama.cpp, whisper.cpp or alone: it
// writes each graph that is handed over to be computed (graph_trace.hpp says how) to the file that ENGINE_TRACE names.
// A call of the model is a step; a graph outside of one is a step of its own.
//
// The engine calls its own exported functions through its procedure linkage table, so that a preloaded function of the
// same name comes first. Each one here calls the engine's. Where a tensor's members are is written here as the public
// headers had it; which header it was is found by what the engine's functions say of each tensor.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

// As graph_trace.hpp reads it; made of the engine's.
struct ggml_tensor {
    int type;
    int64_t ne[4];
    size_t nb[4];
    int op;
    int32_t flags;
    ggml_tensor * src[10]; // this one and the next are left empty
    void * data;
    const char * name;
};

#include "graph_trace.hpp"

[[noreturn]] static void fail(const char * what, const char * detail) {
    fprintf(stderr, "graph_hook: %s%s\n", what, detail);
    exit(1);
}

// The library that the graph came from: `caller` is an address in it. Python loads it for its module alone, so that a
// search by name (RTLD_NEXT) does not see it.
static void * find(const char * name, void * caller) {
    Dl_info info;
    void * library = dladdr(caller, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    return library != nullptr ? dlsym(library, name) : nullptr;
}

template <typename Function> static Function * engine_function(const char * name, void * caller) {
    void * function = find(name, caller);
    if (function == nullptr) {
        fail("the engine has no function ", name);
    }
    return (Function *) function;
}

struct Header {
    size_t ne, op, flags, name;
};

static const Header headers[] = {
    { 16, 80, 148, 256 }, // since the end of 2024
    { 16, 80, 148, 264 }, // 2024: a gradient before the sources
    { 16, 80, 0, 288 },   // before: counts of runs behind the sources
    { 16, 80, 0, 208 },   // 2023: fewer parameters and sources; counts of runs before the data
};

static struct Engine {
    const char * (*op_name)(int);
    const char * (*type_name)(int);
    const char * (*get_name)(const void *);
    int64_t (*n_elements)(const void *);
    int (*n_nodes)(const void *);
    void ** (*nodes)(const void *);
    bool known;
} engine;

template <typename T> static T at(const void * object, size_t offset) {
    T value;
    memcpy(&value, (const char *) object + offset, sizeof value);
    return value;
}

static const Header & header_of(const void * tensor) {
    const char * name = engine.get_name(tensor);
    for (const Header & header : headers) {
        int64_t product = 1;
        for (int i = 0; i < 4; i++) {
            product *= at<int64_t>(tensor, header.ne + 8 * i);
        }
        if ((const char *) tensor + header.name == name && product == engine.n_elements(tensor)) {
            return header;
        }
    }
    fprintf(stderr, "graph_hook: the name is at %td\n", name - (const char *) tensor);
    fail("no header that is known here has this engine's ggml_tensor", "");
}

static ggml_tensor made_of(const void * tensor) {
    const Header & header = header_of(tensor);
    ggml_tensor made = {};
    made.type = at<int>(tensor, 0);
    memcpy(made.ne, (const char *) tensor + header.ne, sizeof made.ne);
    made.op = at<int>(tensor, header.op);
    made.flags = header.flags ? at<int32_t>(tensor, header.flags) : 0;
    made.name = (const char *) tensor + header.name;
    return made;
}

static GraphTrace & trace() {
    static GraphTrace * const the_trace = [] {
        auto * made = new GraphTrace([](const ggml_tensor * t) { return engine.op_name(t->op); },
                                     [](const ggml_tensor * t) { return engine.type_name(t->type); });
        const char * path = getenv("ENGINE_TRACE");
        if (path == nullptr || !made->open(path)) {
            fail("cannot write the file that ENGINE_TRACE names: ", path ? path : "(none)");
        }
        return made;
    }();
    return *the_trace;
}

static void know(void * caller) {
    if (engine.known) {
        return;
    }
    engine.op_name = engine_function<const char *(int)>("ggml_op_name", caller);
    engine.type_name = engine_function<const char *(int)>("ggml_type_name", caller);
    engine.get_name = engine_function<const char *(const void *)>("ggml_get_name", caller);
    engine.n_elements = engine_function<int64_t(const void *)>("ggml_nelements", caller);
    engine.n_nodes = (int (*)(const void *)) find("ggml_graph_n_nodes", caller);
    engine.nodes = (void ** (*)(const void *)) find("ggml_graph_nodes", caller);
    engine.known = true;
}

static void write_graph(const void * graph, void * caller) {
    know(caller);
    // Before these functions a graph was a struct of the public header: size, n_nodes, n_leafs, nodes; and in 2023
    // n_nodes, n_leafs and the nodes themselves, so that a pointer stands where later a number is.
    const bool in_place = engine.n_nodes == nullptr && at<uint64_t>(graph, 8) >> 32 != 0;
    const int count = engine.n_nodes ? engine.n_nodes(graph) : at<int>(graph, in_place ? 0 : 4);
    void * const * nodes = engine.nodes ? engine.nodes(graph)
                           : in_place   ? (void * const *) ((const char *) graph + 8)
                                        : at<void **>(graph, 16);
    trace().begin_step();
    trace().begin_graph(0);
    bool flagged = false; // Nodes are marked for computation only in newer releases.
    for (int i = 0; i < count; i++) {
        flagged |= (made_of(nodes[i]).flags & 16) != 0;
    }
    for (int i = 0; i < count; i++) {
        ggml_tensor made = made_of(nodes[i]);
        made.flags |= flagged ? 0 : 16;
        trace().node(&made, "CPU");
    }
    trace().end_step("graph");
}

// A batch was 56 or 72 bytes, by value: what lies behind a shorter one is of the caller's, and is not looked at.
struct Batch {
    char bytes[72];
};

static thread_local int inside;

template <typename Call> static int in_step(const char * name, Call call) {
    trace().begin_step();
    const int status = call();
    trace().end_step(name);
    return status;
}

#define CALLER __builtin_return_address(0)

extern "C" {

int llama_process(void * context, int type, void * batch) {
    static auto * const engines = engine_function<int(void *, int, void *)>("llama_process", CALLER);
    return in_step("llama_process", [&] { return engines(context, type, batch); });
}

int llama_decode(void * context, Batch batch) {
    static auto * const engines = engine_function<int(void *, Batch)>("llama_decode", CALLER);
    return in_step("llama_decode", [&] { return engines(context, batch); });
}

int llama_encode(void * context, Batch batch) {
    static auto * const engines = engine_function<int(void *, Batch)>("llama_encode", CALLER);
    return in_step("llama_encode", [&] { return engines(context, batch); });
}

// One of these is called by another, in some releases: the outermost has the graph.
#define GRAPH_FUNCTION(name) \
    int name(void * with, void * graph) { \
        static auto * const engines = engine_function<int(void *, void *)>(#name, CALLER); \
        if (inside++ == 0) { \
            write_graph(graph, CALLER); \
        } \
        const int status = engines(with, graph); \
        inside--; \
        return status; \
    }

GRAPH_FUNCTION(ggml_backend_sched_graph_compute)
GRAPH_FUNCTION(ggml_backend_sched_graph_compute_async)
GRAPH_FUNCTION(ggml_backend_graph_compute)

int ggml_graph_compute(void * graph, void * plan) {
    static auto * const engines = engine_function<int(void *, void *)>("ggml_graph_compute", CALLER);
    if (inside++ == 0) {
        write_graph(graph, CALLER);
    }
    const int status = engines(graph, plan);
    inside--;
    return status;
}
}
