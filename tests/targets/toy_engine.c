#include "toy_engine.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_OPERATORS 64
#define MAX_LANES 16

static struct toy_tensor tensors[MAX_OPERATORS];
volatile long toy_sink;
/* Rounds of an operator; TOY_WORK sets another number. */
static long work = 200;
/* Rounds in a barrier, by TOY_BARRIER. */
static long barrier;
/* Its own account, where lanes spend time in barriers: in operators, and of lanes from their first operator to their
 * end, which is the graph's for the first one; ns. */
static long long operator_ns, lane_ns;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Mapped and unmapped in each graph, by TOY_LOADS; and how long that took. */
static const char *loaded;
static long long loading_ns;

static void load(void)
{
	long long start = now_ns();
	void *library = dlopen(loaded, RTLD_NOW);

	if (library)
		dlclose(library);
	loading_ns += now_ns() - start;
}

static void account_for_loading(void)
{
	fprintf(stderr, "toy: loading %lld ns\n", loading_ns);
}

static void account(void)
{
	fprintf(stderr, "toy: operators %lld ns of %lld ns\n", operator_ns, lane_ns);
}

__attribute__((noinline)) void toy_operator(struct toy_params *params, struct toy_tensor *tensor)
{
	toy_sink += toy_work(work, tensor->op) + params->lane;
}

/* Where lanes would wait for one another; these need not, but may take some time. */
__attribute__((noinline)) void toy_barrier(struct toy_params *params)
{
	toy_sink += params->lanes;
	if (barrier)
		toy_sink += toy_work(barrier, params->lane);
}

struct work {
	struct toy_params params;
	int operators;
	long long first_ns, operator_ns, end_ns;
};

static void *run_lane(void *argument)
{
	struct work *work = argument;

	if (barrier)
		work->first_ns = now_ns();
	for (int i = 0; i < work->operators; i++) {
		long long start = barrier ? now_ns() : 0;

		toy_operator(&work->params, &tensors[i]);
		if (barrier)
			work->operator_ns += now_ns() - start;
		toy_barrier(&work->params);
	}
	if (barrier)
		work->end_ns = now_ns();
	return NULL;
}

/* Its workers live for one graph, as some engines' do. */
__attribute__((noinline)) int toy_graph(int operators, int lanes)
{
	pthread_t threads[MAX_LANES];
	struct work works[MAX_LANES];

	if (loaded)
		load();
	for (int lane = 0; lane < lanes; lane++)
		works[lane] = (struct work){ .params = { lane, lanes }, .operators = operators };
	for (int lane = 1; lane < lanes; lane++)
		pthread_create(&threads[lane], NULL, run_lane, &works[lane]);
	run_lane(&works[0]);
	for (int lane = 1; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	if (barrier)
		works[0].end_ns = now_ns();
	for (int lane = 0; barrier && lane < lanes; lane++) {
		operator_ns += works[lane].operator_ns;
		lane_ns += works[lane].end_ns - works[lane].first_ns;
	}
	return operators;
}

__attribute__((noinline)) int toy_step(struct toy_batch batch, int operators, int lanes)
{
	const char *rounds = getenv("TOY_WORK"), *waits = getenv("TOY_BARRIER"), *loads = getenv("TOY_LOADS");

	if (operators > MAX_OPERATORS || lanes > MAX_LANES || lanes < 1)
		return -1;
	if (rounds)
		work = atol(rounds);
	if (waits && !barrier) {
		barrier = atol(waits);
		atexit(account);
	}
	if (loads && !loaded) {
		loaded = loads;
		atexit(account_for_loading);
	}
	for (int i = 0; i < operators; i++) {
		tensors[i].op = i % 3;
		snprintf(tensors[i].name, sizeof(tensors[i].name), "blk.%d.tensor", i);
		tensors[i].shape[0] = 64;
		tensors[i].shape[1] = batch.tokens;
		tensors[i].inputs[0] = i ? &tensors[i - 1] : NULL;
	}
	return toy_graph(operators, lanes) == operators ? 0 : -1;
}
