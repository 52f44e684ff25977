// A library to preload into a process whose llama.cpp comes without headers (the
// xllamacpp wheel). It has that engine call our evaluation callback, and writes
// what the engine shows it (graph_trace.hpp says how) to the file that
// ENGINE_TRACE names; with ENGINE_TRACE_EXPERTS=1 the experts' ids, too.
//
// The engine calls its own exported functions through its procedure linkage
// table, so that a preloaded function of the same name comes first. Each one
// here calls the engine's after it.
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

// The layout is that of the wheel's own debug information, and is checked
// against what the engine's functions say of each node.
struct ggml_tensor {
    int type;
    void * buffer;
    int64_t ne[4];
    size_t nb[4];
    int op;
    int32_t op_params[16];
    int32_t flags;
    ggml_tensor * src[10];
    ggml_tensor * view_src;
    size_t view_offs;
    void * data;
    char name[64];
};

#include "graph_trace.hpp"

[[noreturn]] static void fail(const char * what, const char * detail) {
    fprintf(stderr, "trace_hook: %s%s\n", what, detail);
    exit(1);
}

// The engine's own function `name`. The library it lies in is the one that `caller`,
// an address in the engine, belongs to: it was loaded for Python's extension
// module alone, so that a search by name (RTLD_NEXT) does not see it.
template <typename Function> static Function * engine_function(const char * name, void * caller) {
    static void * const library = [&] {
        Dl_info info;
        return dladdr(caller, &info) ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    }();
    void * function = library != nullptr ? dlsym(library, name) : nullptr;
    if (function == nullptr) {
        fail("the engine has no function ", name);
    }
    return (Function *) function;
}

// A local copy of the engine's function `name`, looked up at the first call.
#define ENGINE(Type, name, symbol) static auto * const name = engine_function<Type>(symbol, __builtin_return_address(0))

static const char * (*op_name)(int);
static const char * (*type_name)(int);

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

static void check_layout(const ggml_tensor * t) {
    ENGINE(const char *(const ggml_tensor *), get_name, "ggml_get_name");
    ENGINE(int64_t(const ggml_tensor *), n_elements, "ggml_nelements");
    ENGINE(const char *(const ggml_tensor *), op_description, "ggml_op_desc");
    const char * op = op_name(t->op);
    // Of these two, the description is the function's name instead.
    const bool described = strcmp(op, "UNARY") != 0 && strcmp(op, "GLU") != 0;
    if (get_name(t) != t->name || n_elements(t) != t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3] ||
        (described && strcmp(op_description(t), op) != 0)) {
        fail("this engine's ggml_tensor has another layout; see DWARF: ptype /o struct ggml_tensor", "");
    }
}

// `scheduler` comes from ggml_backend_sched_set_eval_callback below. `false` to
// every question leaves the graph whole: it is computed as without a callback.
static bool on_node(ggml_tensor * t, bool ask, void * scheduler) {
    ENGINE(void *(void *, const ggml_tensor *), backend_of, "ggml_backend_sched_get_tensor_backend");
    ENGINE(const char *(void *), backend_name, "ggml_backend_name");
    static const bool experts = getenv("ENGINE_TRACE_EXPERTS") != nullptr;
    if (!ask) {
        trace().experts(t);
        return true;
    }
    check_layout(t);
    void * backend = backend_of(scheduler, t);
    trace().node(t, backend ? backend_name(backend) : "");
    return experts && strcmp(op_name(t->op), "MUL_MAT_ID") == 0;
}

struct Batch {
    char bytes[56]; // llama_batch, by value
};

extern "C" {

void ggml_backend_sched_set_eval_callback(void * scheduler, bool (*)(ggml_tensor *, bool, void *), void *) {
    using SetCallback = void(void *, bool (*)(ggml_tensor *, bool, void *), void *);
    ENGINE(SetCallback, engine_set, "ggml_backend_sched_set_eval_callback");
    op_name = engine_function<const char *(int)>("ggml_op_name", __builtin_return_address(0));
    type_name = engine_function<const char *(int)>("ggml_type_name", __builtin_return_address(0));
    engine_set(scheduler, on_node, scheduler);
}

int32_t llama_process(void * context, int type, void * batch) {
    ENGINE(int32_t(void *, int, void *), engine_process, "llama_process");
    trace().begin_step();
    const int32_t status = engine_process(context, type, batch);
    trace().end_step("llama_process");
    return status;
}

int32_t llama_decode(void * context, Batch batch) {
    ENGINE(int32_t(void *, Batch), engine_decode, "llama_decode");
    trace().begin_step();
    const int32_t status = engine_decode(context, batch);
    trace().end_step("llama_decode");
    return status;
}

// llama_context::process_ubatch(const llama_ubatch &, llm_graph_type, llama_memory_context_i *, ggml_status &)
#define PROCESS_UBATCH _ZN13llama_context14process_ubatchERK12llama_ubatch14llm_graph_typeP22llama_memory_context_iR11ggml_status
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

void * PROCESS_UBATCH(void * context, const uint32_t * ubatch, int graph_type, void * memory, int * status) {
    ENGINE(void *(void *, const uint32_t *, int, void *, int *), engine_process, TEXT(PROCESS_UBATCH));
    trace().begin_graph((int) ubatch[1]); // its first two members: equal_seqs and n_tokens, 32 bits each
    return engine_process(context, ubatch, graph_type, memory, status);
}
}
