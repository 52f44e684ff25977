// Writes what an engine itself says of its graphs, as NDJSON: the ground truth
// that recordings are compared with. Include it after a declaration of
// `ggml_tensor`: ggml.h's, or one's own for an engine that has no headers.
//
//   {"kind":"step","step":0,"call":"llama_decode","tokens":8}
//   {"kind":"node","step":0,"graph":0,"index":0,"op":"GET_ROWS","name":"embd",
//    "dtype":"f32","ne":[128,8,1,1],"srcs":[{"op","name","dtype","ne"},…],
//    "backend":"CPU","runs":true}
//   {"kind":"experts","step":0,"graph":0,"node":"ffn_moe_gate-0","ids":[[3,5],…]}
//
// A step's line comes before those of its nodes. `graph` counts within the step
// and `index` within the graph. `runs` is false for nodes that no kernel is
// called for: views, nodes not marked for computation, tensors without elements.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

class GraphTrace {
  public:
    using OpName   = const char * (*)(const ggml_tensor *);
    using TypeName = const char * (*)(const ggml_tensor *);

    GraphTrace(OpName op, TypeName type) : op_name(op), type_name(type) {}

    bool open(const char * path) { return (file = fopen(path, "w")) != nullptr; }
    bool is_open() const { return file != nullptr; }

    // Nested calls (one API function in terms of another) are the outermost one's step.
    void begin_step() {
        if (depth++ == 0) {
            graphs = nodes = tokens = 0;
            lines.clear();
        }
    }

    void begin_graph(int n_tokens) {
        tokens += n_tokens;
        graphs++;
        nodes = 0;
    }

    void node(const ggml_tensor * t, const char * backend) {
        const char * op = op_name(t);
        begin_line("node");
        add(",\"graph\":%d,\"index\":%d,", graphs - 1, nodes++);
        describe(t);
        lines += ",\"srcs\":[";
        const char * comma = "";
        for (const ggml_tensor * src : t->src) {
            if (src != nullptr) {
                lines += comma;
                lines += '{';
                describe(src);
                lines += '}';
                comma = ",";
            }
        }
        lines += "],\"backend\":";
        quote(backend);
        add(",\"runs\":%s}\n", runs(t, op) ? "true" : "false");
    }

    // To be called when `t`, a MUL_MAT_ID, has just been computed on the CPU.
    void experts(const ggml_tensor * t) {
        const ggml_tensor * ids = t->src[2]; // i32 [experts used, tokens], rows not always adjacent
        begin_line("experts");
        add(",\"graph\":%d,\"node\":", graphs - 1);
        quote(t->name);
        lines += ",\"ids\":[";
        for (int64_t token = 0; token < ids->ne[1]; token++) {
            lines += token ? ",[" : "[";
            for (int64_t i = 0; i < ids->ne[0]; i++) {
                int32_t id;
                memcpy(&id, (const char *) ids->data + token * ids->nb[1] + i * ids->nb[0], sizeof id);
                add(i ? ",%d" : "%d", id);
            }
            lines += ']';
        }
        lines += "]}\n";
    }

    void end_step(const char * call) {
        if (--depth > 0) {
            return;
        }
        fprintf(file, "{\"kind\":\"step\",\"step\":%d,\"call\":\"%s\",\"tokens\":%d}\n", step++, call, tokens);
        fwrite(lines.data(), 1, lines.size(), file);
        if (fflush(file) != 0) {
            perror("graph trace");
            exit(1);
        }
    }

  private:
    OpName op_name;
    TypeName type_name;
    FILE * file = nullptr;
    std::string lines; // of the step under way: how many tokens it has is known only at its end
    int step = 0, graphs = 0, nodes = 0, tokens = 0, depth = 0;

    // As ggml-cpu decides it: ggml_op_is_empty, GGML_TENSOR_FLAG_COMPUTE, ggml_is_empty.
    static bool runs(const ggml_tensor * t, const char * op) {
        for (const char * view : { "NONE", "RESHAPE", "TRANSPOSE", "VIEW", "PERMUTE" }) {
            if (strcmp(op, view) == 0) {
                return false;
            }
        }
        const int must_be_computed = 16;
        return (t->flags & must_be_computed) != 0 && t->ne[0] && t->ne[1] && t->ne[2] && t->ne[3];
    }

    void begin_line(const char * kind) { add("{\"kind\":\"%s\",\"step\":%d", kind, step); }

    void describe(const ggml_tensor * t) {
        add("\"op\":\"%s\",\"name\":", op_name(t));
        quote(t->name);
        add(",\"dtype\":\"%s\",\"ne\":[%lld,%lld,%lld,%lld]", type_name(t), (long long) t->ne[0],
            (long long) t->ne[1], (long long) t->ne[2], (long long) t->ne[3]);
    }

    void quote(const char * text) {
        lines += '"';
        for (; *text != 0; text++) {
            if (*text == '"' || *text == '\\') {
                lines += '\\';
                lines += *text;
            } else if ((unsigned char) *text < 0x20) {
                add("\\u%04x", *text);
            } else {
                lines += *text;
            }
        }
        lines += '"';
    }

    template <typename... Args> void add(const char * format, Args... args) {
        char text[256];
        snprintf(text, sizeof text, format, args...);
        lines += text;
    }
};
