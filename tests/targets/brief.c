/*
 * Operators of a microsecond and of a hundred, in steps. Each is computed once more by a copy that no probe is on:
 * the program says how long one takes, by its own clock.
 *
 *   brief STEPS
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { OPERATORS = 40, SHORT = 0, LONG = 1 };

static const long rounds[] = { [SHORT] = 500, [LONG] = 50000 };

struct work {
	int32_t kind;
	char name[12];
};

static volatile uint64_t sink;

static inline __attribute__((always_inline)) void compute(const struct work *work)
{
	uint64_t sum = sink;
	for (long at = 0; at < rounds[work->kind]; at++)
		sum = sum * 6364136223846793005u + 1442695040888963407u;
	sink = sum;
}

/* Alike, and two functions: the compiler must not make them one. */
__attribute__((noinline, no_icf)) void brief_operator(const struct work *work) { compute(work); }
static __attribute__((noinline, no_icf)) void not_probed(const struct work *work) { compute(work); }

static int64_t now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

__attribute__((noinline)) void brief_step(struct work *works)
{
	for (int at = 0; at < OPERATORS; at++)
		brief_operator(&works[at % 2]);
}

static int ascending(const void *a, const void *b)
{
	int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
	return (left > right) - (left < right);
}

int main(int count, char **words)
{
	int steps = count > 1 ? atoi(words[1]) : 100;
	struct work works[2] = { { SHORT, "short" }, { LONG, "long" } };
	int64_t *times[2] = { calloc(steps, sizeof(int64_t)), calloc(steps, sizeof(int64_t)) };
	if (steps < 1 || !times[0] || !times[1])
		return 1;
	for (int step = 0; step < steps; step++) {
		brief_step(works);
		/* Many in a row, so that the clock is not in the figure. */
		for (int kind = 0; kind < 2; kind++) {
			int64_t start = now();
			for (int at = 0; at < OPERATORS / 2; at++)
				not_probed(&works[kind]);
			times[kind][step] = now() - start;
		}
	}
	for (int kind = 0; kind < 2; kind++) {
		qsort(times[kind], steps, sizeof(int64_t), ascending);
		printf("%s %.1f\n", works[kind].name, (double)times[kind][steps / 2] / (OPERATORS / 2));
	}
	return 0;
}
