/*
 * inlined [STEPS]: an engine whose operators the compiler puts into the functions that call them. It says how often it
 * called each, and the sums of what it gave them. Compiled by gcc and clang, -O1 to -O3.
 */
#include <stdio.h>
#include <stdlib.h>

struct item {
	int op;
	int weight;
	long result;
};

struct settings {
	int lane;
	int lanes;
	long scratch[6];
};

#define ITEMS 7

static struct item items[ITEMS];
#ifdef STATIC_ITEMS /* gcc describes their addresses by long sums, which no probe can follow */
#define ITEM(i) (&items[i])
#else
static struct item *list[ITEMS];
#define ITEM(i) list[i]
#endif
volatile long sink;
static long called, lanes_sum, ops_sum;

/* As a real one does: it looks at what it is to do, and calls a function for that. */
__attribute__((noinline)) void add(struct settings *settings, struct item *item)
{
	sink += item->weight + settings->lane;
}

__attribute__((noinline)) void multiply(struct settings *settings, struct item *item)
{
	sink += item->weight * settings->lanes;
}

static inline __attribute__((always_inline)) void compute(struct settings *settings, struct item *item)
{
	if (item->op == 0)
		return;
	switch (item->op) {
	case 1:
		add(settings, item);
		break;
	case 2:
		multiply(settings, item);
		break;
	case 3:
		for (int i = 0; i < item->weight; i++)
			item->result += settings->scratch[i % 6];
		break;
	default:
		item->result = settings->lane;
	}
}

/* Parameters on the frame and in a register, in a loop. */
__attribute__((noinline)) void run_graph(int lane, int count)
{
	struct settings settings = { lane, 2, { lane, 1, 2, 3, 4, 5 } };

	for (int i = 0; i < count; i++) {
		struct item *item = ITEM(i);

		if (item->weight < 0)
			continue;
		called++;
		lanes_sum += lane;
		ops_sum += item->op;
		compute(&settings, item);
		sink++;
	}
}

/* Parameters as they come in, once. */
__attribute__((noinline)) void run_one(struct settings *settings, struct item *item)
{
	called++;
	lanes_sum += settings->lane;
	ops_sum += item->op;
	compute(settings, item);
	sink--;
}

__attribute__((noinline)) int step(int number)
{
	struct settings settings = { 5, 6, { number } };

	for (int lane = 0; lane < 2; lane++)
		run_graph(lane, ITEMS);
	run_one(&settings, ITEM(number % ITEMS));
	return number;
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 10;

#ifndef STATIC_ITEMS
	for (int i = 0; i < ITEMS; i++)
		list[i] = &items[i];
#endif
	for (int i = 0; i < ITEMS; i++)
		items[i] = (struct item){ i % 5, i == 4 ? -1 : i + 1, 0 };
	for (int i = 0; i < steps; i++)
		step(i);
	printf("%ld calls lanes %ld ops %ld\n", called, lanes_sum, ops_sum);
	return 0;
}
