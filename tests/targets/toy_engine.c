#include "toy_engine.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_OPERATORS 64
#define MAX_LANES 16

static struct toy_tensor tensors[MAX_OPERATORS];
volatile long toy_sink;
/* Rounds of an operator; TOY_WORK sets another number. */
static long work = 200;
/* Rounds in a barrier, by TOY_BARRIER. */
static long barrier;

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
};

static void *run_lane(void *argument)
{
	struct work *work = argument;

	for (int i = 0; i < work->operators; i++) {
		toy_operator(&work->params, &tensors[i]);
		toy_barrier(&work->params);
	}
	return NULL;
}

/* Its workers live for one graph, as some engines' do. */
__attribute__((noinline)) int toy_graph(int operators, int lanes)
{
	pthread_t threads[MAX_LANES];
	struct work works[MAX_LANES];

	for (int lane = 0; lane < lanes; lane++)
		works[lane] = (struct work){ { lane, lanes }, operators };
	for (int lane = 1; lane < lanes; lane++)
		pthread_create(&threads[lane], NULL, run_lane, &works[lane]);
	run_lane(&works[0]);
	for (int lane = 1; lane < lanes; lane++)
		pthread_join(threads[lane], NULL);
	return operators;
}

__attribute__((noinline)) int toy_step(struct toy_batch batch, int operators, int lanes)
{
	const char *rounds = getenv("TOY_WORK"), *waits = getenv("TOY_BARRIER");

	if (operators > MAX_OPERATORS || lanes > MAX_LANES || lanes < 1)
		return -1;
	if (rounds)
		work = atol(rounds);
	if (waits)
		barrier = atol(waits);
	for (int i = 0; i < operators; i++) {
		tensors[i].op = i % 3;
		snprintf(tensors[i].name, sizeof(tensors[i].name), "blk.%d.tensor", i);
		tensors[i].shape[0] = 64;
		tensors[i].shape[1] = batch.tokens;
		tensors[i].inputs[0] = i ? &tensors[i - 1] : NULL;
	}
	return toy_graph(operators, lanes) == operators ? 0 : -1;
}
