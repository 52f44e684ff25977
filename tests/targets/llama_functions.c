/*
 * llama_functions [STEPS [LANES [PAUSE]]]: the functions and structures of llama.cpp that its probeset names, with call
 * counts that are known, for machines on which the engine itself is not at hand. It computes nothing; it waits for PAUSE
 * milliseconds before each step. Compiled as
 *   -DDISPATCHER=SYMBOL    with ggml_compute_forward as a function
 *   -DDISPATCHER=INLINED   with ggml_compute_forward in its callers only
 *   -DDISPATCHER=NONE      with neither that nor symbols of static functions, as in a stripped library
 *   and -DHIDDEN           without names of exported functions of graphs and operators either, as in a stripped program
 * The first of them has the method that llama_decode calls, the last no names of the functions that programs call.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SYMBOL 1
#define INLINED 2
#define NONE 3

#define EXPORT __attribute__((noinline))
#define NODES 6
#define MAX_LANES 8
#define TOKENS 4
#define EXPERTS_A_TOKEN 2
#define EXPERTS 8

enum ggml_type { GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I32 = 26, GGML_TYPE_Q2_0 = 42, NEWER_TYPE = 200 };
enum ggml_op { GGML_OP_NONE, GGML_OP_ADD = 2, GGML_OP_RMS_NORM = 25, GGML_OP_MUL_MAT = 29, GGML_OP_MUL_MAT_ID = 30 };

struct ggml_tensor {
	enum ggml_type type;
	void *buffer;
	int64_t ne[4];
	size_t nb[4];
	enum ggml_op op;
	int32_t op_params[16];
	int32_t flags;
	struct ggml_tensor *src[10];
	struct ggml_tensor *view_src;
	size_t view_offs;
	void *data;
	char name[64];
	void *extra;
	char padding[8];
};

struct ggml_compute_params {
	int ith, nth;
	size_t wsize;
	void *wdata;
	void *threadpool;
};

struct ggml_cgraph {
	int size, n_nodes, n_leafs;
	struct ggml_tensor **nodes, **grads, **grad_accs, **leafs;
	int32_t *use_counts;
	struct {
		size_t size;
		uint32_t *used;
		struct ggml_tensor **keys;
	} visited_hash_set;
	int order;
	uint64_t uid;
};

struct llama_batch {
	int32_t n_tokens;
	int32_t *token;
	float *embd;
	int32_t *pos;
	int32_t *n_seq_id;
	int32_t **seq_id;
	int8_t *logits;
};

struct llama_ubatch {
	uint32_t b_equal_seqs, n_tokens, n_seq_tokens, n_seqs, n_seqs_unq, n_pos;
#if DISPATCHER != INLINED
	uint64_t of_newer_ones;
#endif
	int32_t *token;
	float *embd;
	int32_t *pos;
	int32_t *n_seq_id;
	int32_t **seq_id;
	int32_t *seq_id_unq;
	int32_t *seq_idx;
	int8_t *output;
};

struct server_slot {
	int32_t id;
};

struct server_task {
	int32_t id;
};

static struct ggml_tensor nodes[NODES], *list[NODES], weight, ids, norm, scaled;
static int32_t chosen[TOKENS][EXPERTS];
static int lanes = 2;
static pthread_barrier_t turn;
volatile long sink;
static long graphs, operators, fused;

EXPORT void ggml_barrier(void *pool)
{
	sink++;
	pthread_barrier_wait(pool);
}

/* What is left of a function's name are the texts of its checks, and that it is called before a switch. */
#ifdef HIDDEN
#define ggml_cpu_extra_compute_forward handled
#define ggml_compute_forward_rms_norm_mul_fused pair
#define CHECK(condition, text) ((condition) ? (void)0 : fail(text))
#define CASE(number)                                                                                                   \
	case number:                                                                                                   \
		__asm__ volatile("" ::"i"(number));                                                                    \
		ggml_compute_forward_mul_mat(params, tensor);                                                          \
		break
#define CASES CASE(3); CASE(4); CASE(5); CASE(6); CASE(7); CASE(8); CASE(9); CASE(25); CASE(29); CASE(30)
EXPORT void fail(const char *text)
{
	fputs(text, stderr);
}
#else
#define CHECK(condition, text)
#define CASES
#endif

EXPORT int ggml_cpu_extra_compute_forward(struct ggml_compute_params *params, struct ggml_tensor *tensor)
{
	sink += tensor->op + params->ith;
	return 0;
}

EXPORT void ggml_compute_forward_add(struct ggml_compute_params *params, struct ggml_tensor *tensor)
{
	sink += tensor->ne[0] + params->nth;
}

EXPORT void ggml_compute_forward_mul_mat(struct ggml_compute_params *params, struct ggml_tensor *tensor)
{
	sink += tensor->ne[1] * params->nth;
}

EXPORT void ggml_compute_forward_rms_norm_mul_fused(struct ggml_compute_params *params, struct ggml_tensor *first,
						    struct ggml_tensor *last)
{
	CHECK(params->nth > 0, "dst_mul->src[0] == dst_rms_norm || dst_mul->src[1] == dst_rms_norm");
	sink += first->ne[0] + last->ne[1] + params->ith;
}

#if DISPATCHER == SYMBOL
EXPORT
#else
static inline __attribute__((always_inline))
#endif
#if DISPATCHER == NONE
void dispatch(struct ggml_compute_params *params, struct ggml_tensor *tensor)
#define ggml_compute_forward dispatch
#else
void ggml_compute_forward(struct ggml_compute_params *params, struct ggml_tensor *tensor)
#endif
{
	if (tensor->op == GGML_OP_NONE)
		return;
	if (ggml_cpu_extra_compute_forward(params, tensor))
		return;
	switch ((int)tensor->op) {
	case GGML_OP_ADD:
		ggml_compute_forward_add(params, tensor);
		break;
		CASES;
	default:
		ggml_compute_forward_mul_mat(params, tensor);
	}
}

/* One lane's share of a graph: each node, and a pair of nodes in one go. */
EXPORT void *graph_compute_thread(void *lane)
{
	struct ggml_compute_params params = { (int)(intptr_t)lane, lanes, 0, NULL, &turn };

	for (int i = 0; i < NODES; i++) {
		struct ggml_tensor *node = list[i];

		if (node->ne[0] < 0)
			continue;
		ggml_compute_forward(&params, node);
		ggml_barrier(params.threadpool);
	}
	ggml_compute_forward_rms_norm_mul_fused(&params, &norm, &scaled);
	ggml_barrier(params.threadpool);
	return NULL;
}

#if DISPATCHER == NONE
#define ggml_backend_cpu_graph_compute compute_graph
#endif
#ifdef HIDDEN
EXPORT int compute_graph(struct ggml_cgraph *graph, void *plan)
#else
EXPORT int ggml_backend_cpu_graph_compute(void *backend, struct ggml_cgraph *graph)
#endif
{
	pthread_t threads[MAX_LANES];

	CHECK(lanes > 0, "cplan->n_threads > 0");
	for (intptr_t lane = 1; lane < lanes; lane++)
		pthread_create(&threads[lane], NULL, graph_compute_thread, (void *)lane);
	graph_compute_thread(NULL);
	for (int lane = 1; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	graphs++;
	operators += (long)graph->n_nodes * lanes;
	fused += lanes;
	return 0;
}

EXPORT void ggml_backend_blas_mul_mat(void *context, struct ggml_tensor *tensor)
{
	sink += tensor->ne[0];
}

/* A backend for GPUs: it encodes each node, and copies to and from the device. */
EXPORT _Bool encode(void *context, struct ggml_cgraph *graph, int index) __asm__(
	"_ZL19ggml_vk_build_graphP23ggml_backend_vk_contextP11ggml_cgraphiP11ggml_tensoribbb");
_Bool encode(void *context, struct ggml_cgraph *graph, int index)
{
	sink += index;
	return context != graph;
}

/* Its older forms are called twice for each node, the first time without encoding it. */
EXPORT _Bool encode_twice(void *context, struct ggml_cgraph *graph, int index, struct ggml_tensor *from, int from_index,
			  _Bool dry_run) __asm__(
	"_ZL19ggml_vk_build_graphP23ggml_backend_vk_contextP11ggml_cgraphiP11ggml_tensoribbbb");
_Bool encode_twice(void *context, struct ggml_cgraph *graph, int index, struct ggml_tensor *from, int from_index, _Bool dry_run)
{
	/* What a function does not use, clang's callers do not pass. */
	sink += graph->n_nodes + index - from_index + dry_run;
	return context != from;
}

EXPORT _Bool encode_tensor(void *context, struct ggml_tensor *tensor, int index, struct ggml_tensor *from, int from_index,
			   _Bool dry_run) __asm__(
	"_ZL19ggml_vk_build_graphP23ggml_backend_vk_contextP11ggml_tensoriS2_ibbbb");
_Bool encode_tensor(void *context, struct ggml_tensor *tensor, int index, struct ggml_tensor *from, int from_index,
		    _Bool dry_run)
{
	sink += tensor->ne[0] + index - from_index + dry_run;
	return context != from;
}

EXPORT void ggml_backend_vk_buffer_set_tensor(void *buffer, struct ggml_tensor *tensor, const void *data, size_t offset,
					      size_t bytes)
{
	sink += tensor->ne[0] + offset + bytes;
}

EXPORT void ggml_backend_vk_buffer_get_tensor(void *buffer, struct ggml_tensor *tensor, void *data, size_t offset,
					      size_t bytes)
{
	sink -= tensor->ne[0] + offset + bytes;
}

/* Another one encodes the same; and what goes from one backend to another. */
EXPORT _Bool ggml_cuda_compute_forward(void *context, struct ggml_tensor *tensor)
{
	sink += tensor->ne[0];
	return context != tensor;
}

/* The functions of single operators, and what those of products are called in C++. */
EXPORT void ggml_cuda_op_add(void *context, struct ggml_tensor *tensor)
{
	sink += tensor->ne[0] + (context != tensor);
}

EXPORT void ggml_cuda_argmax(void *context, struct ggml_tensor *tensor)
{
	sink += tensor->ne[1] + (context != tensor);
}

EXPORT void ggml_cuda_cpy(void *context, struct ggml_tensor *from, struct ggml_tensor *to)
{
	sink += from->ne[1] - to->ne[0] + (context != to);
}

EXPORT void ggml_cuda_op_rms_norm_fused(void *context, struct ggml_tensor *first, struct ggml_tensor *last)
{
	sink += first->ne[1] - last->ne[1] + (context != last);
}

EXPORT void ggml_cuda_op_rms_norm_fused_add(void *context, struct ggml_tensor *first, struct ggml_tensor *second,
					    struct ggml_tensor *last)
{
	sink += first->ne[2] - second->ne[1] + last->ne[0] + (context != last);
}

EXPORT void ggml_cuda_op_rms_norm_mul_rope_fused(void *context, struct ggml_tensor *first, struct ggml_tensor *second,
						 struct ggml_tensor *third, struct ggml_tensor *last)
{
	sink += first->ne[3] - second->ne[1] + third->ne[0] + last->ne[2] + (context != last);
}

EXPORT void product(void *context, const struct ggml_tensor *a, const struct ggml_tensor *b, struct ggml_tensor *tensor)
	__asm__("_Z17ggml_cuda_mul_matR25ggml_backend_cuda_contextPK11ggml_tensorS3_PS1_");
void product(void *context, const struct ggml_tensor *a, const struct ggml_tensor *b, struct ggml_tensor *tensor)
{
	sink += a->ne[0] - b->ne[2] + tensor->ne[1] + (context != tensor);
}

EXPORT void product_of_rows(void *context, const struct ggml_tensor *a, const struct ggml_tensor *b,
			    const struct ggml_tensor *ids, struct ggml_tensor *tensor)
	__asm__("_Z19ggml_cuda_mul_mat_fR25ggml_backend_cuda_contextPK11ggml_tensorS3_S3_PS1_");
void product_of_rows(void *context, const struct ggml_tensor *a, const struct ggml_tensor *b, const struct ggml_tensor *ids,
		     struct ggml_tensor *tensor)
{
	sink += a->ne[0] - b->ne[3] + ids->ne[0] + tensor->ne[2] + (context != tensor);
}

EXPORT void ggml_backend_tensor_copy(struct ggml_tensor *from, struct ggml_tensor *to)
{
	sink += from->ne[0] - to->ne[0];
}

EXPORT _Bool ggml_backend_vk_cpy_tensor_async(void *from, void *to, struct ggml_tensor *source, struct ggml_tensor *result)
{
	sink += source->ne[0] - result->ne[0];
	return from != to;
}

/* Of the backend with the functions above, where it looks for nodes to fuse; the probes above are then left out. */
#if DISPATCHER == NONE
EXPORT int ggml_cuda_try_fuse(void *context, struct ggml_cgraph *graph, int index)
{
	sink += graph->nodes[index]->ne[1] + (context != graph);
	return 0;
}

EXPORT int cuStreamEndCapture(void *stream, void **graph)
{
	sink += stream != graph;
	return 0;
}
#endif

static void offload(struct ggml_cgraph *graph)
{
#if DISPATCHER == NONE
	for (int i = 0; i < NODES; i++)
		ggml_cuda_try_fuse(&turn, graph, i);
	cuStreamEndCapture(&turn, NULL);
#endif
	ggml_backend_tensor_copy(graph->nodes[0], graph->nodes[1]);
	ggml_backend_vk_cpy_tensor_async(&turn, &norm, graph->nodes[0], graph->nodes[1]);
	ggml_cuda_compute_forward(&turn, graph->nodes[0]);
	ggml_cuda_op_add(&turn, graph->nodes[0]);
	ggml_cuda_argmax(&turn, graph->nodes[0]);
	ggml_cuda_cpy(&turn, graph->nodes[0], graph->nodes[0]);
	ggml_cuda_op_rms_norm_fused(&turn, &norm, graph->nodes[0]);
	ggml_cuda_op_rms_norm_fused_add(&turn, &norm, &norm, graph->nodes[0]);
	ggml_cuda_op_rms_norm_mul_rope_fused(&turn, &norm, &norm, &norm, graph->nodes[0]);
	product(&turn, &norm, &norm, graph->nodes[0]);
	product_of_rows(&turn, &norm, &norm, &norm, graph->nodes[0]);
	ggml_backend_vk_buffer_set_tensor(&turn, &norm, &norm, 0, 64);
	for (int i = 0; i < NODES; i++)
		encode(&turn, graph, i);
	for (int dry_run = 1; dry_run >= 0; dry_run--) {
		for (int i = 0; i < NODES; i++) {
			encode_twice(&turn, graph, i, list[0], 0, dry_run);
			encode_tensor(&turn, list[i], i, list[0], 0, dry_run);
		}
	}
	ggml_backend_vk_buffer_get_tensor(&turn, &norm, &norm, 0, 64);
}

#ifdef HIDDEN
#define PUBLIC_GRAPH_COMPUTE(backend, graph) compute_graph(graph, backend)
#elif DISPATCHER == NONE
#define PUBLIC_GRAPH_COMPUTE ggml_backend_graph_compute_async
EXPORT int ggml_backend_graph_compute_async(void *backend, struct ggml_cgraph *graph)
{
	int status = ggml_backend_cpu_graph_compute(backend, graph);

	sink++;
	return status;
}
#else
#define PUBLIC_GRAPH_COMPUTE ggml_backend_cpu_graph_compute
#endif

/* One form is of the time when a batch's result was a class, returned in memory. */
#if DISPATCHER == INLINED
struct result {
	void *of[3];
};
#define RESULT(context) ((struct result){ { context } })

/* The name of a class's type information. */
const char type_name[] = "22llama_memory_context_i";

EXPORT long graph_init(void *context) __asm__("_ZN13llama_context10graph_initEv");
EXPORT long graph_init(void *context)
{
	return context ? type_name[2] : sink;
}
#else
struct result {
	void *of;
};
#define RESULT(context) ((struct result){ context })
#endif

/* llama_context::process_ubatch(llama_ubatch const&, …) */
EXPORT struct result process_ubatch(void *context, const struct llama_ubatch *ubatch, int type, void *memory,
				    int *status) __asm__(
	"_ZN13llama_context14process_ubatchERK12llama_ubatch14llm_graph_typeP22llama_memory_context_iR11ggml_status");
EXPORT struct result process_ubatch(void *context, const struct llama_ubatch *ubatch, int type, void *memory, int *status)
{
	struct ggml_cgraph graph = { .size = NODES, .n_nodes = NODES, .n_leafs = 1, .uid = 7 };

	graph.nodes = list;
	*status = PUBLIC_GRAPH_COMPUTE(context, &graph);
	offload(&graph);
	sink += ubatch->n_tokens;
	return RESULT(context);
}

/* llm_graph_input_pos::set_input(llama_ubatch const*), whose code shows where positions are */
EXPORT void set_input(void *self, const struct llama_ubatch *ubatch) __asm__(
	"_ZN19llm_graph_input_pos9set_inputEPK12llama_ubatch");
EXPORT void set_input(void *self, const struct llama_ubatch *ubatch)
{
	/* Read before anything else, whatever the compiler. */
	const int32_t *pos = *(int32_t *const volatile *)&ubatch->pos;

	if (pos && self)
		sink += ubatch->n_tokens;
}

static int run(int tokens)
{
	static int32_t pos[TOKENS], sequences[TOKENS], *seq_id[TOKENS];
	static int8_t output[TOKENS];
	struct llama_ubatch ubatch = { .n_tokens = tokens, .n_seqs_unq = 1, .pos = pos, .seq_id = seq_id, .output = output };
	int status = 1;

	/* All of them are written: a page that nobody has touched cannot be read from outside. */
	for (int token = 0; token < TOKENS; token++) {
		pos[token] = token;
		sequences[token] = 0;
		seq_id[token] = &sequences[token];
		output[token] = 1;
	}

	process_ubatch(&turn, &ubatch, 0, NULL, &status);
	return status;
}

/* llama_context::decode(llama_batch const&) */
#if DISPATCHER == SYMBOL && !defined(EVAL)
EXPORT int decode(void *context, const struct llama_batch *batch) __asm__("_ZN13llama_context6decodeERK11llama_batch");
EXPORT int decode(void *context, const struct llama_batch *batch)
{
	int status = run(batch->n_tokens);

	sink += context != NULL;
	return status;
}
#else
#define decode(context, batch) run((batch)->n_tokens)
#endif

/* One form hides these functions: what is left of their names are their messages. */
#if DISPATCHER == NONE
#define llama_decode first_hidden
#define llama_encode second_hidden
#endif
#ifndef EVAL
EXPORT int llama_decode(void *context, struct llama_batch batch)
{
	int status = decode(context, &batch);

	if (status)
		fprintf(stderr, "%s: failed to decode, ret = %d\n", "llama_decode", status);
	return status;
}
#endif

EXPORT int llama_encode(void *context, struct llama_batch batch)
{
	int status = run(batch.n_tokens);

	if (status)
		fprintf(stderr, "%s: failed to encode, ret = %d\n", "llama_encode", status);
	return status;
}

#ifdef EVAL
/* What there was before batches. */
EXPORT int llama_eval(void *context, const int *tokens, int count)
{
	int status = run(count);

	sink += tokens == context;
	return status;
}
#endif

EXPORT void llama_free(void *context)
{
	sink += context != NULL;
}

EXPORT int llama_process(void *context, int type, void *batch)
{
	int status = run(1);

	sink += type;
	return status;
}

/* The server: a request arrives, gets a slot, gives a token a step, and leaves. */
EXPORT int get_new_id(void *queue) __asm__("_ZN12server_queue10get_new_idEv");
EXPORT int get_new_id(void *queue)
{
	sink += queue != NULL;
	return 7;
}

EXPORT int launch(void *server, struct server_slot *slot, struct server_task *task) __asm__(
	"_ZN19server_context_impl21launch_slot_with_taskER11server_slotO11server_task");
EXPORT int launch(void *server, struct server_slot *slot, struct server_task *task)
{
	sink += slot->id + task->id;
	return server != NULL;
}

EXPORT int process_token(void *server, void *result, struct server_slot *slot) __asm__(
	"_ZN19server_context_impl13process_tokenER23completion_token_outputR11server_slot");
EXPORT int process_token(void *server, void *result, struct server_slot *slot)
{
	sink += slot->id;
	return server != result;
}

EXPORT void release_slot(struct server_slot *slot) __asm__("_ZN11server_slot7releaseEv");
EXPORT void release_slot(struct server_slot *slot)
{
	sink += slot->id;
}

static void name(struct ggml_tensor *tensor, const char *format, int number)
{
	snprintf(tensor->name, sizeof(tensor->name), format, number);
	tensor->ne[0] = 64;
	tensor->ne[1] = TOKENS;
	tensor->ne[2] = tensor->ne[3] = 1;
	tensor->nb[0] = 4;
	tensor->nb[1] = 4 * 64;
}

static void build(void)
{
	static const enum ggml_op ops[] = { GGML_OP_ADD, GGML_OP_MUL_MAT, GGML_OP_MUL_MAT_ID };

	name(&weight, "weight", 0);
	weight.type = GGML_TYPE_Q2_0;
	name(&norm, "norm-%d", 0);
	norm.op = GGML_OP_RMS_NORM;
	norm.type = NEWER_TYPE;
	name(&scaled, "scaled-%d", 0);
	scaled.op = GGML_OP_ADD;
	scaled.src[0] = &norm;
	/* A view of a wider matrix: of each token's row the first ones are meant. */
	name(&ids, "ids", 0);
	ids.type = GGML_TYPE_I32;
	ids.ne[0] = EXPERTS_A_TOKEN;
	ids.nb[1] = sizeof(chosen[0]);
	ids.data = chosen;
	for (int token = 0; token < TOKENS; token++)
		for (int i = 0; i < EXPERTS; i++)
			chosen[token][i] = (token + 3 * i) % EXPERTS;
	for (int i = 0; i < NODES; i++) {
		list[i] = &nodes[i];
		name(&nodes[i], "node-%d", i);
		nodes[i].op = ops[i % 3];
		nodes[i].src[0] = &weight;
		nodes[i].src[1] = i ? &nodes[i - 1] : NULL;
		nodes[i].src[2] = nodes[i].op == GGML_OP_MUL_MAT_ID ? &ids : NULL;
	}
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 10, pause_ms = argc > 3 ? atoi(argv[3]) : 0, failed = 0;
	struct llama_batch batch = { .n_tokens = TOKENS };
	struct server_slot slot = { 0 };
	struct server_task task;

	lanes = argc > 2 ? atoi(argv[2]) : lanes;
	if (lanes < 1 || lanes > MAX_LANES)
		return 2;
	pthread_barrier_init(&turn, NULL, lanes);
	build();
	failed |= llama_encode(&turn, batch);
	task.id = get_new_id(&turn);
	launch(&turn, &slot, &task);
	for (int step = 0; step < steps; step++) {
		if (pause_ms > 0)
			usleep(1000 * pause_ms);
#ifdef EVAL
		failed |= llama_eval(&turn, NULL, batch.n_tokens);
#else
		failed |= llama_decode(&turn, batch);
#endif
		process_token(&turn, &batch, &slot);
		batch.n_tokens = 1;
	}
	release_slot(&slot);
	failed |= llama_process(&turn, 1, &batch);
	llama_free(&turn);
	ggml_backend_blas_mul_mat(&turn, &norm);
	printf("%ld graphs %ld operators %ld fused\n", graphs, operators, fused);
	return failed;
}
