// A library to preload into a process with whisper.cpp: it writes each graph that the engine
// has its scheduler compute (graph_trace.hpp says how) to the file that ENGINE_TRACE names, as
// a step of its own. The engine itself offers no callback.
#include "ggml-backend.h"
#include "ggml.h"

#include <dlfcn.h>

#include "graph_trace.hpp"

[[noreturn]] static void fail(const char * what, const char * detail) {
    fprintf(stderr, "whisper_hook: %s%s\n", what, detail);
    exit(1);
}

// The engine's own function `name`: of the library that `caller`, an address in the engine,
// belongs to, or of one that it needs. Python loads it for its extension module alone, so
// that a search by name (RTLD_NEXT) does not see it.
template <typename Function> static Function * engine_function(const char * name, void * caller) {
    Dl_info info;
    void * library = dladdr(caller, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    void * function = library != nullptr ? dlsym(library, name) : nullptr;
    if (function == nullptr) {
        fail("the engine has no function ", name);
    }
    return (Function *) function;
}

#define ENGINE(function) engine_function<decltype(function)>(#function, __builtin_return_address(0))

static decltype(ggml_op_name) * op_name;
static decltype(ggml_type_name) * type_name;

static GraphTrace & trace() {
    static GraphTrace * const the_trace = [] {
        auto * made = new GraphTrace([](const ggml_tensor * t) { return op_name(t->op); },
                                     [](const ggml_tensor * t) { return type_name(t->type); });
        const char * path = getenv("ENGINE_TRACE");
        if (path == nullptr || !made->open(path)) {
            fail("cannot write the file that ENGINE_TRACE names: ", path ? path : "(none)");
        }
        return made;
    }();
    return *the_trace;
}

extern "C" ggml_status ggml_backend_sched_graph_compute(ggml_backend_sched_t scheduler, ggml_cgraph * graph) {
    static auto * const compute = ENGINE(ggml_backend_sched_graph_compute);
    static auto * const count = ENGINE(ggml_graph_n_nodes);
    static auto * const node = ENGINE(ggml_graph_node);
    op_name = ENGINE(ggml_op_name);
    type_name = ENGINE(ggml_type_name);
    trace().begin_step();
    trace().begin_graph(0);
    for (int i = 0; i < count(graph); i++) {
        trace().node(node(graph, i), "CPU");
    }
    trace().end_step("ggml_backend_sched_graph_compute");
    return compute(scheduler, graph);
}
